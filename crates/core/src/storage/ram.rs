//! A `ram` target: objects in an arena of memory.
//!
//! A write into pages that the object does not have yet is staged. The object gets these pages when all bytes have arrived, so
//! nobody ever reads a recycled page before it was overwritten.

use super::arena::{Arena, Region, PAGE_BYTES};
use super::changes::Changes;
use super::failure::{StaleEpoch, TargetFailure};
use super::object::{Extent, Object, Stretch};
use super::pages::{Memory, Pages, Pin, Run};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use std::collections::HashMap;
use weir_wire::{limits, Extent as Range, Ino};

/// The shortest fresh run that is populated in one call: for shorter runs, faults are as fast.
const POPULATE_PAGES_MIN: u64 = 16;

/// Bytes of a read: a region of the arena, or the zeros of a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Bytes in the arena.
    Bytes(Region),
    /// A hole of this many bytes.
    Zeros(usize),
}

impl Segment {
    /// The number of bytes.
    pub(crate) fn length(&self) -> usize {
        match *self {
            Segment::Bytes(region) => region.length,
            Segment::Zeros(length) => length,
        }
    }
}

/// A read in progress. Its pages stay in place until [`Ram::finish_read`].
pub(crate) struct ReadPlan {
    /// The bytes in order.
    pub(crate) segments: Vec<Segment>,
    pin: Pin,
}

/// A write in progress: the places of its bytes, in order.
pub(crate) struct WritePlan {
    /// The regions to fill.
    pub(crate) regions: Vec<Region>,
    ino: Ino,
    epoch: u64,
    /// First byte and end of all ranges together, in the object.
    span: (u64, u64),
    staged: Vec<Staged>,
    pin: Pin,
}

/// Pages that a write allocated; the end of the write links them into the object.
struct Staged {
    page: u64,
    run: Run,
    /// Bytes of the run that the write fills.
    written: Region,
}

/// The objects of one target in memory.
pub(crate) struct Ram {
    arena: Box<dyn Arena>,
    pages: Pages,
    objects: HashMap<Ino, Object>,
    changes: Changes,
}

impl Ram {
    /// The objects and their lengths, in whole pages.
    pub(crate) fn listed(&self) -> Vec<(Ino, u64)> {
        self.objects.iter().map(|(&ino, object)| (ino, object.end_page() * PAGE_BYTES)).collect()
    }

    /// A target of this memory.
    pub(crate) fn new(arena: Box<dyn Arena>) -> Ram {
        let pages = Pages::new(arena.pages());
        Ram { arena, pages, objects: HashMap::new(), changes: Changes::default() }
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.arena.pages() * PAGE_BYTES
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        let free = self.pages.free_pages() + self.pages.limbo_pages();
        (self.arena.pages() - free) * PAGE_BYTES
    }

