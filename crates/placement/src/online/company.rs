//! The bytes that other homes are likely to place before this home hears of them.
//!
//! The processes of one job make their files on all homes at once. So a home expects of the others what they placed while it made
//! files itself the last time, less what it has heard of by now. A home whose files nobody joined expects nothing: a
//! job that makes files alone gets the speed of all targets.

use super::cluster::part_left;
use super::unheard::{Exchange, Unheard};

/// A home that made no file for so long, and for two exchanges, begins anew.
const QUIET_SECONDS: f64 = 1.0;
/// Others may begin so much later than this home did: this many times what its files took the last time.
const LATENESS_MAX: f64 = 2.0;
/// Others are heard of up to so many exchanges after this home's files: their reports are on the way.
const EXCHANGES_LATE: u8 = 2;
/// The part of an expectation that stays after an exchange or a burst that fell short of it.
const KEPT: f64 = 0.5;

/// The account that one home keeps of the others' files beside its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Company {
    heard_seconds: f64,
    /// Bytes placed here since that exchange, without those removed.
    own_bytes: f64,
    /// Exchanges that may still tell of files made beside this home's last ones.
    exchanges_awaited: u8,
    /// Most bytes that others placed between two exchanges beside files of this home; older ones count for less.
    most_bytes: f64,
    /// Bytes that others placed since the burst began, and lately before it, without those removed.
    others_bytes: f64,
    burst: Option<Burst>,
    before: Past,
}

/// Files that this home makes one soon after the other.
#[derive(Clone, Debug, Default)]
struct Burst {
    /// Files that were not removed.
    files: u64,
    begun_seconds: f64,
    last_seconds: f64,
    exchanges: u64,
    /// The most of [`Company::others_bytes`], and the exchange that told of it.
    others_most_bytes: f64,
    others_last_seconds: f64,
}

/// The bursts before: the greatest counts, of which those of a burst earlier count half as much.
#[derive(Clone, Debug, Default)]
struct Past {
    others_bytes: f64,
    seconds: f64,
}

impl Company {
    /// Takes in the exchanges since the last call.
    pub(crate) fn hear(&mut self, unheard: &Unheard) {
        if let Some(oldest_seconds) = unheard.forgotten_after(self.heard_seconds) {
            self.end_burst();
            let Company { before, most_bytes, .. } = std::mem::take(self);
            *self = Company { before, most_bytes, heard_seconds: oldest_seconds, ..Company::default() };
        }
        for exchange in unheard.after(self.heard_seconds) {
            self.hear_one(exchange);
        }
    }

    fn hear_one(&mut self, exchange: &Exchange) {
        let others = exchange.bytes - self.own_bytes;
        let seconds = exchange.seconds - self.heard_seconds;
        let left = part_left(seconds);
        self.most_bytes *= left;
        self.before.others_bytes *= left;
        if self.exchanges_awaited > 0 && others > exchange.grain_bytes {
            self.most_bytes = self.most_bytes.max(others);
        } else if self.own_bytes > exchange.grain_bytes && others >= -exchange.grain_bytes {
            self.most_bytes *= KEPT;
        }
        self.exchanges_awaited = self.exchanges_awaited.saturating_sub(1);
        self.own_bytes = 0.0;
        self.heard_seconds = exchange.seconds;
        let lately = if self.burst.is_some() { 1.0 } else { 0.5_f64.powf(seconds.max(0.0) / QUIET_SECONDS) };
        self.others_bytes = (self.others_bytes * lately + others).max(0.0);
        let Some(burst) = &mut self.burst else { return };
        burst.exchanges += u64::from(burst.files > 0);
        if self.others_bytes > burst.others_most_bytes {
            burst.others_most_bytes = self.others_bytes;
            burst.others_last_seconds = exchange.seconds;
        }
        if self.exchanges_awaited == 0 && exchange.seconds - burst.last_seconds >= QUIET_SECONDS {
            self.end_burst();
            self.others_bytes = 0.0;
        }
    }

    /// A burst whose files were removed before any exchange tells nothing of others.
    fn end_burst(&mut self) {
        if let Some(burst) = self.burst.take().filter(|burst| burst.exchanges > 0) {
            self.before = burst.after(&self.before);
        }
    }

    /// This home made a file of so many bytes.
    pub(crate) fn placed(&mut self, bytes: f64) {
        if self.burst.as_ref().is_some_and(|burst| burst.files == 0) {
            self.end_burst();
        }
        let begin = Burst { begun_seconds: self.heard_seconds, ..Burst::default() };
        let burst = self.burst.get_or_insert(begin);
        burst.files += 1;
        burst.last_seconds = self.heard_seconds;
        self.own_bytes += bytes;
        self.exchanges_awaited = EXCHANGES_LATE;
    }

    /// A file of this home, made `age_seconds` ago, is gone, with so many bytes that counted.
    pub(crate) fn removed(&mut self, bytes: f64, age_seconds: f64) {
        self.own_bytes -= bytes;
        let Some(burst) = &mut self.burst else { return };
        if age_seconds <= self.heard_seconds - burst.begun_seconds + QUIET_SECONDS {
            burst.files = burst.files.saturating_sub(1);
        }
    }

