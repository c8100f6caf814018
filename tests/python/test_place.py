"""`weir place`: predicted files get layouts and targets, as a database, as commands and as YAML."""

import json
import re
import shlex
import shutil
from collections import Counter
from pathlib import Path

import answers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from store import Store
from weir.placement.allotment import AllotmentError, allot
from weir.placement.arrangement import Beginning, beginnings
from weir.placement.creation_list import CreationsError, read_creations
from weir.placement.database import END_OF_FILE, read
from weir.placement.directories import lfs_mkdir, spread
from weir.placement.emit import lfs_command, yaml_template
from weir.placement.layouts import Choices, LayoutError, Rule, lay_out, rule
from weir.placement.lookups import ReportError, read_report
from weir.placement.targets import TARGET_BYTES_PER_SECOND, Target, Targets, targets_of_store
from weir.tracing.records import SHARED, Creation

MIB, GIB = 1 << 20, 1 << 30
PAPERS_LAYOUT = "-E 128M -c 1 -E 512M -c 3 -E 2G -c 8 -E -1 -c 16"
PAPERS_INI = """\
;config file for PFL Configuration Layout 1
[Client]
Buckets = 4           #Type the number of buckets (here: 4)
[Bucket_1]
Extent = 128M         #-E 128M -c 1
Stripe = 1
[Bucket_2]
Extent = 512M
Stripe = 3
[Bucket_3]
Extent = 2G
Stripe = 8
[Bucket_4]
Extent = -1
Stripe = 16
"""
_OST = "lustre-OST{0:04x}_UUID    10000000     1000000     9000000  10% /mnt/lustre[OST:{0}]"
LFS_DF = "\n".join(
    [
        "UUID                   1K-blocks        Used   Available Use% Mounted on",
        "lustre-MDT0000_UUID      1000000      100000      900000  10% /mnt/lustre[MDT:0]",
        *(_OST.format(index) for index in range(35)),
        "",
        "filesystem_summary:    350000000    35000000   315000000  10% /mnt/lustre",
    ]
)
_KEYS = st.sampled_from(["path", "size_bytes", "rank"])
_DOCUMENTS = st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(_KEYS, x))


def creation(path: str, size_bytes: int, *, layout: str | None = None, rank: int = 0) -> Creation:
    return Creation(path, rank, 0, size_bytes, size_bytes, 1, layout)


def targets(count: int) -> Targets:
    return Targets(tuple(Target(str(index), str(index % 7), 100 * GIB, 100 * GIB) for index in range(count)))


# The configuration manager.


def test_the_papers_tables() -> None:
    """Table 1: IOR, file per process of 8 GiB, configuration 1; table 2: without PFL."""
    choices = Choices(rules=(Rule("/mnt/lustre/ior", PAPERS_LAYOUT),), stripe_count=8)
    parts = lay_out([creation("/mnt/lustre/ior/test.0", 8 * GIB)], choices, targets=35)
    assert [(part.component, part.extent_start, part.stripe_bytes, part.stripe_count) for part in parts] == [
        (1, 0, 134_217_728, 1),
        (2, 134_217_728, 134_217_728, 3),
        (3, 536_870_912, 201_326_592, 8),
        (4, 2_147_483_648, 402_653_184, 16),
    ]
    (plain,) = lay_out([creation("/mnt/lustre/other", 8 * GIB)], choices, targets=35)
    assert (plain.stripe_bytes, plain.stripe_count, plain.extent_end) == (1_073_741_824, 8, END_OF_FILE)


def test_sizes_that_are_not_aligned() -> None:
    """The paper: a file of 766.175 MB on 8 stripes becomes 0.1 % larger."""
    size = int(766.175 * MIB)
    (part,) = lay_out([creation("/a", size)], Choices(stripe_count=8), targets=35)
    assert part.stripe_bytes % (128 << 10) == 0
    assert 0 < 8 * part.stripe_bytes - size < 8 * (128 << 10)


@given(size=st.integers(0, 1 << 50), count=st.integers(1, 64))
def test_contiguous_stripes_hold_the_file_and_no_aligned_size_less_does(size: int, count: int) -> None:
    (part,) = lay_out([creation("/a", size)], Choices(stripe_count=count), targets=64)
    assert part.stripe_bytes % (128 << 10) == 0
    assert part.stripe_bytes * count >= size
    assert part.stripe_bytes == 128 << 10 or (part.stripe_bytes - (128 << 10)) * count < size


