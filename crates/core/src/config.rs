//! `cluster.toml`: one file for every server of a store.

mod ports;
mod records;

pub use ports::{Ports, TakenPort};
pub use records::{Place, Taken};

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use weir_device::{parse_rate, parse_size, parse_time};
use weir_fairshare::{Algorithm, DeviceSpeed, Entitlements, Grant, Nanos, Policy, Sharing, TransferSpeed};
use weir_placement::{AllocatorName, LayoutDefaults, ServerId, TargetId};
use weir_wire::{limits, name_number, Decided, SharingNames, Stamp, StoreSettings, TargetState};

/// Version of the file this program reads.
const FILE_VERSION: u32 = 1;
/// Servers of one store: the upper bits of an inode number hold more, a lambda exchange of all pairs does not.
const SERVERS_MAX: usize = limits::SERVERS;
/// Targets of one server.
const TARGETS_MAX: usize = 64;
/// Targets that one server ever had: the number of a target is given once, and devices have numbers of eight bits.
const TARGET_NUMBERS_MAX: usize = 250;
/// A job that is silent for less is not finished: its clients may connect again.
const FINISHED_JOBS_KEPT_MIN: Duration = Duration::from_secs(1);
const FINISHED_JOBS_KEPT_MAX: Duration = Duration::from_secs(366 * 86_400);
/// A sample is a tenth of a window, and costs some microseconds.
const WINDOW_MIN: Duration = Duration::from_millis(100);
const WINDOW_MAX: Duration = Duration::from_secs(60);
/// A window takes at most about 100 KB.
const WINDOWS_KEPT_MAX: usize = 600;
/// Names of one control API: a request is compared with each.
const CONTROL_HOSTS_MAX: usize = 64;
/// With less memory not even the root of a store could be made.
const NAMESPACE_MEMORY_MIN: u64 = 1 << 20;
const EXAMPLE: &str = "see docs/reference/configuration.md";

/// A whole store.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// Version of the file.
    pub version: u32,
    /// The policy by which device time is divided among jobs, until changed by `weir policy set`.
    #[serde(default = "default_policy", deserialize_with = "policy", serialize_with = "display")]
    pub policy: Policy,
    /// The scheduler that enforces the policy; absent: `fifo` for `fifo`, `virtual-time` for all others.
    #[serde(default, deserialize_with = "algorithm", serialize_with = "display_some")]
    pub scheduler: Option<Algorithm>,
    /// Weights, reservations and limits of groups, users and jobs.
    #[serde(default, rename = "share", skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Grant>,
    /// The interval in which servers tell each other their jobs and loads, in milliseconds.
    #[serde(default = "default_lambda")]
    pub lambda_milliseconds: u64,
    /// Ports for the addresses with port 0; absent: those that the system gives to no program by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Ports>,
    /// Names by which clients reach the control API, beside those of the hosts: a request in the clear with another `Host` is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control_hosts: Vec<String>,
    /// File with the secret that callers of `/metrics` show; absent: everybody may read the metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_token: Option<PathBuf>,
    /// When the policy, the scheduler and the allocator were decided, in milliseconds of Unix time: what is decided later
    /// while the store runs counts. `weir up` writes it.
    #[serde(default)]
    pub decided_milliseconds: u64,
    /// How long a job is listed after its last sign of life.
    #[serde(
        default = "default_finished_jobs_kept",
        deserialize_with = "duration",
        serialize_with = "seconds"
    )]
    pub finished_jobs_kept: Duration,
    /// Length of the windows in which the work of devices and jobs is counted.
    #[serde(default = "default_window", deserialize_with = "duration", serialize_with = "seconds")]
    pub window: Duration,
    /// Windows that a server keeps.
    #[serde(default = "default_windows_kept")]
    pub windows_kept: usize,
    /// The most memory that the namespace of a server takes; absent: a half of what the machine and the limits of the process
    /// leave it.
    #[serde(default, deserialize_with = "optional_size", skip_serializing_if = "Option::is_none")]
    pub namespace_memory: Option<u64>,
    /// Layout of files in directories that ask for nothing else.
    #[serde(default)]
    pub layout: LayoutConfig,
    /// The servers, by number.
    #[serde(rename = "server")]
    pub servers: Vec<ServerConfig>,
}

/// Defaults of layouts.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutConfig {
    /// Bytes of a stripe.
    #[serde(default = "default_stripe_size", deserialize_with = "size")]
    pub stripe_size: u64,
    /// Targets of a file; 0 means all.
    #[serde(default)]
    pub stripe_count: u16,
    /// The allocator that chooses the targets, until changed by `weir targets allocator`.
    #[serde(default, deserialize_with = "allocator", serialize_with = "display")]
    pub allocator: AllocatorName,
}

