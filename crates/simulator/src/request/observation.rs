//! The windows of a store, as its servers would tell them, and the work of one job in them.

use super::server::{Server, Site};
use super::slab::Request;
use crate::core::time::{nanos, seconds};
use crate::observed::{DeviceWindow, JobWork, Observe, WaitedFor, Window, SAMPLES};
use std::collections::BTreeMap;
use weir_device::Activity;
use weir_fairshare::{Direction, Nanos};

/// A device, by its server and its place among the stations there.
type At = (u16, u16);

/// The open window, and those that ended.
pub(super) struct Observation {
    job: u32,
    /// Length of a sample.
    sample: Nanos,
    /// Samples that were taken.
    samples: u64,
    /// By server and station.
    devices: Vec<Vec<Watched>>,
    windows: Vec<Window>,
}

/// A device in the open window.
#[derive(Default)]
struct Watched {
    activity: Activity,
    work: JobWork,
    in_requests: Nanos,
    in_service: Nanos,
    waited_for: BTreeMap<u32, Nanos>,
    /// Requests of the job that wait for the device.
    queued: u32,
    /// The moment from which on the job had requests waiting.
    queued_since: Nanos,
}

impl Observation {
    /// Windows of the scenario, if it asks for some.
    pub(super) fn new(site: &Site, servers: &[Server]) -> Option<Observation> {
        let Observe { job, window_seconds } = site.scenario.observe?;
        let of_server = |server: &Server| server.stations.iter().map(|_| Watched::default()).collect();
        Some(Observation {
            job,
            sample: Nanos(nanos(window_seconds / SAMPLES as f64).0.max(1)),
            samples: 0,
            devices: servers.iter().map(of_server).collect(),
            windows: Vec::new(),
        })
    }

    /// The moment at which the next sample is due.
    pub(super) fn next_sample(&self) -> Nanos {
        Nanos(self.sample.0.saturating_mul(self.samples + 1))
    }

    fn at(&mut self, (server, device): At) -> &mut Watched {
        &mut self.devices[usize::from(server)][usize::from(device)]
    }

    /// A request of a job comes to a device, which has so many in progress before.
    pub(super) fn arrives(&mut self, at: At, job: u32, in_progress: usize, now: Nanos) {
        let is_own = job == self.job;
        let watched = self.at(at);
        watched.activity.count_time(in_progress, now);
        if is_own {
            if watched.queued == 0 {
                watched.queued_since = now;
            }
            watched.queued += 1;
        }
    }

    /// A device begins to serve a request of a job.
    pub(super) fn begins(&mut self, at: At, job: u32) {
        if job == self.job {
            self.at(at).queued -= 1;
        }
    }

    /// A device, which had so many requests in progress, has served one in this time.
    pub(super) fn ends(
        &mut self,
        at: At,
        (request, charge): (&Request, Nanos),
        in_progress: usize,
        now: Nanos,
    ) {
        let is_own = request.job == self.job;
        let watched = self.at(at);
        watched.activity.count_time(in_progress, now);
        let took = now.saturating_since(request.arrived);
        watched.activity.complete(request.direction, request.bytes, took);
        if is_own {
            watched.in_requests = watched.in_requests + took;
            watched.in_service = watched.in_service + charge;
            if !request.is_operation {
                watched.count(request);
            }
        } else if watched.queued > 0 {
            let begun = Nanos(now.0.saturating_sub(charge.0)).max(watched.queued_since);
            let waited = watched.waited_for.entry(request.job).or_default();
            *waited = *waited + now.saturating_since(begun);
        }
    }

    /// A server ended: its clients send their requests again.
    pub(super) fn forget(&mut self, server: u16) {
        self.devices[usize::from(server)].iter_mut().for_each(|watched| watched.queued = 0);
    }

    /// Takes the sample that is due. The tenth ends a window.
    pub(super) fn sample(&mut self, servers: &[Server]) {
        let now = self.next_sample();
        self.samples += 1;
        for (server, watched) in servers.iter().zip(&mut self.devices) {
            for (station, watched) in server.stations.iter().zip(watched) {
                watched.activity.sample(station.device.in_progress(), station.device.busy(), now);
            }
        }
        if self.samples.is_multiple_of(SAMPLES) {
            let of_server = |(server, watched): (&Server, &mut Vec<Watched>)| -> Vec<DeviceWindow> {
                let stations = watched.iter_mut().enumerate();
                stations.map(|(station, watched)| watched.reduce(server, station)).collect()
            };
            let devices = servers.iter().zip(&mut self.devices).flat_map(of_server).collect();
            self.windows.push(Window { devices });
        }
    }

    /// The run ended: the open window ends, too.
    pub(super) fn close(mut self, servers: &[Server], now: Nanos) -> Vec<Window> {
        let window = self.sample.0 * SAMPLES;
        while (self.windows.len() as u64) < now.0.div_ceil(window) {
            self.sample(servers);
        }
        self.windows
    }
}

impl Watched {
    fn count(&mut self, request: &Request) {
        match request.direction {
            Direction::Read => {
                self.work.reads += 1;
                self.work.read_bytes += request.bytes;
            }
            Direction::Write => {
                self.work.writes += 1;
                self.work.written_bytes += request.bytes;
            }
        }
    }

    /// Ends the window of the device, which has this place among the stations of its server.
    fn reduce(&mut self, server: &Server, station: usize) -> DeviceWindow {
        let waited = std::mem::take(&mut self.waited_for).into_iter();
        let job = JobWork {
            request_seconds: seconds(std::mem::take(&mut self.in_requests)),
            device_seconds: seconds(std::mem::take(&mut self.in_service)),
            waited_for: waited.map(|(job, waited)| WaitedFor { job, seconds: seconds(waited) }).collect(),
            ..std::mem::take(&mut self.work)
        };
        DeviceWindow {
            server: server.number().into(),
            index: (station < server.metadata()).then_some(station as u32),
            counters: self.activity.reduce().into(),
            job,
        }
    }
}
