//! Descriptions and locks over an `exec`, and in programs that a spawn starts, where there is no mount.
//!
//! The program of an exec goes on as this process's client ([`weir_client::Handover`]), which it finds in a memfd that a variable
//! of its environment names. It ends the descriptions whose last descriptor the exec closed. A connection stays open
//! meanwhile, also in a program without this library, which so keeps the locks. A program that is another process holds the
//! descriptions with locks from its start.

use crate::calls::locks;
use crate::files::description::Description;
use crate::files::placeholder::Placeholder;
use crate::files::{promotion, table};
use crate::host::guard::quietly;
use crate::host::kernel::{self, system_call};
use crate::store::session::{self, CALLER};
use libc::c_int;
use std::collections::HashSet;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use weir_client::wire::{decode_body, encode_body, Capability, HandleId, Ino, LockKind};
use weir_client::{File, HandedLock, Handover, Store};

/// The variable that a program finds: the number of the memfd, or [`LOCKED`].
pub(crate) const VARIABLE: &[u8] = b"WEIR_HANDOVER=";
/// The value that tells of placeholders with locks.
const LOCKED: &[u8] = b"locked";
/// Name of the memfd, and the link that `readlink` shows for it.
const NAME: &std::ffi::CStr = c"weir-handover";
const LINK: &[u8] = b"/memfd:weir-handover (deleted)";
/// Lowest number of the memfd, so that programs get the lowest numbers as POSIX says.
const OUT_OF_THE_WAY: c_int = 700;
/// Longest handover: all the descriptions and locks that one process can have, at less than 100 bytes each.
const DOCUMENT_BYTES_MAX: usize = 32 << 20;
/// Bytes that are read at first: a few descriptions.
const DOCUMENT_BYTES_USUAL: usize = 4096;

/// The content of the memfd: the process, the files whose process locks the exec releases, the connections with their inodes,
/// and the client.
type Document = (u32, Vec<Ino>, Vec<(c_int, u64)>, Handover);

/// A handover on its way, until the exec failed.
pub(crate) struct Passing {
    memory: c_int,
    connections: Vec<c_int>,
}

impl Passing {
    /// Prepares the handover, where this process holds something that the program may have, or that the exec ends.
    pub(crate) fn prepare() -> Option<Passing> {
        let client = session::store_in_use()?.hand_over()?;
        let (left, mut closed) = after_exec();
        closed.retain(|ino| client.locks().any(|lock| lock.kind == LockKind::Posix && lock.ino == *ino));
        let has_locks = client.locks().next().is_some();
        let is_held = client.descriptions().any(|capability| left.contains(&capability.handle));
        if !has_locks && !is_held {
            return None;
        }
        let mut connections = Vec::new();
        if is_held {
            let number = |number| Some((number, kernel::inode_of(number)?));
            connections.extend(client.connections().filter_map(number));
        }
        let mut bytes = Vec::new();
        encode_body(&(kernel::process_id(), closed, &connections, client), &mut bytes);
        let passing = Passing {
            memory: filled(&bytes)?,
            connections: connections.into_iter().map(|(number, _)| number).collect(),
        };
        passing.mark(0);
        Some(passing)
    }

    /// The value of the variable.
    pub(crate) fn value(&self) -> Vec<u8> {
        self.memory.to_string().into_bytes()
    }

    /// Takes everything back, because the exec failed.
    pub(crate) fn take_back(self) {
        self.mark(libc::FD_CLOEXEC);
        kernel::close(self.memory);
    }

    fn mark(&self, flags: c_int) {
        for number in self.connections.iter().chain([&self.memory]) {
            kernel::set_descriptor_flags(*number, flags);
        }
    }
}

/// The value of the variable for a program that becomes another process, where it may get a placeholder with locks.
pub(crate) fn value_for_child() -> Option<Vec<u8>> {
    has_locked().then(|| LOCKED.to_vec())
}

/// Whether this process knows a placeholder with locks.
pub(crate) fn has_locked() -> bool {
    let mut is_any = false;
    each_locked(|_, _| is_any = true);
    is_any
}

/// Notes that a child is about to begin, which is to hold the descriptions with locks before this process goes on: this process
/// may then end, or close them. A `spawned` program gets the descriptors alone that no exec closes.
pub(crate) fn expect_child(spawned: bool) {
    each_locked(|descriptor, placeholder| {
        if !spawned || kernel::descriptor_flags(descriptor) & libc::FD_CLOEXEC == 0 {
            placeholder.expect_holder();
        }
    });
}

/// Waits until the child holds them, if it is there.
pub(crate) fn await_child(is_there: bool) {
    each_locked(|_, placeholder| match is_there {
        true => placeholder.await_holders(),
        false => placeholder.note_holder(),
    });
}

fn each_locked(mut visit: impl FnMut(c_int, &Placeholder)) {
    table::each(|descriptor, description| {
        if let Some(placeholder) = description.placeholder().filter(|found| found.is_locked()) {
            visit(descriptor, placeholder);
        }
    });
}

