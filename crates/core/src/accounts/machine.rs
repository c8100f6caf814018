//! The load of the machine of this server, as its kernel tells it: processors, memory, network.

use std::collections::VecDeque;
use weir_fairshare::Nanos;
use weir_wire::MachineLoad;

/// The kernel is asked no more often: on a large machine `/proc/stat` costs it a millisecond.
const PAUSE: Nanos = Nanos::from_millis(1_000);
/// Use is averaged over this long, so that servers of one machine, which look at different times, see about the same.
const WINDOW: Nanos = Nanos::from_millis(10_000);
/// Part of the processors' time in a second from which on processes wait for processors.
const FULL: f32 = 0.9;
/// `/sys/class/net/*/speed` is in 10^6 bits a second.
const SPEED_UNIT_BYTES_PER_SECOND: f64 = 125_000.0;

/// The readings of the last seconds.
#[derive(Debug, Default)]
pub struct Machine {
    readings: VecDeque<Reading>,
    load: MachineLoad,
}

/// The figures of the kernel at one moment.
#[derive(Debug, Default)]
pub struct Reading {
    at: Nanos,
    processors: Option<Processors>,
    memory: Option<f64>,
    links: Vec<Link>,
}

/// Time of all processors since the start of the machine, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Processors {
    busy: u64,
    total: u64,
}

/// A network interface: bytes since the start of the machine.
#[derive(Debug, PartialEq)]
struct Link {
    name: String,
    received_bytes: u64,
    sent_bytes: u64,
    /// Absent for a link of software, because its speed is made up, and where the driver does not tell.
    bytes_per_second: Option<f64>,
}

impl Machine {
    /// The load of the machine lately; a part that is not known yet, or not told here, is absent.
    pub fn load(&self) -> MachineLoad {
        self.load
    }

    /// Whether processes waited for processors lately, or may have: not enough readings tell.
    pub(crate) fn is_short_of_processors(&self) -> bool {
        let pairs = self.readings.iter().zip(self.readings.iter().skip(1));
        let is_full = |(earlier, later): (&Reading, &Reading)| {
            earlier
                .processors
                .zip(later.processors)
                .and_then(|(earlier, later)| busy_part(earlier, later))
                .is_some_and(|part| part >= FULL)
        };
        self.readings.len() < 2 || pairs.into_iter().any(is_full)
    }

    /// Takes a reading again, if that was not done just now.
    pub fn look(&mut self, now: Nanos, reading: impl FnOnce(Nanos) -> Reading) {
        if self.readings.back().is_none_or(|last| now.saturating_since(last.at) >= PAUSE) {
            self.take(reading(now));
        }
    }

    fn take(&mut self, reading: Reading) {
        let is_old = |earlier: &Reading| reading.at.saturating_since(earlier.at) >= WINDOW;
        while self.readings.get(1).is_some_and(is_old) {
            self.readings.pop_front();
        }
        let before = self.readings.front().filter(|earlier| is_old(earlier));
        self.load = MachineLoad {
            processors: before.and_then(|before| busy_part(before.processors?, reading.processors?)),
            memory: reading.memory.map(|part| part as f32),
            network: before.and_then(|before| busiest_link(before, &reading)),
        };
        self.readings.push_back(reading);
    }
}

impl Reading {
    /// The figures in the texts of `/proc/stat`, `/proc/meminfo` and `/proc/net/dev`, and in that of a network link's
    /// `/sys/class/net/*/speed`, where the link has one of its own.
    pub fn of(
        (stat, meminfo, dev): (&str, &str, &str),
        speed: impl Fn(&str) -> Option<String>,
        at: Nanos,
    ) -> Reading {
        Reading {
            at,
            processors: processors_of(stat),
            memory: memory_of(meminfo),
            links: links_of(dev, |name| speed_of(&speed(name)?)),
        }
    }
}

fn processors_of(stat: &str) -> Option<Processors> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> =
        line.split_whitespace().take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let total = ticks.iter().fold(0, |sum: u64, ticks| sum.saturating_add(*ticks));
    let waiting = ticks.get(3)?.saturating_add(*ticks.get(4)?);
    Some(Processors { busy: total.saturating_sub(waiting), total })
}

/// The part of memory that programs cannot have, from the text of `/proc/meminfo`.
fn memory_of(meminfo: &str) -> Option<f64> {
    let (total, available) = (meminfo_bytes(meminfo, "MemTotal")?, meminfo_bytes(meminfo, "MemAvailable")?);
    (total > 0).then(|| 1.0 - available.min(total) as f64 / total as f64)
}

/// A size in the text of `/proc/meminfo`, which counts in KiB.
pub fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The interfaces in the text of `/proc/net/dev`; `speed` tells how many bytes one moves in a second each way.
fn links_of(dev: &str, speed: impl Fn(&str) -> Option<f64>) -> Vec<Link> {
    let link = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        let mut counters = counters.split_whitespace();
        let received_bytes = counters.next()?.parse().ok()?;
        let sent_bytes = counters.nth(7)?.parse().ok()?;
        let name = name.trim().to_string();
        Some(Link { bytes_per_second: speed(&name), name, received_bytes, sent_bytes })
    };
    dev.lines().filter_map(link).collect()
}

/// Bytes a second, from the text of `/sys/class/net/*/speed`; -1 is not known.
fn speed_of(text: &str) -> Option<f64> {
    let speed: i64 = text.trim().parse().ok()?;
    (speed > 0).then_some(speed as f64 * SPEED_UNIT_BYTES_PER_SECOND)
}

