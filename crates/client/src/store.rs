//! The store: what its clones share, and the values that its operations take and give.

use crate::caller::Callers;
use crate::exchange;
use crate::paths::Walk;
use crate::session::{Environment, Generations};
use crate::transport::{SocketTransport, Transport};
use crate::{Caller, Counters, Result, Settings};
use std::os::fd::RawFd;
use std::sync::Arc;
use weir_placement::Layout;
use weir_wire::{
    AccountNames, Attributes, Capability, Claims, Cluster, Credential, DirectoryEntry, HandleId, Identity,
    Ino, Sequence,
};

/// Where an operation starts: a path relative to a directory, or an inode itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The directory (or, with an empty path, the inode meant).
    pub ino: Ino,
    /// Path relative to it; leading slashes are ignored.
    pub path: &'a [u8],
}

/// What an open answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Attributes after the open.
    pub attributes: Attributes,
    /// The open description at the home server.
    pub handle: HandleId,
    /// Right to the bytes.
    pub capability: Capability,
    /// Where the bytes are; absent for what is not a regular file.
    pub layout: Option<Layout>,
    /// Whether this call made the file.
    pub created: bool,
}

/// A part of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its entries, in the order of their cookies.
    pub entries: Vec<DirectoryEntry>,
    /// Whether these are the last.
    pub end: bool,
}

/// Kernel pages that a mount has to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// To be confirmed by the next [`Store::next_invalidation`].
    pub sequence: Sequence,
    /// File, offset, length (0: to the end).
    pub ranges: Vec<(Ino, u64, u64)>,
}

/// A store, reached lazily. Clones share their connections.
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
    callers: Callers,
}

impl<'a> Place<'a> {
    /// `path` below the root directory.
    pub fn root(path: &'a [u8]) -> Place<'a> {
        Place { ino: Ino::ROOT, path }
    }

    /// `path` below the directory `ino`.
    pub fn below(ino: Ino, path: &'a [u8]) -> Place<'a> {
        Place { ino, path }
    }

    /// The inode itself.
    pub fn inode(ino: Ino) -> Place<'static> {
        Place { ino, path: b"" }
    }
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
            callers: Callers::default(),
        };
        Store { inner: Arc::new(inner) }
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Its counters.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// A caller for whom a mount acts, accounted under `names` where it has no job; `job` is the credential found in its environment, whose uid must be `who`'s.
    /// Asking again for the same caller is cheap. Not for signal handlers.
    pub fn caller(&self, who: Identity, names: AccountNames, job: Option<Credential>) -> Caller {
        self.inner.callers.find(who, names, job)
    }

    /// To be called in the child of `fork` before any other call: the child gets its own client id and
    /// connections. `close` receives each inherited socket that a thread of the parent was using, to be closed.
    pub fn after_fork_in_child(&self, mut close: impl FnMut(RawFd)) {
        if let Some(former) = self.inner.generations.advance() {
            for link in &former.links {
                link.abandon(&mut close);
            }
        }
    }

    /// Tells every connected server that this client lives; a mount calls it every few seconds.
    pub fn heartbeat(&self) {
        let Ok(environment) = self.environment() else { return };
        for link in &environment.session().links {
            exchange::heartbeat(environment, link);
        }
    }

    /// The servers of the store, as cluster.json lists them.
    ///
    /// # Errors
    /// [`crate::ClientError::Settings`] when cluster.json or the credential cannot be read.
    pub fn cluster(&self) -> Result<Cluster> {
        let environment = self.environment()?;
        let servers = environment.session().links.iter().map(|link| link.address.clone()).collect();
        Ok(Cluster { servers })
    }

    /// What the store's credential says of its bearer.
    ///
    /// # Errors
    /// As [`Store::cluster`].
    pub fn claims(&self) -> Result<Claims> {
        Ok(self.environment()?.session().credential().0.claims.clone())
    }

    pub(crate) fn environment(&self) -> Result<Environment<'_>> {
        let inner = &*self.inner;
        Environment::new(&inner.generations, &inner.settings, &inner.counters, &*inner.transport)
    }

    /// A walk on behalf of `caller`, counted as a metadata call.
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
