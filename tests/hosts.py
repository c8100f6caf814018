"""Several hosts on this machine: each has its own network, mount, process and host name namespaces, and an ssh server.

The hosts hang on one bridge in a network namespace of its own, so nothing of this machine's network is touched.
"""

import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import service_manager
from store import program
from waits import PATIENCE_SECONDS
from weir.store.environment import without_store

PROGRAMS = ("unshare", "nsenter", "ip", "nft", "dropbear", "dropbearkey", "ssh", "ssh-keygen")
_NETWORK = "10.77.0"
"""The hosts' network; its names lie in namespaces of their own, so it meets no other."""
_DISK = """
hostname "$1"
mount --make-rprivate /
if [ -n "$5" ]; then mount -t tmpfs -o "size=$5" tmpfs "$3"; else mount --bind "$2/state" "$3"; fi
"""
"""Commands with which the first process of each host begins."""
_FIRST_PROCESS = """
mount --bind "$4/hosts" /etc/hosts
mount --bind "$4/passwd" /etc/passwd
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
: >"$2/ready"
while :; do sleep 3600 & wait $!; done
"""
"""The rest of the first process: a shell, because a shell reaps the orphans of its namespace."""
_CLOCK_SOURCE = Path(__file__).parent / "programs/clock.c"
_SSHD = """
Port 22
HostKey {key}
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
PidFile none
# A busy machine lets many connections wait for their keys.
MaxStartups 1000
LoginGraceTime 600
"""
_SSHD_USER = "sshd:x:64110:65534::/run/sshd:/usr/sbin/nologin"
"""The account without rights that sshd needs, where the package is not installed as a service."""
_SSH = """
Host *
IdentityFile {folder}/user_key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
StrictHostKeyChecking accept-new
LogLevel ERROR
"""


def durable(servers: int) -> str:
    """A cluster.toml of servers whose bytes outlive them."""
    return "version = 1\n" + servers * '[[server]]\n[[server.target]]\nbackend = "dir"\n'


DURABLE = durable(3)
"""A cluster.toml of three servers whose bytes outlive them."""
IN_MEMORY = DURABLE.replace('backend = "dir"', 'backend = "ram"\ncapacity = "64MiB"')
"""A cluster.toml of three servers in memory."""


def missing() -> str:
    """Why there can be no hosts here; empty where there can."""
    if os.geteuid() != 0:
        return "namespaces of hosts need root"
    absent = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if absent:
        return f"no {', '.join(absent)}: `make setup` installs them"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def missing_sshd() -> str:
    """Why there can be no hosts with OpenSSH's server here; empty where there can."""
    if shutil.which("sshd", path=_path()) is None:
        return "no sshd: `make setup` unpacks it where apt-get can download openssh-server"
    return missing()


