"""Bad input: one clear line with a hint, exit code 1 or 2, nothing lost and nothing left running."""

import ast
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import weir
from store import Store, ports, program
from waits import PATIENCE_SECONDS
from weir import native

TARGET = '[[server]]\n[[server.target]]\nbackend = "ram"\ncapacity = "64MiB"\n'


def refused(store: Store, *arguments: str | Path, code: int, environment: dict[str, str] | None = None) -> str:
    """Run a command that must fail, and return its one line after checking its form."""
    answer = store.weir(*arguments, code=code, environment=environment)
    assert answer.stdout == ""
    lines = answer.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "hint"], answer.stderr
    assert len(lines[1]) > len("hint: ")
    assert not (store.home / "cluster.json").exists()
    assert store.server_pids() == {}
    return lines[0]


@pytest.mark.parametrize("arguments", [["--policy", "szie-fair"], ["FILE"]])
def test_an_unknown_policy(store: Store, arguments: list[str]) -> None:
    file = store.root / "cluster.toml"
    file.write_text(f'version = 1\npolicy = "szie-fair"\n{TARGET}')
    line = refused(store, "up", *[str(file) if each == "FILE" else each for each in arguments], code=2)
    assert "unknown policy `szie-fair`: expected one of fifo, job-fair, user-fair, size-fair" in line
    assert "did you mean `size-fair`" in line


@pytest.mark.parametrize(
    ("policy", "scheduler", "expected"),
    [
        (
            "size-fair",
            "tfb",
            "unknown scheduler `tfb`: expected one of virtual-time, statistical-token, gift, tbf, fifo",
        ),
        ("fifo", "gift", "scheduler `gift` cannot enforce policy `fifo`"),
        ("size-fair", "fifo", "scheduler `fifo` cannot enforce policy `size-fair`"),
    ],
)
@pytest.mark.parametrize("by_file", [False, True])
def test_a_scheduler_that_is_none_or_does_not_fit(
    store: Store, policy: str, scheduler: str, expected: str, by_file: bool
) -> None:
    file = store.root / "cluster.toml"
    file.write_text(f'version = 1\npolicy = "{policy}"\nscheduler = "{scheduler}"\n{TARGET}')
    given = [str(file)] if by_file else ["--policy", policy, "--scheduler", scheduler]
    line = refused(store, "up", *given, code=2)
    assert expected in line
    assert ("cluster.toml" in line) == by_file


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ("weight = 2\n", "share 0: it names exactly one of group, user and job"),
        ('user = "a"\nlimit = "half"\n', "is not a fraction"),
        ('user = "a"\nreservation = 0.5\nlimit = "40%"\n', "limit 0.4 is below reservation 0.5"),
        ('user = "a"\nreservation = 0.7\n[[share]]\nuser = "b"\nreservation = 0.7\n', "of all users come to 1.4"),
        ('user = "a"\ncolour = "red"\n', "colour"),
    ],
)
def test_shares_that_cannot_be_kept(store: Store, shares: str, expected: str) -> None:
    file = store.root / "cluster.toml"
    file.write_text(f"version = 1\n{TARGET}\n[[share]]\n{shares}")
    line = refused(store, "up", file, code=2)
    assert expected in line
    assert "cluster.toml" in line


def test_limits_that_the_scheduler_cannot_keep(store: Store) -> None:
    file = store.root / "cluster.toml"
    file.write_text(f'version = 1\nscheduler = "gift"\n{TARGET}\n[[share]]\nuser = "a"\nlimit = 0.5\n')
    assert "scheduler `gift` keeps no reservations and limits" in refused(store, "up", file, code=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version = \n", "is not TOML"),
        (f"version = 7\n{TARGET}", "version = 7"),
        (f'version = 1\ncolour = "red"\n{TARGET}', "colour"),
        ("version = 1\n[[server]]\n[[server.target]]\nbackend = 'tape'\n", "tape"),
        (f"version = 1\n{TARGET}capacty = 1\n", "capacty"),
        ("version = 1\nserver = 5\n", "line 2: invalid type: integer `5`"),
    ],
)
def test_a_malformed_cluster_toml(store: Store, text: str, expected: str) -> None:
    file = store.root / "cluster.toml"
    file.write_text(text)
    line = refused(store, "up", file, code=2)
    assert expected in line
    assert "cluster.toml" in line


def test_a_cluster_toml_that_is_not_there(store: Store) -> None:
    assert "cannot read" in refused(store, "up", store.root / "missing.toml", code=2)