def test_stripes_in_turn_and_lustres_largest() -> None:
    (part,) = lay_out([creation("/a", GIB)], Choices(stripe_count=4, stripe_bytes=MIB), targets=4)
    assert part.stripe_bytes == MIB
    (part,) = lay_out([creation("/a", 1 << 45)], Choices(stripe_bytes_max=(4 << 30) - (128 << 10)), targets=4)
    assert part.stripe_bytes == (4 << 30) - (128 << 10)


def test_the_layout_that_a_file_had_says_how_many_stripes() -> None:
    (part,) = lay_out([creation("/a", 8 * MIB, layout="-o 0.1,1.0 -S 64k")], Choices(), targets=4)
    assert (part.stripe_count, part.targets) == (2, ())
    parts = lay_out([creation("/a", 8 * MIB, layout="-E 1M -c 1 -E -1 -c 3 -S 1M")], Choices(), targets=4)
    assert [(part.extent_end, part.stripe_count) for part in parts] == [(MIB, 1), (END_OF_FILE, 3)]


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*", "/a/b", True),
        ("/a/b", "/a/b", True),
        ("/a", "/a/b/c", True),
        ("/a", "/ab", False),
        ("/a/*.h5", "/a/x.h5", True),
        ("/a/*.h5", "/a/x.nc", False),
        ("*.h5", "/deep/down/x.h5", True),
    ],
)
def test_rules_match_paths_directories_and_patterns(pattern: str, path: str, matches: bool) -> None:
    assert Rule(pattern, "-c 1").matches(path) is matches


def test_rules_are_read_from_texts_and_files(tmp_path: Path) -> None:
    (tmp_path / "one.ini").write_text(PAPERS_INI)
    assert rule("-c 4") == Rule("*", "-c 4")
    assert rule("/mnt/x/=-c 4") == Rule("/mnt/x", "-c 4")
    assert rule(f"/mnt/x={tmp_path}/one.ini") == Rule("/mnt/x", PAPERS_LAYOUT)
    for wrong in ("-c -2", "nothing", "/mnt=-E 1M -c 1", f"{tmp_path}/none.ini"):
        with pytest.raises(LayoutError) as refused:
            rule(wrong)
        assert refused.value.hint


def test_more_stripes_than_targets() -> None:
    with pytest.raises(LayoutError, match="9 stripes, and there are 8 targets"):
        lay_out([creation("/a", 1)], Choices(stripe_count=9), targets=8)
    (part,) = lay_out([creation("/a", 1)], Choices(stripe_count=-1), targets=8)
    assert part.stripe_count == 8


# Allotment.


def test_stripes_are_spread_evenly_and_lie_apart() -> None:
    parts = lay_out([creation(f"/a{n}", 80 * MIB) for n in range(70)], Choices(stripe_count=8), targets=35)
    allotment = allot(parts, targets(35))
    used = Counter(target for part in allotment.components for target in part.targets)
    assert set(used.values()) == {16}
    assert all(len(set(part.targets)) == 8 for part in allotment.components)
    assert allotment.imbalance == pytest.approx(1.0)


def test_bytes_count_and_not_only_stripes() -> None:
    """What reaches beyond the predicted size of a file weighs nothing."""
    parts = lay_out([creation("/a", 10 * MIB)], Choices(rules=(Rule("*", "-E 1G -c 1 -E -1 -c 2"),)), targets=4)
    loads = allot(parts, targets(4)).loads_bytes
    assert sorted(loads.values())[-1] >= 10 * MIB
    assert sum(loads.values()) <= 10 * MIB + 2


def test_slow_full_and_loaded_targets_get_less() -> None:
    fast, slow = Target("0", "0", GIB, GIB, speed=100.0), Target("1", "1", GIB, GIB, speed=10.0)
    full, loaded = Target("2", "2", 0, GIB, speed=100.0), Target("3", "3", GIB, GIB, speed=100.0, load_bytes=GIB)
    known = Targets((fast, slow, full, loaded))
    parts = lay_out([creation(f"/a{n}", 20 * MIB) for n in range(42)], Choices(), targets=4)
    loads = allot(parts, known).loads_bytes
    assert loads["2"] == 0
    assert loads["1"] * 5 < loads["0"]
    assert loads["3"] < loads["0"] / 2


