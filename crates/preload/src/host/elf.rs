//! The part of an ELF file that tells which libraries it needs (elf(5)), on 64-bit machines of little endian; and files that
//! hold nothing but such a part.

use crate::host::kernel::system_call;
use libc::{c_int, c_void};

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const STACK: u32 = 0x6474_e551;
const NEEDED: u64 = 1;
const HASH: u64 = 4;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
const STRINGS_BYTES: u64 = 10;
const SYMBOL_BYTES: u64 = 11;
const SONAME: u64 = 14;
const INHERITED_PATHS: u64 = 15;
const PATHS: u64 = 29;

/// Bytes of the file's header, of a program header, of an entry of the dynamic section, and of a symbol.
const FILE_HEADER_BYTES: usize = 64;
const HEADER_BYTES: usize = 56;
const ENTRY_BYTES: usize = 16;
const EMPTY_SYMBOL_BYTES: usize = 24;
/// Most program headers, and bytes of a dynamic section, of files that are looked at. Real files have some dozens, and some
/// kilobytes.
const HEADERS_MAX: usize = 1024;
const DYNAMIC_BYTES_MAX: usize = 1 << 20;
/// Longest string that is read: a path of a search path, of which there are a few.
const STRING_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a string's first read.
const STRING_STEP_BYTES: usize = 256;
/// The largest page of the supported architectures.
const ALIGNMENT: u64 = 0x1_0000;
/// `EM_X86_64` and `EM_AARCH64`.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
const SHARED_OBJECT: u16 = 3;
const READ_AND_WRITE: u32 = 6;

/// The libraries that a program or a library needs, and where the dynamic linker looks for them.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// The name under which others need this library.
    pub(crate) soname: Option<Vec<u8>>,
    /// The names of the needed libraries.
    pub(crate) names: Vec<Vec<u8>>,
    /// The folders of `DT_RUNPATH`, for the needed libraries alone.
    pub(crate) folders: Vec<Vec<u8>>,
    /// The folders of `DT_RPATH`, also for the libraries that the needed ones need. `DT_RUNPATH` takes their place.
    pub(crate) inherited: Vec<Vec<u8>>,
}

