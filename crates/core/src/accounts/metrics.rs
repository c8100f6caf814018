//! Every metric, in one place; the reference page lists them with their units.

use crate::accounts::jobs::{JobLine, ShownJob};
use crate::accounts::served::Flow;
use crate::accounts::work::{User, Work};
use crate::clock::seconds;
use crate::control::snapshot::Snapshot;
use crate::control::status::{DirectionCost, PlacementStatus, Placements};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{text, DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Error;
use std::sync::Arc;
use weir_wire::MachineLoad;

/// A format of the exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's text format, for people and for programs that name no format.
    Text,
    /// OpenMetrics, which Prometheus asks for.
    OpenMetrics,
}

impl Format {
    pub(crate) const COUNT: usize = 2;

    /// The format for a caller with this `Accept` header.
    pub fn of(accept: Option<&str>) -> Format {
        match accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            true => Format::OpenMetrics,
            false => Format::Text,
        }
    }

    /// The value of the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Jobs with series of their own: those that received the most device time.
pub const JOBS_MAX: usize = 64;
/// A job that ended keeps its series for some scrapes if it received this much device time. A short one is counted for its user alone,
/// since names of such jobs are often used once.
const LONG_JOB_SECONDS: f64 = 1.0;
const ENDED_JOB_KEPT_SECONDS: f64 = 300.0;
/// An owner is near to a limit from this part of it on.
const QUOTA_NEAR: f64 = 0.9;

type UserCounter = (&'static str, &'static str, fn(&Work) -> f64);
type JobCounter = (&'static str, &'static str, fn(&JobLine) -> f64);
type JobGauge = (&'static str, &'static str, fn(&JobLine) -> Option<f64>);
type Gauge = (&'static str, &'static str, f64);

/// Counters of each user: name, help, value.
const USER_COUNTERS: [UserCounter; 5] = [
    ("weir_user_operations", "Requests served for the user's jobs", |work| work.operations as f64),
    ("weir_user_read_bytes", "Bytes read by the user's jobs", |work| work.bytes_read as f64),
    ("weir_user_written_bytes", "Bytes written by the user's jobs", |work| work.bytes_written as f64),
    (
        "weir_user_charged_seconds",
        "Device time that requests of the user's jobs were charged when dispatched",
        |work| seconds(work.charged),
    ),
    ("weir_user_device_seconds", "Device time that the user's jobs received", |work| seconds(work.device)),
];
/// Counters of each job: name, help, value.
const JOB_COUNTERS: [JobCounter; 5] = [
    ("weir_job_operations", "Requests served for the job", |job| job.operations as f64),
    ("weir_job_read_bytes", "Bytes read by the job", |job| job.bytes_read as f64),
    ("weir_job_written_bytes", "Bytes written by the job", |job| job.bytes_written as f64),
    ("weir_job_charged_seconds", "Device time that the job's requests were charged when dispatched", |job| {
        job.charged_seconds
    }),
    ("weir_job_device_seconds", "Device time that the job received", |job| job.device_seconds),
];
/// Gauges of each job that has a value.
const JOB_GAUGES: [JobGauge; 3] = [
    (
        "weir_job_share_owed_ratio",
        "Share of device time owed while the job was active at any server",
        |job| job.share_owed,
    ),
    (
        "weir_job_share_received_ratio",
        "Share of device time received while the job was active at any server",
        |job| job.share_received,
    ),
    ("weir_job_active", "1 while the job has requests, or had within the grace period", |job| {
        Some(f64::from(u8::from(job.active)))
    }),
];

/// The exposition of one moment.
pub(crate) fn encode(snapshot: Arc<Snapshot>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition::new(snapshot)));
    let mut text = String::new();
    match (text::encode(&mut text, &registry), format) {
        (Ok(()), Format::OpenMetrics) => text,
        (Ok(()), Format::Text) => as_text_format(&text),
        (Err(Error), _) => String::new(),
    }
}

/// An exposition in OpenMetrics, in the text format: there a counter's own name ends in `_total`, and units and the end are not
/// told.
fn as_text_format(exposition: &str) -> String {
    let counter = |line: &str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
    let counters: HashSet<String> = exposition.lines().filter_map(counter).collect();
    let mut text = String::with_capacity(exposition.len());
    for line in exposition.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(kind), Some(name), Some(rest)) if counters.contains(name) => {
                text.push_str(&format!("# {kind} {name}_total {rest}\n"));
            }
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

