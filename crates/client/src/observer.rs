//! Counts of the requests that this process made, in the windows that all processes of its user share, and in those of its trace.

use crate::message::Message;
use crate::{Caller, Settings};
use rustix::time::{clock_gettime, ClockId};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_placement::{ServerId, TargetId};
use weir_windows::{Attempts, Device, Job, Operation, Recorder, Tally};
use weir_wire::{Claims, Reply, Request};

/// The process's place in the windows: in those of its user, in those of its trace, or in both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observer<'o> {
    shared: Option<&'o Shared>,
    traced: Option<&'static Tally>,
}

/// The windows that all processes of a user share.
#[derive(Debug)]
struct Shared {
    recorder: Recorder,
    store: u64,
    own: Job,
}

/// The windows of a process and its children: those of its user, once their file could be opened, and those of its trace. No
/// thread waits for another one.
#[derive(Debug, Default)]
pub(crate) struct Observing {
    shared: OnceLock<Shared>,
    attempts: Attempts,
    traced: OnceLock<Option<&'static Tally>>,
}

/// The store and the lengths of its windows, as cluster.json tells them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// The number of the store.
    pub(crate) store: u64,
    /// Length of a window.
    pub(crate) window: Duration,
}

/// The end of a request, in nanoseconds since 1970, and the nanoseconds that it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    ended: u64,
    took: u64,
}

impl Span {
    /// The span of a request that ended just now.
    ///
    /// Servers number their windows by the clock of the day, which may be set while a program runs, so it is read each time.
    pub(crate) fn ended_now(took: u64) -> Span {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Span { ended: now.as_nanos() as u64, took }
    }
}

impl Observing {
    /// The observer. Nothing is counted without a folder and a trace, while the folder is not fit, or where the system gives no
    /// memory, and programs run as well.
    pub(crate) fn observer(
        &self,
        settings: &Settings,
        observed: Observed,
        own: &Claims,
    ) -> Option<Observer<'_>> {
        let shared = self.shared.get().or_else(|| {
            let folder = settings.windows.as_deref()?;
            self.open(folder, observed, own, coarse_seconds())
        });
        let traced = self.traced.get().copied().unwrap_or_else(|| {
            // A cell that is being filled while another thread forks stays so in the child: it is filled at once.
            let begun = settings
                .tally
                .filter(|tally| tally.begin(observed.window, observed.store, own.uid, &own.job).is_ok());
            *self.traced.get_or_init(|| begun)
        });
        (shared.is_some() || traced.is_some()).then_some(Observer { shared, traced })
    }

    /// Tries to open the file at a second of the monotonic clock, where an attempt is due.
    #[cold]
    fn open(&self, folder: &Path, observed: Observed, own: &Claims, now: u64) -> Option<&Shared> {
        if !self.attempts.is_due(now) {
            return self.shared.get();
        }
        let Ok(recorder) = Recorder::open(folder, observed.window) else {
            self.attempts.fail(now);
            return None;
        };
        let own = recorder.job(observed.store, own.uid, &own.job);
        let fresh = Shared { recorder, store: observed.store, own };
        Some(self.shared.get_or_init(|| fresh))
    }
}

/// The seconds of a clock that costs little.
fn coarse_seconds() -> u64 {
    clock_gettime(ClockId::MonotonicCoarse).tv_sec as u64
}

impl Observer<'_> {
    /// Counts a request that was answered. `payload` are the bytes that it carried, and `received` those of the reply.
    pub(crate) fn count(
        &self,
        caller: &Caller,
        (message, server): (Message<'_>, ServerId),
        (reply, payload, received): (&Reply, usize, usize),
        span: Span,
    ) {
        let moved = |bytes: usize| match reply {
            Reply::Failed(_) | Reply::PagesHeld | Reply::StaleEpoch { .. } | Reply::AppendElsewhere => 0,
            _ => bytes as u64,
        };
        let target = |target: TargetId| Device::target(target.server.0, target.number() as u16);
        let (device, operation) = match message {
            Message::Read { target: of, .. } => (target(of), Operation::Read(moved(received))),
            Message::Write { target: of, .. } => (target(of), Operation::Write(moved(payload))),
            Message::Plain(request) => match operation_of(request, moved(payload)) {
                Some(operation) => (Device::metadata(server.0), operation),
                None => return,
            },
        };
        if let Some(shared) = self.shared {
            let job = match &caller.registered {
                None => &shared.own,
                Some(who) => who.counted.get_or_init(|| shared.job_of(&who.job, who.who.uid)),
            };
            shared.recorder.count(job, device, operation, span.ended, span.took);
        }
        // A mount, which acts for others, has no trace.
        if let Some(tally) = self.traced {
            tally.count(device, operation, span.ended, span.took);
        }
    }
}

impl Shared {
    /// The job of a user for whom a mount acts. Without a job of its own, it has the name that servers give to it.
    fn job_of(&self, job: &Option<weir_wire::Credential>, uid: u32) -> Job {
        match job {
            Some(credential) => self.recorder.job(self.store, uid, &credential.claims.job),
            None => self.recorder.job(self.store, uid, &format!("uid-{uid}")),
        }
    }
}

/// The operation of a request other than a read or write of an object, as servers count it. Greetings, and requests that
/// wait for other programs, are none. An append goes through the file's home, which alone knows its target.
fn operation_of(request: &Request, bytes: u64) -> Option<Operation> {
    Some(match request {
        Request::Append { .. } => Operation::Write(bytes),
        Request::Attributes { .. }
        | Request::Layout { .. }
        | Request::Access { .. }
        | Request::ReadLink { .. }
        | Request::XattrGet { .. }
        | Request::XattrList { .. } => Operation::Stat,
        Request::Open { .. } => Operation::Open,
        Request::Close { .. } => Operation::Close,
        Request::List { .. }
        | Request::Change { .. }
        | Request::Make { .. }
        | Request::Symlink { .. }
        | Request::Link { .. }
        | Request::Unlink { .. }
        | Request::Rename { .. }
        | Request::XattrSet { .. }
        | Request::XattrRemove { .. } => Operation::Other,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::Role;

    fn claims() -> Claims {
        Claims {
            job: "job".into(),
            user: "user".into(),
            group: "group".into(),
            uid: 1000,
            gid: 1000,
            groups: Vec::new(),
            nodes: 1,
            priority: 1,
            role: Role::User,
            issued_seconds: 0,
            expires_seconds: 1,
        }
    }

    #[test]
    fn a_file_that_could_not_be_opened_is_tried_again_after_a_while() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("missing/windows");
        let (observing, observed) =
            (Observing::default(), Observed { store: 7, window: Duration::from_secs(1) });
        let is_open = |now| observing.open(&folder, observed, &claims(), now).is_some();
        assert!(!is_open(100));
        std::fs::create_dir(root.path().join("missing")).expect("a folder");
        assert!(!is_open(105), "each operation would try");
        assert!(is_open(110));
        let mut settings = Settings::explicit(root.path(), root.path(), None);
        settings.windows = Some(folder);
        assert!(observing.observer(&settings, observed, &claims()).is_some());
    }
}
