//! Random orders of answers, breaks, silences, starts and lost fences: each call ends once and within its bound, a change is
//! carried out once at most, and no server counts as lost without a reason.

use crate::ClientError;
use crate::{Approach, Bounds, Break, Course, Delivery, Failed, Stall, Standing, Verdict};
use rustix::io::Errno as System;
use std::collections::BTreeSet;
use std::time::Duration;
use weir_placement::ServerId;
use weir_testing::Choices;
use weir_wire::Reply;

const CASES: u64 = 20_000;
const SILENCE: Duration = Duration::from_millis(8_000);
const TICK: Duration = Duration::from_millis(500);
/// More steps than a call takes that ends within its bounds.
const STEPS_MAX: u32 = 10_000;
const TARGET: ServerId = ServerId(1);
const HOME: ServerId = ServerId(2);

/// The fate of a server: in each phase other things happen to it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Well,
    /// Connections are refused or break.
    Broken,
    /// Connections are taken, and nothing is answered.
    Silent,
    /// Anything happens.
    Any,
}

/// A server and the network before it, in virtual time. The server keeps the ids of what it carried out over its starts.
struct Model {
    choices: Choices,
    now: Duration,
    phase: Phase,
    phase_ends: Duration,
    standing: Standing,
    /// The server carries a request out that shows an old fence, or none that it knows, after a question to the home only.
    strange: u32,
    executed: BTreeSet<u64>,
    /// A request of an earlier connection of the slot, which the server reads until the next connection ends that one.
    late: Option<u64>,
    /// The moment of the last sign of life that the call can know.
    lived: Duration,
}

/// A request in the model, beside what the reference knows of it.
struct Trip {
    id: u64,
    delivery: Delivery,
    /// The moment from which the connection has been silent.
    since: Duration,
    has_stalled: bool,
    breaks: u32,
}

