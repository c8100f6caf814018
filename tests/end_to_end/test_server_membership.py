"""Servers join a store of several hosts while programs use it, and what cannot be done leaves every host as it was."""

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hosts
import pytest
from hosts import DURABLE, Hosts
from seeds import seed
from store import program
from waits import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing())

NODES = ["node1", "node2", "node3"]
WRITER = Path(__file__).parent / "programs/changes.py"


@pytest.fixture
def network() -> Iterator[Hosts]:
    """Three hosts with a durable store, the host that it is deployed from, and a host that is new to the store."""
    with hosts.hosts(["desk", *NODES, "node4"]) as network:
        file = network.folder / "cluster.toml"
        file.write_text(DURABLE)
        network.deploy(file, "--nodes", ",".join(NODES))
        yield network


def start_writers(network: Hosts) -> "dict[str, subprocess.Popen[str]]":
    """A program on each host changes files of its own: through the mount, and by the library alone."""
    begun = {}
    stop = network.folder / "stop"
    choices = random.Random(seed())
    for name, options in (("node1", ["--prefix", "/weir"]), ("node2", None), ("node3", None)):
        root = "/weir" if options else str(network.home / "mnt")
        words = ["python3", str(WRITER), f"{root}/of-{name}", str(stop), str(choices.randrange(1 << 32))]
        run = [network.program, "run", *options, "--"] if options else []
        begun[name] = network[name].start(*run, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for process in begun.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
    return begun


def end_writers(network: Hosts, begun: "dict[str, subprocess.Popen[str]]") -> None:
    (network.folder / "stop").touch()
    for name, process in begun.items():
        said, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, f"{name}: {said}{errors}"
        print(name, said.strip())


def folder_on(network: Hosts, name: str, number: int) -> str:
    """Make a directory of the root whose home is a server, from a host."""
    making = (
        "import os, sys\n"
        "for number in range(400):\n"
        "    folder = f'{sys.argv[1]}-{number}'\n"
        "    os.mkdir(folder)\n"
        "    if os.stat(folder).st_ino >> 48 == int(sys.argv[2]):\n"
        "        sys.exit(print(folder))\n"
        "sys.exit('no directory has this home')\n"
    )
    return network[name].run("python3", "-c", making, network.home / "mnt" / name, str(number)).stdout.strip()


def status(network: Hosts, code: int | None = 0) -> list[dict[str, object]]:
    answer = network["desk"].weir("status", "--output", "json", code=code)
    servers: list[dict[str, object]] = json.loads(answer.stdout)["servers"]
    return servers


def copies(network: Hosts) -> dict[str, str]:
    """The descriptions and configurations on all hosts."""
    script = f"cd {network.home} && cat member.json cluster.toml cluster.json deployment/* 2>/dev/null; ls servers"
    return {host.name: host.run("sh", "-c", script, code=None).stdout for host in network.all}


def test_a_server_joins_on_a_new_host_and_another_beside_one(network: Hosts) -> None:
    desk, mount = network["desk"], network.home / "mnt"
    begun = start_writers(network)
    added = json.loads(desk.weir("server", "add", "--host", "node4", "--output", "json").stdout)
    assert (added["server"], added["host"]) == (3, "node4")
    assert network["node4"].run("ls", mount).stdout.split() == sorted(f"of-{name}" for name in NODES)
    beside = json.loads(desk.weir("server", "add", "--host", "node1", "--output", "json").stdout)
    assert (beside["server"], beside["host"]) == (4, "node1")
    assert [server["up"] for server in status(network)] == [True] * 5
    desk.weir("config", "diff")
    # Trees and stripes go to the new servers from every host, and every host sees them.
    for name, number in (("node2", 3), ("node4", 4), ("node3", 3)):
        folder = folder_on(network, name, number)
        network[name].run("sh", "-c", f"seq 300000 >{folder}/numbers")
        for reader in (*NODES, "node4"):
            network[reader].run("sh", "-c", f"seq 300000 | cmp - {folder}/numbers")
    end_writers(network, begun)
    desk.weir("down")
    network.deploy()
    assert [server["up"] for server in status(network)] == [True] * 5
    desk.weir("config", "diff")
    network["node4"].run("sh", "-c", f"for f in {mount}/*/numbers; do seq 300000 | cmp - $f; done")
    other = network.folder / "other.toml"
    other.write_text(DURABLE + '[[server]]\n[[server.target]]\nbackend = "dir"\n')
    assert "has 5 servers, and 4 are wanted" in network.deploy(other, "--nodes", "node[1-4]", code=1)


def test_what_cannot_join_is_said_and_changes_nothing(network: Hosts) -> None:
    desk = network["desk"]
    before = copies(network)
    other = network.folder / "old"
    other.write_text(
        f'#!/bin/sh\n[ $(hostname) = node4 ] || exec {program()[0]} "$@"\n'
        f'{program()[0]} "$@" | sed \'s/"version": "[^"]*"/"version": "0.0.1"/\'\n'
    )
    other.chmod(0o755)
    for arguments, said, code in (
        (["--host", "node9"], "node9", 1),
        ([], "several hosts", 1),
        (["--host", "10.77.0.2"], "are one host", 1),
        (["--host", "node4", "--network", "10.9.0.0/16"], "no address in 10.9.0.0/16", None),
        (["--host", "node4", "--backend", "ram", "--capacity", "8MiB"], "keeps nothing over a restart", 1),
        (["--network", "10.77.0.0/16"], "another --host", 2),
    ):
        answer = desk.weir("server", "add", *arguments, code=code)
        assert said in answer.stderr and answer.stderr.count("error:") == 1, answer
    # Another program has the port: found out on the new host, after the configuration went round.
    listener = (
        "import socket,time; s=socket.create_server(('10.77.0.5', 7700)); print('x', flush=True); time.sleep(600)"
    )
    process = network["node4"].start("python3", "-c", listener, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    answer = desk.weir("server", "add", "--host", "node4", code=1)
    assert "node4: cannot listen at 10.77.0.5, port 7700" in answer.stderr and answer.stderr.count("error:") == 1
    network["node4"].run("pkill", "--full", "create_server")
    process.communicate()
    assert copies(network) == before
    network["node3"].cut()
    answer = desk.weir("server", "add", "--host", "node4", code=1)
    assert "when all others answer" in answer.stderr and answer.stderr.count("error:") == 1
    network["node3"].join()
    wait_until("all hear each other", lambda: all(server["up"] for server in status(network, code=None)))
    network["node4"].cut()
    assert "node4" in desk.weir("server", "add", "--host", "node4", code=1).stderr
    network["node4"].join()
    assert copies(network) == before
    record = network.folder / "desk/state/weir/deployment/store.json"
    document = json.loads(record.read_text())
    record.write_text(json.dumps({**document, "program": str(other)}))
    answer = desk.weir("server", "add", "--host", "node4", code=1)
    assert "node4 has weir 0.0.1" in answer.stderr
    record.write_text(json.dumps(document, indent=2) + "\n")
    assert copies(network) == before


def test_a_command_that_was_killed_goes_on(network: Hosts) -> None:
    """The command is killed at a random moment, again and again; the last one goes on to the end."""
    desk = network["desk"]
    choices = random.Random(seed())
    print(f"seed {seed()}")
    command = desk.command(network.program, "server", "add", "--host", "node4")
    for _ in range(4):
        running = subprocess.Popen(command, env=network.variables(), start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            running.wait(choices.uniform(0.3, 6.0))
        except subprocess.TimeoutExpired:
            desk.run("pkill", "-KILL", "-f", "server add")
            running.wait()
        if choices.random() < 0.5:
            network.deploy()
    made = json.loads(desk.weir("server", "add", "--host", "node4", "--output", "json").stdout)["server"]
    servers = status(network)
    assert [server["up"] for server in servers] == [True] * (made + 1)
    desk.weir("config", "diff")
    folders = [f"{network.home}/mnt/d{number}" for number in range(60)]
    network["node2"].run("mkdir", *folders)
    homes = network["node4"].run("stat", "-c", "%i", *folders).stdout.split()
    assert made in {int(ino) >> 48 for ino in homes}


HOLDER = """
import fcntl, os, select, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(file, fcntl.LOCK_EX)
os.write(file, b"before ")
print("held", flush=True)
while not select.select([sys.stdin], [], [], 0.1)[0]:
    os.fstat(file)  # As after a restart, a program claims its locks again with its next call.
sys.stdin.readline()
os.write(file, b"after")
os.fsync(file)
print(os.pread(file, 100, 0).decode(), flush=True)
sys.stdin.readline()
"""


def test_a_server_retires_and_another_host_serves_its_trees(network: Hosts) -> None:
    desk, mount = network["desk"], network.home / "mnt"
    folder = folder_on(network, "node1", 2)
    network["node2"].run(
        "sh", "-c", f"cd {folder} && mkdir inner && seq 200000 >inner/numbers && ln inner/numbers hard"
    )
    holder = network["node2"].start(
        *(
            network.program,
            "run",
            "--prefix",
            "/weir",
            "--",
            "python3",
            "-c",
            HOLDER,
            f"/weir/{Path(folder).name}/held",
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin is not None and holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    begun = start_writers(network)
    retired = json.loads(desk.weir("server", "retire", "2", "--output", "json").stdout)
    assert retired["state"] == "retired" and retired["host"] == "node1" and retired["objects_moved"] > 0
    end_writers(network, begun)
    locked = network["node3"].run("flock", "--nonblock", f"{folder}/held", "true", code=None)
    assert locked.returncode == 1, "the lock outlives the move"
    print("on", file=holder.stdin, flush=True)
    assert holder.stdout.readline() == "before after\n"
    holder.communicate("end\n", timeout=PATIENCE_SECONDS)
    assert network["node3"].run("ls", network.home / "servers").stdout.split() == ["2.sealed"]
    assert network["node3"].run("pgrep", "weir-server", code=None).stdout == ""
    states = status(network)
    assert [server["up"] for server in states] == [True] * 3
    desk.weir("config", "diff")
    targets = json.loads(desk.weir("targets", "--output", "json").stdout)["targets"]
    assert {target["target"].partition(".")[0] for target in targets} == {"0", "1"}
    again = json.loads(desk.weir("server", "retire", "2", "--output", "json").stdout)
    assert (again["host"], again["objects_moved"]) == ("node1", 0), "called again, there is nothing to do"
    # The host is not needed any more.
    network["node3"].cut()
    network["node1"].run("sh", "-c", f"cd {folder} && seq 200000 | cmp - hard && echo more >>inner/numbers")
    homes = network["node2"].run("sh", "-c", f"cd {mount} && mkdir $(seq -f later%g 60) && stat -c %i later*").stdout
    assert {int(ino) >> 48 for ino in homes.split()} == {0, 1}
    network["node3"].join()
    desk.weir("down")
    network.deploy()
    desk.weir("config", "diff")
    network["node3"].run("sh", "-c", f"cd {folder} && tail -n 1 hard | grep -q more && cat held")
    assert "went from here to another host" in network["node3"].weir("serve", "server", "2", code=1).stderr
    for arguments, said in (
        (["2", "--cancel"], "has retired"),
        (["1", "--to", "node1", "--cancel"], ""),
        (["7"], "no server 7"),
        (["1", "--to", "node2"], "is on node2 already"),
        (["1", "--to", "node9"], "is no host of the store"),
    ):
        answer = desk.weir("server", "retire", *arguments, code=None if said else 0)
        assert said in answer.stderr and answer.stderr.count("error:") == (1 if said else 0), answer
    # The home of the root goes, too; then the last server stays.
    assert json.loads(desk.weir("server", "retire", "0", "--output", "json").stdout)["host"] == "node2"
    network["node1"].run(
        "sh", "-c", f"cd {folder} && seq 200000 | head -c 100000 | cmp -n 100000 - hard; ls {mount} >/dev/null"
    )
    before = copies(network)
    answer = desk.weir("server", "retire", "1", code=1)
    assert "is the last one that takes files" in answer.stderr and answer.stderr.count("error:") == 1
    assert copies(network) == before


def test_a_retirement_whose_command_and_servers_are_killed_goes_on(network: Hosts) -> None:
    """The command is killed at a random moment, and now and then a server, while programs go on."""
    desk = network["desk"]
    choices = random.Random(seed())
    folder = folder_on(network, "node1", 2)
    network["node1"].run("sh", "-c", f"seq 300000 >{folder}/numbers")
    begun = start_writers(network)
    command = desk.command(network.program, "server", "retire", "2", "--to", "node2")
    for _ in range(5):
        running = subprocess.Popen(command, env=network.variables(), start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            running.wait(choices.uniform(0.5, 6.0))
        except subprocess.TimeoutExpired:
            desk.run("pkill", "-KILL", "-f", "server retire", code=None)
            running.wait()
        if choices.random() < 0.6:
            victim = choices.choice(NODES)
            network[victim].run("pkill", "-KILL", "weir-server", code=None)
            network.deploy()
    again = ("server", "retire", "2", "--to", "node2", "--output", "json")
    assert json.loads(desk.weir(*again).stdout)["state"] == "retired"
    end_writers(network, begun)
    desk.weir("config", "diff")
    assert [server["up"] for server in status(network)] == [True] * 3
    for name in NODES:
        network[name].run("sh", "-c", f"seq 300000 | cmp - {folder}/numbers")