    /// Memory of free pages: recycled ones, and those ahead.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.pages.spare_pages() * PAGE_BYTES
    }

    /// Whether a transfer is in flight.
    pub(crate) fn is_in_use(&self) -> bool {
        self.pages.is_pinned()
    }

    /// The bytes of a segment that lies in the arena.
    pub(crate) fn bytes(&self, region: Region) -> &[u8] {
        self.arena.bytes(region)
    }

    /// The bytes of a region of a write plan.
    pub(crate) fn bytes_mut(&mut self, region: Region) -> &mut [u8] {
        self.arena.bytes_mut(region)
    }

    /// Begins a read.
    ///
    /// # Errors
    /// [`StaleEpoch`] if the object was cut since `epoch`.
    pub(crate) fn begin_read(
        &mut self,
        ino: Ino,
        epoch: u64,
        ranges: &[Range],
    ) -> Result<ReadPlan, StaleEpoch> {
        let mut segments = Vec::with_capacity(ranges.len());
        match self.objects.get(&ino) {
            Some(object) if object.epoch > epoch => return Err(StaleEpoch(object.epoch)),
            Some(object) => {
                for range in ranges {
                    read_segments(object, range, &mut segments);
                }
            }
            None => segments.extend(ranges.iter().map(|range| Segment::Zeros(range.length as usize))),
        }
        Ok(ReadPlan { segments, pin: self.pages.pin() })
    }

    /// Ends a read: others may take its pages.
    pub(crate) fn finish_read(&mut self, plan: &ReadPlan) {
        self.pages.unpin(plan.pin);
    }

    /// Begins a write: allocates the missing pages.
    ///
    /// # Errors
    /// ENOSPC if the target has too few free pages; nothing is allocated then. [`StaleEpoch`].
    pub(crate) fn begin_write(
        &mut self,
        ino: Ino,
        epoch: u64,
        ranges: &[Range],
    ) -> Result<WritePlan, TargetFailure> {
        self.check_epoch(ino, epoch)?;
        let pin = self.pages.pin();
        let span = ranges.iter().fold((u64::MAX, 0), |(first, end), range| {
            (first.min(range.offset), end.max(range.offset + u64::from(range.length)))
        });
        let mut plan = WritePlan { regions: Vec::new(), ino, epoch, span, staged: Vec::new(), pin };
        for range in ranges {
            if let Err(failure) = self.plan_range(&mut plan, range) {
                self.abandon_write(plan);
                return Err(failure);
            }
        }
        self.ask_ahead(u64::MAX);
        Ok(plan)
    }

    fn plan_range(&mut self, plan: &mut WritePlan, range: &Range) -> Result<(), TargetFailure> {
        if range.length == 0 {
            return Ok(());
        }
        let end = range.offset + u64::from(range.length);
        for stretch in self.stretches(plan.ino, range.offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES)) {
            let within = |page: u64, arena_page: u64, pages: u64| {
                let first = (page * PAGE_BYTES).max(range.offset);
                let last = ((page + pages) * PAGE_BYTES).min(end);
                Region {
                    offset: arena_page * PAGE_BYTES + (first - page * PAGE_BYTES),
                    length: (last - first) as usize,
                }
            };
            if let Some(arena_page) = stretch.arena_page {
                plan.regions.push(within(stretch.page, arena_page, stretch.pages));
                continue;
            }
            let runs = self.pages.take(stretch.pages).ok_or(TargetFailure::Full)?;
            let mut page = stretch.page;
            for run in runs {
                let written = within(page, run.first, run.pages);
                clear_edges(&mut *self.arena, run, written);
                plan.regions.push(written);
                plan.staged.push(Staged { page, run, written });
                page += run.pages;
            }
        }
        Ok(())
    }

    /// Whether a write may still receive bytes. Some bytes go straight over old ones, and another object may have the pages of
    /// an object that was cut since.
    ///
    /// # Errors
    /// [`StaleEpoch`] if the object was cut since the write began.
    pub(crate) fn check_write(&self, plan: &WritePlan) -> Result<(), StaleEpoch> {
        self.check_epoch(plan.ino, plan.epoch)
    }

    /// Ends a write whose bytes have all arrived: links its staged pages.
    ///
    /// # Errors
    /// [`StaleEpoch`] if the object was cut meanwhile; the bytes are not in the file then.
    pub(crate) fn finish_write(&mut self, plan: WritePlan) -> Result<(), StaleEpoch> {
        let object = self.objects.entry(plan.ino).or_default();
        let is_stale = object.epoch > plan.epoch;
        #[cfg(any(test, feature = "world"))]
        let is_stale = is_stale && !mutants::is(Mutant::EpochsIgnored);
        if is_stale {
            let epoch = object.epoch;
            self.abandon_write(plan);
            return Err(StaleEpoch(epoch));
        }
        for staged in &plan.staged {
            let mut taken = 0;
            for stretch in object.stretches(staged.page, staged.page + staged.run.pages) {
                let within = stretch.page - staged.page;
                let source = Extent { arena_page: staged.run.first + within, pages: stretch.pages };
                match stretch.arena_page {
                    None => {
                        object.map(stretch.page, source);
                        taken += stretch.pages;
                    }
                    Some(arena_page) => {
                        copy_written(&mut *self.arena, staged.written, source, arena_page);
                        self.pages.free(Run {
                            first: source.arena_page,
                            pages: source.pages,
                            memory: Memory::Used,
                        });
                    }
                }
            }
            debug_assert!(taken <= staged.run.pages);
        }
        self.pages.unpin(plan.pin);
        self.changes.note(plan.ino, plan.span.0, plan.span.1);
        Ok(())
    }

    /// Ends a write that failed: frees its staged pages. Bytes that went over old ones stay, as in any torn write.
    pub(crate) fn abandon_write(&mut self, plan: WritePlan) {
        self.changes.note(plan.ino, plan.span.0, plan.span.1);
        for staged in plan.staged {
            self.pages.free(Run { memory: Memory::Used, ..staged.run });
        }
        self.pages.unpin(plan.pin);
    }

    /// Allocates the range; its holes read as zeros.
    ///
    /// # Errors
    /// ENOSPC, and nothing is allocated; [`StaleEpoch`].
    pub(crate) fn reserve(
        &mut self,
        ino: Ino,
        epoch: u64,
        offset: u64,
        length: u64,
    ) -> Result<(), TargetFailure> {
        self.check_epoch(ino, epoch)?;
        self.changes.note(ino, offset, offset + length);
        let mut holes = self.stretches(ino, offset / PAGE_BYTES, (offset + length).div_ceil(PAGE_BYTES));
        holes.retain(|stretch| stretch.arena_page.is_none());
        if holes.iter().map(|hole| hole.pages).sum::<u64>() > self.pages.free_pages() {
            return Err(TargetFailure::Full);
        }
        let object = self.objects.entry(ino).or_default();
        for hole in holes {
            let mut page = hole.page;
            for run in self.pages.take(hole.pages).ok_or(TargetFailure::Full)? {
                if run.memory == Memory::Used {
                    self.arena.bytes_mut(whole(run)).fill(0);
                }
                object.map(page, Extent { arena_page: run.first, pages: run.pages });
                page += run.pages;
            }
        }
        Ok(())
    }

    /// Frees the range, which reads as zeros afterwards.
    ///
    /// # Errors
    /// [`StaleEpoch`].
    pub(crate) fn punch(&mut self, ino: Ino, epoch: u64, offset: u64, length: u64) -> Result<(), StaleEpoch> {
        let Some(object) = self.objects.get_mut(&ino) else { return Ok(()) };
        if object.epoch > epoch {
            return Err(StaleEpoch(object.epoch));
        }
        let end = offset.saturating_add(length);
        self.changes.note(ino, offset, end);
        let (first_whole, end_whole) = (offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        let mut partial = Vec::new();
        if first_whole > end_whole {
            partial.push((offset, end));
        } else {
            partial.push((offset, first_whole * PAGE_BYTES));
            partial.push((end_whole * PAGE_BYTES, end));
        }
        for (from, to) in partial {
            clear_mapped(object, &mut *self.arena, from, to);
        }
        if first_whole < end_whole {
            let freed = object.unmap(first_whole, end_whole);
            self.free(freed);
        }
        Ok(())
    }

    /// Cuts the object to `length` and raises its epoch. An object that has the epoch already stays as it is.
    pub(crate) fn truncate(&mut self, ino: Ino, length: u64, epoch: u64) {
        // No object is longer, so no sum below overflows.
        let length = length.min(limits::FILE_BYTES);
        let object = self.objects.entry(ino).or_default();
        if object.epoch >= epoch {
            return;
        }
        object.epoch = epoch;
        clear_mapped(object, &mut *self.arena, length, length.next_multiple_of(PAGE_BYTES));
        let freed = object.unmap(length.div_ceil(PAGE_BYTES), u64::MAX / PAGE_BYTES);
        self.free(freed);
    }

    /// The ranges of the object that changed since the last round; `None` if the target notes nothing for `tracking`.
    pub(crate) fn changes(&mut self, ino: Ino, tracking: u64, round: u32) -> Option<Vec<(u64, u64)>> {
        self.changes.ask(ino, tracking, round)
    }

    /// Removes the object.
    pub(crate) fn remove(&mut self, ino: Ino) {
        self.changes.forget(ino);
        if let Some(mut object) = self.objects.remove(&ino) {
            let freed = object.unmap(0, object.end());
            self.free(freed);
        }
    }

    /// The epoch of the last cut of an object.
    pub(crate) fn epoch_of(&self, ino: Ino) -> u64 {
        self.objects.get(&ino).map_or(0, |object| object.epoch)
    }

    /// Takes all bytes of an object away, unless its epoch is another one by now.
    pub(crate) fn vacate(&mut self, ino: Ino, epoch: u64) {
        if self.epoch_of(ino) != epoch {
            return;
        }
        self.remove(ino);
        if epoch > 0 {
            self.objects.entry(ino).or_default().epoch = epoch;
        }
    }

    /// The next byte of data (or of a hole) at or after `offset`.
    ///
    /// # Errors
    /// [`StaleEpoch`] if the object was cut or moved since `epoch`.
    pub(crate) fn seek(
        &self,
        ino: Ino,
        epoch: u64,
        offset: u64,
        data: bool,
    ) -> Result<Option<u64>, StaleEpoch> {
        match self.objects.get(&ino) {
            Some(object) if object.epoch > epoch => Err(StaleEpoch(object.epoch)),
            Some(object) => {
                Ok(object.next(offset / PAGE_BYTES, data).map(|page| (page * PAGE_BYTES).max(offset)))
            }
            None => Ok((!data).then_some(offset)),
        }
    }

    fn check_epoch(&self, ino: Ino, epoch: u64) -> Result<(), StaleEpoch> {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::EpochsIgnored) {
            return Ok(());
        }
        match self.objects.get(&ino) {
            Some(object) if object.epoch > epoch => Err(StaleEpoch(object.epoch)),
            _ => Ok(()),
        }
    }

    /// The page range `[first, end)` of an object; an object that is not there is one hole.
    fn stretches(&self, ino: Ino, first: u64, end: u64) -> Vec<Stretch> {
        match self.objects.get(&ino) {
            Some(object) => object.stretches(first, end),
            None => vec![Stretch { page: first, pages: end - first, arena_page: None }],
        }
    }

    /// Has memory made ready that the next writes will take, up to `pages_max` pages.
    pub(crate) fn ask_ahead(&mut self, pages_max: u64) {
        let mut asked = 0;
        while let Some(run) = self.pages.next_ahead().filter(|_| asked < pages_max) {
            if !self.arena.populate_beside(whole(run)) {
                return;
            }
            self.pages.move_ahead(run);
            asked += run.pages;
        }
    }

    fn free(&mut self, extents: Vec<Extent>) {
        for extent in extents {
            self.pages.free(Run { first: extent.arena_page, pages: extent.pages, memory: Memory::Used });
        }
        while let Some(run) = self.pages.take_excess() {
            let released = self.arena.release(whole(run)).is_ok();
            let memory = if released { Memory::None } else { Memory::Used };
            self.pages.insert(Run { memory, ..run });
            if !released {
                break;
            }
        }
    }
}

