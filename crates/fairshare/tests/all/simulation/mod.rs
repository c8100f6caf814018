//! One target with some service slots and a virtual clock, and closed-loop clients that think between requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_fairshare::{Algorithm, JobAttributes, JobId, Nanos, Priority, Scheduler, Sharing, Token};

/// A job of user 1000 and group 100.
pub(crate) fn job(id: u64, nodes: u32) -> JobAttributes {
    JobAttributes { priority: Priority(0), ..weir_testing::job(id, 1_000, 100, nodes) }
}

/// A policy under a scheduler, where they go together.
pub(crate) fn sharing_under(policy: &str, algorithm: &str) -> Option<Sharing> {
    let algorithm: Algorithm = algorithm.parse().unwrap();
    Sharing::new(policy.parse().unwrap(), Some(algorithm), Arc::default()).ok()
}

/// The device and its events.
pub(crate) struct Simulation {
    pub(crate) scheduler: Box<dyn Scheduler>,
    slots_free: usize,
    /// Events by time: a client's request arrives, or a request in service ends.
    events: BTreeMap<(Nanos, u64), Event>,
    events_made: u64,
    waiting: BTreeMap<Token, Client>,
    pub(crate) served: BTreeMap<JobId, Nanos>,
}

/// One process that has one request on its way at a time.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) job: JobId,
    pub(crate) service: Nanos,
    pub(crate) think: Nanos,
}

enum Event {
    Arrives(Client),
    Ends(Client),
    /// Withheld requests may be served.
    Releases,
}

impl Simulation {
    pub(crate) fn new(scheduler: Box<dyn Scheduler>, slots: usize) -> Simulation {
        Simulation {
            scheduler,
            slots_free: slots,
            events: BTreeMap::new(),
            events_made: 0,
            waiting: BTreeMap::new(),
            served: BTreeMap::new(),
        }
    }

    fn at(&mut self, moment: Nanos, event: Event) {
        self.events_made += 1;
        self.events.insert((moment, self.events_made), event);
    }

    /// Lets clients begin at `from`, a nanosecond after each other.
    pub(crate) fn start(&mut self, clients: &[Client], from: Nanos) {
        for (index, &client) in clients.iter().enumerate() {
            self.at(from + Nanos(index as u64), Event::Arrives(client));
        }
    }

    /// Lets clients begin at once, and time pass.
    pub(crate) fn run(&mut self, clients: &[Client], until: Nanos) {
        self.start(clients, Nanos::ZERO);
        self.run_until(until);
    }

    /// Lets time pass.
    pub(crate) fn run_until(&mut self, until: Nanos) {
        while let Some(next) = self.events.first_entry().filter(|next| next.key().0 <= until) {
            let ((now, number), event) = next.remove_entry();
            match event {
                Event::Arrives(client) => {
                    self.scheduler.enqueue(client.job, Token(number), client.service, now).unwrap();
                    self.waiting.insert(Token(number), client);
                }
                Event::Ends(client) => {
                    self.slots_free += 1;
                    self.scheduler.complete(client.job, client.service, client.service, now);
                    let served = self.served.entry(client.job).or_default();
                    *served = *served + client.service;
                    self.at(now + client.think, Event::Arrives(client));
                }
                Event::Releases => {}
            }
            self.dispatch(now);
        }
    }

    fn dispatch(&mut self, now: Nanos) {
        while self.slots_free > 0 {
            let Some(dispatch) = self.scheduler.dispatch(now) else {
                if let Some(release) = self.scheduler.next_release() {
                    assert!(release > now, "released at {release} already, and withheld at {now}");
                    self.at(release, Event::Releases);
                }
                break;
            };
            let client = self.waiting.remove(&dispatch.token).unwrap();
            self.slots_free -= 1;
            self.at(now + client.service, Event::Ends(client));
        }
    }

    /// The job's part of the device time that was used.
    pub(crate) fn fraction(&self, job: u64) -> f64 {
        let total: u64 = self.served.values().map(|time| time.0).sum();
        self.served_nanos(job) as f64 / total as f64
    }

    /// The device time that the job's requests have used.
    pub(crate) fn served_nanos(&self, job: u64) -> u64 {
        self.served.get(&JobId(job)).map_or(0, |time| time.0)
    }
}
