//! The open database, and the look-up of a path in it.

use crate::host::kernel;
use crate::host::{launcher, patience};
use crate::placement::database::{Component, Database, Temporary, Unusable};
use crate::placement::pages::{MappedFile, Version};
use crate::placement::reports;
use libc::c_int;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Time between two looks for a changed database.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Most names whose turns are counted: far more temporary names than a program uses again and again.
const TURNS_MAX: usize = 4096;
/// Most directories whose files are counted once only: more than a program makes again and again.
const COUNTED_MAX: usize = 4096;

/// The settings from the environment at the program's start.
struct Settings {
    database: CString,
    report: Option<CString>,
}

/// The open database.
#[derive(Default)]
struct Current {
    database: Option<Arc<Database<MappedFile>>>,
    /// The version of the file that was opened last, also where the file was no database.
    version: Option<Version>,
    checked: Option<Instant>,
    /// The number of files that this process has made under each temporary name that several files have.
    turns: HashMap<Vec<u8>, i64>,
    /// The number of files that the database foresees below each directory that was asked for.
    counted: HashMap<Vec<u8>, u32>,
}

/// The knowledge of the database about a file that is to be made.
#[derive(Default)]
pub(crate) struct Foreseen {
    /// The file's components, none for a file that is not foreseen.
    pub(crate) components: Vec<Component>,
    /// The turn that the file takes.
    pub(crate) turn: Turn,
}

/// A turn among the files with one temporary name. A file that is not made gives its turn back.
#[derive(Default)]
pub(crate) struct Turn(Option<Vec<u8>>);

impl Turn {
    /// Gives the turn back, because no file was made.
    pub(crate) fn give_back(self) {
        let (Some(name), Some(mut current)) = (self.0, lock()) else { return };
        if let Some(turn) = current.turns.get_mut(&name) {
            *turn = (*turn - 1).max(0);
        }
    }
}

static SETTINGS: AtomicPtr<Settings> = AtomicPtr::new(std::ptr::null_mut());
static CURRENT: AtomicPtr<Mutex<Current>> = AtomicPtr::new(std::ptr::null_mut());
/// The process that made [`CURRENT`], which a child may have in its memory.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static TOLD: AtomicBool = AtomicBool::new(false);

/// Takes the names of the database and of the report from the environment, when the library is loaded.
pub(crate) fn learn(database: Option<&[u8]>, report: Option<&[u8]>) {
    let named = |name: &[u8]| CString::new(name).ok();
    let Some(database) = database.and_then(named) else { return };
    let settings = Settings { database, report: report.and_then(named) };
    // Both are leaked: the process may use them until its end.
    begin();
    SETTINGS.store(Box::into_raw(Box::new(settings)), Ordering::Release);
}

fn settings() -> Option<&'static Settings> {
    let known = SETTINGS.load(Ordering::Acquire);
    // SAFETY: `learn` leaked the settings, which are never freed.
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

