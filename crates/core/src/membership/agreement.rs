//! The settings that this server shares with the others of its store, kept over restarts.
//!
//! The configuration file says when its values were decided. A decision that the control API or another server told
//! later counts, also after a restart, until a still later file comes.
//!
//! A decision makes other settings of those in force. They are in force once a [`SettingsTicket`] has brought them to stable storage.

use crate::journal::Storage;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::notices::warning;
use std::io;
use std::sync::Arc;
use weir_placement::{ServerId, TargetId};
use weir_wire::quota::TooManyLimits;
use weir_wire::{
    Decided, QuotaLimits, QuotaOwner, ServerRecord, SharingNames, Stamp, StoreSettings, TargetRecord,
    TargetState,
};

const FILE: &str = "settings.json";

/// The shared settings, and the file that keeps them.
pub(super) struct Agreement {
    settings: StoreSettings,
    storage: Arc<dyn Storage>,
    server: u16,
}

/// Settings that are to be brought to stable storage.
pub struct SettingsTicket {
    settings: StoreSettings,
    storage: Arc<dyn Storage>,
}

impl Agreement {
    /// The settings of the configuration file, `from_file`, and of the decisions since that are kept in `storage`.
    pub(super) fn open(storage: Arc<dyn Storage>, server: u16, from_file: StoreSettings) -> Agreement {
        let mut settings = from_file;
        match kept(&*storage) {
            Ok(Some(kept)) => {
                settings.sharing.follow(&kept.sharing);
                settings.allocator.follow(&kept.allocator);
                for record in &kept.servers {
                    settings.follow_server(record);
                }
                for record in &kept.targets {
                    settings.follow_target(record);
                }
                settings.quotas.follow(&kept.quotas);
            }
            Ok(None) => {}
            Err(error) => {
                warning!(
                    "{} cannot be read ({error}); the settings of the configuration count",
                    storage.describe(FILE)
                );
            }
        }
        Agreement { settings, storage, server }
    }

    /// The settings in force.
    pub(super) fn settings(&self) -> &StoreSettings {
        &self.settings
    }

    /// The settings with another division of device time.
    pub(super) fn with_sharing(&self, names: SharingNames, milliseconds: u64) -> StoreSettings {
        let mut wanted = self.settings.clone();
        wanted.sharing.decide(names, milliseconds, self.server);
        wanted
    }

    /// The settings with another allocator.
    pub(super) fn with_allocator(&self, name: String, milliseconds: u64) -> StoreSettings {
        let mut wanted = self.settings.clone();
        wanted.allocator.decide(name, milliseconds, self.server);
        wanted
    }

    /// The settings with other limits of one owner.
    ///
    /// # Errors
    /// There are too many limits.
    pub(super) fn with_quota(
        &self,
        owner: QuotaOwner,
        limits: Option<QuotaLimits>,
        milliseconds: u64,
    ) -> Result<StoreSettings, TooManyLimits> {
        let mut wanted = self.settings.clone();
        wanted.quotas.decide(owner, limits, milliseconds, self.server)?;
        Ok(wanted)
    }

    /// The settings with a server that joins.
    pub(super) fn with_server(&self, record: &ServerRecord) -> StoreSettings {
        let mut wanted = self.settings.clone();
        wanted.follow_server(record);
        wanted
    }

    /// The settings with one state of some targets of this server, each with its configuration.
    pub(super) fn with_targets(
        &self,
        targets: &[(TargetId, String)],
        state: TargetState,
        milliseconds: u64,
    ) -> StoreSettings {
        let mut wanted = self.settings.clone();
        for (target, description) in targets {
            let before = wanted.target(*target).map_or(Stamp::default(), |record| record.state.stamp);
            let mut decided = Decided { value: state, stamp: before };
            decided.decide(state, milliseconds, self.server);
            let description = description.clone();
            wanted.follow_target(&TargetRecord { target: *target, description, state: decided });
        }
        wanted
    }

