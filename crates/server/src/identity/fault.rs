//! The faults of a folder that is not the one it should be, with their ways out.

/// The kinds of folders that are refused, each with its way out.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// Nothing is there.
    Absent,
    /// A folder is there that nobody has stamped.
    Unstamped,
    /// The stamp cannot be read.
    Damaged,
    /// The stamp of another store, server or place; its owner in words.
    Foreign(String),
    /// The place was opened last in an earlier start than the store.
    Older { generation: u64, expected: u64 },
    /// The place was opened in a later start than the home knows.
    Newer { generation: u64, expected: u64 },
    /// It is the folder of another target, too.
    Doubled(String),
    /// It has objects, and nobody knows whose.
    Occupied,
    /// The home has no stamp of a server that has been there.
    Forgotten,
}

impl Fault {
    /// The finding in words.
    pub(super) fn found(&self) -> String {
        match self {
            Fault::Absent => "no folder is".into(),
            Fault::Unstamped => "a folder without the store's stamp is".into(),
            Fault::Damaged => "a stamp that cannot be read is".into(),
            Fault::Foreign(owner) => format!("the folder of {owner} is"),
            Fault::Older { generation, expected } => {
                format!("an older copy, opened last in start {generation} of {expected}, is")
            }
            Fault::Newer { generation, expected } => {
                format!("a folder opened in start {generation}, where the home knows {expected}, is")
            }
            Fault::Doubled(other) => format!("the folder of {other}, too, is"),
            Fault::Occupied => "a folder with objects of another store is".into(),
            Fault::Forgotten => "the home has no stamp of this server, whose files are".into(),
        }
    }

    /// The way out for a target.
    pub(super) fn way_out_of_target(&self) -> &'static str {
        match self {
            Fault::Absent | Fault::Unstamped => {
                "mount its disk, or bring its folder back; nothing was changed, and no file is read without it"
            }
            Fault::Damaged => "bring the file `identity` in it back from a copy of the folder",
            Fault::Foreign(_) => "bring the target's own folder to this path",
            Fault::Older { .. } => "bring the newest folder back; with an older one files read as they never were",
            Fault::Newer { .. } => "bring the newest home back, or restore the metadata: `weir restore`",
            Fault::Doubled(_) => "give each target a `path` of its own",
            Fault::Occupied => "empty the folder, or name another one with `path`",
            Fault::Forgotten => "bring the home back from a copy, or restore it: `weir restore`",
        }
    }

    /// The way out for the journal.
    pub(super) fn way_out_of_journal(&self) -> &'static str {
        match self {
            Fault::Absent | Fault::Unstamped | Fault::Damaged | Fault::Older { .. } => {
                "mount its disk, bring the folder back, or restore it: `weir restore`; or give its changes up: \
                 --accept-journal-loss"
            }
            Fault::Newer { .. } => "bring the newest home back, or restore the metadata: `weir restore`",
            Fault::Forgotten => "bring the home back from a copy, or restore it: `weir restore`",
            Fault::Foreign(_) | Fault::Doubled(_) | Fault::Occupied => {
                "bring the server's own journal back, or restore it: `weir restore`"
            }
        }
    }

    /// The way out for the home.
    pub(super) fn way_out_of_home(&self) -> &'static str {
        match self {
            Fault::Foreign(_) => "bring back the `site.key` and `identities` of one store",
            Fault::Absent => {
                "mount its disk, bring the home back, or restore it: `weir restore`; a new store begins with \
                 `weir up` in an empty home"
            }
            _ => "bring it back from a copy, or restore it: `weir restore`",
        }
    }
}
