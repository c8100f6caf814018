"""Jobs from Darshan logs and traces: every byte once, in its time; and jobs of an accounting file with their logs."""

import dataclasses
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from store import Store
from weir.simulation.errors import ScenarioError
from weir.simulation.scenario import parse_scenario
from weir.simulation.workload import Kind, SkippedLog, Work
from weir.simulation.workloads import logs as log_jobs
from weir.simulation.workloads.accounting import read_accounting
from weir.simulation.workloads.logs import PIECES_MAX, LogOptions, job_of, logs_in, read_jobs
from weir.simulation.workloads.traces import read_traced_jobs
from weir.tracing.darshan import Access, DarshanLog, LoggedFile, Segments, read_log
from weir.tracing.records import Run

LOGS = Path(__file__).resolve().parents[1] / "data" / "darshan"


def log_of(name: str) -> Path:
    (path,) = LOGS.glob(f"{name}*.darshan")
    return path


def access(rank: int, **fields: float) -> Access:
    """An access of 100 s, which wrote nothing and read nothing."""
    usual = {
        "opened": 10.0,
        "closed": 110.0,
        "first_read": 0.0,
        "first_write": 0.0,
        "read_seconds": 0.0,
        "write_seconds": 0.0,
        "reads": 0,
        "writes": 0,
        "read_bytes": 0,
        "written_bytes": 0,
        "transfer_bytes": 0,
    }
    return Access(rank=rank, **{**usual, **fields})  # type: ignore[arg-type]


def logged(*accesses: Access, ranks: int, segments: tuple[Segments, ...] = ()) -> Work:
    """The work of a log of one file."""
    file = LoggedFile(
        path="/scratch/file",
        rank=-1,
        processes=ranks,
        writers=ranks,
        size_bytes=sum(each.written_bytes for each in accesses),
        size_read_bytes=sum(each.read_bytes for each in accesses),
        reads=sum(each.reads for each in accesses),
        writes=sum(each.writes for each in accesses),
        read_bytes=sum(each.read_bytes for each in accesses),
        written_bytes=sum(each.written_bytes for each in accesses),
        transfer_bytes=0,
        unaligned=0,
        seconds=0.0,
        components=(),
        accesses=accesses,
        segments=segments,
    )
    run = Run("app", (), ranks, 1000.0, 1200.0, (), "darshan")
    return job_of(DarshanLog(Path("x.darshan"), "3.41", run, (file,), (), ("POSIX",))).work


def test_idle_time_and_bytes_are_spread_between_open_and_close() -> None:
    """Tarazu, section 6.3: idle = last close - first open - time in reads and writes."""
    work = logged(access(0, written_bytes=64 << 20, writes=4, write_seconds=20.0), ranks=1)
    steps = work.steps
    assert steps.kind.tolist() == [Kind.CREATE, *[Kind.WRITE] * 4]
    # 10 s to the open, then 100 s of which 20 s are writes: a quarter of 80 s before each of four pieces.
    assert steps.after_seconds.tolist() == pytest.approx([10.0, 20.0, 20.0, 20.0, 20.0])
    assert steps.bytes.tolist() == [0, *[16 << 20] * 4]
    assert steps.offset.tolist() == [0, *(place << 24 for place in range(4))]
    assert work.file_bytes.tolist() == [0]


def test_a_reduced_record_is_divided_among_all_ranks() -> None:
    work = logged(access(-1, read_bytes=400, reads=8, read_seconds=80.0, first_read=11.0), ranks=4)
    steps = work.steps
    assert work.file_bytes.tolist() == [400], "bytes that a run reads were there before"
    assert len(work.stream_nodes) == 4 and (steps.kind == Kind.READ).sum() == 4
    reads = steps.kind == Kind.READ
    assert sorted(zip(steps.offset[reads].tolist(), steps.bytes[reads].tolist(), strict=True)) == [
        (0, 100),
        (100, 100),
        (200, 100),
        (300, 100),
    ]
    # Each rank read 20 s of the 100 s.
    assert steps.after_seconds[reads].tolist() == pytest.approx([80.0] * 4)