impl Model {
    fn new(mut choices: Choices) -> Model {
        let strange = choices.below(12) as u32;
        let now = Duration::from_millis(choices.below(100_000));
        Model {
            strange: if choices.below(2) == 0 { 0 } else { strange },
            choices,
            now,
            phase: Phase::Well,
            phase_ends: now,
            standing: Standing::default(),
            executed: BTreeSet::new(),
            late: None,
            lived: now,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        while self.now >= self.phase_ends {
            self.phase = *self.choices.one_of(&[Phase::Well, Phase::Broken, Phase::Silent, Phase::Any]);
            self.phase_ends += Duration::from_millis(1 + self.choices.below(12_000));
        }
        if let Some(id) = self.late.filter(|_| self.choices.below(4) == 0) {
            self.receive(id);
        }
    }

    /// The fate of one step.
    fn fate(&mut self) -> Phase {
        match self.phase {
            Phase::Any => *self.choices.one_of(&[Phase::Well, Phase::Broken, Phase::Silent]),
            phase => phase,
        }
    }

    /// Some time, at most `limit`.
    fn some(&mut self, limit: Duration) -> Duration {
        Duration::from_millis(self.choices.below(limit.as_millis() as u64 + 1))
    }

    /// The server takes a request in full.
    fn receive(&mut self, id: u64) -> Reply {
        match self.strange {
            0 => {
                self.executed.insert(id);
                Reply::Done
            }
            _ if self.executed.contains(&id) => Reply::Done,
            _ => Reply::StaleFence,
        }
    }

    /// One attempt at a connection.
    fn attempt(&mut self, until: Duration) -> bool {
        let left = until.saturating_sub(self.now);
        let (is_reached, time) = match self.fate() {
            Phase::Silent => (false, left),
            Phase::Broken => (false, self.some(left.min(TICK))),
            _ => (true, self.some(left.min(TICK / 50))),
        };
        self.pass(time);
        self.late = if is_reached { None } else { self.late };
        is_reached
    }

    /// Attempts until the server is reached. The reason must be good where it is not.
    fn reach(&mut self, mut approach: Approach, bound: Duration) -> bool {
        let (began, is_once) = (self.now, self.standing.counts_as_lost(self.now));
        let mut last = self.now;
        loop {
            let until = approach.attempt(self.now);
            assert!(until <= began + bound, "an attempt beyond the bound");
            if self.attempt(until) {
                return true;
            }
            match approach.failed(self.now) {
                Failed::Pause(pause) => {
                    assert!(!is_once, "a lost server is tried once");
                    last = self.now + pause;
                    self.pass(pause);
                }
                Failed::Over(waited) => {
                    assert_eq!(waited, self.now - last);
                    let is_late = self.now + Duration::from_millis(250) >= until;
                    assert!(is_once || is_late, "given up at {:?} of {until:?}", self.now);
                    return false;
                }
            }
        }
    }

    /// Has a request delivered as the drivers do. Returns no reply where the server counts as lost.
    fn deliver(&mut self, id: u64) -> Option<Reply> {
        let delivery = Delivery::new(Bounds { silence: SILENCE, tries_again: true }, self.now);
        self.lived = self.now;
        let approach = delivery.approach(&self.standing, self.now);
        let mut trip = Trip { id, delivery, since: self.now, has_stalled: false, breaks: 0 };
        self.connect(&mut trip, approach)?;
        for _ in 0..STEPS_MAX {
            let silent = self.now - self.heard();
            assert!(silent <= SILENCE * 2 + TICK * 3, "silent for {silent:?}");
            let step = self.some(TICK);
            self.pass(step);
            match self.fate() {
                Phase::Broken => self.break_off(&mut trip)?,
                Phase::Well if self.choices.below(6) == 0 => {
                    self.standing.note_heard(self.now);
                    return Some(self.receive(id));
                }
                fate => self.stall(&mut trip, fate)?,
            }
        }
        panic!("the call does not end");
    }

    /// The last sign of life.
    fn heard(&self) -> Duration {
        self.lived.max(self.standing.heard())
    }

    fn connect(&mut self, trip: &mut Trip, approach: Approach) -> Option<()> {
        if !self.reach(approach, SILENCE) {
            return self.lose(Duration::ZERO);
        }
        trip.delivery.connected(self.now);
        (trip.since, trip.has_stalled) = (self.now, false);
        Some(())
    }

    fn break_off(&mut self, trip: &mut Trip) -> Option<()> {
        // The request may have come through before the break, or may be read later.
        match self.choices.below(3) {
            0 => _ = self.receive(trip.id),
            1 => self.late = Some(trip.id),
            _ => {}
        }
        trip.breaks += 1;
        self.standing.note_break();
        match trip.delivery.broke(&self.standing, self.now) {
            Break::Resend(pause, approach) => {
                assert!(trip.breaks <= 8, "sent again for ever");
                self.pass(pause);
                self.connect(trip, approach)
            }
            Break::Lost => {
                let is_over = self.now + Duration::from_millis(256) >= self.heard() + SILENCE * 2;
                assert!(trip.breaks > 8 || is_over, "lost after {} breaks", trip.breaks);
                self.lose(Duration::ZERO)
            }
            Break::Fail => panic!("the request is sent again"),
        }
    }

    fn stall(&mut self, trip: &mut Trip, fate: Phase) -> Option<()> {
        // What a connection takes at first is in the kernel, unless its buffers are full.
        let moved = (fate == Phase::Well || !trip.has_stalled) && self.choices.below(3) > 0;
        if moved {
            trip.since = self.now;
            self.lived = if trip.has_stalled { self.now } else { self.lived };
        }
        trip.has_stalled = true;
        let all = self.now - self.heard();
        match trip.delivery.stalled(moved, &self.standing, self.now) {
            Stall::Wait => {}
            Stall::Probe(limit) => {
                assert!(
                    !moved && limit <= SILENCE && all >= Duration::from_millis(250),
                    "asked after {all:?}"
                );
                self.probe(limit);
            }
            Stall::Lost(waited) => {
                let bound = trip.delivery.bounds.silence_of(&self.standing, self.now);
                let quiet = self.now - trip.since.max(self.standing.heard());
                // The time of connecting counts, but for a quarter of the bound.
                let is_silent = waited >= bound && quiet >= bound / 4;
                assert!(is_silent || all >= SILENCE * 2, "lost after {quiet:?}");
                return self.lose(waited);
            }
        }
        Some(())
    }

    fn probe(&mut self, limit: Duration) {
        match self.fate() {
            Phase::Well => {
                let time = self.some(limit.min(TICK));
                self.pass(time);
                self.standing.note_heard(self.now);
            }
            Phase::Broken => self.pass(TICK.min(limit)),
            _ => self.pass(limit),
        }
    }

    fn lose<T>(&mut self, waited: Duration) -> Option<T> {
        self.standing.lose(self.now, waited);
        None
    }
}

/// A call of a program, with the questions to the home that it takes.
fn carry_out(model: &mut Model, next_id: &mut u64) -> Result<(), ClientError> {
    let mut course = Course::new(TARGET, Some(HOME));
    let mut asked = 0;
    loop {
        *next_id += 1;
        let lost = ClientError::Lost { server: TARGET, waited_seconds: 8, is_another: false };
        let answer = model.deliver(*next_id).map(|reply| (reply, 0)).ok_or(lost);
        match course.judge(&answer) {
            Verdict::Done => return answer.map(|_| ()),
            Verdict::Fail => {
                assert!(asked >= 8, "given up after {asked} questions");
                return Err(ClientError::number(System::IO.raw_os_error()));
            }
            Verdict::Ask(home) => {
                asked += 1;
                assert!(home == HOME && asked <= 8);
                model.strange = model.strange.saturating_sub(1);
            }
        }
    }
}

#[test]
fn each_call_ends_once_within_its_bound_and_is_carried_out_once() {
    let mut choices = Choices::new();
    let (mut done, mut lost, mut failed) = (0, 0, 0);
    for case in 0..CASES {
        let mut model = Model::new(choices.branch());
        let mut next_id = 0;
        for call in 0..3 {
            if model.standing.fails_at_once(model.now) {
                model.pass(Duration::from_secs(1));
            }
            let first_id = next_id;
            let outcome = carry_out(&mut model, &mut next_id);
            // A connection ends the earlier ones of its slot, and the next call has another request.
            let carried_out = model.executed.iter().filter(|id| **id > first_id).count();
            match &outcome {
                Ok(()) => assert_eq!(carried_out, 1, "case {case}, call {call}"),
                Err(ClientError::Failed(_)) => assert_eq!(carried_out, 0, "case {case}, call {call}"),
                Err(_) => assert!(carried_out <= 1, "case {case}, call {call}"),
            }
            match outcome {
                Ok(()) => done += 1,
                Err(ClientError::Failed(_)) => failed += 1,
                Err(_) => lost += 1,
            }
        }
    }
    assert!(done > CASES / 4 && lost > CASES / 20 && failed > 0, "{done} done, {lost} lost, {failed} failed");
}
