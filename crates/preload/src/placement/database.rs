//! An interaction database: the layouts of the next run's files, and the names under which files are made first.
//!
//! A program that writes `x.tmp` and renames it to `x` makes `x` under another name. The table `temporary` leads from
//! the name at the making to the last name, by which a file is placed. Some names have random parts: the table `pattern` tells
//! which parts. Names that many files have one after the other are told apart by the rank, and by the turn of the making.

use crate::placement::pages::Pages;
use crate::placement::pattern::Pattern;
use crate::placement::sqlite::{Column, Key, Record, Result, SqliteFile, DAMAGED};
use std::ops::ControlFlow::{Break, Continue};

pub(crate) use crate::placement::sqlite::Unusable;

/// `PRAGMA application_id` of an interaction database.
const APPLICATION: u32 = 0x5765_6972;
/// `PRAGMA user_version` of databases without temporary names, and of databases with temporary names.
const VERSIONS: [u32; 2] = [1, 2];
const PLACEMENT: &[u8] = b"placement";
const TEMPORARY: &[u8] = b"temporary";
const PATTERN: &[u8] = b"pattern";
/// path, component, extent_start, extent_end, stripe_bytes, stripe_count, size_bytes, rank, targets.
const COLUMNS: usize = 9;
/// name, rank, turn, path.
const TEMPORARY_COLUMNS: usize = 4;
/// The number that stands for every rank, and for every turn.
const ANY: i64 = -1;

/// The number of a file's first component.
const FIRST_COMPONENT: i64 = 1;

/// Most rows that are counted below a directory, in about a millisecond. A tree of more files wants a whole server, too.
const ROWS_COUNTED_MAX: usize = 8192;
/// Most components of one file.
const COMPONENTS_MAX: usize = 64;
/// Most patterns of a database: a creation without a prediction is compared with all of them.
const PATTERNS_MAX: usize = 64;

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

/// A file under the name with which it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Temporary {
    /// The file's components, none where the database lacks the file.
    pub(crate) components: Vec<Component>,
    /// The name whose turn counts, where several files have the name one after the other.
    pub(crate) in_turn: Option<Vec<u8>>,
}

const FOREIGN: Unusable = Unusable("is not an interaction database");

/// An open interaction database.
pub(crate) struct Database<P> {
    file: SqliteFile<P>,
    placement: u32,
    temporary: Option<u32>,
    patterns: Vec<Pattern>,
}

impl<P: Pages> Database<P> {
    /// Checks what `pages` hold, and reads the inner pages.
    pub(crate) fn open(pages: P) -> Result<Database<P>> {
        let mut file = SqliteFile::open(pages, APPLICATION, FOREIGN)?;
        if !VERSIONS.contains(&file.version()) {
            return Err(Unusable("is of another version"));
        }
        let placement = file.table(PLACEMENT)?.ok_or(FOREIGN)?;
        let (temporary, pattern) = (file.table(TEMPORARY)?, file.table(PATTERN)?);
        let mut patterns = Vec::new();
        if let Some(pattern) = pattern {
            file.all_rows(pattern, &mut |record| {
                let columns = record.columns(1)?;
                let [Column::Text(text)] = columns.as_slice() else { return Err(DAMAGED) };
                if patterns.len() >= PATTERNS_MAX {
                    return Err(DAMAGED);
                }
                patterns.push(Pattern::new(text).ok_or(DAMAGED)?);
                Ok(())
            })?;
        }
        Ok(Database { file, placement, temporary, patterns })
    }

    /// The components of the file that is placed under the name `path`, none where the database lacks the file.
    pub(crate) fn components(&self, path: &[u8]) -> Result<Vec<Component>> {
        let mut rows = Vec::new();
        self.file.rows(self.placement, Key { text: path, numbers: &[] }, &mut |record| {
            if rows.len() >= COMPONENTS_MAX {
                return Err(DAMAGED);
            }
            rows.push(Row::of(record)?);
            Ok(())
        })?;
        components(rows)
    }

    /// The number of files below the directory `path`, as far as the first [`ROWS_COUNTED_MAX`] rows tell.
    pub(crate) fn files_below(&self, path: &[u8]) -> Result<u32> {
        let beginning = [path, b"/"].concat();
        let (mut rows, mut files) = (0, 0);
        self.file.rows_beginning(self.placement, &beginning, &mut |record| {
            let columns = record.columns(2)?;
            let [_, component] = columns.as_slice() else { return Err(DAMAGED) };
            rows += 1;
            files += u32::from(component.number()? == FIRST_COMPONENT);
            Ok(if rows < ROWS_COUNTED_MAX { Continue(()) } else { Break(()) })
        })?;
        Ok(files)
    }

