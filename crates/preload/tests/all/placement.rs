//! Files that an interaction database foresaw are made with their layouts, and everything else goes on as without one.

use crate::store::{compile, ways, Store, Way};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use weir_testing::{can_mount, checked};

/// A little more than the time between two looks for a changed database.
const NOTICED: Duration = Duration::from_millis(1200);
const LAYOUT: &str = "-o 1.1,0.0 -S 64k";

/// Writes an interaction database as SQLite does, in place of the one at `file`.
fn write_database(file: &Path, rows: &[(&Path, &str)]) {
    let fresh = file.with_extension("new");
    let mut program =
        Command::new("sqlite3").arg(&fresh).stdin(Stdio::piped()).spawn().expect("sqlite3 is there");
    let mut statements = String::from(
        "PRAGMA application_id=0x57656972; PRAGMA user_version=1; CREATE TABLE placement (path TEXT NOT NULL, \
         component INTEGER NOT NULL, extent_start INTEGER NOT NULL, extent_end INTEGER NOT NULL, stripe_bytes \
         INTEGER NOT NULL, stripe_count INTEGER NOT NULL, size_bytes INTEGER NOT NULL, rank INTEGER NOT NULL, \
         targets TEXT NOT NULL, PRIMARY KEY (path, component)) WITHOUT ROWID; BEGIN;",
    );
    for (path, row) in rows {
        statements += &format!("INSERT INTO placement VALUES ('{}', {row});", path.display());
    }
    statements += "COMMIT;";
    program.stdin.take().expect("piped").write_all(statements.as_bytes()).expect("it reads");
    assert!(program.wait().expect("it ends").success());
    std::fs::rename(fresh, file).expect("the same folder");
}

/// Component, extent, stripe size and count, size, rank, targets of [`LAYOUT`].
const ROW: &str = "1, 0, -1, 65536, 2, 5, 0, '1.1 0.0'";

/// The test program, to which lines go one by one.
struct Maker {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Maker {
    fn start(mut command: Command) -> Maker {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Maker { child, answers }
    }

    /// The program's answer to a line, without the first word: an error number, and the mode of the file.
    fn say(&mut self, line: &str) -> String {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{line}").expect("it reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("it answers");
        let rest = answer.split_once(' ').map(|(_, rest)| rest.trim_end().to_owned());
        rest.unwrap_or_else(|| panic!("{line}: {answer:?}"))
    }

    fn make(&mut self, how: &str, path: &Path) -> String {
        self.say(&format!("{how} {}", path.display()))
    }

    /// Ends the program. Answers its standard error.
    fn end(self) -> String {
        let output = self.child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    }
}

struct Bench {
    store: Store,
    program: PathBuf,
    database: PathBuf,
    report: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let store = Store::start(can_mount());
        let program = compile("creations", store.folder(), &["-O1"]);
        let (database, report) = (store.folder().join("placement.db"), store.folder().join("report.json"));
        Bench { store, program, database, report }
    }

    /// A fresh folder of the store, and the test program with the database.
    fn start(&self, way: Way, name: &str) -> (PathBuf, Command) {
        let folder = self.store.root(way).join(format!("{name}-{way:?}"));
        checked(self.store.command(way, "mkdir").arg(&folder));
        let mut command = self.store.command(way, &self.program);
        command.env("WEIR_PLACEMENT", &self.database).env("WEIR_PLACEMENT_REPORT", &self.report);
        let _ = std::fs::remove_file(&self.report);
        (folder, command)
    }

    /// Writes a database that has `paths`, each with [`LAYOUT`].
    fn foresee(&self, paths: &[PathBuf]) {
        write_database(&self.database, &paths.iter().map(|path| (path.as_path(), ROW)).collect::<Vec<_>>());
    }

    fn layout(&self, way: Way, path: &Path) -> String {
        checked(self.store.command(way, "getfattr").args(["--only-values", "-n", "weir.layout"]).arg(path))
    }

    /// A count of the reports of all processes, summed.
    fn reported(&self, name: &str) -> u64 {
        self.reports().iter().map(|report| report[name].as_u64().expect("a count")).sum()
    }