    /// The settings with another state or other addresses of this server, and that state of some of its targets. `description` is
    /// the server's configuration.
    pub(super) fn with_own(
        &self,
        description: String,
        state: TargetState,
        targets: &[(TargetId, String)],
        milliseconds: u64,
    ) -> StoreSettings {
        let mut wanted = self.with_targets(targets, state, milliseconds);
        let server = ServerId(self.server);
        let before = wanted.server(server).map_or(Stamp::default(), |record| record.state.stamp);
        let mut decided = Decided { value: state, stamp: before };
        decided.decide(state, milliseconds, self.server);
        wanted.follow_server(&ServerRecord { server, description, state: decided });
        wanted
    }

    /// The settings with what another server knows of later decisions; none where it knows of none.
    pub(super) fn with_later(&self, others: &StoreSettings) -> Option<StoreSettings> {
        let own = &self.settings;
        let are_older =
            others.sharing.stamp <= own.sharing.stamp && others.allocator.stamp <= own.allocator.stamp;
        let same_members = others.targets == own.targets && others.servers == own.servers;
        if are_older && same_members && others.quotas.is_empty() {
            return None;
        }
        let mut wanted = own.clone();
        let mut is_news = wanted.sharing.follow(&others.sharing);
        is_news |= wanted.allocator.follow(&others.allocator);
        is_news |= wanted.quotas.follow(&others.quotas);
        for record in &others.servers {
            is_news |= wanted.follow_server(record);
        }
        for record in &others.targets {
            is_news |= wanted.follow_target(record);
        }
        is_news.then_some(wanted)
    }

    /// The work that keeps settings over restarts.
    pub(super) fn ticket(&self, settings: &StoreSettings) -> SettingsTicket {
        SettingsTicket { settings: settings.clone(), storage: Arc::clone(&self.storage) }
    }

    /// Other settings are in force.
    pub(super) fn put_in_force(&mut self, settings: StoreSettings) {
        self.settings = settings;
    }

    /// The name of the file for a message.
    pub(super) fn describe(&self) -> String {
        self.storage.describe(FILE)
    }
}

impl SettingsTicket {
    /// Brings the settings to stable storage; the call blocks.
    ///
    /// # Errors
    /// The file cannot be written; the one before it counts then.
    pub(crate) fn run(&self) -> io::Result<()> {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::DecisionsUnkept) {
            return Ok(());
        }
        let text = serde_json::to_string(&self.settings).map_err(io::Error::from)?;
        self.storage.replace(FILE, text.as_bytes())
    }
}

