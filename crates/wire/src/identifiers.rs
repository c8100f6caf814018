//! Newtypes for the numbers that travel in messages.

use serde::{Deserialize, Serialize};
use std::fmt;
use weir_placement::{ServerId, TargetId};

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{:x}", self.0)
            }
        }
    };
}

identifier!(
    /// An inode: its home server in the upper 16 bits, a sequence number that is never reused below.
    Ino, u64
);
identifier!(
    /// One client: a process, or a mount. Random, chosen by the client; the scope of request ids.
    ClientId, u64
);
identifier!(
    /// A request of one client. A resend carries the id of the original.
    RequestId, u64
);
identifier!(
    /// An open file description at its home server.
    HandleId, u64
);
identifier!(
    /// An identity that a mount registered on a connection; 0 is the connection's own.
    IdentityId, u32
);
identifier!(
    /// The holder of a lock, within one client: a process (POSIX locks) or an open file description (OFD, flock).
    LockOwner, u64
);
identifier!(
    /// A position in a sequence that only grows.
    Sequence, u64
);

identifier!(
    /// The state of a server's locks: the next lock that is granted after clients lost some of theirs begins another one, and
    /// so does a start. A client shows the last one that it was told with every read and write, so that a write which began
    /// under a lock that another client has by now is refused ([`crate::Reply::StaleFence`]).
    Fence, u64
);

impl Fence {
    /// The fence that a client shows which never held a lock at the server: nothing is checked.
    pub const NONE: Fence = Fence(0);

    /// The first fence of a start of a server, which have numbers that grow.
    pub fn of_start(number: u32) -> Fence {
        Fence((u64::from(number) << 32) + 1)
    }

    /// The number of its start.
    pub fn start(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The fence after this one.
    pub fn next(self) -> Fence {
        Fence(self.0.wrapping_add(1))
    }
}

impl HandleId {
    /// No description: the handle of a capability that only lets its user name an inode.
    pub const NONE: HandleId = HandleId(0);
}

impl Ino {
    /// The root directory: the first inode of server 0.
    pub const ROOT: Ino = Ino(1);
    const SEQUENCE_BITS: u32 = 48;
    /// Servers of a store have numbers below 1,024 ([`crate::limits::SERVERS`]).
    const SLOT_SHIFT: u32 = 58;

    /// The inode number `sequence` of server `home`.
    pub fn new(home: ServerId, sequence: u64) -> Ino {
        debug_assert!(sequence < 1 << Ino::SEQUENCE_BITS);
        Ino((u64::from(home.0) << Ino::SEQUENCE_BITS) | sequence)
    }

    /// The server that owns the inode.
    pub fn home(self) -> ServerId {
        ServerId((self.0 >> Ino::SEQUENCE_BITS) as u16)
    }

    /// The number under which `target` keeps its object of the file. Numbers of servers leave the upper bits free for the
    /// slot of the object.
    pub fn object_on(self, target: TargetId) -> Ino {
        Ino(self.0 | u64::from(target.slot()) << Ino::SLOT_SHIFT)
    }

    /// The file of an object that has this number on its target.
    pub fn file(self) -> Ino {
        Ino(self.0 & ((1 << Ino::SLOT_SHIFT) - 1))
    }

    /// The slot of an object that has this number on its target.
    pub fn slot(self) -> u16 {
        (self.0 >> Ino::SLOT_SHIFT) as u16
    }

    /// The number within its home.
    pub fn sequence(self) -> u64 {
        self.0 & ((1 << Ino::SEQUENCE_BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_one_file_on_one_target_have_numbers_of_their_own() {
        let ino = Ino::new(ServerId(1023), (1 << 48) - 1);
        let target = TargetId { server: ServerId(7), index: 3 };
        assert_eq!(ino.object_on(target), ino, "the first object has the number of its file");
        for slot in 1..TargetId::SLOTS {
            let object = ino.object_on(target.in_slot(slot));
            assert_ne!(object, ino);
            assert_eq!((object.file(), object.slot()), (ino, slot));
        }
    }
}
