//! Files of the store that this process maps shared. The kernel serves all descriptors of such a file, because the kernel's
//! pages hold stores through the mapping, and the kernel serves no page beyond the size that it knows.
//!
//! A mapping without a call that the library saw (a system call instruction, libc's own call) is missing here. The servers
//! then refuse writes beside its pages ([`weir_client::ClientError::PagesHeld`]). A mapping that ended without such a call
//! only keeps its file with the kernel.

use crate::host::addresses::PAGE_BYTES;
use crate::host::kernel;
use crate::store::session;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of the first read of `/proc/self/maps`. Further reads take more.
const MAPS_BYTES: usize = 64 * 1024;
/// Largest list that is read: the kernel's usual bound of 65,530 mappings makes about 8 MiB.
const MAPS_BYTES_MAX: usize = 64 << 20;

static TABLE: RwLock<Option<Table>> = RwLock::new(None);
/// The number of files in the table. Hot calls only ask whether there are any.
static FILES: AtomicUsize = AtomicUsize::new(0);

#[derive(Default)]
struct Table {
    /// Regions by their first addresses: the address after the last one, and the file.
    regions: BTreeMap<usize, (usize, u64)>,
    /// The number of regions of each file, and of its mappings that are being made.
    files: HashMap<u64, usize>,
}

/// Parts of regions that were taken out. They are put back where the kernel refused to unmap them.
pub(crate) type Removed = Vec<(Range<usize>, u64)>;

impl Table {
    fn hold(&mut self, ino: u64) {
        *self.files.entry(ino).or_default() += 1;
    }

    fn release(&mut self, ino: u64) {
        if let Some(count) = self.files.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                self.files.remove(&ino);
            }
        }
    }

    fn insert(&mut self, range: Range<usize>, ino: u64) {
        self.remove(&range);
        self.hold(ino);
        self.regions.insert(range.start, (range.end, ino));
    }

    fn remove(&mut self, range: &Range<usize>) -> Removed {
        let touched: Vec<(usize, usize, u64)> = self
            .regions
            .range(..range.end)
            .rev()
            .take_while(|(_, (end, _))| *end > range.start)
            .map(|(&start, &(end, ino))| (start, end, ino))
            .collect();
        let mut removed = Removed::new();
        for (start, end, ino) in touched {
            self.regions.remove(&start);
            for (start, end) in [(start, end.min(range.start)), (start.max(range.end), end)] {
                if start < end {
                    self.hold(ino);
                    self.regions.insert(start, (end, ino));
                }
            }
            self.release(ino);
            removed.push((start.max(range.start)..end.min(range.end), ino));
        }
        removed
    }
}

fn table() -> RwLockReadGuard<'static, Option<Table>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn change<T>(operate: impl FnOnce(&mut Table) -> T) -> T {
    let mut guard: RwLockWriteGuard<'_, Option<Table>> =
        TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let table = guard.get_or_insert_with(Table::default);
    let result = operate(table);
    FILES.store(table.files.len(), Ordering::Release);
    result
}

/// Whether any file is mapped.
pub(crate) fn are_any() -> bool {
    FILES.load(Ordering::Acquire) > 0
}

/// Whether the file is mapped.
pub(crate) fn hold(ino: u64) -> bool {
    are_any() && table().as_ref().is_some_and(|table| table.files.contains_key(&ino))
}

/// Holds a file that is about to be mapped.
pub(crate) fn begin(ino: u64) {
    change(|table| table.hold(ino));
}

/// Ends the mapping that [`begin`] announced: it was made at `made`, or not at all.
pub(crate) fn end(ino: u64, made: Option<(usize, usize)>) {
    change(|table| {
        if let Some((address, length)) = made {
            table.insert(pages(address, length), ino);
        }
        table.release(ino);
    });
}

/// Takes a region out, where something else is mapped or nothing any more.
pub(crate) fn remove(address: usize, length: usize) -> Removed {
    change(|table| table.remove(&pages(address, length)))
}

/// Puts back parts that the kernel did not unmap.
pub(crate) fn put_back(removed: Removed) {
    change(|table| removed.into_iter().for_each(|(range, ino)| table.insert(range, ino)));
}

/// The file whose mapping covers an address.
pub(crate) fn file_at(address: usize) -> Option<u64> {
    let table = table();
    let (_, &(end, ino)) = table.as_ref()?.regions.range(..=address).next_back()?;
    (address < end).then_some(ino)
}

fn pages(address: usize, length: usize) -> Range<usize> {
    address..address.saturating_add(length.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES))
}

