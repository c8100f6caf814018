//! The shares of jobs on targets, by the policy.
//!
//! Flows share a link by their windows: the bytes of their requests under way, as a queue in order of arrival serves
//! them. On a target the policy divides device time among the jobs there, and a job's flows share its part by their
//! windows. So the weight of a flow is its window times a factor of its job on the target: the job's share there over the
//! share that its windows alone would give. The factor is 1 where a job is alone on a target, and under `fifo`.

use crate::core::accounts::Accounts;
use crate::core::time::seconds;
use weir_device::{owed, Claim, USED_MIN};
use weir_fairshare::{divide, JobAttributes, Level, Nanos, Policy, Presence, Sharing, Use};

/// Portions that move by less than this leave the weights as they are.
const PORTION_MOVED: f64 = 0.01;

/// The jobs of each target.
#[derive(Debug)]
pub(crate) struct Shares {
    sharing: Sharing,
    jobs: Vec<JobAttributes>,
    /// The targets, and behind them the metadata services of the servers.
    devices: Vec<Vec<JobHere>>,
    targets: u32,
    /// For each job, the targets that have flows of it.
    targets_of_job: Vec<u32>,
    /// Whether the last division left a job less than all of its weight on a target.
    is_divided: bool,
    /// Windows of all flows of each device, in its time.
    windows: Vec<f64>,
    /// Whether a job came to the device or left it, or spends another part of its weight there, since shares were found.
    is_stale: Vec<bool>,
    /// Whether the policy gathers jobs into classes. Then portions belong to classes, too: where a job comes that has none
    /// yet, no job has any until the next division.
    has_classes: bool,
}

/// A job on a target.
#[derive(Clone, Debug)]
pub(crate) struct JobHere {
    pub(crate) job: u32,
    /// Its flows here.
    flows: u32,
    /// Windows of its flows, in device time of the target.
    window: f64,
    share: f64,
    /// The part of the target's time that it is owed, less the part that it uses.
    missing: f64,
    since: Nanos,
    /// Parts of its weights that it spends here; empty: all.
    portions: Vec<f64>,
}

/// The present use of targets by a job, for the division of the store, and for what it is owed.
#[derive(Clone, Debug)]
pub(crate) struct JobUse {
    pub(crate) job: u32,
    pub(crate) target: u32,
    /// Part of the target's time that it uses.
    pub(crate) used: f64,
    /// Whether the target holds its flows back.
    pub(crate) is_short: bool,
}

impl Shares {
    pub(crate) fn new(
        sharing: &Sharing,
        jobs: &[JobAttributes],
        (targets, servers): (usize, usize),
    ) -> Shares {
        let is_flat = match sharing.policy() {
            Policy::Fifo => true,
            Policy::Fair(levels) => matches!(levels[..], [Level::Job | Level::Size | Level::Priority]),
        };
        Shares {
            has_classes: !is_flat,
            sharing: sharing.clone(),
            jobs: jobs.to_vec(),
            devices: vec![Vec::new(); targets + servers],
            windows: vec![0.0; targets + servers],
            is_stale: vec![false; targets + servers],
            targets: targets as u32,
            targets_of_job: vec![0; jobs.len()],
            is_divided: false,
        }
    }

    /// The number of targets that have flows of a job.
    pub(crate) fn targets_of(&self, job: u32) -> u32 {
        self.targets_of_job[job as usize]
    }

    /// A flow of the job comes to a target.
    pub(crate) fn come(&mut self, target: u32, job: u32, now: Nanos) {
        let here = &mut self.devices[target as usize];
        match here.binary_search_by_key(&job, |one| one.job) {
            Ok(place) => here[place].flows += 1,
            Err(place) => {
                if self.has_classes {
                    here.iter_mut().for_each(|one| one.portions.clear());
                }
                let one = JobHere {
                    job,
                    flows: 1,
                    window: 0.0,
                    share: 0.0,
                    missing: 0.0,
                    since: now,
                    portions: Vec::new(),
                };
                here.insert(place, one);
                self.is_stale[target as usize] = true;
                self.targets_of_job[job as usize] += u32::from(target < self.targets);
            }
        }
    }

    /// A flow of the job leaves a target.
    pub(crate) fn leave(&mut self, target: u32, job: u32, now: Nanos, accounts: &mut Accounts) {
        let here = &mut self.devices[target as usize];
        let Ok(place) = here.binary_search_by_key(&job, |one| one.job) else { return };
        here[place].flows -= 1;
        if here[place].flows == 0 {
            let mut gone = here.remove(place);
            self.is_stale[target as usize] = true;
            self.targets_of_job[job as usize] -= u32::from(target < self.targets);
            gone.settle(now, accounts);
        }
    }

    /// A flow with this window, in device time, came to a device, or left it where the window is negative.
    pub(crate) fn queue(&mut self, device: u32, window: f64) {
        self.windows[device as usize] += window;
    }

    /// A job is alone on a device, which is all its own.
    pub(crate) fn weigh_alone(&mut self, device: u32, now: Nanos, accounts: &mut Accounts) {
        match &mut self.devices[device as usize][..] {
            [only] => {
                only.settle(now, accounts);
                (only.share, only.missing) = (1.0, 0.0);
            }
            // What rounding left of the windows of flows that are gone.
            _ => self.windows[device as usize] = 0.0,
        }
    }

