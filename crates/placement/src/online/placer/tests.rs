use super::*;
use crate::online::cluster::Presence;
use std::collections::{BTreeMap, HashSet};

const DEFAULTS: LayoutDefaults = LayoutDefaults { stripe_bytes: 1 << 20, stripe_count: 0 };
const NOW: i64 = 1_800_000_000;
/// Loads of a view are whole numbers of these, where files have stripes of the default size.
const GRAIN_BYTES: f64 = 65536.0;

fn target(server: u16, index: u16) -> TargetId {
    TargetId { server: ServerId(server), index }
}

fn targets(servers: u16, each: u16) -> Vec<TargetId> {
    (0..servers).flat_map(|server| (0..each).map(move |index| target(server, index))).collect()
}

fn placer(server: u16, servers: u16, each: u16) -> Placer {
    let mut placer = Placer::new(ServerId(server), &targets(servers, each), DEFAULTS);
    placer.refresh(0.0, |_| Some(healthy()));
    placer
}

fn healthy() -> Figures {
    Figures { capacity_bytes: 1 << 30, free_bytes: 1 << 29, ..Figures::UNKNOWN }
}

fn make(placer: &mut Placer, text: &str) -> Result<Placed, Refusal> {
    let placed = placer.place(0, Some(&text.parse().unwrap()))?;
    placer.placed(&placed.layout, NOW);
    Ok(placed)
}

fn layout(placer: &Placer, sequence: u64, text: &str) -> Result<Layout, Refusal> {
    placer.place(sequence, Some(&text.parse().unwrap())).map(|placed| placed.layout)
}

fn counts(layouts: &[Layout]) -> BTreeMap<TargetId, usize> {
    let mut counts = BTreeMap::new();
    for target in layouts.iter().flat_map(|layout| layout.targets()) {
        *counts.entry(*target).or_default() += 1;
    }
    counts
}

#[test]
fn sixteen_files_of_eight_stripes_leave_no_target_above_the_mean_rounded_up() {
    let mut placer = placer(3, 7, 5);
    for round in 1..=3 {
        let layouts: Vec<Layout> = (0..16).map(|_| make(&mut placer, "-c 8").unwrap().layout).collect();
        let counts = counts(&layouts);
        assert_eq!(counts.values().max(), Some(&4), "round {round}: {counts:?}");
        assert!(counts.values().min() >= Some(&3), "round {round}: {counts:?}");
        let mut servers = [0; 7];
        counts.iter().for_each(|(target, count)| servers[usize::from(target.server.0)] += count);
        assert!(servers.iter().max() <= Some(&19), "128 stripes on 7 servers: {servers:?}");
        layouts.iter().for_each(|layout| placer.removed(layout, NOW));
        placer.refresh(f64::from(round), |_| Some(healthy()));
    }
}

/// Between two exchanges a server knows only its own placements.
#[test]
fn a_burst_of_files_of_one_stripe_balances_without_an_exchange() {
    let mut placer = placer(1, 3, 2);
    let layouts: Vec<Layout> = (0..600).map(|_| make(&mut placer, "-c 1").unwrap().layout).collect();
    assert_eq!(layouts[0].targets()[0].server, ServerId(1), "among equals the first lies at home");
    let counts = counts(&layouts);
    assert!(counts.values().all(|&count| count == 100), "{counts:?}");
}

#[test]
fn what_others_placed_and_what_waits_counts_as_load() {
    let mut placer = placer(0, 4, 1);
    placer.refresh(1.0, |target| {
        let placed_bytes = if target.server.0 == 1 { 4e6 } else { 0.0 };
        let backlog_seconds = if target.server.0 == 2 { 9.0 } else { 0.0 };
        Some(Figures { placed_bytes, backlog_seconds, bytes_per_second: 1e6, ..healthy() })
    });
    let layouts: Vec<Layout> = (0..6).map(|_| make(&mut placer, "-c 1").unwrap().layout).collect();
    assert_eq!(counts(&layouts).keys().map(|target| target.server.0).collect::<Vec<_>>(), [0, 3]);
}

