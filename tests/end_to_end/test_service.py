"""Servers and a mount in the foreground, as systemd starts them; `test_units.py` runs the units themselves."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_ports, on_named_ports
from store import Store, program
from waits import PATIENCE_SECONDS, wait_until
from weir.store import units

UNITS = Path(__file__).resolve().parents[2] / "packaging" / "systemd"


@pytest.fixture
def known(store: Store) -> None:
    """A store of two servers with fixed ports, which was brought up once and is down."""
    ports = free_ports(4)
    file = store.root / "cluster.toml"
    file.write_text(on_named_ports(ports))
    store.up(file, mount=False)
    store.weir("down")


@contextlib.contextmanager
def served(store: Store, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    with (store.root / "words").open("ab") as log:
        command = [*program(), "serve", *words]
        with subprocess.Popen(command, env=store.variables(), stdout=subprocess.DEVNULL, stderr=log) as service:
            try:
                yield service
            finally:
                service.kill()


def is_up(store: Store, *services: "subprocess.Popen[bytes]") -> bool:
    ended = [service.args for service in services if service.poll() is not None]
    assert not ended, f"{ended}: {(store.root / 'words').read_text()}"
    answer = store.weir("status", code=None)
    return answer.returncode == 0 and "2 of 2 answer" in answer.stdout


@pytest.mark.usefixtures("known")
def test_a_supervisor_runs_servers_and_mount(store: Store) -> None:
    with served(store, "server", "0") as first, served(store, "server", "1") as second:
        wait_until("both servers answer", lambda: is_up(store, first, second))
        assert store.server_pids()[0] == first.pid
        refused = store.weir("serve", "server", "0", code=1)
        assert f"runs already, as process {first.pid}" in refused.stderr
        with served(store, "mount") as mount:
            wait_until("the store is mounted", lambda: os.path.ismount(store.mount))
            (store.mount / "file").write_text("words")
            first.kill()
            first.wait()
            with served(store, "server", "0") as again:
                # The server that is started anew has the ports that clients know.
                assert (store.mount / "file").read_text() == "words"
                wait_until("both servers answer again", lambda: is_up(store, again, second))
                mount.send_signal(signal.SIGTERM)
                assert mount.wait(timeout=PATIENCE_SECONDS) == 0
                assert not os.path.ismount(store.mount)
                store.weir("down")
    store.weir("up")
    assert (store.mount / "file").read_text() == "words"


def test_a_service_without_a_store_or_fixed_ports_is_refused(store: Store) -> None:
    assert "has no store yet" in store.weir("serve", "server", "0", code=1).stderr
    store.up(mount=False)
    assert "no fixed `listen`" in store.weir("serve", "server", "0", code=1).stderr
    assert "is already mounted" not in store.weir("serve", "mount", "/proc/none", code=1).stderr


@pytest.mark.parametrize(
    ("groups", "unit"),
    [
        ("0::/system.slice/system-weir\\x2dserver.slice/weir-server@7.service\n", "weir-server@7.service"),
        ("3:pids:/x\n1:name=systemd:/system.slice/weir-server@0.service\n0::/\n", "weir-server@0.service"),
        ("0::/system.slice/ssh.service\n", None),
        ("3:pids:/system.slice/weir-server@0.service\n0::/user.slice\n", None),
    ],
)
def test_the_unit_of_a_server_is_read_from_its_groups(groups: str, unit: str | None) -> None:
    assert units.unit_named(groups) == unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_units_are_sound(tmp_path: Path) -> None:
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("ExecStart=weir ", f"ExecStart={program()[0]} ")
        (tmp_path / unit.name).write_text(text)
    for name in ("weir-server@7", "weir-mount", "weir-planner", "weir-recorder", "weir-room"):
        answer = subprocess.run(
            # Manual pages are found once the package is installed.
            ["systemd-analyze", "verify", "--man=no", tmp_path / f"{name}.service"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        told = [line for line in answer.stderr.splitlines() if "weir" in line]
        assert answer.returncode == 0 and not told, answer.stderr