/// One server.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Address of the protocol; port 0 chooses a free one.
    #[serde(default = "default_address")]
    pub listen: String,
    /// Address of the control API and `/metrics`; port 0 chooses a free one.
    #[serde(default = "default_address")]
    pub control: String,
    /// Emulated speed of the metadata device.
    #[serde(default)]
    pub metadata_speed: Option<SpeedConfig>,
    /// Whether new trees have their home on it; absent means that they do. `weir server retire` writes it.
    #[serde(default, skip_serializing_if = "is_open")]
    pub state: TargetState,
    /// Its targets.
    #[serde(rename = "target")]
    pub targets: Vec<TargetConfig>,
}

/// The place of a target's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// Memory: keeps nothing over a restart.
    Ram,
    /// A directory of a local file system.
    Dir,
}

impl BackendKind {
    /// Its name, as in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BackendKind::Ram => "ram",
            BackendKind::Dir => "dir",
        }
    }
}

/// One target.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    /// The place of the bytes.
    pub backend: BackendKind,
    /// Most bytes; for `dir`, absent means the free bytes of its file system.
    #[serde(default, deserialize_with = "optional_size")]
    pub capacity: Option<u64>,
    /// Directory of a `dir` target; absent means one in the server's own folder.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// Emulated speed; absent means as fast as it is.
    #[serde(default)]
    pub speed: Option<SpeedConfig>,
    /// Targets of one class are expected to be equally fast; absent means the backend's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Bytes a second that large requests should achieve; absent means the rate of the other targets of its class.
    #[serde(default, deserialize_with = "optional_rate", skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// Whether it takes files; absent means that it does. `weir target retire` writes it.
    #[serde(default, skip_serializing_if = "is_open")]
    pub state: TargetState,
}

impl TargetConfig {
    /// The name of its class.
    pub(crate) fn class(&self) -> &str {
        self.class.as_deref().unwrap_or(self.backend.name())
    }

    /// The directory of a `dir` target with this number on its server, whose own files are in `folder`.
    pub fn place(&self, folder: &Path, number: usize) -> PathBuf {
        self.path.clone().unwrap_or_else(|| folder.join(format!("target-{number}")))
    }

    /// The fault of a target, in words.
    fn check(&self) -> Result<(), &'static str> {
        if self.backend == BackendKind::Ram && self.capacity.is_none() {
            return Err("a ram target needs a capacity, such as \"4GiB\"");
        }
        if self.backend == BackendKind::Ram && self.path.is_some() {
            return Err("a ram target has no path; use backend = \"dir\"");
        }
        if self.capacity.is_some_and(|bytes| bytes < 1 << 20) {
            return Err("capacity is below 1 MiB");
        }
        Ok(())
    }

    fn is_kept(&self) -> bool {
        self.state != TargetState::Retired
    }
}

/// Speed of an emulated device.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SpeedConfig {
    /// Bytes read in a second; absent: bytes cost nothing.
    #[serde(default, deserialize_with = "optional_rate")]
    pub read: Option<u64>,
    /// Bytes written in a second; absent: bytes cost nothing.
    #[serde(default, deserialize_with = "optional_rate")]
    pub write: Option<u64>,
    /// Time of each request.
    #[serde(default, deserialize_with = "duration", serialize_with = "seconds")]
    pub fixed: Duration,
}