    fn reports(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.report).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

#[test]
fn foreseen_files_get_their_layouts_however_they_are_made() {
    let bench = Bench::new();
    for way in ways() {
        let (folder, command) = bench.start(way, "foreseen");
        let modes = [
            ("open", "640"),
            ("truncate", "644"),
            ("exclusive", "444"),
            ("stream", "644"),
            ("stream-exclusive", "644"),
            ("below", "600"),
            ("fork", "644"),
            ("handler", "644"),
        ];
        let mut paths: Vec<PathBuf> = modes.iter().map(|(how, _)| folder.join(how)).collect();
        paths.extend((0..20).map(|index| folder.join(format!("thread.{index}"))));
        paths.push(folder.join("relative"));
        bench.foresee(&paths);
        let mut maker = Maker::start(command);
        for (how, mode) in modes {
            assert_eq!(maker.make(how, &folder.join(how)), format!("0 {mode}"), "{how} by {way:?}");
        }
        assert_eq!(maker.say(&format!("threads {} 20", folder.join("thread").display())), "0 0");
        for how in ["exclusive", "stream-exclusive"] {
            let answer = maker.make(how, &folder.join(how));
            assert!(answer.starts_with(&format!("{} ", libc::EEXIST)), "{how} again by {way:?}: {answer}");
        }
        maker.make("enter", &folder);
        for _ in 0..2 {
            assert_eq!(maker.make("open", Path::new("./relative")), "0 640");
        }
        assert_eq!(maker.end(), "", "{way:?}");
        let reports = bench.reports();
        for path in &paths {
            assert_eq!(bench.layout(way, path), LAYOUT, "{} by {way:?}: {reports:?}", path.display());
            assert_eq!(checked(bench.store.command(way, "cat").arg(path)), "words");
        }
        assert_eq!(bench.reported("placed"), paths.len() as u64, "{way:?}: {reports:?}");
        assert_eq!(bench.reported("missed") + bench.reported("refused"), 0, "{way:?}: {reports:?}");
        assert!(bench.reported("present") >= 1, "{way:?}: {reports:?}");
        assert_eq!(reports.len(), 2, "the program and its child, by {way:?}: {reports:?}");
    }
}

#[test]
fn what_the_database_does_not_have_is_made_as_without_it_and_counted() {
    let bench = Bench::new();
    for way in ways() {
        let (folder, command) = bench.start(way, "missed");
        let elsewhere = bench.store.folder().join(format!("elsewhere-{way:?}"));
        bench.foresee(&[folder.join("never")]);
        let mut maker = Maker::start(command);
        for (how, name) in [("open", "a"), ("stream", "b"), ("exclusive", "c"), ("open", "a")] {
            assert!(maker.make(how, &folder.join(name)).starts_with("0 "), "{how} by {way:?}");
        }
        assert_eq!(maker.make("open", &elsewhere), "0 640");
        let gone = maker.make("open", &folder.join("no/such"));
        assert!(gone.starts_with(&format!("{} ", libc::ENOENT)), "{way:?}: {gone}");
        assert_eq!(maker.end(), "");
        let reports = bench.reports();
        assert_eq!(bench.reported("missed"), 3, "{way:?}: {reports:?}");
        let names = reports[0]["names"].as_array().expect("names");
        let expected: Vec<String> =
            ["a", "b", "c"].map(|name| folder.join(name).display().to_string()).into();
        assert_eq!(names.iter().map(|name| name.as_str().expect("text")).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_file_with_a_temporary_name_gets_the_layout_of_its_last_name() {
    let bench = Bench::new();
    for way in ways() {
        let (folder, command) = bench.start(way, "temporary");
        let last: Vec<PathBuf> = (0..3).map(|index| folder.join(format!("last.{index}"))).collect();
        bench.foresee(&last);
        let folder_name = folder.display();
        let turns: String = last
            .iter()
            .enumerate()
            .map(|(turn, path)| {
                format!(
                    "INSERT INTO temporary VALUES ('{folder_name}/work-??????', 0, {turn}, '{}');",
                    path.display()
                )
            })
            .collect();
        checked(Command::new("sqlite3").arg(&bench.database).arg(format!(
            "PRAGMA user_version=2; CREATE TABLE temporary (name TEXT NOT NULL, rank INTEGER NOT NULL, turn INTEGER \
             NOT NULL, path TEXT NOT NULL, PRIMARY KEY (name, rank, turn)) WITHOUT ROWID; CREATE TABLE pattern \
             (pattern TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID; INSERT INTO pattern VALUES ('work-??????'); {turns}"
        )));
        let mut maker = Maker::start(command);
        // An existing file takes no turn.
        assert_eq!(maker.make("open", &folder.join("work-aaaaaa")), "0 640");
        assert_eq!(maker.make("truncate", &folder.join("work-aaaaaa")), "0 640");
        for index in 1..=3 {
            assert_eq!(maker.make("temporary", &folder.join(format!("renamed.{index}"))), "0 600");
        }
        assert_eq!(maker.end(), "", "{way:?}");
        assert_eq!(bench.layout(way, &folder.join("work-aaaaaa")), LAYOUT, "{way:?}");
        for index in 1..=2 {
            assert_eq!(bench.layout(way, &folder.join(format!("renamed.{index}"))), LAYOUT, "{way:?}");
        }
        assert_ne!(bench.layout(way, &folder.join("renamed.3")), LAYOUT, "{way:?}");
        let reports = bench.reports();
        let counts = ["placed", "present", "missed"].map(|name| bench.reported(name));
        assert_eq!(counts, [3, 1, 1], "{way:?}: {reports:?}");
    }
}

#[test]
fn a_layout_that_the_store_refuses_leaves_the_place_to_the_store() {
    let bench = Bench::new();
    for way in ways() {
        let (folder, command) = bench.start(way, "refused");
        let rows = ["'9.9'", "'14'", "'0.0 0.0'"].map(|targets| {
            let count = targets.split(' ').count();
            (
                folder.join(targets.replace('\'', "").replace(' ', "-")),
                format!("1, 0, -1, 65536, {count}, 5, 0, {targets}"),
            )
        });
        write_database(&bench.database, &rows.each_ref().map(|(path, row)| (path.as_path(), row.as_str())));
        let mut maker = Maker::start(command);
        for (path, _) in &rows {
            assert_eq!(maker.make("exclusive", path), "0 444", "{} by {way:?}", path.display());
        }
        assert_eq!(maker.end(), "");
        for (path, _) in &rows {
            assert_eq!(checked(bench.store.command(way, "cat").arg(path)), "words");
        }
        assert_eq!(bench.reported("refused"), 3, "{way:?}: {:?}", bench.reports());
        assert_eq!(bench.reported("placed"), 0, "{way:?}: {:?}", bench.reports());
    }
}

#[test]
fn several_components_reach_the_store() {
    let bench = Bench::new();
    for way in ways() {
        let (folder, command) = bench.start(way, "components");
        let path = folder.join("file");
        let rows = [
            (path.as_path(), "1, 0, 131072, 65536, 1, 5, 0, '0.1'"),
            (path.as_path(), "2, 131072, 1048576, 131072, 3, 5, 0, '0.0 1.0 1.1'"),
        ];
        write_database(&bench.database, &rows);
        let mut maker = Maker::start(command);
        assert_eq!(maker.make("open", &path), "0 640");
        assert_eq!(maker.end(), "");
        assert_eq!(bench.layout(way, &path), "-E 128k -o 0.1 -S 64k -E -1 -o 0.0,1.0,1.1 -S 128k");
    }
}

#[test]
fn a_database_that_takes_the_place_of_another_is_noticed() {
    let bench = Bench::new();
    for way in ways() {
        let (folder, command) = bench.start(way, "replaced");
        bench.foresee(&[folder.join("first")]);
        let mut maker = Maker::start(command);
        assert_eq!(maker.make("open", &folder.join("first")), "0 640");
        bench.foresee(&[folder.join("second")]);
        std::thread::sleep(NOTICED);
        assert_eq!(maker.make("open", &folder.join("second")), "0 640");
        // A database that is gone stays in use.
        std::fs::remove_file(&bench.database).expect("it is there");
        std::thread::sleep(NOTICED);
        maker.make("open", &folder.join("third"));
        assert_eq!(maker.end(), "");
        assert_eq!(bench.layout(way, &folder.join("second")), LAYOUT);
        assert_eq!((bench.reported("placed"), bench.reported("missed")), (2, 1), "{:?}", bench.reports());
    }
}

#[test]
fn an_unusable_database_is_told_once_and_leaves_every_creation_as_it_was() {
    let bench = Bench::new();
    let way = Way::Prefix;
    let (folder, _) = bench.start(way, "unusable");
    let path = folder.join("file");
    bench.foresee(std::slice::from_ref(&path));
    let whole = std::fs::read(&bench.database).expect("it is there");
    let mut other = whole.clone();
    other[63] = 3;
    let mut damaged = whole.clone();
    damaged[100] = 0x77;
    let cases: [(&[u8], &str); 5] = [
        (b"", "is not an interaction database"),
        (b"words that are no database, though there are more than a hundred bytes of them, which is what a header has", "is not"),
        (&whole[..whole.len() / 2], "is damaged"),
        (&other, "is of another version"),
        (&damaged, "is damaged"),
    ];
    for (index, (bytes, words)) in cases.into_iter().enumerate() {
        std::fs::write(&bench.database, bytes).expect("a file");
        let (_, command) = bench.start(way, &format!("unusable-{index}"));
        let mut maker = Maker::start(command);
        for name in ["one", "two"] {
            assert_eq!(maker.make("exclusive", &folder.join(format!("{name}{index}"))), "0 444", "{words}");
        }
        let told = maker.end();
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(
            told.contains(words) && told.contains("placement.db") && told.contains("weir place"),
            "{told}"
        );
    }
    std::fs::remove_file(&bench.database).expect("it is there");
    let (_, command) = bench.start(way, "none");
    let mut maker = Maker::start(command);
    assert_eq!(maker.make("open", &folder.join("none")), "0 640");
    let told = maker.end();
    assert!(told.contains("placement.db is not there"), "{told}");
}

/// A copy over the file, instead of a replacement, cuts the file under the mapping of a running program. Large databases are
/// mapped.
#[test]
fn a_database_that_is_cut_under_a_running_program_does_not_end_it() {
    let bench = Bench::new();
    let (folder, command) = bench.start(Way::Prefix, "cut");
    let paths: Vec<PathBuf> = (0..50).map(|index| folder.join(format!("file.{index}"))).collect();
    bench.foresee(&paths);
    let more = format!(
        "WITH RECURSIVE number(n) AS (SELECT 50 UNION ALL SELECT n + 1 FROM number WHERE n < 400000) \
         INSERT INTO placement SELECT '{}/file.' || n, {ROW} FROM number;",
        folder.display()
    );
    checked(Command::new("sqlite3").arg(&bench.database).arg(more));
    assert!(std::fs::metadata(&bench.database).expect("it is there").len() > 16 << 20);
    let mut maker = Maker::start(command);
    assert_eq!(maker.make("open", &paths[0]), "0 640");
    std::fs::write(&bench.database, b"").expect("a file");
    for path in &paths[1..] {
        assert_eq!(maker.make("open", path), "0 640");
    }
    let told = maker.end();
    // On a slow machine the next version, of no bytes, is noticed before a page is missing.
    assert!(told.contains("placement.db is damaged") || told.contains("is not an interaction"), "{told}");
    assert_eq!(bench.layout(Way::Prefix, &paths[0]), LAYOUT);
}

#[test]
fn a_child_of_vfork_leaves_the_database_alone() {
    if !can_mount() {
        return;
    }
    let bench = Bench::new();
    let (folder, command) = bench.start(Way::Preload, "vfork");
    let paths = [folder.join("before"), folder.join("child"), folder.join("after")];
    bench.foresee(&paths);
    let mut maker = Maker::start(command);
    for (how, path) in ["open", "vfork", "open"].into_iter().zip(&paths) {
        assert!(maker.make(how, path).starts_with("0 "), "{how}");
    }
    assert_eq!(maker.end(), "");
    assert_eq!(bench.reported("placed"), 2, "{:?}", bench.reports());
    assert_eq!(bench.layout(Way::Preload, &paths[2]), LAYOUT);
}
