"""`weir run --trace` and `--observe`: what programs made is recorded, however they made it, and `weir trace` shows it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from store import Store, program
from waits import PATIENCE_SECONDS, wait_until
from ways import FAST, PREFIX, PREFIX_PATH, Way

OBSERVED = "observed"
PROGRAMS = Path(__file__).parent / "programs"


@dataclass
class Place:
    """A directory whose files are recorded, and how to run programs on it."""

    name: str
    folder: Path
    traces: Path
    store: Store
    options: tuple[str, ...]

    def command(self, *command: str | Path) -> list[str]:
        return [*program(), "run", *self.options, "--trace", str(self.traces), "--", *map(str, command)]

    def run(self, *command: str | Path) -> str:
        answer = subprocess.run(
            self.command(*command),
            env=self.store.variables(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert answer.returncode == 0, f"{command}: {answer.returncode}\n{answer.stdout}\n{answer.stderr}"
        return answer.stdout

    def runs(self) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = self.store.json("trace", "show", self.traces)
        return runs

    def only_run(self) -> dict[str, Any]:
        runs = self.runs()
        assert len(runs) == 1, runs
        return runs[0]


@pytest.fixture(params=[OBSERVED, *FAST])
def place(request: pytest.FixtureRequest, store: Store, tmp_path: Path) -> Iterator[Place]:
    """A directory that is not on a store, with none up; and one on a store, with a mount and without."""
    traces = tmp_path / "traces"
    if request.param == OBSERVED:
        folder = tmp_path / "observed"
        folder.mkdir()
        yield Place(OBSERVED, folder, traces, store, ("--observe", str(folder)))
        return
    way: Way = request.getfixturevalue("make_fast_way")(request.param)
    options = ("--prefix", PREFIX_PATH) if way.name == PREFIX else ()
    yield Place(way.name, way.folder, traces, way.store, options)


@pytest.fixture
def make_fast_way(request: pytest.FixtureRequest, fuse: None) -> Callable[[str], Way]:
    """A fresh directory of the shared store by one of its ways."""
    from ways import make_way

    number = iter(range(100))

    def make(name: str) -> Way:
        shared = request.getfixturevalue("shared_store")
        return make_way(name, shared, f"traced-{os.getpid()}-{request.node.name.translate(_PLAIN)}-{next(number)}")

    return make


_PLAIN = {ord(mark): "-" for mark in "[]/ "}


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile a program of this directory."""

    def compile_one(name: str, compiler: str = "cc") -> Path:
        if shutil.which(compiler) is None:
            pytest.skip(f"there is no {compiler}")
        result = tmp_path_factory.mktemp("compiled") / name
        command: list[str | Path] = [
            compiler,
            "-O1",
            "-Wall",
            "-Werror",
            "-pthread",
            "-o",
            result,
            PROGRAMS / f"{name}.c",
        ]
        subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)
        return result

    return compile_one


def sizes(run: dict[str, Any]) -> dict[str, tuple[int, int]]:
    files = [*run["creations"], *run["overwritten"]]
    assert len({file["path"] for file in files}) == len(files), "a path is told twice"
    return {Path(file["path"]).name: (file["size_bytes"], file["written_bytes"]) for file in files}


def test_every_way_to_write_is_counted(place: Place, compiled: Callable[..., Path]) -> None:
    place.run("sh", "-c", 'printf abcd > "$1/existing"', "sh", place.folder)
    shutil.rmtree(place.traces)
    told = place.run(compiled("recorded"), place.folder, *(["mapped"] if place.name != PREFIX else []))
    expected = {}
    for line in told.splitlines():
        name, size, written = line.rsplit(" ", 2)
        expected[name] = (int(size), int(written))
    run = place.only_run()
    assert sizes(run) == expected
    assert run["program"] == "recorded"
    assert [Path(file["path"]).name for file in run["overwritten"]] == ["existing"]
    renamed = [file["renamed"] for file in run["creations"] if file["renamed"]]
    assert renamed == [str(place.folder / "renamed")]
    assert all(Path(file["path"]).parent == place.folder for file in run["creations"])
    layouts = {Path(file["path"]).name: file["layout"] for file in run["creations"]}
    if place.name == OBSERVED:
        assert set(layouts.values()) == {None}
    else:
        assert "-S 1M" in layouts["sparse"]


def test_commands_of_a_shell_are_one_run(place: Place) -> None:
    script = """cd "$1" && dd if=/dev/zero of=a bs=4096 count=10 2>/dev/null && cp a b && cp b c && mv c d && rm b &&
                dd if=/dev/zero of=a bs=4096 count=2 2>/dev/null"""
    place.run("sh", "-c", script, "sh", place.folder)
    run = place.only_run()
    assert sizes(run) == {"a": (40960, 49152), "b": (40960, 40960), "c": (40960, 40960)}
    assert [file["order"] for file in run["creations"]] == [0, 1, 2]
    assert run["ranks"] == 1
    assert run["program"] in ("sh", "dash", "bash", "busybox")
    assert run["arguments"][0] == "-c"
    assert run["started"] <= run["ended"]