#[test]
fn full_and_dead_targets_get_nothing_and_are_refused_by_name() {
    let mut placer = placer(0, 2, 2);
    let full = Figures { free_bytes: (1 << 20) - 1, ..healthy() };
    let dead = Figures { presence: Presence::Dead, ..healthy() };
    placer.refresh(1.0, |asked| {
        Some(if asked == target(0, 1) {
            full
        } else if asked.server.0 == 1 {
            dead
        } else {
            healthy()
        })
    });
    for text in ["-c 1", "-c 4", "-c -1"] {
        let Placed { layout, record } = make(&mut placer, text).unwrap();
        assert_eq!(layout.targets(), [target(0, 0)], "{text}");
        assert_eq!((record.considered, record.full.count, record.dead.count), (1, 1, 2));
        assert_eq!(record.full.targets, [target(0, 1)]);
    }
    let refused = |placer: &mut Placer, text| make(placer, text).unwrap_err();
    assert_eq!(refused(&mut placer, "-o 0.0,0.1"), Refusal::Full);
    assert_eq!(refused(&mut placer, "-o 1.0"), Refusal::Dead);
    assert_eq!(refused(&mut placer, "-o 9.0"), Refusal::Unknown);
    assert_eq!(refused(&mut placer, "-E 1M -c 1 -E -1 -o 1.0"), Refusal::Dead);
    for (text, checked) in [
        ("-o 0.0,0.1", Ok(())),
        ("-o 1.0", Ok(())),
        ("-o 9.0", Err(Refusal::Unknown)),
        ("-E 1M -o 1.0 -E -1 -o 0.0,9.0", Err(Refusal::Unknown)),
    ] {
        assert_eq!(placer.check(&text.parse().unwrap()), checked, "{text}: targets may come back");
    }
    placer.refresh(2.0, |_| Some(dead));
    assert_eq!(refused(&mut placer, "-c 1"), Refusal::Dead);
    placer.refresh(3.0, |asked| Some(if asked.server.0 == 0 { full } else { dead }));
    assert_eq!(refused(&mut placer, "-c 1"), Refusal::Full);
    let tally = placer.tally();
    assert_eq!(tally.refused, BTreeMap::from([("dead", 3), ("full", 2), ("unknown", 1)]));
    assert_eq!(tally.stripes, BTreeMap::from([("balanced".into(), 3)]));
}

#[test]
fn a_target_of_a_late_server_gets_the_stripes_that_name_it_and_no_others() {
    let mut placer = placer(0, 2, 1);
    let late = Figures { presence: Presence::Late, ..healthy() };
    placer.refresh(1.0, |asked| Some(if asked.server.0 == 1 { late } else { healthy() }));
    let Placed { layout, record } = make(&mut placer, "-c -1").unwrap();
    assert_eq!((layout.targets(), record.dead.count), (&[target(0, 0)][..], 1));
    let named = make(&mut placer, "-o 1.0,0.0").unwrap().layout;
    assert_eq!(named.targets(), [target(1, 0), target(0, 0)]);
    let full = Figures { free_bytes: (1 << 20) - 1, ..late };
    placer.refresh(2.0, |asked| Some(if asked.server.0 == 1 { full } else { healthy() }));
    assert_eq!(make(&mut placer, "-o 1.0").unwrap_err(), Refusal::Full);
}

/// A placer of four targets one of which came back just now, and the files that were placed while it was dead.
fn placer_with_one_back() -> (Placer, Vec<Layout>) {
    let mut placer = placer(0, 1, 4);
    let dead = Figures { presence: Presence::Dead, ..healthy() };
    placer.refresh(1.0, |asked| Some(if asked == target(0, 3) { dead } else { healthy() }));
    let missed = (0..300).map(|_| make(&mut placer, "-c 1").unwrap().layout).collect();
    placer.refresh(2.0, |_| Some(healthy()));
    (placer, missed)
}