@dataclass
class Host:
    """One host."""

    name: str
    address: str
    pid: int
    """Its first process, as this machine sees it."""
    hosts: "Hosts"
    machine: int
    """The process that boots the host, where it has systemd; else its first process."""

    def command(self, *command: str | Path) -> list[str]:
        """The command that runs a program on the host."""
        return ["nsenter", f"--target={self.pid}", "--net", "--mount", "--uts", "--pid", "--", *map(str, command)]

    def run(
        self,
        *command: str | Path,
        code: int | None = 0,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there and check its exit code, unless `code` is None."""
        answer = subprocess.run(
            self.command(*command),
            env={**self.hosts.variables(), **(environment or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL if "input" not in options else None,
            **options,
        )
        if code is not None:
            assert answer.returncode == code, (
                f"{command} on {self.name}: {answer.returncode}\n{answer.stdout}{answer.stderr}"
            )
        return answer

    def weir(self, *arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run `weir` there."""
        return self.run(*program(), *arguments, **options)

    def start(self, *command: str | Path, **options: Any) -> "subprocess.Popen[str]":
        """Start a program there."""
        return subprocess.Popen(self.command(*command), env=self.hosts.variables(), text=True, **options)

    def reboot(self) -> None:
        """End everything on a host that has systemd, in order, and wait until the host is up again."""
        self.run("systemctl", "reboot", code=None)
        self._await_next_boot()

    def lose_power(self) -> None:
        """End everything on a host that has systemd at once, and wait until the host is up again."""
        os.kill(self.pid, signal.SIGKILL)
        self._await_next_boot()

    def _await_next_boot(self) -> None:
        _await(lambda: not Path(f"/proc/{self.pid}").exists(), f"{self.name} does not go down")
        self.await_boot()

    def await_boot(self) -> None:
        """Wait until systemd has started all that the host starts by itself."""
        _await(lambda: service_manager.first_process(self.machine) is not None, f"{self.name} does not boot")
        self.pid = service_manager.first_process(self.machine) or 0
        is_up = ("systemctl", "is-system-running")
        _await(lambda: self.run(*is_up, code=None).stdout.strip() in ("running", "degraded"), f"{self.name} is not up")
        self.await_ssh_server()

    def await_ssh_server(self) -> None:
        """Wait until the host can be entered by ssh."""
        knock = ("bash", "-c", f"</dev/tcp/{self.address}/22")
        _await(lambda: self.run(*knock, code=None).returncode == 0, f"the ssh server of {self.name} does not listen")

    def cut(self) -> None:
        """Take the host's network away, in both directions."""
        self.run("ip", "link", "set", "eth0", "down")

    def join(self) -> None:
        """Give the host its network back."""
        self.run("ip", "link", "set", "eth0", "up")

    def deafen(self, others: Sequence["Host"]) -> None:
        """Drop what others send to the host, and let pass what the host sends."""
        self.run("nft", "add", "table", "inet", "cut")
        self.run("nft", "add chain inet cut input { type filter hook input priority 0; }")
        for other in others:
            self.run("nft", "add", "rule", "inet", "cut", "input", "ip", "saddr", other.address, "drop")

    def hear(self) -> None:
        """Let everything pass again."""
        self.run("nft", "delete", "table", "inet", "cut", code=None)

    def slow(self, rate: str) -> None:
        """Let at most this rate leave the host, such as `1mbit`."""
        self.run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms")

    def hasten(self) -> None:
        """Let the host send as fast as it can again."""
        self.run("tc", "qdisc", "delete", "dev", "eth0", "root", code=None)

    def shift_clock(self, seconds: float) -> None:
        """Let the wall clock of the host's programs be off, where the hosts have clocks of their own."""
        with self.clock_offset.open("r+b") as file:
            file.write(struct.pack("=q", round(seconds * 1e9)))

    @property
    def clock_offset(self) -> Path:
        """File with the nanoseconds by which the host's wall clock is off."""
        return self.hosts.folder / self.name / "clock"


@dataclass
class Hosts:
    """All hosts."""

    folder: Path
    home: Path
    """Home of stores; each host has a folder of its own there."""
    all: list[Host]
    has_clocks: bool = False
    """Whether each host has a wall clock of its own."""

    def __getitem__(self, name: str) -> Host:
        return next(host for host in self.all if host.name == name)

    @property
    def program(self) -> str:
        """Path of the program `weir` on the hosts."""
        return str(self.folder / "weir") if self.has_clocks else program()[0]

    @property
    def ssh_options(self) -> str:
        """Options with which ssh reaches the hosts."""
        return f"-F {self.folder}/ssh_config"

    def deploy(self, *arguments: str | Path, code: int = 0) -> Any:
        """Deploy a store from the host `desk`; the JSON document, or the error where the code is another than 0."""
        options = ["--ssh-options", self.ssh_options, "--output", "json"]
        if self.has_clocks:
            options += ["--program", self.program]
        answer = self["desk"].weir("deploy", *arguments, *options, code=code)
        return json.loads(answer.stdout) if code == 0 else answer.stderr

    def deploy_three(self, servers: Sequence[str], configuration: str = DURABLE) -> None:
        """Deploy a store of three servers on as many hosts, and give each host a clock of its own."""
        self.make_clocks()
        file = self.folder / "cluster.toml"
        file.write_text(configuration)
        self.deploy(file, "--nodes", ",".join(servers))

    def variables(self) -> dict[str, str]:
        """The environment of programs on the hosts."""
        return {**without_store(os.environ), "PATH": _path(), "WEIR_HOME": str(self.home), "NO_COLOR": "1"}

    def make_clocks(self) -> None:
        """Give each host a wall clock of its own, for the programs that are started by `program`."""
        library = self.folder / "clock.so"
        command = ["cc", "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-o", str(library), str(_CLOCK_SOURCE)]
        subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)
        for host in self.all:
            host.clock_offset.write_bytes(bytes(8))
        start = f'export TEST_CLOCK_OFFSET="{self.folder}/$(hostname)/clock" LD_PRELOAD="{library}"'
        wrapper = self.folder / "weir"
        wrapper.write_text(f'#!/bin/sh\n{start}\nexec {program()[0]} "$@"\n')
        wrapper.chmod(0o755)
        self.has_clocks = True


