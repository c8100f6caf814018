//! Features pooled over servers, so that any number of servers in any order gives the same ones.
//!
//! Models are trained on them, too; `tests/window_features.py` has the same features by numpy, and a test compares the two.

use crate::sums::{mean, pairwise, ratio};
use crate::windows::{
    mean_of, Window, Windows, BUSY_MILLISECONDS, CLIENT, QUEUED_MILLISECONDS, READ_MILLISECONDS,
    READ_SECTORS, REDUCED, SERVER, STATISTICS, WRITE_MILLISECONDS, WRITTEN_SECTORS,
};

/// Counts of the job that have a sum, a maximum and a deviation.
const SPREAD: usize = 4;

/// Ratios of two counters of a device by their names: part, whole.
const RATIOS: [(&str, usize, usize); 5] = [
    ("read_latency", READ_MILLISECONDS, 0),
    ("write_latency", WRITE_MILLISECONDS, 1),
    ("queue", QUEUED_MILLISECONDS, BUSY_MILLISECONDS),
    ("read_size", READ_SECTORS, 0),
    ("write_size", WRITTEN_SECTORS, 1),
];

/// The servers of a window that a feature pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    Targets,
    Touched,
    Metadata,
}

/// The numbers of a server from which a feature is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Times of the job, which no server has alone.
    Time,
    /// Counts of the job from one place of [`CLIENT`] to another.
    Counts(usize, usize),
    /// A reduced counter of the pool's servers.
    Counter(Pool, usize),
    /// One of [`RATIOS`] of the pool's servers.
    Ratio(Pool, usize),
}

impl Pool {
    fn has(self, window: &Window<'_>, server: usize) -> bool {
        match self {
            Pool::Targets => window.is_target(server),
            Pool::Touched => window.is_target(server) && window.data(server) > 0.0,
            Pool::Metadata => window.is_metadata(server),
        }
    }
}

/// A taker of a feature: its name, which is made only where it is wanted, its source, and its value.
type Tell<'a> = dyn FnMut(&dyn Fn() -> String, Source, f64) + 'a;

/// The features of a window, each told to `tell` in their order.
fn each_feature(window: &Window<'_>, tell: &mut Tell<'_>) {
    of_job(window, tell);
    of_servers(window, tell);
    of_devices(window, tell);
}

fn of_job(window: &Window<'_>, tell: &mut Tell<'_>) {
    let servers = window.servers();
    let sum = |count: usize| pairwise(servers, &|server| window.count(server, count));
    tell(&|| "io_seconds".into(), Source::Time, window.io_seconds);
    for (count, name) in CLIENT.iter().enumerate().take(SPREAD) {
        let source = Source::Counts(count, count + 1);
        tell(&|| format!("job_{name}_sum"), source, sum(count));
        let greatest = (0..servers).map(|server| window.count(server, count)).fold(f64::MIN, f64::max);
        tell(&|| format!("job_{name}_max"), source, greatest);
        let is_there = |server| window.is_present(server);
        let deviation = deviation(servers, is_there, |server| window.count(server, count));
        tell(&|| format!("job_{name}_deviation"), source, deviation);
    }
    for (count, name) in CLIENT.iter().enumerate().skip(SPREAD) {
        tell(&|| format!("job_{name}_sum"), Source::Counts(count, count + 1), sum(count));
    }
    let data = pairwise(servers, &|server| window.data(server));
    let metadata = pairwise(servers, &|server| window.metadata(server));
    let touched = (0..servers).filter(|&server| window.data(server) > 0.0).count();
    let operations = data + metadata;
    let seconds = window.io_seconds;
    for (name, source, value) in [
        ("touched", Source::Counts(0, 2), touched as f64),
        ("operations_per_second", Source::Time, ratio(operations, seconds)),
        ("read_bytes_per_second", Source::Time, ratio(sum(2), seconds)),
        ("written_bytes_per_second", Source::Time, ratio(sum(3), seconds)),
        ("read_size", Source::Counts(2, 3), ratio(sum(2), sum(0))),
        ("write_size", Source::Counts(3, 4), ratio(sum(3), sum(1))),
        ("metadata_fraction", Source::Counts(SPREAD, CLIENT.len()), ratio(metadata, operations)),
    ] {
        tell(&|| format!("job_{name}"), source, value);
    }
}

fn of_servers(window: &Window<'_>, tell: &mut Tell<'_>) {
    let servers = window.servers();
    let is_touched = (0..servers).any(|server| Pool::Touched.has(window, server));
    for place in 0..REDUCED {
        let (counter, statistic) = (SERVER[place / STATISTICS.len()], STATISTICS[place % STATISTICS.len()]);
        let name = |pool: &str, kind: &str| format!("{pool}_{counter}_{statistic}_{kind}");
        let value = |server: usize| window.counter(server, place);
        let pooled = |pool: Pool| mean(servers, |server| pool.has(window, server), value);
        let targets = Source::Counter(Pool::Targets, place);
        let of_targets = pooled(Pool::Targets);
        tell(&|| name("targets", "mean"), targets, of_targets);
        tell(&|| name("targets", "max"), targets, greatest(window, Pool::Targets, value));
        let deviation = deviation(servers, |server| window.is_target(server), value);
        tell(&|| name("targets", "deviation"), targets, deviation);
        let touched = if is_touched { pooled(Pool::Touched) } else { of_targets };
        tell(&|| name("touched", "mean"), Source::Counter(Pool::Touched, place), touched);
        let metadata = Source::Counter(Pool::Metadata, place);
        tell(&|| name("metadata", "mean"), metadata, pooled(Pool::Metadata));
    }
}

