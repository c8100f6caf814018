//! Every damage to the places of a server, at every place, with and without consent.

use super::*;
use std::fs;
use weir_core::config::ClusterConfig;
use weir_core::journal::Losses;

const KEY: [u8; 32] = [7; 32];

/// A durable server with two targets outside of its home.
struct Scene {
    folder: tempfile::TempDir,
    key: [u8; 32],
    server: u16,
}

impl Scene {
    fn new() -> Scene {
        let scene = Scene { folder: tempfile::tempdir().unwrap(), key: KEY, server: 0 };
        scene.start(true, Losses::Refused).unwrap();
        (0..2).for_each(|index| put_object(&scene.target(index)));
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn journal(&self) -> PathBuf {
        self.path(&format!("home/servers/{}/journal", self.server))
    }

    fn home(&self) -> PathBuf {
        self.path(&format!("home/identities/{}", self.server))
    }

    fn target(&self, index: usize) -> PathBuf {
        self.path(&format!("target-{index}"))
    }

    fn places(&self) -> Places {
        let table = |index| {
            format!(
                "[[server.target]]\nbackend = \"dir\"\ncapacity = \"1MiB\"\npath = \"{}\"\n",
                self.target(index).display()
            )
        };
        let text = format!("version = 1\n[[server]]\n{}{}", table(0), table(1));
        let config: ClusterConfig = toml::from_str(&text).unwrap();
        Places::of(
            (ServerId(self.server), &config.servers[0]),
            true,
            &self.path("home"),
            &SiteKey::new(self.key),
        )
    }

    /// Starts the server and ends it, with `changes` on stable storage.
    fn run(&self, changes: u64) {
        let opened = self.places().open(Consent::default()).unwrap();
        opened.identity.unwrap().settle(changes).unwrap();
    }

    fn start(&self, is_first_run: bool, losses: Losses) -> Result<u64, ServerError> {
        let consent = Consent { is_first_run, losses };
        let checked = self.places().check(consent).map_err(|error| error.to_string());
        let opened = self.places().open(consent);
        assert_eq!(checked.err(), opened.as_ref().err().map(ToString::to_string), "the check is the start's");
        opened.map(|opened| opened.witnessed)
    }

    fn refusal(&self, is_first_run: bool, losses: Losses) -> Option<String> {
        self.start(is_first_run, losses).err().map(|error| error.to_string())
    }
}

fn put_object(target: &Path) {
    fs::create_dir_all(target.join("07")).unwrap();
    fs::write(target.join("07/0001000000000007"), "bytes").unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => _ = fs::copy(entry.path(), to.join(entry.file_name())).unwrap(),
        }
    }
}

fn replace(from: &Path, to: &Path) {
    fs::remove_dir_all(to).unwrap();
    copy(from, to);
}

fn empty(folder: &Path) {
    fs::remove_dir_all(folder).unwrap();
    fs::create_dir(folder).unwrap();
}

type Damage = (&'static str, fn(&Scene), &'static str, bool);

