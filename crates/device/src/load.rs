//! The load of a device: its use, and the time that its queue takes.

use weir_fairshare::Nanos;

use crate::device::Device;

/// Part of the averaged backlog that is that of the last interval: bursts of one exchange hardly count.
const BACKLOG_PART: f64 = 0.1;

/// The load of one device, as of the last interval between two exchanges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    busy_before: Nanos,
    served_before: u64,
    /// Part of the interval in which the device worked.
    pub ratio: f64,
    /// Mean device time of a request, in the last interval in which one was served.
    pub latency_seconds: f64,
    /// Time needed for the requests that wait, averaged over the last intervals.
    pub backlog_seconds: f64,
}

impl Load {
    /// Looks at the device at the end of an interval.
    pub fn look(&mut self, device: &Device, interval: Nanos) {
        let (busy, served) = (device.busy(), device.served());
        let worked_seconds = seconds(busy.saturating_since(self.busy_before));
        self.ratio = (worked_seconds / seconds(interval)).min(1.0);
        if served > self.served_before {
            self.latency_seconds = worked_seconds / (served - self.served_before) as f64;
        }
        let backlog = device.queued() as f64 * self.latency_seconds;
        self.backlog_seconds += BACKLOG_PART * (backlog - self.backlog_seconds);
        (self.busy_before, self.served_before) = (busy, served);
    }
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}