    /// Whether some files are made under other names than their last ones.
    pub(crate) fn has_temporaries(&self) -> bool {
        self.temporary.is_some()
    }

    /// The file that rank `rank` makes under the temporary name `path`. `turn` answers how many files the process has made
    /// under a name before.
    pub(crate) fn find_temporary(
        &self,
        path: &[u8],
        rank: i64,
        turn: impl Fn(&[u8]) -> i64,
    ) -> Result<Temporary> {
        let Some(temporary) = self.temporary else { return Ok(Temporary::default()) };
        let names = self.patterns.iter().filter_map(|pattern| pattern.name(path));
        for name in std::iter::once(path.to_vec()).chain(names) {
            if let Some(last) = self.last_name(temporary, &name, ANY, ANY)? {
                return Ok(Temporary { components: self.components(&last)?, in_turn: None });
            }
            if let Some(last) = self.last_name(temporary, &name, rank, turn(&name))? {
                // An empty name keeps the turn of a file that is not foreseen.
                return Ok(Temporary { components: self.components(&last)?, in_turn: Some(name) });
            }
        }
        Ok(Temporary::default())
    }

    fn last_name(&self, temporary: u32, name: &[u8], rank: i64, turn: i64) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.file.rows(temporary, Key { text: name, numbers: &[rank, turn] }, &mut |record| {
            let columns = record.columns(TEMPORARY_COLUMNS)?;
            let [_, _, _, Column::Text(path)] = columns.as_slice() else { return Err(DAMAGED) };
            found = Some(path.to_vec());
            Ok(())
        })?;
        Ok(found)
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

