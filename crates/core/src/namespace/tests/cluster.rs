//! Servers in memory that do the work of the event loop: they journal, commit, carry out effects and ask each other.

use super::super::{
    Answer, Caller, Change, Decision, Effect, Namespace, PeerFailure, Question, Settings, Verdict,
};
use super::kept::check_use;
use super::versions::Told;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_placement::{LayoutDefaults, ServerId, TargetId};
use weir_wire::{
    At, Attributes, Capability, ClientId, DirectoryEntry, Errno, HandleId, Identity, Ino, JobId, Moment,
    OpenFlags, PeerReply, PeerRequest, Reply, Request, RequestId, SiteKey,
};

/// More detours than any path of the tests has.
const DETOURS: usize = 64;
/// Targets of each server.
const TARGETS_EACH: u16 = 2;

/// The fate of a question to another server, or of an effect there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// It does not arrive.
    Lost,
    /// It is carried out, and nobody hears of that.
    AnswerLost,
    /// It is carried out, and the server that asked is killed before the answer comes.
    Crash,
}

/// Records that a snapshot in slices shows after each step.
const RECORDS_PER_SLICE: usize = 2;

/// A cluster.
pub(super) struct Cluster {
    pub(super) servers: Vec<Namespace>,
    pub(super) journals: Vec<Vec<Change>>,
    /// The objects of the targets, as lengths by epoch: they show the work of effects.
    pub(super) objects: BTreeMap<(Ino, TargetId), (u64, u64)>,
    /// Servers that answer nobody.
    pub(super) unreachable: BTreeSet<ServerId>,
    /// Effects of servers for those that answer nobody.
    pub(super) undone: VecDeque<(usize, Effect)>,
    /// The fates of the next questions and effects; all others have the usual one.
    pub(super) fates: VecDeque<Fate>,
    /// Whether the sums of use were damaged on purpose.
    pub(super) is_damaged: bool,
    /// Whether effects are kept back.
    pub(super) holds_effects: bool,
    /// Snapshots that are taken in slices, beside everything else.
    showings: Vec<Option<Showing>>,
    told: Told,
    pub(super) client: ClientId,
    pub(super) now: Moment,
    next_request: u64,
}

/// A snapshot in slices, and the whole one of the moment at which it began.
struct Showing {
    shown: Vec<Change>,
    whole: Vec<Change>,
}

pub(super) fn settings(server: u16, servers: u16) -> Settings {
    let targets = (0..servers)
        .flat_map(|server| (0..TARGETS_EACH).map(move |index| TargetId { server: ServerId(server), index }))
        .collect();
    Settings {
        server: ServerId(server),
        servers: (0..servers).map(ServerId).collect(),
        targets,
        layout: LayoutDefaults { stripe_bytes: 4096, stripe_count: 3 },
        kept_bytes_max: 1 << 32,
        key: SiteKey::new([7; 32]),
    }
}

pub(super) fn root() -> Identity {
    Identity { uid: 0, gid: 0, groups: Vec::new() }
}

pub(super) fn user(uid: u32) -> Identity {
    Identity { uid, gid: uid, groups: vec![uid, 2000] }
}

pub(super) fn writing() -> OpenFlags {
    OpenFlags { write: true, ..OpenFlags::default() }
}

/// A whole snapshot.
pub(super) fn snapshot(namespace: &mut Namespace) -> Vec<Change> {
    let mut records: Vec<Change> = namespace.begin_snapshot().collect();
    records.extend(std::iter::from_fn(|| namespace.next_of_snapshot()));
    namespace.end_snapshot();
    records
}

impl Cluster {
    pub(super) fn new(servers: u16) -> Cluster {
        let mut cluster = Cluster {
            servers: (0..servers).map(|server| Namespace::new(settings(server, servers))).collect(),
            journals: vec![Vec::new(); usize::from(servers)],
            objects: BTreeMap::new(),
            unreachable: BTreeSet::new(),
            undone: VecDeque::new(),
            fates: VecDeque::new(),
            is_damaged: false,
            holds_effects: false,
            showings: (0..servers).map(|_| None).collect(),
            told: Told::default(),
            client: ClientId(1),
            now: Moment { seconds: 1_800_000_000, nanoseconds: 0 },
            next_request: 1,
        };
        for server in 0..usize::from(servers) {
            cluster.start(server, false);
        }
        cluster
    }

    fn start(&mut self, server: usize, is_older: bool) {
        let mut start = self.servers[server].start(0, self.now);
        if let Change::Started { is_older: raises, .. } = &mut start {
            *raises = is_older;
        }
        self.journal(server, std::slice::from_ref(&start));
        self.servers[server].apply(&start);
    }

