//! The store: the parts that its clones share, and the values that its operations take and give.

use crate::caller::Callers;
use crate::exchange;
use crate::observer::Observing;
use crate::paths::Walk;
use crate::session::{Environment, Generations, Session};
use crate::transport::{SocketTransport, Transport};
use crate::{Caller, Counters, Result, Settings};
use std::os::fd::RawFd;
use std::sync::Arc;
use weir_placement::Layout;
use weir_wire::{
    AccountNames, Attributes, Capability, Claims, Cluster, Credential, DirectoryEntry, FileChange, HandleId,
    Identity, Sequence,
};

/// The answer to an open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The attributes after the open.
    pub attributes: Attributes,
    /// The open description at the home server.
    pub handle: HandleId,
    /// The right to the bytes.
    pub capability: Capability,
    /// The layout of the bytes. Only a regular file has one.
    pub layout: Option<Layout>,
    /// Whether this call made the file.
    pub created: bool,
}

/// A part of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The entries, in the order of their cookies.
    pub entries: Vec<DirectoryEntry>,
    /// Whether no entries follow.
    pub end: bool,
}

/// Changes by others that a mount's kernel has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// The number that the next [`Store::next_invalidation`] confirms.
    pub sequence: Sequence,
    /// Files with pages to drop, or with new sizes.
    pub files: Vec<FileChange>,
    /// Paths below the root of directories that others moved there.
    pub moved: Vec<Vec<u8>>,
}

/// A store. The first call connects to it, and clones share their connections.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    transport: Arc<dyn Transport>,
    counters: Counters,
    generations: Generations,
    observing: Observing,
    callers: Callers,
}

impl Store {
    /// A store with these settings. Nothing is opened until the first call.
    pub fn new(settings: Settings) -> Store {
        let transport = Arc::new(SocketTransport { choice: settings.transport });
        Store::with_transport(settings, transport)
    }

    /// A store whose servers are reached by `transport`.
    pub fn with_transport(settings: Settings, transport: Arc<dyn Transport>) -> Store {
        let inner = Inner {
            settings,
            transport,
            counters: Counters::default(),
            generations: Generations::default(),
            observing: Observing::default(),
            callers: Callers::default(),
        };
        Store { inner: Arc::new(inner) }
    }

    /// The store's settings.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// The store's counters.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// A caller for whom a mount acts. `names` are the accounts of a caller without a job. `job` is the credential in the
    /// caller's environment, whose uid must be that of `who`. A second look-up of the same caller is cheap. Signal handlers
    /// may not look up a caller.
    pub fn caller(&self, who: Identity, names: AccountNames, job: Option<Credential>) -> Caller {
        self.inner.callers.find(who, names, job)
    }

    /// Gives the child of `fork` its own client id and connections. The child calls this function before all others. `close`
    /// gets each inherited socket that a thread of the parent was using, and closes it.
    pub fn after_fork_in_child(&self, mut close: impl FnMut(RawFd)) {
        if let Some(former) = self.inner.generations.advance() {
            for link in former.links.iter() {
                link.abandon(&mut close);
            }
        }
    }

    /// Tells every connected server that this client lives. A mount calls this function every few seconds.
    pub fn heartbeat(&self) {
        let Ok(environment) = self.environment() else { return };
        for link in environment.session().links.iter() {
            exchange::heartbeat(environment, link);
        }
    }

    /// The servers of the store, as cluster.json lists them.
    ///
    /// # Errors
    /// [`crate::ClientError::Settings`] where cluster.json or the credential cannot be read.
    pub fn cluster(&self) -> Result<Cluster> {
        let environment = self.environment()?;
        let servers = environment.session().links.iter().map(|link| link.address().clone()).collect();
        Ok(Cluster { servers })
    }

    /// The number of servers that the store's client knows. More are known once a call needs one that joined the store.
    ///
    /// # Errors
    /// The errors of [`Store::cluster`].
    pub fn known_servers(&self) -> Result<usize> {
        Ok(self.environment()?.session().links.iter().count())
    }

    /// The claims of the store's credential about its bearer.
    ///
    /// # Errors
    /// The errors of [`Store::cluster`].
    pub fn claims(&self) -> Result<Claims> {
        Ok(self.environment()?.session().credential().0.claims.clone())
    }

    pub(crate) fn environment(&self) -> Result<Environment<'_>> {
        let inner = &*self.inner;
        Environment::new(
            &inner.generations,
            (&inner.settings, &inner.counters),
            &inner.observing,
            &*inner.transport,
        )
    }

    /// The session of this process, if the process began one.
    pub(crate) fn session_in_use(&self) -> Option<&Session> {
        self.inner.generations.begun()
    }

    /// Has the process go on with this session. `EBUSY` where the process began one.
    pub(crate) fn begin_with(&self, session: Session) -> Result<()> {
        self.inner.generations.begin_with(session)
    }

    /// A walk for `caller`, which counts as a metadata call.
    pub(crate) fn walk<'s>(&'s self, caller: &'s Caller) -> Result<Walk<'s>> {
        Counters::add(&self.inner.counters.metadata_calls, 1);
        self.walk_uncounted(caller)
    }

    pub(crate) fn walk_uncounted<'s>(&'s self, caller: &'s Caller) -> Result<Walk<'s>> {
        let environment = self.environment()?;
        let root = self.inner.settings.root.as_deref();
        Ok(Walk { environment, anchors: &environment.session().anchors, root, caller })
    }
}
