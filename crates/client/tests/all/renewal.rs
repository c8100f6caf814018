//! Credentials that expire while a program runs. The program goes on where the credential's file was renewed, and is refused
//! where the file was not renewed.

use crate::files::{grant, open, read_all, store_with, CALLER};
use std::io::IoSlice;
use std::time::Duration;
use weir_client::wire::OpenFlags;
use weir_client::{File, Place, Store, TransportChoice};
use weir_testing::{servers, unix_seconds, Cluster};

/// Life of the first credential. The life is doubled where a busy machine does not get to work within it.
const LIFE_SECONDS: u64 = 3;
const LIFE_SECONDS_MAX: u64 = 120;
/// A server waits less for a client without a connection, before it releases the client's open files.
const RELEASED_AFTER: Duration = Duration::from_secs(4);
const STEP: usize = 100_000;
const THREADS: usize = 3;

/// Waits until a credential has expired: a server accepts it through its last second.
fn await_expiry(expires_seconds: u64) {
    while unix_seconds() <= expires_seconds {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn write(file: &File, step: usize) -> weir_client::Result<usize> {
    file.write_at(&CALLER, &[IoSlice::new(&[step as u8 + 1; STEP])], (step * STEP) as u64)
}

/// A store and open files, whose credential has expired since.
fn work_until_expiry(cluster: &Cluster, name: &str, transport: TransportChoice) -> (Store, Vec<File>) {
    let mut life = LIFE_SECONDS;
    loop {
        let expires_seconds = unix_seconds() + life;
        grant(cluster, name, expires_seconds);
        let store = store_with(cluster, name, transport);
        // An attempt on a machine too busy for this life ends with a refusal, and is made again.
        let flags = OpenFlags { read: true, write: true, create: true, ..OpenFlags::default() };
        let files = (0..THREADS).map(|number| {
            let path = format!("{name}-{number}");
            let opened = store.open(&CALLER, Place::root(path.as_bytes()), flags, 0o644)?;
            let file = File::new(&store, opened, false)?;
            write(&file, 0)?;
            Ok(file)
        });
        if let Ok(files) = files.collect::<weir_client::Result<Vec<File>>>() {
            await_expiry(expires_seconds);
            return (store, files);
        }
        life *= 2;
        assert!(life <= LIFE_SECONDS_MAX, "no work was done within {life} s");
    }
}

fn holds(file: &File, steps: usize) {
    let expected: Vec<u8> = (0..steps).flat_map(|step| [step as u8 + 1; STEP]).collect();
    assert!(read_all(file, expected.len() + 1) == expected);
}

/// Several threads of a program use the store while its credential expires. The credential's file was renewed before, so no
/// thread notices.
#[test]
fn a_running_program_goes_on_with_the_renewed_file() {
    let cluster = Cluster::start(&servers(2, 1, "ram", "64MiB"));
    for (name, transport) in [("unix", TransportChoice::Unix), ("tcp", TransportChoice::Tcp)] {
        let (store, files) = work_until_expiry(&cluster, name, transport);
        grant(&cluster, name, u64::MAX / 2);
        std::thread::scope(|scope| {
            for file in &files {
                scope.spawn(|| {
                    for step in 1..5 {
                        assert_eq!(write(file, step).expect("the renewed credential is used"), STEP);
                    }
                    holds(file, 5);
                });
            }
        });
        let fresh = open(&store, &format!("{name}-fresh"), false);
        assert_eq!(write(&fresh, 0).expect("written"), STEP);
    }
}

/// An expired credential gives no access. The same descriptors work again as soon as the credential's file is renewed, also
/// where the servers have released meanwhile what the client held.
#[test]
fn a_late_renewal_gives_the_same_descriptors_access_again() {
    let cluster = Cluster::start(&servers(2, 1, "ram", "64MiB"));
    let (store, files) = work_until_expiry(&cluster, "late", TransportChoice::Unix);
    for file in &files {
        let error = write(file, 1).expect_err("the credential has expired");
        assert_eq!(error.errno(), libc::EACCES, "{error}");
        assert!(error.to_string().contains("expired"), "{error}");
    }
    let error = store.statistics(&CALLER).expect_err("the credential has expired");
    assert_eq!(error.errno(), libc::EACCES, "{error}");
    // A credential of another user is no renewal, and neither is an expired one.
    grant(&cluster, "late", unix_seconds() - 1);
    assert_eq!(write(&files[0], 1).expect_err("expired as well").errno(), libc::EACCES);
    std::thread::sleep(RELEASED_AFTER);
    grant(&cluster, "late", u64::MAX / 2);
    for file in &files {
        assert_eq!(write(file, 1).expect("renewed"), STEP);
        holds(file, 2);
    }
}
