"""Slurm whose burst buffers are Weir's: the plugin in slurmctld, a planner, and a user who submits jobs."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import sites
import slurm
import store
from waits import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from weir.planner.client import Result
    from weir.planner.protocol import AnyRequest

PLUGIN = Path(__file__).resolve().parents[1] / "packaging" / "slurm"
LOG = Path(__file__).parent / "data" / "darshan" / "pq_app_write_id71296_7-31-5657-2037904274838284930_55623.darshan"
"""A small log of one process that writes."""
SCHEDULER = "slurm"
"""The user of slurmctld, whom Debian's package makes; the planner knows this user."""
USER = "nobody"
"""Slurm lets root have no burst buffer, and knows no user without an account."""
ABSENT = "the planner of Weir does not answer"
"""The plugin's words where the planner does not answer in time."""
LUA = ("/usr/share/lua/5.1/cjson", "/usr/share/lua/5.1/posix")
"""Libraries of the plugin, as Debian installs them."""
_SETTINGS = """\
BurstBufferType=burst_buffer/lua
JobSubmitPlugins=lua
SchedulerParameters=bf_interval=1,sched_interval=1
"""
"""A job whose input is there waits for the next turn of the scheduler, which is half a minute by default."""


def missing() -> str:
    """Why there can be no such site here; empty where there can."""
    if reason := slurm.missing():
        return reason
    if not all(Path(f"{path}.lua").exists() or Path(path).exists() for path in LUA[1:]):
        return "no lua-posix: `make test-slurm` installs it"
    if not _has_lua_library("cjson"):
        return "no lua-cjson: `make test-slurm` installs it"
    return "" if os.access("/dev/fuse", os.R_OK | os.W_OK) else "no /dev/fuse"


def _has_lua_library(name: str) -> bool:
    lua = shutil.which("lua5.1") or shutil.which("lua")
    if lua is None:
        return False
    return (
        subprocess.run([lua, "-e", f"require('{name}')"], capture_output=True, timeout=60, check=False).returncode == 0
    )


def _checked(answer: subprocess.CompletedProcess[str], code: int) -> subprocess.CompletedProcess[str]:
    assert answer.returncode == code, f"{answer.args}: {answer.returncode}\n{answer.stdout}{answer.stderr}"
    return answer


