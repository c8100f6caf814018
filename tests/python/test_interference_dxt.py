"""Windows of Darshan logs with traced accesses, and windows of jobs and servers that are joined."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from seeds import seed
from waits import PATIENCE_SECONDS
from weir.interference import dxt, joining, windows
from weir.interference.errors import InterferenceError
from weir.tracing.darshan import Component, read_log

LOGS = Path(__file__).resolve().parents[1] / "data/darshan"
TRACED = ("sample-dxt-simple", "ior_hdf5_example")


def test_the_windows_of_a_log_have_all_traced_accesses_at_the_targets_of_the_layout() -> None:
    log = read_log(LOGS / "ior_hdf5_example.darshan", times=True)
    rows = dxt.rows_of(log, 0.01, "run")
    segments = [part for file in log.files for part in file.segments]
    moved = {name: sum(row.get(f"client_{name}_bytes", 0.0) for row in rows) for name in ("read", "written")}
    assert moved == {
        "written": sum(sum(part.lengths[: part.writes]) for part in segments),
        "read": sum(sum(part.lengths[part.writes :]) for part in segments),
    }
    assert sum(row.get("client_writes", 0.0) for row in rows) == sum(part.writes for part in segments)
    # The file of this log lay on OST 106 alone.
    assert {row["server"] for row in rows} == {"OST006a", dxt.METADATA}
    spent = {row["window"]: row["io_seconds"] for row in rows}
    times = [end - start for part in segments for start, end in zip(part.starts, part.ends, strict=True)]
    assert sum(spent.values()) == pytest.approx(sum(times))
    made = windows.of_rows(rows)
    assert len(made) == len(spent) > 3 and made.numbers[0] >= log.run.started / 0.01


@pytest.mark.parametrize("name", TRACED)
def test_a_log_becomes_a_data_set(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weir.cli", "interference", "import", str(LOGS / f"{name}.darshan")]
    subprocess.run([*command, "--to", str(tmp_path / "w.parquet")], timeout=PATIENCE_SECONDS, check=True)
    found = windows.read([tmp_path / "w.parquet"])
    assert set(found.runs) == {name} and found.client.sum() > 0


def test_a_log_without_traced_accesses_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weir.cli", "interference", "import", "--to", str(tmp_path / "w.parquet")]
    for files, message in (
        (["example.darshan"], "has no traced accesses"),
        ([f"{TRACED[0]}.darshan", "README.md"], "different data sets"),
    ):
        given = [str(LOGS / file) for file in files]
        done = subprocess.run([*command, *given], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        assert done.returncode in (1, 2) and message in done.stderr and not list(tmp_path.iterdir())


def naive(offset: int, length: int, components: list[Component]) -> dict[str, int]:
    """Bytes of an access at each target, byte by byte."""
    found: dict[str, int] = {}
    for byte in range(offset, offset + length):
        for part in components:
            if part.end_bytes is None or byte < part.end_bytes:
                target = part.targets[byte // part.stripe_bytes % len(part.targets)]
                found[f"OST{target:04x}"] = found.get(f"OST{target:04x}", 0) + 1
                break
    return found


def test_bytes_are_divided_as_a_naive_walk_divides_them() -> None:
    chance = random.Random(seed())
    for _ in range(60):
        ends = sorted(chance.sample(range(1, 200), chance.randrange(3)))
        components = [
            Component(
                end_bytes=end,
                stripe_bytes=chance.choice([1, 3, 8, 64]),
                targets=tuple(chance.sample(range(9), chance.randrange(1, 5))),
            )
            for end in (*ends, None)
        ]
        accesses = [(chance.randrange(300), chance.randrange(1, 90)) for _ in range(chance.randrange(1, 6))]
        touched: dict[str, float] = {}
        moved: dict[str, float] = {}
        for target, count, size in dxt.divided(
            np.array([each[0] for each in accesses]), np.array([each[1] for each in accesses]), components
        ):
            touched[target] = touched.get(target, 0) + count
            moved[target] = moved.get(target, 0) + size
        expected: dict[str, int] = {}
        for access in accesses:
            for target, size in naive(*access, components).items():
                expected[target] = expected.get(target, 0) + size
        assert moved == expected
        assert set(touched) == set(expected) and min(touched.values()) >= 1


def rows(server: str, *numbers: int, **counts: float) -> list[dict[str, object]]:
    shared = {"run": "r", "workload": "w", "io_seconds": 0.5, "slowdown": None, "is_metadata": False}
    return [{**shared, "window": number, "server": server, **counts} for number in numbers]


def test_windows_of_jobs_get_the_counters_of_all_servers_of_their_time() -> None:
    servers = rows("fs-OST0000", 1, 2, server_reads_sum=5.0) + rows("fs-OST0001", 1, 2, server_reads_sum=7.0)
    found = joining.join(rows("OST0001", 1, 2, 3, client_reads=2.0), servers, {})
    assert found.without_server == 1 and len(found.rows) == 4
    made = windows.of_rows(found.rows)
    assert made.numbers.tolist() == [1, 2]
    assert made.client[0, :, 0].tolist() == [0.0, 2.0] and made.server[0, :, 0].tolist() == [5.0, 7.0]
    named = joining.join(rows("files", 2, client_reads=2.0), rows("sda", 2), {"files": "sda"})
    assert [(row["server"], row["client_reads"]) for row in named.rows] == [("sda", 2.0)]
    with pytest.raises(InterferenceError, match="no window of a job"):
        joining.join(rows("files", 2), rows("sda", 2), {})
    with pytest.raises(InterferenceError, match="two rows of server sda"):
        joining.join(rows("sda", 2), rows("sda", 2) + rows("sda", 2, server_reads_sum=1.0), {})
    # Two servers end with the name, so that neither is meant.
    with pytest.raises(InterferenceError, match="no window of a job"):
        joining.join(rows("OST0001", 2), rows("a-OST0001", 2) + rows("b-OST0001", 2), {})