@pytest.mark.parametrize("key", ["listen", "control"])
def test_a_port_in_use(store: Store, key: str) -> None:
    """The user who has it keeps no store down; `test_taken_ports.py` tells more."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = store.root / "cluster.toml"
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        file.write_text(
            f"version = 1\n{TARGET}" + TARGET.replace("[[server]]\n", f'[[server]]\n{key} = "{address}"\n', 1)
        )
        said = store.weir("up", file, "--no-mount").stderr
    assert f"port {address} of server 1, which listens at" in said


def test_an_address_that_is_named_twice(store: Store) -> None:
    file = store.root / "cluster.toml"
    table = TARGET.replace("[[server]]\n", '[[server]]\nlisten = "127.0.0.1:7"\n', 1)
    file.write_text(f"version = 1\n{table}{table}")
    assert "two listeners have the address 127.0.0.1:7" in refused(store, "up", file, "--no-mount", code=1)


def test_an_address_of_another_machine(store: Store) -> None:
    file = store.root / "cluster.toml"
    file.write_text("version = 1\n" + TARGET.replace("[[server]]\n", '[[server]]\nlisten = "192.0.2.1:7"\n', 1))
    assert "cannot listen on 192.0.2.1:7" in refused(store, "up", file, "--no-mount", code=1)


def test_a_capacity_that_is_no_size(store: Store) -> None:
    assert "plenty" in refused(store, "up", "--capacity", "plenty", code=2)


def test_a_range_of_ports_that_is_none_or_too_small(store: Store) -> None:
    assert '"9-8" is not a range of ports' in refused(store, "up", "--ports", "9-8", code=2)
    last = ports().rpartition("-")[2]
    line = refused(store, "up", "--no-mount", "--ports", f"{last}-{last}", code=1)
    assert f"every port of {last}-{last} is in use" in line, "a server has two"


def test_a_missing_program(store: Store, tmp_path: Path) -> None:
    """The package is there, but what it should have brought is not."""
    module = f"import sys; from pathlib import Path; from weir import native; native._PACKAGE = Path({str(tmp_path)!r})"
    code = f"{module}; native._program_folders = lambda: iter(()); from weir.cli import main; main()"
    command = [program()[0].replace("bin/weir", "bin/python"), "-c", code, "up"]
    answer = subprocess.run(
        command, env=store.variables(), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert answer.returncode == 1
    assert "weir-server is in none of" in answer.stderr
    assert "hint: install the package" in answer.stderr


@pytest.mark.parametrize(
    "command", [["status"], ["jobs"], ["top"], ["policy", "show"], ["env"], ["run", "--", "true"], ["mount"]]
)
def test_commands_without_a_store(store: Store, command: list[str]) -> None:
    if Path("/run/weir/cluster.json").exists():
        pytest.skip("this machine has a store for everybody")
    assert "no store is up" in refused(store, *command, code=1)


def test_a_store_that_is_already_up_is_left_as_it_is(store: Store) -> None:
    store.json("up", "--no-mount")
    pids = store.server_pids()
    answer = store.weir("up", "--policy", "fifo", code=1)
    assert "already up" in answer.stderr
    assert store.server_pids() == pids
    assert store.json("policy", "show")["policy"] == "size-fair"


def test_an_unknown_policy_leaves_the_old_one(store: Store) -> None:
    store.json("up", "--no-mount")
    assert "unknown policy" in store.weir("policy", "set", "fastest", code=2).stderr
    assert store.json("policy", "show")["policy"] == "size-fair"


def test_a_mount_point_that_is_in_use(store: Store) -> None:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("there is no /dev/fuse")
    point = store.root / "full"
    point.mkdir()
    (point / "file").write_text("mine")
    line = refused(store, "up", "--mount", point, code=1)
    assert "not an empty directory" in line
    assert (point / "file").read_text() == "mine"


@pytest.mark.usefixtures("root_only")
def test_without_the_fuse_device_the_store_is_up_and_says_how_to_use_it(store: Store) -> None:
    up = without_fuse(store, "up")
    assert up.returncode == 0, up.stderr
    assert "warning: the store is not mounted: /dev/fuse cannot be opened" in up.stderr
    assert "--prefix" in up.stderr
    mount = without_fuse(store, "mount")
    assert mount.returncode == 1
    assert "error: cannot mount: /dev/fuse" in mount.stderr
    assert "--prefix" in mount.stderr
    store.weir("down")


@pytest.mark.usefixtures("root_only")
def test_a_mount_that_was_asked_for_and_cannot_be_takes_the_store_down_again(store: Store) -> None:
    up = without_fuse(store, "up", "--mount", str(store.root / "point"))
    assert up.returncode == 1
    assert store.server_pids() == {}
    assert not (store.home / "cluster.json").exists()


def without_fuse(store: Store, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `weir` in a mount namespace whose /dev has no fuse."""
    devices = store.root / "dev"
    devices.mkdir(exist_ok=True)
    hide = (
        f"mount -t tmpfs none {devices} && cp -a /dev/null /dev/zero /dev/random /dev/urandom {devices}"
        f" && mount --rbind {devices} /dev"
    )
    return namespaced(store, hide, *arguments)


