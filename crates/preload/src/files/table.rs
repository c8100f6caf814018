//! The known descriptors: a load and a comparison for a number that is not the store's.

use crate::files::description::Description;
use crate::host::parts::Parts;
use libc::c_int;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Numbers per part of the table.
const PART: usize = 1024;
/// Parts: numbers up to a million, the kernel's default `fs.nr_open`. Higher numbers never come to the fast path.
const PARTS: usize = 1024;

const UNKNOWN: u8 = 0;
const FOREIGN: u8 = 1;
const KNOWN: u8 = 2;

/// The knowledge about one number.
pub(crate) enum Entry {
    /// Nothing is known: the library did not see the opening.
    Unknown,
    /// The number was not the store's at the last look.
    Foreign,
    /// The number stands for an open description of the store.
    Known(Arc<Description>),
}

struct Slot {
    state: AtomicU8,
    entry: RwLock<Option<Arc<Description>>>,
}

impl Slot {
    const fn new() -> Slot {
        Slot { state: AtomicU8::new(UNKNOWN), entry: RwLock::new(None) }
    }
}

/// The numbers of the first part, which need no look-up of a part.
static FIRST: [Slot; PART] = [const { Slot::new() }; PART];
/// All other numbers.
static OTHERS: Parts<Slot, PART, PARTS> = Parts::new();
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

fn slot(descriptor: c_int) -> Option<&'static Slot> {
    let number = usize::try_from(descriptor).ok()?;
    FIRST.get(number).or_else(|| OTHERS.get(number))
}

fn slot_made(descriptor: c_int) -> Option<&'static Slot> {
    let number = usize::try_from(descriptor).ok()?;
    FIRST.get(number).or_else(|| OTHERS.get_made(number, Slot::new))
}

/// The knowledge about `descriptor`.
pub(crate) fn look_up(descriptor: c_int) -> Entry {
    let Some(slot) = slot(descriptor) else { return Entry::Unknown };
    match slot.state.load(Ordering::Acquire) {
        UNKNOWN => Entry::Unknown,
        FOREIGN => Entry::Foreign,
        _ => match &*slot.entry.read().unwrap_or_else(PoisonError::into_inner) {
            Some(description) => Entry::Known(Arc::clone(description)),
            None => Entry::Unknown,
        },
    }
}

/// Whether `descriptor` stands for a description of the store. Hot calls ask this first.
pub(crate) fn is_known(descriptor: c_int) -> bool {
    slot(descriptor).is_some_and(|slot| slot.state.load(Ordering::Relaxed) == KNOWN)
}

/// Whether `descriptor` was not the store's at the last look.
pub(crate) fn is_foreign(descriptor: c_int) -> bool {
    slot(descriptor).is_some_and(|slot| slot.state.load(Ordering::Relaxed) == FOREIGN)
}

/// Enters `description` under `descriptor`. Answers the description that stood there.
pub(crate) fn enter(descriptor: c_int, description: Arc<Description>) -> Option<Arc<Description>> {
    let slot = slot_made(descriptor)?;
    description.add_alias(descriptor);
    HIGHEST.fetch_max(descriptor, Ordering::AcqRel);
    let mut entry = slot.entry.write().unwrap_or_else(PoisonError::into_inner);
    let before = entry.replace(description);
    slot.state.store(KNOWN, Ordering::Release);
    drop(entry);
    before.inspect(|before| before.remove_alias(descriptor))
}

/// Notes that `descriptor` is not the store's.
pub(crate) fn mark_foreign(descriptor: c_int) {
    if let Some(slot) = slot(descriptor) {
        let _ = slot.state.compare_exchange(UNKNOWN, FOREIGN, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Forgets `descriptor`, whose number may stand for something else now. Answers the description that stood there.
pub(crate) fn forget(descriptor: c_int) -> Option<Arc<Description>> {
    let slot = slot(descriptor)?;
    if slot.state.load(Ordering::Acquire) != KNOWN {
        slot.state.store(UNKNOWN, Ordering::Release);
        return None;
    }
    let mut entry = slot.entry.write().unwrap_or_else(PoisonError::into_inner);
    slot.state.store(UNKNOWN, Ordering::Release);
    let before = entry.take();
    drop(entry);
    before.inspect(|before| before.remove_alias(descriptor))
}

/// Every known descriptor with its description, in the order of the numbers.
pub(crate) fn each(mut visit: impl FnMut(c_int, &Arc<Description>)) {
    for descriptor in 0..=HIGHEST.load(Ordering::Acquire) {
        if is_known(descriptor) {
            if let Entry::Known(description) = look_up(descriptor) {
                visit(descriptor, &description);
            }
        }
    }
}

/// The highest number ever entered, -1 before the first.
pub(crate) fn highest() -> c_int {
    HIGHEST.load(Ordering::Acquire)
}

/// Replaces every known description by the value of `replace`, in the child of `fork`, where locks of other threads stay
/// taken.
///
/// # Safety
/// No other thread runs.
pub(crate) unsafe fn rebuild_after_fork(mut replace: impl FnMut(&Arc<Description>) -> Arc<Description>) {
    for descriptor in 0..=highest() {
        let Some(slot) = slot(descriptor) else { continue };
        if slot.state.load(Ordering::Acquire) != KNOWN {
            continue;
        }
        let lock = (&raw const slot.entry).cast_mut();
        // SAFETY: the only thread of the process writes to a static. The old lock, which a thread may hold that does not
        // exist here, is leaked with the description that it may protect.
        unsafe {
            let old = std::mem::ManuallyDrop::new(std::ptr::read(lock));
            let old =
                std::mem::ManuallyDrop::into_inner(old).into_inner().unwrap_or_else(PoisonError::into_inner);
            let new = old.as_ref().map(&mut replace).inspect(|new| new.add_alias(descriptor));
            std::mem::forget(old);
            std::ptr::write(lock, RwLock::new(new));
        }
    }
}
