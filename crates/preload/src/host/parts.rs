//! A table that grows by parts, without a lock: for numbers of which most programs use few.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A table of up to `PARTS` parts of `LENGTH` entries. A part is made at its first use and never freed.
pub(crate) struct Parts<T: 'static, const LENGTH: usize, const PARTS: usize>([AtomicPtr<[T; LENGTH]>; PARTS]);

impl<T: 'static, const LENGTH: usize, const PARTS: usize> Parts<T, LENGTH, PARTS> {
    pub(crate) const fn new() -> Self {
        Parts([const { AtomicPtr::new(std::ptr::null_mut()) }; PARTS])
    }

    /// The entry of `number`, where its part is made.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&'static T> {
        let part = self.0.get(number / LENGTH)?.load(Ordering::Acquire);
        // SAFETY: a part is leaked when it is made and never freed.
        unsafe { part.as_ref() }.map(|part| &part[number % LENGTH])
    }

    /// The entry of `number`, whose part is filled by `make` where it is not made yet. Nothing for a number beyond the table.
    pub(crate) fn get_made(&self, number: usize, make: impl Fn() -> T) -> Option<&'static T> {
        self.part_made(number / LENGTH, make).map(|part| &part[number % LENGTH])
    }

    /// The part of this index, which is filled by `make` where it is not made yet. Nothing for an index beyond the table.
    pub(crate) fn part_made(&self, index: usize, make: impl Fn() -> T) -> Option<&'static [T; LENGTH]> {
        let cell = self.0.get(index)?;
        if cell.load(Ordering::Acquire).is_null() {
            let part: Box<[T; LENGTH]> =
                (0..LENGTH).map(|_| make()).collect::<Vec<_>>().into_boxed_slice().try_into().ok()?;
            let made = Box::into_raw(part);
            if cell.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire).is_err()
            {
                // Another thread was faster.
                // SAFETY: no other thread has seen this part.
                drop(unsafe { Box::from_raw(made) });
            }
        }
        // SAFETY: a part is leaked when it is made and never freed.
        unsafe { cell.load(Ordering::Acquire).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn threads_that_make_a_part_at_once_get_the_same() {
        static TABLE: Parts<AtomicU32, 8, 4> = Parts::new();
        assert!(TABLE.get(9).is_none());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..32 {
                        let entry = TABLE.get_made(number, || AtomicU32::new(0)).expect("inside the table");
                        entry.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(
            (0..32).all(|number| TABLE.get(number).is_some_and(|entry| entry.load(Ordering::SeqCst) == 4))
        );
        assert!(TABLE.get(32).is_none() && TABLE.get_made(32, || AtomicU32::new(0)).is_none());
    }
}
