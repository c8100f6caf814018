"""Traces put together to runs, and runs exported; the files are written here byte by byte."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import STARTED, ended, opened, placed, process, renamed, trace, written
from weir import _core
from weir.cli.common.recorder import run_name
from weir.tracing.export import COLUMNS, write_csv, write_parquet
from weir.tracing.files import TraceError, read_runs
from weir.tracing.records import SHARED, Run


def runs_of(folder: Path, *traces: bytes, notes: list[str] | None = None) -> list[Run]:
    for number, content in enumerate(traces):
        (folder / f"{number}.weirtrace").write_bytes(content)
    return read_runs([folder], note=(notes if notes is not None else []).append)


def test_a_serial_program(tmp_path: Path) -> None:
    content = trace(
        process(first=True),
        opened(0, "/out/a", at=0.5),
        placed(0, "-c 2 -S 1M") + written(0, 100, 50),
        opened(1, "/out/b", "truncated", at=0.25),
        written(1, 10, 10) + written(1, 30, 40),
        opened(2, "/out/log", "existing", at=3) + written(2, 500, 5),
        opened(3, "/out/unread", "existing", at=3),
        ended(9.5),
    )
    (run,) = runs_of(tmp_path, content)
    assert (run.program, run.arguments, run.ranks, run.source) == ("model", ("input",), 1, "weir")
    assert (run.started, run.ended) == (STARTED, STARTED + 9.5)
    rows = [(file.path, file.order, file.size_bytes, file.written_bytes, file.was_there) for file in run.creations]
    assert rows == [("/out/b", 0, 30, 40, True), ("/out/a", 1, 100, 50, False)]
    assert [file.layout for file in run.creations] == [None, "-c 2 -S 1M"]
    assert [(file.path, file.size_bytes, file.written_bytes) for file in run.overwritten] == [("/out/log", 500, 5)]


def test_ranks_share_a_file_and_have_their_own(tmp_path: Path) -> None:
    def rank(number: int) -> bytes:
        opening = "created" if number == 0 else "existing"
        return trace(
            process(program="/bin/simulate", number=10 + number, rank=(number, 3, "pmi"), started=STARTED + 1),
            opened(0, "/out/shared", opening, at=number),
            written(0, 1000 * (number + 1), 1000),
            opened(1, f"/out/own.{number}", at=5 - number),
            written(1, number, number),
        )

    launcher = trace(process(program="/usr/bin/mpiexec", first=True))
    shell = trace(process(program="/bin/sh", number=9, rank=(0, 3, "pmi"), started=STARTED + 0.5))
    (run,) = runs_of(tmp_path, launcher, shell, *map(rank, range(3)))
    assert (run.program, run.ranks) == ("simulate", 3)
    first, *others = run.creations
    assert (first.path, first.rank, first.writers, first.size_bytes, first.written_bytes) == (
        "/out/shared", SHARED, 3, 3000, 3000,
    )  # fmt: skip
    assert [(file.path, file.rank, file.order, file.writers) for file in others] == [
        ("/out/own.2", 2, 0, 1),
        ("/out/own.1", 1, 0, 1),
        ("/out/own.0", 0, 0, 0),
    ]
    assert run.overwritten == ()


def test_what_a_child_wrote_is_counted_once(tmp_path: Path) -> None:
    """A shell opens the file, its child writes it: the shell's estimate from the file's size is no second count."""
    shell = trace(
        process(program="/bin/sh", first=True),
        opened(0, "/link/out", true="/real/out"),
        written(0, 300, 300, estimate=True, at=3),
    )
    child = trace(
        process(program="/bin/cat", number=2, started=STARTED + 1),
        opened(0, "/real/out", "inherited") + written(0, 300, 300),
    )
    (run,) = runs_of(tmp_path, shell, child)
    (file,) = run.creations
    assert (file.path, file.size_bytes, file.written_bytes) == ("/link/out", 300, 300)
    assert run.program == "sh"


def test_renames_are_followed_from_the_name_a_file_was_made_with(tmp_path: Path) -> None:
    content = trace(
        process(first=True), opened(0, "/out/x.tmp"), written(0, 7, 7), renamed("/out/x.tmp", "/out/x", at=2)
    )
    mover = trace(process(program="/bin/mv", number=2), renamed("/out/x", "/archive/x", at=4))
    (run,) = runs_of(tmp_path, mover, content)
    assert [(file.path, file.renamed) for file in run.creations] == [("/out/x.tmp", "/archive/x")]


def test_one_temporary_name_of_several_files(tmp_path: Path) -> None:
    """`x.tmp` was one file with one size and one last name, though each step writes it anew and renames it."""
    steps = [
        block
        for step in range(3)
        for block in (
            opened(step, "/out/x.tmp", at=3 * step),
            written(step, 10 * (step + 1), 10, at=3 * step + 1),
            renamed("/out/x.tmp", f"/out/x.{step}", at=3 * step + 2),
        )
    ]
    (run,) = runs_of(tmp_path, trace(process(first=True), *steps))
    assert [(file.path, file.name, file.order, file.size_bytes) for file in run.creations] == [
        ("/out/x.tmp", f"/out/x.{step}", step, 10 * (step + 1)) for step in range(3)
    ]
    assert [(making.path, making.name, making.rank, making.process) for making in run.makings] == [
        ("/out/x.tmp", f"/out/x.{step}", 0, 0) for step in range(3)
    ]


def test_a_file_that_is_replaced_again_and_again_is_one_file(tmp_path: Path) -> None:
    steps = [
        block
        for step, name in enumerate(("tmpa1", "tmpb2", "tmpc3"))
        for block in (
            opened(step, f"/out/{name}", at=3 * step),
            written(step, 10, 10, at=3 * step + 1),
            renamed(f"/out/{name}", "/out/x", at=3 * step + 2),
        )
    ]
    (run,) = runs_of(tmp_path, trace(process(first=True), *steps))
    (creation,) = run.creations
    assert (creation.path, creation.name, creation.size_bytes, creation.written_bytes) == (
        "/out/tmpa1",
        "/out/x",
        10,
        30,
    )
    assert [(making.path, making.name) for making in run.makings] == [
        (f"/out/{name}", "/out/x") for name in ("tmpa1", "tmpb2", "tmpc3")
    ]


def test_a_directory_that_is_renamed_renames_its_files(tmp_path: Path) -> None:
    blocks = (
        opened(0, "/out/work/a", at=1),
        opened(1, "/out/workshop", at=2),
        renamed("/out/work", "/out/step1", at=3),
    )
    (run,) = runs_of(tmp_path, trace(process(first=True), *blocks))
    assert [file.name for file in run.creations] == ["/out/step1/a", "/out/workshop"]


def test_runs_are_told_apart_and_sorted(tmp_path: Path) -> None:
    later = trace(process("b", "/bin/b", started=STARTED + 5))
    earlier = trace(process("a", "/bin/a", started=STARTED))
    assert [run.program for run in runs_of(tmp_path, later, earlier)] == ["a", "b"]


def test_an_exec_chain_is_named_after_its_end(tmp_path: Path) -> None:
    env = trace(process(program="/usr/bin/env", first=True))
    program = trace(process(program="/bin/dd", first=True, started=STARTED + 1))
    (run,) = runs_of(tmp_path, env, program)
    assert run.program == "dd"


def test_a_torn_end_is_left_out_with_a_note(tmp_path: Path) -> None:
    content = trace(process(first=True), opened(0, "/out/a"), opened(1, "/out/b"))
    notes: list[str] = []
    (run,) = runs_of(tmp_path, content[:-1], notes=notes)
    assert [file.path for file in run.creations] == ["/out/a"]
    assert len(notes) == 1
    assert "0.weirtrace" in notes[0]
    notes.clear()
    (tmp_path / "empty").mkdir()
    assert runs_of(tmp_path / "empty", b"", notes=notes) == []
    assert len(notes) == 1


def test_missed_files_are_told(tmp_path: Path) -> None:
    notes: list[str] = []
    runs_of(tmp_path, trace(process(first=True), ended(1, missed=3)), notes=notes)
    assert "3 files were not recorded" in notes[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (trace(process(), version=4), "version 4"),
        (b"path,rank,order\n", "not a trace"),
        (trace(process()[:-4] + b"\xff\xff\xff\xff"), "damaged"),
        (trace(opened(0, "/a")), "damaged"),
    ],
)
def test_what_is_no_trace_is_refused_by_name(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(TraceError, match=words) as raised:
        runs_of(tmp_path, content)
    assert "0.weirtrace" in str(raised.value)
    assert raised.value.hint


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no traces") as raised:
        read_runs([tmp_path], note=print)
    assert "weir run --trace" in raised.value.hint


@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_are_misread(content: bytes, is_block: bool) -> None:
    """Whatever stands in a trace, decoding gives records or a ValueError."""
    whole = trace(process(), content) if is_block else trace(process()) + content
    try:
        decoded = _core.decode_trace(whole)
    except ValueError:
        return
    assert decoded["process"] is not None
    assert all(
        record[0] in {"opened", "written", "placed", "renamed", "unlinked", "ended"} for record in decoded["records"]
    )


@pytest.fixture
def exported(tmp_path: Path) -> list[Run]:
    content = trace(
        process(first=True),
        opened(0, "/out/a,b\n"),
        written(0, 5, 5),
        opened(1, b"/out/\xff"),
        opened(2, "/out/log", "existing") + written(2, 8, 2),
    )
    return runs_of(tmp_path, content)


def test_csv(tmp_path: Path, exported: list[Run]) -> None:
    target = tmp_path / "runs.csv"
    write_csv(exported, target)
    with target.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == list(COLUMNS)
    assert [dict(zip(header, row, strict=True))["path"] for row in rows] == ["/out/a,b\n", "/out/\udcff", "/out/log"]
    assert [row[header.index("kind")] for row in rows] == ["created", "created", "overwritten"]
    assert [row[header.index("size_bytes")] for row in rows] == ["5", "0", "8"]


def test_parquet(tmp_path: Path, exported: list[Run]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "runs.parquet"
    for runs, count in ((exported, 3), ([], 0)):
        write_parquet(runs, target)
        table = parquet.read_table(target)
        assert table.column_names == list(COLUMNS)
        assert table.num_rows == count
        assert table.schema.metadata[b"weir.trace.version"] == b"1"
        assert str(table.schema.field("size_bytes").type) == "int64"
    write_parquet(exported, target)
    rows = parquet.read_table(target).to_pylist()
    assert [row["path"] for row in rows] == ["/out/a,b\n", "/out/\\xff", "/out/log"]
    assert [row["size_bytes"] for row in rows] == [5, 0, 8]
    assert rows[0]["layout"] is None


def test_a_run_is_named_after_what_its_processes_have_in_common(tmp_path: Path) -> None:
    around = {"WEIR_TRACE": str(tmp_path), "WEIR_TRACE_RUN": "outer"}
    assert run_name(around, tmp_path) == "outer"
    assert run_name(around, tmp_path / "other") != "outer"
    assert run_name({"PMIX_NAMESPACE": "prterun-host@1/x"}, tmp_path) == "pmix-prterun-host@1_x"
    step = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "2", "SLURM_PROCID": "3"}
    assert run_name(step, tmp_path) == "slurm-17.2"
    assert run_name({"SLURM_PROCID": "0", "SLURM_JOB_ID": "17"}, tmp_path) == run_name({}, tmp_path)
