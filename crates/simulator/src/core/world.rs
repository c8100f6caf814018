//! The part of a run that does not depend on its model: the clock, streams and their steps, files, machines, accounts.
//!
//! A [`Model`] moves bytes. The world tells it of operations and transfers that begin, and hears from it of those that
//! ended. [`run`] goes from moment to moment: first the events of the world at a moment, then those of the model.

use super::accounts::Accounts;
use super::events::Events;
use super::files::{parts, Files, Part};
use super::machines::Machines;
use super::step_times::StepTimes;
use super::streams::Streams;
use super::time::{nanos, seconds};
use crate::check::Settings;
use crate::observed::{Observed, Window};
use crate::outcome::{Outcome, Progress};
use crate::scenario::{Fault, Scenario};
use crate::workload::{Step, StepKind};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use weir_fairshare::{Direction, Nanos};

/// Events between two looks of the observer.
const OBSERVED_EVENTS: u64 = 256;

/// How operations and transfers take their time.
pub(crate) trait Model {
    /// A stream begins metadata operations. Their end is told by [`World::finish`].
    fn operate(&mut self, operations: Operations, world: &mut World<'_>);

    /// A stream begins a read or write. Its end is told by [`World::finish`].
    fn transfer(&mut self, transfer: Transfer, world: &mut World<'_>);

    /// The machines changed by a fault; the world has the new state already.
    fn fault(&mut self, fault: &Fault, world: &mut World<'_>);

    /// The moment of the model's next event.
    fn next(&self) -> Option<Nanos>;

    /// Takes the model's events that are due now. It may go on to later ones, and set the clock, as long as the world has no event
    /// before and no step ended.
    fn advance(&mut self, world: &mut World<'_>);

    /// All that happens at this moment has happened.
    fn settle(&mut self, world: &mut World<'_>);

    /// The run ends: accounts of what is under way are closed.
    fn close(&mut self, world: &mut World<'_>);
}

/// Metadata operations of a stream, one after the other, `depth` at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operations {
    pub(crate) stream: u32,
    pub(crate) job: u32,
    pub(crate) node: u32,
    pub(crate) server: u32,
    pub(crate) count: u64,
    /// A write changes something, and a read looks.
    pub(crate) direction: Direction,
    /// 0: all at once.
    pub(crate) depth: u32,
}

/// A read or write of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) stream: u32,
    pub(crate) job: u32,
    pub(crate) node: u32,
    pub(crate) direction: Direction,
    /// At least one.
    pub(crate) parts: Vec<Part>,
    /// Requests under way at once; 0: all.
    pub(crate) depth: u32,
}

/// All of a run but its model.
pub(crate) struct World<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) settings: &'a Settings,
    pub(crate) now: Nanos,
    pub(crate) machines: Machines,
    pub(crate) files: Files,
    pub(crate) streams: Streams<'a>,
    pub(crate) accounts: Accounts,
    /// Events that were taken; the model adds its own.
    pub(crate) events_taken: u64,
    /// Windows of the observed job, which the model tells at its close.
    pub(crate) windows: Vec<Window>,
    step_times: StepTimes,
    events: Events<Event>,
    /// Streams whose operations or transfers ended at this moment.
    finished: VecDeque<u32>,
    /// Streams whose file is made at the moment, before they write.
    is_making: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A stream may begin its step.
    Begin(u32),
    /// A fault of the scenario takes effect.
    Fault(u32),
}

impl<'a> World<'a> {
    pub(crate) fn new(scenario: &'a Scenario, settings: &'a Settings) -> World<'a> {
        let mut machines = Machines::new(&scenario.topology);
        let accounts = Accounts::new(scenario, settings.sharing.policy(), &machines);
        let files = Files::new(scenario, settings, &mut machines);
        let streams = Streams::new(&scenario.workload);
        let step_times = StepTimes::new(scenario.observe, streams.count());
        let mut events = Events::new();
        for (fault, number) in scenario.faults.iter().zip(0..) {
            events.push(nanos(fault.at_seconds), Event::Fault(number));
        }
        let mut world = World {
            scenario,
            settings,
            now: Nanos::ZERO,
            is_making: vec![false; streams.count()],
            machines,
            files,
            streams,
            accounts,
            events_taken: 0,
            windows: Vec::new(),
            step_times,
            events,
            finished: VecDeque::new(),
        };
        world.count_stripes_there();
        (0..world.streams.count() as u32).for_each(|stream| world.await_step(stream));
        world
    }

    /// The operations or the transfer of a stream ended now.
    pub(crate) fn finish(&mut self, stream: u32) {
        self.finished.push_back(stream);
    }

    /// Whether a step ended that was not taken up yet.
    pub(crate) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// The moment of the next event of the world.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.events.next()
    }

