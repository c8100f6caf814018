//! Global fairness: the share of each job on each device with which its time over all devices is the time that the
//! policy owes it.
//!
//! A policy owes jobs fractions of all devices' time together, but a job can only use the devices of its files. The
//! division nearest to the policy is the weighted max-min fair one: no job gets more where another job with less for
//! its weight could use it. This division is the equilibrium of a market. The weight of a job is money that the job
//! spends on devices. The time of a device is divided in proportion to the money spent on it. Each job spends anew in
//! proportion to the time that it got from each device ("proportional response", Wu and Zhang, STOC 2007; convergence:
//! Birnbaum, Devanur and Xiao, EC 2011). Where nothing but devices limits the jobs, this is ThemisIO's rule (SC'23,
//! section 3.1: a job on two servers counts half on each). It is also right where that rule is not.
//!
//! A job that wants less than its part of a device gets the time that it uses there before the rest is divided. For the
//! market this time is a device of the job's own.

use std::collections::HashMap;

use crate::job::JobAttributes;
use crate::policy::Entity;
use crate::schedulers::Portions;
use crate::sharing::{owed_of_paths, Branch, Sharing};

/// Rounds of spending, at most. The error falls at least as one over their number, and by a constant
/// factor each where devices differ in price.
const ROUNDS_MAX: usize = 400;
/// Spending that moves by less than this part of a job's money is settled.
const SETTLED: f64 = 1e-5;
/// The least portion of its weight that a job keeps on a device that it uses: its present use is no promise that it
/// will not want more.
const PORTION_MIN: f64 = 0.01;
/// Time of a device that is always left to divide.
const REST_MIN: f64 = 0.01;

/// A job that is active somewhere, and its use of each device.
#[derive(Clone, Debug, PartialEq)]
pub struct Presence {
    /// The job.
    pub attributes: JobAttributes,
    /// The devices it uses, each once.
    pub uses: Vec<Use>,
}

/// A job on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// The device's number, below the number of devices.
    pub device: usize,
    /// The fraction of the device's time it wants, 0 to 1; `None`: as much as it can get.
    pub wanted: Option<f64>,
}

/// The division of all devices among the jobs active on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Division {
    /// For each device, the portions of their weights that its jobs spend there.
    pub portions: Vec<Portions>,
    /// For each job, in the order given, the device time it can have, in devices: 1.5 is all of one
    /// and half of another.
    pub shares: Vec<f64>,
}

/// Divides `devices` devices among `jobs`.
pub fn divide(sharing: &Sharing, jobs: &[Presence], devices: usize) -> Division {
    let settled = Settled::of(sharing, jobs, devices);
    let spent = settled.market.spent_by_job(jobs, &settled.owed);
    let portions = (0..devices).map(|device| settled.portions_on(device, jobs, &spent)).collect();
    Division { portions, shares: settled.shares(jobs) }
}

/// The [`Division::shares`] alone, for those who need no portions.
pub fn shares(sharing: &Sharing, jobs: &[Presence], devices: usize) -> Vec<f64> {
    Settled::of(sharing, jobs, devices).shares(jobs)
}

/// The [`Division::portions`] of the devices in `own` alone, in their order: those of the others cost as much each.
pub(crate) fn portions_of(
    sharing: &Sharing,
    jobs: &[Presence],
    devices: usize,
    own: &[usize],
) -> Vec<Portions> {
    let settled = Settled::of(sharing, jobs, devices);
    let spent = settled.market.spent_by_job(jobs, &settled.owed);
    own.iter().map(|&device| settled.portions_on(device, jobs, &spent)).collect()
}

/// The market after its last round.
struct Settled {
    paths: Vec<Vec<Branch>>,
    owed: Vec<f64>,
    market: Market,
}

impl Settled {
    fn of(sharing: &Sharing, jobs: &[Presence], devices: usize) -> Settled {
        let paths: Vec<Vec<Branch>> = jobs.iter().map(|job| sharing.path(&job.attributes, &[])).collect();
        let owed = owed_of_paths(&paths);
        let mut market = Market::new(jobs, &owed, devices);
        market.settle();
        Settled { paths, owed, market }
    }

    fn shares(&self, jobs: &[Presence]) -> Vec<f64> {
        let prices = self.market.prices();
        (0..jobs.len()).map(|job| self.market.share_of(job, &self.owed, &prices)).collect()
    }

    fn portions_on(&self, device: usize, jobs: &[Presence], spent: &[Vec<f64>]) -> Portions {
        portions_on(device, &self.paths, &self.owed, jobs, spent)
    }
}

/// Jobs that want all of the same devices, and nothing else, act as one buyer.
struct Market {
    /// The buyer of each job.
    buyer_of_job: Vec<usize>,
    buyers: Vec<Buyer>,
    /// The rest of each device, for jobs that want all they can get.
    rest: Vec<f64>,
}

struct Buyer {
    money: f64,
    /// Time that it has beside what it buys.
    own: f64,
    /// The money that the job spends on each device that it wants all of.
    bids: Vec<(usize, f64)>,
    /// The money that the job spends on its own time.
    own_bid: f64,
}