#[test]
fn who_comes_back_gets_its_part_and_not_all_that_it_missed() {
    let (mut placer, _) = placer_with_one_back();
    let layouts: Vec<Layout> = (0..40).map(|_| make(&mut placer, "-c 1").unwrap().layout).collect();
    let counts = counts(&layouts);
    assert!(counts.values().all(|count| (9..=11).contains(count)), "{counts:?}");
}

#[test]
fn who_came_back_counts_as_loaded_no_longer_than_the_others_are() {
    let (mut placer, missed) = placer_with_one_back();
    let loads =
        |placer: &Placer| placer.placed_lately().map(|(_, bytes)| bytes.round()).collect::<Vec<f64>>();
    let forgiven = loads(&placer)[3];
    assert!(forgiven > 0.0 && loads(&placer).iter().all(|load| (load - forgiven).abs() < 2e6));
    missed.iter().take(150).for_each(|layout| placer.removed_at_age(layout, 1.0));
    placer.refresh(3.0, |_| Some(healthy()));
    let half = loads(&placer)[3];
    assert!(half < 0.6 * forgiven && half > 0.4 * forgiven, "{half} of {forgiven}");
    missed.iter().skip(150).for_each(|layout| placer.removed_at_age(layout, 2.0));
    placer.refresh(4.0, |_| Some(healthy()));
    let left = loads(&placer);
    assert!(left.iter().all(|load| *load < 1e5), "{left:?}");
}

#[test]
fn a_slow_target_gets_one_stripe_a_minute_and_is_otherwise_the_last_resort() {
    let mut placer = placer(0, 1, 4);
    let at = |seconds: f64, placer: &mut Placer| {
        let slow = Figures { is_slow: true, speed: 0.02, ..healthy() };
        placer.refresh(seconds, |asked| Some(if asked == target(0, 2) { slow } else { healthy() }));
    };
    at(0.0, &mut placer);
    for (text, expected) in [("-c 1", 1), ("-c 3", 3), ("-c -1", 3), ("-c 4", 4)] {
        let layout = make(&mut placer, text).unwrap().layout;
        assert_eq!(layout.targets().len(), expected, "{text}");
        assert_eq!(layout.targets().contains(&target(0, 2)), expected == 4, "{text}");
    }
    let mut probes = 0;
    for seconds in 0..300 {
        at(f64::from(seconds), &mut placer);
        for _ in 0..5 {
            let layout = make(&mut placer, "-c 2").unwrap().layout;
            probes += usize::from(layout.targets().contains(&target(0, 2)));
            assert_ne!(layout.targets()[0], target(0, 2), "a small file does not wait for a probe");
        }
    }
    assert_eq!(probes, 4);
}

#[test]
fn a_faster_target_gets_more_and_one_with_little_room_less() {
    let mut placer = placer(0, 1, 4);
    placer.refresh(1.0, |asked| {
        Some(match asked.index {
            1 => Figures { speed: 3.0, ..healthy() },
            2 => Figures { free_bytes: 1 << 26, ..healthy() },
            _ => healthy(),
        })
    });
    let layouts: Vec<Layout> = (0..500).map(|_| make(&mut placer, "-c 1").unwrap().layout).collect();
    let counts: Vec<usize> = counts(&layouts).into_values().collect();
    assert!(counts[1] > 2 * counts[0] && counts[2] * 3 < counts[0], "{counts:?}");
}

#[test]
fn lustre_and_random_know_nothing_of_speed() {
    for name in [AllocatorName::LustreStandard, AllocatorName::Random] {
        let mut placer = placer(0, 2, 4);
        placer.set_allocator(name);
        placer
            .refresh(1.0, |asked| Some(Figures { is_slow: asked == target(0, 2), speed: 0.02, ..healthy() }));
        let layouts: Vec<Layout> = (0..80).map(|_| make(&mut placer, "-c 2").unwrap().layout).collect();
        let counts = counts(&layouts);
        assert!(counts.len() == 8 && counts[&target(0, 2)] > 5, "{name}: {counts:?}");
        assert_eq!(placer.place(0, None).unwrap().record.by, name.to_string());
    }
}