@pytest.mark.parametrize("name", ["balanced", "lustre-standard", "random"])
def test_every_allocator_places_every_stripe(name: str) -> None:
    parts = lay_out([creation(f"/a{n}", MIB) for n in range(9)], Choices(stripe_count=3), targets=5)
    placed = allot(parts, targets(5), allocator=name, seed=3).components
    assert all(len(set(part.targets)) == 3 for part in placed)


@given(st.integers(2, 12), st.integers(1, 12), st.integers(1, 3))
def test_files_written_side_by_side_meet_late(files: int, stripes: int, before_each: int) -> None:
    """On as many targets as stripes every file uses all; hardly ever are two at one at once."""
    creations = [creation(f"/a{n}", stripes * MIB, rank=n) for n in range(min(files, stripes))]
    begun = beginnings([creations])
    parts = lay_out(creations, Choices(stripe_count=stripes), targets=stripes)
    placed = allot(parts, targets(stripes), begun=begun).components
    meetings = [len(at) - len(set(at)) for at in zip(*(part.targets for part in placed), strict=True)]
    assert sum(meetings) <= len(creations) * stripes // 10
    later = [creation(f"/b{n}", before_each * MIB, rank=n) for n in range(len(creations))]
    assert beginnings([creations, [*later, *creations]])["/a0"] == Beginning(1, before_each * MIB)


def test_components_of_a_shared_file_stay_apart() -> None:
    """Ranks that share files are in all components at once: those of one file were once gathered on 16 targets, because
    only targets that other files used counted.
    """
    creations = [creation(f"/a{n}", 938 * MIB, rank=SHARED) for n in range(10)]
    rule = Rule("*", "-E 8M -c 1 -E 32M -c 3 -E 128M -c 8 -E -1 -c 16")
    parts = lay_out(creations, Choices(rules=(rule,)), targets=160)
    used: dict[str, set[str]] = {}
    for part in allot(parts, targets(160), begun=beginnings([creations])).components:
        used.setdefault(part.path, set()).update(part.targets)
    assert min(len(each) for each in used.values()) > 20


def test_files_that_ranks_share_are_written_one_after_the_other() -> None:
    """All were taken for written at once, so that the components of one file, which are, were not kept apart."""
    shared = [creation(f"/a{n}", 5 * MIB, rank=SHARED) for n in range(3)]
    begun = beginnings([shared])
    assert [begun[f"/a{n}"].written_bytes for n in range(3)] == [0, 5 * MIB, 10 * MIB]


def test_the_papers_graph_places_too() -> None:
    pytest.importorskip("ortools")
    parts = lay_out([creation(f"/a{n}", MIB) for n in range(3)], Choices(stripe_count=2), targets=5)
    placed = allot(parts, targets(5), allocator="min-cost-flow-linear").components
    assert all(len(set(part.targets)) == 2 for part in placed)


def test_what_cannot_be_placed() -> None:
    parts = lay_out([creation("/a", GIB)], Choices(stripe_count=2), targets=2)
    with pytest.raises(AllotmentError, match="no target"):
        allot(parts, Targets(()))
    with pytest.raises(AllotmentError) as refused:
        allot(parts, Targets((Target("0", "0", 0, GIB), Target("1", "1", 0, GIB))))
    assert refused.value.hint


def test_a_targets_health_and_backlog_count() -> None:
    line = {**answers.TARGET, "capacity_bytes": 100, "used_bytes": 40}
    status = answers.status(
        server=3,
        load={"processors": 0.9, "memory": 0.3, "network": None},
        targets=[
            {**line, "target": "3.0", "backlog_seconds": 3.0},
            {**line, "target": "3.1", "speed_ratio": 0.017},
            {**line, "target": "3.2", "used_bytes": 0},
        ],
    )
    queued, slow, usual = targets_of_store([status]).each
    assert (queued.name, queued.server, queued.free_bytes) == ("3.0", "3", 60)
    assert queued.load_bytes == pytest.approx((3.0 - 2.0) * TARGET_BYTES_PER_SECOND), "beyond twice the mean"
    assert (slow.load_bytes, usual.load_bytes) == (0.0, 0.0)
    assert slow.speed == pytest.approx(0.017 * queued.speed)
    assert usual.speed >= queued.speed


