//! Requests whose payload comes in pieces, driven by hand, without a server and its loop.

use super::*;
use crate::clock::tests::SetTime;
use crate::descriptors::Budget;
use crate::links::admission::Origin;
use crate::links::connection::tests::{frame, stream, Wire};
use crate::links::connection::Received;
use crate::links::link::LinkKey;
use crate::requests::tests::{none, sender};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use weir_fairshare::Direction;

/// The device of the writes, which has no memory: their payload goes into buffers.
const DEVICE: usize = 0;

/// A client that writes once, over a link of its own.
struct Writer {
    wire: Rc<RefCell<Wire>>,
    link: LinkKey,
    request: usize,
    /// The rest of its frame, which has not arrived yet.
    rest: Vec<u8>,
    size: usize,
    end: Option<End>,
}

#[derive(Debug, PartialEq)]
enum End {
    /// With this payload.
    Executed(Vec<u8>),
    GivenUp,
}

struct Bench {
    requests: Requests,
    links: Links,
    accounts: Accounts,
    time: Arc<SetTime>,
    clock: Clock,
    writers: Vec<Writer>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Bytes of a writer arrive.
    Arrive(usize, usize),
    /// The device has a turn.
    Turn,
    /// Milliseconds pass.
    Pass(u64),
    /// A writer's connection ends.
    Hang(usize),
}

impl Bench {
    fn new(sizes: &[usize]) -> Bench {
        let time = Arc::new(SetTime::default());
        let requests = none();
        let budget = Budget { links: 64, strangers: 64, callers: 4, objects: 4 };
        let mut bench = Bench {
            links: Links::new(&budget, requests.devices().sharing().policy()),
            requests,
            accounts: Accounts::new(1),
            clock: Clock::start(time.clone()),
            time,
            writers: Vec::new(),
        };
        sizes.iter().for_each(|&size| bench.begin(size));
        bench
    }

    /// A writer sends the head of a write of `size` bytes.
    fn begin(&mut self, size: usize) {
        let (stream, wire) = stream();
        let (number, now) = (self.writers.len(), self.clock.now());
        let (index, _) = self.links.accept(stream, Origin::User(0), now);
        let bytes = frame(number, size);
        let rest = bytes[bytes.len() - size..].to_vec();
        wire.borrow_mut().arrived.extend(&bytes[..bytes.len() - size]);
        let link = self.links.get_mut(index).expect("it was accepted");
        let key = LinkKey { index, serial: link.serial() };
        link.connection().mark_readable(false);
        let Received::Frame(frame) = link.connection().next_frame(usize::MAX) else { panic!("no frame") };
        assert_eq!(frame.detached_bytes, size);
        let request = InHand::new(sender(key, number as u64), 0, frame, Request::Ping, now);
        let token = self.requests.insert(request);
        let request = token.number();
        self.links.get_mut(index).expect("it is there").begin_request(request, true);
        self.writers.push(Writer { wire, link: key, request, rest, size, end: None });
        let work = Work { direction: Direction::Write, bytes: size as u64 };
        let next = self.requests.bring(token, (DEVICE, work), &mut self.links, now);
        self.pursue(next);
    }

    fn writer_of(&mut self, request: usize) -> &mut Writer {
        let is_it = |writer: &&mut Writer| writer.request == request && writer.end.is_none();
        self.writers.iter_mut().find(is_it).expect("its writer waits")
    }

    fn end(&mut self, token: Token, end: End) {
        let number = token.number();
        self.requests.end_service(&token, &mut self.accounts, &self.clock);
        let request = self.requests.remove(token);
        if let Some(link) = self.links.of(request.sender.link) {
            link.end_request(number);
        }
        self.writer_of(number).end = Some(end);
    }

    fn pursue(&mut self, next: Next) {
        match next {
            Next::Wait => {}
            Next::Receive(number) => {
                let token = self.requests.claim_receiving(number).expect("it receives");
                let before = self.clock.within_step();
                let next = self.requests.receive(token, before, &mut self.links, &mut [], &self.clock);
                self.pursue(next);
            }
            Next::Execute(token) => {
                let Sink::Buffer { bytes, filled } = self.requests[&token].arrival.take() else {
                    panic!("the payload went nowhere")
                };
                assert_eq!(filled, bytes.len());
                self.end(token, End::Executed(bytes));
            }
            Next::Drop(token) | Next::Fail(token) => self.end(token, End::GivenUp),
            Next::Close(index) => self.hang(index),
            Next::NoRoom(_) | Next::Conclude(..) | Next::Refuse(_) => unreachable!("no such device"),
        }
    }