/// The damage, what the refusal says, and whether `--accept-journal-loss` is a way out.
const DAMAGES: [Damage; 19] = [
    (
        "a target's disk is not mounted",
        |scene| empty(&scene.target(1)),
        "target 0.1 is refused: a folder without",
        false,
    ),
    (
        "a target's folder is gone",
        |scene| fs::remove_dir_all(scene.target(0)).unwrap(),
        "target 0.0 is refused: no folder",
        false,
    ),
    (
        "a target's stamp is spoilt",
        |scene| fs::write(scene.target(0).join(STAMP), "x").unwrap(),
        "cannot be read",
        false,
    ),
    (
        "a target of another store",
        |scene| {
            let other = Scene { key: [8; 32], ..Scene::new() };
            fs::remove_dir_all(other.path("home")).unwrap();
            (0..2).for_each(|index| empty(&other.target(index)));
            other.start(true, Losses::Refused).unwrap();
            replace(&other.target(0), &scene.target(0));
        },
        "the folder of another store",
        false,
    ),
    (
        "a target of another server",
        |scene| {
            let other = Scene { server: 3, ..Scene::new() };
            (0..2).for_each(|index| empty(&other.target(index)));
            other.start(true, Losses::Refused).unwrap();
            replace(&other.target(0), &scene.target(0));
        },
        "the folder of server 3 of this store",
        false,
    ),
    (
        "a target of an earlier server of the number",
        |scene| replace(&Scene::new().target(0), &scene.target(0)),
        "an earlier server 0",
        false,
    ),
    (
        "a copy of another target",
        |scene| replace(&scene.target(0), &scene.target(1)),
        "target 0.0, or a copy of it",
        false,
    ),
    (
        "one folder for two targets",
        |scene| {
            fs::remove_dir_all(scene.target(1)).unwrap();
            std::os::unix::fs::symlink(scene.target(0), scene.target(1)).unwrap();
        },
        "a link or no folder",
        false,
    ),
    (
        "an older copy of a target",
        |scene| {
            copy(&scene.target(1), &scene.path("copy"));
            scene.run(0);
            replace(&scene.path("copy"), &scene.target(1));
        },
        "target 0.1 is refused: an older copy, opened last in start 2 of 3",
        false,
    ),
    (
        "the journal's folder is gone",
        |scene| fs::remove_dir_all(scene.journal()).unwrap(),
        "the journal of server 0 is refused: no folder",
        true,
    ),
    (
        "the journal's disk is not mounted",
        |scene| empty(&scene.journal()),
        "the journal of server 0 is refused: a folder without",
        true,
    ),
    (
        "an older copy of the journal",
        |scene| {
            copy(&scene.journal(), &scene.path("copy"));
            scene.run(0);
            replace(&scene.path("copy"), &scene.journal());
        },
        "an older copy",
        true,
    ),
    (
        "the journal of another server of the number",
        |scene| replace(&Scene::new().journal(), &scene.journal()),
        "an earlier server 0",
        false,
    ),
    (
        "the folder of the server is gone",
        |scene| fs::remove_dir_all(scene.path("home/servers")).unwrap(),
        "the journal of server 0",
        true,
    ),
    (
        "the home's stamps are gone",
        |scene| fs::remove_dir_all(scene.path("home/identities")).unwrap(),
        "the home of server 0 is refused",
        false,
    ),
    ("the home's stamp is spoilt", |scene| fs::write(scene.home(), "").unwrap(), "cannot be read", false),
    (
        "the home is gone",
        |scene| fs::remove_dir_all(scene.path("home")).unwrap(),
        "the home of server 0 is refused",
        false,
    ),
    (
        "an older copy of the home's stamp",
        |scene| {
            copy(&scene.path("home/identities"), &scene.path("copy"));
            scene.run(0);
            scene.run(0);
            replace(&scene.path("copy"), &scene.path("home/identities"));
        },
        "where the home knows 2",
        false,
    ),
    (
        "another key of the site",
        |scene| {
            let other = Scene { key: [9; 32], ..Scene::new() };
            fs::remove_dir_all(other.path("home")).unwrap();
            (0..2).for_each(|index| empty(&other.target(index)));
            other.start(true, Losses::Refused).unwrap();
            replace(&other.path("home/identities"), &scene.path("home/identities"));
        },
        "the home of server 0 is refused: the folder of another store",
        false,
    ),
];

#[test]
fn every_damage_is_refused_with_a_way_out_and_nothing_is_made_in_its_place() {
    for (name, damage, words, is_journals) in DAMAGES {
        let scene = Scene::new();
        scene.run(712);
        damage(&scene);
        for is_first_run in [false, true] {
            let refusal = scene.refusal(is_first_run, Losses::Refused);
            let refusal = refusal.unwrap_or_else(|| panic!("{name}: it started (first run: {is_first_run})"));
            assert!(refusal.contains(words) || is_first_run, "{name}: {refusal}");
            assert!(refusal.contains("hint: "), "{name}: {refusal}");
        }
        let accepted = scene.refusal(false, Losses::Accepted);
        assert_eq!(accepted.is_none(), is_journals, "{name}: {accepted:?}");
    }
}