/// The descriptions that keep a descriptor over an exec, and the files of which the exec closes one.
fn after_exec() -> (HashSet<HandleId>, Vec<Ino>) {
    let (mut left, mut closed) = (HashSet::new(), Vec::new());
    table::each(|descriptor, description| {
        let Some(placeholder) = description.placeholder() else { return };
        if kernel::descriptor_flags(descriptor) & libc::FD_CLOEXEC != 0 {
            closed.push(placeholder.ino());
        } else {
            left.extend(placeholder.capability().map(|capability| capability.handle));
        }
    });
    closed.sort_unstable();
    closed.dedup();
    (left, closed)
}

fn filled(bytes: &[u8]) -> Option<c_int> {
    // SAFETY: the name ends with a zero byte.
    let low = unsafe { system_call!(libc::SYS_memfd_create, NAME.as_ptr(), libc::MFD_CLOEXEC) }.ok()?;
    let memory = kernel::out_of_the_way(low as c_int, OUT_OF_THE_WAY);
    // SAFETY: the bytes are readable for their length.
    let written = unsafe { system_call!(libc::SYS_pwrite64, memory, bytes.as_ptr(), bytes.len(), 0) };
    if written == Ok(bytes.len()) {
        return Some(memory);
    }
    kernel::close(memory);
    None
}

/// Takes over what the program before left, when this library is loaded.
pub(crate) fn take_over(value: Option<&[u8]>) {
    let Some(value) = value else { return };
    quietly(|| {
        if let Some(document) = document(value) {
            if resume(document).is_some() {
                return;
            }
        }
        hold_locked();
    });
}

fn document(value: &[u8]) -> Option<Document> {
    let memory: c_int = std::str::from_utf8(value).ok()?.parse().ok()?;
    if kernel::path_of(memory).as_deref() != Some(LINK) {
        return None;
    }
    // A program that is not ours may have given the memfd to several processes of ours.
    let _ = kernel::seek(memory, 0, libc::SEEK_SET);
    let bytes = kernel::read_to_end(memory, DOCUMENT_BYTES_USUAL, DOCUMENT_BYTES_MAX);
    kernel::close(memory);
    decode_body(&bytes?, "handover").ok()
}

/// Goes on as the client of the program before. `None` where this process is another one, or knows another store or user.
fn resume((process, closed, connections, client): Document) -> Option<()> {
    let is_socket = |(number, inode): &(c_int, u64)| kernel::inode_of(*number) == Some(*inode);
    let connections: Vec<c_int> =
        connections.into_iter().filter(is_socket).map(|(number, _)| number).collect();
    let open = |number: c_int| {
        if !connections.contains(&number) {
            return None;
        }
        kernel::set_descriptor_flags(number, libc::FD_CLOEXEC);
        // SAFETY: the program before left the descriptor for this library, and the inode shows that it is the same one.
        Some(unsafe { OwnedFd::from_raw_fd(number) })
    };
    let descriptions: Vec<Capability> = client.descriptions().collect();
    let mut handed: Vec<HandedLock> = client.locks().collect();
    handed.retain(|lock| lock.kind != LockKind::Posix || !closed.contains(&lock.ino));
    if process != kernel::process_id() {
        connections.into_iter().for_each(kernel::close);
        return None;
    }
    let store = session::store()?;
    // Where the program has no credential any more, the connections stay open, and keep the locks until the process ends.
    store.take_over(client, open).ok()?;
    let mut left = HashSet::new();
    each_placeholder(|descriptor, description| {
        let Some(placeholder) = description.placeholder() else { return };
        let Some(capability) = placeholder.capability() else { return };
        if descriptions.iter().any(|held| held.handle == capability.handle) {
            placeholder.note_held();
            let _ = description.lockable(descriptor);
            left.insert(capability.handle);
        }
    });
    handed.iter().for_each(locks::note_handed);
    for capability in descriptions {
        end(store, capability, &closed, left.contains(&capability.handle));
    }
    Some(())
}

/// Ends what the exec ended of a description: the process's locks on the file, and the description without its last descriptor.
fn end(store: &Store, capability: Capability, closed: &[Ino], is_left: bool) {
    // A lost server forgets locks and description with the session.
    if closed.contains(&capability.ino) {
        if let Some(file) = File::of_directory(store, capability.ino, capability) {
            let _ = file.release_locks(&CALLER, locks::process_owner());
        }
    }
    if !is_left {
        let _ = store.close(&CALLER, capability.ino, capability.handle);
    }
}

/// Has this process's client hold the descriptions with locks.
fn hold_locked() {
    each_placeholder(|descriptor, description| locks::keep(descriptor, description));
}

fn each_placeholder(mut visit: impl FnMut(c_int, &Arc<Description>)) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<c_int>().ok());
    let numbers: Vec<c_int> = numbers.collect();
    for descriptor in numbers {
        if let Some(description) = promotion::discovered(descriptor) {
            visit(descriptor, &description);
        }
    }
}
