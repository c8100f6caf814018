//! The identity of the process, beside the identity that its credential names.
//!
//! With a mount the kernel checks the caller, so the fast path ends with the first change of identity. Without a mount no
//! kernel checks. As long as the process has another identity, calls that need permission answer EACCES, and open
//! descriptors stay open, as in POSIX. Calls work again once the process has its first identity again.

use crate::host::guard::{quietly, Outcome};
use crate::host::kernel;
use crate::store::session::{self, Mode};
use libc::{gid_t, uid_t};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use weir_client::Store;

/// Groups that Linux lets a process have (`NGROUPS_MAX`).
const GROUPS: usize = 65_536;

/// The identity with which the kernel would open files.
#[derive(Clone, PartialEq, Eq)]
struct Identity {
    user: uid_t,
    group: gid_t,
    groups: Vec<gid_t>,
}

/// The identity of the process before its first change.
static OWN: OnceLock<Identity> = OnceLock::new();
/// Whether the process has another identity now.
static ESTRANGED: AtomicBool = AtomicBool::new(false);

impl Identity {
    fn now() -> Identity {
        // An impossible number changes nothing, and the answer is the present number (setfsuid(2)).
        // SAFETY: no memory is passed, here and below.
        let present = |number| unsafe { kernel::raw(number, [u32::MAX as usize, 0, 0, 0, 0, 0]) } as u32;
        let mut groups: Vec<gid_t> = vec![0; GROUPS];
        // SAFETY: the list has room for the number that is passed.
        let count =
            unsafe { kernel::raw(libc::SYS_getgroups, [GROUPS, groups.as_mut_ptr() as usize, 0, 0, 0, 0]) };
        groups.truncate(usize::try_from(count).unwrap_or(0));
        groups.sort_unstable();
        Identity { user: present(libc::SYS_setfsuid), group: present(libc::SYS_setfsgid), groups }
    }

    /// Whether this identity has the rights that the credential of `own` gives. Root's rights do not come from its groups.
    fn has_rights_of(&self, own: &Identity) -> bool {
        self.user == own.user && (self.user == 0 || self == own)
    }
}

/// Notes the identity before the first change, and reads the credential, which the process may be unable to read afterwards.
pub(crate) fn remember() {
    if session::mode() == Mode::Prefix {
        quietly(|| {
            OWN.get_or_init(Identity::now);
            if let Some(store) = session::store() {
                // A credential that cannot be read fails the first call that needs it.
                let _ = store.cluster();
            }
        });
    }
}

/// Compares the identity after a change with the first identity.
pub(crate) fn compare() {
    quietly(|| {
        if let Some(own) = OWN.get() {
            ESTRANGED.store(!Identity::now().has_rights_of(own), Ordering::Release);
        }
    });
}

/// The client, for a call that needs permission: EACCES while the process has another identity, and EIO where nothing but
/// the client knows the store and its settings cannot be used.
pub(crate) fn store() -> Outcome<&'static Store> {
    if ESTRANGED.load(Ordering::Acquire) {
        return Some(Err(libc::EACCES));
    }
    match session::store() {
        None if session::mode() == Mode::Prefix => Some(Err(libc::EIO)),
        store => store.map(Ok),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_of_the_user_and_the_groups() {
        let who = |user, group, groups: &[gid_t]| Identity { user, group, groups: groups.to_vec() };
        let alice = who(7, 7, &[7, 9]);
        assert!(alice.has_rights_of(&who(7, 7, &[7, 9])));
        for other in [who(8, 7, &[7, 9]), who(7, 8, &[7, 9]), who(7, 7, &[7])] {
            assert!(!other.has_rights_of(&alice));
        }
        assert!(who(0, 5, &[]).has_rights_of(&who(0, 0, &[0, 1])), "root is root in any group");
        assert!(!who(0, 0, &[]).has_rights_of(&alice), "the credential gives a user's rights alone");
    }
}
