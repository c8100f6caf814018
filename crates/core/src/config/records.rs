//! Servers' decisions about their targets since the configuration file was written.

use super::{ClusterConfig, ServerConfig, TargetConfig};
use weir_placement::{ServerId, TargetId};
use weir_wire::{Decided, ServerRecord, Stamp, StoreSettings, TargetRecord, TargetState};

/// A server's `host:port` of data and of the control API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address of data.
    pub tcp: String,
    /// The address of the control API.
    pub control: String,
}

impl ClusterConfig {
    /// The records of targets that the file says to retire, or to have retired. Decisions of servers count before them.
    pub(super) fn closed_targets(&self) -> Vec<TargetRecord> {
        let record = |(target, config): (TargetId, &TargetConfig)| TargetRecord {
            target,
            description: config.description(),
            state: Decided { value: config.state, stamp: Stamp::default() },
        };
        let configs = self.servers.iter().flat_map(|server| &server.targets);
        let closed = self.targets().into_iter().zip(configs).filter(|(_, config)| config.state.is_closed());
        closed.map(record).collect()
    }

    /// The records of servers that the file says to retire, or to have retired. Decisions of servers count before them.
    pub(super) fn closed_servers(&self) -> Vec<ServerRecord> {
        let record = |(number, config): (usize, &ServerConfig)| ServerRecord {
            server: ServerId(number as u16),
            description: config.description(),
            state: Decided { value: config.state, stamp: Stamp::default() },
        };
        let closed = self.servers.iter().enumerate().filter(|(_, config)| config.state.is_closed());
        closed.map(record).collect()
    }

    /// Takes over what was decided about servers and targets since the file was written.
    ///
    /// # Errors
    /// A record that fits no configuration of this version, in a sentence.
    pub fn take_records(&mut self, settings: &StoreSettings) -> Result<(), String> {
        settings.servers.iter().try_for_each(|record| self.take_server(record).map(|_| ()))?;
        settings.targets.iter().try_for_each(|record| self.take_record(record).map(|_| ()))
    }

    /// Takes over that a server joined, or what was decided about it since.
    ///
    /// # Errors
    /// As [`ClusterConfig::take_records`].
    pub fn take_server(&mut self, record: &ServerRecord) -> Result<Taken, String> {
        let ServerRecord { server, description, state } = record;
        let (known, number) = (self.servers.len(), usize::from(server.0));
        if known < number {
            return Err(format!("server {server}, which joined: the servers before it are not known"));
        }
        let refused = |what: String| format!("server {server}, decided elsewhere: {what}");
        if known == number {
            let config = ServerConfig::described(description).map_err(refused)?;
            self.servers.push(ServerConfig { state: state.value, ..config });
            return Ok(Taken::New);
        }
        let own = &mut self.servers[number];
        own.state = state.value;
        if state.stamp == Stamp::default() {
            return Ok(Taken::Known);
        }
        let told = ServerConfig::described(description).map_err(refused)?;
        if told.is_anywhere() || (&told.listen, &told.control) == (&own.listen, &own.control) {
            return Ok(Taken::Known);
        }
        (own.listen, own.control) = (told.listen, told.control);
        Ok(Taken::Moved)
    }

    /// Takes over one decision; answers whether the target is new.
    ///
    /// # Errors
    /// As [`ClusterConfig::take_records`].
    pub fn take_record(&mut self, record: &TargetRecord) -> Result<bool, String> {
        let TargetRecord { target, description, state } = record;
        let refused = |what: &str| format!("target {target}, decided elsewhere: {what}");
        let server = self.servers.get_mut(usize::from(target.server.0));
        let targets = &mut server.ok_or_else(|| refused("there is no such server"))?.targets;
        let known = targets.len();
        if known < target.number() {
            return Err(refused("the targets before it are not known"));
        }
        if known == target.number() {
            let config = TargetConfig::described(description).map_err(|what| refused(&what))?;
            targets.push(config);
        }
        targets[target.number()].state = state.value;
        Ok(known == target.number())
    }

    /// The configuration of a target.
    pub fn target(&self, target: TargetId) -> Option<&TargetConfig> {
        self.servers.get(usize::from(target.server.0))?.targets.get(target.number())
    }
}

/// The news in a record of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The server was known, and where it is.
    Known,
    /// The server joined.
    New,
    /// The server is at another address.
    Moved,
}

impl ServerConfig {
    /// The addresses of the server.
    pub fn place(&self) -> Place {
        Place { tcp: self.listen.clone(), control: self.control.clone() }
    }

    /// Takes over other addresses of the server.
    pub fn put_at(&mut self, place: Place) {
        (self.listen, self.control) = (place.tcp, place.control);
    }