impl ClusterConfig {
    /// Reads and checks the text of a file. Whether the hosts of its addresses are known is not looked at.
    ///
    /// # Errors
    /// The fault in words, with the line that is wrong and a hint.
    pub fn parse(text: &str) -> Result<ClusterConfig, String> {
        let config: ClusterConfig = toml::from_str(text).map_err(|error| one_line(&error, text))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.version != FILE_VERSION {
            return Err(format!(
                "version = {} where this program reads version {FILE_VERSION}",
                self.version
            ));
        }
        if !(1..=60_000).contains(&self.lambda_milliseconds) {
            return Err("lambda_milliseconds must be 1 to 60000; try 100".into());
        }
        if !(FINISHED_JOBS_KEPT_MIN..=FINISHED_JOBS_KEPT_MAX).contains(&self.finished_jobs_kept) {
            return Err("finished_jobs_kept must be 1s to 366days; try \"1h\"".into());
        }
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&self.window) {
            return Err("window must be 100ms to 1min; try \"1s\"".into());
        }
        if !(1..=WINDOWS_KEPT_MAX).contains(&self.windows_kept) {
            return Err(format!("windows_kept must be 1 to {WINDOWS_KEPT_MAX}; try 60"));
        }
        if self.namespace_memory.is_some_and(|bytes| bytes < NAMESPACE_MEMORY_MIN) {
            return Err("namespace_memory is below 1 MiB; try \"4GiB\", or leave it out".into());
        }
        if self.servers.is_empty() || self.servers.len() > SERVERS_MAX {
            return Err(format!("a store has 1 to {SERVERS_MAX} [[server]] tables; {EXAMPLE}"));
        }
        let stripe = self.layout.stripe_size;
        let range = limits::STRIPE_BYTES_MIN..=limits::STRIPE_BYTES_MAX;
        if !range.contains(&stripe) || !stripe.is_multiple_of(limits::STRIPE_BYTES_MIN) {
            return Err(format!("stripe_size = {stripe} is not a multiple of 4096; try \"1MiB\""));
        }
        if self.control_hosts.len() > CONTROL_HOSTS_MAX {
            return Err(format!("control_hosts has more than {CONTROL_HOSTS_MAX} names"));
        }
        if self.metrics_token.as_ref().is_some_and(|file| !file.is_absolute()) {
            return Err("metrics_token is no absolute path; try \"/etc/weir/metrics.token\"".into());
        }
        self.sharing()?;
        for (number, server) in self.servers.iter().enumerate() {
            server.check().map_err(|what| format!("server {number}: {what}"))?;
        }
        Ok(())
    }

    /// The division of device time.
    ///
    /// # Errors
    /// The fault of the policy, the scheduler or a share, in a sentence.
    pub(crate) fn sharing(&self) -> Result<Sharing, String> {
        let entitlements = Entitlements::granted(&self.shares, name_number)?;
        Sharing::new(self.policy.clone(), self.scheduler, Arc::new(entitlements))
            .map_err(|error| error.to_string())
    }

    /// The settings that servers share, as decided by this configuration.
    pub(crate) fn settings(&self, sharing: &Sharing) -> StoreSettings {
        // Equal on every server, so that none has to follow another.
        let stamp = Stamp { milliseconds: self.decided_milliseconds, server: 0 };
        StoreSettings {
            sharing: Decided { value: sharing_names(sharing), stamp },
            allocator: Decided { value: self.layout.allocator.to_string(), stamp },
            targets: self.closed_targets(),
            servers: self.closed_servers(),
            ..StoreSettings::default()
        }
    }

    /// Every target of the store, by server and number.
    pub fn targets(&self) -> Vec<TargetId> {
        let of_server = |(number, server): (usize, &ServerConfig)| {
            let server_id = ServerId(number as u16);
            (0..server.targets.len() as u16).map(move |index| TargetId { server: server_id, index })
        };
        self.servers.iter().enumerate().flat_map(of_server).collect()
    }

    /// Defaults of layouts that set nothing.
    pub fn layout_defaults(&self) -> LayoutDefaults {
        LayoutDefaults { stripe_bytes: self.layout.stripe_size, stripe_count: self.layout.stripe_count }
    }

    /// Whether metadata survives a restart: every target of the store must.
    pub fn is_durable(&self) -> bool {
        let mut targets = self.servers.iter().flat_map(|server| &server.targets);
        targets.all(|target| target.backend == BackendKind::Dir)
    }
}

/// The names by which servers tell each other a division of device time.
pub(crate) fn sharing_names(sharing: &Sharing) -> SharingNames {
    SharingNames { policy: sharing.policy().to_string(), scheduler: sharing.algorithm().to_string() }
}

impl ServerConfig {
    pub(crate) fn check(&self) -> Result<(), String> {
        for (key, address) in [("listen", &self.listen), ("control", &self.control)] {
            if !is_address(address) {
                return Err(format!("{key} = \"{address}\": it is no host:port; try \"127.0.0.1:0\""));
            }
        }
        let kept = self.targets.iter().filter(|target| target.is_kept()).count();
        if self.targets.is_empty() || kept > TARGETS_MAX || self.targets.len() > TARGET_NUMBERS_MAX {
            return Err(format!("it has 1 to {TARGETS_MAX} [[server.target]] tables; {EXAMPLE}"));
        }
        for (number, target) in self.targets.iter().enumerate() {
            target.check().map_err(|what| format!("target {number}: {what}"))?;
        }
        let kept = self.targets.iter().enumerate().filter(|(_, target)| target.is_kept());
        let mut paths: HashMap<&Path, usize> = HashMap::new();
        for (number, path) in kept.filter_map(|(number, target)| Some((number, target.path.as_deref()?))) {
            if let Some(other) = paths.insert(path, number) {
                return Err(format!(
                    "targets {other} and {number} have one path; give each a `path` of its own"
                ));
            }
        }
        Ok(())
    }
}

