//! The requests of a range of a file.
//!
//! A contiguous range of the file is one extent of each object that it touches ([`Layout`]). Only the buffers of that extent
//! are scattered.

use std::io::{IoSlice, IoSliceMut};
use weir_placement::{Layout, TargetId};
use weir_wire::limits;

/// The part of a range that lies on one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The object's index into the layout's targets.
    pub(crate) object: usize,
    /// The target of that index. The index has no meaning once the file has another layout.
    pub(crate) target: TargetId,
    /// The part's first byte inside the object.
    pub(crate) object_offset: u64,
    /// The length in bytes.
    pub(crate) length: u64,
    /// The first file byte of the part.
    pub(crate) file_offset: u64,
}

/// The parts of `[offset, offset + length)`, one per target, in the order of their first file bytes.
pub(crate) fn parts(layout: &Layout, offset: u64, length: u64) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    if let Some(whole) = single(layout, offset, length) {
        parts.push(whole);
        return parts;
    }
    let end = offset + length;
    let mut position = offset;
    while position < end {
        let (_, component) = layout.component_at(position);
        let stop = component.end.min(end);
        // The first pieces of all targets of a component lie in the first row of its bytes. The lengths in the objects
        // follow from the end.
        let row_bytes = component.stripe_bytes.saturating_mul(component.targets.len() as u64);
        for piece in layout.pieces(position, row_bytes.min(stop - position)) {
            if parts.iter().any(|part| part.object == piece.object) {
                continue;
            }
            parts.push(Part {
                object: piece.object,
                target: layout.targets()[piece.object],
                object_offset: piece.object_offset,
                length: layout.object_bytes(piece.object, end) - piece.object_offset,
                file_offset: piece.file_offset,
            });
        }
        position = stop;
    }
    parts
}

/// The range as one part, where it lies on one target.
pub(crate) fn single(layout: &Layout, offset: u64, length: u64) -> Option<Part> {
    let first = layout.pieces(offset, length).next()?;
    (first.length == length).then_some(Part {
        object: first.object,
        target: layout.targets()[first.object],
        object_offset: first.object_offset,
        length,
        file_offset: offset,
    })
}

/// The length of a long range from `offset` whose parts each fit the payload of one request. The range goes over as many
/// components as that allows.
pub(crate) fn window_bytes(layout: &Layout, offset: u64) -> u64 {
    let mut payload_bytes = limits::PAYLOAD_BYTES as u64;
    let mut position = offset;
    loop {
        let (start, component) = layout.component_at(position);
        let count = component.targets.len() as u64;
        let left = component.end - position;
        // No target holds more of a component than its stripes in the rows that the range touches.
        let row_bytes = component.stripe_bytes.saturating_mul(count);
        let rows = (component.end - start).div_ceil(row_bytes) - (position - start) / row_bytes;
        let most = left.min(rows.saturating_mul(component.stripe_bytes));
        if most <= payload_bytes {
            payload_bytes -= most;
            position = component.end;
            continue;
        }
        let rows = payload_bytes / component.stripe_bytes;
        let window = if count > 1 && rows > 0 { rows * row_bytes } else { payload_bytes };
        return (position - offset) + window.min(left);
    }
}

/// The bytes `[skip, skip + length)` of `buffers`.
pub(crate) fn slice_of<'a>(buffers: &'a [IoSlice<'_>], skip: u64, length: u64) -> Vec<IoSlice<'a>> {
    let mut found = Vec::new();
    append_slices(buffers, skip, length, &mut found);
    found
}

fn append_slices<'a>(buffers: &'a [IoSlice<'_>], skip: u64, length: u64, found: &mut Vec<IoSlice<'a>>) {
    let (mut skip, mut left) = (skip as usize, length as usize);
    for buffer in buffers {
        if skip >= buffer.len() {
            skip -= buffer.len();
            continue;
        }
        if left == 0 {
            break;
        }
        let end = buffer.len().min(skip + left);
        found.push(IoSlice::new(&buffer[skip..end]));
        left -= end - skip;
        skip = 0;
    }
}

/// The slices of `buffers` that hold the bytes of each part of `[offset, offset + length)`. The buffers begin at the file
/// byte `base`.
pub(crate) fn gather<'a>(
    layout: &Layout,
    parts: &[Part],
    buffers: &'a [IoSlice<'_>],
    base: u64,
    offset: u64,
    length: u64,
) -> Vec<Vec<IoSlice<'a>>> {
    let mut gathered: Vec<Vec<IoSlice<'a>>> = parts.iter().map(|_| Vec::new()).collect();
    for piece in layout.pieces(offset, length) {
        if let Some(index) = parts.iter().position(|part| part.object == piece.object) {
            append_slices(buffers, piece.file_offset - base, piece.length, &mut gathered[index]);
        }
    }
    gathered
}

