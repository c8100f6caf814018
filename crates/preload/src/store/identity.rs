//! Who the process is, beside whom its credential names.
//!
//! With a mount the kernel asks who calls, so the fast path ends with the first change. Without one there is nobody to
//! ask: as long as the process is someone else, what needs permission is refused with EACCES, and what is open already
//! stays open, as POSIX has it. Once the process is who it was, everything goes on.

use crate::host::guard::{quietly, Outcome};
use crate::host::kernel;
use crate::store::session::{self, Mode};
use libc::{gid_t, uid_t};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use weir_client::Store;

/// Groups that Linux lets a process have (`NGROUPS_MAX`).
const GROUPS: usize = 65_536;

/// As whom the kernel would open files.
#[derive(Clone, PartialEq, Eq)]
struct Identity {
    user: uid_t,
    group: gid_t,
    groups: Vec<gid_t>,
}

/// Who the process was before its first change.
static OWN: OnceLock<Identity> = OnceLock::new();
/// Whether it is someone else now.
static ESTRANGED: AtomicBool = AtomicBool::new(false);

impl Identity {
    fn now() -> Identity {
        // An impossible number changes nothing, and the answer is the present one (setfsuid(2)).
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

    /// Whether the credential of `own` says what this identity may do. Root's rights do not come from its groups.
    fn has_rights_of(&self, own: &Identity) -> bool {
        self.user == own.user && (self.user == 0 || self == own)
    }
}

/// Before the first change: the identity, and the credential, which the process may not be able to read afterwards.
pub(crate) fn remember() {
    if session::mode() == Mode::Prefix {
        quietly(|| {
            OWN.get_or_init(Identity::now);
            if let Some(store) = session::store() {
                // Where it cannot be read, the first call that needs it says so.
                let _ = store.cluster();
            }
        });
    }
}

/// After a change.
pub(crate) fn compare() {
    quietly(|| {
        if let Some(own) = OWN.get() {
            ESTRANGED.store(!Identity::now().has_rights_of(own), Ordering::Release);
        }
    });
}

/// The client, for a call that asks whether the caller may; EACCES while the process is not who it was.
pub(crate) fn store() -> Outcome<&'static Store> {
    if ESTRANGED.load(Ordering::Acquire) {
        return Some(Err(libc::EACCES));
    }
    session::store().map(Ok)
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
