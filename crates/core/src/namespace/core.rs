//! The namespace as a whole: its parts, what they keep together, and the way of each change to them.

use super::appends::Appends;
use super::change::Change;
use super::decision::Caller;
use super::draft::Draft;
use super::files::{changed_file, Files, Places};
use super::intents::{Intent, IntentId, Intents};
use super::names::Names;
use super::quotas::estimates::{
    DESCRIPTION_BYTES, INODE_BYTES, NAME_BYTES, RELEASED_BYTES, REPLY_BYTES, SESSION_BYTES,
};
use super::quotas::KeptMemory;
use super::replies::Replies;
use weir_placement::online::Placer;
use weir_placement::{LayoutDefaults, ServerId, TargetId};
use weir_wire::{ClientId, Moment, RequestId, RoomReport, SiteKey};

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
    pub(super) names: Names,
    pub(super) intents: Intents,
    pub(super) appends: Appends,
    /// Replies of the journal, which outlive the server.
    pub(super) replies: Replies,
    /// Replies that need not outlive the server.
    pub(super) recent: Replies,
    /// Clients that the server knows.
    sessions: usize,
    /// The most memory that the server keeps for users.
    pub(super) kept_bytes_max: u64,
}

impl Namespace {
    /// An empty namespace.
    ///
    /// The owner replays the journal with [`Namespace::apply`], then journals and applies [`Namespace::start`], then carries out
    /// [`Namespace::pending_effects`]. When the grace period is over (at once if there was no journal), the owner
    /// calls [`Files::end_grace`] and commits [`Namespace::dispose_orphans`] until it answers `None`.
    pub fn new(settings: Settings) -> Namespace {
        let Settings { server, servers, targets, layout, kept_bytes_max, key } = settings;
        let places = Places::new(Placer::new(server, &targets, layout), layout);
        Namespace {
            names: Names::new(Files::new(server, key, places), servers),
            intents: Intents::new(server),
            appends: Appends::default(),
            replies: Replies::default(),
            recent: Replies::default(),
            sessions: 0,
            kept_bytes_max,
        }
    }

    /// The names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The names, for news about the store and about ways that users walked.
    pub(crate) fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// The files.
    pub fn files(&self) -> &Files {
        self.names.files()
    }

    /// The files, for what the journal does not have.
    pub(crate) fn files_mut(&mut self) -> &mut Files {
        self.names.files_mut()
    }

    /// The append turns.
    pub(crate) fn appends(&self) -> &Appends {
        &self.appends
    }

    /// The change that begins a start of the server after the start `last`, whose record may be lost. The owner journals and applies the change
    /// before the first request.
    pub fn start(&self, last: u32, now: Moment) -> Change {
        Change::Started { number: self.files().next_start(last, now), at: now, is_older: false }
    }

    /// Applies a change of the journal, or of a question before it is sent. A record that does not fit the state has no effect; no
    /// decision makes such a record.
    pub fn apply(&mut self, change: &Change) {
        let file = changed_file(change);
        if let Some(ino) = file {
            self.files_mut().discount_objects(ino);
        }
        self.carry_out(change);
        if let Some(ino) = file {
            self.files_mut().count_objects(ino);
        }
    }