#[test]
fn every_component_gets_its_targets_within_the_limits() {
    let placer = placer(0, 20, 15);
    let layout = |text: &str| layout(&placer, 7, text);
    let counts = |layout: Layout| -> Vec<usize> {
        layout.components().iter().map(|component| component.targets.len()).collect()
    };
    let progressive = layout("-E 128M -c 1 -E 512M -c 3 -E 2G -c 8 -E -1 -c 16").unwrap();
    assert_eq!(progressive.targets().len(), 28, "each on targets of its own while there are any");
    assert_eq!(counts(progressive), [1, 3, 8, 16]);
    assert_eq!(counts(layout("-E 1M -c 300 -E -1 -c -1").unwrap()), [300, limits::STRIPES - 300]);
    assert_eq!(counts(layout("-E 1M -o 19.14,0.0 -E -1 -c 4").unwrap()), [2, 4]);
    assert_eq!(layout("-E 1M -c 300 -E -1 -c 300"), Err(Refusal::Layout));
    assert_eq!(layout("-o 20.0"), Err(Refusal::Unknown));
    assert_eq!(layout("-E 5000 -c 1 -E -1"), Err(Refusal::Layout), "a page would have two stripes");
}

#[test]
fn a_choice_that_comes_to_nothing_leaves_no_load() {
    let placer = placer(0, 2, 3);
    let loads = || placer.view().targets().iter().map(|state| state.load_bytes).collect::<Vec<f64>>();
    let before = loads();
    for text in ["-E 1M -c 1 -E -1 -c 4", "-E 1M -c 2 -E -1 -o 7.7", "-c 3"] {
        let _ = layout(&placer, 1, text);
    }
    assert_eq!(before, loads());
}

#[test]
fn files_on_all_targets_begin_at_home_with_each_in_turn() {
    let placer = placer(1, 3, 2);
    for sequence in 0..20 {
        let layout = layout(&placer, sequence, "-c -1").unwrap();
        assert_eq!(layout.targets()[0], target(1, (sequence % 2) as u16));
        assert_eq!(layout.targets().iter().collect::<HashSet<_>>().len(), 6);
    }
}

#[test]
fn files_on_all_targets_go_on_from_home_to_each_other_target_in_turn() {
    for (servers, each) in [(5, 1), (3, 2)] {
        let placer = placer(1, servers, each);
        let others = usize::from(servers * each - 1);
        let second: HashSet<TargetId> = (0..others as u64)
            .map(|sequence| layout(&placer, sequence, "-c -1").unwrap().targets()[1])
            .collect();
        assert_eq!(second.len(), usize::from((servers - 1) * each), "{servers} servers of {each}");
    }
}

#[test]
fn what_was_placed_fades_and_goes_with_its_file() {
    let mut placer = placer(0, 1, 2);
    let placed = |placer: &Placer| placer.placed_lately().map(|(_, bytes)| bytes).collect::<Vec<_>>();
    let layout = make(&mut placer, "-o 0.1 -S 64M").unwrap().layout;
    assert_eq!(placed(&placer), [0.0, 64.0 * 1048576.0]);
    placer.refresh(180.0, |_| None);
    assert_eq!(placed(&placer), [0.0, 32.0 * 1048576.0]);
    placer.removed(&layout, NOW - 180);
    assert_eq!(placed(&placer), [0.0, 0.0]);
    assert_eq!(placer.tally().stripes, BTreeMap::from([("explicit".into(), 1)]));
}