/// A snapshot, and the places in it of the jobs with series of their own.
#[derive(Debug)]
struct Exposition {
    snapshot: Arc<Snapshot>,
    jobs: Vec<usize>,
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let snapshot = &self.snapshot;
        self.encode_users(&mut encoder)?;
        for (name, help, value) in JOB_COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for job in self.jobs() {
                ConstCounter::new(value(job)).encode(family.encode_family(&labels(job))?)?;
            }
        }
        for (name, help, value) in JOB_GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for job in self.jobs() {
                if let Some(value) = value(job) {
                    ConstGauge::new(value).encode(family.encode_family(&labels(job))?)?;
                }
            }
        }
        self.encode_waits(&mut encoder)?;
        self.encode_waited_for(&mut encoder)?;
        self.encode_targets(&mut encoder)?;
        self.encode_served(&mut encoder)?;
        self.encode_quotas(&mut encoder)?;
        self.encode_server(&mut encoder)?;
        self.encode_costs(&mut encoder)?;
        self.encode_health(&mut encoder)?;
        self.encode_placements(&mut encoder)?;
        self.encode_machine(&mut encoder)?;
        self.encode_journal(&mut encoder)?;
        let status = &snapshot.status;
        let gauges: [Gauge; 10] = [
            (
                "weir_taken_ports",
                "Ports of this server that other programs had when it started, so that it listens on others",
                status.taken_ports.len() as f64,
            ),
            ("weir_connections", "Connections", status.connections as f64),
            ("weir_requests_outstanding", "Requests received and not answered", status.outstanding as f64),
            ("weir_held_bytes", "Memory held for requests and replies of clients", status.held_bytes as f64),
            ("weir_kept_bytes", "Memory that the namespace keeps for users", status.kept_bytes as f64),
            ("weir_kept_bytes_max", "Most memory that the namespace keeps", status.kept_bytes_max as f64),
            ("weir_inodes", "Inodes whose home this server is", status.inodes as f64),
            (
                "weir_unpublished_bytes",
                "Bytes on targets here that no published size covers yet",
                status.unpublished_bytes as f64,
            ),
            (
                "weir_metadata_load_ratio",
                "Share of the last interval in which metadata was busy",
                status.metadata.load,
            ),
            ("weir_uptime_seconds", "Time since the server started", status.uptime_seconds),
        ];
        for (name, help, value) in gauges {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(family)?;
        }
        for (name, help, value) in [
            ("weir_credentials_refused", "Connections refused for their credential", snapshot.refusals),
            ("weir_frames_malformed", "Connections ended for bytes that are no frame", snapshot.malformed),
        ] {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(family)?;
        }
        Ok(())
    }
}

impl Exposition {
    fn new(snapshot: Arc<Snapshot>) -> Exposition {
        let has_own = |job: &JobLine| {
            let is_kept =
                job.device_seconds >= LONG_JOB_SECONDS && job.last_seen_seconds <= ENDED_JOB_KEPT_SECONDS;
            job.active || job.connections > 0 || is_kept
        };
        let all = &snapshot.jobs;
        let mut jobs: Vec<usize> = (0..all.len()).filter(|&place| has_own(&all[place].line)).collect();
        if jobs.len() > JOBS_MAX {
            let time = |place: usize| all[place].line.device_seconds;
            jobs.select_nth_unstable_by(JOBS_MAX, |&left, &right| time(right).total_cmp(&time(left)));
            jobs.truncate(JOBS_MAX);
        }
        Exposition { snapshot, jobs }
    }

    fn shown(&self) -> impl Iterator<Item = &ShownJob> {
        self.jobs.iter().map(|&place| &self.snapshot.jobs[place])
    }

    fn jobs(&self) -> impl Iterator<Item = &JobLine> {
        self.shown().map(|job| &job.line)
    }

