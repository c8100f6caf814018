//! Layouts: file offsets to (target, object offset) and back.
//!
//! A layout is one component, or several for progressive file layouts: consecutive ranges of the file, each striped
//! over its own targets. A file has one object on each target, also where several components use it: their shares
//! follow each other in the object, in the order of the file. So on every target, object offsets grow with file
//! offsets, a range of the file is one range of each object, and shortening a file shortens its objects.

use crate::component::{Component, END_OF_FILE};
use crate::{ServerId, TargetId};
use serde::{Deserialize, Serialize, Serializer};

/// The targets of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Component>")]
pub struct Layout {
    components: Vec<Component>,
    /// The shared objects of a layout with more than one component.
    shared: Option<Box<SharedObjects>>,
}

/// The objects that components of a layout use together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SharedObjects {
    /// The targets, each once, in the order of their first stripes.
    targets: Vec<TargetId>,
    /// For each component, by its stripe index, where its bytes lie.
    shares: Vec<Vec<Share>>,
}

/// The part of an object that belongs to one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    object: usize,
    /// Object offset of the first byte.
    base: u64,
}

/// A contiguous run of file bytes that is contiguous in one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index into [`Layout::targets`].
    pub object: usize,
    /// Offset inside the target's object.
    pub object_offset: u64,
    /// Offset inside the file.
    pub file_offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// The reason why components do not make a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// There is none.
    #[error("a layout has at least one component")]
    Empty,
    /// A component without targets.
    #[error("component {component} has no stripes")]
    NoStripes {
        /// Its number, from 1.
        component: usize,
    },
    /// A stripe size of zero.
    #[error("component {component} has a stripe size of zero")]
    NoStripeBytes {
        /// Its number, from 1.
        component: usize,
    },
    /// A component that does not end behind the one before it.
    #[error("component {component} ends at {end}, which is not behind the one before it: extents overlap")]
    Overlap {
        /// Its number, from 1.
        component: usize,
        /// The end of the component.
        end: u64,
    },
    /// The last component ends before the file may.
    #[error(
        "the last component ends at {end}: give it the end -1, or a file that grows beyond has no place"
    )]
    Open {
        /// The end of the component.
        end: u64,
    },
    /// More stripes than there are targets.
    #[error("component {component} asks for {stripes} stripes, and there are {targets} targets: -c -1 is all of them")]
    TooManyStripes {
        /// Its number, from 1.
        component: usize,
        /// The number of stripes that the component asks for.
        stripes: u16,
        /// The number of targets.
        targets: usize,
    },
    /// A target named twice in a component.
    #[error("component {component} names target {target} twice")]
    Repeated {
        /// Its number, from 1.
        component: usize,
        /// The target.
        target: TargetId,
    },
}

impl Layout {
    /// A layout of `components`, in the order of the file.
    ///
    /// # Errors
    /// Where they leave a part of the file without a place, overlap, or name a target twice.
    pub fn new(components: Vec<Component>) -> Result<Layout, LayoutError> {
        check(
            components
                .iter()
                .map(|component| (component.end, Some(component.stripe_bytes), Some(&component.targets[..]))),
        )?;
        let shared = (components.len() > 1).then(|| Box::new(SharedObjects::of(&components)));
        Ok(Layout { components, shared })
    }

    /// A file striped in one way from end to end.
    ///
    /// # Errors
    /// Without targets, with a target named twice, or with stripes of no bytes.
    pub fn striped(stripe_bytes: u64, targets: Vec<TargetId>) -> Result<Layout, LayoutError> {
        Layout::new(vec![Component { end: END_OF_FILE, stripe_bytes, targets }])
    }

    /// Its components, in the order of the file.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The targets that hold an object of the file, each once, by their first stripe.
    pub fn targets(&self) -> &[TargetId] {
        match &self.shared {
            Some(shared) => &shared.targets,
            None => &self.components[0].targets,
        }
    }

