//! Copies of files in memory, for mapped files and programs without a mount.

use crate::files::paths::{self, Touch};
use crate::files::promotion;
use crate::files::tree::Located;
use crate::host::guard::Outcome;
use crate::host::kernel::{self, system_call};
use crate::store::counters::{self, Call};
use crate::store::identity;
use crate::store::session::{self, CALLER};
use libc::{c_int, c_uint, c_void, off_t};
use std::ffi::CStr;
use std::io::IoSliceMut;
use weir_client::wire::OpenFlags;
use weir_client::{File, Place};

/// Bytes of one read into a copy.
const STEP_BYTES: usize = 4 << 20;

/// `mmap` of a placeholder: a copy of the present bytes, which fulfils the promise of a private mapping. A shared mapping with
/// write access answers ENODEV, as on file systems that have no such mappings.
pub(crate) fn map(
    descriptor: c_int,
    address: *mut c_void,
    length: usize,
    (protection, flags): (c_int, c_int),
    offset: off_t,
) -> Outcome<*mut c_void> {
    let description = promotion::discovered(descriptor)?;
    description.placeholder()?;
    let Some(file) = description.file(descriptor) else { return Some(Err(libc::ENODEV)) };
    if !description.is_readable() {
        return Some(Err(libc::EACCES));
    }
    if flags & libc::MAP_PRIVATE == 0 && protection & libc::PROT_WRITE != 0 {
        return Some(Err(libc::ENODEV));
    }
    let Ok(offset) = u64::try_from(offset) else { return Some(Err(libc::EINVAL)) };
    let shared = libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE;
    let anonymous = (flags & !shared) | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the program asked for a mapping at this place.
    let mapped =
        match unsafe { system_call!(libc::SYS_mmap, address, length, writable, anonymous, -1_isize, 0) } {
            Ok(mapped) => mapped,
            Err(number) => return Some(Err(number)),
        };
    // SAFETY: fresh anonymous memory of this length.
    let bytes = unsafe { std::slice::from_raw_parts_mut(mapped as *mut u8, length) };
    let read = read_fully(file, bytes, offset);
    // SAFETY: the mapping was made above.
    unsafe {
        if let Err(number) = read {
            let _ = system_call!(libc::SYS_munmap, mapped, length);
            return Some(Err(number));
        }
        if protection != writable {
            let _ = system_call!(libc::SYS_mprotect, mapped, length, protection);
        }
    }
    counters::served(Call::Map);
    Some(Ok(mapped as *mut c_void))
}

/// Reads until the buffer or the file ends. Bytes beyond the file's end stay zero.
fn read_fully(file: &File, bytes: &mut [u8], offset: u64) -> Result<usize, c_int> {
    let mut done = 0;
    while done < bytes.len() {
        let end = bytes.len().min(done + STEP_BYTES);
        let part = IoSliceMut::new(&mut bytes[done..end]);
        match file.read_at(&CALLER, &mut [part], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) => return Err(error.errno()),
        }
    }
    Ok(done)
}

/// A memfd with the bytes of an executable file of the store, which the kernel can execute.
pub(crate) fn image(path: &[u8]) -> Outcome<c_int> {
    let Located::Store(ino, rest) = paths::locate(libc::AT_FDCWD, path, Touch::Node) else { return None };
    let store = match identity::store()? {
        Ok(store) => store,
        Err(number) => return Some(Err(number)),
    };
    let place = Place { ino, path: &rest };
    let opened = session::outcome(store.access(&CALLER, place, libc::X_OK as u8, true).and_then(|()| {
        let wanted = OpenFlags { read: true, ..OpenFlags::default() };
        File::new(store, store.open(&CALLER, place, wanted, 0)?, false)
    }))?;
    let file = match opened {
        Ok(file) => file,
        Err(libc::EINVAL) => return Some(Err(libc::EACCES)),
        Err(number) => return Some(Err(number)),
    };
    let image = program_of(&file);
    // The bytes are copied. A lost server forgets the description.
    let _ = file.close(&CALLER);
    Some(image)
}

/// A memfd with the bytes of an open file, for a stream of libc to read.
pub(crate) fn copy_of(descriptor: c_int) -> Outcome<c_int> {
    let description = promotion::discovered(descriptor)?;
    description.placeholder()?;
    let Some(file) = description.file(descriptor) else { return Some(Err(libc::EISDIR)) };
    Some(memory_with(file, c"weir-copy", libc::MFD_CLOEXEC))
}

fn program_of(file: &File) -> Result<c_int, c_int> {
    let mut start = [0_u8; 2];
    read_fully(file, &mut start, 0)?;
    // The interpreter of a script opens the script by its number after the exec.
    let flags = if &start == b"#!" { 0 } else { libc::MFD_CLOEXEC };
    memory_with(file, c"weir-program", flags)
}

fn memory_with(file: &File, name: &CStr, flags: c_uint) -> Result<c_int, c_int> {
    // SAFETY: the name ends with a zero byte.
    let memory = unsafe { system_call!(libc::SYS_memfd_create, name.as_ptr(), flags) }? as c_int;
    let copied = copy_into(file, memory);
    if let Err(number) = copied {
        kernel::close(memory);
        return Err(number);
    }
    Ok(memory)
}

fn copy_into(file: &File, memory: c_int) -> Result<(), c_int> {
    let mut buffer = vec![0_u8; STEP_BYTES];
    let mut offset = 0_u64;
    loop {
        let count = read_fully(file, &mut buffer, offset)?;
        if count == 0 {
            return Ok(());
        }
        let mut written = 0;
        while written < count {
            // SAFETY: the part lies inside the buffer.
            written += unsafe {
                system_call!(libc::SYS_write, memory, buffer[written..].as_ptr(), count - written)
            }?;
        }
        offset += count as u64;
    }
}