    /// Stripes of the files that are there before the run.
    fn count_stripes_there(&mut self) {
        for file in 0..self.scenario.workload.files.len() as u32 {
            self.count_stripes(file);
        }
    }

    fn count_stripes(&mut self, file: u32) {
        let Some(layout) = self.files.layout(file) else { return };
        for &target in layout.components().iter().flat_map(|component| &component.targets) {
            self.accounts.gives_stripe(self.machines.number(target));
        }
    }

    /// Asks for the event at which the stream begins its next step.
    fn await_step(&mut self, stream: u32) {
        if let Some(step) = self.streams.step(stream) {
            self.events.push(self.streams.begin(stream, step).max(self.now), Event::Begin(stream));
        }
    }

    /// The stream's step ended: accounts, and the next step.
    fn end_step(&mut self, stream: u32, kind: StepKind) {
        let job = self.streams.job(stream);
        self.accounts.ends(job, kind, self.now);
        self.step_times.end((job, stream), self.streams.number(stream), self.now);
        self.streams.end(stream, self.now);
        self.await_step(stream);
    }

    fn begin_step(&mut self, stream: u32, model: &mut impl Model) {
        let Some(step) = self.streams.step(stream) else { return };
        let job = self.streams.job(stream);
        self.accounts.begins(job, step.kind, self.now);
        self.step_times.begin((job, stream), self.now);
        match step.kind {
            StepKind::Compute => self.end_step(stream, step.kind),
            StepKind::Barrier => {
                for met in self.streams.meet(stream) {
                    self.end_step(met, StepKind::Barrier);
                }
            }
            StepKind::Create | StepKind::Remove => self.operate(stream, step, (1, 1), model),
            StepKind::Metadata if step.bytes == 0 => self.end_step(stream, step.kind),
            StepKind::Metadata => self.operate(stream, step, (step.bytes, step.depth), model),
            StepKind::Write if self.files.layout(step.file).is_none() => {
                self.is_making[stream as usize] = true;
                self.operate(stream, step, (1, 1), model);
            }
            StepKind::Read | StepKind::Write => self.begin_transfer(stream, step, model),
        }
    }

    fn operate(&mut self, stream: u32, step: &Step, (count, depth): (u64, u32), model: &mut impl Model) {
        let direction = match step.kind {
            StepKind::Metadata => Direction::Read,
            _ => Direction::Write,
        };
        let operations = Operations {
            stream,
            job: self.streams.job(stream),
            node: self.streams.node(stream),
            server: self.files.home(step.file),
            count,
            direction,
            depth: depth.max(1),
        };
        model.operate(operations, self);
    }

    /// The operations or the transfer of the stream ended.
    fn take_up(&mut self, stream: u32, model: &mut impl Model) {
        let Some(step) = self.streams.step(stream) else { return };
        match step.kind {
            StepKind::Create => _ = self.make(stream, step),
            StepKind::Remove => {
                let (files, machines) = (&mut self.files, &mut self.machines);
                files.remove(step.file, machines, self.now);
            }
            // Another stream of the job may have made the file meanwhile: then it is there.
            StepKind::Write
                if std::mem::take(&mut self.is_making[stream as usize]) && self.make(stream, step) =>
            {
                return self.begin_transfer(stream, step, model);
            }
            _ => {}
        }
        self.end_step(stream, step.kind);
    }