    /// Kills a server and brings it back from its journal.
    pub(super) fn restart(&mut self, server: usize) {
        self.replay(server, false);
    }

    /// Brings a server back from its journal, which is older than the objects.
    pub(super) fn restore(&mut self, server: usize) {
        self.replay(server, true);
    }

    fn replay(&mut self, server: usize, is_older: bool) {
        let mut fresh = Namespace::new(settings(server as u16, self.servers.len() as u16));
        for change in &self.journals[server] {
            fresh.apply(change);
        }
        fresh.index();
        check_use(&fresh);
        self.replace(server, fresh);
        self.now.seconds += 10;
        self.undone.retain(|(from, _)| *from != server);
        self.start(server, is_older);
        let effects = self.servers[server].pending_effects();
        self.carry_out_all(server, effects);
    }

    /// Takes a description back, as a client does after a restart of its server.
    pub(super) fn reclaim(&mut self, who: &Identity, capability: Capability) {
        let (client, request, acknowledged) = (self.client, RequestId(0), RequestId(0));
        let caller = Caller { client, request, acknowledged, who, job: JobId::default(), trusted: false };
        let server = usize::from(capability.ino.home().0);
        assert_eq!(self.servers[server].reclaim(&caller, &[capability]), Ok(()));
    }

    /// Ends the grace period of a server.
    pub(super) fn end_grace(&mut self, server: usize) {
        self.servers[server].files_mut().end_grace();
        while let Some(decision) = self.servers[server].dispose_orphans() {
            self.commit(server, &decision);
        }
    }

    /// Every record must survive its encoding.
    fn journal(&mut self, server: usize, changes: &[Change]) {
        for change in changes {
            let bytes = postcard::to_stdvec(change).expect("a change encodes");
            let read: Change = postcard::from_bytes(&bytes).expect("a change decodes");
            assert_eq!(&read, change);
            self.journals[server].push(read);
        }
    }

    pub(super) fn commit(&mut self, server: usize, decision: &Decision) {
        self.journal(server, &decision.changes);
        let effects = self.servers[server].commit(decision);
        // A count of many inodes after each step would take most of a test's time.
        if self.servers[server].files().inodes().len() < 64 && !self.is_damaged {
            check_use(&self.servers[server]);
            self.show_some(server);
        }
        self.carry_out_all(server, effects);
    }

    fn carry_out_all(&mut self, server: usize, effects: Vec<Effect>) {
        for effect in effects {
            if self.holds_effects || self.unreachable.contains(&effect.server) {
                self.undone.push_back((server, effect));
            } else {
                self.carry_out(server, effect);
            }
        }
    }

    fn carry_out(&mut self, server: usize, effect: Effect) {
        let is_here = usize::from(effect.server.0) == server;
        let fate = if is_here { Fate::Answered } else { self.fates.pop_front().unwrap_or(Fate::Answered) };
        if fate != Fate::Answered {
            if fate != Fate::Lost {
                let _ = self.serve_peer(server, effect.server, &effect.request);
            }
            return self.undone.push_back((server, effect));
        }
        let result = self.serve_peer(server, effect.server, &effect.request).map(|_| ());
        let finished = self.servers[server].finish_effect(effect.intent, effect.part, result, self.now);
        if let Some(decision) = finished {
            self.commit(server, &decision);
        }
    }

    /// Carries out the effects of a server that were kept back.
    pub(super) fn catch_up(&mut self, server: usize) {
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            self.undone.drain(..).partition(|(from, _)| *from == server);
        self.undone = others;
        for (_, effect) in own {
            self.carry_out_all(server, vec![effect]);
        }
    }

    fn serve_peer(&mut self, from: usize, to: ServerId, request: &PeerRequest) -> Result<PeerReply, Errno> {
        match request {
            PeerRequest::TruncateObject { ino, target, length, epoch }
            | PeerRequest::FenceObject { ino, target, length, epoch } => {
                let object = self.objects.entry((*ino, *target)).or_default();
                if object.1 < *epoch {
                    *object = (object.0.min(*length), *epoch);
                }
                Ok(PeerReply::Done)
            }
            PeerRequest::RemoveObject { ino, target } => {
                self.objects.remove(&(*ino, *target));
                Ok(PeerReply::Done)
            }
            _ => {
                let to = usize::from(to.0);
                let decision = self.servers[to].decide_peer(ServerId(from as u16), request, self.now)?;
                self.journal(to, &decision.changes);
                for change in &decision.changes {
                    self.servers[to].apply(change);
                }
                Ok(decision.reply)
            }
        }
    }

