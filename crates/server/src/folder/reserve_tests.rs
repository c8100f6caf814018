//! The reserve in a real directory.

use super::Folder;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use weir_core::storage::Reserve;

const NAME: &str = "reserve";
/// The size of a reserve, and the bytes that it gives at once.
const RESERVE_BYTES: u64 = 1024 * 1024;
const GIVEN_BYTES: u64 = 64 * 1024;

fn reserve_in(folder: &Path) -> Reserve {
    Reserve::open(Arc::new(Folder::found(folder).unwrap()))
}

#[test]
fn the_reserve_is_given_bit_by_bit_and_filled_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut reserve = reserve_in(folder.path());
    let path = folder.path().join(NAME);
    assert!(fs::metadata(&path).unwrap().blocks() * 512 >= RESERVE_BYTES, "real room, no hole");
    let mut given = 0;
    while reserve.give() {
        given += GIVEN_BYTES;
        assert_eq!(fs::metadata(&path).map_or(0, |metadata| metadata.len()), RESERVE_BYTES - given);
    }
    assert_eq!(given, RESERVE_BYTES);
    assert!(!path.exists() && !reserve.give() && reserve.is_given());
    reserve.refill();
    assert!(!reserve.is_given());
    assert_eq!(fs::metadata(&path).unwrap().len(), RESERVE_BYTES);
    assert!(reserve_in(folder.path()).give(), "it outlives the server");
}
/// Another user could once lay a link of this name, and the server filled the file behind it with its own rights.
#[test]
fn a_link_in_place_of_the_reserve_leaves_its_target_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let behind = folder.path().join("behind");
    fs::write(&behind, "words").unwrap();
    fs::set_permissions(&behind, fs::Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink(&behind, folder.path().join(NAME)).unwrap();
    let mut reserve = reserve_in(folder.path());
    reserve.refill();
    assert!(!reserve.give(), "there is no reserve");
    assert_eq!(fs::read_to_string(&behind).unwrap(), "words");
    assert_eq!(fs::metadata(&behind).unwrap().mode() & 0o777, 0o644);
}