    /// The bytes that others are expected to place, or to have placed, without this home having heard of them.
    pub(crate) fn expected(&self) -> f64 {
        let is_over = |burst: &Burst| {
            burst.files > 0 && self.heard_seconds - burst.begun_seconds > LATENESS_MAX * self.before.seconds
        };
        let rest = match &self.burst {
            Some(burst) if is_over(burst) => 0.0,
            _ => self.before.others_bytes - self.others_bytes,
        };
        rest.max(self.most_bytes)
    }
}

impl Burst {
    /// The past once this burst is over, where it was `past` before.
    fn after(&self, past: &Past) -> Past {
        let seconds = self.last_seconds.max(self.others_last_seconds) - self.begun_seconds;
        Past {
            others_bytes: self.others_most_bytes.max(KEPT * past.others_bytes),
            seconds: seconds.max(KEPT * past.seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAIN_BYTES: f64 = 1.0;

    /// A home, and what it hears of the bytes of all.
    #[derive(Default)]
    struct Home {
        company: Company,
        unheard: Unheard,
        seconds: f64,
        all_bytes: f64,
    }

    impl Home {
        fn new() -> Home {
            let mut home = Home::default();
            home.exchange(0.0, 0.0);
            home
        }

        /// The next exchange, so many seconds later, tells of so many bytes of others.
        fn exchange(&mut self, seconds: f64, others_bytes: f64) {
            self.seconds += seconds;
            self.all_bytes += others_bytes;
            self.unheard.hear(self.seconds, (self.all_bytes, 1.0), GRAIN_BYTES);
            self.company.hear(&self.unheard);
        }

        fn make(&mut self, bytes: f64) {
            self.all_bytes += bytes;
            self.company.placed(bytes);
        }

        fn remove(&mut self, bytes: f64, age_seconds: f64) {
            self.all_bytes -= bytes;
            self.company.removed(bytes, age_seconds);
        }

        fn rest(&mut self) {
            (0..2).for_each(|_| self.exchange(1.0, 0.0));
        }

        /// A burst of half a second, to which others add so many bytes each tenth of it.
        fn burst(&mut self, others_bytes: f64) {
            for _ in 0..5 {
                self.make(100.0);
                self.exchange(0.1, others_bytes);
            }
        }
    }

    fn assert_near(expected: f64, bytes: f64) {
        assert!((expected - bytes).abs() <= 0.1 * bytes, "{expected}, not {bytes}");
    }

    #[test]
    fn others_are_expected_to_place_what_they_placed_beside_the_last_burst() {
        let mut home = Home::new();
        assert_eq!(home.company.expected(), 0.0);
        home.burst(300.0);
        home.rest();
        assert_near(home.company.expected(), 1500.0);
        home.make(100.0);
        assert_near(home.company.expected(), 1500.0);
        home.exchange(0.1, 700.0);
        assert_near(home.company.expected(), 800.0);
    }

    #[test]
    fn what_others_place_while_this_home_makes_no_file_is_not_expected_again() {
        let mut home = Home::new();
        home.burst(0.0);
        home.exchange(2.0, 0.0);
        for _ in 0..50 {
            home.exchange(0.1, 1e6);
        }
        home.exchange(30.0, 0.0);
        assert!(home.company.expected() <= GRAIN_BYTES);
        home.make(100.0);
        assert!(home.company.expected() <= GRAIN_BYTES);
    }

    #[test]
    fn others_that_do_not_come_are_expected_ever_less() {
        let mut home = Home::new();
        home.burst(300.0);
        home.rest();
        home.make(100.0);
        home.exchange(2.0, 0.0);
        home.make(100.0);
        assert_near(home.company.expected(), 150.0);
        for burst in 1..=3 {
            home.rest();
            assert_near(home.company.expected(), 1500.0 / f64::from(1 << burst));
            home.burst(0.0);
        }
    }

    #[test]
    fn a_burst_ends_when_its_files_are_removed() {
        let mut home = Home::new();
        home.burst(300.0);
        (0..5).for_each(|_| home.remove(100.0, 0.5));
        home.exchange(0.1, -1500.0);
        home.make(100.0);
        assert_near(home.company.expected(), 1500.0);
    }

    #[test]
    fn a_burst_that_no_exchange_saw_tells_nothing() {
        let mut home = Home::new();
        home.burst(300.0);
        home.rest();
        for _ in 0..10 {
            home.make(100.0);
            home.remove(100.0, 0.0);
            home.exchange(0.1, 0.0);
        }
        home.make(100.0);
        assert_near(home.company.expected(), 1500.0);
    }

    #[test]
    fn a_home_that_missed_more_than_is_remembered_begins_anew() {
        let mut home = Home::new();
        home.make(100.0);
        let missed = home.company.clone();
        (0..100).for_each(|_| home.exchange(0.1, 50.0));
        let mut company = missed;
        company.hear(&home.unheard);
        assert_eq!(company.expected(), 0.0);
        assert!(company.burst.is_none());
        assert_eq!(company.heard_seconds, home.seconds);
    }
}
