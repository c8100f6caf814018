"""Records of runs beside Darshan's own logs: Recorder, extended traces, a program that is recorded, and a history."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from resident import python_path
from weir.provisioning.behaviour.history import past_of
from weir.provisioning.behaviour.identity import identify
from weir.provisioning.behaviour.recorded import RunReader
from weir.provisioning.behaviour.traits import Traits, of_log
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.job import read_job
from weir.provisioning.learning.archive import ParsedLog, opened
from weir.provisioning.learning.summaries import read_table
from weir.tracing.files import TraceError
from weir.tracing.totals import read_totals

DATA = Path(__file__).parents[1] / "data"
RECORDER = DATA / "recorder" / "host-user-app-10949-082155.406"
MIB = 1 << 20


def read(path: Path) -> tuple[Traits, list[str]]:
    notes: list[str] = []
    reader = RunReader(note=notes.append)
    try:
        return reader.read(path), notes
    finally:
        reader.end()


def test_a_trace_of_recorder_tells_what_its_program_did() -> None:
    """The program's calls stand in the README of its trace."""
    traits, notes = read(RECORDER)
    assert not notes
    assert (traits.program, traits.processes, traits.interface) == ("app", 2, "mpiio")
    ranks = 2
    assert traits.read.operations == traits.read.sized_operations == 3 * ranks
    assert traits.read.bytes == 3 * 65_536 * ranks
    assert traits.write.bytes == (6 * MIB + 5 * 800 + 4 * 100 + MIB) * ranks
    assert (traits.write.large_operations, traits.write.small_operations) == (7 * ranks, 5 * ranks)
    assert traits.write.operations == traits.write.sized_operations + 4 * ranks, "streams tell no sizes of calls"
    # Blocks behind the first one are in order. Of those that go backwards, the first one lies below their end, too.
    assert traits.write.sequential_operations == traits.write.consecutive_operations == 5 * ranks
    assert traits.read.consecutive_operations == 2 * ranks
    assert traits.collective_operations == ranks
    assert (traits.files, traits.shared_files) == (5, 1)
    assert traits.read.seconds > 0 and traits.write.seconds > 0 and traits.metadata_seconds > 0
    assert identify(traits).name == "small-write-moderate-random-mpiio"


def test_a_folder_of_recorder_without_text_is_told_how_to_make_it(tmp_path: Path) -> None:
    (tmp_path / "recorder.mt").write_bytes(bytes(40))
    with pytest.raises(TraceError, match="no trace of Recorder in text") as told:
        read(tmp_path)
    assert told.value.hint == f"write it with Recorder's own tool: recorder2text {tmp_path}"


