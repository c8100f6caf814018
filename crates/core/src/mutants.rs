//! Rules that a world takes out, to see whether it misses them.

use std::cell::Cell;

macro_rules! mutants {
    ($($(#[$words:meta])* $name:ident,)*) => {
        /// A rule that is taken out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$words])* $name,)*
        }

        impl Mutant {
            /// Every one.
            pub const ALL: &[Mutant] = &[$(Mutant::$name),*];
        }
    };
}

mutants! {
    /// Changes of bytes that were carried out are not remembered, and carried out again when they are sent again.
    ExecutedForgotten,
    /// Changes of bytes that were begun and not ended are carried out as a whole when they are sent again.
    BegunForgotten,
    /// A connection that was replaced goes on beside the one that has its slot.
    SlotShared,
    /// A connection of an earlier start of another server goes on beside that of the later start.
    StartsOfPeersShared,
    /// A start does not end the append turns of the start before.
    TurnsOutliveStart,
    /// An append turn is granted to all who ask.
    TurnsShared,
    /// The append turn of a client that is gone passes on while its bytes may be under way.
    TurnPassedUncut,
    /// Fences of requests are not compared with those of the homes.
    FencesIgnored,
    /// A lock that is granted after others were lost begins no other fence.
    FenceKept,
    /// A start grants locks at once, before those who had locks under the start before claim them.
    GraceSkipped,
    /// A lock is given to those who claim that they had it under any start.
    ClaimsOfAnyStart,
    /// A start forgets which clients had lost their locks before.
    ReleasesForgotten,
    /// A claim counts, also if its client has claimed everything on another connection and given some of it back since.
    LateClaimsCount,
    /// The locks of a client that is gone stay.
    LocksKept,
    /// The locks of a description stay when it is closed.
    CloseKeepsLocks,
    /// A lock is given to a request whose wait was ended.
    CancelledStillWait,
    /// Requests for bytes are carried out under any epoch.
    EpochsIgnored,
    /// A publication sets the size, also where the file is longer.
    SizeReplaced,
    /// A start does not go on with the operations over two servers that were under way.
    IntentsForgotten,
    /// A description that was closed gives its rights on.
    ClosedStillOpen,
    /// Objects that were set aside are brought back, although the journal knows of their cuts.
    CutsUndone,
    /// A journal whose sync failed goes on.
    FailedSyncIgnored,
    /// An fsync is answered before the journal is on stable storage.
    JournalUnsynced,
    /// An fsync leaves the names of new objects to themselves.
    NamesUnsynced,
    /// Numbers of inodes whose records were lost are given out again.
    NumbersReused,
    /// An fsync is answered before the objects are on stable storage.
    ObjectsUnsynced,
    /// A start skips the last record of the journal.
    RecordSkipped,
    /// The descriptions of a client that is gone stay.
    DescriptionsKept,
    /// The removal of one of two names is not counted.
    NamesMiscounted,
    /// A change of an inode does not raise its version.
    VersionKept,
    /// Some changes are acknowledged that the journal does not take.
    JournalSkipped,
    /// The number of a start whose record was lost is given out again.
    StartsReused,
    /// The description of an open that failed stays.
    FailedOpenKept,
    /// A home does not remember a write whose publication its journal did not take.
    UnpublishedUntold,
    /// A removal of an object that failed is not tried again.
    FailedRemovalsGivenUp,
    /// The answer to whoever changed bytes does not wait until mounts have dropped their pages.
    RecallsUnawaited,
    /// A listing whose last entry was removed meanwhile goes on one entry too far.
    PlacesCounted,
    /// Numbers of inodes follow from the clock alone, which may have been set back.
    ClockBelieved,
    /// Nobody is held to the limits of users and groups.
    LimitsIgnored,
    /// A publication is not held to the limits where other servers admitted its bytes.
    ChargedAdmitted,
    /// A user that a limit refuses is not asked about at the home of the file.
    UserUnasked,
    /// The replies of changes of names are not remembered, and the changes are decided again when they are sent again.
    RepliesForgotten,
    /// A member that a server has by its file gets no record when it joins.
    FileMemberUnrecorded,
    /// Decisions about servers and targets are answered before they are on stable storage.
    DecisionsUnkept,
    /// New files are placed on a target that retires.
    RetiringPlaced,
    /// Objects of files that a restored journal does not know are removed, as after a power loss.
    RestoredLikeLost,
    /// A start from a journal that is older than the objects keeps the epochs of files that it knows.
    OlderEpochsKept,
    /// A cut that was under way in an older journal takes its file back to the epoch under which it was decided.
    CutsLowerEpochs,
    /// A target takes a capability that was made before its start, which forgot the files that were removed.
    FreshBeforeStart,
    /// The append turn of a client that was gone during the last step of a move passes on uncut.
    FrozenPassedUncut,
    /// The answer to a change that was carried out before does not wait until mounts have dropped their pages.
    ResendsUnawaited,
}

thread_local! {
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Whether a rule is taken out.
pub fn is(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

/// Takes a rule out on this thread, or puts all rules in force.
pub fn set(mutant: Option<Mutant>) {
    MUTANT.set(mutant);
}