def test_a_busy_server_gets_less_and_small_differences_change_nothing() -> None:
    line = {**answers.TARGET, "capacity_bytes": GIB}

    def placed(*processors: float | None) -> Counter[str]:
        statuses = [
            answers.status(
                server=server,
                load={"processors": used, "memory": 0.2, "network": None},
                targets=[{**line, "target": f"{server}.{index}"} for index in range(2)],
            )
            for server, used in enumerate(processors)
        ]
        known = targets_of_store(statuses)
        parts = lay_out([creation(f"/a{n}", MIB) for n in range(84)], Choices(), targets=6)
        return Counter(target.split(".")[0] for part in allot(parts, known).components for target in part.targets)

    assert set(placed(0.1, 0.1, 0.1).values()) == {28}
    assert set(placed(0.49, 0.1, 0.3).values()) == {28}
    assert set(placed(0.8, 0.95, 0.9).values()) == {28}
    assert placed(0.9, 0.1, None) == {"0": 8, "1": 38, "2": 38}


# Commands and templates.


def test_commands_and_templates() -> None:
    choices = Choices(rules=(Rule("/mnt/ior", "-E 128M -c 1 -E -1 -c 3"),), stripe_count=2)
    parts = lay_out([creation("/mnt/ior/a b", 512 * MIB), creation("/plain", 3 * MIB)], choices, targets=35)
    *composite, plain = allot(parts, targets(35)).components
    command = shlex.split(lfs_command("/mnt/ior/a b", composite))
    one, many = (",".join(part.targets) for part in composite)
    assert command == shlex.split(
        f"lfs setstripe -E 128M -c 1 -S 128M -o {one} -E -1 -c 3 -S 128M -o {many} '/mnt/ior/a b'"
    )
    first, second = plain.targets
    assert lfs_command("/plain", [plain]) == f"lfs setstripe -c 2 -S 1536k -o {first},{second} /plain"
    assert yaml_template([plain]).splitlines() == [
        "lmm_stripe_count: 2",
        "lmm_stripe_size: 1572864",
        "lmm_pattern: raid0",
        "lmm_layout_gen: 0",
        f"lmm_stripe_offset: {first}",
        "lmm_objects:",
        f"- l_ost_idx: {first}",
        "  l_fid: 0x0:0x0:0x0",
        f"- l_ost_idx: {second}",
        "  l_fid: 0x0:0x0:0x0",
    ]
    template = yaml_template(composite).splitlines()
    assert template[:3] == ["lcm_layout_gen: 0", "lcm_mirror_count: 1", "lcm_entry_count: 2"]
    assert [line for line in template if line.startswith("component")] == ["component0:", "component1:"]
    extents = [line.split(": ")[1] for line in template if "lcme_extent" in line]
    assert extents == ["0", "134217728", "134217728", "EOF"]


# What the user gives.