fn kept(storage: &dyn Storage) -> io::Result<Option<StoreSettings>> {
    match storage.open(FILE).and_then(|file| file.read_whole(usize::MAX)) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::MemoryStorage;
    use weir_wire::{Decided, Stamp};

    fn file_of(policy: &str, milliseconds: u64) -> StoreSettings {
        let names = SharingNames { policy: policy.into(), scheduler: "virtual-time".into() };
        let stamp = Stamp { milliseconds, server: 0 };
        StoreSettings {
            sharing: Decided { value: names, stamp },
            allocator: Decided { value: "balanced".into(), stamp },
            ..StoreSettings::default()
        }
    }

    fn opened(storage: &MemoryStorage, server: u16, from_file: StoreSettings) -> Agreement {
        Agreement::open(Arc::new(storage.clone()), server, from_file)
    }

    /// The storage as a power loss leaves it.
    fn after_power_loss(storage: &MemoryStorage) -> MemoryStorage {
        storage.after_power_loss(storage.operations(), |_| 0)
    }

    fn written(text: &str) -> MemoryStorage {
        let storage = MemoryStorage::new();
        storage.create(FILE).and_then(|file| file.write_all_at(text.as_bytes(), 0)).unwrap();
        storage
    }

    /// Keeps settings, and puts them in force.
    fn keep(agreement: &mut Agreement, settings: StoreSettings) -> io::Result<()> {
        agreement.ticket(&settings).run()?;
        agreement.put_in_force(settings);
        Ok(())
    }

    fn decide_policy(agreement: &mut Agreement, policy: &str, milliseconds: u64) -> io::Result<()> {
        let names = SharingNames { policy: policy.into(), scheduler: "virtual-time".into() };
        let wanted = agreement.with_sharing(names, milliseconds);
        keep(agreement, wanted)
    }

    /// Takes over what the other one knows of later decisions; reports whether there are any.
    fn follow(agreement: &mut Agreement, others: &StoreSettings) -> bool {
        let wanted = agreement.with_later(others);
        let is_news = wanted.is_some();
        wanted.into_iter().for_each(|wanted| keep(agreement, wanted).unwrap());
        is_news
    }

    #[test]
    fn a_decision_outlives_a_restart_until_a_later_file_comes() {
        let storage = MemoryStorage::new();
        let mut agreement = opened(&storage, 0, file_of("size-fair", 1_000));
        decide_policy(&mut agreement, "job-fair", 2_000).unwrap();
        let storage = after_power_loss(&storage);
        let again = opened(&storage, 0, file_of("size-fair", 1_000));
        assert_eq!(again.settings().sharing.value.policy, "job-fair");
        assert_eq!(again.settings().allocator.value, "balanced");
        let with_a_later_file = opened(&storage, 0, file_of("user-fair", 3_000));
        assert_eq!(with_a_later_file.settings().sharing.value.policy, "user-fair");
    }

    #[test]
    fn a_server_that_was_down_follows_and_keeps_what_it_followed() {
        let storages = [MemoryStorage::new(), MemoryStorage::new()];
        let mut told = opened(&storages[0], 0, file_of("size-fair", 1_000));
        decide_policy(&mut told, "job-fair", 2_000).unwrap();
        let wanted = told.with_allocator("random".into(), 2_001);
        keep(&mut told, wanted).unwrap();
        let mut absent = opened(&storages[1], 1, file_of("size-fair", 1_000));
        assert!(follow(&mut absent, told.settings()));
        assert!(!follow(&mut absent, told.settings()));
        assert!(!follow(&mut told, absent.settings()));
        drop(absent);
        let absent = opened(&after_power_loss(&storages[1]), 1, file_of("size-fair", 1_000));
        assert_eq!(absent.settings(), told.settings());
    }

    #[test]
    fn limits_that_two_servers_are_told_at_once_all_count_and_outlive_a_restart() {
        let storages = [MemoryStorage::new(), MemoryStorage::new()];
        let open = |server: u16| opened(&storages[usize::from(server)], server, file_of("size-fair", 1_000));
        let (mut one, mut other) = (open(0), open(1));
        let limits = |bytes| Some(QuotaLimits { bytes: Some(bytes), inodes: None });
        let wanted = one.with_quota(QuotaOwner::User(7), limits(1), 2_000).unwrap();
        keep(&mut one, wanted).unwrap();
        let wanted = other.with_quota(QuotaOwner::AnyGroup, limits(2), 2_000).unwrap();
        keep(&mut other, wanted).unwrap();
        assert!(follow(&mut one, other.settings()));
        assert!(follow(&mut other, one.settings()));
        assert!(!follow(&mut one, &other.settings().without_quotas()));
        drop((one, other));
        let (one, other) = (open(0), open(1));
        assert_eq!(one.settings(), other.settings());
        assert_eq!(one.settings().quotas.limits().count(), 2);
        let later_file = opened(&storages[0], 0, file_of("user-fair", 3_000));
        assert_eq!(later_file.settings().quotas, one.settings().quotas, "a file decides no limits");
    }

    #[test]
    fn settings_of_a_server_without_quotas_are_read() {
        let sharing = r#"{"value":{"policy":"job-fair","scheduler":"virtual-time"},"stamp":{"milliseconds":9000,"server":0}}"#;
        let allocator = r#"{"value":"random","stamp":{"milliseconds":9000,"server":0}}"#;
        let old = format!(r#"{{"sharing":{sharing},"allocator":{allocator}}}"#);
        let agreement = opened(&written(&old), 0, file_of("size-fair", 1_000));
        assert_eq!(agreement.settings().sharing.value.policy, "job-fair");
    }

    #[test]
    fn a_decision_that_cannot_be_kept_is_not_made() {
        let storage = MemoryStorage::new();
        let mut agreement = opened(&storage, 0, file_of("size-fair", 1_000));
        storage.fail_sync(true);
        decide_policy(&mut agreement, "job-fair", 2_000).unwrap_err();
        assert_eq!(agreement.settings().sharing.value.policy, "size-fair");
    }

    #[test]
    fn a_damaged_file_leaves_the_settings_of_the_configuration() {
        let agreement = opened(&written("{"), 0, file_of("size-fair", 1_000));
        assert_eq!(agreement.settings(), &file_of("size-fair", 1_000));
    }
}