    /// The servers of [`Layout::targets`], each once, in ascending order.
    pub fn servers(&self) -> Vec<ServerId> {
        let mut servers: Vec<ServerId> = self.targets().iter().map(|target| target.server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// Stripes of all components together.
    pub fn stripes(&self) -> usize {
        self.components.iter().map(|component| component.targets.len()).sum()
    }

    /// The component that holds file byte `offset`, with its first file byte.
    pub fn component_at(&self, offset: u64) -> (u64, &Component) {
        let (index, start) = self.find(offset);
        (start, &self.components[index])
    }

    /// The pieces of the file range `[offset, offset + length)`, in file order.
    pub fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = Piece> + '_ {
        let end = offset.saturating_add(length);
        let (mut index, mut start) = self.find(offset);
        let mut position = offset;
        std::iter::from_fn(move || {
            if position >= end {
                return None;
            }
            if position >= self.components[index].end {
                start = self.components[index].end;
                index += 1;
            }
            let component = &self.components[index];
            let run = component.run(position - start);
            let share = self.share(index, run.stripe);
            let piece = Piece {
                object: share.object,
                object_offset: share.base + run.offset,
                file_offset: position,
                length: run.length.min(end - position).min(component.end - position),
            };
            position += piece.length;
            Some(piece)
        })
    }

    /// Length of object `object` in a file of `file_bytes`.
    pub fn object_bytes(&self, object: usize, file_bytes: u64) -> u64 {
        self.parts_of(object, file_bytes).map(|(_, _, bytes)| bytes).sum()
    }

    /// File offset of byte `object_offset` of object `object`.
    pub fn file_offset(&self, object: usize, object_offset: u64) -> u64 {
        let mut left = object_offset;
        let mut parts = self.parts_of(object, END_OF_FILE).peekable();
        while let Some((index, stripe, bytes)) = parts.next() {
            if left < bytes || parts.peek().is_none() {
                return self.start(index).saturating_add(self.components[index].position(stripe, left));
            }
            left -= bytes;
        }
        END_OF_FILE
    }

    /// The parts of object `object` in a file of `file_bytes`, by component: (component, stripe index, bytes).
    fn parts_of(&self, object: usize, file_bytes: u64) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        self.components.iter().enumerate().filter_map(move |(index, component)| {
            let stripe = match &self.shared {
                Some(shared) => shared.shares[index].iter().position(|share| share.object == object)?,
                None => object,
            };
            let start = self.start(index);
            let bytes = file_bytes.min(component.end).saturating_sub(start);
            Some((index, stripe, component.share(stripe, bytes)))
        })
    }

    fn start(&self, index: usize) -> u64 {
        if index == 0 {
            0
        } else {
            self.components[index - 1].end
        }
    }

    fn find(&self, offset: u64) -> (usize, u64) {
        if self.shared.is_none() {
            return (0, 0);
        }
        let index = self.components.partition_point(|component| component.end <= offset);
        let index = index.min(self.components.len() - 1);
        (index, self.start(index))
    }

    fn share(&self, index: usize, stripe: usize) -> Share {
        match &self.shared {
            Some(shared) => shared.shares[index][stripe],
            None => Share { object: stripe, base: 0 },
        }
    }
}

impl SharedObjects {
    fn of(components: &[Component]) -> SharedObjects {
        let mut targets: Vec<TargetId> = Vec::new();
        let mut used: Vec<u64> = Vec::new();
        let mut start = 0;
        let shares = components.iter().map(|component| {
            let bytes = component.end - start;
            start = component.end;
            let share = |(stripe, target): (usize, &TargetId)| {
                let known = targets.iter().position(|other| other == target);
                let object = known.unwrap_or_else(|| {
                    targets.push(*target);
                    used.push(0);
                    targets.len() - 1
                });
                let base = used[object];
                used[object] += component.share(stripe, bytes);
                Share { object, base }
            };
            component.targets.iter().enumerate().map(share).collect()
        });
        let shares = shares.collect();
        SharedObjects { targets, shares }
    }
}

/// Checks components in the order of the file: the end of each, its stripe size and its targets, where these are known.
pub(crate) fn check<'a>(
    components: impl Iterator<Item = (u64, Option<u64>, Option<&'a [TargetId]>)>,
) -> Result<(), LayoutError> {
    let mut before = 0;
    for (index, (end, stripe_bytes, targets)) in components.enumerate() {
        let component = index + 1;
        if targets.is_some_and(<[TargetId]>::is_empty) {
            return Err(LayoutError::NoStripes { component });
        }
        if stripe_bytes == Some(0) {
            return Err(LayoutError::NoStripeBytes { component });
        }
        if end <= before {
            return Err(LayoutError::Overlap { component, end });
        }
        before = end;
        let mut sorted = targets.unwrap_or_default().to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(LayoutError::Repeated { component, target: pair[0] });
        }
    }
    match before {
        0 => Err(LayoutError::Empty),
        END_OF_FILE => Ok(()),
        end => Err(LayoutError::Open { end }),
    }
}

impl TryFrom<Vec<Component>> for Layout {
    type Error = LayoutError;

    fn try_from(components: Vec<Component>) -> Result<Layout, LayoutError> {
        Layout::new(components)
    }
}