def test_a_file_that_was_there(place: Place) -> None:
    place.run("sh", "-c", 'printf 123456 > "$1/log"; printf 123456 > "$1/checkpoint"', "sh", place.folder)
    place.run("sh", "-c", 'printf 78 >> "$1/log"; printf 1234 > "$1/checkpoint"', "sh", place.folder)
    first, second = place.runs()
    assert [file["was_there"] for file in first["creations"]] == [False, False]
    assert sizes(second) == {"log": (8, 2), "checkpoint": (4, 4)}
    assert [(Path(file["path"]).name, file["was_there"]) for file in second["creations"]] == [("checkpoint", True)]
    assert [Path(file["path"]).name for file in second["overwritten"]] == ["log"]


def test_python_and_its_children(place: Place) -> None:
    code = """
import multiprocessing, os, subprocess, sys
os.chdir(sys.argv[1])
def work(number):
    with open(f"part-{number}", "w") as file:
        file.write("x" * number)
with open("text", "w") as file:
    for line in range(5000):
        print(line, file=file)
with multiprocessing.get_context("fork").Pool(2) as pool:
    pool.map(work, [10, 20, 30])
with open("child", "wb") as file:
    subprocess.run(["echo", "out"], stdout=file, check=True)
"""
    place.run(sys.executable, "-c", code, place.folder)
    text = sum(len(str(line)) + 1 for line in range(5000))
    expected = {"text": text, "part-10": 10, "part-20": 20, "part-30": 30, "child": 4}
    assert sizes(place.only_run()) == {name: (size, size) for name, size in expected.items()}


@pytest.mark.parametrize("pattern", ["own", "strided", "shared"])
def test_ranks_of_an_mpi_program(place: Place, compiled: Callable[..., Path], pattern: str) -> None:
    if shutil.which("mpiexec.mpich") is None:
        pytest.skip("there is no mpich")
    program = compiled("checkpoint", "mpicc.mpich")
    place.run("mpiexec.mpich", "-n", "4", program, pattern, place.folder, "10")
    run = place.only_run()
    assert (run["program"], run["ranks"]) == ("checkpoint", 4)
    assert run["arguments"] == [pattern, str(place.folder), "10"]
    if pattern == "own":
        expected = {f"rank-{rank}.dat": (4096 * (10 + rank),) * 2 for rank in range(4)}
        assert sizes(run) == expected
        assert all(file["path"].endswith(f"rank-{file['rank']}.dat") for file in run["creations"])
        assert {file["order"] for file in run["creations"]} == {0}
    else:
        (file,) = run["creations"]
        assert (file["rank"], file["writers"]) == (-1, 4)
        assert (file["size_bytes"], file["written_bytes"]) == (4 * 10 * 4096,) * 2
        assert run["overwritten"] == []


def test_a_killed_process_leaves_what_it_had_recorded(place: Place) -> None:
    code = """
import os, sys, time
first = os.open(sys.argv[1] + "/first", os.O_CREAT | os.O_WRONLY)
os.write(first, b"f" * 1000)
second = os.open(sys.argv[1] + "/second", os.O_CREAT | os.O_WRONLY)
print("started", flush=True)
while True:
    os.write(second, b"s" * 100)
    time.sleep(0.05)
"""
    command = place.command(sys.executable, "-c", code, place.folder)
    with subprocess.Popen(command, env=place.store.variables(), stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "started\n"
            assert {"first", "second"} <= sizes(place.only_run()).keys(), "a file is recorded when it is made"
            wait_until(
                "written bytes are told while the program writes", lambda: sizes(place.only_run())["second"][0] > 0
            )
            (program,) = _children(child.pid)
            os.kill(program, signal.SIGKILL)
            child.wait(timeout=PATIENCE_SECONDS)
        finally:
            child.kill()
    assert child.returncode == 128 + signal.SIGKILL
    known = sizes(place.only_run())
    assert known["first"] == (1000, 1000), "also of files that are not written any more"
    assert known["second"][0] == known["second"][1] > 0


def _children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(number) for number in text.split()]


