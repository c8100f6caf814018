//! The accounts of a run: what each job, target and server did, and the series of it over time.

use super::machines::Machines;
use super::time::seconds;
use crate::outcome::{JobOutcome, Outcome, ServerOutcome, TargetOutcome};
use crate::scenario::Scenario;
use crate::workload::StepKind;
use weir_fairshare::{Direction, Nanos, Policy};

/// The accounts that become an [`Outcome`].
#[derive(Debug)]
pub(crate) struct Accounts {
    jobs: Vec<JobAccount>,
    targets: Vec<TargetOutcome>,
    servers: Vec<ServerAccount>,
    sample_seconds: f64,
    is_owing: bool,
}

#[derive(Debug)]
struct JobAccount {
    outcome: JobOutcome,
    has_begun: bool,
    steps_left: u64,
    reading: Span,
    writing: Span,
    busy: Span,
}

/// The time in which at least one of some streams is at something.
#[derive(Debug, Default)]
struct Span {
    streams: u32,
    since: Nanos,
    total: Nanos,
}

#[derive(Debug, Default)]
struct ServerAccount {
    outcome: ServerOutcome,
    link_bytes_per_second: f64,
    processor_bytes_per_second: Option<f64>,
    /// Bytes of each interval, to the server and from it.
    received: Vec<f32>,
    sent: Vec<f32>,
}

/// A span of virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

impl Accounts {
    pub(crate) fn new(scenario: &Scenario, policy: &Policy, machines: &Machines) -> Accounts {
        let job = |_| JobAccount {
            outcome: JobOutcome::default(),
            has_begun: false,
            steps_left: 0,
            reading: Span::default(),
            writing: Span::default(),
            busy: Span::default(),
        };
        let mut jobs: Vec<JobAccount> = scenario.workload.jobs.iter().map(job).collect();
        for step in &scenario.workload.steps {
            jobs[scenario.workload.streams[step.stream as usize].job as usize].steps_left += 1;
        }
        let target = |number: usize| {
            let name = machines.name(number as u32);
            TargetOutcome {
                server: name.server.0.into(),
                index: name.index.into(),
                ..TargetOutcome::default()
            }
        };
        let server = |server: &crate::topology::Server| ServerAccount {
            link_bytes_per_second: server.link.bytes_per_second,
            processor_bytes_per_second: server.processor_bytes_per_second,
            ..ServerAccount::default()
        };
        Accounts {
            jobs,
            targets: (0..machines.targets.len()).map(target).collect(),
            servers: scenario.topology.servers.iter().map(server).collect(),
            sample_seconds: scenario.sample_seconds,
            is_owing: *policy != Policy::Fifo,
        }
    }

    /// Whether series are kept.
    pub(crate) fn has_series(&self) -> bool {
        self.sample_seconds > 0.0
    }

    /// The number of the interval of the series that a moment is in; 0 where none is kept.
    pub(crate) fn interval(&self, at: Nanos) -> u64 {
        if self.has_series() {
            (seconds(at) / self.sample_seconds) as u64
        } else {
            0
        }
    }

    /// A stream of the job begins a step.
    pub(crate) fn begins(&mut self, job: u32, kind: StepKind, now: Nanos) {
        let account = &mut self.jobs[job as usize];
        if !account.has_begun {
            (account.has_begun, account.outcome.started_seconds) = (true, seconds(now));
        }
        account.spans(kind).into_iter().flatten().for_each(|span| span.enter(now));
    }

    /// A stream of the job ends a step.
    pub(crate) fn ends(&mut self, job: u32, kind: StepKind, now: Nanos) {
        let account = &mut self.jobs[job as usize];
        account.spans(kind).into_iter().flatten().for_each(|span| span.leave(now));
        account.steps_left -= 1;
        account.outcome.ended_seconds = seconds(now);
    }

    /// A file of the job got no targets.
    pub(crate) fn refuses_file(&mut self, job: u32) {
        self.jobs[job as usize].outcome.refused_files += 1;
    }

    /// Bytes of the job found no room.
    pub(crate) fn refuses_bytes(&mut self, job: u32, bytes: u64) {
        self.jobs[job as usize].outcome.refused_bytes += bytes;
    }

    /// A file got a stripe on a target.
    pub(crate) fn gives_stripe(&mut self, target: u32) {
        self.targets[target as usize].stripes += 1;
    }

