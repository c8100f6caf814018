//! Stores and files of tests, through the client.

use std::io::IoSliceMut;
use std::time::Duration;
use weir_client::wire::*;
use weir_client::{Caller, File, Place, Settings, Store, TransportChoice};
use weir_testing::{claims, wait_until, Cluster, READ_WRITE};

/// The caller of all operations: this process.
pub(crate) const CALLER: Caller = Caller::own();
/// The store of a cluster, with a client id of its own, as another process would have it.
pub(crate) fn store_on(cluster: &Cluster, transport: TransportChoice) -> Store {
    grant(cluster, "credential", u64::MAX / 2);
    store_with(cluster, "credential", transport)
}

/// A store as that of [`store_on`], with the credential of this name.
pub(crate) fn store_with(cluster: &Cluster, credential: &str, transport: TransportChoice) -> Store {
    let credential = cluster.folder().join(format!("{credential}.json"));
    let mut settings = Settings::explicit(cluster.cluster_file(), credential, None);
    settings.transport = transport;
    // A busy disk may hold a server up for half a minute.
    settings.silence = Duration::from_secs(120);
    Store::new(settings)
}

/// Makes or renews a credential of root that holds until this moment of Unix time, in seconds.
pub(crate) fn grant(cluster: &Cluster, name: &str, expires_seconds: u64) {
    cluster.credential(name, Claims { expires_seconds, ..claims(0) });
}

/// The file of this path.
pub(crate) fn open(store: &Store, path: &str, append: bool) -> File {
    let opened = store.open(&CALLER, Place::root(path.as_bytes()), READ_WRITE, 0o644).expect("opened");
    File::new(store, opened, append).expect("a regular file")
}

/// A directory whose files get `layout`.
pub(crate) fn make_directory(store: &Store, path: &str, layout: &str) {
    let place = Place::root(path.as_bytes());
    store.make(&CALLER, place, NodeKind::Directory, 0o755).expect("made");
    store
        .set_xattr(&CALLER, place, true, b"weir.layout", layout.as_bytes(), XattrMode::Set)
        .expect("laid out");
}

/// Cuts the file, also where a busy disk takes longer than a call waits: a server answers EIO then, and the cut is there later.
pub(crate) fn cut(file: &File, bytes: u64) {
    wait_until("the file is cut", || match file.truncate(&CALLER, bytes) {
        Ok(()) => true,
        Err(error) if error.errno() == libc::EIO => false,
        Err(error) => panic!("a cut failed: {error}"),
    });
}

/// The file's first bytes, at most `length`.
pub(crate) fn read_all(file: &File, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xEE; length];
    let mut filled = 0;
    while filled < length {
        let read = file.read_at(&CALLER, &mut [IoSliceMut::new(&mut bytes[filled..])], filled as u64);
        match read.expect("read") {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    bytes
}