fn busy_part(before: Processors, after: Processors) -> Option<f32> {
    // The kernel lets the time of waiting run backwards at times (proc(5)).
    let (busy, total) = (after.busy.saturating_sub(before.busy), after.total.saturating_sub(before.total));
    (total > 0).then(|| (busy as f64 / total as f64).min(1.0) as f32)
}

/// The part of its speed that the busiest link used, in the direction in which it moved more.
fn busiest_link(before: &Reading, after: &Reading) -> Option<f32> {
    let seconds = crate::clock::seconds(after.at.saturating_since(before.at));
    let part = |link: &Link| {
        let earlier = before.links.iter().find(|earlier| earlier.name == link.name)?;
        let received = link.received_bytes.saturating_sub(earlier.received_bytes);
        let sent = link.sent_bytes.saturating_sub(earlier.sent_bytes);
        Some((received.max(sent) as f64 / seconds / link.bytes_per_second?).min(1.0))
    };
    after.links.iter().filter_map(part).reduce(f64::max).map(|part| part as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = include_str!("../../../../tests/data/lustre/host/proc/stat");
    const MEMINFO: &str = include_str!("../../../../tests/data/lustre/host/proc/meminfo");
    const DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 5799314235 4713695    0    0    0     0          0         0 5799314235 4713695    0    0    0     0       0          0
  eth0: 1249498291   36462    0    0    0     0          0         0  2202321   23236    0    0    0     0       0          0
";

    fn ethernet(name: &str) -> Option<f64> {
        if name == "eth0" {
            speed_of("1000\n")
        } else {
            None
        }
    }

    #[test]
    fn what_the_kernel_writes_is_understood() {
        let total = 807_641 + 94_670 + 216_877 + 1_427_210 + 7_808 + 3_094 + 420;
        let busy = total - 1_427_210 - 7_808;
        assert_eq!(processors_of(STAT), Some(Processors { busy, total }));
        let memory = memory_of(MEMINFO).unwrap();
        assert!((0.0..1.0).contains(&memory) && memory > 0.0, "{memory}");
        let links = links_of(DEV, ethernet);
        assert_eq!(links.len(), 2);
        let link = Link {
            name: "eth0".into(),
            received_bytes: 1_249_498_291,
            sent_bytes: 2_202_321,
            bytes_per_second: Some(125e6),
        };
        assert_eq!(links[1], link);
        assert_eq!((speed_of("-1\n"), speed_of(""), speed_of("25000\n")), (None, None, Some(3.125e9)));
    }

    #[test]
    fn what_it_does_not_write_is_not_known() {
        for text in
            ["", "cpu\n", "cpu  1 2 3\n", "cpu  1 2 3 x 5\n", "MemTotal: 0 kB\nMemAvailable: 1 kB\n", ":\n"]
        {
            assert_eq!((processors_of(text), memory_of(text)), (None, None), "{text:?}");
            assert!(links_of(text, ethernet).is_empty(), "{text:?}");
        }
        assert_eq!(memory_of("MemTotal: 10 kB\nMemFree: 5 kB\n"), None);
        let most = format!("cpu  {0} {0} {0} {0} {0}\n", u64::MAX);
        assert_eq!(processors_of(&most), Some(Processors { busy: 0, total: u64::MAX }));
    }

    fn reading(seconds: u64, busy: u64, received_bytes: u64) -> Reading {
        let link = |name: &str, received_bytes, bytes_per_second| Link {
            name: name.into(),
            received_bytes,
            sent_bytes: 0,
            bytes_per_second,
        };
        Reading {
            at: Nanos::from_millis(seconds * 1000),
            processors: Some(Processors { busy, total: seconds * 200 }),
            memory: Some(0.25),
            links: vec![
                link("eth0", received_bytes, Some(1e6)),
                link("eth1", 0, Some(1e6)),
                link("lo", 1 << 40, None),
            ],
        }
    }

    #[test]
    fn use_is_that_of_the_last_ten_seconds_and_not_known_before() {
        let mut machine = Machine::default();
        for second in 0..10 {
            machine.take(reading(second, 200 * second, 0));
            let known = MachineLoad { memory: Some(0.25), ..MachineLoad::default() };
            assert_eq!(machine.load(), known, "after {second} s");
        }
        machine.take(reading(10, 2_000, 0));
        assert_eq!(
            machine.load(),
            MachineLoad { processors: Some(1.0), memory: Some(0.25), network: Some(0.0) }
        );
        for second in 11..=15 {
            machine.take(reading(second, 2_000, (second - 10) * 1_000_000));
        }
        assert_eq!(
            machine.load(),
            MachineLoad { processors: Some(0.5), memory: Some(0.25), network: Some(0.5) }
        );
        assert_eq!(machine.readings.len(), 11);
        machine.take(reading(16, 0, 0));
        assert_eq!(machine.load().network, Some(0.0), "its counter began anew");
        machine.take(Reading { at: Nanos::from_millis(17_000), ..Reading::default() });
        assert_eq!(machine.load(), MachineLoad::default());
    }

    #[test]
    fn a_machine_is_asked_once_a_second() {
        let mut machine = Machine::default();
        for millis in [0, 100, 999, 1_000, 1_500, 2_100] {
            machine.look(Nanos::from_millis(millis), |at| Reading { at, ..Reading::default() });
        }
        assert_eq!(machine.readings.len(), 3);
    }
}
