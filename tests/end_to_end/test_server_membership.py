"""Servers join a store of several hosts and retire while programs use it; what cannot be done leaves all as it was."""

import json
import os
import random
import signal
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
        network.deploy_three(NODES)
        yield network


@pytest.fixture
def network_in_memory() -> Iterator[Hosts]:
    """Three hosts with a store in memory, and the host that it is deployed from."""
    with hosts.hosts(["desk", *NODES]) as network:
        network.deploy("--nodes", ",".join(NODES), "--capacity", "256MiB")
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


HOLDER = """
import errno, fcntl, os, select, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(file, fcntl.LOCK_EX)
os.write(file, b"before ")
print("held", flush=True)
def answered():
    # As after a restart, a program claims its locks again with its next call. On a busy machine a call may be given up.
    try:
        return bool(os.fstat(file))
    except OSError as error:
        assert error.errno == errno.EIO, error
        return False
while not select.select([sys.stdin], [], [], 0.1)[0]:
    answered()
sys.stdin.readline()
assert any(answered() for _ in range(30))
print("held", flush=True)
sys.stdin.readline()
os.write(file, b"after")
os.fsync(file)
print(os.pread(file, 100, 0).decode(), flush=True)
sys.stdin.readline()
"""


def start_holder(network: Hosts, folder: str) -> "subprocess.Popen[str]":
    """A program without a mount, on a host, holds a lock of a file in a folder."""
    words = ["run", "--prefix", "/weir", "--", "python3", "-c", HOLDER, f"/weir/{Path(folder).name}/held"]
    holder = network["node2"].start(network.program, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def end_holder(network: Hosts, holder: "subprocess.Popen[str]", folder: str) -> None:
    """The program still has its lock and its file."""
    assert holder.stdin is not None and holder.stdout is not None
    print("still?", file=holder.stdin, flush=True)
    assert holder.stdout.readline() == "held\n"
    locked = network["node1"].run("flock", "--nonblock", f"{folder}/held", "true", code=None)
    assert locked.returncode == 1, "the lock outlives the move"
    print("on", file=holder.stdin, flush=True)
    assert holder.stdout.readline() == "before after\n"
    holder.communicate("end\n", timeout=PATIENCE_SECONDS)


def interrupt(network: Hosts, choices: random.Random, *words: str) -> None:
    """Kill a command and its calls to other hosts at a random moment; now and then a host's server, too."""
    command = network["desk"].command(network.program, *words)
    running = subprocess.Popen(command, env=network.variables(), start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        running.wait(choices.uniform(0.4, 6.0))
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    if choices.random() < 0.5:
        network[choices.choice(NODES)].run("pkill", "-KILL", "weir-server", code=None)
        network.deploy()


def kill_behind_the_seal(network: Hosts, *words: str) -> None:
    """Kill a command that moves a server once its description names the move; it may be over by then."""
    record = network.folder / "desk/state/weir/deployment/store.json"
    command = network["desk"].command(network.program, *words)
    running = subprocess.Popen(command, env=network.variables(), start_new_session=True, stderr=subprocess.DEVNULL)
    wait_until(
        "the server is on its way",
        lambda: json.loads(record.read_text()).get("moving") is not None or running.poll() is not None,
    )
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def told(network: Hosts, *words: str) -> dict[str, object]:
    """The JSON that a command on the desk prints."""
    answer: dict[str, object] = json.loads(network["desk"].weir(*words, "--output", "json").stdout)
    return answer


def test_servers_join_and_retire_and_programs_go_on(network: Hosts) -> None:
    desk, mount = network["desk"], network.home / "mnt"
    begun = start_writers(network)
    added = told(network, "server", "add", "--host", "node4")
    assert (added["server"], added["host"]) == (3, "node4")
    # Trees and stripes go to the new server from every host, and every host sees them.
    new = folder_on(network, "node4", 3)
    network["node2"].run("sh", "-c", f"seq 300000 >{new}/numbers")
    network["node1"].run("sh", "-c", f"seq 300000 | cmp - {new}/numbers")
    old = folder_on(network, "node1", 2)
    network["node2"].run("sh", "-c", f"cd {old} && mkdir inner && seq 200000 >inner/numbers && ln inner/numbers hard")
    holder = start_holder(network, old)
    retired = told(network, "server", "retire", "2", "--to", "node1")
    assert (retired["state"], retired["host"]) == ("retired", "node1")
    end_writers(network, begun)
    end_holder(network, holder, old)
    assert network["node3"].run("ls", network.home / "servers").stdout.split() == ["2.sealed"]
    assert network["node3"].run("pgrep", "weir-server", code=None).stdout == ""
    again = told(network, "server", "retire", "2")
    assert (again["host"], again["objects_moved"]) == ("node1", 0), "called again, there is nothing to do"
    rows = [line.split()[:4] for line in desk.weir("status").stdout.splitlines()]
    assert ["node1", "2", "-", "retired"] in rows
    # Its host is not needed any more.
    network["node3"].cut()
    network["node1"].run("sh", "-c", f"cd {old} && seq 200000 | cmp - hard && echo more >>inner/numbers")
    homes = network["node2"].run("sh", "-c", f"cd {mount} && mkdir $(seq -f later%g 60) && stat -c %i later*").stdout
    assert {int(ino) >> 48 for ino in homes.split()} == {0, 1, 3}
    network["node3"].join()
    desk.weir("down")
    network.deploy()
    desk.weir("config", "diff")
    targets = [each["target"] for each in json.loads(desk.weir("targets", "--output", "json").stdout)["targets"]]
    assert targets == ["0.0", "1.0", "3.0"]
    network["node3"].run("sh", "-c", f"cd {old} && tail -n 1 hard | grep -q more && grep -q 'before after' held")
    assert "went from here to another host" in network["node3"].weir("serve", "server", "2", code=1).stderr
    other = network.folder / "other.toml"
    other.write_text(DURABLE)
    assert "has 4 servers, and 3 are wanted" in network.deploy(other, "--nodes", "node1,node2,node4", code=1)


def test_what_cannot_be_done_is_said_and_changes_nothing(network: Hosts) -> None:
    desk = network["desk"]
    before = copies(network)
    listener = (
        "import socket,time; s=socket.create_server(('10.77.0.5', 7700)); print('x', flush=True); time.sleep(600)"
    )
    process = network["node4"].start("python3", "-c", listener, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    for arguments, said in (
        (["add"], "several hosts"),
        (["add", "--host", "10.77.0.2"], "are one host"),
        (["add", "--host", "node4", "--network", "10.9.0.0/16"], "no address in 10.9.0.0/16"),
        # This is found out on the new host, when the configuration has gone round.
        (["add", "--host", "node4"], "node4: cannot listen at 10.77.0.5, port 7700"),
        (["retire", "1", "--to", "node2"], "is on node2 already"),
        (["retire", "1", "--to", "node4"], "is no host of the store"),
    ):
        answer = desk.weir("server", *arguments, code=None)
        assert answer.returncode in (1, 2) and said in answer.stderr and answer.stderr.count("error:") == 1, answer
    network["node4"].run("pkill", "--full", "create_server")
    process.communicate()
    assert copies(network) == before
    record = network.folder / "desk/state/weir/deployment/store.json"
    text = record.read_text()
    document = json.loads(text)
    # Hosts that do not answer are given up soon.
    hurried = {**document, "options": f"{network.ssh_options} -oConnectTimeout=2"}
    record.write_text(json.dumps(hurried))
    network["node4"].cut()
    assert "node4" in desk.weir("server", "add", "--host", "node4", code=1).stderr
    network["node4"].join()
    network["node3"].cut()
    for words in (["add", "--host", "node4"], ["retire", "1"]):
        answer = desk.weir("server", *words, code=1)
        assert "answer" in answer.stderr and answer.stderr.count("error:") == 1, answer
    network["node3"].join()
    old = network.folder / "old"
    own = program()[0]
    alter = 's/"version": "[^"]*"/"version": "0.0.1"/'
    old.write_text(f'#!/bin/sh\n[ $(hostname) = node4 ] || exec {own} "$@"\n{own} "$@" | sed \'{alter}\'\n')
    old.chmod(0o755)
    record.write_text(json.dumps({**document, "program": str(old)}))
    assert "node4 has weir 0.0.1" in desk.weir("server", "add", "--host", "node4", code=1).stderr
    record.write_text(text)
    assert copies(network) == before


def test_commands_that_were_killed_go_on(network: Hosts) -> None:
    """Commands are killed at random moments, and servers with them, while programs go on."""
    choices = random.Random(seed())
    folder = folder_on(network, "node1", 2)
    network["node1"].run("sh", "-c", f"seq 300000 >{folder}/numbers")
    begun = start_writers(network)
    add, retire = ("server", "add", "--host", "node4"), ("server", "retire", "2", "--to", "node2")
    for words in (add, retire, retire):
        interrupt(network, choices, *words)
    kill_behind_the_seal(network, *retire)
    made = int(str(told(network, *add)["server"]))
    assert told(network, *retire)["state"] == "retired"
    end_writers(network, begun)
    network["desk"].weir("config", "diff")
    assert [server["up"] for server in status(network)] == [True] * (made + 1)
    for name in (*NODES, "node4"):
        network[name].run("sh", "-c", f"seq 300000 | cmp - {folder}/numbers")


def test_names_in_memory_go_to_another_host(network_in_memory: Hosts) -> None:
    """The names cannot be written; then the command is killed, and so is the server; then the same command goes on."""
    network, retire = network_in_memory, ("server", "retire", "2", "--to", "node2")
    desk, mount, in_the_way = network["desk"], network.home / "mnt", network.home / "servers/2/names"
    folder = folder_on(network, "node1", 2)
    network["node1"].run("sh", "-c", f"cd {folder} && seq 300000 >numbers && mkdir inner && ln numbers inner/hard")
    begun, holder = start_writers(network), start_holder(network, folder)
    network["node3"].run("touch", in_the_way)
    answer = desk.weir(*retire, code=1)
    assert "server 2 cannot write its names" in answer.stderr and str(in_the_way) in answer.stderr
    assert '"moving": null' in copies(network)["desk"]
    network["node2"].run("sh", "-c", f"seq 300000 | cmp - {folder}/inner/hard")
    network["node3"].run("rm", in_the_way)
    kill_behind_the_seal(network, *retire)
    # Its names are in files by now.
    network["node3"].run("pkill", "-KILL", "weir-server", code=None)
    retired = told(network, *retire)
    assert (retired["state"], retired["host"]) == ("retired", "node2")
    end_writers(network, begun)
    end_holder(network, holder, folder)
    assert network["node2"].run("ls", network.home / "servers/2").stdout.split().count("arrived") == 0
    network["node3"].cut()
    network["node1"].run("sh", "-c", f"cd {folder} && seq 300000 | cmp - numbers && echo more >>inner/hard")
    network["node2"].run("sh", "-c", f"tail -n 1 {folder}/numbers | grep -q more")
    homes = network["node2"].run("sh", "-c", f"cd {mount} && mkdir $(seq -f later%g 60) && stat -c %i later*").stdout
    assert {int(ino) >> 48 for ino in homes.split()} == {0, 1}
    network["node3"].join()
    assert [server["up"] for server in status(network)] == [True] * 3
    # Names in memory are lost with the store, as before.
    desk.weir("down")
    network.deploy()
    assert network["node1"].run("ls", mount).stdout == ""


def test_the_entries_of_names_that_were_lost_with_memory_can_be_removed(network_in_memory: Hosts) -> None:
    network = network_in_memory
    folder = folder_on(network, "node1", 1)
    network["node1"].run("sh", "-c", f"echo here >{folder}/file")
    network["node2"].run("pkill", "-KILL", "weir-server")
    answer = network["desk"].weir("deploy", "--ssh-options", network.ssh_options)
    assert "server 1 had ended, and starts without its names" in answer.stderr
    for words in (["cat", f"{folder}/file"], ["ls", folder], ["touch", f"{folder}/other"]):
        refused = network["node1"].run(*words, code=None)
        assert refused.returncode != 0 and "Stale file handle" in refused.stderr, refused
    for host in ("node1", "node3"):
        network[host].run("mkdir", folder, code=1)
    network["node1"].run("rmdir", folder)
    network["node3"].run("mkdir", folder)
