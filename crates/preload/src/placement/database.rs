//! The rows of one path in an interaction database: an SQLite file, which is read without SQLite.
//!
//! A library inside any program's signal handlers, forks and threads cannot carry a database engine with its locks and its
//! `malloc`. One look-up by primary key is a walk down one B-tree, and only the leaf is read from the file each time. The
//! format is "Database File Format" (sqlite.org/fileformat2.html), and the names of fields are those of that page.

use crate::placement::pages::Pages;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

const MAGIC: &[u8] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;
/// `PRAGMA application_id` of an interaction database.
const APPLICATION: u32 = 0x5765_6972;
/// `PRAGMA user_version` of the schema below.
const VERSION: u32 = 1;
const TABLE: &[u8] = b"placement";
/// path, component, extent_start, extent_end, stripe_bytes, stripe_count, size_bytes, rank, targets.
const COLUMNS: usize = 9;

/// Deepest walk: a B-tree of 2^32 pages is less deep, so a deeper walk goes in a circle.
const DEPTH_MAX: usize = 20;
/// Longest record that is read: a path of Linux and the names of two thousand targets (Lustre's maximum) fit.
const RECORD_BYTES_MAX: usize = 32 << 10;
/// Most components of one file.
const COMPONENTS_MAX: usize = 64;
/// Memory for the inner pages, which are a fiftieth of the file or less: enough for some millions of files.
const INNER_BYTES_MAX: usize = 64 << 20;

const INDEX_INNER: u8 = 0x02;
const TABLE_INNER: u8 = 0x05;
const INDEX_LEAF: u8 = 0x0a;
const TABLE_LEAF: u8 = 0x0d;

/// A component of a file that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    /// The offset behind its last file byte. `None` is the end of the file.
    pub(crate) end: Option<u64>,
    pub(crate) stripe_bytes: u64,
    pub(crate) stripe_count: u16,
    /// The targets in stripe order, separated by blanks. The text is empty before allocation.
    pub(crate) targets: String,
}

/// The reason why a file is no interaction database, in words that follow the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unusable(pub(crate) &'static str);

const DAMAGED: Unusable = Unusable("is damaged");
const FOREIGN: Unusable = Unusable("is not an interaction database");

type Result<T> = std::result::Result<T, Unusable>;

/// An open interaction database.
pub(crate) struct Database<P> {
    pages: P,
    page_bytes: usize,
    /// The used bytes of a page.
    usable: usize,
    root: u32,
    /// The inner pages of the table of a database that is not in memory. Every look-up passes them.
    inner: HashMap<u32, Box<[u8]>>,
}

impl<P: Pages> Database<P> {
    /// Checks what `pages` hold, and reads the inner pages.
    pub(crate) fn open(pages: P) -> Result<Database<P>> {
        let mut header = [0; HEADER_BYTES];
        pages.read(0, &mut header).map_err(|()| FOREIGN)?;
        if !header.starts_with(MAGIC) || number(&header, 68, 4) != u64::from(APPLICATION) {
            return Err(FOREIGN);
        }
        if number(&header, 60, 4) != u64::from(VERSION) {
            return Err(Unusable("is of another version"));
        }
        if header[18] != 1 || header[19] != 1 || number(&header, 56, 4) != 1 {
            return Err(Unusable("is in WAL mode or not in UTF-8"));
        }
        let page_bytes = match number(&header, 16, 2) {
            1 => 1 << 16,
            bytes if bytes.is_power_of_two() && bytes >= 512 => bytes as usize,
            _ => return Err(DAMAGED),
        };
        let usable = page_bytes - usize::from(header[20]);
        if usable < 480 {
            return Err(DAMAGED);
        }
        let mut database = Database { pages, page_bytes, usable, root: 0, inner: HashMap::new() };
        database.root = database.find_table(1, 0)?.ok_or(FOREIGN)?;
        if !matches!(database.page(database.root)?.first(), Some(&(INDEX_LEAF | INDEX_INNER))) {
            return Err(FOREIGN);
        }
        if database.pages.memory().is_none() {
            database.read_inner(database.root, 0)?;
        }
        Ok(database)
    }

