//! A device of a simulated server: the product's own `Device`, and the request that it serves.
//!
//! A target's speed depends on its pace, which is that of faults and of its bytes in use, and on the streams that it serves
//! at once. The device emulates the speed of the moment, which is set before each request that it begins.

use crate::algorithms::ChooserMaker;
use crate::core::time::nanos;
use crate::topology::{Target, Transfer};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use weir_device::{Device, UnderWay, Work};
use weir_fairshare::{DeviceSpeed, Dispatch, JobAttributes, Nanos, Sharing, TransferSpeed};

/// Least part of a target's rate: below it a request would outlast every run.
const RATE_PART_MIN: f64 = 1e-6;

/// A request as its device sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) work: Work,
    pub(super) arrived: Nanos,
    pub(super) stream: u32,
}

/// The next thing that a station does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It ends the request that it just began.
    Finish {
        /// The request.
        token: u64,
        /// The moment.
        at: Nanos,
    },
    /// A withheld request may be served.
    Release(Nanos),
}

/// A device and its request in service.
pub(super) struct Station {
    pub(super) device: Device,
    nature: Nature,
    serving: Option<Serving>,
    /// The moment for which [`Next::Release`] was last told.
    release: Option<Nanos>,
}

struct Serving {
    dispatch: Dispatch,
    asked: Asked,
    finish: Nanos,
}

/// The figures by which a target's speed follows from its state.
struct Nature {
    read: Transfer,
    write: Transfer,
    seek_penalty: f64,
    seek_floor: f64,
    /// The part of its rate at which the device works now.
    set: f64,
    /// Requests here by stream, where concurrency counts.
    streams: BTreeMap<u32, u32>,
}

impl Station {
    /// A target, with the dice of its scheduler; `make` makes a chooser of these dice, in the scheduler's place.
    pub(super) fn target(
        target: &Target,
        sharing: &Sharing,
        make: Option<&ChooserMaker>,
        seed: u64,
    ) -> Station {
        let nature = Nature {
            read: target.read,
            write: target.write,
            seek_penalty: target.seek_penalty,
            seek_floor: target.seek_floor,
            set: 1.0,
            streams: BTreeMap::new(),
        };
        let speed = Some(nature.speed(1.0));
        let device = match make {
            Some(make) => Device::chosen_by(make(seed), sharing, speed),
            None => Device::new(sharing, speed, seed),
        };
        Station { device, nature, serving: None, release: None }
    }

    /// The metadata service of a server, each of whose operations takes so long.
    pub(super) fn metadata(
        seconds: f64,
        sharing: &Sharing,
        make: Option<&ChooserMaker>,
        seed: u64,
    ) -> Station {
        let transfer = Transfer { bytes_per_second: f64::INFINITY, fixed_seconds: seconds };
        let target = Target::plain(0, transfer);
        Station::target(&target, sharing, make, seed)
    }

    /// Queues a request.
    pub(super) fn enqueue(&mut self, job: JobAttributes, token: u64, asked: Asked) {
        if self.nature.seek_penalty > 0.0 {
            *self.nature.streams.entry(asked.stream).or_default() += 1;
        }
        let is_queued = self.device.enqueue(job, token, asked.work, asked.arrived);
        debug_assert!(is_queued, "a device refuses no request");
    }

    /// Begins the next request if it can, at `pace`, the part of its rate that its state leaves; `asked` tells of a request
    /// by its token. The answer is to be told back at its moment: by [`Station::finish`], or by another call.
    #[inline]
    pub(super) fn serve(&mut self, now: Nanos, pace: f64, asked: impl Fn(u64) -> Asked) -> Option<Next> {
        if self.serving.is_some() {
            return None;
        }
        let part = (pace * self.nature.concurrency()).max(RATE_PART_MIN);
        if part != self.nature.set {
            self.nature.set = part;
            self.device.set_speed(Some(self.nature.speed(part)));
        }
        let Some(dispatch) = self.device.dispatch(now) else {
            let release = self.device.next_release().filter(|release| self.release != Some(*release))?;
            self.release = Some(release);
            return Some(Next::Release(release));
        };
        let asked = asked(dispatch.token.0);
        let finish = self.device.emulate(&dispatch, asked.work, asked.arrived).unwrap_or(now);
        let token = dispatch.token.0;
        self.serving = Some(Serving { dispatch, asked, finish });
        Some(Next::Finish { token, at: finish })
    }

