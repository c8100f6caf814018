"""`weir run --placement`: files of a run that was predicted, and the line about those that were not."""

import getpass
import json
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from store import Store, kept_for
from waits import PATIENCE_SECONDS
from weir.placement.database import read
from weir.placement.lookups import read_report
from weir.store.home import Home
from weir.store.placement_journal import PLACED_RUNS


def test_a_run_of_other_ranks_below_a_place_of_digits_is_placed(store: Store, tmp_path: Path) -> None:
    """A folder `user4` of a run of 4 ranks was taken for one of the ranks: 0 of 16 files were placed, in silence."""
    store.up(servers=2, targets=2, mount=False)
    traces, database = tmp_path / "traces", tmp_path / "placement.db"
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "rank = os.environ['PMI_RANK']\n"
        "os.makedirs('/weir4/user4/run-02', exist_ok=True)\n"
        "for name in sys.argv[1:]:\n"
        "    open(f'/weir4/user4/run-02/{name}.{rank}', 'wb').write(bytes(4096))\n"
    )
    run = ("run", "--prefix", "/weir4")
    launch = ("mpiexec.mpich", "-n")
    store.weir(*run, "--trace", traces, "--", *launch, "4", "python3", program, "a", "b")
    store.weir(*run, "--", "rm", "-r", "/weir4/user4")
    store.weir("place", "--from", traces, "--ranks", "8", "--database", database)
    quiet = store.weir(*run, "--placement", database, "--", *launch, "8", "python3", program, "a", "b")
    lookups = read_report(Path(f"{database}.report"))
    assert (lookups.placed, lookups.not_found) == (16, 0)
    assert "creations" not in quiet.stderr
    again = store.weir(*run, "--placement", database, "--", *launch, "8", "python3", program, "a")
    assert "8 predicted files were there already" in again.stderr
    other = store.weir(*run, "--placement", database, "--", *launch, "2", "python3", program, "c").stderr.splitlines()
    (told,) = [line for line in other if "creations" in line]
    assert told.startswith("mpiexec.mpich: 0 of 2 creations were placed as predicted, 2 were not predicted (such as ")
    assert f"weir place --from DIR --command CMD --database {database}" in told
    nothing = store.weir(*run, "--placement", database, "--", "true")
    assert "no creation was looked up" in nothing.stderr
    noted = PLACED_RUNS.read(Home(store.home).placement_journals, 0, time.time())
    assert [(each.placed, each.missed, each.present) for each in noted] == [(16, 0, 0), (0, 0, 8), (0, 2, 0), (0, 0, 0)]
    assert {each.user for each in noted} == {getpass.getuser()}
    assert all(each.job.startswith("mpiexec.mpich-") for each in noted[:-1])
    assert noted[2].names[0].endswith(("c.0", "c.1"))


@pytest.fixture
def store_at_a_random_place() -> Iterator[Store]:
    """A store whose mount point looks like a name that is made anew in each run, and like 4 ranks."""
    root = Path(tempfile.mkdtemp()) / "tmpab3c_9xy" / "user4"
    root.mkdir(parents=True)
    try:
        with kept_for(root) as store:
            yield store
    finally:
        shutil.rmtree(root.parents[1], ignore_errors=True)


def test_nothing_in_the_mount_point_is_taken_for_a_number(store_at_a_random_place: Store, tmp_path: Path) -> None:
    """A mount point below a random name or a date made the names of all files unpredictable."""
    store = store_at_a_random_place
    store.up(servers=1, targets=2)
    traces, database = tmp_path / "traces", tmp_path / "placement.db"
    program = tmp_path / "program.py"
    program.write_text(
        "import os\n"
        "folder, rank = os.environ['WEIR_MOUNT'], os.environ['PMI_RANK']\n"
        "open(f'{folder}/out.{rank}', 'wb').write(bytes(4096))\n"
    )
    store.weir("run", "--trace", traces, "--", "mpiexec.mpich", "-n", "4", "python3", program)
    store.weir("run", "--", "sh", "-c", "rm $WEIR_MOUNT/out.*")
    assert_placed(store, traces, database, program)
    store.weir("run", "--", "sh", "-c", "rm $WEIR_MOUNT/out.*")
    store.weir("umount", store.mount)
    store.weir("mount", store.root / "20260101")
    told = assert_placed(store, traces, database, program)
    assert (
        f"the store is at {store.root}/20260101: files that were traced below {store.mount} are expected there" in told
    )