def namespaced(
    store: Store, preparation: str, *arguments: str, cleanup: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run `weir` in a mount namespace of its own, after a shell command in it.

    `cleanup` is a second call of it, for a home that cannot be seen from outside; it runs where the first succeeded.
    """
    script = f"{preparation}\n{shlex.join([*program(), *arguments])}"
    if cleanup:
        script += f"\n{shlex.join([*program(), *cleanup])}"
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script],
        env=store.variables(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("command", [["up"], ["down"]])
def test_a_folder_that_is_something_else_is_not_touched(store: Store, command: list[str]) -> None:
    store.home.mkdir(mode=0o750)
    (store.home / "thesis").write_text("mine")
    refused(store, *command, code=1)
    assert [path.name for path in store.home.iterdir()] == ["thesis"]
    assert store.home.stat().st_mode & 0o777 == 0o750
    shutil.rmtree(store.home)


@pytest.mark.usefixtures("root_only")
def test_a_full_disk(store: Store) -> None:
    store.home.mkdir()
    fill = (
        f"mount -t tmpfs -o size=64k,mode=755 none {store.home}"
        f" && touch {store.home}/lock && head -c 60k /dev/zero >{store.home}/full"
    )
    up = namespaced(store, fill, "up", "--no-mount", cleanup=["down"])
    assert up.returncode == 1, up.stderr
    assert up.stderr.startswith("error: ")
    assert f"{store.home}/" in up.stderr
    assert "No space left on device" in up.stderr
    assert "hint: the file system is full" in up.stderr


def test_a_configuration_of_another_shape(store: Store, tmp_path: Path) -> None:
    """`weir config show` once ended in a traceback where servers were no tables."""
    file = tmp_path / "cluster.toml"
    file.write_text('server = ["one"]\n')
    shown = store.weir("config", "show", str(file), code=1)
    assert shown.stderr.startswith(f"error: {file} has no servers with targets\nhint: ")


def test_a_home_with_a_long_name(store: Store) -> None:
    """A Unix socket has a path of at most 107 bytes; longer homes work over TCP."""
    home = store.root / ("long" * 30)
    environment = {"WEIR_HOME": str(home)}
    store.weir("up", "--no-mount", environment=environment)
    try:
        store.weir("status", environment=environment)
    finally:
        store.weir("down", environment=environment)


def test_a_damaged_cluster_json(store: Store, tmp_path: Path) -> None:
    damaged = tmp_path / "cluster.json"
    damaged.write_text(json.dumps({"version": 1}))
    assert "cannot use" in refused(store, "status", code=1, environment={"WEIR_CLUSTER": str(damaged)})
    assert "cannot be read" in refused(store, "status", code=1, environment={"WEIR_CLUSTER": str(tmp_path / "missing")})


@pytest.mark.parametrize("find", [native.server_program, native.mount_program, native.mover_program])
def test_a_program_whose_words_are_lost_ends_as_with_them(find: Callable[[], Path]) -> None:
    """With its log on a full disk the mount, and the mover, panicked at the first word that they could not write."""
    codes = []
    for log in (os.devnull, "/dev/full"):
        with Path(log).open("w") as words:
            command = [str(find()), "--no-such-option"]
            codes.append(subprocess.run(command, stderr=words, timeout=PATIENCE_SECONDS, check=False).returncode)
    assert codes == [2, 2]


def test_hints_are_in_words_of_the_command_line() -> None:
    """Hints once named Python's calls, such as `Accuracy(psnr=60.0)`, to users of `weir adapt`."""
    python = re.compile(r"\b[A-Z]\w+\(\w|\b\w+=(?:True|False|None|\d)")
    hints = [
        (path.name, part.value)
        for path in sorted((Path(weir.__file__).parent).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "hint"
        for part in ast.walk(node.value)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    assert len(hints) > 100
    # A directive of a batch script is no word of Python.
    directive = re.compile("`#WEIR [^`]*`")
    assert [hint for hint in hints if python.search(directive.sub("", hint[1]))] == []
