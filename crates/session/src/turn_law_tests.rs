//! Random appends beside other appenders, full and failing targets, cuts, lost answers and turns that are taken away: bytes are
//! appended whole and once, or not at all and the caller hears of it.

use crate::Size;
use crate::{Appended, Failure, Turn, Wrote};
use crate::{ClientError, Result};
use rustix::io::Errno as System;
use std::time::Duration;
use weir_placement::{ServerId, TargetId};
use weir_testing::{key, Choices};
use weir_wire::{
    limits, Capability, Description, HandleId, Ino, Publication, Reply, Request, Rights, Sequence,
};

const CASES: u64 = 20_000;
const TURNS_MAX: u64 = 40;
const LENGTH: u64 = 100;
const TICK: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(limits::TURN_LEASE_SECONDS);
const TARGET: TargetId = TargetId { server: ServerId(5), index: 0 };

/// The home of a file, and its other clients.
struct Home {
    choices: Choices,
    now: Duration,
    end: u64,
    epoch: u64,
    /// The turn of the client, and when it was renewed last.
    turn: Option<(Sequence, Duration)>,
    turns: u64,
    /// The appended bytes of the client's turns: the first byte, and the number of bytes.
    appended: Vec<(u64, u64)>,
    /// Bytes of a turn that a target may write yet: their place and epoch.
    late: Option<(u64, u64)>,
}

impl Home {
    fn new(choices: Choices) -> Home {
        let (now, appended) = (Duration::from_secs(3), Vec::new());
        Home { choices, now, end: 1_000, epoch: 5, turn: None, turns: 0, appended, late: None }
    }

    fn begin(&mut self) -> (Sequence, Size) {
        if self.turn.take().is_some() {
            // A turn that was left has its file cut before the next one.
            self.epoch += 1;
        }
        self.turns += 1;
        self.turn = Some((Sequence(self.turns), self.now));
        (Sequence(self.turns), Size { bytes: self.end, epoch: self.epoch })
    }

    /// Others append once a turn is not renewed, cut the file, and targets carry out what is late.
    fn live_on(&mut self) {
        let is_over = self.turn.is_none_or(|(_, renewed)| self.now > renewed + LEASE);
        if is_over || self.choices.below(60) == 0 {
            if self.turn.take().is_some() {
                self.epoch += 1;
            }
            self.end += self.choices.below(50);
        }
        if self.choices.below(60) == 0 {
            self.epoch += 1;
            self.end -= self.choices.below(self.end / 4);
        }
        if let Some((offset, epoch)) = self.late.filter(|_| self.choices.below(4) == 0) {
            let is_refused = epoch < self.epoch;
            assert!(is_refused || offset >= self.end, "late bytes over those of another appender");
        }
    }

    fn renew(&mut self, request: &Request) {
        let Request::AppendRenew { turn, .. } = request else { panic!("{request:?}") };
        if let Some((current, renewed)) = &mut self.turn {
            assert!(self.now <= *renewed + LEASE / 2, "renewed {:?} late", self.now - *renewed);
            if current == turn {
                *renewed = self.now;
            }
        }
    }

    fn finish(&mut self, request: &Request) -> Result<Reply> {
        let Request::AppendEnd { turn, publication, .. } = request else { panic!("{request:?}") };
        if self.turn.is_none_or(|(current, _)| current != *turn) {
            return Err(ClientError::number(System::BADF.raw_os_error()));
        }
        self.turn = None;
        match *publication {
            None => Ok(Reply::Done),
            Some(publication) if publication.epoch != self.epoch => {
                Ok(Reply::StaleEpoch { epoch: self.epoch })
            }
            Some(Publication { end, written_bytes, .. }) => {
                self.appended.push((end - written_bytes, written_bytes));
                self.end = end;
                Ok(Reply::Written { size: Some((self.end, self.epoch)) })
            }
        }
    }

    fn lost(&self) -> ClientError {
        ClientError::Lost { server: TARGET.server, waited_seconds: 1, is_another: false }
    }