    fn hang(&mut self, index: usize) {
        let Some(mut link) = self.links.remove(index) else { return };
        for number in link.take_requests() {
            if let Some((token, _)) = self.requests.give_up(number, &mut [], self.clock.now()) {
                self.end(token, End::GivenUp);
            }
        }
    }

    fn turn(&mut self) {
        let now = self.clock.now();
        while let Some(number) = self.requests.take_slow_sender(now) {
            let next = self.requests.look_for_payload(number, &mut self.links, now);
            self.pursue(next);
        }
        while let Some(number) = self.requests.devices_mut().finished(DEVICE, now) {
            let next = self.requests.advance(number, &[], &self.clock);
            self.pursue(next);
        }
        loop {
            let next = match self.requests.devices_mut().dispatch(DEVICE, now) {
                Some(dispatch) => {
                    let number = dispatch.token.0 as usize;
                    let link = self.writer_of(number).link;
                    let here = self.links.of(link).map_or(0, |link| link.connection().arrived());
                    assert!(here > 0, "a slot is given to a sender that has sent nothing");
                    self.requests.start(DEVICE, dispatch, &mut [], &mut self.accounts, &self.clock)
                }
                None => match self.requests.free_slot(DEVICE, &mut self.links, &mut self.accounts, now) {
                    Some(next) => next,
                    None => return,
                },
            };
            self.pursue(next);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Arrive(writer, bytes) => {
                let number = writer % self.writers.len();
                let writer = &mut self.writers[number];
                let count = bytes.min(writer.rest.len());
                writer.wire.borrow_mut().arrived.extend(writer.rest.drain(..count));
                let (key, request) = (writer.link, writer.request);
                let Some(link) = self.links.of(key) else { return };
                link.connection().mark_readable(false);
                if link.receiving() == Some(request) {
                    let next = self.requests.payload_arrived(request, &mut self.links, self.clock.now());
                    self.pursue(next);
                }
            }
            Step::Turn => self.turn(),
            Step::Pass(milliseconds) => {
                self.time.0.lock().unwrap().0 .0 += milliseconds * 1_000_000;
                self.clock.read();
            }
            Step::Hang(writer) => {
                let writer = &self.writers[writer % self.writers.len()];
                self.hang(writer.link.index);
            }
        }
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..16usize, 1..90_000usize).prop_map(|(writer, bytes)| Step::Arrive(writer, bytes)),
        4 => Just(Step::Turn),
        3 => (1..9u64).prop_map(Step::Pass),
        1 => (0..16usize).prop_map(Step::Hang),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// However the bytes of many writers come, pause and end: no slot waits for a sender that has sent nothing, each write whose
    /// bytes all come is carried out once with its bytes, every other one is given up once, and no slot stays taken.
    #[test]
    fn every_payload_that_comes_is_carried_out_once_and_no_slot_stays_taken(
        sizes in prop::collection::vec(66_000..300_000usize, 1..16),
        steps in prop::collection::vec(any_step(), 0..80),
    ) {
        let mut bench = Bench::new(&sizes);
        steps.iter().for_each(|step| bench.step(step));
        for _ in 0..40 {
            for writer in 0..sizes.len() {
                bench.step(&Step::Arrive(writer, 60_000));
            }
            bench.step(&Step::Turn);
            bench.step(&Step::Pass(6));
        }
        for (number, writer) in bench.writers.iter().enumerate() {
            match &writer.end {
                Some(End::Executed(bytes)) => prop_assert_eq!(bytes, &vec![number as u8; writer.size]),
                Some(End::GivenUp) => prop_assert!(bench.links.get_mut(writer.link.index).is_none()),
                None => prop_assert!(false, "the write of {} waits for ever", number),
            }
        }
        prop_assert_eq!(bench.requests.len(), 0);
        let device = &bench.requests.devices().all()[DEVICE];
        prop_assert_eq!((device.queued(), device.in_progress()), (0, 0));
    }
}