def assert_placed(store: Store, traces: Path, database: Path, program: Path) -> str:
    """Place the program for 8 ranks, and run it; returns what `weir place` said."""
    answer = store.weir("place", "--from", traces, "--ranks", "8", "--database", database)
    assert "not placed" not in answer.stderr
    store.weir("run", "--placement", database, "--", "mpiexec.mpich", "-n", "8", "python3", program)
    lookups = read_report(Path(f"{database}.report"))
    assert (lookups.placed, lookups.not_found) == (8, 0)
    return answer.stderr


@pytest.mark.parametrize("family", ["mpich", "openmpi"])
def test_a_collective_open_places_its_file_once(
    store: Store, tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all ranks that call MPI_File_open one makes the file: its open beneath is looked up, and no other's."""
    compiler, launcher = f"mpicc.{family}", f"mpiexec.{family}"
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {family}")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    source = Path(__file__).parents[1] / "end_to_end" / "programs" / "checkpoint.c"
    program, database, traces = tmp_path / "checkpoint", tmp_path / "placement.db", tmp_path / "traces"
    subprocess.run([compiler, "-O1", "-o", program, source], check=True, timeout=PATIENCE_SECONDS)
    store.up(servers=3, targets=2, mount=False)
    run = ("run", "--prefix", "/weir")
    checkpoint = (program, "shared", "/weir/results", "32")
    store.weir(*run, "--", "mkdir", "/weir/results")
    store.weir(*run, "--trace", traces, "--", launcher, "-n", "4", *checkpoint)
    store.weir(*run, "--", "rm", "/weir/results/shared.dat")
    store.weir("place", "--from", traces, "--layout", "-c 3", "--database", database)
    store.weir(*run, "--placement", database, "--", launcher, "-n", "4", *checkpoint)
    lookups = read_report(Path(f"{database}.report"))
    assert (lookups.placed, lookups.total) == (1, 1)
    (component,) = read(database)
    assert len(set(component.targets)) == 3
    script = "import os; print(os.getxattr('/weir/results/shared.dat', 'weir.layout').decode())"
    layout = store.weir(*run, "--", "python3", "-c", script).stdout
    assert f"-o {','.join(component.targets)} " in layout


class Upkeep:
    """The two commands before each run that keep a placement up by themselves."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.traces, self.database = store, folder / "traces", folder / "placement.db"
        self.program, self.input = folder / "program.py", folder / "input"
        self.program.write_text(
            "import sys\n"
            "new, other = open(sys.argv[1]).read().split()\n"
            "new = int(new)\n"
            "for number in range(20):\n"
            "    name = other if number >= 20 - new else 'a'\n"
            "    open(f'/weir/results/{name}{number}', 'wb').write(bytes(4096))\n"
        )

    def run(self, new: int, other: str = "b") -> str:
        """Place, and run with so many files of 20 under other names; what `weir place` said."""
        run = ("run", "--prefix", "/weir")
        self.store.weir(*run, "--", "sh", "-c", "rm -rf /weir/results && mkdir /weir/results")
        self.input.write_text(f"{new} {other}")
        command = ("--", "python3", self.program, self.input)
        if not self.database.exists():
            self.store.weir(*run, "--trace", self.traces, *command)
            self.store.weir("place", "--from", self.traces, "--database", self.database)
            return ""
        told = self.store.weir("place", "--from", self.traces, "--database", self.database, "--if-needed").stderr
        kept = ("--placement", self.database, "--trace", self.traces, "--trace-if-needed")
        self.store.weir(*run, *kept, *command)
        return told

    def runs_recorded(self) -> int:
        return len(self.store.json("trace", "show", self.traces))

    def missed(self) -> int:
        return read_report(Path(f"{self.database}.report")).not_found


def test_misses_of_ten_thirty_and_fifty_percent_predict_learn_and_trace_again(store: Store, tmp_path: Path) -> None:
    """The steps of the Tarazu paper (sections 5.5.1 and 5.7), each on a real run."""
    store.up(servers=2, targets=2, mount=False)
    upkeep = Upkeep(store, tmp_path)
    upkeep.run(0)
    upkeep.run(1)
    assert (upkeep.missed(), upkeep.runs_recorded()) == (1, 1)
    assert "stays" in upkeep.run(6), "1 of 20 missed"
    told = upkeep.run(8)
    assert "40 creations looked up, 18% of them without success" in told and "stays" not in told
    assert (upkeep.missed(), upkeep.runs_recorded()) == (8, 1), "predicted again, by the same run"
    told = upkeep.run(8)
    assert "40% of them without success" in told and "until a run is recorded" in told
    assert upkeep.runs_recorded() == 2
    assert "stays" not in upkeep.run(8), "learned from the run that was recorded"
    assert (upkeep.missed(), upkeep.runs_recorded()) == (0, 2)
    upkeep.run(20, "c")
    assert "until a run is recorded" in upkeep.run(20, "c")
    assert upkeep.runs_recorded() == 3, "50 % and more of all creations were missed"
    upkeep.run(20, "c")
    assert (upkeep.missed(), upkeep.runs_recorded()) == (0, 3)


_TREES = """
import json, os, sys
trees, large, files = sys.argv[1].split(), sys.argv[2].split(), int(sys.argv[3])
for tree in trees:
    os.mkdir(f"/weir/{tree}")
for tree in trees:
    for number in range(files if tree in large else 3):
        open(f"/weir/{tree}/{number}", "wb").write(bytes(512))
print(json.dumps({tree: os.stat(f"/weir/{tree}").st_ino >> 48 for tree in trees}))
"""
"""Makes all trees before it fills them; the upper bits of an inode number are its home."""


def test_trees_of_many_foreseen_files_have_homes_of_their_own(store: Store, tmp_path: Path) -> None:
    """Large trees that meet by their names are on different homes once a database foresees their files."""
    store.up(servers=3, targets=2, mount=False)
    run = ("run", "--prefix", "/weir")
    program, database, traces = tmp_path / "program.py", tmp_path / "placement.db", tmp_path / "traces"
    program.write_text(_TREES)
    names = [f"tree-{number}" for number in range(12)]

    def homes(options: Sequence[str | Path], large: Sequence[str], files: int) -> dict[str, int]:
        command = ("python3", program, " ".join(names), " ".join(large), str(files))
        found = json.loads(store.weir(*run, *options, "--", *command).stdout)
        store.weir(*run, "--", "rm", "-r", *(f"/weir/{name}" for name in names))
        return {str(name): int(home) for name, home in found.items()}

    unforeseen = homes((), (), 3)
    (fullest, _), *_ = Counter(unforeseen.values()).most_common()
    large = [name for name in names if unforeseen[name] == fullest][:3]
    assert len(large) == 3, unforeseen
    homes(("--trace", traces), large, 1000)
    store.weir("place", "--from", traces, "--database", database)
    foreseen = homes(("--placement", database), large, 1000)
    assert {foreseen[name] for name in large} == {0, 1, 2}, foreseen
    lookups = read_report(Path(f"{database}.report"))
    assert (lookups.placed, lookups.not_found) == (3 * 1000 + 9 * 3, 0)