#[test]
fn a_target_on_which_first_bytes_are_late_gets_no_more_until_they_come() {
    let mut placer = placer(0, 2, 2);
    let at = |millis: u32| NOW as f64 + f64::from(millis) / 1e3;
    let made = |placer: &mut Placer, number: u64, millis: u32| {
        let layout = make(placer, "-c 1").unwrap().layout;
        placer.awaits(number, &layout, at(millis));
        layout.targets()[0]
    };
    let first = made(&mut placer, 1, 0);
    let later: Vec<TargetId> = (2..60)
        .map(|number| {
            let chosen = made(&mut placer, number, number as u32 * 10);
            placer.written(number, at(number as u32 * 10 + 5));
            chosen
        })
        .skip(8)
        .collect();
    assert!(!later.contains(&first), "{first} in {later:?}");
    placer.refresh(0.6, |_| None);
    assert_ne!(made(&mut placer, 100, 601), first, "also after the next exchange");
    placer.written(1, at(602));
    assert_eq!(made(&mut placer, 101, 603), first, "it has least to do by now");
}

/// The number of times that each server was chosen for `files` files, made while the servers' machines have the use
/// `busy`.
fn by_server(
    placer: &mut Placer,
    seconds: f64,
    busy: &[Option<f64>],
    text: &str,
    files: usize,
) -> Vec<usize> {
    placer.refresh(seconds, |target| Some(Figures { busy: busy[usize::from(target.server.0)], ..healthy() }));
    let mut servers = vec![0; busy.len()];
    for _ in 0..files {
        let layout = make(placer, text).unwrap().layout;
        layout.targets().iter().for_each(|target| servers[usize::from(target.server.0)] += 1);
    }
    servers
}

#[test]
fn small_differences_of_busy_machines_change_nothing() {
    let seed = 7;
    let mut random = SplitMix64(seed);
    let mut between = |low: f64, high: f64| low + (high - low) * random.fraction();
    for (low, high) in [(0.0, 0.5), (0.4, 0.64), (0.75, 1.0)] {
        let (mut idle, mut noisy) = (placer(2, 7, 5), placer(2, 7, 5));
        for second in 0..30 {
            let busy: Vec<Option<f64>> = (0..7).map(|_| Some(between(low, high))).collect();
            noisy.refresh(f64::from(second), |target| {
                Some(Figures { busy: busy[usize::from(target.server.0)], ..healthy() })
            });
            idle.refresh(f64::from(second), |_| Some(healthy()));
            for text in ["-c 1", "-c 8", "-c 4", "-E 1M -c 1 -E -1 -c 3"] {
                let [quiet, other] = [&mut idle, &mut noisy].map(|placer| make(placer, text).unwrap());
                assert_eq!(quiet.layout, other.layout, "seed {seed}, second {second}, {text}");
            }
        }
    }
}

#[test]
fn a_server_on_a_busy_machine_gets_little_and_afterwards_its_part() {
    let mut placer = placer(0, 4, 2);
    let calm = [Some(0.3), Some(0.2), None, Some(0.2)];
    let mut busy = calm;
    busy[1] = Some(0.9);
    for (text, seconds) in [("-c 1", 1.0), ("-c 2", 4.0)] {
        let before = by_server(&mut placer, seconds, &calm, text, 80);
        assert!(before.iter().max() == before.iter().min(), "{text}: {before:?}");
        let during = by_server(&mut placer, seconds + 1.0, &busy, text, 160);
        let expected = during[0] / 5;
        assert!(during[1].abs_diff(expected) <= 2, "a fifth of the processors is left: {text}: {during:?}");
        let after = by_server(&mut placer, seconds + 2.0, &calm, text, 80);
        assert!(after.iter().all(|&count| count.abs_diff(after[0]) <= 2), "{text}: {after:?}");
    }
}

#[test]
fn a_file_of_one_stripe_lies_at_home_unless_that_machine_is_busy() {
    let mut placer = placer(1, 2, 2);
    assert_eq!(by_server(&mut placer, 0.0, &[None, Some(0.5)], "-c 1", 1), [0, 1]);
    let mut placer = self::placer(1, 2, 2);
    assert_eq!(by_server(&mut placer, 0.0, &[Some(0.1), Some(0.9)], "-c 1", 1), [1, 0]);
}