def test_creations_as_json_and_csv(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('[{"path": "/a", "size_bytes": 5}, {"path": "/b", "size_bytes": 6, "rank": 2}]')
    (tmp_path / "c.csv").write_text("path,size_bytes,rank,layout\n/a,5,,\n/b,6,2,-c 3\n")
    listed, table = read_creations(tmp_path / "c.json"), read_creations(tmp_path / "c.csv")
    assert [(one.path, one.size_bytes, one.rank, one.order) for one in listed] == [("/a", 5, 0, 0), ("/b", 6, 2, 0)]
    assert [(one.path, one.size_bytes, one.rank) for one in table] == [("/a", 5, 0), ("/b", 6, 2)]
    assert [one.layout for one in table] == [None, "-c 3"]


@given(st.text() | _DOCUMENTS.map(json.dumps))
def test_whatever_stands_in_a_list_of_creations(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name in ("c.json", "c.csv", "report"):
            file = Path(folder) / name
            file.write_text(text, encoding="utf-8", errors="surrogateescape")
            try:
                read_report(file) if name == "report" else read_creations(file)
            except (CreationsError, ReportError) as error:
                assert error.hint


# The program.


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    file = tmp_path / "creations.json"
    file.write_text(json.dumps([{"path": f"/weir/out.{n}", "size_bytes": 4 * MIB, "rank": n} for n in range(8)]))
    return file


@pytest.fixture
def lustre(tmp_path: Path) -> Path:
    file = tmp_path / "lfs-df"
    file.write_text(LFS_DF)
    return file


def test_a_database_for_the_store_that_is_up(store: Store, listed: Path, tmp_path: Path) -> None:
    store.up(servers=2, targets=2, mount=False)
    database = tmp_path / "placement.db"
    place = ("place", "--creations", listed, "--database", database, "--stripe-count", "2")
    answer = store.weir(*place, "--output", "json")
    assert json.loads(answer.stdout)["imbalance"] == pytest.approx(1.0)
    assert "weir run --placement" in answer.stderr
    assert {len(component.targets) for component in read(database)} == {2}
    rows = store.json("place", "show", database)
    assert [row["path"] for row in rows] == [f"/weir/out.{n}" for n in range(8)]
    table = store.weir("place", "show", database, "--file", "/weir/out.3").stdout
    assert "/weir/out.3" in table and "/weir/out.4" not in table
    made = "import sys; [open(path, 'wb').write(bytes(4 << 20)) for path in sys.argv[1:]]"
    paths = [f"/weir/out.{n}" for n in range(8)] + ["/weir/new"]
    store.weir("run", "--prefix", "/weir", "--placement", database, "--", "python3", "-c", made, *paths)
    layout = store.weir(
        "run", "--prefix", "/weir", "--", "getfattr", "--only-values", "-n", "weir.layout", "/weir/out.3"
    ).stdout
    expected = next(component for component in read(database, "/weir/out.3"))
    assert layout == f"-o {','.join(expected.targets)} -S 2M"
    lookups = read_report(Path(f"{database}.report"))
    assert (lookups.placed, lookups.missed, lookups.names) == (8, 1, ["/weir/new"])
    kept = store.weir(*place, "--if-needed")
    assert "12% of them without success" not in kept.stderr
    assert "9 creations looked up, 11% of them without success" in kept.stderr
    assert not Path(f"{database}.report").exists(), "over 10 % were missed, so it was placed again"
    assert "stays" in store.weir(*place, "--if-needed").stderr


def test_commands_for_lustre(store: Store, listed: Path, lustre: Path, tmp_path: Path) -> None:
    ini = tmp_path / "pfl.ini"
    ini.write_text(PAPERS_INI)
    place = (
        "place",
        "--creations",
        listed,
        "--lustre",
        lustre,
        "--layout",
        f"/weir/out.0={ini}",
        "--stripe-count",
        "4",
    )
    commands = store.weir(*place, "--emit", "lfs").stdout.splitlines()
    assert len(commands) == 8
    assert commands[0].startswith("lfs setstripe -E 128M -c 1 -S 4M -o ")
    assert commands[1].startswith("lfs setstripe -c 4 -S 1M -o ")
    used = Counter(commands[n].split("-o ")[1].split()[0] for n in range(1, 8))
    assert len({ost for osts in used for ost in osts.split(",")}) == 28, "seven files of four stripes lie apart"
    documents = store.weir(*place, "--emit", "yaml").stdout.split("---\n")
    assert len(documents) == 8
    into = tmp_path / "templates"
    commands = store.weir(*place, "--emit", "yaml", "--into", into).stdout.splitlines()
    assert [shlex.split(command)[3] for command in commands] == [str(file) for file in sorted(into.iterdir())]


def test_directories_are_spread_over_metadata_targets_by_foreseen_files(
    store: Store, lustre: Path, tmp_path: Path
) -> None:
    counts = {"a": 900, "b": 800, "c d": 700, "e": 3, "f/deep": 2, "g": 1}
    paths = [f"/scratch/job/{tree}/{number}" for tree, files in counts.items() for number in range(files)]
    listed = tmp_path / "trees.csv"
    listed.write_text("path,size_bytes\n" + "".join(f"{path},65536\n" for path in [*paths, "/scratch/job/log"]))
    commands = store.weir(
        "place", "--creations", listed, "--lustre", lustre, "--emit", "mkdir", "--mdts", "3"
    ).stdout.splitlines()
    words = [shlex.split(command) for command in commands]
    assert all(each[:3] == ["lfs", "mkdir", "-i"] for each in words)
    assert [each[4] for each in words] == [f"/scratch/job/{tree}" for tree in ("a", "b", "c d", "e", "f", "g")]
    homes = {each[4].rpartition("/")[2]: int(each[3]) for each in words}
    assert {homes["a"], homes["b"], homes["c d"]} == {0, 1, 2}
    assert homes["e"] == homes["f"] == homes["g"] == homes["c d"]


@given(
    st.dictionaries(
        st.sampled_from([f"/s/{top}{sub}" for top in "abcdef" for sub in ("", "/x", "/y")]), st.integers(1, 60)
    )
)
def test_creations_of_metadata_targets_differ_by_a_tree_at_most(files: dict[str, int]) -> None:
    always = {"/s/v": 7, "/s/w": 1}
    paths = [f"{folder}/{number}" for folder, count in (always | files).items() for number in range(count)]
    directories = spread(paths, 4)
    assert sum(each.files for each in directories) == len(paths)
    sums = Counter(dict.fromkeys(range(4), 0))
    for each in directories:
        (mdt,) = each.mdts
        sums[mdt] += each.files
    largest = max((each.files for each in directories), default=0)
    assert max(sums.values()) - min(sums.values()) <= largest


def test_a_large_directory_is_striped_over_metadata_targets() -> None:
    large = [f"/s/run/large/{number}" for number in range(100_001)]
    other = [f"/s/run/other/{number}" for number in range(49_999)]
    assert list(map(lfs_mkdir, spread([*large, *other], 8))) == [
        "lfs mkdir -c 3 -i 0,1,2 /s/run/large",
        "lfs mkdir -i 3 /s/run/other",
    ]
    assert list(map(lfs_mkdir, spread(large, 2))) == ["lfs mkdir -c 2 -i 0,1 /s/run/large"]
    assert list(map(lfs_mkdir, spread(other[:9], 2))) == ["lfs mkdir -i 0 /s/run/other"]


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["--emit", "lfs"], "--from past runs, or --creations", 2),
        (["--creations", "LIST"], "--database to write one, or --emit", 2),
        (["--creations", "LIST", "--emit", "lfs"], "--lustre", 2),
        (["--creations", "LIST", "--lustre", "LUSTRE", "--emit", "lfs", "--allocator", "best"], "balanced", 2),
        (["--creations", "LIST", "--lustre", "LUSTRE", "--emit", "lfs", "--stripe-count", "0"], "at least one", 2),
        (["--creations", "LIST", "--lustre", "LUSTRE", "--emit", "lfs", "--stripe-count", "36"], "35 targets", 1),
        (["--creations", "LIST", "--lustre", "LUSTRE", "--emit", "lfs", "--layout", "-E 1M -c 1"], "no layout", 2),
        (["--creations", "LIST", "--lustre", "LUSTRE", "--emit", "lfs", "--round-robin", "much"], "much", 2),
        (["--creations", "LUSTRE", "--lustre", "LUSTRE", "--emit", "lfs"], "cannot read creations", 1),
        (["--creations", "LIST", "--lustre", "LIST", "--emit", "lfs"], "cannot use", 1),
        (["--creations", "LIST", "--lustre", "LUSTRE", "--emit", "mkdir"], "go together", 2),
        (["--creations", "LIST", "--lustre", "LUSTRE", "--emit", "lfs", "--mdts", "4"], "go together", 2),
        (["--creations", "LIST", "--database", "/none/db"], "no store is up", 1),
    ],
)
def test_wrong_calls(store: Store, listed: Path, lustre: Path, arguments: list[str], words: str, code: int) -> None:
    given = [{"LIST": str(listed), "LUSTRE": str(lustre)}.get(word, word) for word in arguments]
    answer = store.weir("place", *given, code=code)
    assert words in answer.stderr
    assert "hint: " in answer.stderr


