//! Names of users and groups, as the host's databases have them: a user is accounted under its name, whether it comes with a
//! job's credential or without one.

use std::collections::HashMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// Names remembered of each kind: more users than a host has. At the limit all are forgotten.
const NAMES: usize = 4096;
/// First room for an entry, and the most: groups list their members.
const ENTRY_BYTES: usize = 1024;
const ENTRY_BYTES_MAX: usize = 1024 * 1024;

/// The names seen.
#[derive(Default)]
pub(crate) struct Accounts {
    users: Mutex<HashMap<u32, String>>,
    groups: Mutex<HashMap<u32, String>>,
}

impl Accounts {
    /// The name of a user, or its number where it has none.
    pub(crate) fn user(&self, uid: u32) -> String {
        remembered(&self.users, uid, user_name)
    }

    /// The name of a group, or its number where it has none.
    pub(crate) fn group(&self, gid: u32) -> String {
        remembered(&self.groups, gid, group_name)
    }
}

/// The answer of a database for a number. A database that does not answer is asked again the next time.
enum Said {
    Name(String),
    Nobody,
    Nothing,
}

fn remembered(names: &Mutex<HashMap<u32, String>>, number: u32, ask: fn(u32) -> Said) -> String {
    // A poisoned lock still guards a map that is whole: every change of it is one insertion.
    let known = || names.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = known().get(&number) {
        return name.clone();
    }
    let name = match ask(number) {
        Said::Name(name) => name,
        Said::Nobody => number.to_string(),
        Said::Nothing => return number.to_string(),
    };
    let mut known = known();
    if known.len() >= NAMES {
        known.clear();
    }
    known.insert(number, name.clone());
    name
}

fn user_name(uid: u32) -> Said {
    with_room(|room| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: the entry and the room are writable and live through the call.
        let error = unsafe {
            libc::getpwuid_r(uid, entry.as_mut_ptr(), room.as_mut_ptr().cast(), room.len(), &mut found)
        };
        // SAFETY: where an entry was found it is whole, and its name lies in the room.
        (error, (!found.is_null()).then(|| unsafe { text((*found).pw_name) }))
    })
}

fn group_name(gid: u32) -> Said {
    with_room(|room| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: the entry and the room are writable and live through the call.
        let error = unsafe {
            libc::getgrgid_r(gid, entry.as_mut_ptr(), room.as_mut_ptr().cast(), room.len(), &mut found)
        };
        // SAFETY: where an entry was found it is whole, and its name lies in the room.
        (error, (!found.is_null()).then(|| unsafe { text((*found).gr_name) }))
    })
}

/// Asks with more and more room; getpwuid(3) says which errors mean that there is no entry.
fn with_room(ask: impl Fn(&mut [u8]) -> (i32, Option<String>)) -> Said {
    let mut room = vec![0; ENTRY_BYTES];
    loop {
        match ask(&mut room) {
            (libc::ERANGE, _) if room.len() < ENTRY_BYTES_MAX => room.resize(room.len() * 4, 0),
            (_, Some(name)) if !name.is_empty() => return Said::Name(name),
            (0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, _) => return Said::Nobody,
            _ => return Said::Nothing,
        }
    }
}

/// # Safety
/// `name` points to a string that ends with a zero byte.
unsafe fn text(name: *const libc::c_char) -> String {
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_and_nobody_has_a_number() {
        let accounts = Accounts::default();
        assert_eq!((accounts.user(0), accounts.group(0)), ("root".to_owned(), "root".to_owned()));
        assert_eq!(accounts.user(4_000_000_001), "4000000001");
        assert_eq!(accounts.user(0), "root", "remembered");
    }
}