def test_a_rank_with_two_directions_does_the_first_one_first() -> None:
    both = {"read_bytes": 300, "written_bytes": 100, "reads": 1, "writes": 1}
    written_first = logged(access(0, **both, first_read=50.0, first_write=10.0), ranks=1).steps
    assert written_first.kind.tolist() == [Kind.CREATE, Kind.WRITE, Kind.READ]
    work = logged(access(0, **both, first_read=10.0, first_write=80.0), ranks=1)
    assert work.steps.kind.tolist() == [Kind.METADATA, Kind.READ, Kind.WRITE] and work.file_bytes.tolist() == [300]
    # Three quarters of the time are for three quarters of the bytes.
    assert work.steps.after_seconds.tolist() == pytest.approx([10.0, 75.0, 25.0])


def test_traced_accesses_are_taken_as_they_are() -> None:
    traced = Segments(0, 1, offsets=(4096, 0), lengths=(10, 30), starts=(20.0, 11.0), ends=(21.0, 15.0))
    counted = access(0, written_bytes=10, read_bytes=30, writes=1, reads=1, first_read=11.0, first_write=20.0)
    steps = logged(counted, ranks=1, segments=(traced,)).steps
    assert steps.kind.tolist() == [Kind.METADATA, Kind.READ, Kind.WRITE]
    assert (steps.offset.tolist(), steps.bytes.tolist()) == ([0, 0, 4096], [1, 30, 10])
    assert steps.after_seconds.tolist() == pytest.approx([10.0, 1.0, 5.0])


def test_a_trace_that_lacks_accesses_is_not_used() -> None:
    """Darshan stops tracing when its memory is full, and goes on counting."""
    traced = Segments(0, 1, offsets=(0,), lengths=(10,), starts=(20.0,), ends=(21.0,))
    steps = logged(access(0, written_bytes=1000, writes=2), ranks=1, segments=(traced,)).steps
    assert steps.bytes[steps.kind == Kind.WRITE].sum() == 1000


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.darshan")), ids=lambda path: path.name[:24])
def test_every_byte_of_a_real_log_is_there_once_and_in_its_time(path: Path) -> None:
    log = read_log(path, times=True)
    job = job_of(log)
    steps, seconds = job.work.steps, log.run.ended - log.run.started
    assert job.work.read_bytes == sum(file.read_bytes for file in log.files)
    assert job.work.written_bytes == sum(file.written_bytes for file in log.files)
    assert (steps.after_seconds >= 0).all() and len(job.work.stream_nodes) <= job.ranks
    pauses = np.bincount(steps.stream, weights=steps.after_seconds)
    # Runs are counted in whole seconds.
    assert pauses.max() <= seconds + 1.0, "no process does nothing for longer than the run"
    creates = np.bincount(steps.file[steps.kind == Kind.CREATE], minlength=len(log.files))
    assert creates.max() <= 1, "a file is made once"


def test_logs_of_one_file_for_each_process_and_of_one_for_all() -> None:
    own = read_jobs([log_of("sample-goodost")])[0].work
    assert len(own.file_bytes) == len(own.stream_nodes) == 48
    pairs = set(zip(own.steps.stream.tolist(), own.steps.file.tolist(), strict=True))
    assert len(pairs) == 48, "each process has a file of its own"
    shared = read_jobs([log_of("example")])[0].work
    assert (len(shared.file_bytes), len(shared.stream_nodes)) == (1, 2048)
    ends = shared.steps.offset + shared.steps.bytes
    writes = shared.steps.kind == Kind.WRITE
    assert ends.max() == shared.steps.bytes[writes].sum(), "regions of ranks lie side by side"


def test_the_time_of_a_log_is_found_again() -> None:
    """48 ranks wrote 1 GiB each: pauses and writes of a rank end where its file was closed."""
    log = read_log(log_of("sample-goodost"), times=True)
    work = job_of(log).work
    for number, file in enumerate(log.files):
        (one,) = file.accesses
        own = work.steps.file == number
        assert (work.steps.kind[own] == Kind.WRITE).sum() == PIECES_MAX
        pauses = work.steps.after_seconds[own].sum()
        assert pauses + one.write_seconds == pytest.approx(one.closed, abs=1e-6)


def test_a_log_keeps_its_stripes_where_that_is_asked() -> None:
    path = log_of("example")
    assert read_jobs([path])[0].work.layouts == (None,)
    assert read_jobs([path], LogOptions(keep_layouts=True))[0].work.layouts == ("-c 24 -S 1048576",)