/// Costs of an operation and lengths of queues: ratios that a server's speed moves less.
fn of_devices(window: &Window<'_>, tell: &mut Tell<'_>) {
    for (kind, pool) in [("targets", Pool::Targets), ("metadata", Pool::Metadata)] {
        for (place, (name, _, _)) in RATIOS.iter().enumerate() {
            let value = |server: usize| ratio_of(window, server, place);
            let source = Source::Ratio(pool, place);
            let pooled = mean(window.servers(), |server| pool.has(window, server), value);
            tell(&|| format!("{kind}_{name}_mean"), source, pooled);
            tell(&|| format!("{kind}_{name}_max"), source, greatest(window, pool, value));
        }
    }
}

fn ratio_of(window: &Window<'_>, server: usize, place: usize) -> f64 {
    let (_, part, whole) = RATIOS[place];
    ratio(window.counter(server, mean_of(part)), window.counter(server, mean_of(whole)))
}

fn deviation(length: usize, is_chosen: impl Fn(usize) -> bool, value: impl Fn(usize) -> f64) -> f64 {
    let middle = mean(length, &is_chosen, &value);
    mean(length, is_chosen, |place| (value(place) - middle) * (value(place) - middle)).sqrt()
}

/// The greatest value of a pool, where servers outside of the pool count as 0.
fn greatest(window: &Window<'_>, pool: Pool, value: impl Fn(usize) -> f64) -> f64 {
    let values =
        (0..window.servers()).map(|server| if pool.has(window, server) { value(server) } else { 0.0 });
    values.fold(f64::MIN, f64::max)
}

/// The features of one window, in the order of [`names`]; none where there is no such window or no server.
pub fn pooled(windows: &Windows<'_>, number: usize) -> Vec<f64> {
    if number >= windows.len() || windows.window(number).servers() == 0 {
        return Vec::new();
    }
    let mut values = Vec::new();
    each_feature(&windows.window(number), &mut |_, _, value| values.push(value));
    values
}

/// The names of the features.
pub fn names() -> Vec<String> {
    let mut names = Vec::new();
    described(&mut |name, _| names.push(name));
    names
}

/// Tells the name and the source of each feature, by way of a window with nothing in it.
fn described(tell: &mut dyn FnMut(String, Source)) {
    let (client, server) = ([0.0; CLIENT.len()], [0.0; REDUCED]);
    if let Ok(windows) = Windows::new(1, &[0.0], &[1], &[0], &client, &server) {
        each_feature(&windows.window(0), &mut |name, source, _| tell(name(), source));
    }
}

/// The server that has most of a feature.
#[derive(Debug)]
pub(crate) struct Sources(Vec<Source>);

impl Sources {
    /// The sources of all features.
    pub(crate) fn new() -> Sources {
        let mut sources = Vec::new();
        described(&mut |_, source| sources.push(source));
        Sources(sources)
    }

    /// The place of the server that has most of a feature in a window.
    pub(crate) fn server(&self, window: &Window<'_>, feature: usize) -> Option<usize> {
        match *self.0.get(feature)? {
            Source::Time => busiest(window),
            Source::Counts(first, end) => {
                let count = |server: usize| (first..end).map(|count| window.count(server, count)).sum();
                most(window, |server| window.is_present(server), count)
            }
            Source::Counter(pool, place) => {
                let has = |server: usize| pool.has(window, server);
                let of_pool = most(window, has, |server| window.counter(server, place));
                of_pool.or_else(|| {
                    most(window, |server| window.is_target(server), |server| window.counter(server, place))
                })
            }
            Source::Ratio(pool, place) => {
                most(window, |server| pool.has(window, server), |server| ratio_of(window, server, place))
            }
        }
    }
}

/// The server with the longest queue among those that the job used.
pub(crate) fn busiest(window: &Window<'_>) -> Option<usize> {
    let is_used =
        |server: usize| window.is_present(server) && window.data(server) + window.metadata(server) > 0.0;
    most(window, is_used, |server| window.counter(server, mean_of(QUEUED_MILLISECONDS)))
}

/// The first of the chosen servers with the greatest value, if that is above 0.
fn most(
    window: &Window<'_>,
    is_chosen: impl Fn(usize) -> bool,
    value: impl Fn(usize) -> f64,
) -> Option<usize> {
    let mut found = None;
    let mut greatest = 0.0;
    for server in (0..window.servers()).filter(|&server| is_chosen(server)) {
        if value(server) > greatest {
            (found, greatest) = (Some(server), value(server));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_name_of_its_own() {
        let mut sorted = names();
        assert_eq!(sorted.len(), 1 + 12 + 3 + 7 + 33 * 5 + 20);
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), names().len());
    }

    #[test]
    fn the_server_with_most_of_a_feature_is_found() {
        let mut server = vec![0.0; 3 * REDUCED];
        let place = mean_of(QUEUED_MILLISECONDS);
        (server[place], server[REDUCED + place], server[2 * REDUCED + place]) = (1.0, 5.0, 9.0);
        let mut client = vec![0.0; 3 * CLIENT.len()];
        client[CLIENT.len()] = 2.0;
        let windows = Windows::new(3, &[1.0], &[1, 1, 1], &[0, 0, 1], &client, &server).unwrap();
        let sources = Sources::new();
        let server_of = |name: &str| {
            let feature = names().iter().position(|each| each == name).unwrap();
            sources.server(&windows.window(0), feature)
        };
        assert_eq!(server_of("targets_queued_milliseconds_mean_max"), Some(1));
        assert_eq!(server_of("metadata_queued_milliseconds_mean_mean"), Some(2));
        assert_eq!(server_of("job_reads_sum"), Some(1));
        assert_eq!(server_of("io_seconds"), Some(1));
        assert_eq!(server_of("job_writes_sum"), None);
    }
}
