//! The namespace as a whole, and the look-ups that all operations share.

use super::appends::turns::AppendTurns;
use super::change::Change;
use super::decision::{Step, Stop};
use super::errno::ESTALE;
use super::files::inode::{BirthNode, Inode};
use super::files::open::OpenFiles;
use super::intents::intent::IntentId;
use super::intents::outstanding::Effects;
use super::names::passes::Passes;
use super::quotas::usage::Quotas;
use super::replies::Replies;
use super::state::State;
use crate::unpublished::Unpublished;
use std::collections::HashMap;
use weir_placement::online::Placer;
use weir_placement::{LayoutDefaults, Ring, ServerId, TargetId};
use weir_wire::{ClientId, Errno, FileKind, Ino, JobId, Moment, RequestId, SiteKey};

/// The settings of a running server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This server.
    pub server: ServerId,
    /// Every server of the cluster.
    pub servers: Vec<ServerId>,
    /// Every target of the cluster.
    pub targets: Vec<TargetId>,
    /// Defaults for layouts that set nothing.
    pub layout: LayoutDefaults,
    /// The most memory that the server keeps for users, by the estimates of `namespace/quotas/estimates.rs`.
    pub kept_bytes_max: u64,
    /// Key of the site, for capabilities.
    pub key: SiteKey,
}

/// The namespace of one server.
#[derive(Clone, Debug)]
pub struct Namespace {
    pub(crate) settings: Settings,
    pub(crate) ring: Ring,
    /// Chooses the targets of new files. The journal has its choices, so it needs no record itself.
    pub(crate) targets: Placer,
    /// Targets that new files of jobs avoid.
    pub(crate) avoided: HashMap<JobId, Vec<TargetId>>,
    pub(crate) state: State,
    pub(crate) open: OpenFiles,
    pub(crate) turns: AppendTurns,
    pub(crate) effects: Effects,
    /// Replies that need not outlive the server.
    pub(crate) recent: Replies,
    pub(crate) passes: Passes,
    pub(crate) quotas: Quotas,
    /// Bytes behind the ends of files here. The journal does not have them: after a start they are found on the targets.
    pub(crate) unpublished: Unpublished,
    /// The most unpublished bytes of a user without a limit.
    pub(crate) unpublished_max: u64,
    /// Clients that the server knows.
    pub(crate) sessions: usize,
    /// Whether descriptions of earlier starts can still be reclaimed.
    pub(crate) in_grace: bool,
}

impl Namespace {
    /// An empty namespace.
    ///
    /// The owner replays the journal with [`Namespace::apply`], then journals and applies [`Namespace::start`], then carries out
    /// [`Namespace::pending_effects`]. When the grace period is over (at once if there was no journal), the owner
    /// calls [`Namespace::end_grace`] and commits [`Namespace::dispose_orphans`] until it answers `None`.
    pub fn new(settings: Settings) -> Namespace {
        Namespace {
            ring: Ring::new(settings.servers.iter().copied()),
            targets: Placer::new(settings.server, &settings.targets, settings.layout),
            avoided: HashMap::new(),
            state: State::new(settings.server),
            open: OpenFiles::default(),
            turns: AppendTurns::default(),
            effects: Effects::default(),
            recent: Replies::default(),
            passes: Passes::default(),
            quotas: Quotas::default(),
            unpublished: Unpublished::default(),
            unpublished_max: u64::MAX,
            sessions: 0,
            in_grace: false,
            settings,
        }
    }

    /// The change that begins a start of the server. The owner journals and applies the change before the first request.
    pub fn start(&self, now: Moment) -> Change {
        Change::Started { number: self.state.next_start(now), at: now }
    }

    /// The number of the last start, 0 before the first.
    pub fn last_start(&self) -> u32 {
        self.state.starts
    }

    /// Applies a change of the journal, or of a question before it is sent.
    pub fn apply(&mut self, change: &Change) {
        // A start that is not the first may have left descriptions that clients will reclaim.
        let restarted = matches!(change, Change::Started { .. }) && self.state.starts > 0;
        self.in_grace |= restarted;
        self.state.apply(change);
        match change {
            Change::Started { number, .. } => {
                self.open.begin(*number);
                self.turns.begin(*number, self.state.next_sequence);
            }
            Change::Resized { ino, cut: Some(_), .. } => self.turns.cut(*ino),
            _ => {}
        }
    }

    /// Completes the replay of a journal: indexes facts that no record tells alone.
    pub fn index(&mut self) {
        self.state.index();
    }