impl Serialize for Layout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.components.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SMALL: u64 = 3000;

    fn target(index: u16) -> TargetId {
        TargetId { server: ServerId(index % 3), index }
    }

    /// Up to four components over overlapping sets of seven targets.
    fn layouts() -> impl Strategy<Value = Layout> {
        let order = Just((0..7u16).collect::<Vec<_>>()).prop_shuffle();
        let component = (1u64..700, 1u64..200, 1usize..7, order);
        proptest::collection::vec(component, 1..5).prop_map(|parts| {
            let last = parts.len() - 1;
            let mut end = 0;
            let components =
                parts.into_iter().enumerate().map(|(index, (bytes, stripe_bytes, count, order))| {
                    end += bytes;
                    let targets = order[..count].iter().map(|&index| target(index)).collect();
                    Component { end: if index == last { END_OF_FILE } else { end }, stripe_bytes, targets }
                });
            Layout::new(components.collect()).unwrap()
        })
    }

    /// The place of each byte of a file of [`SMALL`] bytes, found byte by byte: a stripe at a time goes to the next
    /// target of its component, and a target takes its bytes in the order in which they come.
    fn naive(layout: &Layout) -> Vec<(TargetId, u64)> {
        let mut lengths: HashMap<TargetId, u64> = HashMap::new();
        let mut start = 0;
        let mut components = layout.components().iter();
        let mut component = components.next().unwrap();
        (0..SMALL)
            .map(|byte| {
                if byte == component.end {
                    start = byte;
                    component = components.next().unwrap();
                }
                let stripe = (byte - start) / component.stripe_bytes;
                let target = component.targets[(stripe % component.targets.len() as u64) as usize];
                let length = lengths.entry(target).or_default();
                *length += 1;
                (target, *length - 1)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn pieces_are_those_of_the_naive_model(layout in layouts(), offset in 0..SMALL, length in 0..SMALL) {
            let length = length.min(SMALL - offset);
            let model = naive(&layout);
            let mut position = offset;
            for piece in layout.pieces(offset, length) {
                prop_assert_eq!(piece.file_offset, position);
                prop_assert!(piece.length > 0);
                for byte in 0..piece.length {
                    let (target, object_offset) = model[(position + byte) as usize];
                    prop_assert_eq!(layout.targets()[piece.object], target);
                    prop_assert_eq!(piece.object_offset + byte, object_offset);
                    prop_assert_eq!(layout.file_offset(piece.object, object_offset), position + byte);
                }
                position += piece.length;
            }
            prop_assert_eq!(position, offset + length);
        }

        #[test]
        fn objects_have_the_lengths_of_the_naive_model(layout in layouts(), bytes in 0..SMALL) {
            let model = naive(&layout);
            for (object, target) in layout.targets().iter().enumerate() {
                let held = model[..bytes as usize].iter().filter(|(other, _)| other == target).count();
                prop_assert_eq!(layout.object_bytes(object, bytes), held as u64);
            }
        }

        #[test]
        fn a_range_of_the_file_is_one_range_of_each_object(
            layout in layouts(), offset in 0..SMALL, length in 0..SMALL,
        ) {
            let mut ends: HashMap<usize, u64> = HashMap::new();
            for piece in layout.pieces(offset, length) {
                if let Some(end) = ends.insert(piece.object, piece.object_offset + piece.length) {
                    prop_assert_eq!(piece.object_offset, end);
                }
            }
        }

        #[test]
        fn the_ends_of_the_largest_file_do_not_overflow(layout in layouts(), object in 0usize..7) {
            let object = object % layout.targets().len();
            let largest = i64::MAX as u64;
            let bytes = layout.object_bytes(object, largest);
            prop_assert!(bytes <= largest);
            let _ = layout.file_offset(object, u64::MAX);
            for piece in layout.pieces(largest - 1, 1) {
                prop_assert_eq!(piece.length, 1);
            }
        }
    }

    #[test]
    fn what_makes_no_layout_is_refused() {
        let component = |end, stripe_bytes, targets: &[u16]| Component {
            end,
            stripe_bytes,
            targets: targets.iter().map(|&index| target(index)).collect(),
        };
        let refused = |components: Vec<Component>| Layout::new(components).unwrap_err();
        assert_eq!(refused(vec![]), LayoutError::Empty);
        assert_eq!(refused(vec![component(END_OF_FILE, 1, &[])]), LayoutError::NoStripes { component: 1 });
        assert_eq!(
            refused(vec![component(END_OF_FILE, 0, &[1])]),
            LayoutError::NoStripeBytes { component: 1 }
        );
        assert_eq!(refused(vec![component(10, 1, &[1])]), LayoutError::Open { end: 10 });
        assert_eq!(
            refused(vec![component(10, 1, &[1]), component(10, 1, &[1])]),
            LayoutError::Overlap { component: 2, end: 10 }
        );
        assert_eq!(
            refused(vec![component(END_OF_FILE, 1, &[1, 2, 1])]),
            LayoutError::Repeated { component: 1, target: target(1) }
        );
    }

    #[test]
    fn an_encoded_layout_that_is_none_is_refused() {
        let text =
            serde_json::to_string(&vec![Component { end: 5, stripe_bytes: 1, targets: vec![target(0)] }]);
        let error = serde_json::from_str::<Layout>(&text.unwrap()).unwrap_err();
        assert!(error.to_string().contains("the last component ends at 5"), "{error}");
    }
}