    /// The components of `path`, none where the database lacks the path.
    pub(crate) fn find(&self, path: &[u8]) -> Result<Vec<Component>> {
        let mut rows = Vec::new();
        self.collect(self.root, path, 0, &mut rows)?;
        components(rows)
    }

    fn page(&self, number: u32) -> Result<Cow<'_, [u8]>> {
        let at = u64::from(number.checked_sub(1).ok_or(DAMAGED)?) * self.page_bytes as u64;
        if let Some(memory) = self.pages.memory() {
            let start = usize::try_from(at).map_err(|_| DAMAGED)?;
            let page = memory.get(start..).and_then(|rest| rest.get(..self.page_bytes));
            return page.map(Cow::Borrowed).ok_or(DAMAGED);
        }
        let mut page = vec![0; self.page_bytes];
        self.pages.read(at, &mut page).map_err(|()| DAMAGED)?;
        Ok(Cow::Owned(page))
    }

    /// The root page of the table, from the schema's table below page `number`.
    fn find_table(&self, number: u32, depth: usize) -> Result<Option<u32>> {
        let bytes = self.page(number)?;
        let page = Page::new(&bytes, if number == 1 { HEADER_BYTES } else { 0 })?;
        if depth > DEPTH_MAX {
            return Err(DAMAGED);
        }
        for index in 0..page.cells {
            let cell = page.cell(index)?;
            let found = match page.kind {
                TABLE_INNER => self.find_table(number_at(cell, 0)?, depth + 1)?,
                TABLE_LEAF => {
                    let (length, after) = varint(cell)?;
                    let (_, after) = varint(after)?;
                    let record = self.record(after, length, self.usable - 35)?;
                    root_of_table(&record)?
                }
                _ => return Err(DAMAGED),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        match page.right {
            Some(right) => self.find_table(right, depth + 1),
            None => Ok(None),
        }
    }

    /// Keeps the inner pages below `number` in memory.
    fn read_inner(&mut self, number: u32, depth: usize) -> Result<()> {
        let bytes = self.page(number)?.into_owned();
        let page = Page::new(&bytes, 0)?;
        match page.kind {
            INDEX_LEAF => return Ok(()),
            INDEX_INNER if depth <= DEPTH_MAX => {}
            _ => return Err(DAMAGED),
        }
        if self.inner.contains_key(&number) {
            return Err(DAMAGED);
        }
        if (self.inner.len() + 1) * self.page_bytes > INNER_BYTES_MAX {
            return Err(Unusable("is too large"));
        }
        let mut children = Vec::with_capacity(page.cells + 1);
        for index in 0..page.cells {
            children.push(number_at(page.cell(index)?, 0)?);
        }
        children.extend(page.right);
        // All leaves have one depth: looking at the first child tells whether the others are leaves too.
        let has_leaves = match children.first() {
            Some(&first) => Page::new(&self.page(first)?, 0)?.kind == INDEX_LEAF,
            None => true,
        };
        self.inner.insert(number, bytes.into_boxed_slice());
        if !has_leaves {
            for child in children {
                self.read_inner(child, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Adds the rows of `path` below page `number`, in their order.
    fn collect(&self, number: u32, path: &[u8], depth: usize, rows: &mut Vec<Row>) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(DAMAGED);
        }
        let bytes = match self.inner.get(&number) {
            Some(kept) => Cow::Borrowed(&kept[..]),
            None => self.page(number)?,
        };
        let page = Page::new(&bytes, 0)?;
        let children = match page.kind {
            INDEX_INNER => true,
            INDEX_LEAF => false,
            _ => return Err(DAMAGED),
        };
        let mut at = self.first_not_before(&page, path)?;
        loop {
            if children {
                self.collect(page.child(at)?, path, depth + 1, rows)?;
            }
            if at >= page.cells {
                return Ok(());
            }
            let record = self.index_record(&page, at)?;
            if path_of(&record)? != path {
                return Ok(());
            }
            if rows.len() >= COMPONENTS_MAX {
                return Err(DAMAGED);
            }
            rows.push(Row::of(&record)?);
            at += 1;
        }
    }

    /// The first cell whose path is not less than `path`.
    fn first_not_before(&self, page: &Page<'_>, path: &[u8]) -> Result<usize> {
        let (mut low, mut high) = (0, page.cells);
        while low < high {
            let middle = low + (high - low) / 2;
            let record = self.index_record(page, middle)?;
            if path_of(&record)?.cmp(path) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn index_record<'a>(&self, page: &Page<'a>, index: usize) -> Result<Record<'a>> {
        let cell = page.cell(index)?;
        let cell = if page.kind == INDEX_INNER { cell.get(4..).ok_or(DAMAGED)? } else { cell };
        let (length, payload) = varint(cell)?;
        self.record(payload, length, (self.usable - 12) * 64 / 255 - 23)
    }

    /// The record of `length` bytes that begins in a cell. A record longer than `most` goes on in other pages.
    fn record<'a>(&self, cell: &'a [u8], length: u64, most: usize) -> Result<Record<'a>> {
        let length =
            usize::try_from(length).ok().filter(|length| *length <= RECORD_BYTES_MAX).ok_or(DAMAGED)?;
        if length <= most {
            return Ok(Record::Local(cell.get(..length).ok_or(DAMAGED)?));
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let spilled = least + (length - least) % (self.usable - 4);
        let local = if spilled <= most { spilled } else { least };
        let mut bytes = cell.get(..local).ok_or(DAMAGED)?.to_vec();
        let mut next = number_at(cell, local)?;
        // Each page adds bytes, so the loop ends.
        while bytes.len() < length {
            let page = self.page(next)?;
            let take = (length - bytes.len()).min(self.usable - 4);
            bytes.extend_from_slice(&page[4..4 + take]);
            next = number_at(&page, 0)?;
        }
        Ok(Record::Gathered(bytes))
    }
}

/// A page of a B-tree.
struct Page<'a> {
    bytes: &'a [u8],
    kind: u8,
    cells: usize,
    /// The child behind the last cell of an inner page.
    right: Option<u32>,
    pointers: usize,
}

impl<'a> Page<'a> {
    fn new(bytes: &'a [u8], start: usize) -> Result<Page<'a>> {
        let kind = *bytes.get(start).ok_or(DAMAGED)?;
        let cells = bytes.get(start + 3..start + 5).ok_or(DAMAGED)?;
        let cells = usize::from(u16::from_be_bytes([cells[0], cells[1]]));
        let is_inner = matches!(kind, INDEX_INNER | TABLE_INNER);
        let right = if is_inner { Some(number_at(bytes, start + 8)?) } else { None };
        Ok(Page { bytes, kind, cells, right, pointers: start + if is_inner { 12 } else { 8 } })
    }

    /// The bytes of the page from cell `index` on.
    fn cell(&self, index: usize) -> Result<&'a [u8]> {
        let at = self.pointers + 2 * index;
        let pointer = self.bytes.get(at..at + 2).ok_or(DAMAGED)?;
        let start = usize::from(u16::from_be_bytes([pointer[0], pointer[1]]));
        self.bytes.get(start..).ok_or(DAMAGED)
    }

    /// The child before cell `index`.
    fn child(&self, index: usize) -> Result<u32> {
        if index < self.cells {
            number_at(self.cell(index)?, 0)
        } else {
            self.right.ok_or(DAMAGED)
        }
    }
}

/// A record: a header of column types, and the columns.
enum Record<'a> {
    Local(&'a [u8]),
    Gathered(Vec<u8>),
}

impl Record<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Record::Local(bytes) => bytes,
            Record::Gathered(bytes) => bytes,
        }
    }

    /// The first columns of the record, at most `most`.
    fn columns(&self, most: usize) -> Result<Vec<Column<'_>>> {
        let bytes = self.bytes();
        let (header, mut types) = varint(bytes)?;
        let length = usize::try_from(header).ok().filter(|length| *length <= bytes.len()).ok_or(DAMAGED)?;
        let mut body = &bytes[length..];
        let taken = bytes.len() - types.len();
        types = types.get(..length.checked_sub(taken).ok_or(DAMAGED)?).ok_or(DAMAGED)?;
        let mut columns = Vec::with_capacity(most.min(COLUMNS));
        while columns.len() < most && !types.is_empty() {
            let (kind, rest) = varint(types)?;
            types = rest;
            let (column, rest) = Column::take(kind, body)?;
            body = rest;
            columns.push(column);
        }
        Ok(columns)
    }
}

