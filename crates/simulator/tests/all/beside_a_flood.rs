//! The worth of a fair share: beside the same flood on the same devices, no job that is owed at least the part that its
//! requests are of all requests takes longer under `size-fair` than under `fifo`, beyond one request of the flood a wait.
//!
//! In the order of arrival a job has the part of a device that its requests make of those in the queue. A job whose share is
//! smaller is slower under the policy, and is meant to be; so is one that the policy owes less of a device because the job
//! has others for itself. Both jobs therefore use the same devices here.

use crate::scenarios::Work;
use crate::stores::{disk, link, store};
use proptest::prelude::*;
use weir_simulator::{Scenario, Step, StepKind};

/// A job of streams that have one request at a time each.
#[derive(Clone, Debug)]
struct Crowd {
    nodes: u32,
    streams: u32,
    service_micros: u64,
    think_micros: u64,
}

/// A victim and a flood on so many servers of so many targets.
#[derive(Clone, Debug)]
struct Meeting {
    servers: usize,
    targets: usize,
    victim: Crowd,
    /// Requests of each stream of the victim.
    requests: u64,
    flood: Crowd,
}

impl Crowd {
    fn queued_micros(&self) -> f64 {
        f64::from(self.streams) * self.service_micros as f64
    }
}

impl Meeting {
    /// Whether the victim is owed at least its part of the work that is queued in the order of arrival.
    fn is_owed_its_part(&self) -> bool {
        let Meeting { victim, flood, .. } = self;
        let share = f64::from(victim.nodes) / f64::from(victim.nodes + flood.nodes);
        share >= victim.queued_micros() / (victim.queued_micros() + flood.queued_micros())
    }

    /// Time by which the victim is done under any policy: twice the wait for everybody, each time.
    fn seconds_max(&self) -> f64 {
        let round =
            self.victim.queued_micros() + self.flood.queued_micros() + self.victim.think_micros as f64;
        2e-6 * (self.requests + 2) as f64 * round
    }

    /// The time that the victim takes.
    fn seconds(&self, policy: &str) -> f64 {
        let mut scenario = store(self.servers, self.targets, &disk(1_000.0, 0.0));
        scenario.policy = policy.into();
        scenario.until_seconds = Some(self.seconds_max());
        scenario.topology.clients.link = link(1e9, 0.0);
        scenario.topology.servers.iter_mut().for_each(|server| server.link = link(1e9, 0.0));
        let all = (0..self.servers)
            .flat_map(|server| (0..self.targets).map(move |target| format!("{server}.{target}")));
        let all = all.collect::<Vec<_>>().join(",");
        add(&mut scenario, &self.victim, &all, self.requests);
        let most = self.seconds_max() * 1e6 / (self.flood.service_micros + self.flood.think_micros) as f64;
        add(&mut scenario, &self.flood, &all, most as u64 + 2);
        let outcome = scenario.outcome();
        let written = outcome.jobs[0].written_bytes;
        let asked = u64::from(self.victim.streams) * self.requests * self.victim.service_micros * 1_000;
        assert_eq!(written, asked, "the victim is done under {policy}: {self:?}");
        outcome.jobs[0].ended_seconds
    }
}

/// Adds a job whose streams write a file each, one request after the other, on all targets in turn. Bytes are nanoseconds of
/// device time.
fn add(scenario: &mut Scenario, crowd: &Crowd, targets: &str, requests: u64) {
    let job = scenario.job(crowd.nodes);
    let bytes = crowd.service_micros * 1_000;
    for node in 0..crowd.streams {
        let stream = scenario.stream(job, node % crowd.nodes);
        let file = scenario.file(job, targets);
        scenario.workload.files[file as usize].bytes = 1;
        let step = Step {
            stream,
            kind: StepKind::Write,
            after_seconds: crowd.think_micros as f64 / 1e6,
            not_before_seconds: 0.0,
            file,
            offset: 0,
            bytes,
            request_bytes: bytes,
            depth: 1,
        };
        // A stripe is a mebibyte: each request lies on one target, and the next one on the next target.
        scenario.workload.steps.extend((0..requests).map(|number| Step { offset: number << 20, ..step }));
    }
}

fn crowd(nodes: std::ops::Range<u32>, streams: std::ops::Range<u32>) -> impl Strategy<Value = Crowd> {
    // A request takes at most a stripe.
    (nodes, streams, 50_u64..1_000, 0_u64..1_500).prop_map(
        |(nodes, streams, service_micros, think_micros)| Crowd {
            nodes,
            streams,
            service_micros,
            think_micros,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_job_takes_longer_by_its_share_than_in_the_order_of_arrival(
        (servers, targets) in (1_usize..3, 1_usize..3),
        victim in crowd(1..9, 1..5),
        flood in crowd(1..5, 4..24),
        requests in 20_u64..60,
    ) {
        let flood = Crowd { think_micros: 0, ..flood };
        let meeting = Meeting { servers, targets, victim, requests, flood };
        prop_assume!(meeting.is_owed_its_part());
        let [fifo, fair] = ["fifo", "size-fair"].map(|policy| meeting.seconds(policy));
        let request = meeting.flood.service_micros as f64 / 1e6;
        // A stream waits once for each of its requests.
        let allowed = fifo + (meeting.requests + 1) as f64 * request;
        prop_assert!(fair <= allowed, "{fair} s under size-fair, {fifo} s under fifo: {meeting:?}");
    }
}