def test_names_users_and_nodes_of_logs() -> None:
    job = read_jobs([log_of("dbin_ior")], LogOptions(processes_per_node=64))[0]
    assert (job.name, job.user, job.job_id, job.ranks, job.work.nodes) == ("ior", "dbin", 66184525, 256, 4)
    assert np.bincount(job.work.stream_nodes).tolist() == [64] * 4
    assert read_jobs([log_of("sample-goodost")])[0].user == "uid-69615"


def test_a_log_that_lacks_accesses_says_so() -> None:
    """Darshan's modules have a bound of memory, and a log says which of them reached it."""
    log = read_log(log_of("pq_app_write_id71303"), times=True)
    assert job_of(log).note == ""
    lacking = dataclasses.replace(log, incomplete=("POSIX", "STDIO"))
    assert job_of(lacking).note == f"{log.path}: Darshan's POSIX, STDIO ran out of memory, so accesses are missing"


def test_a_log_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path = log_of("pq_app_write_id71303")
    first = read_jobs([path])[0]
    monkeypatch.setattr(log_jobs, "read_logs", lambda paths, *, times: iter([] if not paths else [None]))
    assert read_jobs([path, path]) == [first, first]


def test_logs_that_cannot_be_used_are_left_out_and_named(tmp_path: Path) -> None:
    good, bad, gone = log_of("sample-dxt-simple"), tmp_path / "bad.darshan", tmp_path / "gone.darshan"
    bad.write_bytes(b"no log at all")
    skipped: list[SkippedLog] = []
    (job,) = read_jobs([bad, good, gone], skip=skipped.append)
    assert job == read_jobs([good])[0]
    assert [log.path for log in skipped] == [bad, gone]
    assert all(str(log.path) in log.reason for log in skipped)
    with pytest.raises(ScenarioError, match=r"none of 2 logs can be used; the first: .*bad\.darshan"):
        read_jobs([bad, gone], skip=skipped.append)


def test_a_scenario_says_which_logs_it_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    shutil.copy(log_of("sample-dxt-simple"), folder)
    (folder / "bad.darshan").write_bytes(b"no log at all")
    text = 'topology = "2x2"\n[[jobs]]\nlog = "logs"\nunreadable = "skip"\n'
    workload = parse_scenario(text, origin="x.toml", folder=tmp_path).workload
    assert len(workload.jobs) == 1
    assert [log.path.name for log in workload.skipped] == ["bad.darshan"]
    with pytest.raises(ScenarioError, match=r"x.toml: line 3: jobs\[0\].log: .*bad.darshan"):
        parse_scenario(text.replace('"skip"', '"error"'), origin="x.toml", folder=tmp_path)


def test_what_is_no_log_is_one_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    bad = tmp_path / "bad.darshan"
    bad.write_bytes(log_of("sample-goodost").read_bytes()[:3000])
    with pytest.raises(ScenarioError, match=r"bad\.darshan"):
        read_jobs([bad])
    with pytest.raises(ScenarioError, match="cannot read"):
        read_jobs([tmp_path / "none.darshan"])
    with pytest.raises(ScenarioError, match="there are no Darshan logs in"):
        logs_in(empty)


@pytest.mark.slow
def test_a_traced_run_becomes_a_job(store: Store, tmp_path: Path) -> None:
    """Two files of a real program: each byte is written once, no piece before its moment."""
    store.up(servers=1, targets=2)
    program = (
        "import os, time\n"
        "for name, count in (('a', 3), ('b', 1)):\n"
        "    with open(name, 'wb', buffering=0) as file:\n"
        "        for _ in range(count):\n"
        "            file.write(bytes(1 << 20)); time.sleep(0.05)\n"
    )
    folder = tmp_path / "traces"
    store.weir(
        "run", "--trace", folder, "--", sys.executable, "-c", f"import os; os.chdir({str(store.mount)!r})\n{program}"
    )
    notes: list[str] = []
    (job,) = read_traced_jobs([folder], note=notes.append)
    steps = job.work.steps
    assert notes == [] and job.name.startswith("python") and len(job.work.file_bytes) == 2
    assert job.work.written_bytes == 4 << 20 and (steps.kind == Kind.CREATE).sum() == 2
    assert (np.diff(steps.not_before_seconds) >= 0).all()
    writes = steps.kind == Kind.WRITE
    assert [int(steps.bytes[writes & (steps.file == file)].sum()) >> 20 for file in (0, 1)] == [3, 1]
    assert steps.not_before_seconds[writes & (steps.file == 1)].min() >= 0.15

    # A process that was killed leaves its last record in part; two tables say so once.
    trace = max(folder.glob("*.weirtrace"), key=lambda path: path.stat().st_size)
    trace.write_bytes(trace.read_bytes()[:-3])
    text = 'topology = "2x2"\n' + '[[jobs]]\ntrace = "traces"\n' * 2
    workload = parse_scenario(text, origin="s.toml", folder=tmp_path).workload
    assert len(workload.jobs) == 2 and len(workload.notes) == 1
    assert workload.notes[0].startswith(f"{trace}: the last ") and "were not written whole" in workload.notes[0]