    /// Takes the windows of all flows of a target, by job, and finds the shares of its jobs.
    pub(crate) fn weigh(&mut self, target: u32, windows: impl Iterator<Item = (u32, f64)>) {
        let here = &mut self.devices[target as usize];
        here.iter_mut().for_each(|one| one.window = 0.0);
        let mut all = 0.0;
        for (job, window) in windows {
            if let Ok(place) = here.binary_search_by_key(&job, |one| one.job) {
                here[place].window += window;
                all += window;
            }
        }
        self.windows[target as usize] = all;
        if *self.sharing.policy() == Policy::Fifo {
            here.iter_mut().for_each(|one| one.share = one.window / all);
        } else if std::mem::take(&mut self.is_stale[target as usize]) {
            let jobs: Vec<(&JobAttributes, &[f64])> =
                here.iter().map(|one| (&self.jobs[one.job as usize], &one.portions[..])).collect();
            let owed = self.sharing.owed(&jobs);
            for (one, share) in here.iter_mut().zip(owed) {
                one.share = share;
            }
        }
    }

    /// Windows of all flows of a target: the longer its queue, the more likely it holds the flows that it shares with others.
    pub(crate) fn window(&self, target: u32) -> f64 {
        self.windows[target as usize]
    }

    /// The jobs on a target, ascending.
    pub(crate) fn jobs_on(&self, target: u32) -> impl Iterator<Item = u32> + '_ {
        self.devices[target as usize].iter().map(|one| one.job)
    }

    /// Whether several jobs are on a target.
    pub(crate) fn is_shared(&self, target: u32) -> bool {
        self.devices[target as usize].len() > 1
    }

    /// Whether the last division left a job less than all of its weight on a target.
    pub(crate) fn is_divided(&self) -> bool {
        self.is_divided
    }

    pub(crate) fn divides(&self) -> bool {
        *self.sharing.policy() != Policy::Fifo
    }

    /// The factor of the windows of a job's flows on a target.
    pub(crate) fn factor(&self, target: u32, job: u32) -> f64 {
        let here = &self.devices[target as usize];
        match here.binary_search_by_key(&job, |one| one.job) {
            Ok(place) if here.len() > 1 && here[place].window > 0.0 => {
                here[place].share * self.windows[target as usize] / here[place].window
            }
            _ => 1.0,
        }
    }

    /// Divides the targets among their jobs as the servers do in an exchange: by the uses of all of them, which are sorted by job.
    /// Answers the targets whose jobs spend other parts of their weights from now on.
    pub(crate) fn divide(&mut self, uses: &[JobUse]) -> Vec<u32> {
        let mut contended: Vec<u32> = uses.iter().map(|one| one.target).collect();
        contended.retain(|&target| self.is_shared(target));
        contended.sort_unstable();
        contended.dedup();
        // Targets that a job has for itself are one device more, of which it has the time that it uses.
        let own = contended.len();
        let mut presences: Vec<Presence> = Vec::new();
        for of_job in uses.chunk_by(|one, next| one.job == next.job) {
            let mut presence = Presence { attributes: self.jobs[of_job[0].job as usize], uses: Vec::new() };
            let mut alone = 0.0;
            for one in of_job {
                match contended.binary_search(&one.target) {
                    Ok(device) => {
                        let wanted = (!one.is_short).then_some(one.used.clamp(0.0, 1.0));
                        presence.uses.push(Use { device, wanted });
                    }
                    Err(_) => alone += one.used,
                }
            }
            if alone > USED_MIN {
                presence.uses.push(Use { device: own, wanted: Some(alone) });
            }
            presences.push(presence);
        }
        let division = divide(&self.sharing, &presences, own + 1);
        self.is_divided = division
            .portions
            .iter()
            .flat_map(|of_device| of_device.values().flatten())
            .any(|part| *part < 1.0);
        let mut moved = Vec::new();
        for (&target, portions) in contended.iter().zip(&division.portions) {
            let mut has_moved = false;
            for one in &mut self.devices[target as usize] {
                let Some(next) = portions.get(&self.jobs[one.job as usize].job) else { continue };
                let is_near = next.len() == one.portions.len()
                    && next
                        .iter()
                        .zip(&one.portions)
                        .all(|(next, before)| (next - before).abs() < PORTION_MOVED);
                if !is_near {
                    one.portions.clone_from(next);
                    has_moved = true;
                }
            }
            if has_moved {
                self.is_stale[target as usize] = true;
                moved.push(target);
            }
        }
        moved
    }

    /// Finds what the jobs of a target are owed from now on, by their present uses, which are sorted by job.
    ///
    /// So a job that is alone on a target is owed what it uses, and so is every job where none is short of time.
    pub(crate) fn owe(&mut self, uses: &[JobUse], now: Nanos, accounts: &mut Accounts) {
        let Some(target) = uses.first().map(|one| one.target) else { return };
        let here = &mut self.devices[target as usize];
        let claim = |(one, usage): (&JobHere, &JobUse)| Claim {
            share: one.share,
            used: usage.used,
            wants_more: usage.is_short,
        };
        let claims: Vec<Claim> = here.iter().zip(uses).map(claim).collect();
        for ((one, usage), owed) in here.iter_mut().zip(uses).zip(owed(&claims)) {
            one.settle(now, accounts);
            one.missing = owed - usage.used;
        }
    }

    /// The run ends: time that is owed until now counts.
    pub(crate) fn close(&mut self, now: Nanos, accounts: &mut Accounts) {
        self.devices.iter_mut().flatten().for_each(|one| one.settle(now, accounts));
    }
}

impl JobHere {
    /// Puts the time that it was owed and did not use since the last time into the accounts.
    fn settle(&mut self, now: Nanos, accounts: &mut Accounts) {
        accounts.owes(self.job, self.missing * seconds(now.saturating_since(self.since)));
        self.since = now;
    }
}
