//! The worth of a fair share in one scheduler: the requests of a flood that are served before those of a job beside it.

use crate::jobs::job;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_fairshare::{scheduler, JobId, Nanos, Settings, Sharing, Token};

const VICTIM: JobId = JobId(1);
const FLOOD: JobId = JobId(2);

/// A victim that has some requests at a time, beside a flood that always has some.
#[derive(Clone, Debug)]
struct Meeting {
    victim_nodes: u32,
    victim_cost: u64,
    /// Requests of the victim at a time, and the moments between the end of one and the next, in turn.
    depth: u64,
    pauses: Vec<u64>,
    flood_nodes: u32,
    flood_cost: u64,
    flood_requests: u64,
}

impl Meeting {
    /// Whether the victim is owed at least its part of the work that is queued in the order of arrival.
    fn is_owed_its_part(&self) -> bool {
        let share = f64::from(self.victim_nodes) / f64::from(self.victim_nodes + self.flood_nodes);
        let queued = [self.depth * self.victim_cost, self.flood_requests * self.flood_cost];
        share >= queued[0] as f64 / (queued[0] + queued[1]) as f64
    }

    /// The requests of the flood that began while a request of the victim was queued, and the waits.
    fn served_before(&self, policy: &str) -> (u64, u64) {
        let mut scheduler = scheduler(&Sharing::of(policy.parse().unwrap()), Settings::default());
        scheduler.upsert_job(job(VICTIM.0, self.victim_nodes), Nanos::ZERO);
        scheduler.upsert_job(job(FLOOD.0, self.flood_nodes), Nanos::ZERO);
        let costs = BTreeMap::from([(VICTIM, Nanos(self.victim_cost)), (FLOOD, Nanos(self.flood_cost))]);
        for token in 0..self.flood_requests {
            scheduler.enqueue(FLOOD, Token(token), costs[&FLOOD], Nanos::ZERO).unwrap();
        }
        let mut pauses = self.pauses.iter();
        let mut coming: Vec<Nanos> =
            pauses.by_ref().take(self.depth as usize).map(|&pause| Nanos(pause)).collect();
        let (mut now, mut queued, mut before) = (Nanos::ZERO, 0_u64, 0_u64);
        while queued > 0 || !coming.is_empty() {
            let came = coming.iter().filter(|&&at| at <= now).count() as u64;
            coming.retain(|&at| at > now);
            (0..came).for_each(|_| scheduler.enqueue(VICTIM, Token(0), costs[&VICTIM], now).unwrap());
            queued += came;
            let served = scheduler.dispatch(now).expect("the flood always has requests");
            now = now + served.cost;
            scheduler.complete(served.job, served.cost, served.cost, now);
            if served.job == VICTIM {
                queued -= 1;
                coming.extend(pauses.next().map(|&pause| now + Nanos(pause)));
            } else {
                before += queued.min(1);
                scheduler.enqueue(FLOOD, Token(0), costs[&FLOOD], now).unwrap();
            }
        }
        (before, self.pauses.len() as u64)
    }
}

proptest! {
    /// In the order of arrival, too, a job's requests wait for those of the flood that came before; by its share they wait for
    /// no more, beyond one request a wait.
    #[test]
    fn no_job_waits_for_more_of_a_flood_by_its_share_than_in_the_order_of_arrival(
        (victim_nodes, victim_cost, depth) in (1_u32..9, 50_000_u64..4_000_000, 1_u64..9),
        (flood_nodes, flood_cost, flood_requests) in (1_u32..9, 50_000_u64..4_000_000, 1_u64..64),
        pauses in prop::collection::vec(0_u64..6_000_000, 20..120),
    ) {
        let meeting =
            Meeting { victim_nodes, victim_cost, depth, pauses, flood_nodes, flood_cost, flood_requests };
        prop_assume!(meeting.is_owed_its_part());
        let (fifo, _) = meeting.served_before("fifo");
        let (fair, waits) = meeting.served_before("size-fair");
        prop_assert!(fair <= fifo + waits + 1, "{fair} under size-fair, {fifo} under fifo: {meeting:?}");
    }
}