HEADER = "JobID|JobName|User|Account|Submit|Start|Elapsed|NNodes|NCPUS"
ACCOUNTING = f"""{HEADER}
71303|app_write|pq|physics|2026-11-23T08:00:00|2026-11-23T08:01:00|00:00:20|1|1
71303.batch|batch||physics|2026-11-23T08:00:00|2026-11-23T08:01:00|00:00:20|1|1
71303.0|app||physics|2026-11-23T08:00:00|2026-11-23T08:01:00|00:00:20|1|1
71296|app_write|pq|physics|2026-11-23T08:00:00|2026-11-23T08:00:10|1-02:03:04|1|1.5K
80001_[1-4]|waits|pq|physics|2026-11-23T08:00:00|Unknown|00:00:00|1|1
80000_2|app_write|pq|chemistry|2026-11-23T08:00:00|2026-11-23T08:02:10|20:05|2|4
"""


def test_accounting_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(ACCOUNTING)
    jobs = read_accounting(path)
    assert [(job.job_id, job.line) for job in jobs] == [("71296", 5), ("71303", 2), ("80000_2", 7)]
    assert (jobs[0].seconds, jobs[0].processors, jobs[0].user, jobs[0].account) == (93784.0, 1500, "pq", "physics")
    assert jobs[1].started - jobs[0].started == 50.0 and jobs[2].seconds == 1205.0
    turned = "\n".join("|".join(reversed(line.split("|"))) for line in ACCOUNTING.splitlines())
    path.write_text(turned)
    assert read_accounting(path) == jobs
    path.write_text("Start|User|JobID|NNodes\n2026-11-23T08:00:00|pq|7|3\n")
    (job,) = read_accounting(path)
    assert (job.name, job.nodes, job.processors, job.seconds) == ("unknown", 3, 3, 0.0)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (HEADER, "JobID|User|NNodes", "line 1: the header lacks Start"),
        ("|1|1\n71303.batch", "|1\n71303.batch", "line 2: it has 8 columns where the header has 9"),
        ("71296|", "x|", "line 5: JobID: 'x' is no number of a job"),
        ("2026-11-23T08:00:10", "yesterday", "line 5: Start: 'yesterday' is no time"),
        ("1-02:03:04", "long", "line 5: Elapsed: 'long' is no time"),
        ("71296|", "7" * 5000 + "|", "line 5: JobID: '777"),
        ("1-02:03:04", "1-02:03:" + "7" * 5000, "line 5: Elapsed: '1-02:03:777"),
        ("|2|4\n", "|0|4\n", "line 7: NNodes: '0' is no number from 1"),
        ("|2|4\n", "|2|many\n", "line 7: NCPUS: 'many' is no number from 1"),
    ],
)
def test_a_fault_of_accounting_names_its_line(tmp_path: Path, before: str, after: str, words: str) -> None:
    path = tmp_path / "sacct.txt"
    assert before in ACCOUNTING
    path.write_text(ACCOUNTING.replace(before, after, 1))
    with pytest.raises(ScenarioError) as caught:
        read_accounting(path)
    assert caught.value.message.startswith(f"{path}: {words}") and "sacct" in caught.value.hint


def test_accounting_without_a_job_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    for text in ("", f"{HEADER}\n"):
        path.write_text(text)
        with pytest.raises(ScenarioError, match=r"sacct\.txt"):
            read_accounting(path)