/// A value of a record.
enum Column<'a> {
    Number(i64),
    Text(&'a [u8]),
    Other,
}

impl<'a> Column<'a> {
    /// The value of type `kind` at the start of `body`, and the bytes behind it.
    fn take(kind: u64, body: &'a [u8]) -> Result<(Column<'a>, &'a [u8])> {
        let bytes = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return Err(DAMAGED),
            _ => usize::try_from((kind - 12) / 2).map_err(|_| DAMAGED)?,
        };
        let value = body.get(..bytes).ok_or(DAMAGED)?;
        let column = match kind {
            1..=6 => {
                let negative = value[0] & 0x80 != 0;
                let start = if negative { -1 } else { 0 };
                Column::Number(value.iter().fold(start, |sum, byte| (sum << 8) | i64::from(*byte)))
            }
            8 | 9 => Column::Number(kind as i64 - 8),
            _ if kind >= 13 && kind % 2 == 1 => Column::Text(value),
            _ => Column::Other,
        };
        Ok((column, &body[bytes..]))
    }

    fn number(&self) -> Result<i64> {
        match self {
            Column::Number(value) => Ok(*value),
            _ => Err(DAMAGED),
        }
    }
}

/// The first column, which every comparison of a search needs. It is read without the allocation of [`Record::columns`].
fn path_of<'a>(record: &'a Record<'_>) -> Result<&'a [u8]> {
    let bytes = record.bytes();
    let (header, types) = varint(bytes)?;
    let body = usize::try_from(header).ok().and_then(|length| bytes.get(length..)).ok_or(DAMAGED)?;
    match Column::take(varint(types)?.0, body)?.0 {
        Column::Text(path) => Ok(path),
        _ => Err(DAMAGED),
    }
}

