//! The way back from a directory to its path, which others may change.

use crate::store::session::CALLER;
use libc::c_int;
use weir_client::wire::{Ino, OpenFlags};
use weir_client::{Place, Store};

/// Directories above each other that a search for a place looks at: more than a path has.
const DEPTH_MAX: usize = 4096;
/// Bytes of entries of one question.
const LISTING_BYTES: u32 = 64 * 1024;

/// The path below the prefix of a directory that was at `known`, and that others may have moved. Where the store does not tell,
/// the directory counts as unmoved.
///
/// # Errors
/// ENOENT for a removed directory.
pub(crate) fn present(store: &Store, ino: Ino, known: &[u8]) -> Result<Vec<u8>, c_int> {
    match store.attributes(&CALLER, Place { ino: Ino::ROOT, path: known }, false) {
        Ok(found) if found.ino == ino => return Ok(known.to_vec()),
        Err(error) if !matches!(error.errno(), libc::ENOENT | libc::ENOTDIR) => return Ok(known.to_vec()),
        Ok(_) | Err(_) => {}
    }
    let (mut here, mut names) = (ino, Vec::new());
    while here != Ino::ROOT && names.len() < DEPTH_MAX {
        let found = store
            .attributes(&CALLER, Place { ino: here, path: b".." }, false)
            .map_err(|error| error.errno())
            .and_then(|above| Ok((above.ino, name_in(store, above.ino, here)?)));
        match found {
            Ok((above, name)) => {
                names.push(name);
                here = above;
            }
            Err(libc::ENOENT | libc::ESTALE) => return Err(libc::ENOENT),
            Err(_) => return Ok(known.to_vec()),
        }
    }
    names.reverse();
    Ok(names.join(&b'/'))
}

/// The name of a directory in the directory above it.
fn name_in(store: &Store, above: Ino, ino: Ino) -> Result<Vec<u8>, c_int> {
    let wanted = OpenFlags { read: true, directory: true, ..OpenFlags::default() };
    let opened =
        store.open(&CALLER, Place { ino: above, path: b"" }, wanted, 0).map_err(|error| error.errno())?;
    let mut cookie = 0;
    let name = loop {
        let listing = match store.list(&CALLER, above, opened.handle, cookie, LISTING_BYTES, false) {
            Ok(listing) => listing,
            Err(error) => break Err(error.errno()),
        };
        if let Some(entry) =
            listing.entries.iter().find(|entry| entry.ino == ino && !matches!(&*entry.name, b"." | b".."))
        {
            break Ok(entry.name.clone());
        }
        match listing.entries.last().filter(|_| !listing.end) {
            Some(last) => cookie = last.cookie,
            None => break Err(libc::ENOENT),
        }
    };
    // A lost server forgets the description.
    let _ = store.close(&CALLER, above, opened.handle);
    name
}