def test_lines_that_are_no_calls_are_left_out_and_told(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    shutil.copytree(RECORDER, folder)
    with (folder / "_text" / "0.txt").open("a") as file:
        file.write("no call\n0.5 0.6 pwrite 0 0 ( /tmp/x %p many 0 )\n" + "y" * 200_000 + "\n")
    traits, notes = read(folder)
    assert traits.write == read(RECORDER)[0].write
    assert len(notes) == 1 and "lines are no calls" in notes[0]
    (folder / "_text" / "0.txt").write_text("nothing\n")
    (folder / "_text" / "1.txt").write_text("")
    with pytest.raises(TraceError, match="is a call of Recorder"):
        read(folder)


def dxt_lines(path: Path) -> Iterator[str]:
    """A real extended trace in the form of `darshan-dxt-parser` (Darshan's documentation of darshan-util)."""
    import darshan

    with darshan.DarshanReport(str(path), read_all=True) as report:
        job = report.metadata["job"]
        yield f"# darshan log version: {job['log_ver']}"
        yield f"# exe: {report.metadata['exe']}"
        yield f"# uid: {job['uid']}"
        yield f"# jobid: {job['jobid']}"
        yield f"# start_time: {job['start_time_sec']}"
        yield f"# nprocs: {job['nprocs']}"
        yield f"# run time: {job['run_time']}"
        for record in report.records["DXT_POSIX"]:
            yield ""
            yield f"# DXT, file_id: {record['id']}, file_name: {report.name_records[record['id']]}"
            yield f"# DXT, rank: {record['rank']}, hostname: {record['hostname']}"
            yield f"# DXT, write_count: {record['write_count']}, read_count: {record['read_count']}"
            yield "# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)"
            for way in ("write", "read"):
                for number, row in enumerate(record[f"{way}_segments"]):
                    place = f"{row['offset']:16d} {row['length']:12d} {row['start_time']:10.4f} {row['end_time']:10.4f}"
                    yield f" X_POSIX {record['rank']:8d} {way:>6} {number:8d} {place}"


def test_an_extended_trace_in_text_agrees_with_the_counters_of_its_log(tmp_path: Path) -> None:
    log = DATA / "darshan" / "sample-dxt-simple.darshan"
    (tmp_path / "dxt.txt").write_text("\n".join(dxt_lines(log)) + "\n")
    traits, notes = read(tmp_path / "dxt.txt")
    assert any("no opens" in note for note in notes)
    ((_, totals),) = read_totals([log])
    own = of_log(totals)  # type: ignore[arg-type]
    assert (traits.program, traits.processes) == (own.program, own.processes)
    posix = totals.interfaces["POSIX"]  # type: ignore[union-attr]
    assert traits.read.operations + traits.write.operations > 0
    assert (traits.read.operations, traits.write.operations) == (posix.count("READS"), posix.count("WRITES"))
    assert (traits.read.bytes, traits.write.bytes) == (posix.count("BYTES_READ"), posix.count("BYTES_WRITTEN"))
    for way, found in (("READ", traits.read), ("WRITE", traits.write)):
        small = posix.count(*(f"SIZE_{way}_{size}" for size in ("0_100", "100_1K", "1K_10K")))
        assert found.small_operations == small
    (tmp_path / "none.txt").write_text("# darshan log version: 3.21\n# nprocs: 4\n")
    with pytest.raises(TraceError, match="no read or write of an extended trace") as told:
        read(tmp_path / "none.txt")
    assert "DXT_ENABLE_IO_TRACE" in str(told.value.hint)


def weir(*words: object, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    return subprocess.run(
        [sys.executable, "-m", "weir.cli", *map(str, words)],
        cwd=folder,
        env={**environment, "PYTHONPATH": python_path(), "HOME": str(folder)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def test_a_program_is_recorded_and_planned(tmp_path: Path) -> None:
    """No store is up: the files below the working directory count."""
    pytest.importorskip("pyarrow")
    command = ("dd", "if=/dev/zero", "of=data", "bs=64k", "count=48")
    answer = weir(
        "plan", "run", "--keep", "kept", "--size", "1GiB", "--output", "json", "--", *command, folder=tmp_path
    )
    assert answer.returncode == 0, answer.stderr
    identity = json.loads(answer.stdout)["identity"]
    assert (identity["program"], identity["written_bytes"], identity["write_operations"]) == ("dd", 48 * 65_536, 48)
    assert identity["read_bytes"] == 0 and identity["metadata_operations"] > 0
    again = weir("plan", "identity", "kept", "--output", "json", folder=tmp_path)
    assert json.loads(again.stdout)[0]["written_bytes"] == 48 * 65_536
    refused = weir("plan", "run", "--", "sh", "-c", "exit 3", folder=tmp_path)
    assert refused.returncode == 3 and not refused.stdout
    assert "error: sh ended with exit code 3, so nothing is planned" in refused.stderr


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """The runs of a machine, as a build of classes keeps them."""
    folder = tmp_path / "classes"
    folder.mkdir()
    with opened(folder / "archive.db") as archive:
        archive.list_logs([("/cori.csv.gz", 1, 1)])
        archive.keep([ParsedLog(1, tuple(read_table(DATA / "tokio" / "cori.csv.gz")), None)])
    return folder


def test_a_script_alone_is_planned_by_its_history(history: Path, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=8 --ntasks-per-node=64\nmodule load ior-env\nsrun ./bin/ior -w\n")
    past = past_of(history, read_job(script), script)
    rows = gzip.decompress((DATA / "tokio" / "cori.csv.gz").read_bytes()).decode().splitlines()
    assert past.program == "ior" and past.runs == sum("/ior," in row and ",512," in row for row in rows)
    moved = [run.traits for run in read_table(DATA / "tokio" / "cori.csv.gz")]
    alike = sorted(t.read.bytes + t.write.bytes for t in moved if (t.program, t.processes) == ("ior", 512))
    assert past.identity.read_bytes + past.identity.written_bytes == alike[len(alike) // 2]
    assert (past.identity.processes, past.identity.nodes) == (512, 8)
    answer = weir("plan", "sslo", "--job", script, "--history", history, folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert f"is planned by {past.runs} past runs of ior" in answer.stderr


def test_a_script_without_a_history_is_told_what_is_known(history: Path, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=1\nsrun ./other\n")
    with pytest.raises(ProvisioningError, match=r"is of a program that .*job\.sh names") as told:
        past_of(history, read_job(script), script)
    assert "ior" in str(told.value.hint)
    with pytest.raises(ProvisioningError, match=r"has no archive\.db"):
        past_of(tmp_path, read_job(script), script)
    neither = weir("plan", "sslo", folder=tmp_path)
    assert neither.returncode == 2 and "--job SCRIPT with --history FOLDER" in neither.stderr