impl Market {
    fn new(jobs: &[Presence], owed: &[f64], devices: usize) -> Market {
        let mut rest = vec![1.0; devices];
        for usage in jobs.iter().flat_map(|job| &job.uses) {
            rest[usage.device] -= usage.wanted.unwrap_or(0.0);
        }
        rest.iter_mut().for_each(|rest| *rest = rest.max(REST_MIN));
        let mut buyers: Vec<Buyer> = Vec::new();
        let mut alike: HashMap<Vec<usize>, usize> = HashMap::new();
        let buyer = |(job, &money): (&Presence, &f64)| {
            let own: f64 = job.uses.iter().filter_map(|usage| usage.wanted).sum();
            let wants_all = |usage: &Use| usage.wanted.is_none().then_some(usage.device);
            let mut all_of: Vec<usize> = job.uses.iter().filter_map(wants_all).collect();
            all_of.sort_unstable();
            if own == 0.0 {
                if let Some(&buyer) = alike.get(&all_of) {
                    buyers[buyer].money += money;
                    return buyer;
                }
                alike.insert(all_of.clone(), buyers.len());
            }
            let bids = all_of.into_iter().map(|device| (device, 0.0)).collect();
            buyers.push(Buyer { money, own, bids, own_bid: 0.0 });
            buyers.len() - 1
        };
        let buyer_of_job = jobs.iter().zip(owed).map(buyer).collect();
        for buyer in &mut buyers {
            let parts = buyer.bids.len() as f64 + f64::from(u8::from(buyer.own > 0.0));
            buyer.bids.iter_mut().for_each(|(_, bid)| *bid = buyer.money / parts);
            buyer.own_bid = if buyer.own > 0.0 { buyer.money / parts } else { 0.0 };
        }
        Market { buyer_of_job, buyers, rest }
    }

    /// Lets all jobs spend anew in proportion to their gains, until nothing changes.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let prices = self.prices();
            let mut moved: f64 = 0.0;
            for buyer in &mut self.buyers {
                let got: f64 =
                    buyer.own + buyer.bids.iter().map(|&(device, bid)| bid / prices[device]).sum::<f64>();
                for (device, bid) in &mut buyer.bids {
                    let next = buyer.money * (*bid / prices[*device]) / got;
                    moved = moved.max((next - *bid).abs() / buyer.money);
                    *bid = next;
                }
                buyer.own_bid = buyer.money * buyer.own / got.max(f64::MIN_POSITIVE);
            }
            if moved < SETTLED {
                return;
            }
        }
    }

    /// Money for the whole of each device's rest.
    fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.rest.len()];
        for &(device, bid) in self.buyers.iter().flat_map(|buyer| &buyer.bids) {
            prices[device] += bid / self.rest[device];
        }
        prices
    }

    /// The money that each job spends on each of its uses, in their order.
    fn spent_by_job(&self, jobs: &[Presence], owed: &[f64]) -> Vec<Vec<f64>> {
        let spent = |(job, presence): (usize, &Presence)| {
            let buyer = &self.buyers[self.buyer_of_job[job]];
            let part = owed[job] / buyer.money;
            let on = |usage: &Use| match usage.wanted {
                Some(wanted) => buyer.own_bid * wanted / buyer.own.max(f64::MIN_POSITIVE),
                None => {
                    let bid = buyer.bids.iter().find(|(device, _)| *device == usage.device);
                    part * bid.map_or(0.0, |&(_, bid)| bid)
                }
            };
            presence.uses.iter().map(|usage| on(usage).max(PORTION_MIN * owed[job])).collect()
        };
        jobs.iter().enumerate().map(spent).collect()
    }

    fn share_of(&self, job: usize, owed: &[f64], prices: &[f64]) -> f64 {
        let buyer = &self.buyers[self.buyer_of_job[job]];
        let bought: f64 = buyer.bids.iter().map(|&(device, bid)| bid / prices[device]).sum();
        (buyer.own + bought) * owed[job] / buyer.money
    }
}

/// The portion of each node's weight that counts on `device`: what is spent there below it, of all
/// the money below it.
fn portions_on(
    device: usize,
    paths: &[Vec<Branch>],
    owed: &[f64],
    jobs: &[Presence],
    spent: &[Vec<f64>],
) -> Portions {
    let mut money: HashMap<Vec<Entity>, (f64, f64)> = HashMap::new();
    let prefix = |path: &[Branch], depth: usize| -> Vec<Entity> {
        path[..=depth].iter().map(|branch| branch.entity).collect()
    };
    let spent_here = |job: usize| {
        let place = jobs[job].uses.iter().position(|usage| usage.device == device);
        place.map(|place| spent[job][place])
    };
    for (job, path) in paths.iter().enumerate() {
        for depth in 0..path.len() {
            let (here, all) = money.entry(prefix(path, depth)).or_default();
            *here += spent_here(job).unwrap_or(0.0);
            *all += owed[job];
        }
    }
    let of_job = |(job, path): (usize, &Vec<Branch>)| {
        spent_here(job)?;
        let portion = |depth: usize| {
            let (here, all) = money[&prefix(path, depth)];
            (here / all).min(1.0)
        };
        Some((jobs[job].attributes.job, (0..path.len()).map(portion).collect()))
    };
    paths.iter().enumerate().filter_map(of_job).collect()
}

#[cfg(test)]
mod tests;