fn whole(run: Run) -> Region {
    Region { offset: run.first * PAGE_BYTES, length: (run.pages * PAGE_BYTES) as usize }
}

/// Clears the bytes of a used run that the write does not fill, and asks for the memory of a run that has none.
fn clear_edges(arena: &mut dyn Arena, run: Run, written: Region) {
    let run_region = whole(run);
    match run.memory {
        Memory::Used => {
            let head = (written.offset - run_region.offset) as usize;
            arena.bytes_mut(Region { offset: run_region.offset, length: head }).fill(0);
            let tail_start = written.offset + written.length as u64;
            let tail = run_region.length - head - written.length;
            arena.bytes_mut(Region { offset: tail_start, length: tail }).fill(0);
        }
        Memory::None if run.pages >= POPULATE_PAGES_MIN => arena.populate(run_region),
        Memory::None | Memory::Ahead => {}
    }
}

/// Zeros the mapped bytes of `[from, to)`, which lie in one page.
fn clear_mapped(object: &Object, arena: &mut dyn Arena, from: u64, to: u64) {
    if from >= to {
        return;
    }
    let page = from / PAGE_BYTES;
    if let Some(arena_page) = object.stretches(page, page + 1).first().and_then(|stretch| stretch.arena_page)
    {
        let offset = arena_page * PAGE_BYTES + from % PAGE_BYTES;
        arena.bytes_mut(Region { offset, length: (to - from) as usize }).fill(0);
    }
}