@dataclass
class Site:
    """A cluster with a planner."""

    root: Path
    controller: slurm.Machine
    environment: dict[str, str] = field(default_factory=dict)
    """Environment of the commands of Slurm."""
    node: str = ""
    """Node of the storage; empty for the controller's machine, which is reached without ssh then."""
    _planner: "subprocess.Popen[bytes] | None" = None

    @property
    def socket(self) -> Path:
        """The planner's socket."""
        return self.root / "planner.sock"

    @property
    def project(self) -> Path:
        """A folder of the user, as of a parallel file system."""
        return self.root / "project"

    @property
    def uid(self) -> int:
        """The user who submits."""
        return pwd.getpwnam(USER).pw_uid

    def run(self, *command: str, as_user: bool = False, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run a program on the controller's machine; check its exit code unless it is None."""
        group = str(pwd.getpwnam(USER).pw_gid)
        rights = ["setpriv", f"--reuid={USER}", f"--regid={group}", "--clear-groups"] if as_user else []
        answer = subprocess.run(
            self.controller.run(*rights, *command),
            env=self.environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return answer if code is None else _checked(answer, code)

    def weir(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run `weir` as the user."""
        return self.run(str(self.root / "bin" / "weir"), *words, as_user=True, code=code)

    def submit(self, *lines: str, options: Sequence[str] = (), code: int = 0) -> str:
        """Submit a job of these lines as the user; its number, or the words of a refusal."""
        script = self.project / "job.sh"
        script.write_text("\n".join(["#!/bin/bash", f"#SBATCH --output={self.project}/out.%j", *lines, ""]))
        script.chmod(0o644)
        command = ("sbatch", "--parsable", f"--chdir={self.project}", *options, str(script))
        answers: list[subprocess.CompletedProcess[str]] = []

        def is_heard() -> bool:
            answers.append(self.run(*command, as_user=True, code=None))
            has_planner = self._planner is not None and self._planner.poll() is None
            return ABSENT not in answers[-1].stderr or not has_planner

        # slurmctld waits 90 ms for a planner, which may be held up for longer.
        wait_until("the planner answers slurmctld in time", is_heard)
        answer = _checked(answers[-1], code)
        return answer.stdout.strip() if code == 0 else answer.stderr

    def job(self, number: str) -> dict[str, str]:
        """Fields of a job, as `scontrol show job` tells them."""
        text = self.run("scontrol", "show", "job", number).stdout
        found = dict(re.findall(r"(?:^|\s)([A-Z][A-Za-z:/]*)=(\S*)", text))
        # The comment is a line of words.
        comments = re.findall(r"^\s*(SystemComment|Reason|StateDesc)=(.*?)(?:\s+Dependency=.*)?$", text, re.MULTILINE)
        return {**found, **dict(comments), "text": text}

    def output(self, number: str) -> str:
        """Output of a job."""
        return (self.project / f"out.{number}").read_text()

    def await_state(self, number: str, *states: str) -> dict[str, str]:
        """Wait until Slurm is done with a job, its storage included, and tells one of these states."""

        def has_come() -> bool:
            job = self.job(number)
            # Slurm holds a job whose storage cannot be made ready, for ever.
            assert job.get("Priority") != "0" or "burst_buffer" not in job.get("Reason", ""), job["text"]
            return job["JobState"] in states

        wait_until(f"job {number} is {states}", has_come)
        return self.job(number)

    def await_planner(self, number: str, *states: str) -> "dict[str, object]":
        """Wait until the planner tells one of these states of a job's deployment."""
        wait_until(f"the storage of job {number} is {states}", lambda: self.deployment(number)["state"] in states)
        return self.deployment(number)

    def deployment(self, number: str) -> "dict[str, object]":
        """The planner's record of a job's deployment; state `none` where it has none."""
        from weir.planner import protocol

        for each in self.ask(protocol.List(uid=self.uid, ended=True), protocol.Listed).deployments:
            if each.name == f"slurm-{number}":
                return {"state": each.state, "error": each.error, "hint": each.hint}
        return {"state": "none", "error": "", "hint": ""}

    def ask(self, request: "AnyRequest", kind: "type[Result]") -> "Result":
        """Ask the planner."""
        from weir.planner.client import Client

        with Client(self.socket) as client:
            return client.ask(request, kind)

    def start_planner(self, *options: str) -> None:
        """Start the planner with further options, and wait until it answers."""
        programs = self.root / "bin"
        store.write_program(programs, self.uid)
        variables = {**self.environment, "PATH": f"{programs}:{self.environment['PATH']}"}
        command = self.controller.run(
            *store.program(self.uid), "planner", "--socket", str(self.socket), "--state", str(self.root / "state"),
            "--resources", str(self.root / "resources.toml"), "--reach", "ssh" if self.node else "auto",
            "--scheduler-user", SCHEDULER, *options,
        )  # fmt: skip
        variables.update(store.search_path())
        with (self.root / "planner.log").open("ab") as log:
            self._planner = subprocess.Popen(
                command, env=variables, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        wait_until("the planner answers", self._answers)

    def kill_planner(self) -> None:
        """Kill the planner, as a machine that runs out of memory does."""
        assert self._planner is not None
        os.killpg(self._planner.pid, signal.SIGKILL)
        self._planner.wait()

    @contextmanager
    def held_planner(self) -> Iterator[None]:
        """Stop the planner's process for the length of a block."""
        assert self._planner is not None
        os.killpg(self._planner.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._planner.pid, signal.SIGCONT)

    def end_deployments(self) -> None:
        """End what a failed test left."""
        from weir.planner import protocol

        for each in self.ask(protocol.List(uid=self.uid), protocol.Listed).deployments:
            self.ask(protocol.End(uid=self.uid, name=each.name, discard=True, wait_seconds=60), protocol.Summary)

    def end_planner(self) -> None:
        """End the planner."""
        if self._planner is not None and self._planner.poll() is None:
            os.killpg(self._planner.pid, signal.SIGTERM)
            try:
                self._planner.wait(30)
            except subprocess.TimeoutExpired:
                self.kill_planner()

    def plugin(self, function: str, *arguments: str) -> tuple[str, str]:
        """Call a function of the plugin as Slurm calls it; its code and its words."""
        lua = shutil.which("lua5.1") or "lua"
        words = ", ".join(f"'{each}'" for each in arguments)
        program = f"dofile('{PLUGIN}/burst_buffer.lua'); print({function}({words}))"
        answer = subprocess.run(
            self.controller.run(lua, "-e", program),
            env={**self.environment, "WEIR_PLANNER": str(self.socket)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        code, _, message = answer.stdout.strip().partition("\t")
        return code, message

    def _answers(self) -> bool:
        assert self._planner is not None
        assert self._planner.poll() is None, (self.root / "planner.log").read_text()
        from weir.planner import protocol
        from weir.planner.client import Client
        from weir.planner.errors import PlannerError

        try:
            with Client(self.socket) as client:
                client.ask(protocol.Ping(), protocol.Hello)
        except PlannerError:
            return False
        return True


@contextmanager
def site(
    controller: slurm.Machine | None = None, nodes: Sequence[slurm.Machine] = (), *, node: str = "", settings: str = ""
) -> Iterator[Site]:
    """Run Slurm and a planner; deployments, jobs and daemons end with the block.

    Args:
        controller: Machine of slurmctld and of the planner; None is this one.
        nodes: Machines of jobs; none is this one.
        node: Node of the storage, which the planner reaches by ssh; empty for the planner's own machine.
        settings: Further lines of slurm.conf.

    Yields:
        The site.
    """
    root = Path(tempfile.mkdtemp(prefix="weir-slurm-"))
    root.chmod(0o755)
    made = Site(root, controller or slurm.here(), node=node)
    made.project.mkdir()
    os.chown(made.project, made.uid, pwd.getpwnam(USER).pw_gid)
    shutil.copy(LOG, made.project / "past.darshan")
    disk = root / "disk"
    disk.mkdir()
    disk.chmod(0o1777)
    (root / "resources.toml").write_text(sites.node(node or made.controller.hostname, disk))
    files = {name: (PLUGIN / name).read_text() for name in ("burst_buffer.lua", "burst_buffer.conf", "job_submit.lua")}
    try:
        with slurm.slurm(
            root / "slurm",
            controller=controller,
            nodes=nodes,
            settings=_SETTINGS + settings,
            files=files,
            variables={"WEIR_PLANNER": str(made.socket)},
            user=SCHEDULER,
        ) as environment:
            made.environment = environment
            made.start_planner()
            try:
                yield made
            finally:
                made.end_deployments()
                made.end_planner()
    finally:
        shutil.rmtree(root, ignore_errors=True)
