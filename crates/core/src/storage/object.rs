//! One object of a `ram` target: the map from its pages to those of the arena.

use std::collections::BTreeMap;

/// A run of object pages in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First arena page.
    pub(crate) arena_page: u64,
    /// Number of pages.
    pub(crate) pages: u64,
}

/// A stretch of a page range, which is mapped or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// First object page.
    pub(crate) page: u64,
    /// Number of pages.
    pub(crate) pages: u64,
    /// First arena page, absent in a hole.
    pub(crate) arena_page: Option<u64>,
}

/// Page map of an object, and the epoch of its last cut.
#[derive(Default)]
pub(crate) struct Object {
    /// See `docs/design/consistency.md`.
    pub(crate) epoch: u64,
    extents: BTreeMap<u64, Extent>,
}

impl Object {
    /// One past the last mapped page.
    pub(crate) fn end_page(&self) -> u64 {
        self.extents.last_key_value().map_or(0, |(first, extent)| first + extent.pages)
    }

    /// The page range `[first, end)` as alternating extents and holes.
    pub(crate) fn stretches(&self, first: u64, end: u64) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        let mut page = first;
        let start = self.extents.range(..=first).next_back().map_or(first, |(&start, _)| start);
        for (&start, extent) in self.extents.range(start..end) {
            let extent_end = (start + extent.pages).min(end);
            if extent_end <= page {
                continue;
            }
            if start > page {
                stretches.push(Stretch { page, pages: start - page, arena_page: None });
                page = start;
            }
            let arena_page = Some(extent.arena_page + (page - start));
            stretches.push(Stretch { page, pages: extent_end - page, arena_page });
            page = extent_end;
        }
        if page < end {
            stretches.push(Stretch { page, pages: end - page, arena_page: None });
        }
        stretches
    }

    /// Maps a hole. The extent before the hole grows if the two are neighbours in object and arena.
    pub(crate) fn map(&mut self, page: u64, extent: Extent) {
        if let Some((&before, previous)) = self.extents.range_mut(..page).next_back() {
            if before + previous.pages == page && previous.arena_page + previous.pages == extent.arena_page {
                previous.pages += extent.pages;
                return;
            }
        }
        self.extents.insert(page, extent);
    }

    /// Unmaps the page range `[first, end)` and returns the arena runs of the range.
    pub(crate) fn unmap(&mut self, first: u64, end: u64) -> Vec<Extent> {
        let mut freed = Vec::new();
        for stretch in self.stretches(first, end) {
            let Some(arena_page) = stretch.arena_page else { continue };
            freed.push(Extent { arena_page, pages: stretch.pages });
            let Some((&start, &extent)) = self.extents.range(..=stretch.page).next_back() else { continue };
            self.extents.remove(&start);
            let head = stretch.page - start;
            if head > 0 {
                self.extents.insert(start, Extent { pages: head, ..extent });
            }
            let tail = start + extent.pages - (stretch.page + stretch.pages);
            if tail > 0 {
                let arena_page = extent.arena_page + (extent.pages - tail);
                self.extents.insert(stretch.page + stretch.pages, Extent { arena_page, pages: tail });
            }
        }
        freed
    }

    /// The next mapped (`data`) or unmapped page at or after `page`; `None` if no data follows.
    pub(crate) fn next(&self, page: u64, data: bool) -> Option<u64> {
        let mut position = page;
        let covering = self.extents.range(..=page).next_back();
        let inside = covering.filter(|(&start, extent)| start + extent.pages > page);
        if data {
            return match inside {
                Some(_) => Some(page),
                None => self.extents.range(page..).next().map(|(&start, _)| start),
            };
        }
        if let Some((&start, extent)) = inside {
            position = start + extent.pages;
            for (&start, extent) in self.extents.range(position..) {
                if start != position {
                    break;
                }
                position = start + extent.pages;
            }
        }
        Some(position)
    }

    /// One past the last mapped page.
    pub(crate) fn end(&self) -> u64 {
        self.extents.iter().next_back().map_or(0, |(&start, extent)| start + extent.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn maps_as_an_array_of_pages_would(steps in proptest::collection::vec((any::<bool>(), 0u64..40, 1u64..12), 1..120)) {
            let mut object = Object::default();
            let mut model = [None::<u64>; 64];
            let mut next_arena = 1000;
            for (map, first, pages) in steps {
                let end = first + pages;
                if map {
                    for stretch in object.stretches(first, end) {
                        if stretch.arena_page.is_none() {
                            object.map(stretch.page, Extent { arena_page: next_arena, pages: stretch.pages });
                            for page in stretch.page..stretch.page + stretch.pages {
                                model[page as usize] = Some(next_arena);
                                next_arena += 1;
                            }
                        }
                    }
                } else {
                    let freed: u64 = object.unmap(first, end).iter().map(|extent| extent.pages).sum();
                    let mapped = model[first as usize..end as usize].iter().filter(|page| page.is_some()).count();
                    prop_assert_eq!(freed, mapped as u64);
                    model[first as usize..end as usize].fill(None);
                }
                for stretch in object.stretches(0, 64) {
                    for page in 0..stretch.pages {
                        let expected = model[(stretch.page + page) as usize];
                        prop_assert_eq!(stretch.arena_page.map(|arena| arena + page), expected);
                    }
                }
                for page in 0..64u64 {
                    let data = (page..64).find(|&page| model[page as usize].is_some());
                    prop_assert_eq!(object.next(page, true), data);
                    let hole = (page..65).find(|&page| page == 64 || model[page as usize].is_none());
                    prop_assert_eq!(object.next(page, false), hole);
                }
            }
        }
    }
}
