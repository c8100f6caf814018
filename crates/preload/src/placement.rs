//! Placement at creation: a file that the interaction database foresaw is made with the layout chosen for it.
//!
//! The database (`WEIR_PLACEMENT`) is opened at the first creation, and opened anew when another one takes its place.
//! Whatever is wrong with it, a program's creations go on as without it. After Tarazu, algorithm 2: the file is made
//! with its layout first, then the program's own call goes on; a file that is there keeps its layout.

mod creation;
mod database;
mod lustre;
mod pages;
mod reports;

pub(crate) use creation::{open, open_at_store, open_stream};
pub(crate) use reports::counts;
use reports::{count, Fate};

use crate::kernel::{self, system_call};
use database::{Component, Database};
use libc::c_int;
use pages::{MappedFile, Version};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// How often a changed database is looked for.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How often the lock is asked for before a creation goes on without the database: far longer than it takes to open
/// one. In the child of a fork without handlers the lock may stay taken for ever.
const LOCK_ATTEMPTS: u32 = 100_000;

/// What the environment said when the program started.
struct Settings {
    database: CString,
    report: Option<CString>,
}

/// The open database.
#[derive(Default)]
struct Current {
    database: Option<Arc<Database<MappedFile>>>,
    /// Of the file that `database` was, or failed to be.
    version: Option<Version>,
    checked: Option<Instant>,
}

static SETTINGS: AtomicPtr<Settings> = AtomicPtr::new(std::ptr::null_mut());
static CURRENT: AtomicPtr<Mutex<Current>> = AtomicPtr::new(std::ptr::null_mut());
static TOLD: AtomicBool = AtomicBool::new(false);

/// Takes the names of the database and of the report from the environment, when the library is loaded.
pub(crate) fn learn(database: Option<&[u8]>, report: Option<&[u8]>) {
    let named = |name: &[u8]| CString::new(name).ok();
    let Some(database) = database.and_then(named) else { return };
    let settings = Settings { database, report: report.and_then(named) };
    // Both are leaked: the process may use them until its end.
    CURRENT.store(Box::into_raw(Box::default()), Ordering::Release);
    SETTINGS.store(Box::into_raw(Box::new(settings)), Ordering::Release);
}

fn settings() -> Option<&'static Settings> {
    let known = SETTINGS.load(Ordering::Acquire);
    // SAFETY: it was leaked by `learn` and is never freed.
    (!known.is_null()).then(|| unsafe { &*known })
}

/// Whether the program runs with an interaction database.
pub(crate) fn is_on() -> bool {
    !SETTINGS.load(Ordering::Relaxed).is_null()
}

/// Whether an open with these flags may make a file whose place the database knows.
pub(crate) fn concerns(flags: c_int) -> bool {
    flags & libc::O_CREAT != 0 && flags & (libc::O_PATH | libc::O_DIRECTORY) == 0 && is_on()
}

/// The components that the database has for `path`; inside a hook only.
fn find(path: &[u8]) -> Option<Vec<Component>> {
    let settings = settings()?;
    let start = Instant::now();
    let database = current(settings)?;
    let found = database.find(path);
    reports::note_duration(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    match found {
        Ok(components) => Some(components).filter(|components| !components.is_empty()),
        Err(unusable) => {
            tell(settings, unusable.0);
            None
        }
    }
}

fn current(settings: &Settings) -> Option<Arc<Database<MappedFile>>> {
    let mut current = lock()?;
    let is_due = current.checked.is_none_or(|checked| checked.elapsed() >= CHECK_EVERY);
    if is_due {
        if current.checked.is_none() {
            crate::process::register();
        }
        current.renew(settings);
        current.checked = Some(Instant::now());
    }
    current.database.clone()
}

fn lock() -> Option<MutexGuard<'static, Current>> {
    // SAFETY: it was leaked by `learn` or `reset_in_child` and is never freed.
    let current = unsafe { CURRENT.load(Ordering::Acquire).as_ref() }?;
    for _ in 0..LOCK_ATTEMPTS {
        match current.try_lock() {
            Ok(locked) => return Some(locked),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            // SAFETY: it takes no arguments.
            Err(TryLockError::WouldBlock) => drop(unsafe { system_call!(libc::SYS_sched_yield) }),
        }
    }
    None
}

impl Current {
    /// Opens the database where it is not the one that was opened last. One that is gone is used on.
    fn renew(&mut self, settings: &Settings) {
        let found = match Version::of(&settings.database) {
            Ok(version) if self.version == Some(version) => return,
            Ok(_) => MappedFile::open(&settings.database),
            Err(number) => Err(number),
        };
        match found {
            Ok((pages, version)) => {
                self.version = Some(version);
                match Database::open(pages) {
                    Ok(database) => self.database = Some(Arc::new(database)),
                    Err(unusable) => {
                        self.database = None;
                        tell(settings, unusable.0);
                    }
                }
            }
            Err(_) if self.database.is_some() => {}
            Err(libc::ENOENT) => tell(settings, "is not there"),
            Err(_) => tell(settings, "cannot be read"),
        }
    }
}

/// Says once what is wrong with the database.
fn tell(settings: &Settings, wrong: &str) {
    if TOLD.swap(true, Ordering::AcqRel) {
        return;
    }
    let file = settings.database.to_string_lossy();
    say(&format!(
        "weir: {file} {wrong}: files are made without it, where the file system puts them; \
         make it anew with `weir place`\n"
    ));
}

/// Words for the user, on standard error.
fn say(words: &str) {
    // SAFETY: the words live through the call.
    let _ = unsafe { system_call!(libc::SYS_write, libc::STDERR_FILENO, words.as_ptr(), words.len()) };
}

/// A path as the program means it, absolute, without empty parts and `.`: how the database names files.
fn absolute(directory: c_int, path: &[u8]) -> Option<Vec<u8>> {
    let mut whole = if path.first() == Some(&b'/') {
        Vec::with_capacity(path.len())
    } else if directory == libc::AT_FDCWD {
        working_directory()?
    } else {
        kernel::path_of(directory)?
    };
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
        if whole.last() != Some(&b'/') {
            whole.push(b'/');
        }
        whole.extend_from_slice(part);
    }
    (whole.first() == Some(&b'/')).then_some(whole)
}

fn working_directory() -> Option<Vec<u8>> {
    let mut path = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer has this length.
    unsafe { system_call!(libc::SYS_getcwd, path.as_mut_ptr(), path.len()) }.ok()?;
    CStr::from_bytes_until_nul(&path).ok().map(|path| path.to_bytes().to_vec())
}

/// The child of a fork has one thread: a lock that is taken there was another one's.
pub(crate) fn reset_in_child() {
    reports::reset();
    // SAFETY: see `lock`.
    let current = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    if current.is_some_and(|current| matches!(current.try_lock(), Err(TryLockError::WouldBlock))) {
        CURRENT.store(Box::into_raw(Box::default()), Ordering::Release);
    }
}

/// Writes the report, if one was asked for and there is something to report.
pub(crate) fn write_report() {
    if let Some((settings, report)) =
        settings().and_then(|settings| Some((settings, settings.report.as_ref()?)))
    {
        reports::write(report, settings.database.to_bytes());
    }
}

/// The next image of this process reports for itself again, because `exec` failed.
pub(crate) fn rearm_report() {
    reports::rearm();
}
