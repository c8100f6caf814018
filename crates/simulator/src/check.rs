//! The check of a scenario: each fault of it is one error that names the thing.

use crate::algorithms::Algorithms;
use crate::identity;
use crate::observed::{Observe, LINES_MAX};
use crate::scenario::{FaultKind, Mode, Scenario};
use crate::topology::{Hop, Target, Transfer, TARGETS_OF_SERVER_MAX};
use crate::workload::{Placement, StepKind};
use std::collections::BTreeMap;
use weir_fairshare::{Holder, JobAttributes, Sharing};
use weir_placement::{
    AllocationError, AllocatorName, LayoutDefaults, LayoutError, LayoutSpecification, SpellingError, Stripes,
};

/// Most servers: their numbers in the placement's names.
const SERVERS_MAX: usize = u16::MAX as usize;
/// The longest moment of a scenario, a century: sums of some of them stay within the clock.
const SECONDS_MAX: f64 = 3.2e9;

/// The reason why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// No target at all.
    #[error("topology `{0}` has no targets: give at least one server with one target")]
    NoTargets(String),
    /// A number that is out of its range.
    #[error("{what} is {value}: {expected}")]
    Value {
        /// The place of the number.
        what: String,
        /// The number.
        value: String,
        /// The range.
        expected: &'static str,
    },
    /// A reference to something that is not there.
    #[error("{what} names {kind} {number}, and there are {count}: numbers begin at 0")]
    Missing {
        /// The place of the reference.
        what: String,
        /// The kind of thing that it names.
        kind: &'static str,
        /// The number that it names.
        number: u64,
        /// How many there are.
        count: usize,
    },
    /// A policy, a scheduler or entitlements that are none, or that do not go together.
    #[error("{0}")]
    Sharing(String),
    /// A name that is no allocator.
    #[error(transparent)]
    Allocator(#[from] AllocationError),
    /// A text that is no layout.
    #[error("the layout `{text}` of file {file}: {source}")]
    Spelling {
        /// The file.
        file: usize,
        /// The text.
        text: String,
        /// The reason.
        source: SpellingError,
    },
    /// A layout that this store cannot have.
    #[error("the layout `{text}` of file {file}: {source}")]
    Layout {
        /// The file.
        file: usize,
        /// The text.
        text: String,
        /// The reason.
        source: LayoutError,
    },
    /// A layout that no store can have.
    #[error(
        "the layout `{text}` of file {file} is beyond a store's limits: at most 32 components, stripes and ends in \
         multiples of 4096 bytes"
    )]
    Limits {
        /// The file.
        file: usize,
        /// The text.
        text: String,
    },
    /// A layout that must name its targets, and does not.
    #[error("the layout `{text}` of file {file} names no targets in component {component}: use -o TARGET,TARGET...")]
    Unnamed {
        /// The file.
        file: usize,
        /// The text.
        text: String,
        /// The component without names, from 1.
        component: usize,
    },
    /// More bytes than fit.
    #[error("the files of the workload hold {bytes} bytes, and the targets have room for {free}")]
    TooLarge {
        /// Bytes of the files that are not removed.
        bytes: u128,
        /// Free bytes of all targets.
        free: u128,
    },
}

/// The parts of a checked scenario that are more than its text.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) sharing: Sharing,
    pub(crate) allocator: AllocatorName,
    /// Algorithms in place of the scheduler and the allocator.
    pub(crate) algorithms: Algorithms,
    pub(crate) defaults: LayoutDefaults,
    /// The different layouts that files ask for.
    pub(crate) specifications: Vec<LayoutSpecification>,
    /// The layout that each file asks for, by its place in `specifications`.
    pub(crate) specification_of_file: Vec<Option<u32>>,
    /// The jobs as policies see them; the number of a job is its place in the workload.
    pub(crate) jobs: Vec<JobAttributes>,
    /// Holders of entitlements with their reservations and limits.
    pub(crate) holders: Vec<(Holder, Option<f64>, Option<f64>)>,
}

/// Checks a scenario.
pub(crate) fn check(scenario: &Scenario, algorithms: &Algorithms) -> Result<Settings, ScenarioError> {
    if algorithms.chooser.is_some() && scenario.mode != Mode::Request {
        return Err(value(
            "mode",
            "flow",
            "`request` for a scheduler of one's own: flows have no requests to order",
        ));
    }
    check_topology(scenario)?;
    check_numbers(scenario)?;
    check_references(scenario)?;
    check_faults(scenario)?;
    check_observation(scenario)?;
    let (specifications, specification_of_file) = layouts(scenario)?;
    check_room(scenario)?;
    Ok(Settings {
        sharing: identity::sharing(scenario).map_err(ScenarioError::Sharing)?,
        allocator: scenario.allocator.parse()?,
        algorithms: algorithms.clone(),
        defaults: LayoutDefaults { stripe_bytes: scenario.stripe_bytes, stripe_count: scenario.stripe_count },
        specifications,
        specification_of_file,
        jobs: identity::attributes(scenario),
        holders: identity::entitled(scenario)
            .into_iter()
            .map(|(holder, granted)| (holder, granted.reservation, granted.limit))
            .collect(),
    })
}

