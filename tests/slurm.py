"""Slurm on this machine, or on hosts in namespaces: Debian's daemons in a private folder, on free ports."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ports import free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel")
_START_SECONDS = 120.0
"""Longest wait for a daemon or for the node, on a busy machine."""
_END_SECONDS = 20.0
"""Longest wait for the end of a daemon before it is killed."""


def missing() -> str:
    """Why Slurm cannot run here; empty where it can."""
    if os.geteuid() != 0:
        return "slurmd starts jobs as root alone"
    absent = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    return f"no {', '.join(absent)}: `make test-slurm` installs them" if absent else ""


@dataclass(frozen=True)
class Machine:
    """A machine of a cluster, and the way to run programs there."""

    name: str
    address: str
    hostname: str
    run: Callable[..., list[str]]
    """Makes of a command the one that runs it there."""


def here() -> Machine:
    """This machine, as the node `here`."""
    name = socket.gethostname().partition(".")[0]
    return Machine("here", "127.0.0.1", name, lambda *command: list(command))


@contextmanager
def slurm(
    folder: Path,
    *,
    controller: Machine | None = None,
    nodes: Sequence[Machine] = (),
    settings: str = "",
    files: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    user: str = "root",
) -> Iterator[dict[str, str]]:
    """Run Slurm; its jobs end with it.

    Args:
        folder: Fresh folder for its files, which every machine sees.
        controller: Machine of slurmctld; None is this one.
        nodes: Machines of slurmd; none is this one.
        settings: Further lines of slurm.conf.
        files: Further files beside slurm.conf, by name.
        variables: Variables of the daemons.
        user: User of slurmctld.

    Yields:
        The environment of its commands.
    """
    controller, nodes = controller or here(), nodes or [here()]
    for name in ("state", "spool", "run"):
        (folder / name).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(64))
    key.chmod(0o400)
    (folder / "slurm.conf").write_text(f"{_configuration(folder, controller, nodes)}SlurmUser={user}\n{settings}")
    (folder / "slurmctld.log").touch()
    for name in ("state", "run", "slurmctld.log"):
        shutil.chown(folder / name, user)
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
    daemons = {**environment, **(variables or {})}
    with ExitStack() as ends:
        ends.enter_context(_daemon("munged", _munged(folder), daemons, folder))
        _until(lambda: (folder / "munge.socket").exists(), "munged has no socket", folder)
        ends.enter_context(_daemon("slurmctld", controller.run("slurmctld", "-D", "-i"), daemons, folder))
        for node in nodes:
            command = node.run("slurmd", "-D", "-N", node.name)
            ends.enter_context(_daemon(f"slurmd-{node.name}", command, daemons, folder))
        asked = controller.run("sinfo", "-h", "-N", "-o", "%T")
        _until(lambda: _said(environment, *asked).split() == ["idle"] * len(nodes), "the nodes are not idle", folder)
        ends.callback(_end_jobs, environment, controller)
        yield environment


@contextmanager
def restarted(folder: Path, environment: dict[str, str], controller: Machine | None = None) -> Iterator[None]:
    """Kill slurmctld, as a machine that runs out of memory does, and run a new one within the block.

    Args:
        folder: Folder of the Slurm.
        environment: Environment of the daemons.
        controller: Machine of slurmctld; None is this one.
    """
    controller = controller or here()
    os.kill(int((folder / "run" / "slurmctld.pid").read_text()), signal.SIGKILL)
    with _daemon("slurmctld-again", controller.run("slurmctld", "-D"), environment, folder):
        asked = controller.run("sinfo", "-h", "-N", "-o", "%T")
        _until(lambda: bool(_said(environment, *asked).split()), "slurmctld does not answer", folder)
        yield


def _end_jobs(environment: dict[str, str], controller: Machine) -> None:
    """End every job, and wait until none is left: the steps of a job outlive slurmd."""
    deadline = time.monotonic() + _END_SECONDS
    listing = controller.run("squeue", "-h", "-o", "%A")
    while (jobs := _said(environment, *listing).split()) and time.monotonic() < deadline:
        # Output of a test is worth no copy.
        _said(environment, *controller.run("scancel", "--full", "--hurry", *jobs))
        time.sleep(0.2)


def _munged(folder: Path) -> tuple[str, ...]:
    places = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "run/munged.pid", "log-file": "munged.log"}
    seed = ("--seed-file", str(folder / "munge.seed"))
    return ("munged", "--foreground", "--force", *(f"--{name}={folder / file}" for name, file in places.items()), *seed)


def _configuration(folder: Path, controller: Machine, nodes: Sequence[Machine]) -> str:
    ports = free_ports(2)
    described = "\n".join(
        f"NodeName={node.name} NodeAddr={node.address} NodeHostname={node.hostname} CPUs=8 RealMemory=8000"
        for node in nodes
    )
    return f"""\
ClusterName=weir
SlurmctldHost={controller.hostname}({controller.address})
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
{described}
PartitionName=tests Nodes={",".join(node.name for node in nodes)} Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def _daemon(name: str, command: Sequence[str], environment: dict[str, str], folder: Path) -> Iterator[None]:
    with (folder / f"{name}.out").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until(is_so: Callable[[], bool], what: str, folder: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            words = "\n".join(f"{log}: {log.read_text()[-2000:]}" for log in sorted(folder.glob("*.*o*")))
            raise AssertionError(f"{what} after {_START_SECONDS:.0f} s\n{words}")
        time.sleep(0.2)


def _said(environment: dict[str, str], *command: str) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False).stdout


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