def test_a_program_that_is_another_one_is_to_be_traced_anew(
    store: Store, listed: Path, lustre: Path, tmp_path: Path
) -> None:
    database, past = tmp_path / "placement.db", tmp_path / "traces"
    past.mkdir()
    report = {"version": 1, "placed": 1, "present": 0, "refused": 0, "missed": 9, "names": []}
    Path(f"{database}.report").write_text(json.dumps(report) + "\n")
    answer = store.weir("place", "--from", past, "--database", database, "--lustre", lustre, code=1)
    assert "90% of them without success" in answer.stderr
    assert "weir run --trace" in answer.stderr


def test_from_traces_to_placed_files(store: Store, tmp_path: Path) -> None:
    """The whole way: two runs are traced, the third is foreseen, at another scale, and its files are placed."""
    store.up(servers=2, targets=2, mount=False)
    traces, database = tmp_path / "traces", tmp_path / "placement.db"
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "for step in range(int(sys.argv[1])):\n"
        "    open(f'/weir/step.{step:03}', 'wb').write(bytes(int(sys.argv[2])))\n"
    )
    run = ("run", "--prefix", "/weir")
    for steps in (2, 3):
        store.weir(*run, "--trace", traces, "--", "python3", program, str(steps), "1048576")
        store.weir(*run, "--", "sh", "-c", "rm /weir/step.*")
    store.weir("place", "--from", traces, "--command", f"python3 {program} 5 1048576", "--database", database)
    assert [component.path for component in read(database)] == [f"/weir/step.{step:03}" for step in range(5)]
    store.weir(*run, "--placement", database, "--", "python3", program, "5", "1048576")
    lookups = read_report(Path(f"{database}.report"))
    assert (lookups.placed, lookups.refused, lookups.missed) == (5, 0, 0)