impl SpeedConfig {
    /// Whether it says nothing.
    pub fn is_none(&self) -> bool {
        self.read.is_none() && self.write.is_none() && self.fixed.is_zero()
    }

    /// The speed as the cost model takes it.
    pub fn device_speed(&self) -> DeviceSpeed {
        let transfer = |rate: Option<u64>| TransferSpeed {
            fixed: Nanos::from(self.fixed),
            bytes_per_second: rate.and_then(std::num::NonZeroU64::new).unwrap_or(std::num::NonZeroU64::MAX),
        };
        DeviceSpeed { read: transfer(self.read), write: transfer(self.write) }
    }
}

/// Whether a text has the form `host:port`.
fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn is_open(state: &TargetState) -> bool {
    !state.is_closed()
}

fn default_policy() -> Policy {
    "size-fair".parse().unwrap_or(Policy::Fifo)
}

fn default_lambda() -> u64 {
    100
}

/// Long enough to ask about a job that just ended.
fn default_finished_jobs_kept() -> Duration {
    Duration::from_secs(600)
}

/// As in the paper on quantifying interference by windows.
fn default_window() -> Duration {
    Duration::from_secs(1)
}

/// Time enough for a collector that is started again.
fn default_windows_kept() -> usize {
    60
}

fn default_stripe_size() -> u64 {
    1 << 20
}

fn default_address() -> String {
    "127.0.0.1:0".into()
}

impl Default for LayoutConfig {
    fn default() -> LayoutConfig {
        LayoutConfig {
            stripe_size: default_stripe_size(),
            stripe_count: 0,
            allocator: AllocatorName::default(),
        }
    }
}

fn one_line(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let message = error.message().replace('\n', " ");
    match line {
        Some(line) => format!("line {line}: {message}"),
        None => message,
    }
}

fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn algorithm<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Algorithm>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(serde::de::Error::custom)
}

fn allocator<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AllocatorName, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn display_some<T: std::fmt::Display, S: serde::Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

fn display<T: std::fmt::Display, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// A size is a number of bytes or a text such as `64k` or `1MiB`.
#[derive(Deserialize)]
#[serde(untagged)]
enum SizeText {
    Bytes(u64),
    Text(String),
}

impl SizeText {
    fn bytes<E: serde::de::Error>(&self) -> Result<u64, E> {
        match self {
            SizeText::Bytes(bytes) => Ok(*bytes),
            SizeText::Text(text) => parse_size(text).map_err(E::custom),
        }
    }
}

/// A time is a text such as `100us`, or a number of seconds, as this program writes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum TimeText {
    Text(String),
    Seconds(f64),
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    SizeText::deserialize(deserializer)?.bytes()
}

fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = Option::<SizeText>::deserialize(deserializer)?;
    text.map(|text| text.bytes()).transpose()
}

