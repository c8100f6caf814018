"""Files that are written or believed on behalf of someone: nobody else leads the way to them, and each place is known.

`weir.ways` alone checks ways. Every other place of the sources that uses a path stands in a table here, with the reason
for which it needs no check of its own.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from file_ways import callers, python_places, rust_places
from store import Store
from weir.errors import WeirError
from weir.ways import make_folders, make_work_folder, open_believed, replacing, write_whole

ROOT = Path(__file__).resolve().parents[2]
BOB, CAROL = 4000001, 4000002
"""Users that no host has."""
ROUNDS = 400

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")

WALKED = "goes by open folders itself, and follows no link that it has not looked at"
CHECKED = "works by paths once `check_closed` has let the way pass, or on what `open_believed` gave"
HOME = "below a home or a job's folder, whose way was closed when the home was opened"
STATE = "below a folder of the planner, whose way was closed when the planner began"
WORK = "below a folder of `make_work_folder`"
OWN = "in a folder that this process made for itself, where nobody else can make files"
PASSED = "gives a library an open file of `replacing`, a buffer, or a database in memory"
TARGET = "below the folder of a target, which the server refuses unless it is its own (privacy.rs)"
CALLER = "opens with the rights of the process that named the file (credential.rs)"
KERNEL = "of the kernel, or installed with Weir"
ADDRESS = "an address of the network, and no file"
STORE = "a path of a store, whose servers check the rights of the credential"
INPUT = "foreign bytes, read in the caller's own right by a decoder that believes nothing (test_foreign_input.py)"
RIGHT = "the process has no rights but those of the user who chose the path, or the user's own credential lies there"

PYTHON: dict[str, dict[str, str]] = {
    WALKED: {
        "staging/copying.py": "_sweep",
        "staging/hard_links.py": "HardLinks._link",
        "staging/large_files.py": (
            "LargeFile._create LargeFile._finish LargeFile._give_up LargeFile._go_on LargeFile._is_there"
        ),
        "staging/metadata.py": "apply_to_file apply_to_link apply_to_root",
        "staging/places.py": "make_folder open_below open_folder",
        "staging/record.py": "Record._begin Record._open Record.close",
        "staging/small_files.py": "_begin _copy_all _drop _equals _finish _write open_source",
        "ways.py": "_fresh _place _reached make_folders open_believed",
    },
    CHECKED: {
        "provisioning/outcomes/archive.py": "_opened",
        "history/database.py": "_claimed _opened",
        "history/reading.py": "History.__init__",
        "room/web.py": "_listen_unix serve",
        "store/backup.py": "_check_same _copied _gather _opened _pack _put _sync_folder _unpack digest_of restore take",
        "store/mount_points.py": "prepare release",
        "deployment/backups.py": "_fetch take_all",
    },
    HOME: {
        "cli/guard.py": "_alone",
        "deployment/deployment.py": "_forget take_down",
        "deployment/keeper.py": "keep",
        "deployment/member.py": "_announced member_of remove_home",
        "deployment/parcels.py": "_are_whole _digest _sync fetch forget put_in_place seal store",
        "deployment/record.py": "forget read",
        "deployment/steps.py": "end",
        "deployment/upkeep.py": "_data _forget_old backup",
        "guard/journal.py": "Journal.add Journal.lines",
        "guard/owing.py": "owed_by",
        "health/upkeep.py": "credentials",
        "provisioning/lifecycle/measurement.py": "begin end",
        "room/changes/targets.py": "_drained",
        "provisioning/lifecycle/movement.py": "save",
        "provisioning/lifecycle/record.py": "JobFolder.locked JobFolder.write",
        "provisioning/lifecycle/setup.py": "_join",
        "provisioning/lifecycle/teardown.py": "_leave forget teardown",
        "store/cluster.py": "_address discard forget_server published start_servers stop stop_servers",
        "store/files.py": "make_folder remove_folder",
        "store/home.py": (
            "Home._close Home._give_reserve Home._open_lock Home._take_reserve Home.read_site_key Home.remove_empty"
        ),
        "store/launch.py": "_sweep minted",
        "store/log_files.py": "_opened",
        "store/mounts.py": "_described stop",
        "store/processes.py": "Process.recorded end_of start words_since",
        "store/repair.py": "_move_aside",
        "store/restored.py": "tell",
    },
    STATE: {
        "planner/daemon.py": "_bound _prepare",
        "planner/server.py": "listen",
        "planner/steps.py": "Steps._make_folder",
        "planner/stores/sqlite.py": "_locked",
    },
    WORK: {
        "store/line_journal.py": "LineJournal._entries LineJournal._remove_oldest LineJournal.add",
        "interference/agreement.py": "read_windows",
        "interference/collection.py": "_carry_out _claim _gather _read_run _write",
        "interference/collector.py": "Parts._remove_oldest Parts.add_rows",
        "interference/labels.py": "read_operations write_operations",
        "interference/simulated.py": "_write_operations",
        "interference/upkeep.py": "_tell_of_death collecting tell_of_deaths",
        "provisioning/behaviour/observed_windows.py": "note_paths",
        "provisioning/learning/archive.py": "Archive.__init__",
        "provisioning/stress/places.py": "remove_left",
        "simulation/sweeps/ledger.py": "Ledger.add _read_points opened read_header",
    },
    OWN: {
        "experiments/jobs.py": "_failure _load",
        "experiments/scaling.py": "_load _servers_on",
        "experiments/store.py": "Store.__enter__",
        "interference/observed.py": "_remove_abandoned shared_folder",
        "provisioning/pairwise/runs.py": "folder_on",
        "cli/run/reporting.py": "Reporting.__init__ Reporting._remove",
        "report/watching.py": "Watch.__init__ Watch.remove",
        "provisioning/stress/places.py": "_opened _planned _remove_folder _remove_mdtest _remove_store _store",
        "store/cluster.py": "check_places",
        "store/configuration.py": "check",
        "store/instance.py": "Store.down _start",
        "store/temporary.py": "remove",
        "store/window_folders.py": "_own_folder",
    },
    PASSED: {
        "experiments/tidy.py": "_write_parquet",
        "interference/windows.py": "write write_rows",
        "placement/database.py": "write",
        "plots/canvas.py": "picture",
        "simulation/report/drawing.py": "draw",
        "simulation/sweeps/results.py": "write",
        "tracing/export.py": "write_parquet",
    },
    KERNEL: {
        "cli/__init__.py": "_close_broken_pipe",
        "cli/adapt/arrays.py": "_check_room",
        "experiments/networks.py": "Nodes.inside",
        "experiments/provenance.py": "_pip_commit _sources machine",
        "health/upkeep.py": "_is_locked",
        "interference/devices.py": "Storage._diskstats Storage._lustre",
        "interference/processor_waits.py": "OwnWaits.__init__ Sampling._sample",
        "lustre/tree.py": "_read",
        "monitoring/__init__.py": "text_of",
        "planner/stores/redis.py": "_begin _machine",
        "provisioning/behaviour/classes.py": "_median_jobs",
        "provisioning/lifecycle/program.py": "_listed_children _recorded",
        "provisioning/objectives/sslo_tables.py": "_rows simulated",
        "provisioning/resources/local.py": "_memory device_class",
        "provisioning/sharing/interference_factors.py": "built_in",
        "provisioning/stress/systems.py": "file_system_of",
        "simulation/sweeps/engine.py": "engine_digest",
        "simulation/topology.py": "topology_named",
        "store/client.py": "FileSystem._mask",
        "store/mounts.py": "device_problem is_mount_point",
        "store/processes.py": "_boot _is_ending _start_ticks",
        "store/units.py": "unit_of",
    },
    STORE: {
        "store/client.py": "FileSystem.mkdir FileSystem.open FileSystem.remove_tree",
        "store/client_files.py": "_reopened",
        "store/client_fsspec.py": (
            "WeirFileSystem._open WeirFileSystem._with_parents WeirFileSystem.cat_file WeirFileSystem.chmod "
            "WeirFileSystem.cp_file WeirFileSystem.makedirs WeirFileSystem.mkdir WeirFileSystem.pipe_file "
            "WeirFileSystem.rmdir"
        ),
    },
    ADDRESS: {
        "deployment/member.py": "_check_ports",
        "lustre/publisher.py": "Publisher.run",
        "store/connections.py": "_SealedLine.read",
        "store/machine.py": "_bound",
    },
    INPUT: {
        "adaptive/named/files.py": "_zarr is_classic names_in",
        "cli/adapt/arrays.py": "_packed_bytes",
        "cli/job/run.py": "_command",
        "cli/job/ornament.py": "_is_json",
        "cli/layout/set.py": "set_layout",
        "cli/place/place.py": "_lustre_view",
        "cli/interference/matrix.py": "_text",
        "cli/stats/show.py": "_view",
        "deployment/nodes.py": "_lines",
        "interference/plan.py": "read",
        "interference/predictor.py": "load",
        "interference/quanterference.py": "_document",
        "interference/slowdowns.py": "read",
        "placement/creation_list.py": "read_creations",
        "placement/database.py": "_opened",
        "placement/layouts.py": "rule",
        "placement/lookups.py": "read_report",
        "provisioning/behaviour/history.py": "_words past_of",
        "provisioning/behaviour/observed_windows.py": "has_inside",
        "provisioning/documents.py": "content",
        "provisioning/jobs/job.py": "_read",
        "provisioning/learning/summaries.py": "read_table",
        "provisioning/resources/model.py": "read_resources",
        "simulation/documents.py": "read_document",
        "simulation/records.py": "read",
        "simulation/topology.py": "read_topology",
        "simulation/workloads/accounting.py": "read_accounting",
        "store/configuration.py": "read_toml",
        "tracing/darshan.py": "refusal",
        "tracing/dxt_text.py": "is_dxt read_dxt",
        "tracing/files.py": "decoded",
        "tracing/places.py": "place_of",
        "tracing/recorder_text.py": "_calls",
    },
    RIGHT: {
        "adaptive/server_forecast.py": "own_claims",
        "adaptive/slowdowns.py": "store_slowdowns",
        "adaptive/tiers.py": "Place.read Place.write _open_at_once",
        "cli/layout/set.py": "_set",
        "cli/place/place.py": "_write",
        "cli/plan/emit.py": "_write",
        "cli/interference/clients.py": "clients",
        "cli/interference/gather.py": "gather",
        "experiments/checkpoints.py": "main",
        "experiments/paced_reads.py": "read",
        "experiments/load.py": "_empty_file _file_on _folder_of _make_files _serve",
        "experiments/scaling_load.py": "_serve",
        "interference/clients.py": "Clients.__init__",
        "interference/kernels.py": "_Runner._carry_out main",
        "planner/step.py": "_alone _log_into _remove main",
        "provisioning/pairwise/load.py": "_change_names _run main",
        "provisioning/stress/load.py": "_Process._change_names _Process._read _Process._write _make_empty main",
        "store/access.py": "own_access",
        "store/control.py": "servers_of",
        "store/identity.py": "read_claims",
        "store/launch.py": "mount_point",
        "store/machine.py": "_check_folder",
    },
}
"""Every place of the package that uses a path, by its reason."""

RUST = {
    "server/src/config.rs": HOME,
    "server/src/event_loop.rs": HOME,
    "server/src/home.rs": HOME,
    "server/src/journal.rs": HOME,
    "server/src/peers.rs": HOME,
    "server/src/published.rs": HOME,
    "server/src/inventory.rs": TARGET,
    "server/src/privacy.rs": TARGET,
    "server/src/folder.rs": TARGET,
    "log/src/lib.rs": KERNEL,
    "mount/src/process.rs": KERNEL,
    "preload/src/calls/handover.rs": KERNEL,
    "server/src/control/hosts.rs": KERNEL,
    "server/src/host.rs": KERNEL,
    "server/src/machine_time.rs": KERNEL,
    "server/src/namespace_memory.rs": KERNEL,
    "server/src/ports.rs": KERNEL,
    "mount/src/credential.rs": CALLER,
    "windows/src/file.rs": WALKED,
    "mount/src/main.rs": RIGHT,
    "preload/src/calls/close.rs": RIGHT,
    "preload/src/calls/names.rs": RIGHT,
    "preload/src/calls/open.rs": RIGHT,
    "preload/src/calls/openat2.rs": RIGHT,
    "preload/src/calls/temporary.rs": RIGHT,
    "preload/src/host/real.rs": RIGHT,
    "preload/src/host/umask.rs": RIGHT,
    "preload/src/recorder/log.rs": RIGHT,
    "preload/src/store/session.rs": RIGHT,
    "preload/src/symbols/descriptors.rs": RIGHT,
    "preload/src/symbols/paths.rs": RIGHT,
    "preload/src/symbols/system_calls.rs": RIGHT,
}
"""Every file of the crates that uses a path outside of its tests, with the reason."""

BELIEVED = {
    ("check_closed", ""): {
        "history/database.py _claimed",
        "history/reading.py History.__init__",
        "planner/daemon.py _prepare",
        "planner/daemon.py _run",
        "planner/stores/sqlite.py _locked",
        "provisioning/lifecycle/record.py JobFolder.create",
        "provisioning/outcomes/archive.py forget",
        "provisioning/outcomes/archive.py keep",
        "provisioning/outcomes/archive.py read",
        "room/web.py _listen_unix",
        "store/backup.py take",
        "deployment/backups.py take_all",
        "store/home.py Home.create",
        "store/home.py Home.check_owner",
        "store/mount_points.py prepare",
        "store/ownership.py check_own",
        "ways.py make_work_folder",
    },
    ("open_believed", "secret"): {"interference/export.py token_of", "store/backup.py _opened"},
    ("write_whole", "closed"): {"cli/grant.py grant", "interference/export.py token_of"},
}
"""Callers that need a closed way: to keys, credentials and backups, and to folders that are used by paths later."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users may pass."""
    made = Path(tempfile.mkdtemp(prefix="weir-ways-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def of(path: Path, uid: int, mode: int = 0o755) -> Path:
    """Make a folder of a user."""
    path.mkdir()
    path.chmod(mode)
    os.chown(path, uid, uid)
    return path


def link(path: Path, target: Path, uid: int) -> Path:
    """Make a link of a user."""
    path.symlink_to(target)
    os.lchown(path, uid, uid)
    return path


def test_each_place_that_uses_a_path_has_a_reason() -> None:
    known = {
        f"{file} {function}": reason
        for reason, files in PYTHON.items()
        for file, functions in files.items()
        for function in functions.split()
    }
    assert set(python_places(ROOT / "python" / "weir")) == set(known)
    assert {place.split(" ")[0] for place in rust_places(ROOT / "crates")} == set(RUST)


@pytest.mark.parametrize(("function", "keyword"), BELIEVED)
def test_what_gives_power_goes_closed_ways(function: str, keyword: str) -> None:
    assert callers(ROOT / "python" / "weir", function, keyword) == BELIEVED[function, keyword]


def test_a_new_place_is_found(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text("class A:\n    def f(self):\n        (self.x / 'y').write_text('z')\n")
    (tmp_path / "no.py").write_text("def f(text):\n    return text.replace('a', 'b')\n")
    assert list(python_places(tmp_path)) == ["new.py A.f"]
    source = tmp_path / "crates" / "one" / "src" / "lib.rs"
    source.parent.mkdir(parents=True)
    source.write_text(
        "// fs::read(no)\nfn f() { let x = std::fs::read(path); }\n#[cfg(test)]\nmod t { fn g() { fs::read(x) } }"
    )
    assert list(rust_places(tmp_path / "crates")) == ["one/src/lib.rs f"]


CLOSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "another's folder": (lambda at: of(at / "bobs", BOB) / "file", "is uid 4000001's"),
    "a folder that others change": (lambda at: of(at / "open", 0, 0o777) / "file", "can be changed by other users"),
    "another's link": (lambda at: link(at / "link", of(at / "roots", 0), BOB) / "file", "is a link of uid 4000001"),
    "own link into another's folder": (
        lambda at: link(at / "own", of(at / "bobs", BOB), 0) / "file",
        "is uid 4000001's",
    ),
}
"""Ways that are not closed, and the reason that the user is told."""


@as_root
@pytest.mark.parametrize("way", CLOSED)
def test_a_way_that_another_could_change_is_no_closed_one(folder: Path, way: str) -> None:
    make, told = CLOSED[way]
    path = make(folder)
    with pytest.raises(WeirError, match=told):
        write_whole(path, "secret", closed=True)
    with pytest.raises(WeirError, match=told):
        make_work_folder(path)
    assert not any(each.is_file() for each in folder.rglob("*"))
    path.write_text("believe me")
    path.chmod(0o600)
    with pytest.raises(WeirError, match=told), open_believed(path):
        pass


@as_root
def test_a_file_is_believed_by_its_owner_mode_and_kind(folder: Path) -> None:
    file = folder / "file"
    for uid, mode, secret, told in (
        (0, 0o600, True, ""),
        (0, 0o644, False, ""),
        (0, 0o644, True, "can be read or changed"),
        (0, 0o622, False, "can be changed"),
        (BOB, 0o600, False, "could have written"),
    ):
        file.write_text("words")
        file.chmod(mode)
        os.chown(file, uid, 0)
        if told:
            with pytest.raises(WeirError, match=told), open_believed(file, secret=secret):
                pass
        else:
            with open_believed(file, secret=secret) as opened:
                assert opened.read() == b"words"
    os.mkfifo(folder / "pipe", 0o600)
    with pytest.raises(WeirError, match="no plain file"), open_believed(folder / "pipe"):
        pass


@as_root
def test_root_writes_through_nobodys_link(folder: Path) -> None:
    roots, bobs = of(folder / "roots", 0, 0o700), of(folder / "bobs", BOB)
    (roots / "victim").write_text("as it was")
    link(bobs / "to folder", roots, BOB)
    link(bobs / "to file", roots / "victim", BOB)
    for path in (bobs / "to folder" / "victim", bobs / "to folder" / "new", bobs / "to file"):
        with pytest.raises(WeirError, match="is a link of"):
            write_whole(path, "words", mode=None)
    with pytest.raises(WeirError, match="is a link of"):
        make_folders(bobs / "to folder" / "made" / "below")
    assert [(path.name, path.read_text()) for path in roots.iterdir()] == [("victim", "as it was")]
    write_whole(bobs / "plain", "words", owner=(BOB, BOB))
    found = (bobs / "plain").stat()
    assert (found.st_uid, found.st_mode & 0o777) == (BOB, 0o600)


def become(uid: int, work: Callable[[], None]) -> int:
    """Do work in a process of another user, which exits with 1 where a way is refused; returns its number."""
    child = os.fork()
    if child:
        return child
    code = 2
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        work()
        code = 0
    except WeirError as error:
        code = 1 if "is a link of" in error.message else 2
    finally:
        os._exit(code)


def swap_for_ever(bobs: Path) -> None:
    """Put a link in the place of a folder, and the folder back."""
    os.chdir(bobs)
    while True:
        for before, after in (("place", "aside"), ("link", "place"), ("place", "link"), ("aside", "place")):
            Path(before).rename(after)


@as_root
def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(folder: Path) -> None:
    roots, bobs = of(folder / "roots", 0, 0o700), of(folder / "bobs", BOB)
    of(bobs / "place", BOB)
    link(bobs / "link", roots, BOB)
    written = refused = 0
    racer = become(BOB, lambda: swap_for_ever(bobs))
    try:
        while (written < ROUNDS or refused < ROUNDS) and written + refused < 100 * ROUNDS:
            try:
                write_whole(bobs / "place" / f"file-{written}", "words", mode=None)
                written += 1
            except (WeirError, OSError):
                refused += 1
        assert os.waitpid(racer, os.WNOHANG) == (0, 0)
    finally:
        os.kill(racer, signal.SIGKILL)
        os.waitpid(racer, 0)
    assert written > 0
    assert list(roots.iterdir()) == []


@as_root
def test_a_user_goes_by_links_of_those_who_own_the_folder_alone(folder: Path) -> None:
    """As the kernel does with `fs.protected_symlinks`: people who are neither root nor the user make links for all."""
    target = of(folder / "target", CAROL, 0o777)
    link(of(folder / "bobs", BOB) / "link", target, BOB)
    link(of(folder / "all", 0, 0o1777) / "link", target, BOB)
    link(folder / "all" / "own", target, CAROL)
    for way, code in (("bobs/link/1", 0), ("all/own/2", 0), ("all/link/3", 1)):
        path = folder / way
        child = become(CAROL, lambda path=path: write_whole(path, "x"))  # type: ignore[misc]
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code, way
        assert path.exists() is (code == 0)


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")
    (tmp_path / "own").symlink_to("file")
    with pytest.raises(RuntimeError, match="ended"), replacing(tmp_path / "own") as file:
        file.write(b"half")
        raise RuntimeError("ended")
    assert (tmp_path / "file").read_text() == "before"
    write_whole(tmp_path / "own", b"after")
    assert (tmp_path / "file").read_text() == "after" and (tmp_path / "own").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "own"]
    for path, kind in ((tmp_path / "no" / "file", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(kind, match=str(path)):
            write_whole(path, "words")


def test_nothing_takes_the_place_of_a_device(tmp_path: Path) -> None:
    """`--to /dev/stdout`, asked by root, must not replace the link in /dev."""
    write_whole(Path("/dev/null"), "words", mode=None)
    assert not Path("/dev/null").is_file()
    text = "from pathlib import Path; from weir.ways import write_whole; write_whole(Path('/dev/stdout'), 'words')"
    answer = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert answer.stdout == "words"


@as_root
def test_commands_that_write_or_read_keys_refuse_the_ways_of_others(store: Store) -> None:
    store.root.chmod(0o755)
    (store.root / "cluster.toml").write_text(
        'version = 1\n[[server]]\n[[server.target]]\nbackend = "dir"\npath = "t"\n'
    )
    store.up(store.root / "cluster.toml", mount=False)
    roots, bobs = of(store.root / "roots", 0, 0o700), of(store.root / "bobs", BOB)
    link(bobs / "link", roots, BOB)
    for path in (bobs / "link" / "file", bobs / "file"):
        for command in (("backup", path), ("grant", "--uid", str(CAROL), "--gid", str(CAROL), "--to", path)):
            refused = store.weir(*command, code=1)
            assert "4000001" in refused.stderr and "hint:" in refused.stderr, refused.stderr
    assert list(roots.iterdir()) == [] and [path.name for path in bobs.iterdir()] == ["link"]
    store.weir("grant", "--uid", str(BOB), "--gid", str(BOB), "--to", bobs / "credential")
    assert (bobs / "credential").stat().st_uid == BOB

    backup = store.root / "backup.tar"
    store.weir("backup", backup)
    store.weir("down")
    key = (store.home / "site.key").read_text()
    shutil.copy(backup, bobs / "backup.tar")
    for path, uid, mode in ((bobs / "backup.tar", 0, 0o600), (backup, BOB, 0o600), (backup, 0, 0o644)):
        os.chown(path, uid, 0)
        path.chmod(mode)
        refused = store.weir("--home", store.root / "new", "restore", path, "--yes", code=1)
        assert str(path) in refused.stderr or str(bobs) in refused.stderr, refused.stderr
        assert not (store.root / "new").exists()
    backup.chmod(0o600)
    store.weir("--home", store.root / "new", "restore", backup)
    assert (store.root / "new" / "site.key").read_text() == key


@as_root
def test_root_mounts_and_plans_where_nobody_else_changes_the_way(store: Store) -> None:
    """A link of a user would lead the mount over /etc, and a resource model the planner to any host."""
    store.root.chmod(0o755)
    roots, bobs = of(store.root / "roots", 0), of(store.root / "bobs", BOB)
    link(bobs / "link", roots, BOB)
    (bobs / "resources.toml").write_text('nodes = [{name = "node1"}]\n')
    planner = ("planner", "--socket", store.root / "socket", "--state", store.root / "state")
    for command in (
        ("up", "--mount", bobs / "point"),
        ("up", "--mount", bobs / "link" / "point"),
        (*planner, "--resources", bobs / "resources.toml"),
        ("planner", "--socket", store.root / "socket", "--state", bobs / "state", "--resources", store.root / "none"),
    ):
        refused = store.weir(*command, code=1)
        assert "4000001" in refused.stderr and "hint:" in refused.stderr, refused.stderr
    assert list(roots.iterdir()) == []
    assert sorted(path.name for path in bobs.iterdir()) == ["link", "resources.toml"]
    assert not (store.home / "cluster.json").exists()
