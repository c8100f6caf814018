//! Ratios of times, which mean the same for any job: of a job's I/O time to the device time that its requests need.
//!
//! Models are trained on them, too; `tests/window_features.py` has the same features by numpy, and a test compares the two.

use crate::checks::{is_number, ModelError};
use crate::nearness::{nearest, quantile, Demands};
use crate::relative::WINDOWS_MIN;
use crate::sums::pairwise;
use crate::windows::{
    sum_of, Window, Windows, BUSY_MILLISECONDS, QUEUED_MILLISECONDS, READS, READ_BYTES, STATS_AND_OPENS,
    WRITES, WRITTEN_BYTES,
};
use serde::Deserialize;

/// Windows of like work among which a job's quiet ones are looked for, and the part of them that counts as quiet.
const NEIGHBOURS: usize = 60;
const QUIET: f64 = 0.1;
const SECTOR_BYTES: f64 = 512.0;
const TINY: f64 = 1e-9;
/// The least part of the greatest time that differs from none.
const LEAST_PART: f64 = 1e-4;
/// Features are rounded to a part of this many: trees ask whether a feature is above a number, and the last bits of a
/// logarithm depend on the library.
const STEPS: f64 = 1e9;
const OF_WINDOW: [&str; 6] = [
    "response_over_demand",
    "queue",
    "backlog_over_service",
    "service_over_own",
    "share_of_busy",
    "share_of_metadata",
];
const COMPARED: [&str; 3] = ["response_above_quiet", "queue_above_quiet", "demand_below_most"];
/// Numbers by which windows are of like work.
const MIX: usize = 4;

/// The names of the features.
pub fn names() -> Vec<String> {
    let of_window = OF_WINDOW.map(str::to_string).into_iter();
    of_window
        .chain(COMPARED.into_iter().flat_map(|name| [name.into(), format!("{name}_of_like_work")]))
        .collect()
}

/// The device time of requests, as it was learned from the counters of the training's servers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Milliseconds of a read, of a write, of a sector read, and of one written.
    targets: [f64; 4],
    /// Milliseconds of an operation on metadata.
    metadata: f64,
}

impl Costs {
    /// Takes costs.
    ///
    /// # Errors
    /// [`ModelError`] where a time is negative or too large.
    pub fn new(targets: [f64; 4], metadata: f64) -> Result<Costs, ModelError> {
        Costs { targets, metadata }.checked()
    }

    pub(crate) fn checked(self) -> Result<Costs, ModelError> {
        let is_time = |time: &f64| is_number(*time) && *time >= 0.0;
        match self.targets.iter().chain([&self.metadata]).all(is_time) {
            true => Ok(self),
            false => Err(ModelError::Harmed("its costs are no times".into())),
        }
    }

    /// Device time that the job's own requests need at a server.
    fn demand(&self, window: &Window<'_>, server: usize) -> f64 {
        let [first, second] = own_requests(window, server);
        if window.is_metadata(server) {
            return (first + second) * self.metadata;
        }
        let sectors = |count: usize| own(window, server, count) / SECTOR_BYTES;
        let [read, write, sector_read, sector_written] = self.targets;
        first * read
            + second * write
            + sectors(READ_BYTES) * sector_read
            + sectors(WRITTEN_BYTES) * sector_written
    }
}

/// A count of the job, 0 where no server is.
fn own(window: &Window<'_>, server: usize, count: usize) -> f64 {
    if window.is_present(server) {
        window.count(server, count)
    } else {
        0.0
    }
}

/// The job's requests of two kinds. Those of a metadata server are looks and opens.
fn own_requests(window: &Window<'_>, server: usize) -> [f64; 2] {
    let kinds = if window.is_metadata(server) { STATS_AND_OPENS } else { [READS, WRITES] };
    kinds.map(|count| own(window, server, count))
}

/// The windows of a job, ready to be compared with each other.
#[derive(Debug)]
pub struct Ratios {
    of_window: Vec<[f64; OF_WINDOW.len()]>,
    /// Values above those of quiet windows are features, in the order of `COMPARED`.
    compared: [Vec<f64>; COMPARED.len()],
    /// The quiet value of each, of all windows.
    quiet: [f64; COMPARED.len()],
    work: Demands,
}

impl Ratios {
    /// Compares the windows of a job; none where there are fewer than [`WINDOWS_MIN`].
    pub fn of(windows: &Windows<'_>, costs: &Costs) -> Option<Ratios> {
        if windows.len() < WINDOWS_MIN {
            return None;
        }
        let rows: Vec<Row> =
            (0..windows.len()).map(|number| Row::of(&windows.window(number), costs)).collect();
        let total = scale_free(rows.iter().map(|row| row.total));
        let own = scale_free(rows.iter().map(|row| row.own));
        let mix = rows.iter().zip(own.iter().zip(&total)).flat_map(|(row, (own, total))| -> [f64; MIX] {
            [row.greatest_share, row.values[5], *own, *total]
        });
        let work = Demands::scaled(MIX, mix.collect());
        let of_window: Vec<_> = rows.iter().map(|row| row.values).collect();
        let column = |place: usize| of_window.iter().map(|values| values[place]).collect::<Vec<f64>>();
        let compared = [column(0), column(1), total.iter().map(|total| -total).collect()];
        let quiet = compared.each_ref().map(|values| quantile(values.clone(), QUIET));
        Some(Ratios { of_window, compared, quiet, work })
    }