    /// Ends the request in service, and answers its token and its charge.
    #[inline]
    pub(super) fn finish(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
        let token = self.device.finished(now)?;
        let Serving { dispatch, asked, .. } = self.serving.take()?;
        debug_assert_eq!(token, dispatch.token.0);
        if self.nature.seek_penalty > 0.0 {
            self.nature.forget(asked.stream);
        }
        Some((token, self.device.complete(&dispatch, asked.work, (Nanos::ZERO, None), now)))
    }

    /// Notes that a release which was told has come.
    pub(super) fn released(&mut self, now: Nanos) {
        if self.release.is_some_and(|release| release <= now) {
            self.release = None;
        }
    }

    /// The rates that it achieves, the request in service among them.
    pub(super) fn present_rates(&self, now: Nanos) -> Vec<(u8, f32)> {
        let under_way = self.serving.as_ref().map(|Serving { asked, finish, .. }| UnderWay {
            direction: asked.work.direction,
            bytes: asked.work.bytes,
            service: self.device.served_of(asked.work, *finish, now),
        });
        self.device.rates().present(under_way.into_iter())
    }
}

impl Nature {
    /// The part of its rate that concurrency leaves.
    fn concurrency(&self) -> f64 {
        let more = self.streams.len().saturating_sub(1);
        if more == 0 {
            return 1.0;
        }
        (1.0 / (1.0 + self.seek_penalty * more as f64)).max(self.seek_floor)
    }

    fn forget(&mut self, stream: u32) {
        if let Some(requests) = self.streams.get_mut(&stream) {
            *requests -= 1;
            if *requests == 0 {
                self.streams.remove(&stream);
            }
        }
    }

    /// The speed at a part of its rate.
    fn speed(&self, part: f64) -> DeviceSpeed {
        let speed = |transfer: Transfer| TransferSpeed {
            fixed: nanos(transfer.fixed_seconds / part),
            bytes_per_second: NonZeroU64::new((transfer.bytes_per_second * part).round() as u64)
                .unwrap_or(NonZeroU64::MIN),
        };
        DeviceSpeed { read: speed(self.read), write: speed(self.write) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_fairshare::Direction;

    const MEGABYTE: Work = Work { direction: Direction::Write, bytes: 1_000_000 };

    fn station(seek_penalty: f64, seek_floor: f64) -> Station {
        let transfer = Transfer { bytes_per_second: 1e9, fixed_seconds: 0.0 };
        let target = Target { seek_penalty, seek_floor, ..Target::plain(1, transfer) };
        Station::target(&target, &Sharing::of("job-fair".parse().expect("a policy")), None, 0)
    }

    /// Queues a request of each stream at once; answers how long each takes, to the nearest microsecond.
    fn times(station: &mut Station, streams: &[u32], pace: f64) -> Vec<u64> {
        let asked = |stream| Asked { work: MEGABYTE, arrived: Nanos::ZERO, stream };
        for (token, &stream) in (0..).zip(streams) {
            station.enqueue(weir_testing::job(1, 1, 1, 1), token, asked(stream));
        }
        let mut now = Nanos::ZERO;
        let serve = |_: &u32| {
            let next = station.serve(now, pace, |token| asked(streams[token as usize]));
            let Some(Next::Finish { at: finish, .. }) = next else { panic!("it serves: {next:?}") };
            assert_eq!(station.serve(now, pace, |_| unreachable!()), None, "one request at a time");
            let (_, charge) = station.finish(finish).expect("an end");
            assert_eq!(charge, finish.saturating_since(now));
            now = finish;
            (charge.0 + 500) / 1_000
        };
        streams.iter().map(serve).collect()
    }

    #[test]
    fn a_target_seeks_between_the_streams_that_it_serves_at_once() {
        assert_eq!(times(&mut station(0.5, 0.1), &[1, 2, 1], 1.0), [1_500, 1_500, 1_000]);
        assert_eq!(times(&mut station(0.5, 0.8), &[1, 2], 1.0), [1_250, 1_000]);
        assert_eq!(times(&mut station(0.0, 1.0), &[1, 2], 1.0), [1_000, 1_000]);
    }

    #[test]
    fn a_request_takes_the_pace_at_its_begin() {
        let mut station = station(0.0, 1.0);
        assert_eq!(times(&mut station, &[1], 0.25), [4_000]);
    }
}