    /// Writes in a turn, which takes a while.
    fn write(&mut self, turn: &Turn) -> Result<Wrote> {
        for _ in 0..self.choices.below(30) {
            self.now += Duration::from_millis(self.choices.below(TICK.as_millis() as u64 + 1));
            if let Some(request) = turn.renewal(self.now) {
                self.renew(&request);
            }
            self.live_on();
        }
        let before = self.choices.below(LENGTH);
        let failed = |error| Ok(Wrote::Bytes(before, Some(Failure::of(error, TARGET, 0))));
        match self.choices.below(12) {
            0 | 1 => failed(ClientError::number(System::NOSPC.raw_os_error())),
            2 => failed(ClientError::number(System::IO.raw_os_error())),
            3 => failed(self.lost()),
            4 => Err(ClientError::number(System::FBIG.raw_os_error())),
            5 => Err(self.lost()),
            6 => Ok(Wrote::Stale),
            _ => Ok(Wrote::Bytes(LENGTH, None)),
        }
    }
}

/// One turn. Returns what came of it, and whether the home may have appended although it is not known.
fn append_in_turn(home: &mut Home, capability: Capability, takes_part: bool) -> (Result<Appended>, bool) {
    let (number, size) = home.begin();
    let turn = Turn::new(capability, number, size, home.now);
    let wrote = home.write(&turn);
    let is_open = match &wrote {
        Err(error) => error.is_open(),
        Ok(Wrote::Bytes(_, failure)) => failure.as_ref().is_some_and(Failure::is_open),
        Ok(Wrote::Stale) => false,
    };
    let ending = match turn.end(wrote, takes_part) {
        Ok(ending) => ending,
        Err(error) => {
            assert!(is_open && error.is_open(), "{error} leaves a turn");
            home.late = Some((size.bytes, size.epoch));
            return (Err(error), false);
        }
    };
    assert!(!is_open, "a turn ends whose bytes may come late");
    let request = turn.end_request(&ending);
    let (arrives, returns) = (home.choices.below(12) > 0, home.choices.below(12) > 0);
    let mut answer = Err(home.lost());
    if arrives {
        let told = home.finish(&request);
        answer = if returns { told } else { answer };
    }
    (ending.told(answer), arrives && !returns)
}

#[test]
fn an_append_is_whole_and_once_or_its_caller_hears_of_it() {
    let capability = key().capability(
        Description { ino: Ino(1), handle: HandleId(2), uid: 0 },
        Rights { read: true, write: true },
        0,
    );
    let mut choices = Choices::new();
    let (mut done, mut failed) = (0, 0);
    for case in 0..CASES {
        let mut home = Home::new(choices.branch());
        let mut takes_part = false;
        for _ in 0..TURNS_MAX {
            let before = home.appended.len();
            let (appended, is_unknown) = append_in_turn(&mut home, capability, takes_part);
            let new = &home.appended[before..];
            match appended {
                Ok(Appended::At(Publication { end, written_bytes, .. }, size, failure)) => {
                    assert_eq!(new, [(end - written_bytes, written_bytes)], "case {case}");
                    assert_eq!(size, Some((end, home.epoch)));
                    assert!(
                        written_bytes == LENGTH || failure.is_some_and(|why| takes_part || !why.is_full())
                    );
                    done += 1;
                    break;
                }
                Ok(Appended::Again) => assert!(new.is_empty(), "case {case}: appended twice"),
                Ok(Appended::Full(_)) => {
                    assert!(new.is_empty() && !takes_part, "case {case}");
                    takes_part = home.choices.below(2) == 0;
                }
                Ok(Appended::Failed(failure)) => {
                    assert!(new.is_empty() && !failure.is_open() && (takes_part || !failure.is_full()));
                    failed += 1;
                    break;
                }
                Err(_) => {
                    assert!(new.is_empty() || is_unknown, "case {case}");
                    failed += 1;
                    break;
                }
            }
            home.live_on();
        }
        (0..5).for_each(|_| home.live_on());
    }
    assert!(done > CASES / 4 && failed > CASES / 10, "{done} done, {failed} failed");
}
