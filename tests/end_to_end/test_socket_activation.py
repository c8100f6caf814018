"""Sockets that systemd passes to servers: nobody can take a port that is held while its server is down."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from ports import free_ports
from squatter import OTHER, addresses_of
from store import Store, program
from waits import PATIENCE_SECONDS, wait_until

SYSTEM = """
import os, sys

process, names, *command = sys.argv[1:]
own = os.getpid() if process == "own" else process
os.environ.update(LISTEN_PID=str(own), LISTEN_FDS=str(len(names.split(":"))), LISTEN_FDNAMES=names)
os.execvp(command[0], command)
"""
"""The part of systemd between fork and exec (sd_listen_fds(3)); the sockets are descriptors 3 and 4 already."""

BIND = "import socket, sys; socket.create_server(('127.0.0.1', int(sys.argv[1])))"


@pytest.fixture
def ports(store: Store) -> tuple[int, int]:
    """The fixed ports of a store of one server, which was brought up once and is down."""
    data, control = free_ports(2)
    file = store.root / "cluster.toml"
    file.write_text(
        f'version = 1\n[[server]]\nlisten = "127.0.0.1:{data}"\ncontrol = "127.0.0.1:{control}"\n'
        '[[server.target]]\nbackend = "dir"\n'
    )
    store.up(file, mount=False)
    store.weir("down")
    return data, control


@contextlib.contextmanager
def served(
    store: Store, sockets: Sequence[socket.socket], names: str = "data:control", process: str = "own"
) -> Iterator["subprocess.Popen[bytes]"]:
    """Server 0 as systemd starts it, with these sockets."""

    def place() -> None:
        # Descriptors of the test's own process may be 3 and 4, too.
        copies = [os.dup(each.fileno()) for each in sockets]
        for number, copy in enumerate(copies, start=3):
            os.dup2(copy, number)

    with (store.root / "words").open("ab") as log:
        command = [sys.executable, "-c", SYSTEM, process, names, *program(), "serve", "server", "0"]
        with subprocess.Popen(
            command,
            env=store.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            close_fds=False,
            preexec_fn=place,
        ) as service:
            try:
                yield service
            finally:
                service.kill()


def words(store: Store) -> str:
    return (store.root / "words").read_text()


def is_up(store: Store, service: "subprocess.Popen[bytes]") -> bool:
    assert service.poll() is None, words(store)
    return store.weir("status", code=None).returncode == 0


def test_nobody_takes_a_port_that_the_system_holds(store: Store, ports: tuple[int, int], root_only: None) -> None:
    with contextlib.ExitStack() as ends:
        held = [ends.enter_context(socket.create_server(("127.0.0.1", port))) for port in ports]
        for _ in range(2):
            with served(store, held) as service:
                wait_until("the server answers", partial(is_up, store, service))
                cluster = store.home / "cluster.json"
                assert addresses_of(cluster, 0) == (f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}")
                assert store.json("status")["servers"][0]["taken_ports"] == []
            for port in ports:
                taken = subprocess.run(
                    ["/usr/bin/python3", "-c", BIND, str(port)],
                    user=OTHER,
                    group=OTHER,
                    extra_groups=[],
                    cwd="/",
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE_SECONDS,
                    check=False,
                )
                assert "Address already in use" in taken.stderr
        # A caller that comes while the server is down waits in the socket's queue, and is served by the next one.
        with socket.create_connection(("127.0.0.1", ports[1]), timeout=PATIENCE_SECONDS) as early:
            early.sendall(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with served(store, held):
                assert early.recv(64).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("names", "process", "told"),
    [
        ("data:other", "own", 'socket 1 is named "other"'),
        ("control:control", "own", "another socket has this name"),
        # The sockets are another process's, so the server listens by itself, and finds its ports taken.
        ("data:control", "1", "has the data port"),
    ],
)
def test_sockets_of_other_names_or_processes_are_not_taken(
    store: Store, ports: tuple[int, int], names: str, process: str, told: str
) -> None:
    with contextlib.ExitStack() as ends:
        held = [ends.enter_context(socket.create_server(("127.0.0.1", port))) for port in ports]
        with served(store, held, names, process):
            wait_until("the server says so", lambda: told in words(store))


def test_a_socket_that_does_not_listen_is_refused(store: Store, ports: tuple[int, int]) -> None:
    with socket.socket() as unused, socket.socket(socket.AF_UNIX) as local:
        for wrong, told in ((unused, "it does not listen"), (local, "not a valid tcp socket")):
            with served(store, [wrong], "data") as service:
                assert service.wait(PATIENCE_SECONDS) != 0
            assert told in words(store)


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd is not installed")
def test_the_tool_of_systemd_passes_sockets(store: Store, ports: tuple[int, int]) -> None:
    listening = [word for port in ports for word in ("--listen", f"127.0.0.1:{port}")]
    command = ["systemd-socket-activate", *listening, "--fdname=data:control", *program(), "serve", "server", "0"]
    passed = [f"--setenv={name}={value}" for name, value in store.variables().items() if name.startswith("WEIR_")]
    command[1:1] = passed

    def is_called() -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", ports[1]), timeout=PATIENCE_SECONDS).close()
            return True
        return False

    with (
        (store.root / "words").open("ab") as log,
        subprocess.Popen(command, env=store.variables(), stdout=subprocess.DEVNULL, stderr=log) as service,
    ):
        try:
            wait_until("the port is there", is_called)
            wait_until("the server answers", lambda: is_up(store, service))
            assert store.server_pids()[0] == service.pid
        finally:
            service.kill()


def test_the_socket_units_lead_to_the_server(tmp_path: Path) -> None:
    units = Path(__file__).resolve().parents[2] / "packaging" / "systemd"
    for name in ("data", "control"):
        text = (units / f"weir-server-{name}@.socket").read_text()
        assert f"FileDescriptorName={name}\n" in text
        assert "Service=weir-server@%i.service\n" in text
        if shutil.which("systemd-analyze") is None:
            continue
        (tmp_path / f"weir-server-{name}@.socket").write_text(
            text.replace("[Socket]\nFile", "[Socket]\nListenStream=127.0.0.1:7700\nFile")
        )
        service = (units / "weir-server@.service").read_text().replace("ExecStart=weir ", f"ExecStart={program()[0]} ")
        (tmp_path / "weir-server@.service").write_text(service)
        answer = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", tmp_path / f"weir-server-{name}@7.socket"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        told = [line for line in answer.stderr.splitlines() if "weir" in line]
        assert answer.returncode == 0 and not told, answer.stderr
