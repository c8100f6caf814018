"""A planner for tests: a process of its own in a fresh folder, with steps that a test can hold and break."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sites
import weir
from waits import wait_until
from weir.planner import protocol
from weir.planner.client import Client
from weir.planner.protocol import AnyResult, Summary
from weir.planner.records import Record
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.deployments import Deployment, Server
from weir.provisioning.jobs.directives import Directives
from weir.provisioning.jobs.job import Job
from weir.provisioning.objectives.sslos import Guarantees, System

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "tests" / "data" / "darshan"
GIB = 1 << 30
IDENTITY = Identity(
    name="small-write-light-sequential-posix",
    program="model",
    processes=8,
    seconds=100.0,
    written_bytes=10 * GIB,
    write_operations=10_000,
    large_fraction=1.0,
    sequential_fraction=1.0,
    files=8,
    write_bytes_per_second=1e9,
    io_fraction=0.5,
    interface="posix",
)


DEPLOYMENT = Deployment(
    name="job",
    identity=IDENTITY.name,
    behaviour_class="",
    sslo="any",
    policy="performance",
    system=System(device="ssd", servers=1),
    servers=(Server(node="n1", devices=("/d",), target_bytes=1 << 30),),
    shareable=False,
    size_bytes=1 << 30,
    expected=Guarantees(),
)


def record(name: str, uid: int = 1000, **fields: object) -> Record:
    """A deployment that was planned."""
    base = Record(
        uid=uid, gid=uid, name=name, deployment=DEPLOYMENT, identity=IDENTITY, asked=Job(), directives=Directives(),
        created=1.0, changed=2.5,
    )  # fmt: skip
    return msgspec.structs.replace(base, **fields)


def script(directives: str = "") -> str:
    """A batch script of the tests' job, which asks for 1 GiB unless its directives say otherwise."""
    size = "" if "size=" in directives else " size=1GiB"
    return f"#!/bin/bash\n#SBATCH --nodes=2\n#WEIR{size}{directives}\nsrun model\n"


def nobody() -> int:
    """Another user than root, with a process of whom a test can work; skips where there is none."""
    if os.geteuid() != 0:
        pytest.skip("only root can work for another user")
    import pwd

    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        pytest.skip("this machine has no user nobody")


def interpreter(uid: int) -> str:
    """A Python that a user can run: this one, or the system's of the same version, where this one is in root's home."""
    for program in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        answer = None
        with contextlib.suppress(OSError):
            answer = subprocess.run(
                [program, "-c", "import weir.planner.work"], user=uid, group=uid, extra_groups=(), cwd="/",
                env={"PYTHONPATH": python_path()}, capture_output=True, check=False,
            )  # fmt: skip
        if answer is not None and answer.returncode == 0:
            return program
    pytest.skip("no Python of this version, with its packages, can be run by another user")


def python_path() -> str:
    """The package, the steps of the tests, and the packages beside them."""
    package = Path(weir.__file__).parents[1]
    return f"{package}:{ROOT / 'tests'}:{sysconfig.get_path('purelib')}:{os.environ.get('PYTHONPATH', '')}"


