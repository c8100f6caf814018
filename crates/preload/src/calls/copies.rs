//! Copies of files in memory, for mapped files and programs without a mount.

use crate::files::paths::{self, Touch};
use crate::files::promotion;
use crate::files::tree::Located;
use crate::host::guard::Outcome;
use crate::host::kernel::{self, system_call};
use crate::store::counters::{self, Call};
use crate::store::identity;
use crate::store::session::CALLER;
use libc::{c_int, c_uint, c_void, off_t};
use std::ffi::{CStr, CString};
use std::io::IoSliceMut;
use weir_client::wire::OpenFlags;
use weir_client::{File, Place};

/// Bytes of a script in which the kernel looks for the interpreter (`BINPRM_BUF_SIZE`).
const SCRIPT_BYTES: usize = 256;
/// Name of the memfd of a library.
const LIBRARY: &CStr = c"weir-library";
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

/// A program to which a path of the store leads.
pub(crate) enum Program {
    /// A memfd with the program's bytes, which the kernel can execute.
    Image(c_int),
    /// A program of the host, to which a symbolic link leads.
    Host(CString),
    /// A script, whose first line names an interpreter, perhaps with an argument.
    Script(CString, Option<CString>),
}

/// The program at a path of the store. The interpreter of a script reads the script through this library, where `has_library`
/// says that the interpreter has it.
pub(crate) fn program(path: &[u8], has_library: bool) -> Outcome<Program> {
    let (ino, rest) = match paths::locate(libc::AT_FDCWD, path, Touch::Node) {
        Located::Store(ino, rest) => (ino, rest),
        Located::Elsewhere(host) => return Some(Ok(Program::Host(host))),
        Located::Host => return None,
    };
    let store = match identity::store()? {
        Ok(store) => store,
        Err(number) => return Some(Err(number)),
    };
    let place = Place { ino, path: &rest };
    let mut elsewhere = None;
    let opened = store.access(&CALLER, place, libc::X_OK as u8, true).and_then(|()| {
        let wanted = OpenFlags { read: true, ..OpenFlags::default() };
        File::new(store, store.open(&CALLER, place, wanted, 0)?, false)
    });
    let file = match paths::resolved(opened, &mut elsewhere) {
        Some(Ok(file)) => file,
        Some(Err(libc::EINVAL)) => return Some(Err(libc::EACCES)),
        Some(Err(number)) => return Some(Err(number)),
        None => return Some(Ok(Program::Host(elsewhere?))),
    };
    let program = program_of(&file, has_library);
    // The bytes are copied. A lost server forgets the description.
    let _ = file.close(&CALLER);
    Some(program)
}

/// A memfd with the bytes of an open file, for a stream of libc to read.
pub(crate) fn copy_of(descriptor: c_int) -> Outcome<c_int> {
    let description = promotion::discovered(descriptor)?;
    description.placeholder()?;
    let Some(file) = description.file(descriptor) else { return Some(Err(libc::EISDIR)) };
    Some(memory_with(file, c"weir-copy", libc::MFD_CLOEXEC))
}

fn program_of(file: &File, has_library: bool) -> Result<Program, c_int> {
    let mut start = [0_u8; SCRIPT_BYTES];
    let count = read_fully(file, &mut start, 0)?;
    let is_script = start.starts_with(b"#!");
    if let Some((interpreter, argument)) = interpreter_of(&start[..count]).filter(|_| has_library) {
        return Ok(Program::Script(interpreter, argument));
    }
    // The interpreter of a script opens the script by its number after the exec.
    let flags = if is_script { 0 } else { libc::MFD_CLOEXEC };
    memory_with(file, c"weir-program", flags).map(Program::Image)
}

/// The interpreter and its argument of a script, as the kernel reads them (`binfmt_script.c`).
fn interpreter_of(start: &[u8]) -> Option<(CString, Option<CString>)> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let (interpreter, argument) = (&line[..end], line[end..].trim_ascii());
    let argument = if argument.is_empty() { None } else { Some(CString::new(argument).ok()?) };
    (interpreter.first() == Some(&b'/')).then_some((CString::new(interpreter).ok()?, argument))
}

/// The interpreter and its argument of a script of the host.
pub(crate) fn interpreter_of_host(script: c_int) -> Option<(CString, Option<CString>)> {
    let mut start = [0_u8; SCRIPT_BYTES];
    // SAFETY: the buffer has this length.
    let count =
        unsafe { system_call!(libc::SYS_pread64, script, start.as_mut_ptr(), start.len(), 0) }.ok()?;
    interpreter_of(start.get(..count)?)
}

/// `MFD_EXEC` of Linux 6.3, where a system may forbid memfds without it to be executed. Older kernels refuse it.
const MFD_EXEC: c_uint = 0x10;

/// A memfd of a library with the bytes of an open file, which nobody can change any more.
pub(crate) fn sealed(file: &File) -> Result<c_int, c_int> {
    sealed_after(|memory| copy_into(file, memory))
}

/// A memfd of a library with these bytes, which nobody can change any more.
pub(crate) fn sealed_bytes(bytes: &[u8]) -> Result<c_int, c_int> {
    sealed_after(|memory| write_fully(memory, bytes))
}

fn sealed_after(fill: impl Fn(c_int) -> Result<(), c_int>) -> Result<c_int, c_int> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let memory = match made(LIBRARY, flags | MFD_EXEC) {
        Err(libc::EINVAL) => made(LIBRARY, flags)?,
        other => other?,
    };
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    let sealed = fill(memory)
        // SAFETY: no memory is passed.
        .and_then(|()| unsafe { system_call!(libc::SYS_fcntl, memory, libc::F_ADD_SEALS, seals) });
    if let Err(number) = sealed {
        kernel::close(memory);
        return Err(number);
    }
    Ok(memory)
}

fn made(name: &CStr, flags: c_uint) -> Result<c_int, c_int> {
    // SAFETY: the name ends with a zero byte.
    unsafe { system_call!(libc::SYS_memfd_create, name.as_ptr(), flags) }.map(|memory| memory as c_int)
}

fn memory_with(file: &File, name: &CStr, flags: c_uint) -> Result<c_int, c_int> {
    let memory = made(name, flags)?;
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
        write_fully(memory, &buffer[..count])?;
        offset += count as u64;
    }
}

fn write_fully(memory: c_int, bytes: &[u8]) -> Result<(), c_int> {
    let mut written = 0;
    while written < bytes.len() {
        let rest = &bytes[written..];
        // SAFETY: the part has this length.
        written += unsafe { system_call!(libc::SYS_write, memory, rest.as_ptr(), rest.len()) }?;
    }
    Ok(())
}
