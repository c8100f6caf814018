"""Real programs on a store of several hosts: MPI over ssh, git, rsync and SQLite, and locks of hosts that are gone or cut off."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hosts
import pytest
from hosts import DURABLE, Hosts
from waits import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing())

NODES = ["node1", "node2", "node3"]
PROGRAMS = Path(__file__).parent / "programs"
WRITERS = 60
AUTHOR = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "safe.directory=*"]


@pytest.fixture(scope="module")
def network() -> Iterator[Hosts]:
    with hosts.hosts(["desk", *NODES]) as network:
        file = network.folder / "cluster.toml"
        file.write_text(DURABLE)
        network.deploy(file, "--nodes", ",".join(NODES))
        yield network


@pytest.mark.parametrize("way", ["mount", "preload"])
def test_an_mpi_program_on_three_hosts_writes_one_file(network: Hosts, way: str) -> None:
    """mpiexec starts its proxies over ssh; ROMIO's processes on each host use the mount of that host."""
    if shutil.which("mpicc.mpich") is None:
        pytest.skip("there is no mpich")
    program = network.folder / "collective"
    build = ["mpicc.mpich", "-O1", "-Wall", "-Werror", "-o", str(program), str(PROGRAMS / "collective.c")]
    subprocess.run(build, check=True, timeout=PATIENCE_SECONDS)
    reach = network.folder / "reach"
    reach.write_text(f'#!/bin/sh\nexec ssh {network.ssh_options} "$@"\n')
    reach.chmod(0o755)
    # The hosts are one machine, and UCX would look for shared memory that their namespaces do not share.
    network_only = ["-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0"]
    launch = ["mpiexec.mpich", "-launcher", "ssh", "-launcher-exec", str(reach), *network_only]
    launch += ["-hosts", ",".join(NODES)]
    run = [network.program, "--home", str(network.home), "run", "--"] if way == "preload" else []
    file = network.home / "mnt" / f"shared-{way}"
    for hints in (["romio_cb_write=enable", "cb_nodes=2"], ["romio_cb_write=disable", "romio_ds_write=enable"]):
        words = [*launch, "-ppn", "1", "-n", "3", *run, str(program), str(file), *hints]
        started = network["node1"].start(
            "timeout",
            "--signal=KILL",
            f"{PATIENCE_SECONDS:.0f}",
            *words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert started.stdout
        # UCX, which carries the messages, now and then does not come to its end in MPI_Finalize: the file is complete before.
        assert started.stdout.readline() == "3 processes agree\n"
        for name in NODES:
            network[name].run("pkill", "-KILL", "mpiexec|hydra_pmi_proxy|collective", code=None)
        started.communicate(timeout=PATIENCE_SECONDS)


def test_git_and_rsync_work_together_from_two_hosts(network: Hosts) -> None:
    mount = network.home / "mnt"
    first, second, third = (network[name] for name in NODES)
    script = "mkdir -p src && for i in $(seq 40); do seq $i 600 >src/$i; done"
    first.run("git", "init", "-q", "--bare", "-b", "main", mount / "shared.git")
    first.run("git", "clone", "-q", mount / "shared.git", mount / "first")
    first.run("sh", "-ec", f"cd {mount}/first; {script}")
    for command in (["add", "."], [*AUTHOR, "commit", "-qm", "one"], ["push", "-q", "origin", "HEAD:main"]):
        first.run("git", "-C", mount / "first", *command)
    second.run("git", *AUTHOR, "clone", "-q", mount / "shared.git", mount / "second")
    second.run("sh", "-ec", f"echo more >{mount}/second/src/1")
    second.run("git", "-C", mount / "second", *AUTHOR, "commit", "-qam", "two")
    second.run("git", "-C", mount / "second", *AUTHOR, "push", "-q", "origin", "HEAD:main")
    first.run("git", "-C", mount / "first", *AUTHOR, "pull", "-q", "--ff-only", "origin", "main")
    third.run("git", "-C", mount / "shared.git", *AUTHOR, "fsck", "--full", "--strict")
    third.run("diff", "-r", "--exclude=.git", mount / "first", mount / "second")
    third.run("rsync", "-a", "--delete", f"{mount}/first/", f"{mount}/copy/")
    differing = first.run("rsync", "-anic", "--delete", f"{mount}/first/", f"{mount}/copy/").stdout
    assert differing == ""


def test_sqlite_on_three_hosts_writes_one_database(network: Hosts) -> None:
    database = network.home / "mnt/data.db"
    network["node1"].run(
        "sqlite3", database, "CREATE TABLE log(writer, number); CREATE TABLE total(n); INSERT INTO total VALUES(0)"
    )
    inserts = (
        ".timeout 300000\n"
        + "BEGIN IMMEDIATE; INSERT INTO log SELECT '{0}', n FROM total; UPDATE total SET n = n + 1; COMMIT;\n" * WRITERS
    )
    started = []
    for name in NODES:
        process = network[name].start("sqlite3", "-bail", database, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdin
        process.stdin.write(inserts.format(name))
        process.stdin.close()
        process.stdin = None
        started.append(process)
    for process in started:
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert (process.returncode, said) == (0, "")
    for name in NODES:
        query = "PRAGMA integrity_check; SELECT n FROM total; SELECT count(DISTINCT number) FROM log"
        assert network[name].run("sqlite3", database, query).stdout.split() == ["ok", *[str(len(NODES) * WRITERS)] * 2]


def test_locks_of_a_host_without_power_are_free_after_a_while(network: Hosts) -> None:
    """Nothing ends the connections of such a host. Its locks were once held until its servers started again."""
    path = network.home / "mnt/locked"
    host = network["desk"]
    network["node1"].run("touch", path)
    holder = "import fcntl, os, sys, time; f = open(sys.argv[1], 'r+'); fcntl.flock(f, 2); print('held', flush=True); time.sleep(9999)"
    command = [network.program, "run", "--prefix", "/weir", "--", "python3", "-c", holder, "/weir/locked"]
    process = host.start(*command, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    assert network["node1"].run("flock", "--nonblock", path, "true", code=None).returncode == 1
    host.cut()
    try:
        host.run("pkill", "-KILL", "python3")
        process.communicate(timeout=PATIENCE_SECONDS)
        locks = ("flock", "--nonblock", str(path), "true")
        wait_until("the lock is free", lambda: network["node1"].run(*locks, code=None).returncode == 0)
    finally:
        host.join()


@pytest.mark.parametrize("way", ["mount", "preload"])
def test_a_host_that_was_cut_off_does_not_write_under_a_lock_that_others_had(network: Hosts, way: str) -> None:
    """It went on as if the lock were its own, and its bytes came over those of the next holder."""
    path = network.home / f"mnt/counter-{way}"
    network["node1"].weir("layout", "set", "-c", "1", "-o", "1.0", path)
    program: list[str | Path] = ["python3", PROGRAMS / "locked.py"]
    host, command = network["node3"], [*program, path]
    if way == "preload":
        prefixed: list[str | Path] = [network.program, "run", "--prefix", "/weir", "--"]
        host, command = network["desk"], [*prefixed, *program, f"/weir/{path.name}"]
    process = host.start(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    host.cut()
    try:
        next_holder = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, 2); print(f.read()); f.seek(0); f.write('2')"
        assert network["node1"].run("python3", "-c", next_holder, path).stdout == "1\n"
    finally:
        host.join()
    said, _ = process.communicate("go on\n", timeout=PATIENCE_SECONDS)
    assert said.splitlines() == ["EIO EIO", "2 1"]
    assert network["node2"].run("cat", path).stdout == "3"


@pytest.mark.parametrize(
    "name",
    ["-oProxyCommand=touch made", "node1;touch made", "$(touch made)", "node\u0661", "root@node1", "node1\x1b[2J"],
)
def test_what_is_no_name_of_a_host_starts_nothing(network: Hosts, name: str) -> None:
    """ssh takes a name that begins with `-` for an option, and ClusterShell a digit of another script for one of ASCII."""
    home = network.folder / "strange"
    for command in (("deploy", f"--nodes={name}"), ("deploy", "--nodes=node1", f"--clients={name}")):
        options = ("--ssh-options", network.ssh_options)
        refused = network["desk"].weir("--home", home, *command, *options, code=None, cwd=network.folder)
        assert refused.returncode == 2, refused.stderr
        assert "host" in refused.stderr or "ASCII" in refused.stderr, refused.stderr
    assert not (network.folder / "made").exists()
    assert not home.exists()