fn optional_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    match Option::<SizeText>::deserialize(deserializer)? {
        None => Ok(None),
        Some(SizeText::Bytes(bytes)) => Ok(Some(bytes)),
        Some(SizeText::Text(text)) => parse_rate(&text).map(Some).map_err(serde::de::Error::custom),
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    match TimeText::deserialize(deserializer)? {
        TimeText::Text(text) => parse_time(&text).map_err(serde::de::Error::custom),
        TimeText::Seconds(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| serde::de::Error::custom("not a time in seconds")),
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_fairshare::{Entitlement, GroupId, Holder, JobName, UserId};

    fn read(text: &str) -> Result<ClusterConfig, String> {
        ClusterConfig::parse(text)
    }

    const TARGET: &str = "[[server]]\n[[server.target]]\nbackend = \"ram\"\ncapacity = \"4GiB\"\n";

    #[test]
    fn a_short_file_is_filled_with_defaults() {
        let config =
            read(&format!("version = 1\n{TARGET}speed = {{ read = \"200MB/s\", fixed = \"100us\" }}\n"))
                .unwrap();
        let target = &config.servers[0].targets[0];
        assert_eq!(target.capacity, Some(4 << 30));
        assert_eq!(target.speed.unwrap().read, Some(200_000_000));
        assert_eq!(target.speed.unwrap().fixed, Duration::from_micros(100));
        assert_eq!(config.policy.to_string(), "size-fair");
        assert!(!config.is_durable());
    }

    #[test]
    fn shares_are_read_as_fractions_and_percents_of_groups_users_and_jobs() {
        let shares = "[[share]]\nuser = \"alice\"\nweight = 2\nreservation = \"20%\"\nlimit = 0.5\n\
                      [[share]]\ngroup = \"physics\"\nreservation = 0.2\n[[share]]\njob = \"nightly\"\nlimit = \"7.5 %\"\n";
        let config = read(&format!("version = 1\nscheduler = \"virtual-time\"\n{shares}{TARGET}")).unwrap();
        let read = |share: &Grant| (share.weight, share.reservation, share.limit);
        let found: Vec<_> = config.shares.iter().map(read).collect();
        assert_eq!(
            found,
            [(Some(2.0), Some(0.2), Some(0.5)), (None, Some(0.2), None), (None, None, Some(0.075))]
        );
        assert_eq!(config.sharing().unwrap().algorithm(), Algorithm::VirtualTime);

        let mut expected = Entitlements::default();
        let granted = |weight, reservation, limit| Entitlement { weight, reservation, limit };
        for (holder, entitlement) in [
            (Holder::User(UserId(name_number("alice"))), granted(2.0, Some(0.2), Some(0.5))),
            (Holder::Group(GroupId(name_number("physics"))), granted(1.0, Some(0.2), None)),
            (Holder::Job(JobName(name_number("nightly"))), granted(1.0, None, Some(0.075))),
        ] {
            expected.grant(holder, entitlement).unwrap();
        }
        let expected = Sharing::new(config.policy.clone(), None, Arc::new(expected)).unwrap();
        assert_eq!(config.sharing().unwrap(), expected);
    }

    #[test]
    fn shares_that_cannot_be_kept_are_refused() {
        let half = |user: &str| format!("[[share]]\nuser = \"{user}\"\nreservation = 0.6\n");
        for (shares, expected) in [
            ("[[share]]\nweight = 2\n", "share 0: it names exactly one of group, user and job"),
            ("[[share]]\nuser = \"a\"\njob = \"b\"\n", "share 0: it names exactly one"),
            ("[[share]]\nuser = \"a\"\nshare = 3\n", "unknown field `share`"),
            ("[[share]]\nuser = \"a\"\nlimit = \"half\"\n", "line 4: \"half\" is not a fraction"),
            ("[[share]]\nuser = \"a\"\nreservation = 20\n", "share 0: a: reservation 20 is not a fraction"),
            (
                "[[share]]\nuser = \"a\"\nreservation = 0.4\nlimit = 0.3\n",
                "limit 0.3 is below reservation 0.4",
            ),
            ("[[share]]\nuser = \"a\"\nweight = 0\n", "weight 0 is not from"),
            (
                &format!("{}{}", half("a"), half("b")),
                "share 1: b: with it the reservations of all users come to 1.2",
            ),
            (&format!("{}{}", half("a"), half("a")), "share 1: a: it was given an entitlement before"),
            (
                "scheduler = \"gift\"\n[[share]]\nuser = \"a\"\nlimit = 0.3\n",
                "scheduler `gift` keeps no reservations",
            ),
            (
                "policy = \"fifo\"\n[[share]]\nuser = \"a\"\nlimit = 0.3\n",
                "scheduler `fifo` keeps no reservations",
            ),
            ("policy = \"fifo\"\nscheduler = \"tbf\"\n", "scheduler `tbf` cannot enforce policy `fifo`"),
            (
                "scheduler = \"virtual\"\n",
                "line 2: unknown scheduler `virtual`: expected one of virtual-time, statistical",
            ),
        ] {
            let error = read(&format!("version = 1\n{shares}{TARGET}")).unwrap_err();
            assert!(error.contains(expected), "{shares:?} gave {error:?}");
            assert_eq!(error.lines().count(), 1, "{error:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("version = 2\n", "missing field `server`"),
            (&format!("version = 2\n{TARGET}"), "version = 2"),
            (&format!("version = 1\npolicy = \"fastest\"\n{TARGET}"), "line 2"),
            (&format!("version = 1\ncolour = 3\n{TARGET}"), "unknown field `colour`"),
            (&format!("version = 1\nfinished_jobs_kept = \"0s\"\n{TARGET}"), "must be 1s to 366days"),
            (&format!("version = 1\nfinished_jobs_kept = \"ever\"\n{TARGET}"), "not a time"),
            (&format!("version = 1\n{TARGET}speed = {{ read = \"quick\" }}"), "not a rate"),
            ("version = 1\n[[server]]\n[[server.target]]\nbackend = \"ram\"\n", "needs a capacity"),
            ("version = 1\n[[server]]\nlisten = \"nowhere\"\ntarget = []\n", "listen"),
            ("version = \n", "line 1"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text:?} gave {error:?}");
            assert_eq!(error.lines().count(), 1, "{error:?}");
        }
    }
}