fn value(what: impl Into<String>, value: impl ToString, expected: &'static str) -> ScenarioError {
    ScenarioError::Value { what: what.into(), value: value.to_string(), expected }
}

fn check_topology(scenario: &Scenario) -> Result<(), ScenarioError> {
    let topology = &scenario.topology;
    if topology.servers.iter().all(|server| server.targets.is_empty()) {
        return Err(ScenarioError::NoTargets(topology.name.clone()));
    }
    if topology.servers.len() > SERVERS_MAX {
        return Err(value("the number of servers", topology.servers.len(), "at most 65535"));
    }
    if topology.clients.nodes == 0 {
        return Err(value("clients.nodes", 0, "at least 1"));
    }
    check_hop("clients.link", &topology.clients.link)?;
    for stage in &topology.routers {
        if stage.count == 0 {
            return Err(value(format!("the count of routers `{}`", stage.name), 0, "at least 1"));
        }
        check_hop(&format!("the link of routers `{}`", stage.name), &stage.link)?;
    }
    for (number, server) in topology.servers.iter().enumerate() {
        check_hop(&format!("the link of server {number}"), &server.link)?;
        if let Some(rate) = server.processor_bytes_per_second {
            check_rate(format!("processor_bytes_per_second of server {number}"), rate)?;
        }
        check_seconds(format!("metadata_seconds of server {number}"), server.metadata_seconds)?;
        if server.targets.len() > TARGETS_OF_SERVER_MAX {
            return Err(value(
                format!("the number of targets of server {number}"),
                server.targets.len(),
                "at most 254; give the topology more servers with fewer targets each",
            ));
        }
        for (index, target) in server.targets.iter().enumerate() {
            check_target(&format!("target {number}.{index}"), target)?;
        }
    }
    Ok(())
}

fn check_target(name: &str, target: &Target) -> Result<(), ScenarioError> {
    if target.capacity_bytes == 0 {
        return Err(value(format!("capacity_bytes of {name}"), 0, "at least 1"));
    }
    if target.used_bytes > target.capacity_bytes {
        return Err(value(format!("used_bytes of {name}"), target.used_bytes, "at most its capacity_bytes"));
    }
    for (direction, transfer) in [("read", target.read), ("write", target.write)] {
        let Transfer { bytes_per_second, fixed_seconds } = transfer;
        check_rate(format!("{direction}.bytes_per_second of {name}"), bytes_per_second)?;
        check_seconds(format!("{direction}.fixed_seconds of {name}"), fixed_seconds)?;
    }
    if !(target.seek_penalty.is_finite() && target.seek_penalty >= 0.0) {
        return Err(value(format!("seek_penalty of {name}"), target.seek_penalty, "0 or more"));
    }
    if !(target.seek_floor > 0.0 && target.seek_floor <= 1.0) {
        return Err(value(format!("seek_floor of {name}"), target.seek_floor, "above 0, at most 1"));
    }
    for point in &target.fullness {
        if !(0.0..=1.0).contains(&point.used) {
            return Err(value(format!("fullness.used of {name}"), point.used, "from 0 to 1"));
        }
        if !(point.rate > 0.0 && point.rate <= 1.0) {
            return Err(value(format!("fullness.rate of {name}"), point.rate, "above 0, at most 1"));
        }
    }
    let is_rising = target.fullness.windows(2).all(|pair| pair[0].used < pair[1].used);
    if !is_rising {
        return Err(value(format!("fullness of {name}"), "unsorted", "each `used` above the one before it"));
    }
    Ok(())
}

fn check_hop(what: &str, hop: &Hop) -> Result<(), ScenarioError> {
    check_rate(format!("{what}: bytes_per_second"), hop.bytes_per_second)?;
    check_seconds(format!("{what}: latency_seconds"), hop.latency_seconds)
}

fn check_rate(what: String, rate: f64) -> Result<(), ScenarioError> {
    let is_rate = rate.is_finite() && rate >= 1.0;
    is_rate.then_some(()).ok_or_else(|| value(what, rate, "at least 1 byte a second"))
}