@dataclass
class Planner:
    """A planner and its folder."""

    folder: Path
    options: tuple[str, ...] = ()
    program: str = sys.executable
    process: subprocess.Popen[bytes] | None = None
    clients: list[Client] = field(default_factory=list)

    @property
    def socket(self) -> Path:
        """Its socket."""
        return self.folder / "socket"

    @property
    def control(self) -> Path:
        """The folder by which a test leads the steps."""
        return self.folder / "control"

    @property
    def log(self) -> str:
        """All that it said."""
        return (self.folder / "log").read_text()

    def start(self, **environment: str) -> "Planner":
        """Start it, and wait until it answers."""
        arguments = self._arguments()
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program, "-m", "weir.cli", "planner", *arguments, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(environment),
                cwd="/",
            )
        wait_until(f"the planner answers\n{self.log}", self._answers)
        return self

    def refused(self) -> str:
        """Start it, and return its words where it ends by itself."""
        arguments = self._arguments()
        answer = subprocess.run(
            [self.program, "-m", "weir.cli", "planner", *arguments, *self.options],
            capture_output=True,
            text=True,
            env=self._environment({}),
            timeout=600,
            check=False,
        )
        assert answer.returncode != 0
        return answer.stderr

    def clean(self) -> None:
        """Bring it back to its beginning: no deployment, no fault, the first resource model."""
        for path in self.control.iterdir():
            if path.name.startswith(("hold-", "bad-", "full", "wordy", "steps")):
                path.unlink()
        write_site(self.folder, ("n1", "n2"))
        for each in self.ask(protocol.List(), protocol.Listed).deployments:
            self.ask(protocol.End(name=each.name, discard=True, wait_seconds=600), Summary)
            self.until(each.name, "ended", "kept")
        for node in ("n1", "n2", "n3"):
            self.ask(protocol.Quarantine(node=node, seconds=0), protocol.Hello)

    def _environment(self, further: Mapping[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
        programs = {"WEIR_PROGRAMS": os.environ["WEIR_PROGRAMS"]} if "WEIR_PROGRAMS" in os.environ else {}
        # The steps find what a test wants of them in TMPDIR, which the planner hands on.
        return {**own, **programs, "PYTHONPATH": python_path(), "TMPDIR": str(self.control), **further}

    def _arguments(self) -> list[str]:
        places = {"socket": "socket", "state": "state", "resources": "site.toml"}
        return [word for name, place in places.items() for word in (f"--{name}", str(self.folder / place))]

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self.log
        with contextlib.suppress(weir.errors.WeirError), Client(self.socket) as client:
            client.ask(protocol.Ping(), protocol.Hello)
            return True
        return False

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self.stop(signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(600)
            self.process = None

    def ask(self, request: Any, kind: type[AnyResult]) -> Any:
        """Ask over a connection of its own."""
        with Client(self.socket) as client:
            return client.ask(request, kind)

    def plan(self, name: str = "", directives: str = "", **fields: Any) -> protocol.Planned:
        """Plan the job of the tests."""
        request = protocol.Plan(name=name, script=script(directives), identity=IDENTITY, **fields)
        planned: protocol.Planned = self.ask(request, protocol.Planned)
        return planned

    def state(self, name: str, uid: int | None = None) -> str:
        """The state of a deployment."""
        return str(self.summary(name, uid).state)

    def summary(self, name: str, uid: int | None = None) -> Summary:
        """The summary of a deployment."""
        shown: protocol.Shown = self.ask(protocol.Show(name=name, uid=uid), protocol.Shown)
        return shown.summary

    def until(self, name: str, *states: str, uid: int | None = None) -> None:
        """Wait until a deployment has a state."""
        wait_until(f"{name} is {' or '.join(states)}", lambda: self.state(name, uid) in states)

    def hold(self, what: str) -> None:
        """Have steps wait, or fail: `hold-STEP`, `bad-NODE`, `full`."""
        (self.control / what).touch()

    def release(self, what: str) -> None:
        """Have steps go on."""
        (self.control / what).unlink()

    def steps(self, name: str) -> list[str]:
        """The steps of a deployment that were begun and ended, in order."""
        log = self.control / "steps"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]


def write_site(folder: Path, names: tuple[str, ...], capacity: int = 2 * GIB) -> None:
    """Write a resource model of nodes with a device each."""
    nodes = (sites.node(name, folder / "devices" / name, capacity_bytes=capacity, rate=1e10) for name in names)
    fresh = folder / "site.toml.new"
    fresh.write_text('source = "test"\n' + "".join(nodes))
    fresh.rename(folder / "site.toml")


@contextlib.contextmanager
def planner(
    folder: Path, *options: str, nodes: tuple[str, ...] = ("n1", "n2"), program: str = sys.executable
) -> Iterator[Planner]:
    """A planner that is not started yet; it is ended with the block.

    Its folder is a short one: a socket's path has 107 bytes.
    """
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name in ("control", *(f"devices/{node}" for node in nodes)):
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(0o777)
    write_site(folder, nodes)
    made = Planner(folder, options or ("--steps", "planner_steps"), program)
    try:
        yield made
    finally:
        made.stop(signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
