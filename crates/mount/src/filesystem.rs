//! The mounted store: the parts that operations share, and the table from the kernel's requests to the operations.

use crate::abi::{flags, opcode, InHeader};
use crate::call::{Answer, Call, Failure, Reply};
use crate::device::Device;
use crate::handles::Handles;
use crate::identity::Callers;
use crate::operations::locks::PosixLocks;
use crate::overwrites::Overwrites;
use crate::pages::Pages;
use crate::sizes::{LookUps, Sizes};
use crate::unsteady::Unsteady;
use crate::waits::Flights;
use crate::workers::WaitBudget;
use std::path::Path;
use std::sync::Arc;
use weir_client::{Caller, Store};

/// Refused because no server of the protocol could do it: the kernel then does without.
const UNSUPPORTED: Failure = Failure(libc::ENOSYS);

/// The mounted store.
pub(crate) struct Filesystem {
    pub(crate) store: Store,
    pub(crate) handles: Handles,
    pub(crate) pages: Arc<Pages>,
    pub(crate) overwrites: Overwrites,
    pub(crate) flights: Flights,
    pub(crate) posix_locks: PosixLocks,
    pub(crate) unsteady: Arc<Unsteady>,
    pub(crate) sizes: Sizes,
    pub(crate) look_ups: LookUps,
    pub(crate) features: Features,
    callers: Callers,
}

/// The features that the kernel and the mount agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    flags: u64,
}

impl Features {
    pub(crate) fn new(flags: u64) -> Features {
        Features { flags }
    }

    /// Whether files opened for direct I/O can be mapped shared (Linux 6.6); else files go through the page cache.
    pub(crate) fn direct_io(self) -> bool {
        self.flags & flags::init::DIRECT_IO_ALLOW_MMAP != 0
    }

    /// Whether SETXATTR has its long form.
    pub(crate) fn long_setxattr(self) -> bool {
        self.flags & flags::init::SETXATTR_EXT != 0
    }
}

impl Filesystem {
    /// A file system over `store` at `mount_point`; with `as_itself` everything is done as the bearer of the store's credential.
    pub(crate) fn new(
        store: Store,
        (device, mount_point): (Arc<Device>, &Path),
        features: Features,
        as_itself: bool,
    ) -> Filesystem {
        Filesystem {
            sizes: Sizes::new(Arc::clone(&device)),
            look_ups: LookUps::default(),
            pages: Arc::new(Pages::new(store.clone(), device, mount_point.to_owned())),
            store,
            overwrites: Overwrites::default(),
            handles: Handles::default(),
            flights: Flights::default(),
            posix_locks: PosixLocks::default(),
            unsteady: Arc::default(),
            features,
            callers: Callers::new(as_itself),
        }
    }

    /// The caller for whom a request is made.
    pub(crate) fn caller(&self, header: &InHeader) -> Caller {
        self.callers.of(header, &self.store)
    }

    /// Whether everything is done as the bearer of the store's credential.
    pub(crate) fn acts_as_itself(&self) -> bool {
        self.callers.are_one()
    }

    /// Carries out a request. A lock call may wait inside `budget`.
    ///
    /// # Errors
    /// The error number for the program; `ENOSYS` for what the kernel shall not ask again.
    pub(crate) fn serve(&self, call: &mut Call<'_>, budget: &dyn WaitBudget) -> Answer {
        let answer = self.dispatch(call, budget);
        if answer == Err(Failure(libc::ESTALE)) {
            self.unsteady.failed(call.node());
        }
        answer
    }