/// Reads the mappings of the child of `fork` from the kernel. The child has its parent's mappings, but the table may have been
/// in the midst of a change. Where the kernel does not tell the mappings, the kernel does all calls.
///
/// The caller makes sure that no other thread runs.
pub(crate) fn rebuild_in_child() {
    let had_any = FILES.swap(0, Ordering::AcqRel) > 0;
    // SAFETY: the only thread of the process writes to a static. A table that another thread was changing is leaked.
    unsafe { std::ptr::write((&raw const TABLE).cast_mut(), RwLock::new(None)) };
    if !had_any {
        return;
    }
    let Some((device, text)) = session::device().zip(read()) else { return session::leave() };
    let device = (u64::from(libc::major(device)), u64::from(libc::minor(device)));
    for region in text.split(|byte| *byte == b'\n') {
        if let Some((range, ino)) = shared_region(region, device) {
            change(|table| table.insert(range, ino));
        }
    }
}

fn read() -> Option<Vec<u8>> {
    // SAFETY: the path ends with a zero byte.
    let maps = unsafe { kernel::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY) }.ok()?;
    let text = kernel::read_to_end(maps, MAPS_BYTES, MAPS_BYTES_MAX);
    kernel::close(maps);
    text
}

/// The region and the inode of a line such as `7f00-7f10 rw-s 00000000 00:32 5 path`, if the region is shared and its file
/// lies on the device.
fn shared_region(line: &[u8], device: (u64, u64)) -> Option<(Range<usize>, u64)> {
    let text = |word: &[u8]| std::str::from_utf8(word).ok().map(str::to_owned);
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (range, rights, _offset) = (text(words.next()?)?, words.next()?, words.next()?);
    let (of, ino) = (text(words.next()?)?, text(words.next()?)?.parse().ok()?);
    let (start, end) = range.split_once('-')?;
    let (major, minor) = of.split_once(':')?;
    let is_ours = rights.get(3) == Some(&b's') && (hexadecimal(major)?, hexadecimal(minor)?) == device;
    is_ours.then_some((hexadecimal(start)? as usize..hexadecimal(end)? as usize, ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = PAGE_BYTES;

    #[test]
    fn a_file_is_held_until_its_last_page_is_unmapped() {
        let mut table = Table::default();
        table.insert(10 * PAGE..20 * PAGE, 1);
        table.insert(30 * PAGE..31 * PAGE, 2);
        table.remove(&(12 * PAGE..14 * PAGE));
        assert_eq!(table.files, HashMap::from([(1, 2), (2, 1)]));
        table.remove(&(0..12 * PAGE));
        table.remove(&(13 * PAGE..40 * PAGE));
        assert!(table.files.is_empty() && table.regions.is_empty());
    }

    #[test]
    fn what_is_mapped_over_a_region_takes_its_place() {
        let mut table = Table::default();
        table.insert(0..10 * PAGE, 1);
        table.insert(0..10 * PAGE, 2);
        assert_eq!(table.files, HashMap::from([(2, 1)]));
        let removed = table.remove(&(5 * PAGE..6 * PAGE));
        assert_eq!(removed, [(5 * PAGE..6 * PAGE, 2)]);
        for (range, ino) in removed {
            table.insert(range, ino);
        }
        assert_eq!(table.files, HashMap::from([(2, 3)]));
    }

    #[test]
    fn regions_against_a_model_of_pages() {
        use proptest::prelude::*;
        let steps = proptest::collection::vec((any::<bool>(), 0..40_usize, 1..12_usize, 1..4_u64), 0..60);
        proptest!(|(steps in steps)| {
            let mut table = Table::default();
            let mut model = [0_u64; 64];
            for (is_insert, start, length, ino) in steps {
                let range = start * PAGE..(start + length) * PAGE;
                if is_insert {
                    table.insert(range, ino);
                } else {
                    table.remove(&range);
                }
                model[start..start + length].fill(if is_insert { ino } else { 0 });
                for known in 1..4 {
                    prop_assert_eq!(table.files.contains_key(&known), model.contains(&known));
                }
            }
        });
    }

    #[test]
    fn the_kernels_list_names_shared_regions_of_the_store() {
        let line = b"7f00000000-7f00002000 rw-s 00000000 00:32 281474976710657                   /mnt/a file";
        assert_eq!(
            shared_region(line, (0, 0x32)),
            Some((0x7f_0000_0000..0x7f_0000_2000, 281_474_976_710_657))
        );
        assert_eq!(shared_region(line, (0, 0x33)), None);
        assert_eq!(shared_region(b"7f00-7f10 rw-p 00000000 00:32 5 /mnt/a", (0, 0x32)), None);
        assert_eq!(shared_region(b"", (0, 0x32)), None);
    }
}
