//! The addresses in the host's `cluster.json`, which clients read: a server that listens elsewhere than the file says has its
//! entry mended.
//!
//! `weir up` writes the file whenever it starts a server. Where a unit of systemd starts one, or the server is on another host,
//! nobody else does. Commands and servers take turns by the lock of the home.

use crate::ports::resolve;
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;
use weir_core::config::Place;
use weir_core::notices::{notice, warning};
use weir_placement::ServerId;

/// The list of addresses, and the lock of the home.
const FILE: &str = "cluster.json";
const LOCK: &str = "lock";
/// Longest list that is read, as of clients.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// News that wait for the thread: more of them come only where the disk of the home hangs, and the next start tells them again.
const WAITING_MAX: usize = 64;
/// Pause after a command held the lock, or the file could not be written.
const PAUSE: Duration = Duration::from_secs(1);
/// Tries until the file is left as it is: a command holds the lock for less than this many pauses.
const TRIES_MAX: usize = 300;
const STACK_BYTES: usize = 256 * 1024;

/// The way to the thread that writes the file: the loop waits for no disk.
pub(crate) struct Publisher(SyncSender<(ServerId, Place)>);

impl Publisher {
    /// Starts the thread for the home of a store.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(home: &Path) -> io::Result<Publisher> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let home = home.to_path_buf();
        let thread = std::thread::Builder::new().name("publisher".into()).stack_size(STACK_BYTES);
        thread.spawn(move || serve(&home, &receiver))?;
        Ok(Publisher(sender))
    }

    /// A server is at this place now.
    pub(crate) fn note(&self, server: ServerId, place: Place) {
        // Without room the file stays old: clients ask the servers, too.
        let _ = self.0.try_send((server, place));
    }
}

fn serve(home: &Path, receiver: &Receiver<(ServerId, Place)>) {
    let mut news: HashMap<ServerId, Place> = HashMap::new();
    let mut tries = 0;
    loop {
        let next = match news.is_empty() {
            true => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => receiver.recv_timeout(PAUSE),
        };
        match next {
            Ok((server, place)) => {
                news.insert(server, place);
                tries = 0;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        tries += 1;
        match mend(home, &news) {
            Ok(Outcome::Busy) if tries < TRIES_MAX => continue,
            Ok(Outcome::Mended) => {
                notice!("{} names the servers where they are now", home.join(FILE).display())
            }
            Ok(Outcome::Right | Outcome::Busy) => {}
            Err(_) if tries < TRIES_MAX => continue,
            Err(error) => {
                warning!(
                    "{} cannot be written ({error}) and may name servers where they were; hint: `weir up` writes it",
                    home.join(FILE).display()
                );
            }
        }
        news.clear();
    }
}

/// The address of a server in the list of a home.
pub(crate) fn listed(home: &Path, server: ServerId) -> Option<String> {
    let document = read(&home.join(FILE)).ok()?;
    let mut entries = document.get("servers")?.as_array()?.iter();
    let entry = entries.find(|entry| entry.get("server").and_then(Value::as_u64) == Some(server.0.into()))?;
    entry.get("tcp")?.as_str().map(str::to_string)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The file was right, or is not there: the store is down, or comes up.
    Right,
    /// It is right now.
    Mended,
    /// A command changes the home, and may write the file.
    Busy,
}

/// Puts the places of servers into the list where it names others.
fn mend(home: &Path, news: &HashMap<ServerId, Place>) -> io::Result<Outcome> {
    let absent = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => Ok(Outcome::Right),
        _ => Err(error),
    };
    let lock = match File::options().write(true).open(home.join(LOCK)) {
        Ok(lock) => lock,
        Err(error) => return absent(error),
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Outcome::Busy),
        Err(errno) => return Err(errno.into()),
    }
    let path = home.join(FILE);
    let mut document = match read(&path) {
        Ok(document) => document,
        Err(error) => return absent(error),
    };
    let servers = document.get_mut("servers").and_then(Value::as_array_mut);
    let mut is_mended = false;
    for entry in servers.into_iter().flatten() {
        let number =
            entry.get("server").and_then(Value::as_u64).and_then(|number| u16::try_from(number).ok());
        let Some(place) = number.and_then(|number| news.get(&ServerId(number))) else { continue };
        is_mended |= put(entry, "tcp", &place.tcp) | put(entry, "control", &place.control);
    }
    if !is_mended {
        return Ok(Outcome::Right);
    }
    write(&path, &serde_json::to_string_pretty(&document)?)?;
    Ok(Outcome::Mended)
}

