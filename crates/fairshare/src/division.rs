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
use std::ops::Range;

use crate::claims::Claims;
use crate::job::{JobAttributes, JobId};
use crate::schedulers::Portions;
use crate::sharing::Sharing;

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
    let shares = settled.shares();
    Division { portions: settled.spending().portions_on(0..devices), shares }
}

/// The [`Division::shares`] alone, for those who need no portions.
pub fn shares(sharing: &Sharing, jobs: &[Presence], devices: usize) -> Vec<f64> {
    Settled::of(sharing, jobs, devices).shares()
}

/// The market after its last round.
pub(crate) struct Settled<'a> {
    jobs: &'a [Presence],
    claims: Claims,
    owed: Vec<f64>,
    market: Market,
}

impl Settled<'_> {
    pub(crate) fn of<'a>(sharing: &Sharing, jobs: &'a [Presence], devices: usize) -> Settled<'a> {
        let claims = Claims::of(jobs.iter().map(|job| sharing.path(&job.attributes, &[])));
        let owed = claims.owed();
        let mut market = Market::new(jobs, &owed, devices);
        market.settle();
        Settled { jobs, claims, owed, market }
    }

    fn shares(&self) -> Vec<f64> {
        let yields = self.market.yields();
        (0..self.jobs.len()).map(|job| self.market.share_of(job, self.owed[job], &yields)).collect()
    }

    /// The money that jobs spend on devices.
    pub(crate) fn spending(self) -> Spending {
        let Settled { jobs, claims, owed, market } = self;
        let mut money = vec![0.0; claims.nodes()];
        let mut on = vec![Vec::new(); market.rest.len()];
        for (job, presence) in jobs.iter().enumerate() {
            claims.upwards(job).for_each(|node| money[node] += owed[job]);
            for usage in &presence.uses {
                on[usage.device].push((job, market.spent(job, usage, owed[job])));
            }
        }
        Spending { jobs: jobs.iter().map(|job| job.attributes.job).collect(), claims, money, on }
    }
}

/// The money that jobs spend on devices, for the portions of any device.
#[derive(Clone, Debug)]
pub(crate) struct Spending {
    jobs: Vec<JobId>,
    claims: Claims,
    /// The money of all jobs below each node of their claims.
    money: Vec<f64>,
    /// For each device, the jobs that use it, ascending, and what they spend there.
    on: Vec<Vec<(usize, f64)>>,
}

impl Spending {
    /// The portion of each node's weight that counts on each of the devices: what is spent there below the node, of all
    /// the money below it.
    pub(crate) fn portions_on(&self, devices: impl Iterator<Item = usize>) -> Vec<Portions> {
        let mut here = vec![0.0; self.money.len()];
        devices.map(|device| self.portions(&self.on[device], &mut here)).collect()
    }

    /// `here` has room for each node, and is zero before and after.
    fn portions(&self, spent: &[(usize, f64)], here: &mut [f64]) -> Portions {
        for &(job, spent) in spent {
            self.claims.upwards(job).for_each(|node| here[node] += spent);
        }
        let portions_of = |&(job, _): &(usize, f64)| {
            let portion = |node: usize| (here[node] / self.money[node]).min(1.0);
            let mut portions: Vec<f64> = self.claims.upwards(job).map(portion).collect();
            portions.reverse();
            (self.jobs[job], portions)
        };
        let portions = spent.iter().map(portions_of).collect();
        for &(job, _) in spent {
            self.claims.upwards(job).for_each(|node| here[node] = 0.0);
        }
        portions
    }
}

/// Jobs that want all of the same devices, and nothing else, act as one buyer.
struct Market {
    /// The buyer of each job.
    buyer_of_job: Vec<usize>,
    buyers: Vec<Buyer>,
    /// The bids of all buyers, one buyer after the other, each buyer's by ascending device.
    bids: Vec<Bid>,
    /// The rest of each device, for jobs that want all they can get.
    rest: Vec<f64>,
}

struct Buyer {
    money: f64,
    /// Time that it has beside what it buys.
    own: f64,
    /// The money that it spends on its own time.
    own_bid: f64,
    /// Its place among the bids.
    bids: Range<usize>,
}

/// The money that a buyer spends on a device that it wants all of.
struct Bid {
    device: usize,
    money: f64,
}