/// A journal that is given up, or brought back older, has marks of changes that it lacks in the other stamps.
#[test]
fn stamps_tell_a_journal_without_its_mark_what_it_had() {
    let scene = Scene::new();
    scene.run(712);
    assert_eq!(scene.start(false, Losses::Refused).unwrap(), 712);
    fs::remove_dir_all(scene.journal()).unwrap();
    assert_eq!(scene.start(false, Losses::Accepted).unwrap(), 712, "its loss can be told");
    scene.run(3);
    assert_eq!(scene.start(false, Losses::Refused).unwrap(), 3, "its loss was accepted");

    fs::write(scene.journal().join(RESTORED), "").unwrap();
    fs::remove_file(scene.journal().join(STAMP)).unwrap();
    assert!(Look::at(&scene.places(), Consent::default()).unwrap().is_restored);
    assert_eq!(scene.start(false, Losses::Refused).unwrap(), 0, "the owner consented to its age");
    scene.run(2);
    assert!(!scene.journal().join(RESTORED).exists());
    assert!(
        !Look::at(&scene.places(), Consent::default()).unwrap().is_restored,
        "the next start is one as any"
    );
    assert_eq!(scene.start(false, Losses::Refused).unwrap(), 2);
}

/// A start may be killed after any of its writes: the next one goes on, and refuses no place that is right.
#[test]
fn a_start_that_was_killed_is_gone_on_with() {
    let scene = Scene::new();
    let copies = ["home/identities", "home/servers", "target-0", "target-1"];
    for run in 0..2 {
        for name in copies {
            let _ = fs::remove_dir_all(scene.path("before").join(name));
            copy(&scene.path(name), &scene.path("before").join(name));
        }
        // The next generation stands in the home, and some places have it.
        let places = scene.places();
        let look = Look::at(&places, Consent::default()).unwrap();
        let next = look.newest + 1;
        let home = places.begin_generation(look.home, &look.owner, next).unwrap();
        drop(home);
        let stamp = look.targets.into_iter().next().flatten().unwrap().stamp.unwrap();
        stamp.rewrite(next, None).unwrap();
        scene.run(0);
        let record = |path: &Path| match Stamp::find(&Folder::found(path).unwrap(), STAMP).unwrap() {
            weir_core::storage::Found::Whole(stamp) => stamp.record().generation,
            _ => panic!("no stamp in {}", path.display()),
        };
        let generations = [scene.target(0), scene.target(1), scene.journal()].map(|path| record(&path));
        assert_eq!(generations, [next + 1; 3], "run {run}");
    }
}

/// A first run that was killed before it came to the home's end has stamped some folders and made no object.
#[test]
fn a_first_run_that_was_killed_is_gone_on_with() {
    let scene = Scene { folder: tempfile::tempdir().unwrap(), key: KEY, server: 0 };
    let places = scene.places();
    let first = Consent { is_first_run: true, ..Consent::default() };
    let look = Look::at(&places, first).unwrap();
    let home = places.begin_generation(None, &look.owner, 1).unwrap();
    let folder = Folder::made(&scene.target(0)).unwrap();
    stamped(&folder, None, (Place::Target(0), &look.owner, 1)).unwrap();
    drop((home, folder));
    scene.start(false, Losses::Refused).unwrap();
    scene.start(false, Losses::Refused).unwrap();
}

#[test]
fn a_new_target_takes_no_folder_with_objects() {
    let scene = Scene { folder: tempfile::tempdir().unwrap(), key: KEY, server: 0 };
    put_object(&scene.target(0));
    assert!(scene.refusal(true, Losses::Refused).unwrap().contains("objects of another store"));
    fs::remove_dir_all(scene.target(0).join("07")).unwrap();
    scene.start(true, Losses::Refused).unwrap();
}

/// A server that was added, taken back and added again finds the stamps of its first life in folders outside of the home.
#[test]
fn a_folder_that_an_earlier_server_left_empty_is_taken() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.path("home")).unwrap();
    assert!(scene.refusal(true, Losses::Refused).unwrap().contains("target 0.0"));
    (0..2).for_each(|index| fs::remove_dir_all(scene.target(index).join("07")).unwrap());
    scene.start(true, Losses::Refused).unwrap();
    scene.start(false, Losses::Refused).unwrap();
}

#[test]
fn a_target_that_joins_is_expected_from_then_on() {
    let scene = Scene::new();
    let identity = scene.places().open(Consent::default()).unwrap().identity.unwrap();
    let path = scene.path("joined");
    identity.add_target(2, &path).unwrap();
    let known = identity.home.record().known.unwrap();
    assert_eq!((known.targets, known.next_generation), (3, None));
}
