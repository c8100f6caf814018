//! The stamp of a folder: which store, server and place it belongs to, the last start of the server that opened it, and how far the
//! server's journal was on stable storage.
//!
//! A stamp is one small file that is rewritten in place, so that a full disk takes it. Its records and its marks each have two slots of a
//! block, which are written in turn: a torn write spoils the older one.
//!
//! | bytes | content |
//! |---|---|
//! | 0 and 4096 | a record: JSON, filled with spaces; the checksum of all that in eight hexadecimal digits, and a line end |
//! | 8192 and 12288 | a mark: the sequence of the last durable group of the journal u64, and its checksum u32 |

use super::files::{Node, Opening, TargetFile, TargetFolder};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The stamp's name in a folder.
pub const NAME: &str = "identity";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 4096;
const TAIL_BYTES: usize = 9;
const RECORDS: [u64; 2] = [0, 4096];
const MARKS: [u64; 2] = [8192, 12288];
const MARK_BYTES: usize = 12;

/// The place whose folder is stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The home of a store on a host.
    Home,
    /// The journal of a server.
    Journal,
    /// A target by its number.
    Target(u16),
}

/// The owner of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The store, by its site key.
    pub store: String,
    /// A random number of the server's first start: another server that got the number later has another one.
    pub birth: String,
    /// The number of the server.
    pub server: u16,
}

/// The knowledge of a home about the other places of its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPlaces {
    /// The generation that a start is giving to all places; absent once all have it.
    pub next_generation: Option<u64>,
    /// The number of targets that were stamped so far.
    pub targets: u16,
    /// Whether the journal was stamped.
    pub journal: bool,
}

/// The content of a stamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// The place.
    pub place: Place,
    /// Whose it is.
    #[serde(flatten)]
    pub owner: Owner,
    /// The number of the last start that opened the place.
    pub generation: u64,
    /// In a home alone.
    pub known: Option<KnownPlaces>,
    /// Counts the writes of the stamp: the record of the last one counts.
    writes: u64,
}

/// An open stamp.
#[derive(Debug)]
pub struct Stamp {
    file: Box<dyn TargetFile>,
    node: Node,
    record: Mutex<Record>,
    marks: AtomicU64,
}

/// The stamp that a folder has.
pub enum Found {
    /// No file of that name.
    None,
    /// The file is there, and no whole record in it.
    Damaged,
    /// The stamp.
    Whole(Stamp),
}

impl Record {
    /// The record of a place that is stamped for the first time.
    pub fn new(place: Place, owner: Owner, generation: u64, known: Option<KnownPlaces>) -> Record {
        Record { version: VERSION, place, owner, generation, known, writes: 0 }
    }

    fn encode(&self) -> io::Result<[u8; SLOT_BYTES]> {
        let mut slot = [b' '; SLOT_BYTES];
        let text = serde_json::to_vec(self)?;
        let room = slot.get_mut(..text.len()).filter(|_| text.len() <= SLOT_BYTES - TAIL_BYTES);
        room.ok_or(ErrorKind::InvalidData)?.copy_from_slice(&text);
        let tail = format!("{:08x}\n", crc32fast::hash(&slot[..SLOT_BYTES - TAIL_BYTES]));
        slot[SLOT_BYTES - TAIL_BYTES..].copy_from_slice(tail.as_bytes());
        Ok(slot)
    }

    fn decode(slot: &[u8; SLOT_BYTES]) -> Option<Record> {
        let (text, tail) = slot.split_at(SLOT_BYTES - TAIL_BYTES);
        let checksum = std::str::from_utf8(tail).ok()?.strip_suffix('\n')?;
        let is_whole = u32::from_str_radix(checksum, 16).ok()? == crc32fast::hash(text);
        let record: Record = serde_json::from_slice(text).ok().filter(|_| is_whole)?;
        (record.version == VERSION).then_some(record)
    }
}

