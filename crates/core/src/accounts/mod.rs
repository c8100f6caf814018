//! Accounts: the jobs, the devices' time that they were owed and received, and the state of the targets and the machine.
//!
//! [`Accounts::account_devices`] comes before anything is told of an interval, and [`Accounts::begin_interval`] before
//! the devices of a new interval.

pub(crate) mod delays;
pub(crate) mod device_account;
pub(crate) mod jobs;
pub mod machine;
pub mod metrics;
pub mod observed;
pub(crate) mod served;
pub(crate) mod standing;
pub(crate) mod waits;
pub mod windows;
pub(crate) mod work;

use crate::clock::Clock;
use crate::host::Host;
use device_account::Interval;
use jobs::Jobs;
use machine::Machine;
use standing::{Standing, Turn};
use std::collections::HashMap;
use weir_device::{Device, Health, Load, Peers, Usual};
use weir_fairshare::Nanos;
use weir_wire::{MachineLoad, TargetRoom};

/// Shares are accounted at most this often: a fifth of the time for which a job stays active after a request.
const ACCOUNT_PAUSE_MIN: Nanos = Nanos::from_millis(1);
/// With many jobs less often, so that accounting takes at most a fiftieth of the loop's time.
const ACCOUNT_COST_FACTOR: u64 = 50;

/// Time for which the requests of a busy machine may wait for a processor: some twenty time slices of 3 ms.
const STALL: Nanos = Nanos::from_millis(50);

/// The accounts of one server.
pub(crate) struct Accounts {
    jobs: Jobs,
    accounting: Accounting,
    /// Whether no job was active at each device when the devices were last accounted.
    is_quiet: Vec<bool>,
    loads: Vec<Load>,
    /// One for each target.
    health: Vec<Health>,
    /// One for each target.
    standings: Vec<Standing>,
    machine: Machine,
}

/// The last moment at which the shares of jobs were accounted, and the earliest of the next time.
#[derive(Clone, Copy, Default)]
struct Accounting {
    last: Nanos,
    next: Nanos,
}

impl Accounts {
    /// The accounts of a server with so many targets, and the metadata device.
    pub(crate) fn new(targets: usize) -> Accounts {
        Accounts {
            jobs: Jobs::default(),
            accounting: Accounting::default(),
            is_quiet: vec![false; targets + 1],
            loads: vec![Load::default(); targets + 1],
            health: vec![Health::default(); targets],
            standings: vec![Standing::default(); targets],
            machine: Machine::default(),
        }
    }

    /// Takes in the device of one more target, before the metadata device.
    pub(crate) fn add_target(&mut self) {
        let index = self.health.len();
        self.is_quiet.insert(index, false);
        self.loads.insert(index, Load::default());
        self.health.push(Health::default());
        self.standings.push(Standing::default());
        self.jobs.renumber_metadata(index + 1);
    }

    /// The jobs.
    pub(crate) fn jobs(&mut self) -> &mut Jobs {
        &mut self.jobs
    }

    /// Begins an interval, after the devices' loads of the last one were looked at.
    pub(crate) fn begin_interval(&mut self, devices: &mut [Device], interval: Nanos, clock: &Clock) {
        self.jobs.begin_interval();
        self.account_devices(devices, clock);
        for (load, device) in self.loads.iter_mut().zip(devices) {
            load.look(device, interval);
        }
    }

    /// Accounts the time that the devices gave to each job since the last call, against their debts to the jobs that are active
    /// now.
    pub(crate) fn account_devices(&mut self, devices: &mut [Device], clock: &Clock) {
        let (begin, ended) = (clock.within_step(), clock.now());
        let began = std::mem::replace(&mut self.accounting.last, ended);
        let mut accounts = Vec::new();
        for ((index, device), is_quiet) in devices.iter_mut().enumerate().zip(&mut self.is_quiet) {
            // An interval without length tells nothing of the work in it, which is left for the next.
            let received = if began < ended { device.take_worked() } else { HashMap::new() };
            if *is_quiet && received.is_empty() && device.in_progress() == 0 {
                continue;
            }
            let shares = device.shares(ended);
            *is_quiet = !shares.iter().any(|share| share.active);
            accounts.push((index, shares, received));
        }
        let intervals = accounts.iter();
        let intervals =
            intervals.map(|(index, shares, received)| (*index, Interval { began, ended, shares, received }));
        self.jobs.account(&intervals.collect::<Vec<_>>());
        let end = clock.within_step();
        let pause = ACCOUNT_PAUSE_MIN.0.max(ACCOUNT_COST_FACTOR * end.saturating_since(begin).0);
        self.accounting.next = end + Nanos(pause);
    }

    /// Accounts the devices when one has served something, if the last time is long enough ago.
    pub(crate) fn account_if_due(&mut self, devices: &mut [Device], clock: &Clock) {
        if clock.now() >= self.accounting.next {
            self.account_devices(devices, clock);
        }
    }

    /// The last moment at which the devices were accounted.
    pub(crate) fn accounted(&self) -> Nanos {
        self.accounting.last
    }

    /// The load of a device in the last interval.
    pub(crate) fn load(&self, device: usize) -> &Load {
        &self.loads[device]
    }

    /// The health of a target.
    pub(crate) fn health(&self, target: usize) -> &Health {
        &self.health[target]
    }

    /// Since when a target is full or fails.
    pub(crate) fn standing(&self, target: usize) -> &Standing {
        &self.standings[target]
    }

    /// A device found no room for a write.
    pub(crate) fn note_refusal(&mut self, device: usize) {
        if let Some(standing) = self.standings.get_mut(device) {
            standing.refuse();
        }
    }

    /// Looks at a target, at a Unix time in milliseconds; the room of one whose folder is gone is not known.
    pub(crate) fn look_at_target(
        &mut self,
        target: usize,
        room: Option<&TargetRoom>,
        fails: bool,
        now: u64,
    ) -> Option<Turn> {
        self.standings[target].look(room, fails, now)
    }

    /// Compares a target with the targets of its class on all servers. The times of a `device` that is emulated are exact,
    /// however busy the machine is.
    pub(crate) fn judge(
        &mut self,
        (target, device): (usize, &Device),
        rates: Usual<'_>,
        (class, expected): (&str, Option<f64>),
        peers: &Peers<'_>,
        now: u64,
    ) {
        let may_stall = device.speed().is_none() && self.machine.is_short_of_processors();
        let stall = if may_stall { STALL } else { Nanos::ZERO };
        let health = &mut self.health[target];
        health.judge(rates, class, peers, expected, now, stall);
        health.show(device.rates().measured(rates), class, peers, expected);
    }

    /// Asks the host how busy it is, if the last time is long enough ago.
    pub(crate) fn look_at_machine(&mut self, host: &mut dyn Host, now: Nanos) {
        self.machine.look(now, |now| host.reading(now));
    }

    /// The load of the machine.
    pub(crate) fn machine_load(&self) -> MachineLoad {
        self.machine.load()
    }
}