    fn dispatch(&self, call: &mut Call<'_>, budget: &dyn WaitBudget) -> Answer {
        match call.header.opcode {
            opcode::LOOKUP => self.lookup(call),
            // The nodes of the kernel are inode numbers of the store: there is nothing to count.
            opcode::FORGET | opcode::BATCH_FORGET => Ok(Reply::Silent),
            opcode::GETATTR => self.attributes(call),
            opcode::STATX => self.statx(call),
            opcode::SETATTR => self.change_attributes(call),
            opcode::ACCESS => self.access(call),
            opcode::STATFS => self.statistics(call),
            opcode::READLINK => self.read_link(call),
            opcode::SYMLINK => self.symlink(call),
            opcode::MKNOD => self.make_node(call),
            opcode::MKDIR => self.make_directory(call),
            opcode::UNLINK => self.unlink(call, false),
            opcode::RMDIR => self.unlink(call, true),
            opcode::RENAME => self.rename(call),
            opcode::RENAME2 => self.rename_with_flags(call),
            opcode::LINK => self.link(call),
            opcode::OPEN => self.open(call),
            opcode::CREATE => self.create(call, false),
            opcode::TMPFILE => self.create(call, true),
            opcode::READ => self.read(call),
            opcode::WRITE => self.write(call),
            opcode::FLUSH => self.flush(call),
            opcode::RELEASE => self.release(call),
            opcode::FSYNC => self.sync(call),
            opcode::FALLOCATE => self.allocate(call),
            opcode::LSEEK => self.seek(call),
            opcode::COPY_FILE_RANGE => self.copy_range(call, false),
            opcode::COPY_FILE_RANGE_64 => self.copy_range(call, true),
            opcode::IOCTL => self.ioctl(call),
            opcode::OPENDIR => self.open_directory(call),
            opcode::READDIR => self.read_directory(call),
            opcode::RELEASEDIR => self.release_directory(call),
            opcode::FSYNCDIR => self.sync_directory(call),
            opcode::SETXATTR => self.set_xattr(call),
            opcode::GETXATTR => self.xattr(call),
            opcode::LISTXATTR => self.xattr_names(call),
            opcode::REMOVEXATTR => self.remove_xattr(call),
            opcode::GETLK => self.test_lock(call),
            opcode::SETLK => self.lock(call, false, budget),
            opcode::SETLKW => self.lock(call, true, budget),
            opcode::INTERRUPT => self.interrupt(call),
            opcode::DESTROY => Ok(Reply::Done),
            // READDIRPLUS is not offered: its entries would be stale at once, as nothing is cached. POLL: regular files
            // are always ready, which the kernel then answers itself. SYNCFS is sent to other file systems only.
            _ => Err(UNSUPPORTED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Fixed, InHeader};
    use crate::workers::WaitPlace;
    use proptest::prelude::*;
    use weir_client::Settings;

    struct NoWaits;

    impl WaitBudget for NoWaits {
        fn enter(&self) -> Option<WaitPlace<'_>> {
            None
        }
    }

    /// A file system whose store is not there.
    fn filesystem() -> Filesystem {
        let descriptor = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty());
        let device = Arc::new(Device::new(descriptor.expect("it is there")));
        let store = Store::new(Settings::explicit("/nonexistent/cluster", "/nonexistent/credential", None));
        Filesystem::new(store, (device, Path::new("/nonexistent")), Features::new(u64::MAX), true)
    }

    fn served(filesystem: &Filesystem, opcode: u32, body: &[u8]) -> Answer {
        let mut bytes = InHeader { opcode, node: 1, ..InHeader::default() }.to_bytes();
        bytes.extend_from_slice(body);
        let mut scratch = Vec::new();
        let mut call = Call::parse(&bytes, &mut scratch).expect("it has a header");
        filesystem.serve(&mut call, &NoWaits)
    }

    /// Every request of the protocol that is refused, with its name in the kernel's header.
    const REFUSED: [(u32, &str); 12] = [
        (0, "none"),
        (7, "unassigned"),
        (26, "INIT, which comes once and first"),
        (37, "BMAP"),
        (40, "POLL"),
        (41, "NOTIFY_REPLY"),
        (44, "READDIRPLUS"),
        (48, "SETUPMAPPING"),
        (49, "REMOVEMAPPING"),
        (50, "SYNCFS"),
        (54, "after the newest"),
        (4096, "CUSE_INIT"),
    ];

    #[test]
    fn what_is_not_supported_says_so() {
        let filesystem = filesystem();
        for (opcode, name) in REFUSED {
            assert_eq!(served(&filesystem, opcode, &[0; 256]), Err(UNSUPPORTED), "{name}");
        }
    }

    #[test]
    fn a_handle_that_is_not_open_is_refused() {
        let filesystem = filesystem();
        for opcode in [
            opcode::READ,
            opcode::WRITE,
            opcode::FLUSH,
            opcode::RELEASE,
            opcode::FSYNC,
            opcode::FALLOCATE,
            opcode::LSEEK,
            opcode::COPY_FILE_RANGE,
            opcode::READDIR,
            opcode::RELEASEDIR,
            opcode::FSYNCDIR,
            opcode::GETLK,
            opcode::SETLK,
            opcode::SETLKW,
        ] {
            assert_eq!(served(&filesystem, opcode, &[0; 256]), Err(Failure(libc::EBADF)), "{opcode}");
        }
        assert_eq!(served(&filesystem, opcode::IOCTL, &[0; 256]), Err(Failure(libc::ENOTTY)));
    }

    proptest! {
        #[test]
        fn any_body_is_served_or_refused(opcode in 0u32..60, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let filesystem = filesystem();
            match served(&filesystem, opcode, &body) {
                Ok(Reply::Silent | Reply::Done) | Err(_) => {}
                Ok(reply) => prop_assert!(false, "{:?} without a store", reply),
            }
        }
    }
}