def _remove(folder: Path) -> None:
    """Remove the files of hosts, whose mount points are immutable while nothing is mounted there."""
    subprocess.run(["chattr", "-R", "-i", folder], capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def hosts(
    names: Sequence[str],
    *,
    room: str = "",
    users: Sequence[str] = (),
    has_systemd: bool = False,
    has_openssh: bool = False,
) -> Iterator[Hosts]:
    """Bring hosts up; they end with all their processes at the end.

    Args:
        names: Names of the hosts.
        room: Size of each host's disk, such as `96m`; without it a host's disk is that of this machine.
        users: Accounts of this machine that may enter the hosts by ssh, and have homes of their own there.
        has_systemd: Whether systemd is the first process of each host.
        has_openssh: Whether the ssh server of each host is OpenSSH's, in place of Dropbear.

    Yields:
        The hosts.
    """
    folder = Path(tempfile.mkdtemp(prefix="weir-hosts-"))
    folder.chmod(0o755)
    with ExitStack() as ends:
        ends.callback(_remove, folder)
        # Below /var, because a home below /tmp would be seen by every host.
        state = folder / "state"
        state.mkdir()
        # /var/lib is that of this machine, unless the hosts have systemd.
        made = Hosts(folder, Path("/var/lib/weir") if has_systemd else state / "weir", [])
        _write_keys(folder)
        _write_accounts(folder, users)
        addresses = {name: f"{_NETWORK}.{number}" for number, name in enumerate(names, start=1)}
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
        (folder / "hosts").write_text("".join(f"{line}\n" for line in lines))
        hub = ends.enter_context(_process(["unshare", "--net", "sleep", "infinity"]))
        _await(lambda: _has_own_network(hub), "the hub has no network of its own")
        _in_network(hub, "ip", "link", "add", "bridge", "type", "bridge")
        _in_network(hub, "ip", "link", "set", "bridge", "up")
        for number, (name, address) in enumerate(addresses.items(), start=1):
            ending = _prepare_systemd(ends, made, name) if has_systemd else [_FIRST_PROCESS]
            pid = _bring_up(ends, made, name, hub, (number, address), (room, ending))
            made.all.append(Host(name, address, pid, made, pid))
        for host in made.all:
            if has_systemd:
                host.await_boot()
            elif has_openssh:
                ends.enter_context(sshd(host, folder / "user_key"))
            else:
                _start_ssh_server(ends, host)
        yield made


def _prepare_systemd(ends: ExitStack, made: Hosts, name: str) -> list[str]:
    """Prepare a host for systemd; answers the rest of its first process, and further arguments."""
    own, group = made.folder / name, f"{made.folder.name}-{name}"
    own.mkdir()
    ssh_server = str(shutil.which("dropbear", path=_path()))
    service_manager.prepare(own, made.folder, name, ssh_server, program()[0])
    ends.callback(
        _await, lambda: service_manager.remove_groups(own, group), f"processes of {name} outlive its first process"
    )
    return [service_manager.MACHINE, group, service_manager.BOOT]


def _bring_up(
    ends: ExitStack, made: Hosts, name: str, hub: int, place: tuple[int, str], kind: tuple[str, Sequence[str]]
) -> int:
    """Bring one host up, at its number and address on the bridge; answers its first process."""
    (number, address), folder, state, (room, (ending, *further)) = place, made.folder, made.folder / "state", kind
    own = folder / name
    (own / "state").mkdir(parents=True)
    kinds = ["--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]
    arguments = [name, str(own), str(state), str(folder), room, *further]
    starter = ends.enter_context(_process(["unshare", *kinds, "bash", "-c", _DISK + ending, "host", *arguments]))
    _await((own / "ready").exists, f"{name} does not come up")
    pid = int(Path(f"/proc/{starter}/task/{starter}/children").read_text().split()[0])
    _in_network(hub, "ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _in_network(hub, "ip", "link", "set", f"port{number}", "master", "bridge", "up")
    for command in (
        ("ip", "link", "set", "lo", "up"),
        ("ip", "address", "add", f"{address}/24", "dev", "eth0"),
        ("ip", "link", "set", "eth0", "up"),
    ):
        _in_network(pid, *command)
    return pid


def _start_ssh_server(ends: ExitStack, host: Host) -> None:
    folder = host.hosts.folder
    command = ["dropbear", "-F", "-E", "-s", "-p", "22", "-r", str(folder / "host_key")]
    ends.enter_context(_process(host.command(str(shutil.which(command[0], path=_path())), *command[1:])))
    host.await_ssh_server()


@contextmanager
def sshd(host: Host, key: Path) -> Iterator[Path]:
    """OpenSSH's server on a host, with a key of its own; its log."""
    configuration, log = (host.hosts.folder / f"{host.name}-{key.name}.{kind}" for kind in ("conf", "log"))
    configuration.write_text(_SSHD.format(key=key))
    host.run("mkdir", "-p", "-m", "0755", "/run/sshd")
    program = str(shutil.which("sshd", path=_path()))
    command = host.command(program, "-D", "-E", log, "-o", "LogLevel=VERBOSE", "-f", configuration)
    with _process(command):
        host.await_ssh_server()
        yield log
        # It is in the process namespace of its host, where the end of `nsenter` does not reach it.
        host.run("pkill", "-KILL", "-f", f"sshd.* {configuration}", code=None)


def _write_keys(folder: Path) -> None:
    user = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "user_key")]
    host = ["dropbearkey", "-t", "ed25519", "-f", str(folder / "host_key")]
    for making in (user, host):
        subprocess.run(making, check=True, capture_output=True, env={**os.environ, "PATH": _path()})
    (folder / "ssh_config").write_text(_SSH.format(folder=folder))


def _write_accounts(folder: Path, users: Sequence[str]) -> None:
    """Give root and the users homes on the hosts. Their homes on this machine are others, where nothing is written."""
    lines = []
    for fields in (line.split(":") for line in Path("/etc/passwd").read_text().splitlines()):
        name, is_root = fields[0], fields[2] == "0"
        if is_root or name in users:
            home = folder / ("user" if is_root else name)
            authorized = home / ".ssh"
            authorized.mkdir(parents=True, mode=0o700, exist_ok=True)
            shutil.copy(folder / "user_key.pub", authorized / "authorized_keys")
            fields[5] = str(home)
            if not is_root:
                fields[6] = "/bin/sh"
                shutil.copy(folder / "user_key", authorized / "id_ed25519")
                (authorized / "config").write_text("Host *\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n")
                for path in (home, authorized, *authorized.iterdir()):
                    os.chown(path, int(fields[2]), int(fields[3]))
        lines.append(":".join(fields))
    if not any(line.startswith("sshd:") for line in lines):
        lines.append(_SSHD_USER)
    (folder / "passwd").write_text("".join(f"{line}\n" for line in lines))


@contextmanager
def _process(command: Sequence[str]) -> Iterator[int]:
    """A process that is killed at the end."""
    process = subprocess.Popen(
        command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _in_network(pid: int, *command: str) -> None:
    subprocess.run(["nsenter", f"--target={pid}", "--net", "--", *command], check=True, capture_output=True)


def _has_own_network(pid: int) -> bool:
    return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()


def _await(is_so: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _path() -> str:
    """The program folders, also those of daemons, which a user's PATH may lack."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
