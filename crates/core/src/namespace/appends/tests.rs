//! Appends over files that have no name.

use super::{Appender, Appends, NextTurn, TurnReply};
use crate::namespace::decision::Caller;
use crate::namespace::errno::{EBADF, ESTALE};
use crate::namespace::files::tests::{file, started, WRITING};
use crate::namespace::files::{Files, Opening};
use crate::namespace::intents::{Intent, IntentId};
use weir_wire::{Capability, ClientId, HandleId, Identity, Ino, JobId, Moment, Reply, RequestId, Rights};

const NOW: Moment = Moment { seconds: 1_800_000_000, nanoseconds: 0 };

fn caller(who: &Identity, client: u64) -> Caller<'_> {
    let (client, request) = (ClientId(client), RequestId(1));
    let (acknowledged, job, trusted) = (RequestId(0), JobId::default(), false);
    Caller { client, request, acknowledged, who, job, trusted }
}

/// A file that a client has open, and its capability.
fn opened(files: &mut Files, rights: Rights) -> Capability {
    let (ino, handle) = (files.next_ino(), files.open().next_handle());
    files.give_birth_unnamed(ino, &file(), true, NOW);
    files.open_mut().open(Opening { handle, client: ClientId(1), uid: 1, ino, rights });
    files.capability((ino, handle), rights, 1, NOW)
}

#[test]
fn appenders_follow_each_other_but_for_a_cut() {
    let (mut files, mut appends) = (started(), Appends::default());
    let capability = opened(&mut files, WRITING);
    let (who, ino) = (Identity { uid: 1, gid: 1, groups: Vec::new() }, capability.ino);
    let ask =
        |appends: &mut Appends, files: &Files, client| appends.ask(files, &caller(&who, client), &capability);
    let Ok(TurnReply::Now(Reply::Turn { turn, offset: 0, epoch: 0 })) = ask(&mut appends, &files, 1) else {
        panic!("the file is free")
    };
    assert!(appends.holds(ino, ClientId(1), turn));
    assert_eq!(ask(&mut appends, &files, 2), Ok(TurnReply::Later));
    assert_eq!(ask(&mut appends, &files, 3), Ok(TurnReply::Later));
    let NextTurn::Granted(grant) = appends.pass(&files, ino) else { panic!("two wait") };
    assert_eq!(grant.appender, Appender { client: ClientId(2), request: RequestId(1) });
    let cut = Intent::Cut { ino, size_bytes: 0, epoch: 1, objects: Vec::new(), at: NOW };
    files.mark(IntentId(5), 1, &cut);
    let last = Appender { client: ClientId(3), request: RequestId(1) };
    assert_eq!(appends.pass(&files, ino), NextTurn::AfterCut(IntentId(5), vec![last]));
    assert_eq!(ask(&mut appends, &files, 3), Ok(TurnReply::Wait(IntentId(5))));
    files.unmark(IntentId(5), &cut);
    files.resize(ino, 0, 1, NOW);
    assert!(matches!(
        ask(&mut appends, &files, 3),
        Ok(TurnReply::Now(Reply::Turn { offset: 0, epoch: 1, .. }))
    ));
    assert_eq!(appends.drop_client(&files, ClientId(3), |_| true), [NextTurn::Nobody]);
}

#[test]
fn a_file_is_cut_before_its_next_append_where_the_client_of_its_turn_went_during_a_move() {
    let (mut files, mut appends) = (started(), Appends::default());
    let capability = opened(&mut files, WRITING);
    let (who, ino) = (Identity { uid: 1, gid: 1, groups: Vec::new() }, capability.ino);
    let must_cut = |appends: &Appends, files: &Files| appends.must_cut(files, &caller(&who, 2), &capability);
    appends.begin(1, ino.sequence());
    for (intent, is_cut, must) in [
        (Intent::Cut { ino, size_bytes: 0, epoch: 1, objects: Vec::new(), at: NOW }, true, false),
        (Intent::Freeze { ino }, false, true),
        (Intent::Seal { ino, epoch: 1, objects: Vec::new() }, false, true),
    ] {
        for client in [1, 2] {
            assert!(appends.ask(&files, &caller(&who, client), &capability).is_ok());
        }
        files.mark(IntentId(5), 1, &intent);
        let waiting = vec![Appender { client: ClientId(2), request: RequestId(1) }];
        let dropped = appends.drop_client(&files, ClientId(1), |_| is_cut);
        assert_eq!(dropped, [NextTurn::AfterCut(IntentId(5), waiting)]);
        files.unmark(IntentId(5), &intent);
        assert_eq!(must_cut(&appends, &files), must, "{intent:?}");
        appends.cut(ino);
        assert!(!must_cut(&appends, &files));
    }
    appends.uncut.insert(ino);
    appends.forget(ino);
    assert!(!must_cut(&appends, &files));
}

#[test]
fn a_turn_needs_a_description_that_is_open_for_writing() {
    let (mut files, mut appends) = (started(), Appends::default());
    let who = Identity { uid: 1, gid: 1, groups: Vec::new() };
    let reading = opened(&mut files, Rights { read: true, write: false });
    assert_eq!(appends.ask(&files, &caller(&who, 1), &reading), Err(EBADF));
    let writing = opened(&mut files, WRITING);
    files.open_mut().close(writing.handle, ClientId(1));
    assert_eq!(appends.ask(&files, &caller(&who, 1), &writing), Err(ESTALE));
    assert_eq!(files.hold(&[reading, writing]), [true, false]);
    assert_eq!(appends.held_by(ClientId(1)), [] as [Ino; 0]);
    assert_ne!(reading.handle, HandleId::NONE);
}