    /// Begins a snapshot of the journaled state of now, for a compacted journal: answers its first records. Those of
    /// [`Namespace::next_of_snapshot`] follow them. Changes that are applied meanwhile are no part of the snapshot.
    pub fn begin_snapshot(&mut self) -> impl Iterator<Item = Change> + '_ {
        self.state.begin_snapshot()
    }

    /// The next record of the snapshot; none at its end. The cost does not depend on the size of the state.
    pub fn next_of_snapshot(&mut self) -> Option<Change> {
        self.state.next_of_snapshot()
    }

    /// Memory of records of the snapshot that were to be shown before their subjects changed, and that nobody has taken yet.
    pub(crate) fn shown_bytes(&self) -> u64 {
        self.state.inodes.shown_bytes()
    }

    /// Ends a snapshot, also one that is not complete.
    pub fn end_snapshot(&mut self) {
        self.state.end_snapshot();
    }

    /// Whether this server has the file, with a name or open without one.
    pub fn has(&self, ino: Ino) -> bool {
        self.state.inodes.contains_key(&ino)
    }

    /// Whether the intent is settled.
    pub fn is_settled(&self, intent: IntentId) -> bool {
        !self.state.intents.contains_key(&intent)
    }

    /// Whether this server knows of no write to the objects of a file.
    pub fn is_untouched(&self, ino: Ino) -> bool {
        let file = self.state.regular(ino);
        file.is_some_and(|file| file.untouched_start != 0)
    }

    /// Whether a request was carried out before: a resend of it gets the same answer.
    pub(crate) fn remembers(&self, client: ClientId, request: RequestId) -> bool {
        self.state.replies.find(client, request).or_else(|| self.recent.find(client, request)).is_some()
    }

    /// The record that forgets the replies of a client that will not send again.
    pub fn forget_client(&self, client: ClientId) -> Change {
        Change::ClientForgotten { client }
    }

    /// Clients whose replies are remembered in the journal, the longest silent first.
    pub fn remembered_clients(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.state.replies.clients()
    }

    /// The placer, which chooses the targets of new files.
    pub(crate) fn placer(&self) -> &Placer {
        &self.targets
    }

    /// The placer, for news about the store.
    pub(crate) fn placer_mut(&mut self) -> &mut Placer {
        &mut self.targets
    }

    /// Has new files of jobs avoid targets from now on, and those of no other jobs.
    pub(crate) fn avoid(&mut self, avoided: HashMap<JobId, Vec<TargetId>>) {
        self.avoided = avoided;
    }

    /// The targets that new files of a job avoid.
    pub(crate) fn avoided_by(&self, job: JobId) -> &[TargetId] {
        self.avoided.get(&job).map_or(&[], Vec::as_slice)
    }

    /// Has new directories of the root, or of one with `spread`, have their homes on these servers. A directory stays where it
    /// is, and its number says where that is: so servers that know of other rings never disagree.
    pub(crate) fn spread_over(&mut self, servers: Vec<ServerId>) {
        if self.settings.servers != servers {
            self.ring = Ring::new(servers.iter().copied());
            self.settings.servers = servers;
        }
    }

    /// Takes another target of the store in.
    pub(crate) fn add_target(&mut self, target: TargetId) {
        self.targets.add(target);
    }

    /// Objects on a target by the layouts of files here, copies of moves that are under way, and objects of files that changed
    /// so that they have none there, as long as that is not done. Those last are the only ones of files without an inode.
    pub(crate) fn objects_on(&self, target: TargetId) -> u64 {
        self.state.objects_on(target)
    }

    /// The inode with this number. Only requests for an inode of the past or of another server miss it.
    pub(crate) fn inode(&self, ino: Ino) -> Result<&Inode, Errno> {
        self.state.inodes.get(&ino).ok_or(ESTALE)
    }

    /// The number of the next inode.
    pub(crate) fn next_ino(&self) -> Ino {
        Ino::new(self.settings.server, self.state.next_sequence)
    }

    /// Whether objects of `ino` may exist while nobody has the file open.
    pub(crate) fn is_touched(&self, ino: Ino) -> bool {
        let file = self.state.regular(ino);
        file.is_some_and(|file| file.untouched_start != self.state.starts)
    }

    /// Whether effects on objects of `ino` are under way: the file stays until they are done.
    pub(crate) fn is_settling(&self, ino: Ino) -> bool {
        let state = &self.state;
        state.cuts.contains_key(&ino) || state.moves.contains_key(&ino) || state.fences.contains_key(&ino)
    }

    /// Whether the kind of the entry is that of a directory held by another server.
    pub(crate) fn is_remote(&self, ino: Ino, kind: FileKind) -> bool {
        kind == FileKind::Directory && ino.home() != self.settings.server
    }

    /// Waits if the size and epoch of a file are about to change. A client must not learn the new epoch before every object has
    /// it: a cut could remove bytes that the client wrote under that epoch.
    pub(crate) fn await_cut(&self, ino: Ino) -> Step<()> {
        self.state.cuts.get(&ino).map_or(Ok(()), |&id| Err(Stop::Wait(id)))
    }

    /// Tells the placer of files that are made, written and removed, as these change the work of targets.
    pub(crate) fn count_placed(&mut self, change: &Change) {
        match change {
            Change::Created { ino, birth, at, .. } | Change::CreatedUnnamed { ino, birth, at, .. } => {
                if let BirthNode::Regular { layout, .. } = &birth.node {
                    self.targets.placed(layout, at.seconds);
                    self.targets.awaits(ino.0, layout, unix_seconds(*at));
                }
            }
            Change::Published { ino, at, .. } => self.targets.written(ino.0, unix_seconds(*at)),
            Change::LaidOut { ino, layout, at, .. } | Change::Detoured { ino, layout, at, .. } => {
                self.count_removed(*ino);
                self.targets.placed(layout, at.seconds);
            }
            Change::Disposed { ino, .. } => self.count_removed(*ino),
            _ => {}
        }
    }

    fn count_removed(&mut self, ino: Ino) {
        let inode = self.state.inodes.get(&ino);
        if let Some((inode, file)) = inode.and_then(|inode| Some((inode, inode.regular()?))) {
            self.targets.removed(&file.layout, inode.created.seconds);
        }
    }
}

/// A moment as seconds of Unix time.
fn unix_seconds(at: Moment) -> f64 {
    at.seconds as f64 + f64::from(at.nanoseconds) / 1e9
}
