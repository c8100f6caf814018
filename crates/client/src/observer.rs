//! Counts of the requests that this process made, in the windows that all processes of its user share, and in those of its trace.

use crate::message::Message;
use crate::{Caller, Settings};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_placement::{ServerId, TargetId};
use weir_windows::{Device, Job, Operation, Recorder, Tally};
use weir_wire::{Claims, Reply, Request};

/// The process's place in the windows: in those of its user, in those of its trace, or in both.
#[derive(Debug)]
pub(crate) struct Observer {
    shared: Option<Shared>,
    traced: Option<&'static Tally>,
}

/// The windows that all processes of a user share.
#[derive(Debug)]
struct Shared {
    recorder: Recorder,
    store: u64,
    own: Job,
}

/// The observer of a process and its children, once the first session was begun. No thread waits for another one.
#[derive(Debug, Default)]
pub(crate) struct Observing(OnceLock<Option<Observer>>);

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
    /// The observer. Nothing is counted without a folder and a trace, or where the system gives no memory, and programs run as
    /// well.
    pub(crate) fn observer(
        &self,
        settings: &Settings,
        observed: Observed,
        own: &Claims,
    ) -> Option<&Observer> {
        if let Some(known) = self.0.get() {
            return known.as_ref();
        }
        let shared = settings.windows.as_deref().and_then(|folder| {
            let recorder = Recorder::open(folder, observed.window).ok()?;
            let own = recorder.job(observed.store, own.uid, &own.job);
            Some(Shared { recorder, store: observed.store, own })
        });
        let traced = settings
            .tally
            .filter(|tally| tally.begin(observed.window, observed.store, own.uid, &own.job).is_ok());
        let fresh = (shared.is_some() || traced.is_some()).then_some(Observer { shared, traced });
        self.0.get_or_init(|| fresh).as_ref()
    }
}

impl Observer {
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
        if let Some(shared) = &self.shared {
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
