//! The tree in the control API: faults that this server sees, what must be compared with other servers, sums of use, and repairs.
//!
//! As for the inventory, a part has the inodes of one residue, and the loop judges them in small batches.

use super::{failure, json, Answer, Desk};
use crate::control::http::Request;
use serde::Serialize;
use weir_core::control::question::{NotMended, Part, Question};
use weir_core::namespace::{AwayEntry, EntryQuestion, Examined, Fault, Order, Position, UseFault};
use weir_wire::{Ino, QuotaOwner};

/// `GET /v1/tree/PART/PARTS`.
pub(super) const PATH: &str = "/v1/tree/";
/// `GET /v1/directories/INO,...`.
pub(super) const DIRECTORIES_PATH: &str = "/v1/directories/";
/// `GET /v1/entries/PARENT.NAME.INO.INTENT,...`.
pub(super) const ENTRIES_PATH: &str = "/v1/entries/";
/// `GET /v1/sums`.
pub(super) const SUMS_PATH: &str = "/v1/sums";
/// `PUT /v1/mend`.
pub(super) const MEND_PATH: &str = "/v1/mend";
/// Inodes that the loop is given at once; it stops earlier where they have many entries.
const BATCH: usize = 1024;
/// The most directories in one question, and the most entries, whose names are long: they fit into the head of a request.
const DIRECTORIES_MAX: usize = 256;
const ENTRIES_MAX: usize = 8;

/// The tree of one server, or a part of it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Tree {
    /// The number of inodes that were judged.
    pub(crate) inodes: usize,
    pub(crate) faults: Vec<Fault>,
    pub(crate) away: Vec<AwayEntry>,
    pub(crate) tops: Vec<Position>,
}

#[derive(Serialize)]
struct Directories {
    directories: Vec<Position>,
}

#[derive(Serialize)]
struct Entries {
    entries: Vec<AwayEntry>,
}

/// Sums that are not those of the inodes.
#[derive(Serialize)]
pub(crate) struct Sums {
    pub(crate) sums: Vec<SumFault>,
}

/// An owner whose sums are wrong.
#[derive(Serialize)]
pub(crate) struct SumFault {
    kind: &'static str,
    id: u32,
    bytes: u64,
    inodes: u64,
    /// The sums of the inodes.
    bytes_counted: u64,
    inodes_counted: u64,
}

#[derive(Serialize)]
struct Mended {
    ino: u64,
}

impl Tree {
    /// Judges these inodes by `examine`, which stops where its work is done.
    pub(crate) fn of<E>(
        inos: &[Ino],
        mut examine: impl FnMut(&[Ino], u64) -> Result<Examined, E>,
    ) -> Result<Tree, E> {
        let mut tree = Tree { inodes: inos.len(), ..Tree::default() };
        for batch in inos.chunks(BATCH) {
            let (mut begun, mut after) = (0, 0);
            while begun < batch.len() {
                let examined = examine(&batch[begun..], after)?;
                begun += examined.done;
                after = examined.after;
                tree.faults.extend(examined.faults);
                tree.away.extend(examined.away);
                tree.tops.extend(examined.tops);
            }
        }
        Ok(tree)
    }
}

impl Sums {
    pub(crate) fn of(faults: Vec<UseFault>) -> Sums {
        Sums { sums: faults.iter().filter_map(SumFault::of).collect() }
    }
}

impl SumFault {
    fn of(fault: &UseFault) -> Option<SumFault> {
        let (kind, id) = match fault.owner {
            QuotaOwner::User(id) => ("user", id),
            QuotaOwner::Group(id) => ("group", id),
            QuotaOwner::AnyUser | QuotaOwner::AnyGroup => return None,
        };
        Some(SumFault {
            kind,
            id,
            bytes: fault.accounted.bytes,
            inodes: fault.accounted.inodes,
            bytes_counted: fault.counted.bytes,
            inodes_counted: fault.counted.inodes,
        })
    }
}

/// Judges one part of the tree.
pub(super) fn show(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let Some(part) = Part::of_path(&request.path, PATH) else {
        return json(400, &failure("the path is not /v1/tree/PART/PARTS", "parts count from 0"));
    };
    answered(tree(desk, part))
}

/// Shows the places of directories, by their own records.
pub(super) fn show_directories(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let words = request.path.trim_start_matches(DIRECTORIES_PATH).split(',');
    match words.map(|ino| ino.parse().map(Ino)).collect::<Result<Vec<Ino>, _>>() {
        Ok(inos) if inos.len() <= DIRECTORIES_MAX => {
            let directories = desk.ask(|answer| Question::Positions(inos, answer));
            answered(directories.map(|directories| Directories { directories }))
        }
        _ => {
            let hint = "name at most 256 inodes by number";
            json(400, &failure("the path is not /v1/directories/INO,...", hint))
        }
    }
}

/// Shows entries by their directories and names.
pub(super) fn show_entries(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let words = request.path.trim_start_matches(ENTRIES_PATH).split(',');
    match words.map(EntryQuestion::read).collect::<Option<Vec<EntryQuestion>>>() {
        Some(questions) if questions.len() <= ENTRIES_MAX => {
            let entries = desk.ask(|answer| Question::Entries(questions, answer));
            answered(entries.map(|entries| Entries { entries }))
        }
        _ => {
            let hint = "name at most 8 entries, each name in hexadecimal";
            json(400, &failure("the path is not /v1/entries/PARENT.NAME.INO.INTENT,...", hint))
        }
    }
}

/// Shows the owners whose sums are not those of their inodes.
pub(super) fn show_sums(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    answered(sums(desk).map(Sums::of))
}

/// Mends one fault.
pub(super) fn mend(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let order: Order = match serde_json::from_slice(&request.body) {
        Ok(order) => order,
        Err(error) => {
            return json(400, &failure(&format!("not a repair: {error}"), "see `weir fsck --help`"))
        }
    };
    match desk.ask(|answer| Question::Mend(Box::new(order), answer)) {
        Ok(Ok(ino)) => json(200, &Mended { ino: ino.0 }),
        Ok(Err(error @ NotMended::Refused(_))) => {
            json(409, &failure(&error.to_string(), "check the store again"))
        }
        Ok(Err(error @ NotMended::Journal(_))) => {
            json(503, &failure(&error.to_string(), "see `weir status` and the server's log"))
        }
        Err(failure) => json(503, &failure),
    }
}

fn tree(desk: &Desk, part: Part) -> Result<Tree, super::Failure> {
    let mut inos = desk.ask(|answer| Question::Numbers(part, answer))?;
    inos.sort_unstable();
    Tree::of(&inos, |inos, after| desk.ask(|answer| Question::Examine(inos.to_vec(), after, answer)))
}

fn sums(desk: &Desk) -> Result<Vec<UseFault>, super::Failure> {
    let overtaken = || failure("another check of the sums has begun", "ask again");
    let (id, mut inos) = desk.ask(Question::BeginRecount)?;
    inos.sort_unstable();
    for batch in inos.chunks(BATCH) {
        if !desk.ask(|answer| Question::GoOnRecount(id, batch.to_vec(), answer))? {
            return Err(overtaken());
        }
    }
    desk.ask(|answer| Question::EndRecount(id, answer))?.ok_or_else(overtaken)
}

fn answered<T: Serialize>(answered: Result<T, super::Failure>) -> Answer {
    match answered {
        Ok(answer) => json(200, &answer),
        Err(failure) => json(503, &failure),
    }
}