fn check_seconds(what: String, seconds: f64) -> Result<(), ScenarioError> {
    let is_span = (0.0..=SECONDS_MAX).contains(&seconds);
    is_span.then_some(()).ok_or_else(|| value(what, seconds, "from 0 to a century, in seconds"))
}

fn check_numbers(scenario: &Scenario) -> Result<(), ScenarioError> {
    if scenario.stripe_bytes == 0 {
        return Err(value("stripe_bytes", 0, "at least 1"));
    }
    // A nanosecond is the step of the clock; servers exchange far less often.
    if !(1e-6..=SECONDS_MAX).contains(&scenario.lambda_seconds) {
        return Err(value("lambda_seconds", scenario.lambda_seconds, "from a microsecond to a century"));
    }
    if !(0.0..=1.0).contains(&scenario.exchange_loss) {
        return Err(value("exchange_loss", scenario.exchange_loss, "from 0 to 1"));
    }
    check_seconds("exchange_delay_seconds".into(), scenario.exchange_delay_seconds)?;
    if scenario.sample_seconds != 0.0 && !(1e-6..=SECONDS_MAX).contains(&scenario.sample_seconds) {
        return Err(value("sample_seconds", scenario.sample_seconds, "0, or a microsecond and more"));
    }
    match scenario.until_seconds {
        Some(until) => check_seconds("until_seconds".into(), until),
        None => Ok(()),
    }
}

