//! `poll`, `select` and `epoll_ctl` on placeholders. A file is always ready, but the kernel refuses a placeholder's number.

use crate::files::{prefix, sharing, stand_ins};
use crate::host::guard::{self, attempt, fail, quietly};
use crate::host::{addresses, real};
use libc::{c_int, c_short, fd_set, nfds_t, pollfd, timespec};

/// Linux's answer for a regular file or a directory (`DEFAULT_POLLMASK`).
const READY: c_short = libc::POLLIN | libc::POLLOUT | libc::POLLRDNORM | libc::POLLWRNORM;
/// Longest list that is looked at: a process has no more descriptors by the kernel's default (`fs.nr_open`).
const LIST: usize = 1 << 20;
const WORD_BITS: usize = u64::BITS as usize;
/// A time that has passed.
static NO_WAIT: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// `poll(2)` and `ppoll(2)`. `wait` makes the call on a list. Its second argument tells it not to wait.
///
/// # Safety
/// `list` has `count` elements, or is a bad address.
pub(crate) unsafe fn poll(
    list: *mut pollfd,
    count: nfds_t,
    wait: impl FnOnce(*mut pollfd, bool) -> c_int,
) -> c_int {
    let many = count as usize;
    if stand_ins::are_any() && many <= LIST && addresses::can_read(list, many) {
        // SAFETY: the list was found readable.
        unsafe { std::slice::from_raw_parts(list, many) }
            .iter()
            .for_each(|entry| sharing::settle_stand_in(entry.fd));
    }
    if !prefix::is_in_use() || many == 0 || many > LIST || !addresses::can_write(list, many) {
        return wait(list, false);
    }
    // SAFETY: the list was found writable.
    let given = unsafe { std::slice::from_raw_parts_mut(list, many) };
    if !given.iter().any(|entry| prefix::holds(entry.fd)) {
        return wait(list, false);
    }
    let copied = attempt(|| Some(Ok(given.to_vec())));
    let Some(Ok(mut asked)) = copied else { return fail(libc::ENOMEM) };
    let mut ready = 0;
    for (asked, given) in asked.iter_mut().zip(given.iter_mut()) {
        if prefix::holds(given.fd) {
            // The kernel leaves entries with a negative number alone.
            asked.fd = -1;
            given.revents = if prefix::is_place(given.fd) { libc::POLLNVAL } else { given.events & READY };
            ready += c_int::from(given.revents != 0);
        }
    }
    let waited = wait(asked.as_mut_ptr(), ready > 0);
    if waited >= 0 {
        for (asked, given) in asked.iter().zip(given.iter_mut()).filter(|(asked, _)| asked.fd >= 0) {
            given.revents = asked.revents;
        }
    }
    // The library touches its heap only while signals are held back.
    quietly(|| drop(asked));
    if waited < 0 {
        waited
    } else {
        waited + ready
    }
}

/// The sets of a `select`: for reads, writes and exceptions.
type Sets = [*mut fd_set; 3];

/// `select(2)` and `pselect(2)`. `wait` makes the call on sets. Its second argument tells it not to wait.
///
/// # Safety
/// The sets are null, have room for `count` numbers, or are bad addresses.
pub(crate) unsafe fn select(count: c_int, sets: Sets, wait: impl FnOnce(Sets, bool) -> c_int) -> c_int {
    let words = usize::try_from(count).unwrap_or(0).div_ceil(WORD_BITS);
    let is_usable = |set: &*mut fd_set| set.is_null() || addresses::can_write(set.cast::<u64>(), words);
    let is_followed = prefix::is_in_use() || stand_ins::are_any();
    if !is_followed || words == 0 || words > LIST / WORD_BITS || !sets.iter().all(is_usable) {
        return wait(sets, false);
    }
    let bits = |set: *mut fd_set| -> &mut [u64] {
        if set.is_null() {
            return &mut [];
        }
        // SAFETY: the set was found writable for so many words, and the program passes three different ones.
        unsafe { std::slice::from_raw_parts_mut(set.cast::<u64>(), words) }
    };
    if stand_ins::are_any() {
        let numbers =
            sets.iter().flat_map(|set| each_bit(bits(*set))).filter(|number| *number < count as usize);
        numbers.for_each(|number| sharing::settle_stand_in(number as c_int));
    }
    let is_ours = |number: usize| number < count as usize && prefix::holds(number as c_int);
    let any = sets.iter().any(|set| each_bit(bits(*set)).any(is_ours));
    if !any {
        return wait(sets, false);
    }
    let copied = attempt(|| Some(Ok(sets.map(|set| (bits(set).to_vec(), vec![0_u64; bits(set).len()])))));
    let Some(Ok(mut copies)) = copied else { return fail(libc::ENOMEM) };
    let mut ready = 0;
    for (index, (asked, ours)) in copies.iter_mut().enumerate() {
        for number in 0..count as usize {
            let (word, bit) = (number / WORD_BITS, 1_u64 << (number % WORD_BITS));
            if asked.get(word).is_some_and(|found| found & bit != 0) && is_ours(number) {
                asked[word] &= !bit;
                // A file is never exceptional.
                if index < 2 {
                    ours[word] |= bit;
                    ready += 1;
                }
            }
        }
    }
    let mut passed = sets;
    for (place, (asked, _)) in passed.iter_mut().zip(copies.iter_mut()).filter(|(place, _)| !place.is_null())
    {
        *place = asked.as_mut_ptr().cast();
    }
    let waited = wait(passed, ready > 0);
    if waited >= 0 {
        for (set, (asked, ours)) in sets.iter().zip(&copies) {
            for (place, (asked, ours)) in bits(*set).iter_mut().zip(asked.iter().zip(ours)) {
                *place = asked | ours;
            }
        }
    }
    quietly(|| drop(copies));
    if waited < 0 {
        waited
    } else {
        waited + ready
    }
}

fn each_bit(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(index, word)| {
        (0..WORD_BITS).filter(move |bit| word & (1 << bit) != 0).map(move |bit| index * WORD_BITS + bit)
    })
}

/// The longest wait of a call, which is none where the call must not wait.
pub(crate) fn no_wait(given: *const timespec, must_not_wait: bool) -> *const timespec {
    if must_not_wait {
        &raw const NO_WAIT
    } else {
        given
    }
}

/// `epoll_ctl(2)`. Linux refuses files there.
pub(crate) unsafe fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    descriptor: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    if stand_ins::hold(descriptor) || prefix::holds(descriptor) {
        guard::set_errno(libc::EPERM);
        return -1;
    }
    // SAFETY: the program's own promises.
    unsafe { real::epoll_ctl(epoll, operation, descriptor, event) }
}