def test_scripts_are_told_apart_and_launchers_are_understood(store: Store, tmp_path: Path) -> None:
    """`python3 b.py` was expected to make the files of `a.py`, and `mpiexec` to be the program."""
    store.up(servers=2, targets=2, mount=False)
    traces, database = tmp_path / "traces", tmp_path / "placement.db"
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.py").write_text(
            "import os, sys\n"
            "rank = os.environ.get('PMI_RANK', '0')\n"
            f"open(f'/weir/{name}.{{rank}}', 'wb').write(bytes(int(sys.argv[1])))\n"
        )
    run = ("run", "--prefix", "/weir", "--trace", traces, "--")
    for ranks, name in (("2", "a"), ("3", "a"), ("1", "b")):
        program = ("mpiexec.mpich", "-n", ranks, "python3", tmp_path / f"{name}.py", "4096")
        store.weir(*run, *program)
    place = ("place", "--from", traces, "--database", database)
    command = f"mpiexec -n 4 python3 {tmp_path}/a.py 8192"
    store.weir(*place, "--command", command)
    assert [component.path for component in read(database)] == [f"/weir/a.{rank}" for rank in range(4)]
    assert {component.size_bytes for component in read(database)} == {8192}
    answer = store.weir(*place)
    assert [component.path for component in read(database)] == ["/weir/b.0"]
    assert "b.py alone: there are runs of python" in answer.stderr
    assert "a.py, too" in answer.stderr
    answer = store.weir(*place, "--command", f"python3 {tmp_path}/c.py 1", code=1)
    assert "no past run is of" in answer.stderr
    assert "c.py" in answer.stderr
    assert [component.path for component in read(database)] == ["/weir/b.0"]
    for command, words in (("mpiexec -n 1 a : -n 1 b", "a --command of its own"), ("a 'b", "No closing quotation")):
        assert words in store.weir(*place, "--command", command, code=2).stderr


def test_names_that_cannot_be_foreseen_are_called_so(store: Store, tmp_path: Path) -> None:
    store.up(servers=2, targets=2, mount=False)
    traces, database = tmp_path / "traces", tmp_path / "placement.db"
    program = tmp_path / "names.py"
    program.write_text(
        "import os, time, uuid\n"
        "names = [str(uuid.uuid4()), f'pid.{os.getpid()}', time.strftime('at-%Y%m%dT%H%M%S')]\n"
        "for name in names:\n"
        "    open(f'/weir/{name}', 'wb').write(b'words')\n"
    )
    run = ("run", "--prefix", "/weir")
    # A process number of a new container may be as small as a step.
    pad = "for n in $(seq 400); do (:); done; exec python3 names.py"
    store.weir(*run, "--trace", traces, "--", "sh", "-c", pad.replace("names.py", str(program)))
    answer = store.weir("place", "--from", traces, "--database", database, code=1)
    for words in ("/weir/<a UUID>: a UUID", "/weir/pid.<a process number>", "/weir/at-<a time>: a time"):
        assert words in answer.stderr
    assert "cannot be foreseen" in answer.stderr
    assert not database.exists()


CAREFUL = """
import multiprocessing, os, sys, tempfile

others = None

def share(barrier):
    global others
    others = barrier

def write(step):
    global others
    if others is not None:  # No process of the pool makes all files.
        others.wait(600)
        others = None
    how, folder = sys.argv[1], '/weir/careful'
    if how == 'suffix':
        name = f'{folder}/state.{step}.npz.tmp'
        file = open(name, 'wb')
    elif how == 'fixed':
        name = f'{folder}/work'
        file = open(name, 'wb')
    else:
        prefix = f'.state.{step}.' if how == 'hidden' else 'tmp'
        file = tempfile.NamedTemporaryFile(dir=folder, prefix=prefix, delete=False)
        name = file.name
    with file:
        file.write(bytes(65536 * (1 + step % 3)))
    os.replace(name, f'{folder}/state.{step}.npz')

if __name__ == '__main__':
    os.makedirs('/weir/careful', exist_ok=True)
    steps = range(int(sys.argv[2]))
    if sys.argv[1] == 'pool':
        pool = multiprocessing.Pool(2, share, (multiprocessing.Barrier(2),))
        pool.map(write, steps, chunksize=2)
        pool.close()
        pool.join()
    else:
        for step in steps:
            write(step)
"""
"""A program that writes each file under another name and renames it when it is whole."""


