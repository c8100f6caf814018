//! Random servers greet: honest ones that restart, release and refuse locks, and others that do not hold the key. A connection
//! that is ready has a server that proved itself and holds what the client believes to hold.

use crate::HeldLock;
use crate::{Greeted, Greeting, Guest, Standing};
use rustix::io::Errno as System;
use std::collections::BTreeSet;
use weir_placement::ServerId;
use weir_testing::{claims, key, Choices};
use weir_wire::{
    Capability, ClientId, Credential, Description, Errno, Fence, HandleId, Ino, LockKind, LockOwner,
    LockRange, LockType, Reply, Request, Rights, SessionBinding, SiteKey, UNSEALED,
};

const CASES: u64 = 300;
const CONNECTIONS: u64 = 12;
const NUMBER: ServerId = ServerId(3);

/// The other side of a connection.
struct Model {
    choices: Choices,
    key: SiteKey,
    boot: u64,
    /// Whether the server still has what the client holds.
    is_known: bool,
    handles: BTreeSet<u64>,
    locks: Vec<u64>,
    fence: Fence,
    claims_under: Fence,
    session: Option<SessionBinding>,
    has_proved: bool,
    claimed: u32,
}

/// The holdings of the client.
#[derive(Default)]
struct Record {
    handles: Vec<Capability>,
    locks: Vec<HeldLock>,
    lost: Vec<u64>,
}

fn capability(handle: u64) -> Capability {
    let description = Description { ino: Ino(1), handle: HandleId(handle), uid: 0 };
    key().capability(description, Rights { read: true, write: true }, 0)
}

fn lock(number: u64) -> HeldLock {
    HeldLock {
        ino: Ino(1),
        handle: HandleId(number),
        owner: LockOwner(number),
        pid: 1,
        kind: LockKind::Posix,
        lock: LockType::Write,
        range: LockRange { first: number, last: number },
    }
}

impl Model {
    /// An event of the server between two connections.
    fn live_on(&mut self) {
        match self.choices.below(4) {
            0 => {
                self.boot += 1;
                self.forget();
            }
            1 => self.forget(),
            _ => {}
        }
        self.key = if self.choices.below(8) == 0 { SiteKey::new([9; 32]) } else { key() };
        (self.session, self.has_proved, self.claimed) = (None, false, 0);
    }

    fn forget(&mut self) {
        self.is_known = false;
        self.handles.clear();
        self.locks.clear();
        self.fence = Fence(self.fence.0 + 1);
    }

    /// The answer to a request. Nothing where the connection breaks.
    fn answer(&mut self, guest: &Credential, request: &Request) -> Option<Reply> {
        match self.choices.below(60) {
            0 => return None,
            1 if !self.has_proved => return Some(Reply::Failed(Errno(System::ACCESS.raw_os_error() as u16))),
            2 if !self.has_proved => return Some(Reply::Done),
            _ => {}
        }
        Some(match request {
            Request::Hello { nonce, .. } => {
                let theirs = [5; 32];
                let number = if self.choices.below(20) == 0 { ServerId(4) } else { NUMBER };
                self.session = Some(SessionBinding::new(NUMBER, self.boot, (nonce, &theirs), &UNSEALED));
                Reply::Challenge { server: number, boot: self.boot, nonce: theirs }
            }
            Request::Prove { .. } => {
                let session = self.session.as_ref().expect("after a hello");
                let proof = self.key.server_proof(&guest.claims, session);
                self.has_proved = guest.server_is_genuine(session, &proof);
                Reply::Welcome { proof, is_known: self.is_known }
            }
            Request::Reclaim { handles } if handles.is_empty() => {
                self.is_known = true;
                Reply::Held { fence: self.fence }
            }
            Request::Reclaim { handles } => {
                assert!(self.has_proved && handles.len() <= 256);
                self.claimed += 1;
                self.handles.extend(handles.iter().map(|one| one.handle.0));
                Reply::Done
            }
            Request::Lock { owner, reclaim, wait: false, .. } => {
                assert!(self.has_proved);
                assert_eq!(*reclaim, Some(self.claims_under), "locks are claimed under the fence of before");
                self.claimed += 1;
                if self.choices.below(3) == 0 {
                    return Some(Reply::Failed(Errno(System::AGAIN.raw_os_error() as u16)));
                }
                self.locks.push(owner.0);
                Reply::Held { fence: self.fence }
            }
            other => panic!("{other:?} in a greeting"),
        })
    }
}