fn missing(
    what: impl FnOnce() -> String,
    (kind, number, count): (&'static str, u64, usize),
) -> Result<(), ScenarioError> {
    if number < count as u64 {
        return Ok(());
    }
    Err(ScenarioError::Missing { what: what(), kind, number, count })
}

fn check_references(scenario: &Scenario) -> Result<(), ScenarioError> {
    let workload = &scenario.workload;
    let (jobs, streams, files) = (workload.jobs.len(), workload.streams.len(), workload.files.len());
    let servers = scenario.topology.servers.len();
    for job in &workload.jobs {
        check_seconds(format!("arrival_seconds of job `{}`", job.name), job.arrival_seconds)?;
    }
    for (number, stream) in workload.streams.iter().enumerate() {
        let what = || format!("stream {number}");
        missing(what, ("job", stream.job.into(), jobs))?;
        missing(what, ("node", stream.node.into(), scenario.topology.clients.nodes as usize))?;
    }
    for (number, file) in workload.files.iter().enumerate() {
        missing(|| format!("file {number}"), ("job", file.job.into(), jobs))?;
        if let Some(home) = file.home {
            missing(|| format!("the home of file {number}"), ("server", home.into(), servers))?;
        }
    }
    for (number, step) in workload.steps.iter().enumerate() {
        let what = || format!("step {number}");
        missing(what, ("stream", step.stream.into(), streams))?;
        if !matches!(step.kind, StepKind::Compute | StepKind::Barrier) {
            missing(what, ("file", step.file.into(), files))?;
        }
        for seconds in [step.after_seconds, step.not_before_seconds] {
            if !(0.0..=SECONDS_MAX).contains(&seconds) {
                check_seconds(format!("a pause of step {number}"), seconds)?;
            }
        }
        // The end of the largest file, as in the placement's layouts.
        if step.offset.checked_add(step.bytes).is_none_or(|end| end > i64::MAX as u64) {
            return Err(value(format!("the end of step {number}"), "too large", "at most 2^63 - 1 bytes"));
        }
    }
    Ok(())
}

fn check_faults(scenario: &Scenario) -> Result<(), ScenarioError> {
    let servers = &scenario.topology.servers;
    for (number, fault) in scenario.faults.iter().enumerate() {
        let what = || format!("fault {number}");
        check_seconds(format!("at_seconds of fault {number}"), fault.at_seconds)?;
        missing(what, ("server", fault.server.into(), servers.len()))?;
        match fault.kind {
            FaultKind::Speed(part) if !(part.is_finite() && part >= 0.0) => {
                return Err(value(format!("the speed of fault {number}"), part, "0 or more"));
            }
            FaultKind::Fill(part) if !(0.0..=1.0).contains(&part) => {
                return Err(value(format!("the fill of fault {number}"), part, "from 0 to 1"));
            }
            FaultKind::Speed(_) | FaultKind::Fill(_) => {
                let count = servers[fault.server as usize].targets.len();
                missing(what, ("target", fault.target.into(), count))?;
            }
            FaultKind::Dies | FaultKind::Returns | FaultKind::Parted | FaultKind::Joined => {}
        }
    }
    Ok(())
}

fn check_observation(scenario: &Scenario) -> Result<(), ScenarioError> {
    let Some(Observe { job, window_seconds }) = scenario.observe else { return Ok(()) };
    missing(|| "observe".into(), ("job", job.into(), scenario.workload.jobs.len()))?;
    if scenario.mode != Mode::Request {
        return Err(value("mode", "flow", "`request` for windows: flows have no requests to count"));
    }
    // A sample is a tenth, and the clock counts nanoseconds.
    if !(1e-6..=SECONDS_MAX).contains(&window_seconds) {
        return Err(value("observe.window_seconds", window_seconds, "from a microsecond to a century"));
    }
    let devices: usize = scenario.topology.servers.iter().map(|server| server.targets.len() + 1).sum();
    let until = scenario.until_seconds.unwrap_or(f64::INFINITY);
    let lines = until / window_seconds * devices as f64;
    if lines > LINES_MAX {
        return Err(value(
            "the number of windows, for all devices",
            lines,
            "at most 1000000: set until_seconds",
        ));
    }
    Ok(())
}

/// The different layouts of files, and the place of each file's layout among these.
#[allow(clippy::type_complexity)]
fn layouts(scenario: &Scenario) -> Result<(Vec<LayoutSpecification>, Vec<Option<u32>>), ScenarioError> {
    let mut known: BTreeMap<&Placement, u32> = BTreeMap::new();
    let mut specifications = Vec::new();
    let mut of_file = Vec::with_capacity(scenario.workload.files.len());
    for (number, file) in scenario.workload.files.iter().enumerate() {
        let (text, is_named) = match &file.placement {
            Placement::Usual => {
                of_file.push(None);
                continue;
            }
            Placement::Layout(text) => (text, false),
            Placement::Named(text) => (text, true),
        };
        if let Some(&place) = known.get(&file.placement) {
            of_file.push(Some(place));
            continue;
        }
        let specification = layout(scenario, (number, text), is_named)?;
        known.insert(&file.placement, specifications.len() as u32);
        of_file.push(Some(specifications.len() as u32));
        specifications.push(specification);
    }
    Ok((specifications, of_file))
}

fn layout(
    scenario: &Scenario,
    (file, text): (usize, &str),
    is_named: bool,
) -> Result<LayoutSpecification, ScenarioError> {
    let spelling = |source| ScenarioError::Spelling { file, text: text.to_owned(), source };
    let specification: LayoutSpecification = text.parse().map_err(spelling)?;
    if !specification.is_within_limits() {
        return Err(ScenarioError::Limits { file, text: text.to_owned() });
    }
    let servers = &scenario.topology.servers;
    let targets = servers.iter().map(|server| server.targets.len()).sum();
    let impossible = |source| ScenarioError::Layout { file, text: text.to_owned(), source };
    specification.check_stripes(targets).map_err(impossible)?;
    for (component, number) in specification.components.iter().zip(1..) {
        let Stripes::Targets(named) = &component.stripes else {
            if is_named {
                return Err(ScenarioError::Unnamed { file, text: text.to_owned(), component: number });
            }
            continue;
        };
        for target in named {
            let what = || format!("the layout `{text}` of file {file}");
            missing(what, ("server", target.server.0.into(), servers.len()))?;
            let count = servers[usize::from(target.server.0)].targets.len();
            missing(what, ("target", target.index.into(), count))?;
        }
    }
    Ok(specification)
}

/// The files that stay must fit; those that are removed may follow each other.
fn check_room(scenario: &Scenario) -> Result<(), ScenarioError> {
    let workload = &scenario.workload;
    let mut ends: Vec<u64> = workload.files.iter().map(|file| file.bytes).collect();
    let mut sums = ends.clone();
    let mut is_removed = vec![false; ends.len()];
    for step in &workload.steps {
        match step.kind {
            StepKind::Remove => is_removed[step.file as usize] = true,
            StepKind::Write => {
                let file = step.file as usize;
                ends[file] = ends[file].max(step.offset + step.bytes);
                sums[file] = sums[file].saturating_add(step.bytes);
            }
            _ => {}
        }
    }
    // Bytes that are written twice are within the end, holes are not within the sum.
    let held = ends.iter().zip(&sums).map(|(&end, &sum)| end.min(sum));
    let kept = held.zip(&is_removed).filter(|(_, &is_removed)| !is_removed);
    let bytes: u128 = kept.map(|(bytes, _)| u128::from(bytes)).sum();
    let targets = scenario.topology.servers.iter().flat_map(|server| &server.targets);
    let free: u128 = targets.map(|target| u128::from(target.capacity_bytes - target.used_bytes)).sum();
    if bytes > free {
        return Err(ScenarioError::TooLarge { bytes, free });
    }
    Ok(())
}
