//! A job's account with one device: the time that it received, and the share that it is owed.

use crate::accounts::observed::Observed;
use crate::clock::seconds;
use serde::Serialize;
use std::collections::HashMap;
use weir_fairshare::{JobShare, Nanos};
use weir_wire::JobId;

/// A share that moves by no more than this is the same share: half a point.
const STEADY_SHARE: f64 = 0.005;

/// A job's account with one device.
#[derive(Debug, Default)]
pub(crate) struct DeviceAccount {
    device: usize,
    spent: Nanos,
    /// Share that the policy owed it when the device was accounted at `owed_at`; none where the policy owes nobody anything.
    owed: Option<f64>,
    owed_at: Nanos,
    /// The share from which it has not moved away by `STEADY_SHARE` since `steady_since`.
    steady: Option<f64>,
    steady_since: Nanos,
    /// Time with requests queued there, as of the same moment.
    backlogged: Nanos,
    /// The job's work there in the window that is open; none where there was none.
    observed: Option<Box<Observed>>,
}

/// The work of a device between two moments.
pub(crate) struct Interval<'a> {
    pub(crate) began: Nanos,
    pub(crate) ended: Nanos,
    /// The device's accounts at its end.
    pub(crate) shares: &'a [JobShare],
    /// Device time that each job received.
    pub(crate) received: &'a HashMap<JobId, Nanos>,
}

/// The name of a device, and the last moment at which it was accounted.
pub(crate) struct Accounted {
    pub(crate) device: String,
    pub(crate) at: Nanos,
}

/// A job's account with one device.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeviceLine {
    pub(crate) device: String,
    /// Share of its time that the policy owes the job now: 0 while the job is not active there, and none where the policy
    /// owes nobody anything.
    pub(crate) share_owed: Option<f64>,
    /// Time for which the policy has owed it this share, give or take `STEADY_SHARE`.
    pub(crate) share_owed_for_seconds: f64,
    pub(crate) device_seconds: f64,
}

impl DeviceAccount {
    /// An account with nothing on it.
    pub(crate) fn new(device: usize) -> DeviceAccount {
        DeviceAccount { device, ..DeviceAccount::default() }
    }

    /// Takes over the device's own account, and answers the part of the interval in which the job had requests
    /// queued there.
    pub(crate) fn note(&mut self, share: &JobShare, interval: &Interval<'_>) -> f64 {
        let queued = share.backlogged.saturating_since(self.backlogged);
        self.backlogged = share.backlogged;
        let is_steady = match (share.owed, self.steady) {
            (Some(owed), Some(steady)) => (owed - steady).abs() <= STEADY_SHARE,
            (owed, steady) => owed == steady,
        };
        let was_active_until_now = self.owed_at == interval.began;
        if !(was_active_until_now && is_steady) {
            (self.steady, self.steady_since) = (share.owed, interval.ended);
        }
        (self.owed, self.owed_at) = (share.owed, interval.ended);
        let length = interval.ended.saturating_since(interval.began);
        if length == Nanos::ZERO {
            return 0.0;
        }
        (queued.0 as f64 / length.0 as f64).min(1.0)
    }

    /// The account as it is shown. `accounted` tells of each device.
    pub(crate) fn line(&self, accounted: &[Accounted]) -> DeviceLine {
        let device = accounted.get(self.device);
        let is_current = device.is_some_and(|device| device.at == self.owed_at);
        let (owed, since) = match is_current {
            true => (self.owed, self.steady_since),
            false => (self.owed.map(|_| 0.0), self.owed_at),
        };
        DeviceLine {
            device: device.map_or_else(String::new, |device| device.device.clone()),
            share_owed: owed,
            share_owed_for_seconds: device.map_or(0.0, |device| seconds(device.at.saturating_since(since))),
            device_seconds: seconds(self.spent),
        }
    }

    /// The number of the device.
    pub(crate) fn device(&self) -> usize {
        self.device
    }

    /// The number of the metadata device grew to this one.
    pub(crate) fn renumber_metadata(&mut self, metadata: usize) {
        if self.device + 1 == metadata {
            self.device = metadata;
        }
    }

    /// The device has worked for the job.
    pub(crate) fn spend(&mut self, actual: Nanos) {
        self.spent = self.spent + actual;
        self.observed().spend(actual);
    }

    /// The job's work there in the window that is open.
    pub(crate) fn observed(&mut self) -> &mut Observed {
        self.observed.get_or_insert_default()
    }

    /// Takes the job's work in the window that ends.
    pub(crate) fn take_observed(&mut self) -> Option<Observed> {
        self.observed.take().map(|observed| *observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// Notes the owed shares of one job in intervals that end at so many milliseconds; answers its line after the last.
    fn line_after(account: &mut DeviceAccount, notes: &[(u64, u64, f64)]) -> DeviceLine {
        for &(began, ended, owed) in notes {
            let (began, ended) = (Nanos(began * MILLI), Nanos(ended * MILLI));
            let (charged, backlogged) = (Nanos::ZERO, Nanos::ZERO);
            let owed = Some(owed);
            let share = JobShare { job: JobId(1), owed, active: true, queued: 1, charged, backlogged };
            account.note(&share, &Interval { began, ended, shares: &[], received: &HashMap::new() });
        }
        account.line(&[Accounted { device: "0.0".into(), at: account.owed_at }])
    }

    #[test]
    fn a_share_is_owed_since_it_last_moved() {
        let mut account = DeviceAccount::new(0);
        let first = line_after(&mut account, &[(0, 1, 0.5), (1, 2, 0.502), (2, 4, 0.5)]);
        assert_eq!((first.share_owed, first.share_owed_for_seconds), (Some(0.5), 0.003));
        let moved = line_after(&mut account, &[(4, 5, 0.7), (5, 9, 0.7)]);
        assert_eq!((moved.share_owed, moved.share_owed_for_seconds), (Some(0.7), 0.004));
    }

    #[test]
    fn a_share_that_creeps_is_another_one_after_half_a_point() {
        let mut account = DeviceAccount::new(0);
        let notes: Vec<_> = (0..10).map(|step| (step, step + 1, 0.5 + 0.002 * step as f64)).collect();
        assert!(line_after(&mut account, &notes).share_owed_for_seconds <= 0.002);
    }

    #[test]
    fn a_job_that_was_away_is_owed_its_share_since_it_came_back() {
        let mut account = DeviceAccount::new(0);
        let back = line_after(&mut account, &[(0, 1, 0.5), (3, 4, 0.5), (4, 6, 0.5)]);
        assert_eq!(back.share_owed_for_seconds, 0.002);
        let away = account.line(&[Accounted { device: "0.0".into(), at: Nanos(7 * MILLI) }]);
        assert_eq!((away.share_owed, away.share_owed_for_seconds), (Some(0.0), 0.001));
    }
}