@pytest.mark.parametrize("how", ["suffix", "fixed", "random", "hidden"])
def test_files_that_get_their_names_afterwards_are_placed(store: Store, tmp_path: Path, how: str) -> None:
    """All files of one temporary name went to one target, and those of random names were placed by nobody."""
    store.up(servers=2, targets=2, mount=False)
    traces, database = tmp_path / "traces", tmp_path / "placement.db"
    program = tmp_path / "careful.py"
    program.write_text(CAREFUL)
    run = ("run", "--prefix", "/weir")
    for steps in (3, 5):
        store.weir(*run, "--trace", traces, "--", "python3", program, how, str(steps))
        store.weir(*run, "--", "rm", "-r", "/weir/careful")
    place = ("place", "--from", traces, "--command", f"python3 {program} {how} 8", "--layout", "-c 1")
    store.weir(*place, "--database", database)
    components = read(database)
    assert [component.path for component in components] == [f"/weir/careful/state.{step}.npz" for step in range(8)]
    store.weir(*run, "--placement", database, "--", "python3", program, how, "8")
    attributes = ("getfattr", "--absolute-names", "-n", "weir.layout", *(component.path for component in components))
    layouts = re.findall(r'="-o ([0-9.]+) ', store.weir(*run, "--", *attributes).stdout)
    assert layouts == [component.targets[0] for component in components]
    lookups = read_report(Path(f"{database}.report"))
    assert (lookups.placed, lookups.not_found) == (8, 0)
    store.weir(*run, "--", "rm", "-r", "/weir/careful")
    store.weir(*run, "--placement", database, "--", "python3", program, how, "10")
    lookups = read_report(Path(f"{database}.report"))
    assert (lookups.placed, lookups.missed) == (16, 2), "what was not placed is counted"
    shown = store.json("place", "show", database)
    assert all(row["made_as"] for row in shown)


def test_files_of_a_pool_whose_names_tell_nothing_are_left_to_the_store(store: Store, tmp_path: Path) -> None:
    store.up(servers=2, targets=2, mount=False)
    traces, database = tmp_path / "traces", tmp_path / "placement.db"
    program = tmp_path / "careful.py"
    program.write_text(CAREFUL + "open('/weir/careful/log', 'w').write('done')\n")
    run = ("run", "--prefix", "/weir")
    store.weir(*run, "--trace", traces, "--", "python3", program, "pool", "8")
    store.weir(*run, "--", "rm", "-r", "/weir/careful")
    answer = store.weir("place", "--from", traces, "--database", database)
    assert "not placed: 8 files" in answer.stderr
    assert "several processes of a rank make such files" in answer.stderr
    store.weir(*run, "--placement", database, "--", "python3", program, "pool", "8")
    lookups = read_report(Path(f"{database}.report"))
    assert (lookups.placed, lookups.missed) == (1, 8)


def test_programs_that_run_at_once_are_placed_together(store: Store, tmp_path: Path) -> None:
    store.up(servers=2, targets=2, mount=False)
    database = tmp_path / "placement.db"
    past: list[str | Path] = []
    for name in ("one", "other"):
        program = tmp_path / name
        shutil.copy(shutil.which("dd") or "", program)
        traces = tmp_path / f"{name}-traces"
        past += ["--from", traces]
        run = ("run", "--prefix", "/weir", "--trace", traces, "--")
        store.weir(*run, program, "if=/dev/zero", f"of=/weir/{name}", "bs=1M", "count=2")
    document = store.json("place", *past, "--stripe-count", "2", "--database", database)
    assert {program["program"] for program in document["programs"]} == {"one", "other"}
    assert set(document["targets"].values()) == {MIB}
    assert [component.path for component in read(database)] == ["/weir/one", "/weir/other"]
    command = "other if=/dev/zero of=/weir/other bs=1M count=2"
    document = store.json("place", *past, "--command", command, "--database", database)
    assert [file["path"] for file in document["files"]] == ["/weir/other"]