    fn carry_out(&mut self, change: &Change) {
        let files = self.names.files_mut();
        let begun = match change {
            Change::Started { number, at, is_older } => {
                self.intents.begin_at(files.start(*number, *at));
                if *is_older {
                    files.raise_epochs();
                }
                self.appends.begin(*number, files.next_ino().sequence());
                return;
            }
            Change::Counted { next_sequence, next_intent, starts } => {
                files.restore(*next_sequence, *starts);
                return self.intents.begin_at(*next_intent);
            }
            Change::Kept { ino, inode } => return files.keep(*ino, inode),
            // The file may follow in the snapshot: [`Namespace::index`] tells it of its names.
            Change::EntryKept { directory, cookie, name, ino, kind } => {
                return files.put_entry(*directory, name, (*ino, *kind), Some(*cookie));
            }
            Change::MadeKept { from, intent, ino } => return self.names.keep_made(*from, *intent, *ino),
            Change::CreatedUnnamed { ino, birth, linkable, at } => {
                return files.give_birth_unnamed(*ino, birth, *linkable, *at);
            }
            Change::Created { .. }
            | Change::Linked { .. }
            | Change::Unlinked { .. }
            | Change::Moved { .. }
            | Change::NamesCounted { .. } => self.names.apply(change),
            Change::UseCounted => return files.correct_usage(),
            Change::Disposed { ino, removal } => {
                self.appends.forget(*ino);
                files.dispose(*ino, *removal)
            }
            Change::Resized { ino, size_bytes, permissions, cut, at } => {
                if cut.is_some() {
                    self.appends.cut(*ino);
                }
                files.set_size(*ino, *size_bytes, *permissions, *cut, *at)
            }
            Change::AttributesSet { .. }
            | Change::Published { .. }
            | Change::Touched { .. }
            | Change::XattrSet { .. }
            | Change::LayoutRequested { .. } => return files.apply(change),
            Change::Intended { id, uid, intent } => return self.intend(*id, *uid, intent.clone()),
            Change::Settled { id } => return self.settle(*id),
            Change::MadeForPeer { .. }
            | Change::ForgottenForPeer { .. }
            | Change::DirectoryRemoved { .. }
            | Change::Reparented { .. } => return self.names.apply_for_peer(change),
            Change::Remembered { client, request, acknowledged, outcome } => {
                return self.replies.remember(*client, *request, *acknowledged, outcome.clone());
            }
            Change::ClientForgotten { client } => return self.replies.forget(*client),
            Change::ClientReleased { client } => return files.note_released(*client),
            Change::ClientReturned { client } => return files.note_returned(*client),
            Change::MoveBegun { .. }
            | Change::MoveFrozen { .. }
            | Change::Relaid { .. }
            | Change::MoveAbandoned { .. }
            | Change::MoveKept { .. }
            | Change::LaidOut { .. }
            | Change::Detoured { .. } => files.apply_to_layout(change),
        };
        for (id, uid, intent) in begun.into_iter().flatten() {
            self.intend(id, uid, intent);
        }
    }

    /// Begins an intent that is kept for a user: the names and files that it is about are marked.
    fn intend(&mut self, id: IntentId, uid: u32, intent: Intent) {
        if let Some(before) = self.intents.get(id) {
            self.names.unmark(id, before);
        }
        self.names.mark(id, uid, &intent);
        if let Some((uid, before)) = self.intents.insert(id, uid, intent) {
            self.files_mut().let_go(uid, &before);
        }
    }

    fn settle(&mut self, id: IntentId) {
        let Some((uid, intent)) = self.intents.remove(id) else { return };
        self.names.unmark(id, &intent);
        let files = self.files_mut();
        files.let_go(uid, &intent);
        if let Intent::Cut { ino, size_bytes, epoch, at, .. } = intent {
            files.resize(ino, size_bytes, epoch, at);
        }
    }

    /// Completes the replay of a journal: indexes facts that no record tells alone.
    pub fn index(&mut self) {
        let intents = &self.intents;
        self.names.files_mut().index(|id| intents.get(id).map_or(0, Intent::awaited_bytes));
    }