    /// Makes a file; false where it gets no targets.
    fn make(&mut self, stream: u32, step: &Step) -> bool {
        if self.files.layout(step.file).is_some() {
            return true;
        }
        let is_made = self.files.make(step.file, (&self.machines, self.settings, self.now)).is_ok();
        if is_made {
            self.count_stripes(step.file);
        } else {
            self.accounts.refuses_file(self.streams.job(stream));
        }
        is_made
    }

    fn begin_transfer(&mut self, stream: u32, step: &Step, model: &mut impl Model) {
        let direction = match step.kind {
            StepKind::Write => Direction::Write,
            _ => Direction::Read,
        };
        let job = self.streams.job(stream);
        // A file that nobody made, and that is read, was made by others.
        let is_there = self.make(stream, step);
        let range = (step.offset, step.offset + step.bytes);
        let has_room = is_there
            && (direction == Direction::Read
                || self.files.claim(step.file, range, (&mut self.machines, self.settings, self.now)));
        let layout = self.files.layout(step.file).filter(|_| has_room);
        let Some(layout) = layout else {
            if direction == Direction::Write {
                self.accounts.refuses_bytes(job, step.bytes);
            }
            return self.end_step(stream, step.kind);
        };
        let parts = parts(layout, (step.offset, step.bytes), step.request_bytes, &self.machines);
        if parts.is_empty() {
            return self.end_step(stream, step.kind);
        }
        let node = self.streams.node(stream);
        model.transfer(Transfer { stream, job, node, direction, parts, depth: step.depth }, self);
    }

    fn progress(&self) -> Progress {
        Progress {
            seconds: seconds(self.now),
            events: self.events_taken,
            steps_done: self.streams.done(),
            steps: self.scenario.workload.steps.len() as u64,
        }
    }

    /// Takes all events of the world, and all ends of steps, at this moment.
    fn advance(&mut self, model: &mut impl Model) {
        loop {
            if let Some(stream) = self.finished.pop_front() {
                self.take_up(stream, model);
                continue;
            }
            let Some(event) = self.events.due(self.now) else { return };
            self.events_taken += 1;
            match event {
                Event::Begin(stream) => self.begin_step(stream, model),
                Event::Fault(number) => {
                    let fault = &self.scenario.faults[number as usize];
                    self.files.placers().hit(fault, &mut self.machines, self.now);
                    model.fault(fault, self);
                }
            }
        }
    }
}

/// Runs the world by a model until all work is done, nothing can happen any more, the scenario ends, or the observer says so.
pub(crate) fn run<M: Model>(
    mut world: World<'_>,
    mut model: M,
    observe: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Outcome {
    let end = world.scenario.until_seconds.map_or(Nanos(u64::MAX), nanos);
    let steps = world.scenario.workload.steps.len() as u64;
    let mut observed = 0;
    while world.streams.done() < steps {
        let next = [world.events.next(), model.next()].into_iter().flatten().min();
        let Some(next) = next.filter(|&next| next <= end) else {
            if next.is_some() {
                world.now = end;
            }
            break;
        };
        world.now = next;
        loop {
            world.advance(&mut model);
            if model.next().is_none_or(|next| next > world.now) {
                break;
            }
            model.advance(&mut world);
        }
        model.settle(&mut world);
        if world.events_taken - observed >= OBSERVED_EVENTS {
            observed = world.events_taken;
            if observe(world.progress()).is_break() {
                break;
            }
        }
    }
    model.close(&mut world);
    let World { scenario, now, events_taken, machines, accounts, windows, step_times, .. } = world;
    let observed = scenario.observe.map(|_| Observed { windows, steps: step_times.into_ended() });
    Outcome { observed, ..accounts.close(now, events_taken, &machines) }
}