    /// A request of the default client under a new id, sent to one server.
    pub(super) fn send(&mut self, server: usize, who: &Identity, request: &Request) -> Result<Reply, Errno> {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.send_as(server, (self.client, id), who, request, &[]).map(|(reply, _)| reply)
    }

    pub(super) fn send_as(
        &mut self,
        server: usize,
        (client, request_id): (ClientId, RequestId),
        who: &Identity,
        request: &Request,
        payload: &[u8],
    ) -> Result<(Reply, Vec<u8>), Errno> {
        self.now.nanoseconds = (self.now.nanoseconds + 1) % 1_000_000_000;
        let acknowledged = RequestId(request_id.0.saturating_sub(64));
        let caller =
            Caller { client, request: request_id, acknowledged, who, job: JobId::default(), trusted: false };
        let mut verdict = self.servers[server].decide(&caller, request, payload, self.now)?;
        loop {
            match verdict {
                Verdict::Done(decision) => return self.finish(server, who.uid, decision),
                Verdict::Full => return Err(super::super::errno::ENOSPC),
                Verdict::Wait(_) if !self.undone.is_empty() => return Err(super::super::errno::EAGAIN),
                Verdict::Wait(intent) => panic!("{request:?} waits for {intent:?}"),
                Verdict::Ask(question) => verdict = self.ask(server, question),
            }
        }
    }

    fn ask(&mut self, server: usize, question: Question) -> Verdict {
        self.journal(server, &question.changes);
        for change in &question.changes {
            self.servers[server].apply(change);
        }
        let fate = self.fates.pop_front().unwrap_or(Fate::Answered);
        let is_lost = fate == Fate::Lost || self.unreachable.contains(&question.server);
        let served = match is_lost {
            true => Err(PeerFailure::Unreachable),
            false => {
                self.serve_peer(server, question.server, &question.request).map_err(PeerFailure::Refused)
            }
        };
        let answer = match fate {
            Fate::Answered => served,
            Fate::Lost | Fate::AnswerLost => Err(PeerFailure::Unreachable),
            Fate::Crash => {
                self.restart(server);
                return Verdict::now(Reply::Failed(super::super::errno::EIO));
            }
        };
        self.servers[server].resume(question.continuation, answer, self.now)
    }

    fn finish(&mut self, server: usize, uid: u32, decision: Decision) -> Result<(Reply, Vec<u8>), Errno> {
        self.commit(server, &decision);
        if !self.holds_effects && self.unreachable.is_empty() && self.undone.is_empty() {
            let all_settled = decision.wait.iter().all(|&intent| self.servers[server].is_settled(intent));
            assert!(all_settled, "effects are carried out at once");
        }
        let answer: Answer = decision.answer;
        match self.servers[server].answer(answer, uid, self.now) {
            (Reply::Failed(errno), _) => Err(errno),
            (reply, payload) => {
                self.told.note(&reply, &payload);
                Ok((reply, payload))
            }
        }
    }

    /// A request about one path, followed over redirects.
    pub(super) fn follow(
        &mut self,
        who: &Identity,
        at: At,
        payload: &[u8],
        request: impl Fn(At) -> Request,
    ) -> Result<(Reply, Vec<u8>), Errno> {
        self.follow_where(who, at, payload, request).map(|(answer, _)| answer)
    }

    /// Sends a request as [`Cluster::follow`] does; answers also the place at which the home found the path.
    fn follow_where(
        &mut self,
        who: &Identity,
        at: At,
        payload: &[u8],
        request: impl Fn(At) -> Request,
    ) -> Result<((Reply, Vec<u8>), At), Errno> {
        let mut at = at;
        for _ in 0..DETOURS {
            let id = (self.client, RequestId(self.next_request));
            self.next_request += 1;
            let server = usize::from(at.ino.home().0);
            match self.send_as(server, id, who, &request(at.clone()), payload)? {
                (Reply::Redirect { at: next }, _) => at = next,
                // The home does not know yet, or no more, what became of the directory.
                (Reply::Stale, _) => return Err(super::super::errno::ESTALE),
                answered => return Ok((answered, at)),
            }
        }
        panic!("a path that never ends");
    }

    /// The attributes of the node at a path from the root.
    pub(super) fn attributes(&mut self, who: &Identity, at: At, follow: bool) -> Result<Attributes, Errno> {
        self.found(who, at, follow).map(|(attributes, _)| attributes)
    }

    /// The attributes of a node, and the place at which its home finds the node.
    pub(super) fn found(&mut self, who: &Identity, at: At, follow: bool) -> Result<(Attributes, At), Errno> {
        match self.follow_where(who, at, &[], |at| Request::Attributes { at, follow })? {
            ((Reply::Attributes(attributes), _), at) => Ok((attributes, at)),
            (other, _) => panic!("{other:?}"),
        }
    }