    const TEMPORARY_SCHEMA: &str = "PRAGMA user_version=2; \
        CREATE TABLE temporary (name TEXT NOT NULL, rank INTEGER NOT NULL, turn INTEGER NOT NULL, path TEXT NOT NULL, \
        PRIMARY KEY (name, rank, turn)) WITHOUT ROWID; \
        CREATE TABLE pattern (pattern TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;";

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
                prop_assert_eq!(&database.components(path.as_bytes()).unwrap(), components);
                for other in [format!("{path}/"), path[..path.len() - 1].to_owned()] {
                    if !files.iter().any(|(path, _)| *path == other) {
                        prop_assert_eq!(database.components(other.as_bytes()).unwrap(), vec![]);
                    }
                }
            }
            for directory in ["", "/mnt", "/mnt/lustre", "/mnt/lustre/ior", "/mnt/lustre/io", "/long", "/a", "/none"] {
                let below = |path: &&String| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
                let expected = files.iter().map(|(path, _)| path).filter(below).count();
                prop_assert_eq!(database.files_below(directory.as_bytes()).unwrap() as usize, expected, "{}", directory);
            }
        }
    }

    fn small() -> Vec<u8> {
        let rows: String = (0..60)
            .map(|index| insert(&format!("/mnt/file.{index}"), &[component(None, 1 << 20, "3.1 0.2")]))
            .collect();
        let names: String = (0..60)
            .map(|turn| {
                format!("INSERT INTO temporary VALUES ('/mnt/tmp??????', 0, {turn}, '/mnt/file.{turn}');")
            })
            .collect();
        let pattern = "INSERT INTO pattern VALUES ('tmp??????');";
        made_by_sqlite(&format!("PRAGMA page_size=512; {SCHEMA} {TEMPORARY_SCHEMA} {rows} {names} {pattern}"))
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
                    let _ = database.components(format!("/mnt/file.{index}").as_bytes());
                    let _ = database.find_temporary(b"/mnt/tmpaB3dE6", 0, |_| index);
                }
                let _ = database.files_below(b"/mnt");
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
            refused(made_by_sqlite(&SCHEMA.replace("user_version=1", "user_version=3"))),
            "is of another version"
        );
        let write_ahead = "PRAGMA journal_mode=WAL;";
        assert_eq!(
            refused(made_by_sqlite(&format!("{SCHEMA} {write_ahead}"))),
            "is in WAL mode or not in UTF-8"
        );
    }

    #[test]
    fn a_temporary_name_leads_to_the_file_that_gets_its_last_name_afterwards() {
        let files: String = (0..2000)
            .map(|turn| insert(&format!("/m/file.{turn}"), &[component(None, 1 + turn, "0.1")]))
            .collect();
        let turns =
            "WITH RECURSIVE number(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < 1999) \
            INSERT INTO temporary SELECT '/m/tmp????????', n % 2, n / 2, '/m/file.' || n FROM number;";
        let others = "INSERT INTO temporary VALUES ('/m/.file.7.??????', -1, -1, '/m/file.7'), \
            ('/m/out.tmp', 0, 0, '/m/file.0'), ('/m/out.tmp', 0, 1, ''), ('/m/out.tmp', 0, 2, '/m/file.2'); \
            INSERT INTO pattern VALUES ('tmp????????'), ('.*.??????');";
        let bytes = made_by_sqlite(&format!(
            "PRAGMA page_size=512; {SCHEMA} {TEMPORARY_SCHEMA} BEGIN; {files} {turns} {others} COMMIT;"
        ));
        for in_memory in [false, true] {
            let database = open(bytes.clone(), in_memory).unwrap();
            let found = |path: &str, rank, turn| {
                let found = database.find_temporary(path.as_bytes(), rank, |_| turn).unwrap();
                let name = found.in_turn.map(|name| String::from_utf8(name).unwrap());
                (found.components.first().map(|component| component.stripe_bytes - 1), name)
            };
            let marked = Some("/m/tmp????????".to_owned());
            for (rank, turn) in [(0, 0), (1, 0), (0, 999), (1, 731)] {
                let expected = (Some((2 * turn + rank) as u64), marked.clone());
                assert_eq!(found("/m/tmpa3_k0z9q", rank, turn), expected, "{rank} {turn}");
            }
            assert_eq!(found("/m/tmpa3_k0z9q", 0, 1000), (None, None));
            assert_eq!(found("/m/tmpa3_k0z9q", 2, 0), (None, None));
            assert_eq!(found("/m/.file.7.aB3dE6", 5, 9), (Some(7), None));
            assert_eq!(found("/m/.file.8.aB3dE6", 5, 9), (None, None));
            let turns = [0, 1, 2, 3].map(|turn| found("/m/out.tmp", 0, turn).0);
            assert_eq!(turns, [Some(0), None, Some(2), None]);
            assert_eq!(found("/m/out.tmp", 0, 1).1.as_deref(), Some("/m/out.tmp"));
        }
    }

    #[test]
    fn files_below_a_directory_are_counted_up_to_a_bound() {
        let files = |directory: &str, count: usize| {
            format!(
                "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {count}) \
                INSERT INTO placement SELECT '{directory}/' || n, 1, 0, -1, 65536, 1, 9, 0, '' FROM number;"
            )
        };
        let rows = [("/m/large", 20_000), ("/m/large-too", 3), ("/m/small/deep", 700)];
        let rows: String = rows.map(|(directory, count)| files(directory, count)).concat();
        let bytes = made_by_sqlite(&format!("{SCHEMA} BEGIN; {rows} COMMIT;"));
        for in_memory in [false, true] {
            let database = open(bytes.clone(), in_memory).unwrap();
            let counted =
                ["/m/large", "/m/large-too", "/m/small", "/m/small/deep", "/m/small/deep/7", "/m", "/n"]
                    .map(|directory| database.files_below(directory.as_bytes()).unwrap());
            let most = ROWS_COUNTED_MAX as u32;
            assert_eq!(counted, [most, 3, 700, 700, 0, most, 0]);
        }
    }

    #[test]
    fn a_pattern_that_is_none_is_damage() {
        let wrong = format!("{SCHEMA} {TEMPORARY_SCHEMA} INSERT INTO pattern VALUES ('a*b*');");
        assert_eq!(open(made_by_sqlite(&wrong), true).err(), Some(DAMAGED));
    }

    #[test]
    fn rows_that_make_no_layout_are_damage() {
        let gap = "INSERT INTO placement VALUES ('/a', 1, 5, -1, 1, 1, 9, 0, '1');";
        let stripeless = "INSERT INTO placement VALUES ('/b', 1, 0, -1, 1, 0, 9, 0, '');";
        let text = "INSERT INTO placement VALUES ('/c', 1, 0, -1, 'x', 1, 9, 0, '1');";
        let database = open(made_by_sqlite(&format!("{SCHEMA} {gap} {stripeless} {text}")), true).unwrap();
        for path in [b"/a", b"/b", b"/c"] {
            assert_eq!(database.components(path), Err(DAMAGED));
        }
    }
}