    /// Begins a snapshot of the journaled state of now, for a compacted journal: answers its first records, those of the small
    /// tables, which are bounded. Those of [`Namespace::next_of_snapshot`] follow them, however the state changes meanwhile. All
    /// records together bring a new namespace to the state of now, after [`Namespace::index`].
    pub fn begin_snapshot(&mut self) -> impl Iterator<Item = Change> + '_ {
        self.files_mut().begin_snapshot();
        self.intents.begin_snapshot();
        let files = self.files();
        let counted = Change::Counted {
            next_sequence: files.next_ino().sequence(),
            next_intent: self.intents.next().0,
            starts: files.starts(),
        };
        let moves =
            files.moves().iter().map(|(ino, record)| Change::MoveKept { ino, record: record.clone() });
        let first = std::iter::once(counted).chain(moves).chain(self.names.snapshot());
        first.chain(self.replies.snapshot()).chain(files.released().snapshot())
    }

    /// The next record of the snapshot; none at its end. The cost does not depend on the size of the state.
    pub fn next_of_snapshot(&mut self) -> Option<Change> {
        self.names.files_mut().next_of_snapshot().or_else(|| self.intents.next_of_snapshot())
    }

    /// Ends a snapshot, also one that is not complete.
    pub fn end_snapshot(&mut self) {
        self.files_mut().end_snapshot();
        self.intents.end_snapshot();
    }

    /// Whether the intent is settled.
    pub fn is_settled(&self, intent: IntentId) -> bool {
        !self.intents.contains_key(intent)
    }

    /// Whether a request was carried out before: a resend of it gets the same answer.
    pub(crate) fn remembers(&self, client: ClientId, request: RequestId) -> bool {
        self.replies.find(client, request).or_else(|| self.recent.find(client, request)).is_some()
    }

    /// The record that forgets the replies of a client that will not send again.
    pub fn forget_client(&self, client: ClientId) -> Change {
        Change::ClientForgotten { client }
    }

    /// Clients whose replies are remembered in the journal, the longest silent first.
    pub fn remembered_clients(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.replies.clients()
    }

    /// Objects on a target by the layouts of files here, copies of moves that are under way, and objects of files that changed
    /// so that they have none there, as long as that is not done. Those last are the only ones of files without an inode.
    pub(crate) fn objects_on(&self, target: TargetId) -> u64 {
        self.files().moves().objects_on(target) + self.intents.objects_on(target)
    }

    /// The memory that is kept, and its bound.
    pub(crate) fn kept_memory(&self) -> KeptMemory {
        let bytes = self.journaled_bytes()
            + self.files().open().len() as u64 * DESCRIPTION_BYTES
            + self.sessions as u64 * SESSION_BYTES
            + self.recent.len() as u64 * REPLY_BYTES;
        KeptMemory { bytes, bytes_max: self.kept_bytes_max }
    }

    /// Bytes of the namespace, which a snapshot of it does not exceed.
    pub(crate) fn journaled_bytes(&self) -> u64 {
        let files = self.files();
        let replies = self.replies.len() as u64 * REPLY_BYTES;
        files.inodes().usage().kept_bytes() + replies + files.released().len() as u64 * RELEASED_BYTES
    }

    /// Whether the server keeps more than its bound, as after a start with a lower one.
    pub(crate) fn is_over_bound(&self) -> bool {
        let KeptMemory { bytes, bytes_max } = self.kept_memory();
        bytes > bytes_max
    }

    /// The numbers of existing inodes, and of those without much more than a name for which there is memory beside other inodes. The
    /// caller fills in the rest of the reply.
    pub fn statistics(&self) -> RoomReport {
        let inodes = self.files().inodes();
        let left = self.kept_bytes_max.saturating_sub(inodes.usage().kept_bytes());
        let inodes_free = left / (INODE_BYTES + NAME_BYTES);
        RoomReport { inodes: inodes.len() as u64, inodes_free, targets: Vec::new() }
    }

    /// Notes the number of clients that the server knows.
    pub(crate) fn note_sessions(&mut self, sessions: usize) {
        self.sessions = sessions;
    }

    /// The draft of a decision.
    pub(super) fn draft<'a>(&self, caller: &'a Caller<'a>, now: Moment) -> Draft<'a> {
        Draft::new(&self.intents, self.kept_memory(), caller, now)
    }
}
