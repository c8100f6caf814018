//! The debts of the policy: the device time that it owes each job while the job wants time.
//!
//! The division is that of the product over the whole store, by what jobs really want where. The product's servers divide by
//! reports of up to an interval ago; the difference between owed and received time shows what that costs.

use super::server::{Server, Site};
use crate::core::time::seconds;
use crate::core::world::World;
use weir_device::{demand, SHORT, WINDOW};
use weir_fairshare::{shares, JobShare, Nanos, Presence, Use};

/// The accounts of all targets at the last look.
pub(super) struct Owed {
    looked: Nanos,
    /// By server and target: the charged and the waited time of each job, by ascending job.
    before: Vec<Vec<Vec<JobShare>>>,
    /// The last division, and the uses that it divided by.
    presences: Vec<Presence>,
    shares: Vec<f64>,
}

impl Owed {
    /// Nothing was owed yet.
    pub(super) fn new(site: &Site, servers: &[Server]) -> Owed {
        let before = servers.iter().map(|server| vec![Vec::new(); server.metadata()]).collect();
        let shares = vec![0.0; site.settings.jobs.len()];
        Owed { looked: Nanos::ZERO, before, presences: Vec::new(), shares }
    }

    /// The time between two looks: the window over which a device judges the demands of its jobs.
    pub(super) fn interval(&self) -> Nanos {
        WINDOW
    }

    /// A server starts with empty accounts.
    pub(super) fn forget(&mut self, server: u16) {
        self.before[usize::from(server)].iter_mut().for_each(Vec::clear);
    }

    /// Accounts the time since the last look.
    ///
    /// Nobody can use a device of a dead server, however long its requests wait: it is owed to no one.
    pub(super) fn account(
        &mut self,
        site: &Site,
        (servers, is_alive): (&[Server], &[bool]),
        world: &mut World<'_>,
    ) {
        let span = world.now.saturating_since(self.looked);
        if span == Nanos::ZERO || !world.accounts.is_owing() {
            return;
        }
        self.looked = world.now;
        let mut uses: Vec<Vec<Use>> = vec![Vec::new(); site.settings.jobs.len()];
        let mut device = 0;
        for (server, before) in servers.iter().zip(&mut self.before) {
            let stations = match is_alive[usize::from(server.number())] {
                true => &server.stations[..],
                false => &[],
            };
            for (station, before) in stations.iter().zip(before) {
                let shares = station.device.shares(world.now);
                note(&shares, before, span, |job, wanted| uses[job].push(Use { device, wanted }));
                *before = shares;
                device += 1;
            }
        }
        let used = uses.into_iter().enumerate().filter(|(_, uses)| !uses.is_empty());
        let presence =
            |(job, uses): (usize, Vec<Use>)| Presence { attributes: site.settings.jobs[job], uses };
        let presences: Vec<Presence> = used.map(presence).collect();
        if presences != self.presences {
            self.shares = shares(&site.settings.sharing, &presences, device);
            self.presences = presences;
        }
        for (presence, share) in self.presences.iter().zip(&self.shares) {
            world.accounts.owes(presence.attributes.job.0 as u32, share * seconds(span));
        }
    }
}

/// Tells the demand of each job on one target over the last `span`.
fn note(now: &[JobShare], before: &[JobShare], span: Nanos, mut tell: impl FnMut(usize, Option<f64>)) {
    let part = |time: Nanos| time.0 as f64 / span.0 as f64;
    let mut before = before.iter().peekable();
    let demands: Vec<(usize, f64, f64)> = now
        .iter()
        .map(|share| {
            while before.next_if(|known| known.job < share.job).is_some() {}
            let known = before.peek().filter(|known| known.job == share.job);
            let (charged, waited) =
                known.map_or((Nanos::ZERO, Nanos::ZERO), |known| (known.charged, known.backlogged));
            let used = part(share.charged.saturating_since(charged)).min(1.0);
            (share.job.0 as usize, used, part(share.backlogged.saturating_since(waited)))
        })
        .collect();
    let is_short = demands.iter().any(|&(_, _, waited)| waited >= SHORT);
    for (job, used, waited) in demands {
        if let Some(wanted) = demand(is_short, used, waited) {
            tell(job, wanted);
        }
    }
}