    /// The features of one window, in the order of [`names`]; none where there is no such window.
    pub fn features(&self, number: usize) -> Vec<f64> {
        let Some(of_window) = self.of_window.get(number) else {
            return Vec::new();
        };
        let like = nearest(&self.work.distances(number), NEIGHBOURS);
        let above = self.compared.iter().zip(self.quiet).flat_map(|(values, quiet)| {
            let of_like = like.iter().map(|&place| values[place]).collect();
            [values[number] - quiet, values[number] - quantile(of_like, QUIET)]
        });
        let rounded = |value: f64| (value * STEPS).round_ties_even() / STEPS;
        of_window.iter().copied().chain(above).map(rounded).collect()
    }
}

/// The numbers of one window.
struct Row {
    values: [f64; OF_WINDOW.len()],
    /// Device time of the job's requests, and that of one of them.
    total: f64,
    own: f64,
    greatest_share: f64,
}

impl Row {
    fn of(window: &Window<'_>, costs: &Costs) -> Row {
        let servers = window.servers();
        let demands: Vec<f64> = (0..servers).map(|server| costs.demand(window, server)).collect();
        let total = pairwise(servers, &|server| demands[server]);
        let counter = |server: usize, counter: usize| match window.is_present(server) {
            true => window.counter(server, sum_of(counter)),
            false => 0.0,
        };
        let share = |server: usize| demands[server] / total.max(TINY);
        let busy = |server: usize| counter(server, BUSY_MILLISECONDS);
        let queue = |server: usize| counter(server, QUEUED_MILLISECONDS) / busy(server).max(TINY);
        let requests = |server: usize| counter(server, READS) + counter(server, WRITES);
        let service = |server: usize| busy(server) / requests(server).max(TINY);
        let asked = pairwise(servers, &|server| own_requests(window, server).iter().sum());
        let own = total / asked.max(TINY);
        let backlog = pairwise(servers, &|server| share(server) * queue(server) * service(server));
        let used = pairwise(servers, &|server| if demands[server] > 0.0 { busy(server) } else { 0.0 });
        let is_metadata = |server: usize| f64::from(u8::from(window.is_metadata(server)));
        let values = [
            logarithm(window.io_seconds * 1e3, total),
            pairwise(servers, &|server| share(server) * queue(server)),
            (backlog / own.max(TINY)).ln_1p(),
            logarithm(pairwise(servers, &|server| share(server) * service(server)), own),
            logarithm(total, used),
            pairwise(servers, &|server| share(server) * is_metadata(server)),
        ];
        Row { values, total, own, greatest_share: (0..servers).map(share).fold(0.0, f64::max) }
    }
}

/// Logarithms of times, of which another unit changes all by the same number; none is far below the greatest.
fn scale_free(times: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let least = times.clone().fold(TINY, f64::max) * LEAST_PART;
    times.map(|time| time.max(least).ln()).collect()
}

fn logarithm(part: f64, whole: f64) -> f64 {
    (part.max(TINY) / whole.max(TINY)).ln().clamp(-10.0, 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::REDUCED;
    use proptest::prelude::*;

    #[test]
    fn a_window_that_waits_longer_for_the_same_work_is_above_the_quiet_ones() {
        let costs = Costs::new([2.0, 0.0, 0.0, 0.0], 0.0).unwrap();
        let mut seconds = vec![0.008; 30];
        seconds[29] *= std::f64::consts::E;
        let client: Vec<f64> = (0..30).flat_map(|_| [4.0, 0.0, 4096.0, 0.0, 0.0, 0.0, 0.0]).collect();
        let server = vec![0.0; 30 * REDUCED];
        let windows = Windows::new(1, &seconds, &[1; 30], &[0; 30], &client, &server).unwrap();
        let ratios = Ratios::of(&windows, &costs).unwrap();
        let (quiet, slowed) = (ratios.features(0), ratios.features(29));
        assert_eq!(slowed.len(), names().len());
        assert_eq!((quiet[0], quiet[6], quiet[7]), (0.0, 0.0, 0.0), "8 ms for four reads of 2 ms");
        assert_eq!((slowed[0], slowed[6], slowed[7]), (1.0, 1.0, 1.0));
        assert!(ratios.features(30).is_empty());
        let few = Windows::new(1, &seconds[..9], &[1; 9], &[0; 9], &client[..63], &server[..9 * REDUCED]);
        assert!(Ratios::of(&few.unwrap(), &costs).is_none());
        assert!(Costs::new([-1.0, 0.0, 0.0, 0.0], 0.0).is_err());
        assert!(Costs::new([0.0; 4], f64::NAN).is_err());
    }

    proptest! {
        /// Any counts and times that windows may hold have features.
        #[test]
        fn any_windows_have_features(
            numbers in proptest::collection::vec(-1e100_f64..1e100, 1..40),
            cost in 0.0..1e12_f64,
            servers in 0_usize..4,
        ) {
            let column = |length: usize| (0..length).map(|place| numbers[place % numbers.len()]).collect::<Vec<f64>>();
            let flags: Vec<u8> = (0..12 * servers).map(|place| (place % 3 != 0).into()).collect();
            let kinds: Vec<u8> = (0..12 * servers).map(|place| (place % 2 == 0).into()).collect();
            let (seconds, client) = (column(12), column(12 * servers * 7));
            let server = column(12 * servers * REDUCED);
            let windows = Windows::new(servers, &seconds, &flags, &kinds, &client, &server).unwrap();
            let ratios = Ratios::of(&windows, &Costs::new([cost; 4], cost).unwrap()).unwrap();
            for number in 0..12 {
                prop_assert_eq!(ratios.features(number).len(), names().len());
            }
        }
    }
}