impl Stamp {
    /// Reads the stamp of a name in a folder.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn find(folder: &dyn TargetFolder, name: &str) -> io::Result<Found> {
        let file = match folder.open(Path::new(name), Opening::Change) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::None),
            Err(error) => return Err(error),
        };
        let mut newest: Option<Record> = None;
        for at in RECORDS {
            let mut slot = [0; SLOT_BYTES];
            let is_whole = file.fill_at(&mut slot, at)? == slot.len();
            let record = is_whole.then(|| Record::decode(&slot)).flatten();
            newest = record.into_iter().chain(newest).max_by_key(|record| record.writes);
        }
        let node = file.node()?;
        Ok(match newest {
            Some(record) => {
                Found::Whole(Stamp { file, node, record: Mutex::new(record), marks: AtomicU64::new(0) })
            }
            None => Found::Damaged,
        })
    }

    /// Writes a new stamp into a folder, durably and as a whole.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn make(folder: &dyn TargetFolder, name: &str, record: Record) -> io::Result<Stamp> {
        let unfinished = format!("{name}.new");
        let file = folder.open(Path::new(&unfinished), Opening::Empty)?;
        let slot = record.encode()?;
        RECORDS.iter().try_for_each(|&at| file.write_all_at(&slot, at))?;
        // All blocks are there from now on, so that a full disk takes every later write.
        MARKS.iter().try_for_each(|&at| file.write_all_at(&[0; SLOT_BYTES], at))?;
        file.sync_whole()?;
        folder.rename(Path::new(&unfinished), Path::new(name))?;
        folder.sync(Path::new(""))?;
        folder.sync_way();
        let node = file.node()?;
        Ok(Stamp { file, node, record: Mutex::new(record), marks: AtomicU64::new(0) })
    }

    /// The record that was written last.
    pub fn record(&self) -> Record {
        self.last().clone()
    }

    fn last(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stamp's file.
    pub fn node(&self) -> Node {
        self.node
    }

    /// Rewrites the stamp durably.
    ///
    /// # Errors
    /// The file system's errors; the record before stays.
    pub fn rewrite(&self, generation: u64, known: Option<KnownPlaces>) -> io::Result<()> {
        let mut last = self.last();
        let writes = last.writes + 1;
        let record = Record { generation, known, writes, ..last.clone() };
        // A folder that somebody copied or opened may have a stamp that others read.
        self.file.close_to_others()?;
        self.file.write_all_at(&record.encode()?, RECORDS[(writes % 2) as usize])?;
        self.file.sync()?;
        *last = record;
        Ok(())
    }

    /// The last sequence of the journal that the stamp knows to have been durable; 0 where it knows none.
    pub fn mark(&self) -> u64 {
        let read = |at: u64| {
            let mut slot = [0; MARK_BYTES];
            self.file.fill_at(&mut slot, at).ok().filter(|&filled| filled == MARK_BYTES)?;
            let through = u64::from_le_bytes(slot[..8].try_into().ok()?);
            let checksum = u32::from_le_bytes(slot[8..].try_into().ok()?);
            (crc32fast::hash(&slot[..8]) == checksum).then_some(through)
        };
        MARKS.into_iter().filter_map(read).max().unwrap_or(0)
    }

    /// Writes a later mark, durably.
    ///
    /// # Errors
    /// The file system's errors; an older mark stays, which is true as well.
    pub fn write_mark(&self, through: u64) -> io::Result<()> {
        let turn = self.marks.fetch_add(1, Ordering::Relaxed);
        self.file.write_all_at(&encode_mark(through), MARKS[(turn % 2) as usize])?;
        self.file.sync()
    }

    /// Writes a mark over all earlier ones, durably, also over later ones: their changes were given up.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn reset_mark(&self, through: u64) -> io::Result<()> {
        MARKS.iter().try_for_each(|&at| self.file.write_all_at(&encode_mark(through), at))?;
        self.file.sync()
    }
}

fn encode_mark(through: u64) -> [u8; MARK_BYTES] {
    let mut slot = [0; MARK_BYTES];
    slot[..8].copy_from_slice(&through.to_le_bytes());
    let checksum = crc32fast::hash(&slot[..8]);
    slot[8..].copy_from_slice(&checksum.to_le_bytes());
    slot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::memory_folder::MemoryFolder;

    fn owner() -> Owner {
        Owner { store: "5".repeat(32), birth: "b".repeat(16), server: 3 }
    }

    fn whole(folder: &dyn TargetFolder) -> Option<Stamp> {
        match Stamp::find(folder, NAME).unwrap() {
            Found::Whole(stamp) => Some(stamp),
            Found::None | Found::Damaged => None,
        }
    }

    #[test]
    fn a_stamp_is_read_as_it_was_written_last() {
        let folder = MemoryFolder::default();
        assert!(matches!(Stamp::find(&folder, NAME).unwrap(), Found::None));
        let stamp = Stamp::make(&folder, NAME, Record::new(Place::Target(2), owner(), 1, None)).unwrap();
        for generation in 2..7 {
            stamp.rewrite(generation, None).unwrap();
            let found = whole(&folder).unwrap();
            assert_eq!((found.record(), found.node()), (stamp.record(), stamp.node()));
            assert_eq!(found.record().generation, generation);
        }
    }

    #[test]
    fn marks_count_up_until_they_are_reset() {
        let folder = MemoryFolder::default();
        let stamp = Stamp::make(&folder, NAME, Record::new(Place::Home, owner(), 1, None)).unwrap();
        assert_eq!(stamp.mark(), 0);
        for through in [5, 9, 12] {
            stamp.write_mark(through).unwrap();
            assert_eq!(whole(&folder).unwrap().mark(), through);
        }
        stamp.reset_mark(3).unwrap();
        assert_eq!(whole(&folder).unwrap().mark(), 3);
    }

    /// Any torn write of one slot leaves the record of the write before; a file without a whole slot is damage, not a missing stamp.
    #[test]
    fn a_torn_write_leaves_the_record_before() {
        let folder = MemoryFolder::default();
        let stamp = Stamp::make(&folder, NAME, Record::new(Place::Journal, owner(), 1, None)).unwrap();
        stamp.rewrite(2, None).unwrap();
        stamp.rewrite(3, None).unwrap();
        let file = folder.open(Path::new(NAME), Opening::Change).unwrap();
        let bytes = file.read_whole(usize::MAX).unwrap();
        for at in [0, 40, SLOT_BYTES - 2] {
            // The third write is in the first slot.
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            file.write_all_at(&torn, 0).unwrap();
            assert_eq!(whole(&folder).unwrap().record().generation, 2, "byte {at}");
            torn[SLOT_BYTES + at] ^= 1;
            file.write_all_at(&torn, 0).unwrap();
            assert!(matches!(Stamp::find(&folder, NAME).unwrap(), Found::Damaged), "byte {at}");
        }
        file.truncate(0).unwrap();
        assert!(matches!(Stamp::find(&folder, NAME).unwrap(), Found::Damaged));
    }
}