#[test]
fn only_balanced_watches_for_first_bytes() {
    let mut placer = placer(0, 1, 2);
    let layout = make(&mut placer, "-o 0.1").unwrap().layout;
    let at = |millis: u32| NOW as f64 + f64::from(millis) / 1e3;
    let late = |placer: &Placer| placer.view().targets()[1].load_bytes > 8e6;
    let write_others = |placer: &mut Placer| {
        placer.awaits(1, &layout, at(0));
        for number in 2..20 {
            placer.awaits(number, &layout, at(0));
            placer.written(number, at(1));
        }
        placer.awaits(100, &layout, at(100));
        placer.refresh(1.0, |_| None);
    };
    placer.set_allocator(AllocatorName::Random);
    write_others(&mut placer);
    assert!(!late(&placer));
    placer.set_allocator(AllocatorName::Balanced);
    write_others(&mut placer);
    assert!(late(&placer));
    placer.set_allocator(AllocatorName::Random);
    assert!(!late(&placer), "what was late is forgotten");
}

/// The homes of a store, which hear of each other at exchanges alone.
struct Homes {
    placers: Vec<Placer>,
    seconds: f64,
}

impl Homes {
    fn new(servers: u16, each: u16) -> Homes {
        Homes { placers: (0..servers).map(|server| placer(server, servers, each)).collect(), seconds: 0.0 }
    }

    /// The home hears of all that the others placed.
    fn exchange(&mut self, home: usize) {
        let all: Vec<BTreeMap<TargetId, f64>> =
            self.placers.iter().map(|placer| placer.placed_lately().collect()).collect();
        let others = |target: TargetId| {
            let placed = all.iter().enumerate().filter(|(other, _)| *other != home);
            placed.map(|(_, placed)| placed[&target]).sum()
        };
        self.placers[home]
            .refresh(self.seconds, |target| Some(Figures { placed_bytes: others(target), ..healthy() }));
    }

    /// All homes hear of each other, so many seconds later.
    fn exchange_all(&mut self, seconds: f64) {
        self.seconds += seconds;
        (0..self.placers.len()).for_each(|home| self.exchange(home));
    }

    /// The homes hear of each other ten times a second, one after the other, up to a moment.
    fn exchange_until(&mut self, seconds: f64) {
        let each = 0.1 / self.placers.len() as f64;
        let ticks = |seconds: f64| (seconds / each).floor() as u64;
        for tick in ticks(self.seconds)..ticks(seconds) {
            self.seconds = (tick + 1) as f64 * each;
            self.exchange(tick as usize % self.placers.len());
        }
        self.seconds = seconds;
    }

    /// Every home makes so many files at one moment, home `exchanging` hears of the others when each has made half, and all
    /// files are removed a second later. Answers the files on the fullest target.
    fn round(&mut self, files: usize, exchanging: Option<usize>) -> usize {
        self.exchange_all(1.0);
        let mut layouts = Vec::new();
        for file in 0..files {
            if let Some(home) = exchanging.filter(|_| file == files / 2) {
                self.exchange(home);
            }
            for (home, placer) in self.placers.iter_mut().enumerate() {
                layouts.push((home, make(placer, "-c 1").unwrap().layout));
            }
        }
        self.exchange_all(1.0);
        for (home, layout) in &layouts {
            self.placers[*home].removed_at_age(layout, 2.0);
        }
        let layouts: Vec<Layout> = layouts.into_iter().map(|(_, layout)| layout).collect();
        counts(&layouts).into_values().max().unwrap_or(0)
    }
}