    /// Bytes of the job came to a target, or from it.
    pub(crate) fn moves(&mut self, job: u32, (target, server): (u32, u32), direction: Direction, bytes: u64) {
        let job = &mut self.jobs[job as usize].outcome;
        let target = &mut self.targets[target as usize];
        let server = &mut self.servers[server as usize].outcome;
        let (of_job, of_target, of_server) = match direction {
            Direction::Read => (&mut job.read_bytes, &mut target.read_bytes, &mut server.sent_bytes),
            Direction::Write => {
                (&mut job.written_bytes, &mut target.written_bytes, &mut server.received_bytes)
            }
        };
        *of_job += bytes;
        *of_target += bytes;
        *of_server += bytes;
    }

    /// Doubles the interval of the series until a moment is in one of the first ones.
    fn reach(&mut self, to: Nanos) {
        while self.sample_seconds > 0.0 && seconds(to) > self.sample_seconds * Outcome::INTERVALS_MAX as f64 {
            self.sample_seconds *= 2.0;
            let jobs = self.jobs.iter_mut().map(|job| &mut job.outcome.device_series);
            let targets = self.targets.iter_mut().map(|target| &mut target.busy_series);
            let servers = self.servers.iter_mut().flat_map(|server| [&mut server.received, &mut server.sent]);
            jobs.chain(targets).chain(servers).for_each(halve);
        }
    }

    /// The job used device time of a target in a period.
    pub(crate) fn uses(&mut self, job: u32, target: u32, device_seconds: f64, period: Period) {
        self.reach(period.to);
        let job = &mut self.jobs[job as usize].outcome;
        job.device_seconds += device_seconds;
        spread(&mut job.device_series, device_seconds, period, self.sample_seconds);
        let target = &mut self.targets[target as usize];
        target.busy_seconds += device_seconds;
        spread(&mut target.busy_series, device_seconds, period, self.sample_seconds);
    }

    /// Bytes passed a server's link in a period: for the series alone.
    pub(crate) fn passes(&mut self, server: u32, direction: Direction, bytes: f64, period: Period) {
        self.reach(period.to);
        let server = &mut self.servers[server as usize];
        let series = match direction {
            Direction::Read => &mut server.sent,
            Direction::Write => &mut server.received,
        };
        spread(series, bytes, period, self.sample_seconds);
    }

    /// Whether the policy owes anything: `fifo` does not.
    pub(crate) fn is_owing(&self) -> bool {
        self.is_owing
    }

    /// The policy owed the job device time, or less than it was told before where the time is negative.
    pub(crate) fn owes(&mut self, job: u32, device_seconds: f64) {
        if self.is_owing {
            self.jobs[job as usize].outcome.owed_seconds += device_seconds;
        }
    }

    /// The outcome at the end of the run; `events` were taken.
    pub(crate) fn close(mut self, now: Nanos, events: u64, machines: &Machines) -> Outcome {
        self.reach(now);
        let intervals = match self.has_series() {
            true => (seconds(now) / self.sample_seconds).ceil() as usize,
            false => 0,
        };
        let mut is_complete = true;
        for account in &mut self.jobs {
            account.close(now);
            account.outcome.device_series.resize(intervals, 0.0);
            is_complete &= account.outcome.is_complete;
        }
        let sample_seconds = self.sample_seconds;
        for (target, machine) in self.targets.iter_mut().zip(&machines.targets) {
            target.used_bytes = machine.used_bytes();
            target.busy_series.resize(intervals, 0.0);
            target.busy_series.iter_mut().for_each(|busy| *busy /= sample_seconds as f32);
        }
        let uses: Vec<f64> = machines
            .targets
            .iter()
            .map(|target| target.workload_bytes as f64 / target.capacity_bytes as f64)
            .collect();
        let mean = uses.iter().sum::<f64>() / uses.len() as f64;
        let greatest = uses.iter().copied().fold(0.0, f64::max);
        Outcome {
            seconds: seconds(now),
            is_complete,
            events,
            sample_seconds,
            jobs: self.jobs.into_iter().map(|account| account.outcome).collect(),
            targets: self.targets,
            servers: self.servers.into_iter().map(|server| server.close(intervals, sample_seconds)).collect(),
            target_cost: if mean > 0.0 { greatest / mean } else { 1.0 },
            observed: None,
        }
    }
}