/// The root page that a row of the schema gives for the table.
fn root_of_table(record: &Record<'_>) -> Result<Option<u32>> {
    let columns = record.columns(4)?;
    match columns.as_slice() {
        [Column::Text(b"table"), Column::Text(name), _, Column::Number(root)] if *name == TABLE => {
            u32::try_from(*root).map(Some).map_err(|_| DAMAGED)
        }
        _ => Ok(None),
    }
}

/// The used columns of a row.
struct Row {
    extent_start: u64,
    extent_end: i64,
    stripe_bytes: u64,
    stripe_count: u16,
    targets: String,
}

impl Row {
    fn of(record: &Record<'_>) -> Result<Row> {
        let columns = record.columns(COLUMNS)?;
        let [_, _, start, end, stripe_bytes, stripe_count, _, _, Column::Text(targets)] = columns.as_slice()
        else {
            return Err(DAMAGED);
        };
        Ok(Row {
            extent_start: u64::try_from(start.number()?).map_err(|_| DAMAGED)?,
            extent_end: end.number()?,
            stripe_bytes: u64::try_from(stripe_bytes.number()?).map_err(|_| DAMAGED)?,
            stripe_count: u16::try_from(stripe_count.number()?).map_err(|_| DAMAGED)?,
            targets: std::str::from_utf8(targets).map_err(|_| DAMAGED)?.to_owned(),
        })
    }
}

/// The components that rows make. Components follow each other, and the last one reaches to the end of the file.
fn components(rows: Vec<Row>) -> Result<Vec<Component>> {
    let last = rows.len().saturating_sub(1);
    let mut start = 0;
    let mut components = Vec::with_capacity(rows.len());
    for (index, row) in rows.into_iter().enumerate() {
        if row.extent_start != start || row.stripe_bytes == 0 || row.stripe_count == 0 {
            return Err(DAMAGED);
        }
        let end = if index == last {
            None
        } else {
            start = u64::try_from(row.extent_end).ok().filter(|end| *end > start).ok_or(DAMAGED)?;
            Some(start)
        };
        let (stripe_bytes, stripe_count, targets) = (row.stripe_bytes, row.stripe_count, row.targets);
        components.push(Component { end, stripe_bytes, stripe_count, targets });
    }
    Ok(components)
}

