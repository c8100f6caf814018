"""Servers of databases for tests, each in a fresh folder, ended by the process that was started."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from ports import free_ports
from waits import wait_until

_POSTGRES = ("/usr/local/bin", "/usr/bin")


@dataclass
class Server:
    """A server that can be killed and started again with its data."""

    command: list[str]
    asked: list[str]
    """A program that ends well once the server answers."""
    url: str
    folder: Path
    uid: int | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Server":
        """Start it, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, user=self.uid
            )
        wait_until(f"{self.command[0]} answers", self._answers)
        return self

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, (self.folder / "log").read_text()
        return subprocess.run(self.asked, capture_output=True, check=False, user=self.uid).returncode == 0

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(600)
            self.process = None

    def remove(self) -> None:
        """End it, and remove its data."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)


def redis() -> Server:
    """A Redis that logs every change."""
    program, client = shutil.which("redis-server"), shutil.which("redis-cli")
    if program is None or client is None:
        pytest.skip("redis-server is not installed; `make packages` does it")
    (port,) = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="weir-redis-"))
    settings = {"bind": "127.0.0.1", "port": str(port), "appendonly": "yes", "appendfsync": "always", "save": ""}
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    asked = [client, "-p", str(port), "ping"]
    return Server([program, *words], asked, f"redis://127.0.0.1:{port}/3", folder).start()


def postgresql() -> Server:
    """A PostgreSQL on a Unix socket."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed; `make packages` does it")
    # PostgreSQL refuses to be root.
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    folder = Path(tempfile.mkdtemp(prefix="weir-pg-"))
    uid = account.pw_uid if os.geteuid() == 0 else None
    if uid is not None:
        os.chown(folder, uid, account.pw_gid)
    data = folder / "data"
    initialise = [str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "weir", "--no-sync", "--no-locale"]
    subprocess.run(initialise, check=True, capture_output=True, user=uid, cwd=folder, timeout=600)
    settings = ("listen_addresses=", "shared_buffers=8MB", "max_connections=20")
    command = [str(programs / "postgres"), "-D", str(data), "-k", str(folder)]
    command += [word for each in settings for word in ("-c", each)]
    asked = [str(programs / "psql"), "-h", str(folder), "-U", "weir", "-c", "SELECT 1", "postgres"]
    if not (programs / "psql").exists():
        asked[0] = shutil.which("psql") or "psql"
    return Server(command, asked, f"postgresql://weir:s3cret@/postgres?host={folder}", folder, uid).start()


def _programs() -> Path | None:
    """The folder of PostgreSQL's programs: on the path, or where Debian keeps those of the newest version."""
    folders = [Path(place) for place in _POSTGRES]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name))
    return next((path for path in folders if (path / "initdb").exists() and (path / "postgres").exists()), None)