/// The knowledge of the database about the file that is made under the name `path`. The caller is inside a hook.
pub(crate) fn find(path: &[u8]) -> Foreseen {
    let Some(settings) = settings() else { return Foreseen::default() };
    let start = Instant::now();
    let Some(database) = current(settings) else { return Foreseen::default() };
    let found = found(&database, path);
    reports::note_duration(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    found.unwrap_or_else(|unusable| {
        tell(settings, unusable.0);
        Foreseen::default()
    })
}

fn found(database: &Database<MappedFile>, path: &[u8]) -> Result<Foreseen, Unusable> {
    let components = database.components(path)?;
    if !components.is_empty() || !database.has_temporaries() {
        return Ok(Foreseen { components, turn: Turn::default() });
    }
    let rank = launcher::rank().map_or(0, |rank| i64::from(rank.number));
    // The lock lasts until the turn is taken: another thread's file has the next turn.
    let Some(mut current) = lock() else { return Ok(Foreseen::default()) };
    let turn = |name: &[u8]| current.turns.get(name).copied().unwrap_or(0);
    let Temporary { components, in_turn } = database.find_temporary(path, rank, turn)?;
    let Some(name) = in_turn else { return Ok(Foreseen { components, turn: Turn::default() }) };
    if current.turns.len() >= TURNS_MAX && !current.turns.contains_key(&name) {
        return Ok(Foreseen::default());
    }
    *current.turns.entry(name.clone()).or_default() += 1;
    Ok(Foreseen { components, turn: Turn(Some(name)) })
}

/// The number of files that the database foresees below the directory `path`. Programs make one directory often, and find
/// that the directory is there. The caller is inside a hook.
pub(crate) fn files_below(path: &[u8]) -> u32 {
    let Some(settings) = settings() else { return 0 };
    let Some(database) = current(settings) else { return 0 };
    if let Some(known) = lock().and_then(|current| current.counted.get(path).copied()) {
        return known;
    }
    let files = database.files_below(path).unwrap_or_else(|unusable| {
        tell(settings, unusable.0);
        0
    });
    if let Some(mut current) = lock().filter(|current| current.counted.len() < COUNTED_MAX) {
        current.counted.insert(path.to_vec(), files);
    }
    files
}

fn current(settings: &Settings) -> Option<Arc<Database<MappedFile>>> {
    let mut current = lock()?;
    let is_due = current.checked.is_none_or(|checked| checked.elapsed() >= CHECK_EVERY);
    if is_due {
        current.renew(settings);
        current.checked = Some(Instant::now());
    }
    current.database.clone()
}

/// Starts with no database open.
fn begin() {
    CURRENT.store(Box::into_raw(Box::default()), Ordering::Release);
    PROCESS.store(kernel::process_id(), Ordering::Release);
}

/// The lock; absent without a database, and where another thread keeps the lock for too long.
fn lock() -> Option<MutexGuard<'static, Current>> {
    settings()?;
    patience::until(|| {
        let locked = try_lock();
        // In the child of a fork without handlers another thread's lock stays taken for ever.
        if locked.is_none() && PROCESS.load(Ordering::Acquire) != kernel::process_id() {
            reset_in_child();
        }
        locked
    })
}

fn try_lock() -> Option<MutexGuard<'static, Current>> {
    // SAFETY: `begin` leaked the value, which is never freed.
    match unsafe { CURRENT.load(Ordering::Acquire).as_ref() }?.try_lock() {
        Ok(locked) => Some(locked),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Current {
    /// Opens the database, if it is not the one that was opened last. The old database stays in use where the file is gone.
    fn renew(&mut self, settings: &Settings) {
        let found = match Version::of(&settings.database) {
            Ok(version) if self.version == Some(version) => return,
            Ok(_) => MappedFile::open(&settings.database),
            Err(number) => Err(number),
        };
        match found {
            Ok((pages, version)) => {
                self.version = Some(version);
                self.counted.clear();
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

/// Tells the user once of a fault in the database.
fn tell(settings: &Settings, wrong: &str) {
    let file = settings.database.to_string_lossy();
    kernel::say_once(&TOLD, || {
        format!(
            "weir: {file} {wrong}: files are made without it, where the file system puts them; \
             make it anew with `weir place`\n"
        )
    });
}

/// Makes the lock anew in the child of a fork, where it is taken: the child has one thread, so another thread took it.
pub(crate) fn reset_in_child() {
    reports::reset();
    if settings().is_none() {
        return;
    }
    if try_lock().is_none() {
        begin();
    } else {
        PROCESS.store(kernel::process_id(), Ordering::Release);
    }
}

/// Writes the report, if the environment asks for one and a creation was counted.
pub(crate) fn write_report() {
    if let Some((settings, report)) =
        settings().and_then(|settings| Some((settings, settings.report.as_ref()?)))
    {
        reports::write(report, settings.database.to_bytes());
    }
}

/// Lets the report be written again, because `exec` failed.
pub(crate) fn rearm_report() {
    reports::rearm();
}
