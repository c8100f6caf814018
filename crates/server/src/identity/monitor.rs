//! The monitor of a server's folders: it looks whether each is still there, and brings the journal's mark into the stamps.
//!
//! It is a thread of its own, because a look at a dead disk may take for ever, and must hold up neither the loop nor a worker.

use super::{lock, Identity};
use crate::folder::Folder;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;
use weir_core::error::ServerError;
use weir_core::home::Looks;
use weir_core::storage::{Dir, Look, Node, Stamp, TargetFolder, STAMP};

/// Pause between two looks: a folder that is gone is noticed, and a mark is in the stamps, after about as long.
const PAUSE: Duration = Duration::from_millis(500);

/// The event loop's side of the monitor. The thread ends when it is dropped.
pub(crate) struct Monitor(Arc<Shared>);

struct Shared {
    watched: Mutex<Watched>,
    ended: Condvar,
    /// The last change on stable storage.
    durable: AtomicU64,
    /// The last looks at the places of the server.
    looks: Mutex<Looks>,
}

struct Watched {
    targets: Vec<Target>,
    is_over: bool,
}

/// The files of a target, by its number.
pub(crate) type Target = (usize, Weak<Dir>);

/// The places that only the thread uses.
struct Own {
    home: Arc<Stamp>,
    journal: Option<(Folder, Node)>,
}

impl Monitor {
    /// Starts the thread, which looks after the targets of `identity` and `targets`.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(identity: &Identity, targets: Vec<Target>) -> Result<Monitor, ServerError> {
        let shared = Arc::new(Shared {
            watched: Mutex::new(Watched { targets, is_over: false }),
            ended: Condvar::new(),
            durable: AtomicU64::new(0),
            looks: Mutex::default(),
        });
        let journal = lock(&identity.journal).take().map(|(folder, stamp)| (folder, stamp.node()));
        let own = Own { home: Arc::clone(&identity.home), journal };
        let theirs = Arc::clone(&shared);
        let spawned = std::thread::Builder::new().name("monitor".into()).spawn(move || watch(&theirs, &own));
        spawned.map_err(|source| ServerError::Loop { what: "start the monitor of folders", source })?;
        Ok(Monitor(shared))
    }

    /// Looks after a target that joined, too.
    pub(crate) fn add_target(&self, target: Target) {
        lock(&self.0.watched).targets.push(target);
    }

    /// Notes the last change on stable storage, which the thread brings into the stamps.
    pub(crate) fn note_durable(&self, durable: u64) {
        self.0.durable.store(durable, Ordering::Relaxed);
    }

    /// The last looks at the places of the server.
    pub(crate) fn looks(&self) -> Looks {
        lock(&self.0.looks).clone()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        lock(&self.0.watched).is_over = true;
        self.0.ended.notify_all();
    }
}

fn watch(shared: &Shared, own: &Own) {
    let mut marked = 0;
    loop {
        let targets: Vec<(usize, Arc<Dir>)> = {
            let watched = lock(&shared.watched);
            let (mut watched, _) = shared
                .ended
                .wait_timeout_while(watched, PAUSE, |watched| !watched.is_over)
                .unwrap_or_else(PoisonError::into_inner);
            if watched.is_over {
                return;
            }
            watched.targets.retain(|(_, target)| target.strong_count() > 0);
            let upgraded = |(number, target): &Target| Some((*number, target.upgrade()?));
            watched.targets.iter().filter_map(upgraded).collect()
        };
        if let Some((folder, stamp)) = &own.journal {
            let there = folder.check_place().map_err(|error| error.to_string());
            let there = there.and_then(|()| match folder.node_of(Path::new(STAMP)) == Some(*stamp) {
                true => Ok(()),
                false => Err("its files are gone".to_string()),
            });
            lock(&shared.looks).journal_gone = there.err();
        }
        let durable = shared.durable.load(Ordering::Relaxed);
        let looks: Vec<(usize, Look)> =
            targets.iter().map(|(number, target)| (*number, target.look())).collect();
        if durable != marked {
            // A mark that is not written leaves an older one, which is true as well.
            let _ = own.home.write_mark(durable);
            let there = targets.iter().zip(&looks).filter(|(_, (_, look))| look.is_there());
            there.for_each(|((_, target), _)| target.keep_mark(durable));
            marked = durable;
        }
        lock(&shared.looks).targets = looks;
    }
}
