//! The servers and targets of a store as its administrator knows them: the files of the configuration, the change under way, and what an
//! administrator has done beside the calls of a client.

use weir_core::config::{ClusterConfig, ServerConfig, TargetConfig};
use weir_core::control::question::Question;
use weir_placement::{ServerId, TargetId};
use weir_wire::TargetState;

/// Servers that may join a world.
pub(super) const JOINING_MAX: usize = 2;

/// Something that an administrator has done beside the calls of a client.
pub(super) enum Order {
    /// Asks the control API of a server.
    Ask(usize, Question),
    /// Starts the last server of the configuration, which joins, unless it was started before.
    Start,
    /// Ends a server, and has it start at the address that the configuration names.
    Move(usize),
    /// Ends a server, and has it start.
    Restart(usize),
}

/// A change of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The server of this number joins.
    Server(usize),
    /// This target joins.
    Target(TargetId),
    /// A target retires.
    TargetRetires(TargetId),
    /// A target begins to retire, and takes files again.
    TargetStays(TargetId),
    /// A server retires. Its names stay on its host.
    ServerRetires(ServerId),
    /// A server retires, and another host serves its names.
    ServerMoves(ServerId),
    /// Objects move from full targets to empty ones.
    Rebalance,
    /// The servers start anew one after the other, the next one when all answer.
    Upgrade,
}

/// The members of a store as its administrator knows them.
pub(super) struct Members {
    /// The files of the configuration so far. Hosts may have any of the last ones.
    files: Vec<ClusterConfig>,
    /// The first file by which each server can start.
    since: Vec<usize>,
    /// The changes that are still to be made, and the one under way.
    pub(super) left: u64,
    pub(super) under_way: Option<Change>,
    /// The most servers that the store may have.
    pub(super) servers_max: usize,
    /// The client of the administrator, while there is one.
    pub(super) administrator: Option<usize>,
}

impl Members {
    pub(super) fn new(config: ClusterConfig) -> Members {
        let servers = config.servers.len();
        Members {
            files: vec![config],
            since: vec![0; servers],
            left: 0,
            under_way: None,
            servers_max: servers + JOINING_MAX,
            administrator: None,
        }
    }

    /// A change begins, or goes on.
    pub(super) fn begin(&mut self, change: Change) {
        self.under_way = Some(change);
    }

    /// The change under way was made.
    pub(super) fn end(&mut self) {
        self.under_way = None;
        self.left -= 1;
    }

    /// The configuration as it is now.
    pub(super) fn config(&self) -> &ClusterConfig {
        self.files.last().expect("a file")
    }

    /// Writes another configuration.
    pub(super) fn write(&mut self, change: impl FnOnce(&mut ClusterConfig)) {
        let mut file = self.config().clone();
        change(&mut file);
        self.files.push(file);
    }

    /// The state of a target was decided.
    pub(super) fn write_target(&mut self, target: TargetId, state: TargetState) {
        self.write(|file| file.servers[usize::from(target.server.0)].targets[target.number()].state = state);
    }

    /// A server retires, and with it all of its targets.
    pub(super) fn write_retirement(&mut self, server: ServerId) {
        self.write(|file| {
            let config = &mut file.servers[usize::from(server.0)];
            config.state = TargetState::Retiring;
            let open = config.targets.iter_mut().filter(|target| target.state == TargetState::Open);
            open.for_each(|target| target.state = TargetState::Retiring);
        });
    }

    /// Another host is to serve the names of a server that retires.
    pub(super) fn write_move(&mut self, server: ServerId) {
        let number = usize::from(server.0);
        self.write(|file| {
            let config = &mut file.servers[number];
            (config.listen, config.control) = place(number, 1);
            config.state = TargetState::Retired;
        });
    }

    /// From now on a server can not start by the files before the last one.
    pub(super) fn leave_files_behind(&mut self, server: usize) {
        self.since[server] = self.files.len() - 1;
    }

    /// The files by which a server may start, beside the last one.
    pub(super) fn files_before_last(&self, server: usize) -> usize {
        self.files.len() - 1 - self.since[server]
    }

    /// A server starts by a file before the last one. No host goes back to an earlier file.
    pub(super) fn start_by_earlier(&mut self, server: usize, number: usize) -> ClusterConfig {
        self.since[server] += number;
        self.files[self.since[server]].clone()
    }

    /// One more server was started.
    pub(super) fn add_started(&mut self) {
        self.since.push(self.files.len() - 1);
    }

    /// The targets that were not let go, with their configurations.
    pub(super) fn targets(&self) -> Vec<(TargetId, TargetConfig)> {
        let servers = (0..).map(ServerId).zip(&self.config().servers);
        let all = servers.flat_map(|(server, config)| {
            let numbered = (0..).zip(&config.targets);
            numbered.map(move |(index, target)| (TargetId { server, index }, target.clone()))
        });
        all.filter(|(_, config)| config.state != TargetState::Retired).collect()
    }
}

/// The address of a server on one of its hosts.
pub(super) fn place(server: usize, host: usize) -> (String, String) {
    (format!("10.{host}.0.{}:7000", server + 1), format!("10.{host}.0.{}:7001", server + 1))
}

/// A target in a directory.
pub(super) fn new_target() -> TargetConfig {
    toml::from_str("backend = \"dir\"\ncapacity = \"64MiB\"\n").expect("a target")
}

/// A server with some targets, which is to get this number.
pub(super) fn new_server(number: usize, targets: usize) -> ServerConfig {
    let (listen, control) = place(number, 0);
    let targets = vec![new_target(); targets];
    ServerConfig { listen, control, metadata_speed: None, state: TargetState::Open, targets }
}
