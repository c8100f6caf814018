//! The decisions of a whole store in virtual time, by the leaves alone. A device serves by a policy. All servers hear
//! of its speed and of the demands of jobs. By that they place files and divide devices.

use std::collections::HashMap;
use weir_device::{Device, Health, Load, Peers, Work};
use weir_fairshare::{
    DeviceSpeed, Direction, Dispatch, JobAttributes, JobId, Nanos, Priority, Sharing, StoreDevice, StoreUses,
    TransferSpeed,
};
use weir_placement::online::{Figures, Heard, Placer};
use weir_placement::{LayoutDefaults, ServerId, TargetId};

const STRIPE: Work = Work { direction: Direction::Write, bytes: 1 << 20 };
const EXCHANGE: Nanos = Nanos::from_millis(100);
const DEFAULTS: LayoutDefaults = LayoutDefaults { stripe_bytes: 1 << 20, stripe_count: 1 };
/// Requests that a job has queued on each device that it uses.
const QUEUED: u64 = 4;

/// A job of a user of its own.
fn job(id: u64, nodes: u32) -> JobAttributes {
    JobAttributes { priority: Priority(0), ..weir_testing::job(id, id, 1, nodes) }
}

fn speed(megabytes_per_second: u64) -> DeviceSpeed {
    let bytes_per_second = (megabytes_per_second * 1_000_000).try_into().unwrap();
    let speed = TransferSpeed { fixed: Nanos::from_micros(20), bytes_per_second };
    DeviceSpeed { read: speed, write: speed }
}

/// A server of one target.
struct Server {
    device: Device,
    load: Load,
    health: Health,
    /// The jobs that use its target all the time.
    jobs: Vec<JobAttributes>,
    served: HashMap<JobId, u64>,
    serving: Option<Dispatch>,
    tokens: u64,
}

impl Server {
    fn new(sharing: &Sharing, speed: DeviceSpeed, jobs: Vec<JobAttributes>) -> Server {
        let mut server = Server {
            device: Device::new(sharing, Some(speed), 0),
            load: Load::default(),
            health: Health::default(),
            jobs: jobs.clone(),
            served: HashMap::new(),
            serving: None,
            tokens: 0,
        };
        for job in jobs {
            (0..QUEUED).for_each(|_| server.ask(job, Nanos::ZERO));
        }
        server
    }

    fn ask(&mut self, job: JobAttributes, now: Nanos) {
        self.tokens += 1;
        assert!(self.device.enqueue(job, self.tokens, STRIPE, now));
    }

    /// Serves for as long as its device has time until `end`; each served job asks for as much again.
    fn run(&mut self, mut now: Nanos, end: Nanos) {
        loop {
            if self.serving.is_none() {
                self.serving = self.device.dispatch(now);
                let Some(dispatch) = &self.serving else { return };
                self.device.emulate(dispatch, STRIPE, now);
            }
            let Some(finish) = self.device.next_finish().filter(|finish| *finish <= end) else { return };
            now = finish;
            let dispatch = self.serving.take().unwrap();
            assert_eq!(self.device.finished(now), Some(dispatch.token.0));
            self.device.complete(&dispatch, STRIPE, (Nanos::ZERO, None), now);
            *self.served.entry(dispatch.job).or_default() += 1;
            let job = *self.jobs.iter().find(|job| job.job == dispatch.job).unwrap();
            self.ask(job, now);
        }
    }
}

/// The servers exchange their reports at the end of an interval, and each takes its part from them.
fn exchange(sharing: &Sharing, servers: &mut [Server], placer: &mut Placer, now: Nanos) {
    let rates: Vec<Vec<(u8, f32)>> =
        servers.iter().map(|server| server.device.rates().present(std::iter::empty())).collect();
    let peers: Peers = rates.iter().map(|rates| (Some("disk"), &rates[..])).collect();
    let mut heard = Heard::new(false);
    let mut uses = StoreUses::default();
    for (number, (server, rates)) in servers.iter_mut().zip(&rates).enumerate() {
        server.load.look(&server.device, EXCHANGE);
        server.health.judge(rates, "disk", &peers, None, now.0 / 1_000_000);
        let figures = Figures {
            capacity_bytes: 1 << 40,
            free_bytes: 1 << 39,
            speed: server.health.speed,
            is_slow: server.health.slow_since.is_some(),
            backlog_seconds: server.load.backlog_seconds,
            ..Figures::UNKNOWN
        };
        heard.tell(target(number as u16), figures);
        let device = StoreDevice { server: number as u16, number: 0, is_metadata: false };
        let Server { device: measured, jobs, .. } = server;
        for (id, wanted) in measured.measure(now) {
            let attributes = || *jobs.iter().find(|job| job.job == id).unwrap();
            uses.tell(device, id, attributes, wanted);
        }
    }
    for (number, server) in servers.iter_mut().enumerate() {
        let portions = uses.clone().portions(sharing, number as u16).remove(&0).unwrap_or_default();
        server.device.set_portions(&portions, now);
    }
    placer.refresh(now.0 as f64 / 1e9, |target| heard.figures(target));
}

fn target(server: u16) -> TargetId {
    TargetId { server: ServerId(server), index: 0 }
}

/// The jobs of ThemisIO's figure 5 on the first two servers; the third server has a slow target.
#[test]
fn a_store_divides_its_time_over_servers_and_avoids_a_slow_target() {
    let sharing = Sharing::of("size-fair".parse().unwrap());
    let speeds = [1_000, 1_000, 100].map(speed);
    let jobs = [vec![job(1, 16), job(2, 8)], vec![job(1, 16), job(3, 8)], vec![job(4, 1)]];
    let mut servers: Vec<Server> =
        speeds.into_iter().zip(jobs).map(|(speed, jobs)| Server::new(&sharing, speed, jobs)).collect();
    let targets: Vec<TargetId> = (0..3).map(target).collect();
    let mut placer = Placer::new(ServerId(2), &targets, DEFAULTS);
    let mut now = Nanos::ZERO;
    for _ in 0..30 {
        let end = now + EXCHANGE;
        servers.iter_mut().for_each(|server| server.run(now, end));
        now = end;
        exchange(&sharing, &mut servers, &mut placer, now);
        if now == Nanos::from_millis(1_000) {
            servers.iter_mut().for_each(|server| server.served.clear());
        }
    }
    for (server, own) in [(0, 2), (1, 3)] {
        let served = &servers[server].served;
        let ratio = served[&JobId(1)] as f64 / served[&JobId(own)] as f64;
        assert!((ratio - 1.0).abs() < 0.05, "16 nodes over two servers, 8 on one: half each, not {ratio}");
        assert!(servers[server].load.ratio > 0.99 && servers[server].health.slow_since.is_none());
    }
    assert!(servers[2].health.slow_since.is_some(), "{:?}", servers[2].health);
    for file in 0..20 {
        let placed = placer.place(file, None).expect("two targets take files");
        assert_ne!(placed.layout.targets(), [target(2)], "although it is the home's own");
        placer.placed(&placed.layout, 0);
    }
    assert_eq!(placer.tally().targets.len(), 2);
}