impl Market {
    fn new(jobs: &[Presence], owed: &[f64], devices: usize) -> Market {
        let mut rest = vec![1.0; devices];
        for usage in jobs.iter().flat_map(|job| &job.uses) {
            rest[usage.device] -= usage.wanted.unwrap_or(0.0);
        }
        rest.iter_mut().for_each(|rest| *rest = rest.max(REST_MIN));
        let mut market = Market {
            buyer_of_job: Vec::with_capacity(jobs.len()),
            buyers: Vec::new(),
            bids: Vec::new(),
            rest,
        };
        let mut alike: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut all_of = Vec::new();
        for (job, &money) in jobs.iter().zip(owed) {
            let own: f64 = job.uses.iter().filter_map(|usage| usage.wanted).sum();
            let wants_all = |usage: &Use| usage.wanted.is_none().then_some(usage.device);
            all_of.clear();
            all_of.extend(job.uses.iter().filter_map(wants_all));
            all_of.sort_unstable();
            let known = if own == 0.0 { alike.get(&all_of).copied() } else { None };
            let buyer = known.unwrap_or(market.buyers.len());
            market.buyer_of_job.push(buyer);
            if known.is_some() {
                market.buyers[buyer].money += money;
                continue;
            }
            if own == 0.0 {
                alike.insert(all_of.clone(), buyer);
            }
            let first = market.bids.len();
            market.bids.extend(all_of.iter().map(|&device| Bid { device, money: 0.0 }));
            market.buyers.push(Buyer { money, own, own_bid: 0.0, bids: first..market.bids.len() });
        }
        market.begin();
        market
    }

    /// Each buyer spends the same on all that it wants.
    fn begin(&mut self) {
        for buyer in &mut self.buyers {
            let parts = buyer.bids.len() as f64 + f64::from(u8::from(buyer.own > 0.0));
            self.bids[buyer.bids.clone()].iter_mut().for_each(|bid| bid.money = buyer.money / parts);
            buyer.own_bid = if buyer.own > 0.0 { buyer.money / parts } else { 0.0 };
        }
    }

    /// Lets all jobs spend anew in proportion to their gains, until nothing changes.
    fn settle(&mut self) {
        let mut yields = self.yields();
        let mut spent = vec![0.0; self.rest.len()];
        for _ in 0..ROUNDS_MAX {
            spent.fill(0.0);
            if self.spend(&yields, &mut spent) {
                return;
            }
            for ((yielded, rest), spent) in yields.iter_mut().zip(&self.rest).zip(&spent) {
                *yielded = rest / spent;
            }
        }
    }

    /// Lets each buyer spend in proportion to what its bids gained, and adds all money by device to `spent`. Answers whether
    /// nobody's spending moved.
    fn spend(&mut self, yields: &[f64], spent: &mut [f64]) -> bool {
        let mut is_settled = true;
        for buyer in &mut self.buyers {
            let bids = &mut self.bids[buyer.bids.clone()];
            let bought: f64 = bids.iter().map(|bid| bid.money * yields[bid.device]).sum();
            let price = buyer.money / (buyer.own + bought).max(f64::MIN_POSITIVE);
            for bid in bids {
                let next = bid.money * yields[bid.device] * price;
                is_settled &= (next - bid.money).abs() < SETTLED * buyer.money;
                bid.money = next;
                spent[bid.device] += next;
            }
            buyer.own_bid = if buyer.own > 0.0 { price * buyer.own } else { 0.0 };
        }
        is_settled
    }

    /// The time that one unit of money buys on each device.
    fn yields(&self) -> Vec<f64> {
        let mut spent = vec![0.0; self.rest.len()];
        for bid in &self.bids {
            spent[bid.device] += bid.money;
        }
        self.rest.iter().zip(spent).map(|(rest, spent)| rest / spent).collect()
    }

    fn bids_of(&self, buyer: &Buyer) -> &[Bid] {
        &self.bids[buyer.bids.clone()]
    }

    /// The money that a job, which is owed so much, spends on one of its uses.
    fn spent(&self, job: usize, usage: &Use, owed: f64) -> f64 {
        let buyer = &self.buyers[self.buyer_of_job[job]];
        let spent = match usage.wanted {
            Some(wanted) => buyer.own_bid * wanted / buyer.own.max(f64::MIN_POSITIVE),
            None => {
                let bids = self.bids_of(buyer);
                let place = bids.binary_search_by_key(&usage.device, |bid| bid.device);
                owed / buyer.money * place.map_or(0.0, |place| bids[place].money)
            }
        };
        spent.max(PORTION_MIN * owed)
    }

    fn share_of(&self, job: usize, owed: f64, yields: &[f64]) -> f64 {
        let buyer = &self.buyers[self.buyer_of_job[job]];
        let bought: f64 = self.bids_of(buyer).iter().map(|bid| bid.money * yields[bid.device]).sum();
        (buyer.own + bought) * owed / buyer.money
    }
}

#[cfg(test)]
mod tests;