/// Creators on all homes in the same instant: they meet on no target while another is free, in the first round and in every
/// later one, although a removed file leaves a part of its load because its age is known to a second.
#[test]
fn creators_on_all_homes_in_one_instant_share_the_targets_evenly() {
    for (servers, each) in [(2, 2), (4, 2), (8, 4), (3, 3), (5, 1)] {
        for files in [1, usize::from(each), 2 * usize::from(each)] {
            let mut homes = Homes::new(servers, each);
            let part = files.div_ceil(usize::from(each));
            // In the first round no home knows yet that the others are at work.
            if files > usize::from(each) {
                homes.round(files, None);
            }
            for round in 1..20 {
                let fullest = homes.round(files, None);
                assert_eq!(fullest, part, "{servers} x {each}, {files} files a home, round {round}");
            }
        }
    }
}

/// One home hears in the middle of a round what the others made by then.
#[test]
fn creators_stay_apart_where_one_home_hears_of_the_others_meanwhile() {
    let mut homes = Homes::new(2, 2);
    let rounds = (0..20).map(|round| homes.round(2, Some(round % 2)));
    let fullest: Vec<usize> = rounds.skip(2).collect();
    assert!(fullest.iter().all(|&files| files == 1), "{fullest:?}");
}

/// Each home makes a file between two exchanges, and knows of the others' files only at the next.
#[test]
fn homes_that_make_files_at_once_choose_different_targets() {
    let mut homes: Vec<Placer> = (0..64).map(|server| placer(server, 64, 8)).collect();
    let mut stripes: BTreeMap<TargetId, usize> = BTreeMap::new();
    for second in 1..=8 {
        for home in &mut homes {
            for &target in make(home, "-c 4").unwrap().layout.targets() {
                *stripes.entry(target).or_default() += 1;
            }
        }
        let placed = homes.iter().map(|home| home.placed_lately().collect());
        let placed: Vec<BTreeMap<TargetId, f64>> = placed.collect();
        for (home, own) in homes.iter_mut().zip(&placed) {
            home.refresh(f64::from(second), |target| {
                let all: f64 = placed.iter().map(|placed| placed[&target]).sum();
                Some(Figures { placed_bytes: (all - own[&target]).max(0.0), ..healthy() })
            });
        }
    }
    let most = stripes.values().max();
    assert!(stripes.len() == 512 && most <= Some(&7), "the mean is 4: {most:?} of {}", stripes.len());
}

/// A server that starts hears of files that were placed long before, which are no sign of new ones.
#[test]
fn bytes_of_the_first_exchange_are_not_expected_again() {
    let mut placer = Placer::new(ServerId(0), &targets(2, 2), DEFAULTS);
    placer.set_allocator(AllocatorName::Random);
    placer.set_allocator(AllocatorName::Balanced);
    placer.refresh(1.0, |asked| {
        Some(Figures { placed_bytes: if asked == target(1, 1) { 1e9 } else { 0.0 }, ..healthy() })
    });
    let loads: Vec<f64> = placer.view().targets().iter().map(|state| state.load_bytes).collect();
    assert_eq!(loads[..3], [0.0; 3]);
    assert_eq!(loads[3], (1e9 / GRAIN_BYTES).round() * GRAIN_BYTES);
}

/// Rounds of files by one home of several, where an exchange falls into a round: no other home placed any, so none is expected.
#[test]
fn a_home_that_makes_files_alone_tells_targets_apart_after_an_exchange_within_a_round() {
    let mut placer = placer(0, 2, 4);
    let mut seconds = 0.0;
    let mut exchange = |placer: &mut Placer, after: f64| {
        seconds += after;
        placer.refresh(seconds, |_| Some(healthy()));
    };
    for files_before in 0..16 {
        exchange(&mut placer, 0.5);
        for number in 0..16 {
            if number == files_before {
                exchange(&mut placer, 0.01);
            }
            make(&mut placer, "-c 1").unwrap();
        }
        let loads: Vec<f64> = placer.view().targets().iter().map(|state| state.load_bytes).collect();
        let placed: Vec<f64> = placer.placed_lately().map(|(_, bytes)| bytes).collect();
        for (load, placed) in loads.iter().zip(&placed) {
            assert!(
                (load - placed).abs() <= GRAIN_BYTES / 2.0,
                "{files_before} files before the exchange: {loads:?}, {placed:?}"
            );
        }
    }
}