/// The big-endian number of `length` bytes at `at`. The header has these bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

fn number_at(bytes: &[u8], at: usize) -> Result<u32> {
    let bytes = bytes.get(at..at + 4).ok_or(DAMAGED)?;
    Ok(number(bytes, 0, 4) as u32)
}

/// The variable-length integer at the start of `bytes`, and the bytes behind it.
fn varint(bytes: &[u8]) -> Result<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        if index == 8 {
            return Ok(((value << 8) | u64::from(*byte), &bytes[9..]));
        }
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[index + 1..]));
        }
    }
    Err(DAMAGED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    /// Bytes that are read page by page, or looked at where they are.
    struct Bytes {
        bytes: Vec<u8>,
        in_memory: bool,
    }

    impl Pages for Bytes {
        fn read(&self, offset: u64, buffer: &mut [u8]) -> std::result::Result<(), ()> {
            let start = usize::try_from(offset).map_err(|_| ())?;
            let end = start.checked_add(buffer.len()).ok_or(())?;
            buffer.copy_from_slice(self.bytes.get(start..end).ok_or(())?);
            Ok(())
        }

        fn memory(&self) -> Option<&[u8]> {
            self.in_memory.then_some(&self.bytes[..])
        }
    }

    fn open(bytes: Vec<u8>, in_memory: bool) -> Result<Database<Bytes>> {
        Database::open(Bytes { bytes, in_memory })
    }

    const SCHEMA: &str = "PRAGMA application_id=0x57656972; PRAGMA user_version=1; \
        CREATE TABLE placement (path TEXT NOT NULL, component INTEGER NOT NULL, extent_start INTEGER NOT NULL, \
        extent_end INTEGER NOT NULL, stripe_bytes INTEGER NOT NULL, stripe_count INTEGER NOT NULL, \
        size_bytes INTEGER NOT NULL, rank INTEGER NOT NULL, targets TEXT NOT NULL, \
        PRIMARY KEY (path, component)) WITHOUT ROWID;";

    /// The database that SQLite makes of `statements`.
    fn made_by_sqlite(statements: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("placement.db");
        let mut program =
            Command::new("sqlite3").arg(&file).stdin(Stdio::piped()).spawn().expect("sqlite3 is there");
        program.stdin.take().unwrap().write_all(statements.as_bytes()).unwrap();
        assert!(program.wait().unwrap().success());
        std::fs::read(file).unwrap()
    }

    fn insert(path: &str, components: &[Component]) -> String {
        let mut start = 0;
        let rows = components.iter().enumerate().map(|(index, component)| {
            let end = component.end.map_or(-1, |end| end as i64);
            let (bytes, count, targets) = (component.stripe_bytes, component.stripe_count, &component.targets);
            let row = format!(
                "INSERT INTO placement VALUES ('{path}', {}, {start}, {end}, {bytes}, {count}, 99, -1, '{targets}');",
                index + 1
            );
            start = end;
            row
        });
        rows.collect()
    }

    fn component(end: Option<u64>, stripe_bytes: u64, targets: &str) -> Component {
        let stripe_count = targets.split(' ').count() as u16;
        Component { end, stripe_bytes, stripe_count, targets: targets.to_owned() }
    }

    /// Files with one to four components; some names are longer than a page.
    fn files() -> impl Strategy<Value = Vec<(String, Vec<Component>)>> {
        let name = prop_oneof!["/[a-c]{1,4}", "/mnt/lustre/ior/test\\.[0-9]{1,5}", "/long/[a-z]{200,2000}"];
        let parts = proptest::collection::vec(
            (1_u64..1 << 40, 1_u64..1 << 33, "[0-9]{1,4}( [0-9]{1,4}){0,40}"),
            1..5,
        );
        proptest::collection::btree_map(name, parts, 0..120).prop_map(|files| {
            let layout = |parts: Vec<(u64, u64, String)>| {
                let last = parts.len() - 1;
                let mut end = 0;
                let parts = parts.into_iter().enumerate().map(|(index, (bytes, stripe_bytes, targets))| {
                    end += bytes;
                    component((index < last).then_some(end), stripe_bytes, &targets)
                });
                parts.collect::<Vec<_>>()
            };
            files.into_iter().map(|(name, parts)| (name, layout(parts))).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn what_sqlite_wrote_is_found(in_memory: bool, files in files(), page_bytes in prop_oneof![Just(512), Just(4096), Just(65536)]) {
            let rows: String = files.iter().map(|(path, components)| insert(path, components)).collect();
            let statements = format!("PRAGMA page_size={page_bytes}; {SCHEMA} BEGIN; {rows} COMMIT;");
            let database = open(made_by_sqlite(&statements), in_memory).unwrap();
            for (path, components) in &files {
                prop_assert_eq!(&database.find(path.as_bytes()).unwrap(), components);
                for other in [format!("{path}/"), path[..path.len() - 1].to_owned()] {
                    if !files.iter().any(|(path, _)| *path == other) {
                        prop_assert_eq!(database.find(other.as_bytes()).unwrap(), vec![]);
                    }
                }
            }
        }
    }

    fn small() -> Vec<u8> {
        let rows: String = (0..60)
            .map(|index| insert(&format!("/mnt/file.{index}"), &[component(None, 1 << 20, "3.1 0.2")]))
            .collect();
        made_by_sqlite(&format!("PRAGMA page_size=512; {SCHEMA} {rows}"))
    }

    #[test]
    fn damage_is_an_error_or_other_rows_and_never_a_panic() {
        let whole = small();
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(4000));
        let changes = proptest::collection::vec((0..whole.len(), any::<u8>()), 1..30);
        let run = runner.run(&(changes, 0..=whole.len(), any::<bool>()), |(changes, length, in_memory)| {
            let mut bytes = whole.clone();
            for (at, value) in changes {
                bytes[at] = value;
            }
            bytes.truncate(length.max(whole.len() / 2));
            if let Ok(database) = open(bytes, in_memory) {
                for index in 0..60 {
                    let _ = database.find(format!("/mnt/file.{index}").as_bytes());
                }
            }
            Ok(())
        });
        run.unwrap();
    }

    #[test]
    fn what_is_no_interaction_database_is_refused() {
        let refused = |bytes: Vec<u8>| {
            let [paged, whole] = [false, true].map(|in_memory| open(bytes.clone(), in_memory).err());
            assert_eq!(paged, whole);
            paged.expect("it is refused").0
        };
        assert_eq!(refused(Vec::new()), FOREIGN.0);
        assert_eq!(refused(b"SQLite format 4".repeat(20)), FOREIGN.0);
        assert_eq!(refused(made_by_sqlite("CREATE TABLE placement (path TEXT);")), FOREIGN.0);
        assert_eq!(
            refused(made_by_sqlite(
                "PRAGMA application_id=0x57656972; PRAGMA user_version=1; CREATE TABLE x (y);"
            )),
            FOREIGN.0
        );
        assert_eq!(refused(made_by_sqlite(&SCHEMA.replace(") WITHOUT ROWID", ")"))), FOREIGN.0);
        assert_eq!(
            refused(made_by_sqlite(&SCHEMA.replace("user_version=1", "user_version=2"))),
            "is of another version"
        );
        let write_ahead = "PRAGMA journal_mode=WAL;";
        assert_eq!(
            refused(made_by_sqlite(&format!("{SCHEMA} {write_ahead}"))),
            "is in WAL mode or not in UTF-8"
        );
    }

    #[test]
    fn rows_that_make_no_layout_are_damage() {
        let gap = "INSERT INTO placement VALUES ('/a', 1, 5, -1, 1, 1, 9, 0, '1');";
        let stripeless = "INSERT INTO placement VALUES ('/b', 1, 0, -1, 1, 0, 9, 0, '');";
        let text = "INSERT INTO placement VALUES ('/c', 1, 0, -1, 'x', 1, 9, 0, '1');";
        let database = open(made_by_sqlite(&format!("{SCHEMA} {gap} {stripeless} {text}")), true).unwrap();
        for path in [b"/a", b"/b", b"/c"] {
            assert_eq!(database.find(path), Err(DAMAGED));
        }
    }
}