    /// Resolves the directory of a path, as a client does for operations with two paths.
    pub(super) fn parent(&mut self, who: &Identity, at: &At) -> Result<At, Errno> {
        let trimmed = at.path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let slash = at.path[..trimmed].iter().rposition(|&byte| byte == b'/');
        let (parent, name) = slash.map_or((&[][..], &at.path[..]), |slash| at.path.split_at(slash + 1));
        // The dot asks for search permission on the directory itself, as the kernel does.
        let searched = At::new(at.ino, [parent, b"."].concat());
        let (directory, mut place) = self.found(who, searched, true)?;
        if directory.ino.home() != place.ino.home() {
            return Ok(At::new(directory.ino, name));
        }
        place.path.extend_from_slice(b"/");
        place.path.extend_from_slice(name);
        Ok(place)
    }

    pub(super) fn open(&mut self, who: &Identity, at: At, flags: OpenFlags) -> Result<Reply, Errno> {
        self.follow(who, at, &[], |at| Request::Open { at, flags, permissions: 0o644, layout: None })
            .map(|(reply, _)| reply)
    }

    pub(super) fn close(&mut self, ino: Ino, handle: HandleId) {
        let server = usize::from(ino.home().0);
        assert_eq!(self.send(server, &root(), &Request::Close { ino, handle }), Ok(Reply::Done));
    }

    /// All entries of a directory, in one page after the other of `bytes`.
    pub(super) fn list(
        &mut self,
        who: &Identity,
        ino: Ino,
        bytes: u32,
    ) -> Result<Vec<DirectoryEntry>, Errno> {
        let mut entries: Vec<DirectoryEntry> = Vec::new();
        loop {
            let cookie = entries.last().map_or(0, |entry| entry.cookie);
            let list =
                |at: At| Request::List { ino: at.ino, handle: HandleId(0), cookie, bytes, attributes: true };
            let (reply, payload) = self.follow(who, At::inode(ino), &[], list)?;
            assert!(payload.len() <= bytes as usize);
            let page: Vec<DirectoryEntry> = postcard::from_bytes(&payload).expect("a listing decodes");
            entries.extend(page);
            if reply == (Reply::Listing { end: true }) {
                return Ok(entries);
            }
        }
    }

    /// Puts another namespace into the place of a server's, whose snapshot in slices ends.
    pub(super) fn replace(&mut self, server: usize, namespace: Namespace) {
        self.showings[server] = None;
        self.servers[server] = namespace;
    }

    /// Goes on with a snapshot in slices of a server: it is the whole snapshot of the moment at which it began.
    fn show_some(&mut self, server: usize) {
        let namespace = &mut self.servers[server];
        let Some(showing) = &mut self.showings[server] else {
            let whole = snapshot(&mut namespace.clone());
            let shown = namespace.begin_snapshot().collect();
            self.showings[server] = Some(Showing { shown, whole });
            return;
        };
        for _ in 0..RECORDS_PER_SLICE {
            match namespace.next_of_snapshot() {
                Some(record) => showing.shown.push(record),
                None => {
                    namespace.end_snapshot();
                    let Some(showing) = self.showings[server].take() else { return };
                    let restored = |records: &[Change]| snapshot(&mut self.restored(server, records));
                    assert_eq!(
                        restored(&showing.shown),
                        restored(&showing.whole),
                        "a snapshot in slices differs"
                    );
                    return;
                }
            }
        }
    }

    fn restored(&self, server: usize, records: &[Change]) -> Namespace {
        let mut restored = Namespace::new(settings(server as u16, self.servers.len() as u16));
        records.iter().for_each(|change| restored.apply(change));
        restored.index();
        restored
    }

    /// Checks the cluster at rest: a replay of the journal gives the live state, a snapshot restores that state, and nothing is
    /// left over.
    pub(super) fn check(&self) {
        for (server, namespace) in self.servers.iter().enumerate() {
            let live = snapshot(&mut namespace.clone());
            let mut replayed = self.restored(server, &self.journals[server]);
            assert!(live == snapshot(&mut replayed), "replay differs");
            let mut restored = self.restored(server, &live);
            assert!(live == snapshot(&mut restored), "restore differs");
            for each in [namespace, &replayed, &restored] {
                check_use(each);
            }
        }
    }

    /// Inodes of all servers.
    pub(super) fn inodes(&self) -> u64 {
        self.servers.iter().map(|namespace| namespace.statistics().inodes).sum()
    }

    /// Whether any server has unfinished work.
    pub(super) fn is_settled(&self) -> bool {
        self.servers.iter().all(|namespace| namespace.intents.is_empty())
    }
}