/// One connection. Returns whether it is ready.
fn greet(model: &mut Model, credential: &Credential, record: &mut Record, standing: &Standing) -> bool {
    let was_known = model.is_known;
    let guest = Guest {
        client: ClientId(7),
        credential,
        slot: 1,
        has_mount: false,
        nonce: [model.choices.below(256) as u8; 32],
        binding: UNSEALED,
    };
    let (mut greeting, mut next) = Greeting::new(guest, NUMBER, standing);
    let fence = standing.fence();
    model.claims_under = fence;
    let most = 3 + record.handles.len().div_ceil(256) + record.locks.len() * 2 + 2;
    for _ in 0..=most {
        assert_eq!(standing.fence(), fence, "a fence holds once all losses are noted");
        next = match next {
            Greeted::Ask(request) => match model.answer(credential, &request) {
                Some(reply) => greeting.take(reply),
                None => return false,
            },
            Greeted::Claim(_) if model.choices.below(8) == 0 => {
                let ready = greeting.claim(None, standing);
                assert!(matches!(ready, Greeted::Ready(_, _, None)), "a busy record claims nothing");
                return false;
            }
            Greeted::Claim(boot) => {
                assert!(model.has_proved && !was_known && boot == model.boot);
                standing.note_start(boot);
                greeting.claim(Some((record.handles.clone(), record.locks.clone())), standing)
            }
            Greeted::Lost(lock) => {
                record.locks.retain(|held| *held != lock);
                record.lost.push(lock.owner.0);
                greeting.go_on()
            }
            Greeted::Ready(session, boot, told) => {
                assert!(model.has_proved && boot == model.boot && model.session.as_ref() == Some(&session));
                assert_eq!(told.is_some(), !was_known);
                assert!(!was_known || model.claimed == 0, "nothing is claimed of a server that knows");
                told.into_iter().for_each(|fence| standing.renew_fence(fence));
                standing.note_start(boot);
                return true;
            }
            Greeted::Another(_) | Greeted::Unproved(_) | Greeted::Failed(_) => return false,
        };
    }
    panic!("the greeting does not end")
}

#[test]
fn a_ready_connection_has_a_server_that_proved_itself_and_holds_what_the_client_holds() {
    let mut choices = Choices::new();
    let credential = key().mint(claims(1000));
    let (mut ready, mut lost) = (0, 0);
    for case in 0..CASES {
        let standing = Standing::default();
        standing.note_fence(Fence(1));
        let mut model = Model {
            choices: choices.branch(),
            key: key(),
            boot: 1,
            is_known: false,
            handles: BTreeSet::new(),
            locks: Vec::new(),
            fence: Fence(1),
            claims_under: Fence(1),
            session: None,
            has_proved: false,
            claimed: 0,
        };
        let (many, few) = (model.choices.below(600), model.choices.below(6));
        let mut record = Record {
            handles: (0..many).map(capability).collect(),
            locks: (0..few).map(lock).collect(),
            lost: Vec::new(),
        };
        for _ in 0..CONNECTIONS {
            model.live_on();
            if !greet(&mut model, &credential, &mut record, &standing) {
                // What a server granted before the break is claimed again, and it may refuse that then.
                (model.is_known, model.locks) = (false, Vec::new());
                continue;
            }
            ready += 1;
            let believed: BTreeSet<u64> = record.handles.iter().map(|one| one.handle.0).collect();
            let locked: Vec<u64> = record.locks.iter().map(|lock| lock.owner.0).collect();
            assert_eq!(model.handles, believed, "case {case}");
            assert_eq!(model.locks, locked, "case {case}: in the order in which they were taken");
            assert!(standing.fence() >= model.fence, "case {case}");
        }
        lost += record.lost.len();
        record.lost.extend(record.locks.iter().map(|lock| lock.owner.0));
        record.lost.sort_unstable();
        assert!(record.lost.iter().copied().eq(0..few), "case {case}: each lock is held or lost, once");
    }
    assert!(ready > CASES && lost > 0, "{ready} ready, {lost} lost");
}