impl JobAccount {
    /// The spans that a step of this kind belongs to.
    fn spans(&mut self, kind: StepKind) -> [Option<&mut Span>; 2] {
        match kind {
            StepKind::Compute | StepKind::Barrier => [None, None],
            StepKind::Read => [Some(&mut self.busy), Some(&mut self.reading)],
            StepKind::Write => [Some(&mut self.busy), Some(&mut self.writing)],
            StepKind::Create | StepKind::Metadata | StepKind::Remove => [Some(&mut self.busy), None],
        }
    }

    fn close(&mut self, now: Nanos) {
        let outcome = &mut self.outcome;
        outcome.is_complete = self.steps_left == 0;
        if !outcome.is_complete {
            outcome.ended_seconds = seconds(now);
        }
        outcome.reading_seconds = self.reading.until(now);
        outcome.writing_seconds = self.writing.until(now);
        outcome.busy_seconds = self.busy.until(now);
    }
}

impl Span {
    fn enter(&mut self, now: Nanos) {
        if self.streams == 0 {
            self.since = now;
        }
        self.streams += 1;
    }

    fn leave(&mut self, now: Nanos) {
        self.streams -= 1;
        if self.streams == 0 {
            self.total = self.total + now.saturating_since(self.since);
        }
    }

    fn until(&self, now: Nanos) -> f64 {
        let open = if self.streams > 0 { now.saturating_since(self.since) } else { Nanos::ZERO };
        seconds(self.total + open)
    }
}

impl ServerAccount {
    fn close(mut self, intervals: usize, sample_seconds: f64) -> ServerOutcome {
        self.received.resize(intervals, 0.0);
        self.sent.resize(intervals, 0.0);
        let both = || self.received.iter().zip(&self.sent);
        let link = (self.link_bytes_per_second * sample_seconds) as f32;
        self.outcome.link_series = both().map(|(received, sent)| received.max(*sent) / link).collect();
        if let Some(rate) = self.processor_bytes_per_second {
            let processor = (rate * sample_seconds) as f32;
            self.outcome.processor_series =
                both().map(|(received, sent)| (received + sent) / processor).collect();
        }
        self.outcome
    }
}

/// Brings each two intervals of a series together.
fn halve(series: &mut Vec<f32>) {
    *series = series.chunks(2).map(|pair| pair.iter().sum()).collect();
}

/// Adds an amount to the intervals of a period, in proportion to their parts of it.
fn spread(series: &mut Vec<f32>, amount: f64, period: Period, sample_seconds: f64) {
    if sample_seconds == 0.0 || amount == 0.0 {
        return;
    }
    let (from, to) = (seconds(period.from) / sample_seconds, seconds(period.to) / sample_seconds);
    let (first, last) = (from as usize, to as usize);
    // An end at the begin of an interval has nothing in this interval.
    let last = if last > first && to == last as f64 { last - 1 } else { last };
    if series.len() <= last {
        series.resize(last + 1, 0.0);
    }
    if first == last || to <= from {
        series[first] += amount as f32;
        return;
    }
    let density = amount / (to - from);
    for (place, interval) in (first..=last).zip(&mut series[first..=last]) {
        let begin = from.max(place as f64);
        let end = if place == last { to } else { (place + 1) as f64 };
        *interval += (density * (end - begin)) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_spread_over_the_intervals_of_its_period() {
        let mut series = Vec::new();
        let at = |tenths: u64| Nanos(tenths * 100_000_000);
        spread(&mut series, 3.0, Period { from: at(5), to: at(20) }, 1.0);
        assert_eq!(series, [1.0, 2.0]);
        spread(&mut series, 1.0, Period { from: at(25), to: at(25) }, 1.0);
        assert_eq!(series, [1.0, 2.0, 1.0]);
        spread(&mut series, 1.0, Period { from: at(0), to: at(5) }, 0.0);
        assert_eq!(series, [1.0, 2.0, 1.0]);
    }

    #[test]
    fn time_in_which_several_streams_are_at_a_thing_counts_once() {
        let mut span = Span::default();
        span.enter(Nanos(10));
        span.enter(Nanos(20));
        span.leave(Nanos(30));
        span.leave(Nanos(50));
        assert_eq!(span.total, Nanos(40));
        span.enter(Nanos(100));
        assert!((span.until(Nanos(110)) - 50e-9).abs() < 1e-18);
    }
}