def test_a_symbolic_link_leads_to_what_is_observed(store: Store, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    traces = tmp_path / "traces"
    script = 'printf 1 > "$1/link/a"; cd "$1/link" && printf 22 > b; sh -c "printf 333 > ../real/c"'
    store.weir("run", "--observe", tmp_path / "link", "--trace", traces, "--", "sh", "-c", script, "sh", tmp_path)
    (run,) = store.json("trace", "show", traces)
    paths = [file["path"] for file in run["creations"]]
    # A path that climbs, and the kernel's working directory, show where the link leads.
    assert paths == [f"{tmp_path}/link/a", f"{tmp_path}/real/b", f"{tmp_path}/real/c"]


def test_files_elsewhere_are_not_recorded(store: Store, tmp_path: Path) -> None:
    for name in ("observed", "observed-not", "other"):
        (tmp_path / name).mkdir()
    script = 'for folder in observed observed-not other; do printf x > "$1/$folder/file"; done'
    store.weir(
        "run", "--observe", tmp_path / "observed", "--trace", tmp_path / "t", "--", "sh", "-c", script, "sh", tmp_path
    )
    (run,) = store.json("trace", "show", tmp_path / "t")
    assert [file["path"] for file in run["creations"]] == [f"{tmp_path}/observed/file"]


def test_a_program_that_cannot_be_recorded_is_told(store: Store, tmp_path: Path) -> None:
    command: list[str | Path] = [
        "run",
        "--observe",
        tmp_path,
        "--trace",
        tmp_path / "t",
        "--",
        "env",
        "-u",
        "LD_PRELOAD",
        "true",
    ]
    answer = store.weir(*command)
    assert "trace" not in answer.stderr, "`env` itself is recorded"
    source, program = tmp_path / "static.c", tmp_path / "static"
    source.write_text("int main(void) { return 0; }\n")
    built = subprocess.run(
        ["cc", "-static", "-o", program, source], capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    if built.returncode != 0:
        pytest.skip("this machine cannot link static programs")
    answer = store.weir("run", "--observe", tmp_path, "--trace", tmp_path / "u", "--", program)
    assert "left no trace" in answer.stderr
    assert "static" in answer.stderr


def test_a_program_that_makes_no_file_is_a_run(store: Store, tmp_path: Path) -> None:
    store.weir("run", "--observe", tmp_path, "--trace", tmp_path / "t", "--", "true", "argument")
    (run,) = store.json("trace", "show", tmp_path / "t")
    assert (run["program"], run["arguments"], run["creations"]) == ("true", ["argument"], [])


def test_bad_calls(store: Store, tmp_path: Path) -> None:
    answer = store.weir("run", "--windows", tmp_path / "w", "--trace", tmp_path / "t", "--", "true", code=2)
    assert "--observe PATH, which is missing" in answer.stderr
    (tmp_path / "file").write_text("")
    answer = store.weir("run", "--observe", tmp_path, "--trace", tmp_path / "file" / "t", "--", "true", code=1)
    assert f"cannot make the directory {tmp_path}/file/t" in answer.stderr
    answer = store.weir("run", "--trace", tmp_path / "t", "--", "true", code=1)
    assert "no store is up" in answer.stderr, "without --observe only files of a store can be recorded"


def test_the_traces_go_while_the_program_runs(store: Store, tmp_path: Path) -> None:
    """A trace that cannot be written is left alone; what is done to traces below an observed path is not recorded."""
    traces = tmp_path / "traces"
    script = 'rm -r "$1/traces"; printf x > "$1/file"; cp "$1/file" "$1/copy"'
    store.weir("run", "--observe", tmp_path, "--trace", traces, "--", "sh", "-c", script, "sh", tmp_path)
    assert (tmp_path / "copy").read_text() == "x"
    assert not traces.exists()


_MANY = """
import pathlib, sys
for number in range(200):
    pathlib.Path(sys.argv[1], f"file-{number:03}").write_text("x" * number)
"""


def test_a_full_disk_ends_the_trace_and_not_the_program(store: Store, tmp_path: Path, root_only: None) -> None:
    traces, folder = tmp_path / "traces", tmp_path / "folder"
    traces.mkdir()
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", traces],
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("this test cannot mount a small file system")
    try:
        store.weir("run", "--observe", folder, "--trace", traces, "--", sys.executable, "-c", _MANY, folder)
        answer = store.weir("trace", "show", traces, "--output", "json")
    finally:
        subprocess.run(["umount", traces], timeout=PATIENCE_SECONDS, check=True)
    assert len(list(folder.iterdir())) == 200
    (run,) = json.loads(answer.stdout)
    paths = [file["path"] for file in run["creations"]]
    assert 10 < len(paths) < 200
    assert paths == [f"{folder}/file-{number:03}" for number in range(len(paths))], "what is whole is used"


def test_a_limit_on_files_is_not_met_by_the_trace(store: Store, tmp_path: Path) -> None:
    """`ulimit -f` ends a program by a signal; a trace that grew beyond it would end one that keeps it."""
    script = 'ulimit -f 4; exec "$2" -c "$3" "$1"'
    store.weir(
        "run", "--observe", tmp_path, "--trace", tmp_path / "t", "--",
        "sh", "-c", script, "sh", tmp_path, sys.executable, _MANY,
    )  # fmt: skip
    assert len(list(tmp_path.glob("file-*"))) == 200


def test_a_truncated_trace_is_used_and_a_damaged_one_named(store: Store, tmp_path: Path) -> None:
    traces = tmp_path / "t"
    store.weir("run", "--observe", tmp_path, "--trace", traces, "--", "cp", "/etc/passwd", tmp_path / "copy")
    (trace,) = traces.iterdir()
    whole = trace.read_bytes()
    trace.write_bytes(whole[:-3])
    answer = store.weir("trace", "show", traces, "--output", "json")
    assert f"{trace}" in answer.stderr
    assert [file["path"] for file in json.loads(answer.stdout)[0]["creations"]] == [f"{tmp_path}/copy"]
    trace.write_bytes(whole[:40] + b"?" + whole[41:])
    answer = store.weir("trace", "show", traces, code=1)
    assert f"cannot read the trace {trace}: it is damaged at byte 12" in answer.stderr
    trace.write_bytes(whole[:8] + b"\x07\x00\x00\x00" + whole[12:])
    answer = store.weir("trace", "export", traces, "--to", tmp_path / "x.csv", code=1)
    assert f"cannot read the trace {trace}: it is of version 7 of the format" in answer.stderr
    assert "hint:" in answer.stderr
    assert not (tmp_path / "x.csv").exists()


def test_a_darshan_log_is_shown_beside_traces(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("darshan")
    log = Path(__file__).resolve().parents[1] / "data" / "darshan" / "example.darshan"
    store.weir("run", "--observe", tmp_path, "--trace", tmp_path / "t", "--", "cp", "/etc/passwd", tmp_path / "copy")
    runs = store.json("trace", "show", log, tmp_path / "t")
    assert [run["source"] for run in runs] == ["darshan", "weir"]
    store.weir("trace", "export", log, tmp_path / "t", "--to", tmp_path / "runs.csv")
    lines = (tmp_path / "runs.csv").read_text().splitlines()
    assert len(lines) == 1 + sum(len(run["creations"]) for run in runs)


def test_a_trace_plans_storage_as_a_log_does(store: Store, tmp_path: Path) -> None:
    store.json("up", "--servers", "1", "--no-mount")
    code = f"""
import os
for step in range(3):
    with open(f"{PREFIX_PATH}/step-{{step}}", "wb") as file:
        file.write(bytes(1 << 20))
with open("{PREFIX_PATH}/step-0", "rb") as file:
    assert len(file.read()) == 1 << 20
"""
    for name, script in (("sooner", ""), ("later", code)):
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\n{script}")
        program.chmod(0o755)
        store.weir("run", "--prefix", PREFIX_PATH, "--trace", tmp_path / "traces", "--", program)
    answer = store.weir("plan", "identity", tmp_path / "traces", "--output", "json")
    assert "has 2 runs: the one that began last counts" in answer.stderr
    (identity,) = json.loads(answer.stdout)
    assert identity["program"].startswith("python")
    assert (identity["written_bytes"], identity["read_bytes"], identity["files"]) == (3 << 20, 1 << 20, 3)
    assert 3 <= identity["write_operations"] <= 12 and identity["read_operations"] >= 1
    assert identity["metadata_operations"] >= 4
    assert identity["name"].startswith("single-") and identity["name"].endswith("-posix")
    explained = store.weir("plan", "explain", tmp_path / "traces", "--local", tmp_path).stdout
    assert identity["name"] in explained
    for each in (tmp_path / "traces").glob("*.weirtrace"):
        store.weir("plan", "identity", each, "--output", "json")
    answer = store.weir("plan", "identity", tmp_path, code=1)
    assert "there are no traces in" in answer.stderr
    (tmp_path / "begun.weirtrace").write_bytes(b"")
    answer = store.weir("plan", "identity", tmp_path / "begun.weirtrace", code=1)
    assert "was written as far as its process" in answer.stderr


@pytest.mark.usefixtures("fuse")
def test_a_program_that_is_recorded_for_a_plan_counts_each_operation_once(store: Store, tmp_path: Path) -> None:
    """An observed folder may hold the mount of the store, whose operations are recorded, too."""
    store.json("up", "--servers", "1")
    apart = tmp_path / "apart"
    apart.mkdir()
    copy = f"dd if=/dev/zero of={store.mount}/a bs=64k count=32 && dd if={store.mount}/a of={apart}/b bs=64k"
    for observed in ((apart,), (apart, store.home)):
        paths = [word for path in observed for word in ("--observe", path)]
        options = ("--size", "1GiB", "--output", "json")
        answer = store.weir("plan", "run", *paths, *options, "--", "sh", "-c", copy)
        identity = json.loads(answer.stdout)["identity"]
        assert (identity["read_bytes"], identity["written_bytes"]) == (32 << 16, 64 << 16)
