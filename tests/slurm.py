"""Slurm on this machine: munged, slurmctld and slurmd of Debian's packages in a private folder, on free ports."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

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


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Run Slurm with one node, this machine; its jobs end with it.

    Yields the environment of its commands.
    """
    for name in ("state", "spool", "run"):
        (folder / name).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(64))
    key.chmod(0o400)
    (folder / "slurm.conf").write_text(_configuration(folder))
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
    with ExitStack() as ends:
        for command in (_munged(folder), ("slurmctld", "-D", "-i"), ("slurmd", "-D", "-N", "here")):
            ends.enter_context(_daemon(command, environment, folder))
            if command[0] == "munged":
                _until(lambda: (folder / "munge.socket").exists(), "munged has no socket", folder)
        _until(lambda: "idle" in _said(environment, "sinfo", "-h", "-o", "%T"), "the node is not idle", folder)
        ends.callback(_end_jobs, environment)
        yield environment


def _end_jobs(environment: dict[str, str]) -> None:
    """End every job, and wait until none is left: the steps of a job outlive slurmd."""
    deadline = time.monotonic() + _END_SECONDS
    while (jobs := _said(environment, "squeue", "-h", "-o", "%A").split()) and time.monotonic() < deadline:
        _said(environment, "scancel", "--full", *jobs)
        time.sleep(0.2)


def _munged(folder: Path) -> tuple[str, ...]:
    places = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "run/munged.pid", "log-file": "munged.log"}
    seed = ("--seed-file", str(folder / "munge.seed"))
    return ("munged", "--foreground", "--force", *(f"--{name}={folder / file}" for name, file in places.items()), *seed)


def _configuration(folder: Path) -> str:
    ports = _free_ports(2)
    return f"""\
ClusterName=weir
SlurmctldHost={socket.gethostname().partition(".")[0]}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
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
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
NodeName=here NodeAddr=127.0.0.1 NodeHostname={socket.gethostname().partition(".")[0]} CPUs=8 RealMemory=8000
PartitionName=tests Nodes=here Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def _daemon(command: tuple[str, ...], environment: dict[str, str], folder: Path) -> Iterator[None]:
    with (folder / f"{command[0]}.out").open("w") as log:
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


def _free_ports(count: int) -> list[int]:
    with ExitStack() as ends:
        sockets = [ends.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
