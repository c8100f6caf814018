//! The layouts of the files behind descriptors.
//!
//! Layouts are never freed, so that a call may use one while another thread closes the descriptor. Equal layouts are kept once,
//! and files beyond the most layouts count at one target.

use crate::host::parts::Parts;
use crate::observation::layout::Layout;
use libc::c_int;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// Descriptors per part of the table, and parts: numbers up to a million, the kernel's default `fs.nr_open`.
const PART: usize = 1024;
const PARTS: usize = 1024;
/// Different layouts that are kept: a program has few, or files of one stripe, of which there are as many as targets.
const LAYOUTS: usize = 4096;

/// The knowledge about a descriptor.
pub(super) enum Found {
    /// Nothing is known.
    Unknown,
    /// The descriptor was looked at, and is not observed.
    Foreign,
    /// The descriptor stands for an observed file.
    Observed(&'static Layout),
}

static DESCRIPTORS: Parts<AtomicPtr<Layout>, PART, PARTS> = Parts::new();
static KEPT: Parts<AtomicPtr<Layout>, LAYOUTS, 1> = Parts::new();
static HIGHEST: AtomicI32 = AtomicI32::new(-1);
static FOREIGN: Layout = Layout::alone();
static ALONE: Layout = Layout::alone();

fn slot(descriptor: c_int) -> Option<&'static AtomicPtr<Layout>> {
    DESCRIPTORS.get(usize::try_from(descriptor).ok()?)
}

/// The knowledge about `descriptor`.
#[inline]
pub(super) fn look_up(descriptor: c_int) -> Found {
    let Some(slot) = slot(descriptor) else {
        return if descriptor < 0 { Found::Foreign } else { Found::Unknown };
    };
    let pointer = slot.load(Ordering::Acquire);
    if std::ptr::eq(pointer, &raw const FOREIGN) {
        return Found::Foreign;
    }
    // SAFETY: the layouts of the table are never freed.
    unsafe { pointer.as_ref() }.map_or(Found::Unknown, Found::Observed)
}

fn store(descriptor: c_int, layout: &'static Layout) {
    let Ok(number) = usize::try_from(descriptor) else { return };
    if let Some(slot) = DESCRIPTORS.get_made(number, || AtomicPtr::new(std::ptr::null_mut())) {
        slot.store(std::ptr::from_ref(layout).cast_mut(), Ordering::Release);
        HIGHEST.fetch_max(descriptor, Ordering::AcqRel);
    }
}

/// The highest descriptor that was ever looked at, -1 before the first.
pub(super) fn highest() -> c_int {
    HIGHEST.load(Ordering::Acquire)
}

/// Notes that `descriptor` stands for an observed file.
pub(super) fn set(descriptor: c_int, layout: &'static Layout) {
    store(descriptor, layout);
}

/// Notes that `descriptor` was looked at and is not observed.
pub(super) fn mark_foreign(descriptor: c_int) {
    store(descriptor, &FOREIGN);
}

/// Forgets `descriptor`. Answers whether it stood for an observed file.
pub(super) fn forget(descriptor: c_int) -> bool {
    let Some(slot) = slot(descriptor) else { return false };
    let before = slot.swap(std::ptr::null_mut(), Ordering::AcqRel);
    !before.is_null() && !std::ptr::eq(before, &raw const FOREIGN)
}

/// Notes that `new` stands for the file of `old`.
pub(super) fn copy(old: c_int, new: c_int) {
    match look_up(old) {
        Found::Observed(layout) if slot(new).is_some() => store(new, layout),
        // The part of the table that `new` needs is made when the descriptor is used, under the guard.
        Found::Unknown | Found::Observed(_) => {
            forget(new);
        }
        Found::Foreign => {
            if let Some(slot) = slot(new) {
                slot.store((&raw const FOREIGN).cast_mut(), Ordering::Release);
                HIGHEST.fetch_max(new, Ordering::AcqRel);
            }
        }
    }
}

/// The layout that is kept for all files of an equal one.
pub(super) fn kept(layout: Layout) -> &'static Layout {
    if layout == ALONE {
        return &ALONE;
    }
    for number in 0..LAYOUTS {
        let Some(place) = KEPT.get_made(number, || AtomicPtr::new(std::ptr::null_mut())) else { break };
        // SAFETY: kept layouts are never freed.
        match unsafe { place.load(Ordering::Acquire).as_ref() } {
            Some(known) if *known == layout => return known,
            Some(_) => {}
            None => {
                let made = Box::into_raw(Box::new(layout));
                let taken =
                    place.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
                // SAFETY: the box was leaked above, and is never freed, also where another thread was faster.
                return unsafe { &*taken.map_or(made, |_| made) };
            }
        }
    }
    &ALONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_unknown_foreign_or_observed() {
        assert!(matches!(look_up(-1), Found::Foreign));
        assert!(matches!(look_up(900), Found::Unknown));
        set(900, &ALONE);
        assert!(matches!(look_up(900), Found::Observed(_)));
        copy(900, 901);
        assert!(matches!(look_up(901), Found::Observed(_)));
        assert!(forget(900) && !forget(900));
        assert!(matches!(look_up(900), Found::Unknown) && matches!(look_up(901), Found::Observed(_)));
        mark_foreign(901);
        assert!(matches!(look_up(901), Found::Foreign) && !forget(901));
    }
}