fn read(descriptor: c_int, at: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0_u8; length];
    let mut done = 0;
    while done < length {
        let room: *mut c_void = bytes[done..].as_mut_ptr().cast();
        // SAFETY: the room has this length.
        let count = unsafe {
            system_call!(libc::SYS_pread64, descriptor, room, length - done, at.checked_add(done as u64)?)
        };
        match count.ok()? {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    Some(bytes)
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(BYTES)?)?;
    Some(part.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

fn string(descriptor: c_int, at: u64) -> Option<Vec<u8>> {
    let mut length = STRING_STEP_BYTES;
    loop {
        let mut bytes = read(descriptor, at, length)?;
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            bytes.truncate(end);
            return Some(bytes);
        }
        if bytes.len() < length || length >= STRING_BYTES_MAX {
            return None;
        }
        length *= 2;
    }
}

/// The needs of the open file. `None` where the dynamic linker of this machine does not take the file. The offset of the
/// descriptor stays.
pub(crate) fn needs(descriptor: c_int) -> Option<Needs> {
    let header = read(descriptor, 0, FILE_HEADER_BYTES)?;
    if !header.starts_with(b"\x7fELF\x02\x01") || number::<2>(&header, 18)? != u64::from(MACHINE) {
        return None;
    }
    let count = usize::try_from(number::<2>(&header, 56)?).ok()?.min(HEADERS_MAX);
    let table = read(descriptor, number::<8>(&header, 32)?, count * HEADER_BYTES)?;
    let headers: Vec<&[u8]> = table.chunks_exact(HEADER_BYTES).collect();
    let of_kind = |kind: u32| headers.iter().filter(move |one| number::<4>(one, 0) == Some(kind.into()));
    let Some(dynamic) = of_kind(DYNAMIC).next() else { return Some(Needs::default()) };
    let length = usize::try_from(number::<8>(dynamic, 32)?).ok()?.min(DYNAMIC_BYTES_MAX);
    let section = read(descriptor, number::<8>(dynamic, 8)?, length)?;
    let entries: Vec<(u64, u64)> = section
        .chunks_exact(ENTRY_BYTES)
        .map_while(|entry| Some((number::<8>(entry, 0)?, number::<8>(entry, 8)?)))
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let address = entries.iter().find(|(tag, _)| *tag == STRINGS)?.1;
    let strings = of_kind(LOAD).find_map(|load| {
        let (from, length) = (number::<8>(load, 16)?, number::<8>(load, 32)?);
        let is_inside = (from..from.checked_add(length)?).contains(&address);
        is_inside.then_some(number::<8>(load, 8)?.checked_add(address - from)?)
    })?;
    let all = |wanted: u64| {
        let places = entries.iter().filter(move |(tag, _)| *tag == wanted);
        places.filter_map(|(_, at)| string(descriptor, strings.checked_add(*at)?))
    };
    let paths = |tag: u64| -> Vec<Vec<u8>> {
        let split = |list: Vec<u8>| list.split(|byte| *byte == b':').map(<[u8]>::to_vec).collect::<Vec<_>>();
        all(tag).flat_map(split).collect()
    };
    let has_own = entries.iter().any(|(tag, _)| *tag == PATHS);
    Some(Needs {
        soname: all(SONAME).next(),
        names: all(NEEDED).collect(),
        folders: paths(PATHS),
        inherited: if has_own { Vec::new() } else { paths(INHERITED_PATHS) },
    })
}

/// A shared library without code, which has a name of its own, or none, and needs others by these paths. Once the dynamic
/// linker has loaded it, that name stands for the libraries.
pub(crate) fn stub(soname: Option<&[u8]>, needed: &[&[u8]]) -> Vec<u8> {
    let mut strings = vec![0_u8];
    let mut add = |text: &[u8]| {
        let at = strings.len() as u64;
        strings.extend_from_slice(text);
        strings.push(0);
        at
    };
    let mut entries: Vec<(u64, u64)> = needed.iter().map(|path| (NEEDED, add(path))).collect();
    entries.extend(soname.map(|name| (SONAME, add(name))));
    // The entries below, and the null entry that ends the section.
    let dynamic_bytes = (entries.len() + 6) * ENTRY_BYTES;
    let dynamic = FILE_HEADER_BYTES + 3 * HEADER_BYTES;
    let symbols = dynamic + dynamic_bytes;
    let hash = symbols + EMPTY_SYMBOL_BYTES;
    // One bucket, one symbol, and the numbers of the bucket's symbol and of the next one.
    let hash_words = [1_u32, 1, 0, 0];
    let text = hash + size_of_val(&hash_words);
    let length = text + strings.len();
    let known = [
        (HASH, hash as u64),
        (STRINGS, text as u64),
        (SYMBOLS, symbols as u64),
        (STRINGS_BYTES, strings.len() as u64),
        (SYMBOL_BYTES, EMPTY_SYMBOL_BYTES as u64),
        (0, 0),
    ];
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let mut put = |number: u64, length: usize| bytes.extend_from_slice(&number.to_le_bytes()[..length]);
    for (value, length) in [(u64::from(SHARED_OBJECT), 2), (u64::from(MACHINE), 2), (1, 4), (0, 8)] {
        put(value, length);
    }
    for (value, length) in [(FILE_HEADER_BYTES, 8), (0, 8), (0, 4), (FILE_HEADER_BYTES, 2)] {
        put(value as u64, length);
    }
    for value in [HEADER_BYTES, 3, 0, 0, 0] {
        put(value as u64, 2);
    }
    // The dynamic linker writes to the dynamic section. Without a header for the stack, it would make stacks executable.
    for (kind, at, length, alignment) in
        [(LOAD, 0, length, ALIGNMENT), (DYNAMIC, dynamic, dynamic_bytes, 8), (STACK, 0, 0, 16)]
    {
        put(kind.into(), 4);
        put(READ_AND_WRITE.into(), 4);
        for value in [at, at, at, length, length] {
            put(value as u64, 8);
        }
        put(alignment, 8);
    }
    for (tag, value) in entries.into_iter().chain(known) {
        put(tag, 8);
        put(value, 8);
    }
    bytes.extend_from_slice(&[0; EMPTY_SYMBOL_BYTES]);
    bytes.extend(hash_words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend_from_slice(&strings);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    fn needs_of(bytes: &[u8]) -> Option<Needs> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        needs(file.as_raw_fd())
    }

    #[test]
    fn a_real_program_tells_its_libraries_and_cut_bytes_tell_nothing_wrong() {
        let own = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
        let names = needs_of(&own).expect("an ELF file").names;
        assert!(names.iter().any(|name| name.starts_with(b"libc.so")), "{names:?}");
        for length in (0..4096.min(own.len())).step_by(7) {
            let _ = needs_of(&own[..length]);
        }
        assert!(needs_of(b"#!/bin/sh").is_none());
    }

    #[test]
    fn a_stub_tells_its_name_and_needs() {
        let told =
            needs_of(&stub(Some(b"libname.so"), &[b"/proc/self/fd/700", b"libc.so.6"])).expect("an ELF file");
        assert_eq!(told.soname.as_deref(), Some(&b"libname.so"[..]));
        assert_eq!(told.names, [b"/proc/self/fd/700".to_vec(), b"libc.so.6".to_vec()]);
        assert!(needs_of(&stub(None, &[])).expect("an ELF file").soname.is_none());
    }
}
