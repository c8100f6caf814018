"""`weir run --placement`: files of a run that was predicted, and the line about those that were not."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from store import Store, kept_for
from weir.placement.lookups import read_report


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
