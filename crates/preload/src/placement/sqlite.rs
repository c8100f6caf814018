//! Rows of the tables of an SQLite file, which is read without SQLite.
//!
//! A library inside any program's signal handlers, forks and threads cannot carry a database engine with its locks and its
//! `malloc`. One look-up by primary key is a walk down one B-tree, and only the leaf is read from the file each time. The
//! format is "Database File Format" (sqlite.org/fileformat2.html), and the names of fields are those of that page.

use crate::placement::pages::Pages;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::ControlFlow::{self, Break, Continue};

const MAGIC: &[u8] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;

/// Deepest walk: a B-tree of 2^32 pages is less deep, so a deeper walk goes in a circle.
const DEPTH_MAX: usize = 20;
/// Longest record that is read: a path of Linux and the names of two thousand targets (Lustre's maximum), or two paths fit.
const RECORD_BYTES_MAX: usize = 32 << 10;
/// Memory for the inner pages, which are a fiftieth of the file or less: enough for some millions of files.
const INNER_BYTES_MAX: usize = 64 << 20;
/// Most columns of a row.
const COLUMNS_MAX: usize = 16;

const INDEX_INNER: u8 = 0x02;
const TABLE_INNER: u8 = 0x05;
const INDEX_LEAF: u8 = 0x0a;
const TABLE_LEAF: u8 = 0x0d;

/// The reason why a file cannot be used, in words that follow the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unusable(pub(crate) &'static str);

pub(super) const DAMAGED: Unusable = Unusable("is damaged");

pub(super) type Result<T> = std::result::Result<T, Unusable>;

/// The first columns of a primary key: a text, then numbers.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) text: &'a [u8],
    pub(super) numbers: &'a [i64],
}

/// The part of the rows to visit. The rows follow each other.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Key(Key<'a>),
    /// The rows whose text begins so.
    Beginning(&'a [u8]),
    All,
}

impl Wanted<'_> {
    /// The order of a row beside the wanted ones, which are all equal.
    fn order(&self, record: &Record<'_>) -> Result<Ordering> {
        match self {
            Wanted::Key(key) => record.compare(*key),
            Wanted::Beginning(text) => record.compare_beginning(text),
            Wanted::All => Ok(Ordering::Equal),
        }
    }
}

/// An SQLite file.
pub(super) struct SqliteFile<P> {
    pages: P,
    page_bytes: usize,
    /// The used bytes of a page.
    usable: usize,
    /// `PRAGMA user_version`.
    version: u32,
    /// The inner pages of the tables of a file that is not in memory. Every look-up passes them.
    inner: HashMap<u32, Box<[u8]>>,
}

impl<P: Pages> SqliteFile<P> {
    /// Checks the header of `pages`. Answers `foreign` for a file without the application's mark.
    pub(super) fn open(pages: P, application: u32, foreign: Unusable) -> Result<SqliteFile<P>> {
        let mut header = [0; HEADER_BYTES];
        pages.read(0, &mut header).map_err(|()| foreign)?;
        if !header.starts_with(MAGIC) || number(&header, 68, 4) != u64::from(application) {
            return Err(foreign);
        }
        let page_bytes = match number(&header, 16, 2) {
            1 => 1 << 16,
            bytes if bytes.is_power_of_two() && bytes >= 512 => bytes as usize,
            _ => return Err(DAMAGED),
        };
        let usable = page_bytes - usize::from(header[20]);
        let version = number(&header, 60, 4) as u32;
        if usable < 480 {
            return Err(DAMAGED);
        }
        if header[18] != 1 || header[19] != 1 || number(&header, 56, 4) != 1 {
            return Err(Unusable("is in WAL mode or not in UTF-8"));
        }
        Ok(SqliteFile { pages, page_bytes, usable, version, inner: HashMap::new() })
    }

    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// The root page of the table `name`, which has no row numbers, and whose inner pages are kept from now on.
    pub(super) fn table(&mut self, name: &[u8]) -> Result<Option<u32>> {
        let Some(root) = self.find_table(name, 1, 0)? else { return Ok(None) };
        if !matches!(self.page(root)?.first(), Some(&(INDEX_LEAF | INDEX_INNER))) {
            return Ok(None);
        }
        if self.pages.memory().is_none() {
            self.read_inner(root, 0)?;
        }
        Ok(Some(root))
    }

