"""Windows of programs that use no store: `weir run --observe`, with real programs, and the memory that they share."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS, wait_until
from weir import _core, native
from weir.interference import observed, windows
from weir.interference.collector import Parts
from weir.interference.upkeep import MARK

MIB = 1 << 20
WEIR = [sys.executable, "-m", "weir.cli", "run"]
SCRIPT = """\
import os, sys, threading, time
folder = sys.argv[1]
def work(number):
    file = os.open(f"{folder}/{number}", os.O_RDWR | os.O_CREAT)
    for step in range(8):
        os.pwrite(file, bytes(65536), step * 65536)
    os.writev(file, [bytes(1000), bytes(2000)])
    assert os.pread(file, 65536, 0)
    os.lseek(file, 0, os.SEEK_SET)
    assert os.readv(file, [bytearray(512)]) == 512
    if os.fork() == 0:
        os.write(file, bytes(4096))
        os._exit(0)
    os.wait()
    os.close(file)
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for each in threads: each.start()
for each in threads: each.join()
open(f"{sys.argv[2]}/elsewhere", "wb", buffering=0).write(bytes(100))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "data").mkdir()
    (tmp_path / "other").mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in ("WEIR_MOUNT", "WEIR_CLUSTER")}
    return {**kept, "WEIR_HOME": str(tmp_path / "home")}


def rows_of(folder: Path) -> dict[str, dict[str, float]]:
    """Counts by server, summed over all windows."""
    found: dict[str, dict[str, float]] = {}
    for row in windows.read_rows([folder]):
        of_server = found.setdefault(row["server"], {})
        for name in windows.CLIENT:
            of_server[name] = of_server.get(name, 0.0) + row[f"client_{name}"]
    return found