/// Makes 16 files of one stripe; answers their layouts by target, and the number of files on the fullest target.
fn make_sixteen(placer: &mut Placer) -> (Vec<Layout>, usize) {
    let mut layouts: Vec<Layout> = (0..16).map(|_| make(placer, "-c 1").unwrap().layout).collect();
    layouts.sort_by_key(|layout| layout.targets()[0]);
    let fullest = counts(&layouts).into_values().max().unwrap_or(0);
    (layouts, fullest)
}

/// Rounds of 16 files on 8 targets, removed before the next round. An exchange falls between two removals, so its figures hold
/// files that are gone when the next round begins.
#[test]
fn the_load_of_a_file_goes_with_the_file_and_not_at_the_next_exchange() {
    for removed_before in 0..=16 {
        let mut placer = placer(1, 4, 2);
        for round in 1..=3 {
            let (layouts, fullest) = make_sixteen(&mut placer);
            assert_eq!(
                fullest, 2,
                "round {round}, {removed_before} removed before the exchange: {layouts:?}"
            );
            let (before, after) = layouts.split_at(removed_before);
            before.iter().for_each(|layout| placer.removed(layout, NOW));
            placer.refresh(f64::from(round), |_| Some(healthy()));
            after.iter().for_each(|layout| placer.removed(layout, NOW));
        }
    }
}

/// One home made many files a while ago, and now another makes some, which nobody else does: they are spread over all targets.
#[test]
fn files_of_one_home_are_spread_after_a_burst_of_another() {
    let mut homes = Homes::new(4, 2);
    homes.exchange_all(0.1);
    for _ in 0..200 {
        make(&mut homes.placers[1], "-c 1").unwrap();
    }
    homes.exchange_all(0.1);
    homes.exchange_all(5.0);
    let layouts: Vec<Layout> = (0..40).map(|_| make(&mut homes.placers[0], "-c 1").unwrap().layout).collect();
    let counts = counts(&layouts);
    assert_eq!(counts.values().max(), Some(&5), "{counts:?}");
}

/// Creators of one job on all homes begin to write within `seconds`, as processors allow, and homes hear of each other ten times a
/// second meanwhile. Answers how many of 100 rounds leave a target with more files than its part. Files are removed after
/// each round, or stay.
fn uneven_rounds(seconds: f64, pause: f64, are_removed: bool) -> usize {
    let mut random = SplitMix64(1);
    let mut homes = Homes::new(4, 2);
    let mut uneven = 0;
    for round in 0..100 {
        let mut creations: Vec<(f64, usize)> =
            (0..16).map(|number| (homes.seconds + seconds * random.fraction(), number % 4)).collect();
        creations.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut layouts = Vec::new();
        let end = homes.seconds + seconds;
        for (at, home) in creations {
            homes.exchange_until(at);
            layouts.push((home, make(&mut homes.placers[home], "-c 1").unwrap().layout));
        }
        homes.exchange_until(end);
        if are_removed {
            for (home, layout) in &layouts {
                homes.placers[*home].removed_at_age(layout, seconds.round());
            }
        }
        homes.exchange_until(end + pause);
        let layouts: Vec<Layout> = layouts.into_iter().map(|(_, layout)| layout).collect();
        uneven += usize::from(round > 1 && counts(&layouts).values().max() > Some(&2));
    }
    uneven
}

#[test]
fn creators_on_all_homes_within_a_second_share_the_targets_evenly() {
    for seconds in [0.2, 0.5, 1.0] {
        for (pause, are_removed) in [(0.0, true), (0.05, true), (0.3, true), (5.0, true), (5.0, false)] {
            let uneven = uneven_rounds(seconds, pause, are_removed);
            assert!(uneven <= 5, "{seconds} s, pause {pause} s, removed: {are_removed}: {uneven} of 98");
        }
    }
}
