"""Layouts that do not fit their files, on real logs; slow targets; layouts fitted to a system."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from waits import PATIENCE_SECONDS
from weir import _core
from weir.cli.layout.advise import advise as command
from weir.placement.advice import Finding, Usage, advise, usages_of_creations
from weir.placement.slow_targets import slow_targets
from weir.placement.tuning import spell, tune
from weir.tracing.darshan import Component, LoggedFile
from weir.tracing.records import SHARED, Creation

LOGS = Path(__file__).resolve().parents[1] / "data" / "darshan"
MIB, GIB = 1 << 20, 1 << 30


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def advice(name: str, *options: str) -> dict[str, Any]:
    (path,) = LOGS.glob(f"{name}*.darshan")
    result = run(path, "--output", "json", *options)
    assert result.exit_code == 0, result.output
    (document,) = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def only(usage: Usage, *, targets: int = 24) -> Finding:
    (finding,) = advise([usage], targets=targets)
    return finding


def test_a_large_shared_file_on_one_target() -> None:
    (finding,) = advice("dbin_write_3d_nc4", "--targets", "248")["findings"]
    path = "/global/cscratch1/sd/dbin/e2e-test-1-1M-osts/3d_32_32_16_32_32_32.nc4"
    assert (finding["kind"], finding["present"], finding["layout"]) == ("narrow", "-c 1 -S 1M", "-c 248 -S 1M")
    assert "64 ranks share 40.0 GiB on 1 target of 248" in finding["reason"]
    assert finding["lfs"] == f"lfs setstripe -c 248 -S 1M {path}"
    assert finding["weir"] == f"weir layout set -c 248 -S 1M {path}"


def test_the_targets_that_a_log_names_are_counted() -> None:
    """The file lies on target 42, which is no sign of 43 targets: numbers of targets have gaps."""
    document = advice("dbin_write_3d_nc4")
    assert document["targets"] == 1
    assert [finding["kind"] for finding in document["findings"]] == ["unaligned"]


def test_accesses_larger_than_stripes_and_unaligned_ones() -> None:
    by_kind = {finding["kind"]: finding for finding in advice("example")["findings"]}
    assert set(by_kind) == {"stripe-size", "unaligned"}
    assert by_kind["stripe-size"]["layout"] == "-c 24 -S 128M"
    assert "each access of 128.0 MiB is cut into stripes of 1.0 MiB" in by_kind["stripe-size"]["reason"]
    assert by_kind["unaligned"]["layout"] is None and "H5Pset_alignment" in by_kind["unaligned"]["lfs"]


def test_layouts_that_fit_are_left_alone() -> None:
    document = advice("sample-goodost")
    assert (document["findings"], document["slow_targets"]) == ([], [])
    assert document["files_with_layout"] == 48 and document["targets"] == 24


def test_the_slow_target_of_a_real_job() -> None:
    (slow,) = advice("sample-badost")["slow_targets"]
    assert (slow["target"], slow["files"]) == (14, 85)
    assert slow["bytes_per_second"] / 1e6 == pytest.approx(29, abs=0.5)
    assert slow["median_bytes_per_second"] / 1e6 == pytest.approx(1680, abs=10)
    assert slow["lost_seconds"] == pytest.approx(764, abs=5)
    assert slow["lfs"] == "lctl set_param osp.*-OST000e-osc-MDT*.max_create_count=0"


def test_small_files_on_many_targets() -> None:
    usages = [
        Usage(path=f"/scratch/thumbnail.{n}", size_bytes=300_000, processes=1, stripes=24, stripe_bytes=MIB)
        for n in range(50)
    ]
    (finding,) = advise(usages, targets=24)
    assert (finding.kind, finding.files, finding.place, finding.layout) == ("wide", 50, "/scratch", "-c 1 -S 1M")
    assert "reach 1 of 24 stripes of 1M; 23 objects" in finding.reason
    assert finding.lfs == "lfs setstripe -c 1 -S 1M /scratch"


def test_a_file_for_each_process_over_many_targets() -> None:
    usages = [
        Usage(path=f"/scratch/part.{rank:05}", size_bytes=GIB, processes=1, stripes=24, stripe_bytes=MIB)
        for rank in range(2048)
    ]
    (finding,) = advise(usages, targets=24)
    assert (finding.kind, finding.files, finding.layout) == ("own-wide", 2048, "-c 1 -S 1M")
    assert "2048 files of one process each x 24 stripes are 49152 objects" in finding.reason
    few = [
        Usage(path=f"/scratch/part.{rank}", size_bytes=GIB, processes=1, stripes=6, stripe_bytes=MIB)
        for rank in range(4)
    ]
    assert advise(few, targets=24) == []


def test_a_file_that_fills_a_target_alone() -> None:
    finding = only(Usage("/scratch/archive.tar", 4096 * GIB, processes=1, stripes=1, stripe_bytes=MIB))
    assert (finding.kind, finding.layout) == ("narrow", "-c 24 -S 1M")


def test_accesses_across_the_edges_of_stripes() -> None:
    usage = Usage("/s/f", 100 * GIB, 64, stripes=24, stripe_bytes=MIB, transfer_bytes=720 << 10, accesses=10_000)
    finding = only(usage)
    # 720 KiB and 1 MiB share 16 KiB: of 1,048,576 possible offsets, 704 KiB of each MiB lead across.
    assert finding.kind == "stripe-size" and "69% of the accesses of 720.0 KiB" in finding.reason
    spelled = finding.layout
    assert spelled is not None
    (component,) = _core.parse_layout(spelled)
    assert component["stripe_bytes"] is not None and component["stripe_bytes"] % (720 << 10) == 0
    aligned = Usage("/s/f", 100 * GIB, 64, stripes=24, stripe_bytes=MIB, transfer_bytes=256 << 10, accesses=10_000)
    assert advise([aligned], targets=24) == []


def test_a_file_that_was_only_read_is_moved() -> None:
    finding = only(Usage("/s/input data", 10 * GIB, 64, stripes=1, stripe_bytes=MIB, is_written=False))
    assert finding.lfs == "lfs migrate -c 24 -S 1M '/s/input data'"


def test_files_of_one_family_get_one_layout() -> None:
    """Seen on a deep-learning reader: 14 files of 90 to 290 MiB, each on all 160 targets, some of which they reach."""
    usages = [
        Usage(f"/train/img_{n:02}_of_14.npz", (90 + 15 * n) * MIB, 1, stripes=160, stripe_bytes=MIB, is_written=False)
        for n in range(14)
    ]
    (finding,) = advise(usages, targets=160)
    assert (finding.kind, finding.files, finding.layout) == ("own-wide", 14, "-c 5 -S 1M")
    assert "2240 objects on 160 targets; 70 spread them as well" in finding.reason
    assert finding.lfs == "lfs_migrate -y -c 5 -S 1M /train"


def test_creations_of_our_own_traces() -> None:
    def creation(layout: str | None, size: int) -> Creation:
        return Creation("/store/shared", SHARED, 0, size, size, 16, layout)

    (narrow,) = usages_of_creations([creation("-c 1 -S 1M", 10 * GIB)], targets=35)
    assert only(narrow, targets=35).kind == "narrow"
    (grown,) = usages_of_creations([creation("-E 128M -c 1 -E 1G -c 4 -E -1 -c -1", 10 * GIB)], targets=35)
    assert grown.stripes == 35 and advise([grown], targets=35) == []
    (within,) = usages_of_creations([creation("-E 128M -c 1 -E 1G -c 4 -E -1 -c -1", 200 * MIB)], targets=35)
    assert within.stripes == 4
    (named,) = usages_of_creations([creation("-o 0.1,3.2", GIB)], targets=35)
    assert named.stripes == 2
    assert usages_of_creations([creation(None, GIB), creation("-c 1", 0)], targets=35) == []


def test_a_target_is_slow_only_against_others() -> None:
    def file(target: int, seconds: float, number: int = 0) -> LoggedFile:
        return LoggedFile(
            path=f"/s/{target}.{number}",
            rank=0,
            processes=1,
            writers=1,
            size_bytes=GIB,
            size_read_bytes=0,
            reads=0,
            writes=1024,
            read_bytes=0,
            written_bytes=GIB,
            transfer_bytes=MIB,
            unaligned=0,
            seconds=seconds,
            components=(Component(None, MIB, (target,)),),
        )

    healthy = [file(target, 1.0 + 0.2 * (target % 3)) for target in range(8)]
    assert slow_targets(healthy) == []
    assert [slow.target for slow in slow_targets([*healthy, file(9, 20.0)])] == [9]
    assert slow_targets([file(0, 1.0), file(1, 20.0)]) == [], "of two, who says which is slow"
    busy = [file(9, 8.0, number) for number in range(8)]
    assert slow_targets([*healthy, *busy]) == [], "eight files at once on one healthy target"


@given(
    sizes=st.lists(st.integers(0, 1 << 44), min_size=1, max_size=30),
    targets=st.integers(1, 4000),
    speed=st.integers(1, 1 << 36),
    transfer=st.integers(0, 1 << 32),
)
def test_a_fitted_layout_is_one_that_the_store_and_lustre_take(
    sizes: list[int], targets: int, speed: int, transfer: int
) -> None:
    tuned = tune(sizes, targets=targets, target_speed=speed, transfer_bytes=transfer)
    parts = _core.parse_layout(tuned.spelling)
    assert _core.layout_warning(tuned.spelling, targets) is None
    assert _core.parse_layout(_core.layout_from_ini(tuned.ini)) == parts
    counts = [part["stripes"] for part in parts]
    assert counts[0] == 1 and counts[-1] == -1 and parts[-1]["end"] is None
    growing = [count for count in counts[:-1] if count is not None]
    assert growing == sorted(growing) and sum(growing) == targets
    for part in parts[:-1]:
        end, stripe = part["end"], part["stripe_bytes"]
        assert end is not None and stripe is not None and end % stripe == 0 and stripe % 65536 == 0
        # Linear: each stripe of each component holds the same share.
        assert end - part["start"] == tuned.share_bytes * (part["stripes"] or 0)
    # No stripe has to hold more than an even division gives each target, or what makes a stripe worth while.
    assert tuned.share_bytes * targets >= sum(sizes)


def test_stripes_of_a_fitted_layout_follow_the_files() -> None:
    own = tune([GIB] * 48, targets=24)
    assert own.share_bytes == 2 * GIB and own.stripes == ((GIB, 1),)
    shared = tune([40 * GIB], targets=35)
    assert shared.stripes == ((40 * GIB, 35),)
    mixed = tune([MIB] * 100 + [100 * GIB], targets=35)
    assert mixed.stripes == ((MIB, 1), (100 * GIB, 35))
    assert tune([MIB], targets=35, target_speed=10 * GIB).share_bytes == GIB
    with pytest.raises(ValueError, match="one file and one target"):
        tune([], targets=3)


@pytest.mark.parametrize(
    ("size", "spelled"), [(-1, "-1"), (0, "0"), (65536, "64k"), (3 << 20, "3M"), (1 << 40, "1T"), (1000, "1000")]
)
def test_sizes_are_spelled_as_lfs_takes_them(size: int, spelled: str) -> None:
    assert spell(size) == spelled


def test_the_command_tells_people(tmp_path: Path) -> None:
    bad = tmp_path / "bad.darshan"
    bad.write_bytes(b"")
    paths = [next(LOGS.glob(f"{name}*")) for name in ("sample-badost", "dbin_write_3d", "pq_app_write_id71296")]
    result = run(*paths, bad, "--tune")
    assert result.exit_code == 1
    for words in (
        "slow target 14: 29 MB/s over 85 files",
        "FAULT      FILES",
        "1 target named (give those of the system with --targets)",
        "weir layout set -E ",
        "[Bucket_1]",
        "every layout fits",
        "no layout is known",
    ):
        assert words in result.stdout, words
    assert f"{bad} is empty" in result.stderr
    assert "names no targets" in result.stderr and "--targets" in result.stderr


def test_wrong_options() -> None:
    log = next(LOGS.glob("sample-goodost*"))
    assert run(log, "--target-speed", "fast").exit_code == 2
    assert run(log, "--targets", "0").exit_code == 2
    assert run().exit_code == 2


def test_a_trace_of_our_own(tmp_path: Path) -> None:
    output, traces = tmp_path / "output", tmp_path / "traces"
    output.mkdir()
    script = f"[open(f'{output}/part.{{n}}', 'wb').write(bytes(1 << 20)) for n in range(4)]"
    weir = [sys.executable, "-m", "weir.cli"]
    command_line: list[str | Path] = [
        *weir,
        "run",
        "--trace",
        traces,
        "--observe",
        output,
        "--",
        sys.executable,
        "-c",
        script,
    ]
    subprocess.run(command_line, check=True, timeout=PATIENCE_SECONDS)
    result = run(traces, "--tune", "--targets", "8", "--output", "json")
    assert result.exit_code == 0, result.output
    (document,) = json.loads(result.stdout)
    assert document["files"] == 4 and document["findings"] == []
    assert document["tuned"]["stripes"] == [{"size_bytes": 1 << 20, "stripes": 1}]