    fn encode_users(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        for (name, help, value) in USER_COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (user, work) in &self.snapshot.users {
                ConstCounter::new(value(work)).encode(family.encode_family(&user_labels(user))?)?;
            }
        }
        let family = encoder.encode_descriptor(
            "weir_jobs_left_out",
            "Jobs at work without series of their own",
            None,
            MetricType::Gauge,
        )?;
        let is_at_work = |job: &&ShownJob| job.line.active || job.line.connections > 0;
        let all = self.snapshot.jobs.iter().filter(is_at_work).count();
        ConstGauge::new((all - self.shown().filter(is_at_work).count()) as f64).encode(family)
    }

    fn encode_waits(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Time requests waited for their turn";
        let mut family =
            encoder.encode_descriptor("weir_job_queue_wait_seconds", help, None, MetricType::Histogram)?;
        for ShownJob { line, waits } in self.shown() {
            let count = waits.buckets.iter().map(|&(_, count)| count).sum();
            family.encode_family(&labels(line))?.encode_histogram::<[(&str, &str); 0]>(
                waits.total,
                count,
                &waits.buckets,
                None,
            )?;
        }
        Ok(())
    }

    fn encode_waited_for(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Device time that another job received while the job had requests queued";
        let name = "weir_job_waited_for_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for job in self.jobs() {
            for other in &job.waited_for {
                let [name, user, group, uid] = labels(job);
                let for_job = ("for_job_name", label_text(&other.job));
                let for_user = ("for_user", label_text(&other.user));
                let for_uid = ("for_uid", other.uid.to_string());
                let labels = [name, user, group, uid, for_job, for_user, for_uid];
                ConstCounter::new(other.seconds).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn encode_targets(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Value = fn(&crate::control::status::TargetStatus) -> f64;
        let gauges: [(&str, &str, Value); 7] = [
            (
                "weir_target_failed",
                "1 while the target's folder is gone, so that it answers EIO, and for some minutes after its device failed",
                |target| f64::from(u8::from(target.trouble.is_some())),
            ),
            ("weir_target_capacity_bytes", "Capacity of the target", |target| target.capacity_bytes as f64),
            ("weir_target_used_bytes", "Bytes in use on the target", |target| target.used_bytes as f64),
            (
                "weir_target_spare_bytes",
                "Memory of free pages that a target in memory keeps for the next writes",
                |target| target.spare_bytes as f64,
            ),
            ("weir_target_load_ratio", "Share of the last interval in which the target was busy", |target| {
                target.device.load
            }),
            ("weir_target_queued_requests", "Requests waiting for the target", |target| {
                target.device.queued as f64
            }),
            ("weir_target_latency_seconds", "Mean time a request was in service lately", |target| {
                target.device.latency_seconds
            }),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for target in &self.snapshot.status.targets {
                let labels = [("target", target.target.clone()), ("backend", target.backend.to_string())];
                ConstGauge::new(value(target)).encode(family.encode_family(&labels)?)?;
            }
        }
        let (name, help) = ("weir_target_device_failures", "Requests that the target's device failed");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for target in &self.snapshot.status.targets {
            let labels = [("target", target.target.clone()), ("backend", target.backend.to_string())];
            ConstCounter::new(target.device_failures).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Exposition {
    fn encode_served(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Value = fn(&Flow) -> u64;
        let counters: [(&str, &str, Value); 2] = [
            ("weir_device_operations", "Requests that the device served", Flow::operations),
            ("weir_device_bytes", "Bytes of the requests that the device served", |flow| flow.bytes),
        ];
        let flows = || {
            let served = self.snapshot.served.iter();
            let flows = served.flat_map(|(device, served)| served.flows().map(|flow| (device, flow)));
            flows.map(|(device, (direction, flow))| {
                ([("device", device.clone()), ("direction", direction.to_string())], flow)
            })
        };
        for (name, help, value) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (labels, flow) in flows() {
                ConstCounter::new(value(flow)).encode(family.encode_family(&labels)?)?;
            }
        }
        let (name, help) = (
            "weir_device_request_seconds",
            "Time between the arrivals of the device's requests and their ends",
        );
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, flow) in flows() {
            family.encode_family(&labels)?.encode_histogram::<[(&str, &str); 0]>(
                flow.total_seconds(),
                flow.operations(),
                &flow.buckets(),
                None,
            )?;
        }
        let (name, help) = ("weir_device_errors", "Requests for the device that were answered with an error");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (device, served) in &self.snapshot.served {
            for (error, count) in served.failures() {
                let labels = [("device", device.clone()), ("error", error.to_string())];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// No owner is named, since the use of a user is nobody else's business.
    fn encode_quotas(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Snapshot { quota_lines, limits, .. } = &*self.snapshot;
        let parts = quota_lines.iter().map(|line| {
            let (used, limits) = (line.everywhere(), limits.of(line.owner));
            let part =
                |used: u64, most: Option<u64>| most.map_or(0.0, |most| used as f64 / most.max(1) as f64);
            [part(used.bytes, limits.bytes), part(used.inodes, limits.inodes)]
        });
        let parts: Vec<[f64; 2]> = parts.collect();
        let most = |kind: usize| parts.iter().map(|parts| parts[kind]).fold(0.0, f64::max);
        let near = |kind: usize| parts.iter().filter(|parts| parts[kind] >= QUOTA_NEAR).count() as f64;
        type Value<'a> = &'a dyn Fn(usize) -> f64;
        let gauges: [(&str, &str, Value<'_>); 2] = [
            (
                "weir_quota_used_ratio_max",
                "Use of the owner that is nearest to its limit, by the limit",
                &most,
            ),
            ("weir_quota_owners_near", "Owners that use nine tenths of a limit or more", &near),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (kind, of) in ["bytes", "inodes"].into_iter().enumerate() {
                ConstGauge::new(value(kind)).encode(family.encode_family(&[("of", of)])?)?;
            }
        }
        Ok(())
    }

    fn encode_server(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let status = &self.snapshot.status;
        let help = "1, with the number and the version of the server";
        let mut family = encoder.encode_descriptor("weir_server_info", help, None, MetricType::Gauge)?;
        let labels = [("server", status.server.to_string()), ("version", status.version.to_string())];
        ConstGauge::new(1.0).encode(family.encode_family(&labels)?)?;
        let ages = status.peers.iter().filter_map(|peer| peer.age_seconds);
        let help = "Age of the last report of the server that has been silent for longest";
        let family =
            encoder.encode_descriptor("weir_peer_report_age_seconds_max", help, None, MetricType::Gauge)?;
        ConstGauge::new(ages.fold(0.0, f64::max)).encode(family)
    }
}

impl Exposition {
    fn encode_journal(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Some(journal) = &self.snapshot.status.journal else { return Ok(()) };
        let gauges: [Gauge; 3] = [
            (
                "weir_journal_stopped",
                "1 while a failed sync keeps the journal from taking changes, which answer EROFS",
                f64::from(u8::from(journal.state == "stopped")),
            ),
            (
                "weir_journal_undurable_changes",
                "Changes that are not on stable storage yet",
                journal.appended.saturating_sub(journal.durable) as f64,
            ),
            ("weir_journal_log_bytes", "Bytes of the journal's logs", journal.log_bytes as f64),
        ];
        for (name, help, value) in gauges {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(family)?;
        }
        let (name, help) = ("weir_journal_sync_failures", "Syncs of the journal that failed");
        let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(journal.sync_failures).encode(family)
    }
}

impl Exposition {
    fn encode_costs(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Value = fn(&DirectionCost) -> Option<f64>;
        let gauges: [(&str, &str, Value); 2] = [
            ("weir_device_cost_fixed_seconds", "Expected time of a request without bytes", |cost| {
                Some(cost.fixed_seconds)
            }),
            ("weir_device_cost_bytes_per_second", "Expected rate of bytes beyond that", |cost| {
                cost.bytes_per_second.map(|rate| rate as f64)
            }),
        ];
        let status = &self.snapshot.status;
        let metadata = (format!("{}.metadata", status.server), &status.metadata.cost);
        let targets = status.targets.iter().map(|target| (target.target.clone(), &target.device.cost));
        let devices: Vec<_> = targets.chain([metadata]).collect();
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (device, cost) in &devices {
                for (direction, cost) in [("read", &cost.read), ("write", &cost.write)] {
                    let labels = [("device", device.clone()), ("direction", direction.to_string())];
                    if let Some(value) = value(cost) {
                        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Exposition {
    fn encode_health(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Value = fn(&PlacementStatus) -> Option<f64>;
        let gauges: [(&str, &str, Value); 4] = [
            ("weir_target_speed_ratio", "Speed of the target beside the usual one", |target| {
                Some(target.speed_ratio)
            }),
            ("weir_target_slow", "1 while the target achieves under half of what is expected", |target| {
                Some(f64::from(u8::from(target.slow_since.is_some())))
            }),
            ("weir_target_achieved_bytes_per_second", "What the last requests achieved", |target| {
                target.achieved_bytes_per_second
            }),
            ("weir_target_expected_bytes_per_second", "What such requests achieve on its peers", |target| {
                target.expected_bytes_per_second
            }),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for target in &self.snapshot.status.targets {
                let labels =
                    [("target", target.target.clone()), ("class", label_text(&target.placement.class))];
                if let Some(value) = value(&target.placement) {
                    ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    fn encode_machine(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let MachineLoad { processors, memory, network } = self.snapshot.status.load;
        for (name, help, value) in [
            (
                "weir_machine_processors_ratio",
                "Part of the machine's processor time in use lately",
                processors,
            ),
            ("weir_machine_memory_ratio", "Part of the machine's memory that programs cannot have", memory),
            ("weir_machine_network_ratio", "Part of the speed of the machine's busiest link in use", network),
        ] {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            if let Some(value) = value {
                ConstGauge::new(f64::from(value)).encode(family)?;
            }
        }
        Ok(())
    }

    fn encode_placements(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Placements { stripes, refused, targets } = &self.snapshot.status.placements;
        let counts = |counts: &BTreeMap<String, u64>| {
            counts.iter().map(|(label, &count)| (label.clone(), count)).collect::<Vec<_>>()
        };
        let by_reason = refused.iter().map(|(reason, &count)| ((*reason).to_string(), count));
        for (name, help, label, values) in [
            ("weir_placement_stripes", "Stripes that this server placed", "allocator", counts(stripes)),
            ("weir_placement_refused", "Files not made for want of targets", "reason", by_reason.collect()),
            (
                "weir_placement_target_stripes",
                "Stripes that this server placed on the target",
                "target",
                counts(targets),
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (value, count) in values {
                ConstCounter::new(count).encode(family.encode_family(&[(label, value)])?)?;
            }
        }
        Ok(())
    }
}

fn labels(job: &JobLine) -> [(&'static str, String); 4] {
    [
        ("job_name", label_text(&job.job)),
        ("user", label_text(&job.user)),
        ("group", label_text(&job.group)),
        ("uid", job.uid.to_string()),
    ]
}

fn user_labels(user: &User) -> [(&'static str, String); 3] {
    [
        ("user", label_text(&user.name)),
        ("group", label_text(&user.group)),
        ("uid", user.uid.map_or_else(String::new, |uid| uid.to_string())),
    ]
}

/// A name in a label. Characters that would give a terminal orders, or turn the direction of its text, are escaped as in `\u{1b}`;
/// the names of two jobs stay different.
pub fn label_text(name: &str) -> String {
    if !name.contains(is_order) && !name.contains(ESCAPE) {
        return name.to_string();
    }
    let mut text = String::with_capacity(name.len() + 16);
    for character in name.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            _ if is_order(character) => text.extend(character.escape_unicode()),
            _ => text.push(character),
        }
    }
    text
}

/// The begin of an escaped character.
const ESCAPE: &str = "\\u{";

/// Controls (C0, DEL, C1), ends of lines and paragraphs, and the controls of the direction of writing (UAX #9, section 2).
fn is_order(character: char) -> bool {
    let turns = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'];
    character.is_control()
        || turns.contains(&character)
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::label_text;
    use proptest::prelude::*;

    #[test]
    fn a_name_gives_a_terminal_no_orders() {
        for (name, expected) in [
            ("grün 7", "grün 7"),
            (r"DOMAIN\user", r"DOMAIN\user"),
            ("\u{1b}[2J", r"\u{1b}[2J"),
            (r"\u{1b}[2J", r"\\u{1b}[2J"),
            ("a\nb\\", r"a\u{a}b\\"),
            ("\u{9b}\u{7f}\u{202e}", r"\u{9b}\u{7f}\u{202e}"),
        ] {
            assert_eq!(label_text(name), expected);
        }
    }

    proptest! {
        #[test]
        fn two_names_have_two_labels(
            left in "[\\\\u{}1b\u{1b}\u{202e}a]{0,12}",
            right in "[\\\\u{}1b\u{1b}\u{202e}a]{0,12}",
        ) {
            let (shown_left, shown_right) = (label_text(&left), label_text(&right));
            prop_assert_eq!(left == right, shown_left == shown_right);
            prop_assert!(!shown_left.contains(super::is_order));
        }
    }
}
