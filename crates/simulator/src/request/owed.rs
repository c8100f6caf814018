//! The debts of the policy: the device time that it owes each job, by the rule of the product's servers.

use super::server::Server;
use crate::core::world::World;
use weir_device::{Debt, Debts};
use weir_fairshare::{JobShare, Nanos};

/// Time between two looks at a device: as long as a job stays active after its last request, so that none is missed.
const LOOK: Nanos = Nanos::from_millis(5);

/// The accounts of all targets.
pub(super) struct Owed {
    looked: Nanos,
    /// By server and target.
    accounts: Vec<Vec<Account>>,
}

/// A target's debts in the present window, and its jobs' accounts at the last look, by ascending job.
#[derive(Clone, Default)]
struct Account {
    debts: Debts,
    before: Vec<JobShare>,
}

impl Owed {
    /// Nothing was owed yet.
    pub(super) fn new(servers: &[Server]) -> Owed {
        let accounts = servers.iter().map(|server| vec![Account::default(); server.metadata()]).collect();
        Owed { looked: Nanos::ZERO, accounts }
    }

    /// The time between two looks.
    pub(super) fn interval(&self) -> Nanos {
        LOOK
    }

    /// A server starts with empty accounts.
    pub(super) fn forget(&mut self, server: u16) {
        self.accounts[usize::from(server)].iter_mut().for_each(|account| account.before.clear());
    }

    /// Accounts the time since the last look. The end of a run, or of a server, `is_end` of the present windows, too.
    pub(super) fn account(
        &mut self,
        (servers, is_alive): (&[Server], &[bool]),
        world: &mut World<'_>,
        is_end: bool,
    ) {
        if !world.accounts.is_owing() {
            return;
        }
        let since = std::mem::replace(&mut self.looked, world.now);
        for (server, accounts) in servers.iter().zip(&mut self.accounts) {
            for (station, account) in server.stations.iter().zip(accounts) {
                if since < world.now && is_alive[usize::from(server.number())] {
                    account.look(station.device.shares(world.now), (since, world.now));
                }
                if is_end || account.debts.is_due(world.now) {
                    for (job, seconds) in account.debts.settle() {
                        world.accounts.owes(job.0 as u32, seconds);
                    }
                }
            }
        }
    }
}

impl Account {
    fn look(&mut self, now: Vec<JobShare>, looks: (Nanos, Nanos)) {
        let mut before = self.before.iter().peekable();
        let mut jobs = Vec::new();
        for share in &now {
            while before.next_if(|known| known.job < share.job).is_some() {}
            let known = before.peek().filter(|known| known.job == share.job);
            let (charged, waited) =
                known.map_or((Nanos::ZERO, Nanos::ZERO), |known| (known.charged, known.backlogged));
            let since = |now: Nanos, before: Nanos| now.saturating_since(before).0 as f64 / 1e9;
            let (used, waited) = (since(share.charged, charged), since(share.backlogged, waited));
            if used > 0.0 || waited > 0.0 {
                jobs.push((share.job, share.owed.unwrap_or(0.0), used, waited));
            }
        }
        let given: f64 = jobs.iter().map(|&(_, _, used, _)| used).sum();
        for (job, share, used, waited) in jobs {
            self.debts.add(job, Debt { promised: given * share, used, waited }, looks);
        }
        self.before = now;
    }
}
