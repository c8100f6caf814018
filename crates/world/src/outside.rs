//! Everything outside of a server in a world: its files in memory, its random bytes, and its lines to other servers.

use super::agenda::Agenda;
use super::disk::Disk;
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use weir_core::accounts::machine::Reading;
use weir_core::config::{ClusterConfig, Place, TargetConfig};
use weir_core::error::ServerError;
use weir_core::home::{Home, Joined, Joining, LeavingNames, Looks, Opened};
use weir_core::host::Host;
use weir_core::identity::{Consent, IdentityStatus};
use weir_core::journal::{JournalError, MemoryStorage, Storage};
use weir_core::peers::line::{Ask, Lines, PeerAccess};
use weir_core::storage::Target;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::ServerAddress;

/// Memory of a server's namespace: more than a world fills.
const NAMESPACE_BYTES_MAX: u64 = 1 << 30;

/// The home of a server on a [`Disk`].
pub(super) struct MemoryHome {
    pub(super) server: ServerId,
    pub(super) disk: Disk,
}

impl Home for MemoryHome {
    fn own(&self) -> Arc<dyn Storage> {
        Arc::new(self.disk.own.clone())
    }

    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn check(&self, _: &ClusterConfig, _: Consent) -> Result<(), ServerError> {
        Ok(())
    }

    fn open(&mut self, config: &ClusterConfig, _: Consent) -> Result<Opened, ServerError> {
        let configs = &config.servers[usize::from(self.server.0)].targets;
        let opened = configs.iter().enumerate().map(|target| self.disk.open_target(target));
        let targets = opened.collect::<Result<Vec<Target>, ServerError>>()?;
        let journal: Arc<dyn Storage> = Arc::new(self.disk.journal.clone());
        let (witnessed, is_restored) = (self.disk.witnessed.get(), self.disk.is_restored.get());
        Ok(Opened { journal: Some(journal), reserve: None, targets, witnessed, is_restored })
    }

    fn settle(&self, durable: u64) -> Result<(), ServerError> {
        self.disk.is_restored.set(false);
        self.disk.witnessed.set(durable);
        Ok(())
    }

    fn watch(&mut self, _: &[Target]) -> Result<(), ServerError> {
        Ok(())
    }

    fn look(&self, durable: Option<u64>) -> Looks {
        durable.into_iter().for_each(|durable| self.disk.witnessed.set(durable));
        Looks { journal_gone: None, targets: self.disk.looks() }
    }

    fn close(&mut self, _: Option<u64>) {}

    fn identity(&self) -> Option<IdentityStatus> {
        None
    }

    fn joining(&self, _: &ClusterConfig, target: (usize, &TargetConfig)) -> Box<dyn Joining> {
        let target = self.disk.open_target(target);
        let joined = target.map(|target| Joined { is_apart: self.is_apart(&target), target });
        Box::new(OpenedTarget(joined))
    }

    fn watch_joined(&mut self, _: usize, _: &Target) -> Result<(), ServerError> {
        Ok(())
    }

    fn is_apart(&self, target: &Target) -> bool {
        self.disk.is_apart && target.directory().is_some()
    }

    fn leaving_names(&self) -> Box<dyn LeavingNames> {
        Box::new(NewFolder)
    }

    fn arrived_names(&self) -> Result<Option<Arc<dyn Storage>>, JournalError> {
        Ok(None)
    }

    fn forget_names(&self) {}

    fn publish(&mut self, _: ServerId, _: Place) -> io::Result<()> {
        Ok(())
    }
}

/// A target that joins. A folder in memory is open as soon as it is there.
struct OpenedTarget(Result<Joined, ServerError>);

impl Joining for OpenedTarget {
    fn check_new(&self, _: &Path) -> Result<(), String> {
        Ok(())
    }

    fn open(self: Box<Self>) -> Result<Joined, ServerError> {
        self.0
    }
}

/// An empty folder in memory.
struct NewFolder;

impl LeavingNames for NewFolder {
    fn empty(self: Box<Self>) -> Result<Arc<dyn Storage>, JournalError> {
        Ok(Arc::new(MemoryStorage::new()))
    }
}

impl Host for Agenda {
    fn draw(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        bytes.fill_with(|| self.below(256) as u8);
        Ok(())
    }

    fn reading(&mut self, _: Nanos) -> Reading {
        Reading::default()
    }

    fn namespace_bytes_max(&self, _: &ClusterConfig, _: ServerId) -> u64 {
        NAMESPACE_BYTES_MAX
    }
}

/// A word of a server about its lines.
pub(super) enum Said {
    Open(ServerId, PeerAccess),
    Ask(ServerId, Ask),
}

/// The words of a server since its last turn.
#[derive(Clone, Default)]
pub(super) struct Outbox(Rc<RefCell<Vec<Said>>>);

impl Outbox {
    pub(super) fn take(&self) -> Vec<Said> {
        std::mem::take(&mut *self.0.borrow_mut())
    }
}

impl Lines for Outbox {
    fn open(&mut self, server: ServerId, access: PeerAccess) -> Result<(), ServerError> {
        self.0.borrow_mut().push(Said::Open(server, access));
        Ok(())
    }

    fn redirect(&mut self, _: ServerId, _: String) {}

    fn ask(&mut self, server: ServerId, ask: Ask) {
        self.0.borrow_mut().push(Said::Ask(server, ask));
    }

    fn announced(&self, _: ServerId) -> Option<ServerAddress> {
        None
    }
}