    /// Calls `take` for the rows of the table at `root` whose primary key begins with `key`, in their order.
    pub(super) fn rows(
        &self,
        root: u32,
        key: Key<'_>,
        take: &mut dyn FnMut(&Record<'_>) -> Result<()>,
    ) -> Result<()> {
        self.collect(root, Wanted::Key(key), 0, &mut |record| take(record).map(Continue)).map(drop)
    }

    /// Calls `take` for the rows of the table at `root` whose text begins with `beginning`, in their order, until `take` breaks.
    pub(super) fn rows_beginning(
        &self,
        root: u32,
        beginning: &[u8],
        take: &mut dyn FnMut(&Record<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.collect(root, Wanted::Beginning(beginning), 0, take).map(drop)
    }

    /// Calls `take` for every row of the table at `root`, in their order.
    pub(super) fn all_rows(&self, root: u32, take: &mut dyn FnMut(&Record<'_>) -> Result<()>) -> Result<()> {
        self.collect(root, Wanted::All, 0, &mut |record| take(record).map(Continue)).map(drop)
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

    /// The root page of the table `name`, from the schema's table below page `number`.
    fn find_table(&self, name: &[u8], number: u32, depth: usize) -> Result<Option<u32>> {
        let bytes = self.page(number)?;
        let page = Page::new(&bytes, if number == 1 { HEADER_BYTES } else { 0 })?;
        if depth > DEPTH_MAX {
            return Err(DAMAGED);
        }
        for index in 0..page.cells {
            let cell = page.cell(index)?;
            let found = match page.kind {
                TABLE_INNER => self.find_table(name, number_at(cell, 0)?, depth + 1)?,
                TABLE_LEAF => {
                    let (length, after) = varint(cell)?;
                    let (_, after) = varint(after)?;
                    let record = self.record(after, length, self.usable - 35)?;
                    root_of_table(&record, name)?
                }
                _ => return Err(DAMAGED),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        match page.right {
            Some(right) => self.find_table(name, right, depth + 1),
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

    /// Takes the wanted rows below page `number`, in their order. Breaks behind the last wanted row, and where `take` does.
    fn collect(
        &self,
        number: u32,
        wanted: Wanted<'_>,
        depth: usize,
        take: &mut dyn FnMut(&Record<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
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
        let mut at = self.first_not_before(&page, wanted)?;
        loop {
            if children && self.collect(page.child(at)?, wanted, depth + 1, take)?.is_break() {
                return Ok(Break(()));
            }
            if at >= page.cells {
                return Ok(Continue(()));
            }
            let record = self.index_record(&page, at)?;
            if wanted.order(&record)? != Ordering::Equal || take(&record)?.is_break() {
                return Ok(Break(()));
            }
            at += 1;
        }
    }

    /// The first cell that is not before the wanted rows.
    fn first_not_before(&self, page: &Page<'_>, wanted: Wanted<'_>) -> Result<usize> {
        let (mut low, mut high) = (0, page.cells);
        while low < high {
            let middle = low + (high - low) / 2;
            if wanted.order(&self.index_record(page, middle)?)? == Ordering::Less {
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
pub(super) enum Record<'a> {
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

    /// The order of the row beside `key`. The columns are read without the allocation of [`Record::columns`].
    fn compare(&self, key: Key<'_>) -> Result<Ordering> {
        let bytes = self.bytes();
        let (header, mut types) = varint(bytes)?;
        let mut body = usize::try_from(header).ok().and_then(|length| bytes.get(length..)).ok_or(DAMAGED)?;
        let mut next = || {
            let (kind, rest) = varint(types)?;
            types = rest;
            let (column, rest) = Column::take(kind, body)?;
            body = rest;
            Ok(column)
        };
        let Column::Text(text) = next()? else { return Err(DAMAGED) };
        let mut order = text.cmp(key.text);
        for wanted in key.numbers {
            if order.is_eq() {
                order = next()?.number()?.cmp(wanted);
            }
        }
        Ok(order)
    }

    /// The order of the row beside those whose text begins with `beginning`.
    fn compare_beginning(&self, beginning: &[u8]) -> Result<Ordering> {
        let columns = self.columns(1)?;
        let [Column::Text(text)] = columns.as_slice() else { return Err(DAMAGED) };
        Ok(text.get(..beginning.len()).unwrap_or(text).cmp(beginning))
    }

    /// The first columns of the record, at most `most`.
    pub(super) fn columns(&self, most: usize) -> Result<Vec<Column<'_>>> {
        let bytes = self.bytes();
        let (header, mut types) = varint(bytes)?;
        let length = usize::try_from(header).ok().filter(|length| *length <= bytes.len()).ok_or(DAMAGED)?;
        let mut body = &bytes[length..];
        let taken = bytes.len() - types.len();
        types = types.get(..length.checked_sub(taken).ok_or(DAMAGED)?).ok_or(DAMAGED)?;
        let mut columns = Vec::with_capacity(most.min(COLUMNS_MAX));
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
pub(super) enum Column<'a> {
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

    pub(super) fn number(&self) -> Result<i64> {
        match self {
            Column::Number(value) => Ok(*value),
            _ => Err(DAMAGED),
        }
    }
}

/// The root page that a row of the schema gives for the table `name`.
fn root_of_table(record: &Record<'_>, name: &[u8]) -> Result<Option<u32>> {
    let columns = record.columns(4)?;
    match columns.as_slice() {
        [Column::Text(b"table"), Column::Text(found), _, Column::Number(root)] if *found == name => {
            u32::try_from(*root).map(Some).map_err(|_| DAMAGED)
        }
        _ => Ok(None),
    }
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