    /// Whether the server chooses a port at its start: then others on its host find it by the file that it writes.
    pub fn is_anywhere(&self) -> bool {
        [&self.listen, &self.control].iter().any(|address| address.ends_with(":0"))
    }

    /// The text of a record of the server.
    pub fn description(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The server of a record, or of a request to add one.
    ///
    /// # Errors
    /// The fault, in words.
    pub fn described(text: &str) -> Result<ServerConfig, String> {
        let config: ServerConfig = serde_json::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }
}

impl TargetConfig {
    /// The text of a record of the target.
    pub fn description(&self) -> String {
        serde_json::to_string(&TargetConfig { state: TargetState::Open, ..self.clone() }).unwrap_or_default()
    }

    /// The target of a record, or of a request to add one.
    ///
    /// # Errors
    /// The fault, in words.
    pub fn described(text: &str) -> Result<TargetConfig, String> {
        let config: TargetConfig = serde_json::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "version = 1\n[[server]]\n[[server.target]]\nbackend = \"dir\"\n\
                        speed = { read = \"200MB/s\", fixed = \"100us\" }\n\
                        [[server.target]]\nbackend = \"dir\"\nstate = \"retiring\"\n";

    fn target(index: u16) -> TargetId {
        TargetId { server: ServerId(0), index }
    }

    fn config() -> ClusterConfig {
        toml::from_str(FILE).unwrap()
    }

    #[test]
    fn a_target_is_described_and_read_again() {
        let config = config();
        let first = &config.servers[0].targets[0];
        let again = TargetConfig::described(&first.description()).unwrap();
        assert_eq!(again.description(), first.description());
        assert_eq!(again.speed.unwrap().fixed, std::time::Duration::from_micros(100));
        for wrong in ["", "{}", "{\"backend\": \"ram\"}", "{\"backend\": \"dir\", \"colour\": 1}"] {
            assert!(TargetConfig::described(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn records_of_servers_add_them_and_say_where_they_went() {
        let mut config = config();
        let record = |server, listen: &str, value, milliseconds| {
            ServerRecord {
            server: ServerId(server),
            description: format!(
                "{{\"listen\": \"{listen}\", \"control\": \"127.0.0.1:8\", \"target\": [{{\"backend\": \"dir\"}}]}}"
            ),
            state: Decided { value, stamp: Stamp { milliseconds, server } },
        }
        };
        let zero = |server, listen| {
            let joined = record(server, listen, TargetState::Open, 0);
            ServerRecord { state: Decided::default(), ..joined }
        };
        assert!(config.take_server(&zero(2, "127.0.0.1:7")).is_err(), "server 1 is not known");
        assert_eq!(config.take_server(&zero(1, "127.0.0.1:7")), Ok(Taken::New));
        assert_eq!(config.take_server(&zero(1, "127.0.0.1:9")), Ok(Taken::Known));
        assert_eq!(config.servers[1].listen, "127.0.0.1:7", "the file counts before the joining");
        let moved = record(1, "127.0.0.2:7", TargetState::Retired, 5);
        assert_eq!(config.take_server(&moved), Ok(Taken::Moved));
        assert_eq!(config.take_server(&moved), Ok(Taken::Known));
        assert_eq!(
            (config.servers[1].listen.as_str(), config.servers[1].state),
            ("127.0.0.2:7", TargetState::Retired)
        );
        let anywhere = record(1, "127.0.0.1:0", TargetState::Retired, 6);
        assert_eq!(config.take_server(&anywhere), Ok(Taken::Known));
        assert_eq!(config.servers[1].listen, "127.0.0.2:7");
    }

    #[test]
    fn records_add_targets_and_change_states_and_later_decisions_count_before_the_file() {
        let mut config = config();
        let sharing = config.sharing().unwrap();
        let mut settings = config.settings(&sharing);
        assert_eq!(settings.targets.len(), 1, "the file closes one");
        let decided = |value, target, milliseconds| TargetRecord {
            target,
            description: "{\"backend\": \"dir\"}".into(),
            state: Decided { value, stamp: Stamp { milliseconds, server: 0 } },
        };
        settings.follow_target(&decided(TargetState::Open, target(1), 1));
        settings.follow_target(&decided(TargetState::Retired, target(0), 2));
        settings.follow_target(&decided(TargetState::Open, target(2), 3));
        config.take_records(&settings).unwrap();
        let states: Vec<_> = config.servers[0].targets.iter().map(|target| target.state).collect();
        assert_eq!(states, [TargetState::Retired, TargetState::Open, TargetState::Open]);
        assert!(config.is_durable(), "a target that has retired counts as before");
        for wrong in [target(4), TargetId { server: ServerId(1), index: 0 }] {
            assert!(config.take_record(&decided(TargetState::Open, wrong, 4)).is_err());
        }
    }
}