fn read(path: &Path) -> io::Result<Value> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// Puts an address into an entry, where the entry has none or one that leads elsewhere.
fn put(entry: &mut Value, key: &str, address: &str) -> bool {
    let Some(known) = entry.get(key).and_then(Value::as_str) else { return false };
    let is_same = known == address || resolve(known).ok().is_some_and(|at| resolve(address).ok() == Some(at));
    if !is_same {
        entry[key] = address.into();
    }
    !is_same
}

/// Replaces the file, which every user may read, at once.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let temporary: PathBuf = path.with_extension("json.new");
    let mut file = File::create(&temporary)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = r#"{"version":1,"window_seconds":1.0,"servers":[
        {"server":0,"tcp":"127.0.0.1:7000","unix":"/home/socket","control":"127.0.0.1:7001","owner":0},
        {"server":1,"tcp":"localhost:7002","unix":null,"control":"127.0.0.1:7003","owner":0}]}"#;

    fn news(server: u16, tcp: &str, control: &str) -> HashMap<ServerId, Place> {
        HashMap::from([(ServerId(server), Place { tcp: tcp.into(), control: control.into() })])
    }

    #[test]
    fn entries_that_lead_elsewhere_are_mended_and_all_else_stays() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(FILE);
        let mut expected: Value = serde_json::from_str(LISTED).unwrap();
        let listed = || serde_json::from_str::<Value>(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let mend = |news| mend(home.path(), &news).unwrap();
        std::fs::write(&file, LISTED).unwrap();
        assert_eq!(
            mend(news(0, "127.0.0.1:8", "127.0.0.1:9")),
            Outcome::Right,
            "this is no home of commands"
        );
        std::fs::write(home.path().join(LOCK), "").unwrap();
        for (server, tcp, control, outcome) in [
            (0, "127.0.0.1:7000", "127.0.0.1:7001", Outcome::Right),
            (1, "127.0.0.1:7002", "localhost:7003", Outcome::Right),
            (2, "127.0.0.1:1", "127.0.0.1:2", Outcome::Right),
            (1, "127.0.0.1:8002", "127.0.0.1:7003", Outcome::Mended),
            (0, "node4:7000", "node4:7001", Outcome::Mended),
            (0, "node4:7000", "node4:7001", Outcome::Right),
        ] {
            assert_eq!(mend(news(server, tcp, control)), outcome, "server {server} at {tcp}");
            if outcome == Outcome::Mended {
                let entry = &mut expected["servers"][usize::from(server)];
                (entry["tcp"], entry["control"]) = (tcp.into(), control.into());
            }
            assert_eq!(listed(), expected);
        }
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        let lock = File::options().write(true).open(home.path().join(LOCK)).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        assert_eq!(mend(news(0, "127.0.0.1:1", "127.0.0.1:2")), Outcome::Busy);
        drop(lock);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(mend(news(0, "127.0.0.1:1", "127.0.0.1:2")), Outcome::Right, "the store is down");
        assert!(!file.exists());
    }

    #[test]
    fn news_wait_for_the_command_that_has_the_home() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(FILE), LISTED).unwrap();
        let lock = File::create(home.path().join(LOCK)).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let publisher = Publisher::start(home.path()).unwrap();
        let place = Place { tcp: "127.0.0.1:8".into(), control: "127.0.0.1:9".into() };
        publisher.note(ServerId(1), place);
        std::thread::sleep(PAUSE / 2);
        let text = || std::fs::read_to_string(home.path().join(FILE)).unwrap();
        assert_eq!(text(), LISTED);
        drop(lock);
        while !text().contains("127.0.0.1:9") {
            std::thread::sleep(PAUSE / 10);
        }
    }
}