def test_every_call_of_every_thread_and_process_is_counted_once(tmp_path: Path, environment: dict[str, str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    data = tmp_path / "data"
    command = [*WEIR, "--observe", str(data), "--windows", str(tmp_path / "w"), "--window", "1", "--"]
    program = [sys.executable, str(script), str(data), str(tmp_path / "other")]
    with subprocess.Popen([*command, *program], env=environment) as run:
        assert run.wait(PATIENCE_SECONDS) == 0
    found = rows_of(tmp_path / "w")
    files = found["files"]
    assert set(found) == {"files", "metadata"}
    assert files["writes"] == 3 * 10 and files["written_bytes"] == 3 * (8 * 65536 + 3000 + 4096)
    assert files["reads"] == 3 * 2 and files["read_bytes"] == 3 * (65536 + 512)
    assert found["metadata"]["opens"] == 3 and found["metadata"]["closes"] == 3
    made = windows.read([tmp_path / "w"])
    assert set(made.workloads) == {Path(sys.executable).name} and (made.io_seconds > 0).any()
    assert not list(Path("/dev/shm").glob(f"weir-observed-{run.pid}-*"))
    assert not list((tmp_path / "w").rglob(MARK)) and not list((tmp_path / "w").rglob("*.unfinished"))


STREAM = """\
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for name in ("fdopen", "fopen"):
    getattr(libc, name).restype = ctypes.c_void_p
observed = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
assert libc.fclose(ctypes.c_void_p(libc.fdopen(observed, b"w"))) == 0
stream = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
assert libc.fileno(stream) == observed
assert os.write(observed, bytes(100)) == 100
"""


def test_a_stream_that_closes_a_descriptor_ends_its_observation(tmp_path: Path, environment: dict[str, str]) -> None:
    """libc gives the number of the descriptor to the next file, which lies elsewhere."""
    command = [*WEIR, "--observe", str(tmp_path / "data"), "--windows", str(tmp_path / "w"), "--window", "1", "--"]
    program = [sys.executable, "-c", STREAM, str(tmp_path / "data/file"), str(tmp_path / "other/file")]
    subprocess.run([*command, *program], env=environment, timeout=PATIENCE_SECONDS, check=True)
    found = rows_of(tmp_path / "w")
    assert found["metadata"]["opens"] == 1 and found["metadata"]["closes"] == 1
    assert "files" not in found, found


def test_windows_are_written_while_the_program_runs_and_its_code_is_handed_on(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    loop = "while :; do dd if=/dev/zero of=data/x bs=4k count=4 status=none; sleep 0.05; done"
    command = [*WEIR, "--observe", "data", "--window", "0.1", "--", "sh", "-c", f"trap 'exit 7' TERM; {loop}"]
    with subprocess.Popen(command, env=environment, cwd=tmp_path) as running:
        # Without --windows they are in a folder of the working directory.
        wait_until("a window is written", lambda: bool(list((tmp_path / "windows").rglob("*.parquet"))))
        assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_SECONDS) == 7
    assert rows_of(tmp_path / "windows")["files"]["written_bytes"] >= 16384


def test_a_gatherer_that_was_killed_is_told_and_leaves_no_memory(tmp_path: Path, environment: dict[str, str]) -> None:
    loop = "while :; do dd if=/dev/zero of=data/x bs=4k count=4 status=none; sleep 0.05; done"
    command = [*WEIR, "--observe", "data", "--window", "1", "--"]
    with subprocess.Popen([*command, "sh", "-c", f"echo $$; {loop}"], env=environment, cwd=tmp_path, stdout=-1) as run:
        assert run.stdout is not None
        shell = int(run.stdout.readline())
        wait_until("a window is written", lambda: bool(list((tmp_path / "windows").rglob("*.parquet"))))
        run.kill()
    # Its program goes on without a gatherer, and is not harmed.
    os.kill(shell, signal.SIGTERM)
    before = len(windows.read([tmp_path / "windows"]))
    assert list(Path("/dev/shm").glob(f"weir-observed-{run.pid}-*"))
    # Operations of several windows: a program that is held up may count one after its window was read.
    loop = "for _ in 1 2 3 4 5 6; do dd if=/dev/zero of=data/y bs=4k count=1 status=none; sleep 0.5; done"
    again = [*command, "sh", "-c", loop]
    done = subprocess.run(
        again, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert f"(process {run.pid}) did not end by itself" in done.stderr
    assert not list(Path("/dev/shm").glob(f"weir-observed-{run.pid}-*"))
    assert len(windows.read([tmp_path / "windows"])) > before, done.stderr


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--windows", "w"], 2, "--observe PATH, which is missing"),
        (["--observe", "data", "--no-preload"], 2, "needs the preload library"),
        (["--observe", "data", "--windows", "file/w"], 1, "Not a directory"),
    ],
)
def test_options_that_do_not_fit_run_nothing(
    tmp_path: Path, environment: dict[str, str], options: list[str], code: int, message: str
) -> None:
    (tmp_path / "file").touch()
    command = [*WEIR, *options, "--", "touch", "data/made"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == code and message in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "data/made").exists()


def test_a_program_that_touches_nothing_there_is_told(tmp_path: Path, environment: dict[str, str]) -> None:
    command = [*WEIR, "--observe", "data", "--", "true"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert "no operation below the paths of --observe was seen" in done.stderr


LATE = """\
import os, sys, time
data, shared = sys.argv[1:]
held = os.open(f"{data}/held", os.O_RDWR | os.O_CREAT)
os.pwrite(held, bytes(100), 0)
print("began", flush=True)
sys.stdin.readline()
while not os.listdir(os.path.dirname(shared)):
    os.close(os.open(f"{data}/other", os.O_RDONLY | os.O_CREAT))
    time.sleep(0.1)
os.pwrite(held, bytes(4096), 0)
"""


@pytest.mark.slow
def test_a_program_whose_windows_could_not_be_made_tries_again(tmp_path: Path, environment: dict[str, str]) -> None:
    shared = tmp_path / "missing" / "shared"
    length = observed.WINDOW_SECONDS_MAX
    observing = {
        **observed.variables(shared, length),
        "WEIR_OBSERVE": str(tmp_path / "data"),
        "LD_PRELOAD": str(native.preload_library()),
    }
    with subprocess.Popen(
        [sys.executable, "-c", LATE, str(tmp_path / "data"), str(shared)],
        env=environment | observing,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None and program.stdout.readline() == "began\n"
        shared.parent.mkdir()
        program.communicate("go on\n", timeout=PATIENCE_SECONDS)
    assert program.returncode == 0
    found = _core.client_windows(
        shared,
        window_seconds=length,
        uid=os.geteuid(),
        store="observed",
        after=0,
        now_seconds=time.time() + 2 * length,
    )
    assert found is not None
    assert sum(line["written_bytes"] for line in found[0]) == 4096, "a file that was open before is observed, too"


def test_the_windows_of_a_program_that_ended_before_the_gatherer_began_are_kept(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """A busy machine loaded the package that writes windows for seconds, and a short program's windows had gone by.

    The windows are long, so that the ring keeps them while this test waits for its turn.
    """
    shared, data, told = tmp_path / "shared", tmp_path / "data", list[str]()
    gatherer = observed.Gatherer(shared, 10.0, "run", "program", Parts(tmp_path / "w", MIB), told.append)
    preloaded = {"WEIR_OBSERVE": str(data), "LD_PRELOAD": str(native.preload_library())}
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={data}/file", "bs=1000", "count=7"],
        env=environment | observed.variables(shared, 10.0) | preloaded,
        check=True,
    )
    time.sleep(3)
    gatherer.start()
    gatherer.end()
    assert gatherer.windows and not told
    assert rows_of(tmp_path / "w")["files"]["writes"] == 7


def test_windows_that_nobody_looked_at_in_time_are_told(tmp_path: Path, environment: dict[str, str]) -> None:
    """The gatherer stands still for longer than the memory keeps windows, and the program goes on."""
    loop = "trap 'exit 0' TERM; while :; do dd if=/dev/zero of=data/x bs=4k count=1 status=none; sleep 0.05; done"
    command = [*WEIR, "--observe", "data", "--window", "0.1", "--", "sh", "-c", loop]
    told = tmp_path / "told"
    with told.open("wb") as errors, subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=errors) as running:
        wait_until("a window is written", lambda: bool(list((tmp_path / "windows").rglob("*.parquet"))))
        running.send_signal(signal.SIGSTOP)
        time.sleep(4)
        running.send_signal(signal.SIGCONT)
        wait_until("the loss is told", lambda: "windows are lost" in told.read_text())
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_SECONDS) == 0


def test_devices_have_the_names_of_lustres_targets() -> None:
    assert [observed.server_of(device) for device in ("0.3", "0.160", "1.0", "0.metadata")] == [
        *("OST0003", "OST00a0", "files", "metadata")
    ]


def test_folders_of_others_and_of_living_processes_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "_SHARED_MEMORY", tmp_path)
    ended = subprocess.Popen(["true"])
    ended.wait(PATIENCE_SECONDS)
    for name in (f"weir-observed-{os.getpid()}-a", f"weir-observed-{ended.pid}-b", "weir-observed-x", "weir-0"):
        (tmp_path / name).mkdir()
    with observed.shared_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700 and folder.parent == tmp_path
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"weir-observed-{os.getpid()}-a", "weir-observed-x", "weir-0"}