/// The room in `buffers` for the bytes of each part. The next byte of `buffers` belongs to the file byte `offset`. Used room
/// is cut off from `buffers`.
pub(crate) fn scatter<'u>(
    layout: &Layout,
    parts: &[Part],
    buffers: &mut Room<'u, '_>,
    offset: u64,
    length: u64,
) -> Vec<Vec<IoSliceMut<'u>>> {
    let mut scattered: Vec<Vec<IoSliceMut<'u>>> = parts.iter().map(|_| Vec::new()).collect();
    for piece in layout.pieces(offset, length) {
        let index = parts.iter().position(|part| part.object == piece.object);
        let mut left = piece.length as usize;
        while left > 0 {
            let Some(slice) = buffers.cut(left) else { return scattered };
            left -= slice.len();
            if let Some(index) = index {
                scattered[index].push(IoSliceMut::new(slice));
            }
        }
    }
    scattered
}

/// Buffers that are handed out from the front.
#[derive(Debug)]
pub(crate) struct Room<'u, 'o> {
    left: std::slice::IterMut<'u, IoSliceMut<'o>>,
    current: &'u mut [u8],
}

impl<'u, 'o> Room<'u, 'o> {
    pub(crate) fn new(buffers: &'u mut [IoSliceMut<'o>]) -> Room<'u, 'o> {
        Room { left: buffers.iter_mut(), current: &mut [] }
    }

    fn cut(&mut self, length: usize) -> Option<&'u mut [u8]> {
        while self.current.is_empty() {
            self.current = self.left.next()?;
        }
        let length = length.min(self.current.len());
        let (front, back) = std::mem::take(&mut self.current).split_at_mut(length);
        self.current = back;
        Some(front)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_placement::{Component, ServerId, TargetId, END_OF_FILE};

    fn target(index: u16) -> TargetId {
        TargetId { server: ServerId(0), index }
    }

    /// A first component of one stripe, then one over all `count` targets and one over half of them.
    fn layout(stripe_bytes: u64, count: u16, first_bytes: u64) -> Layout {
        let component = |end, count: u16| Component {
            end,
            stripe_bytes,
            targets: (0..count).rev().map(target).collect(),
        };
        let second = first_bytes + 3 * stripe_bytes * u64::from(count) + stripe_bytes / 2;
        let components = vec![
            component(first_bytes, 1),
            component(second, count),
            component(END_OF_FILE, count.div_ceil(2)),
        ];
        Layout::new(components).expect("well formed")
    }

    proptest! {
        /// Writes through the plan into one array per target, byte by byte compared with the layout, then reads back.
        #[test]
        fn a_range_goes_to_its_objects_and_back(
            stripe_bytes in 1u64..40, count in 1u16..6, first in 1u64..100, offset in 0u64..500, cuts in proptest::collection::vec(0usize..90, 1..6),
        ) {
            let layout = layout(stripe_bytes, count, first);
            let total: usize = cuts.iter().sum();
            let data: Vec<u8> = (0..total).map(|index| (index * 7 + 3) as u8).collect();
            let mut rest = &data[..];
            let buffers: Vec<IoSlice<'_>> = cuts.iter().map(|cut| {
                let (front, back) = rest.split_at(*cut);
                rest = back;
                IoSlice::new(front)
            }).collect();
            let planned = parts(&layout, offset, total as u64);
            let mut objects = vec![vec![None; 2000]; usize::from(count)];
            let gathered = gather(&layout, &planned, &buffers, offset, offset, total as u64);
            for (part, slices) in planned.iter().zip(&gathered) {
                let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
                prop_assert_eq!(bytes.len() as u64, part.length);
                for (index, byte) in bytes.iter().enumerate() {
                    objects[part.object][part.object_offset as usize + index] = Some(*byte);
                }
            }
            for piece in layout.pieces(offset, total as u64) {
                for index in 0..piece.length {
                    let expected = data[(piece.file_offset - offset + index) as usize];
                    prop_assert_eq!(objects[piece.object][(piece.object_offset + index) as usize], Some(expected));
                }
            }
            let mut back: Vec<Vec<u8>> = cuts.iter().map(|cut| vec![0; *cut]).collect();
            let mut slots: Vec<IoSliceMut<'_>> = back.iter_mut().map(|slot| IoSliceMut::new(slot)).collect();
            let mut room = Room::new(&mut slots);
            let mut scattered = scatter(&layout, &planned, &mut room, offset, total as u64);
            for (part, slices) in planned.iter().zip(&mut scattered) {
                let mut position = part.object_offset as usize;
                for slice in slices {
                    for byte in slice.iter_mut() {
                        *byte = objects[part.object][position].expect("written above");
                        position += 1;
                    }
                }
            }
            prop_assert_eq!(back.concat(), data);
        }

        #[test]
        fn each_part_of_a_window_fits_one_request(stripe in 12u32..40, count in 1u16..9, offset in 0u64..1 << 40) {
            let layout = layout(1 << stripe, count, 1 << 20);
            let window = window_bytes(&layout, offset);
            prop_assert!(window > 0);
            for part in parts(&layout, offset, window) {
                prop_assert!(part.length <= limits::PAYLOAD_BYTES as u64);
            }
        }
    }
}