/// Copies the written bytes of `source` over the pages that another write linked into the same hole first.
fn copy_written(arena: &mut dyn Arena, written: Region, source: Extent, arena_page: u64) {
    let source_start = source.arena_page * PAGE_BYTES;
    let first = written.offset.max(source_start);
    let last = (written.offset + written.length as u64).min(source_start + source.pages * PAGE_BYTES);
    if first >= last {
        return;
    }
    let length = (last - first) as usize;
    let copy = arena.bytes(Region { offset: first, length }).to_vec();
    let offset = arena_page * PAGE_BYTES + (first - source_start);
    arena.bytes_mut(Region { offset, length }).copy_from_slice(&copy);
}

fn read_segments(object: &Object, range: &Range, segments: &mut Vec<Segment>) {
    if range.length == 0 {
        return;
    }
    let end = range.offset + u64::from(range.length);
    for stretch in object.stretches(range.offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES)) {
        let first = (stretch.page * PAGE_BYTES).max(range.offset);
        let last = ((stretch.page + stretch.pages) * PAGE_BYTES).min(end);
        let length = (last - first) as usize;
        segments.push(match stretch.arena_page {
            Some(arena_page) => {
                let offset = arena_page * PAGE_BYTES + (first - stretch.page * PAGE_BYTES);
                Segment::Bytes(Region { offset, length })
            }
            None => Segment::Zeros(length),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::memory_arena::MemoryArena;
    use proptest::prelude::*;

    const FILE: Ino = Ino(9);

    /// A target of this many pages.
    fn in_memory(pages: u64) -> Ram {
        Ram::new(Box::new(MemoryArena::new(pages * PAGE_BYTES)))
    }

    fn range(offset: u64, length: usize) -> Range {
        Range { offset, length: length as u32 }
    }

    fn fill(ram: &mut Ram, plan: &WritePlan, bytes: &[u8]) {
        let mut position = 0;
        for region in plan.regions.clone() {
            ram.bytes_mut(region).copy_from_slice(&bytes[position..position + region.length]);
            position += region.length;
        }
        assert_eq!(position, bytes.len());
    }

    fn write(ram: &mut Ram, epoch: u64, offset: u64, bytes: &[u8]) -> Result<(), TargetFailure> {
        let plan = ram.begin_write(FILE, epoch, &[range(offset, bytes.len())])?;
        fill(ram, &plan, bytes);
        Ok(ram.finish_write(plan)?)
    }

    fn read(ram: &mut Ram, epoch: u64, offset: u64, length: usize) -> Vec<u8> {
        let plan = ram.begin_read(FILE, epoch, &[range(offset, length)]).unwrap();
        let mut bytes = Vec::new();
        for segment in &plan.segments {
            match *segment {
                Segment::Bytes(region) => bytes.extend_from_slice(ram.bytes(region)),
                Segment::Zeros(length) => bytes.resize(bytes.len() + length, 0),
            }
        }
        ram.finish_read(&plan);
        bytes
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, usize, u8),
        Truncate(u64),
        Punch(u64, u64),
        Reserve(u64, u64),
        Remove,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u64..60_000, 1usize..20_000, 1u8..255).prop_map(|(offset, length, byte)| Step::Write(offset, length, byte)),
            1 => (0u64..70_000).prop_map(Step::Truncate),
            1 => (0u64..60_000, 1u64..30_000).prop_map(|(offset, length)| Step::Punch(offset, length)),
            1 => (0u64..60_000, 1u64..30_000).prop_map(|(offset, length)| Step::Reserve(offset, length)),
            1 => Just(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_an_array_of_bytes(steps in proptest::collection::vec(step(), 1..60)) {
            let mut ram = in_memory(40);
            let mut model = vec![0u8; 100_000];
            let mut epoch = 0;
            for step in steps {
                match step {
                    Step::Write(offset, length, byte) => {
                        if write(&mut ram, epoch, offset, &vec![byte; length]).is_ok() {
                            model[offset as usize..offset as usize + length].fill(byte);
                        }
                    }
                    Step::Truncate(length) => {
                        epoch += 1;
                        ram.truncate(FILE, length, epoch);
                        model[length as usize..].fill(0);
                    }
                    Step::Punch(offset, length) => {
                        ram.punch(FILE, epoch, offset, length).unwrap();
                        model[offset as usize..(offset + length) as usize].fill(0);
                    }
                    Step::Reserve(offset, length) => { let _ = ram.reserve(FILE, epoch, offset, length); }
                    Step::Remove => { ram.remove(FILE); model.fill(0); }
                }
                prop_assert!(read(&mut ram, epoch, 0, model.len()) == model);
            }
            ram.remove(FILE);
            prop_assert_eq!(ram.used_bytes(), 0);
        }
    }

    #[test]
    fn a_write_into_a_hole_is_unseen_until_all_of_it_arrived() {
        let mut ram = in_memory(8);
        write(&mut ram, 0, 0, &[7; 8192]).unwrap();
        ram.remove(FILE);
        let plan = ram.begin_write(FILE, 0, &[range(0, 8192)]).unwrap();
        assert_eq!(read(&mut ram, 0, 0, 8192), vec![0; 8192], "recycled bytes of another file never show");
        ram.abandon_write(plan);
        assert_eq!(ram.used_bytes(), 0);
    }

    #[test]
    fn two_writes_into_one_hole_both_land() {
        let mut ram = in_memory(8);
        let first = ram.begin_write(FILE, 0, &[range(0, 1000)]).unwrap();
        let second = ram.begin_write(FILE, 0, &[range(1000, 1000)]).unwrap();
        fill(&mut ram, &first, &[1; 1000]);
        fill(&mut ram, &second, &[2; 1000]);
        ram.finish_write(second).unwrap();
        ram.finish_write(first).unwrap();
        let bytes = read(&mut ram, 0, 0, 3000);
        assert_eq!(
            (bytes[..1000].to_vec(), bytes[1000..2000].to_vec(), bytes[2000..].to_vec()),
            (vec![1; 1000], vec![2; 1000], vec![0; 1000])
        );
        assert_eq!(ram.used_bytes(), PAGE_BYTES);
    }

    #[test]
    fn a_cut_refuses_the_write_that_began_before_it() {
        let mut ram = in_memory(8);
        let plan = ram.begin_write(FILE, 0, &[range(0, 5000)]).unwrap();
        ram.truncate(FILE, 0, 1);
        assert_eq!(ram.finish_write(plan), Err(StaleEpoch(1)));
        assert_eq!(ram.used_bytes(), 0);
        assert!(matches!(ram.begin_read(FILE, 0, &[range(0, 1)]), Err(StaleEpoch(1))));
    }

    #[test]
    fn a_full_target_takes_nothing_of_a_write_that_does_not_fit() {
        let mut ram = in_memory(4);
        assert_eq!(write(&mut ram, 0, 0, &[1; 5 * 4096]), Err(TargetFailure::Full));
        assert_eq!(ram.used_bytes(), 0);
        write(&mut ram, 0, 0, &[1; 4 * 4096]).unwrap();
        assert_eq!(write(&mut ram, 0, 1 << 20, &[1]), Err(TargetFailure::Full));
        write(&mut ram, 0, 0, &[2; 100]).unwrap();
    }

    /// The home hears of successful writes only, so nobody removed the object that a refused write had made.
    #[test]
    fn a_refused_write_leaves_no_object() {
        let mut ram = in_memory(4);
        assert_eq!(write(&mut ram, 0, 0, &[1; 5 * 4096]), Err(TargetFailure::Full));
        assert_eq!(ram.reserve(FILE, 0, 0, 5 * PAGE_BYTES), Err(TargetFailure::Full));
        let plan = ram.begin_write(FILE, 0, &[range(0, 4096)]).unwrap();
        ram.abandon_write(plan);
        assert!(ram.objects.is_empty());
    }

    /// Another server once could stop this one by a cut at a length that no file has.
    #[test]
    fn a_cut_behind_every_file_cuts_nothing() {
        let mut ram = in_memory(4);
        write(&mut ram, 0, 0, &[1; 100]).unwrap();
        ram.truncate(FILE, u64::MAX, 1);
        assert_eq!(read(&mut ram, 1, 0, 100), [1; 100]);
        ram.truncate(FILE, 0, 2);
        ram.truncate(FILE, u64::MAX, 3);
        assert_eq!(ram.used_bytes(), 0);
    }
}
