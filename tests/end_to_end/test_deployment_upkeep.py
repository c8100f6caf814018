"""A durable store on three hosts that stays deployed: used, mended, given other targets, and restarted server by server."""

import json
import signal
import subprocess
from collections.abc import Iterator

import hosts
import pytest
from hosts import DURABLE, Hosts
from waits import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing())


@pytest.fixture(scope="module")
def network() -> Iterator[Hosts]:
    """Hosts with one store for all tests, each of which leaves it whole: a deployment takes longer than most of them."""
    with hosts.hosts(["desk", "node1", "node2", "node3"]) as network:
        file = network.folder / "cluster.toml"
        file.write_text(DURABLE)
        network.deploy(file, "--nodes", "node[1-3]")
        yield network


@pytest.fixture
def machines(network: Hosts) -> Iterator[Hosts]:
    """The hosts, whose networks are whole at the end."""
    yield network
    for host in network.all:
        host.join()


def test_files_outlive_down_and_go_with_discard(machines: Hosts) -> None:
    mount = machines.home / "mnt"
    machines["node1"].run("sh", "-c", f"seq 100000 >{mount}/numbers")
    machines["desk"].weir("down")
    machines["node2"].run("test", "-e", mount, code=1)
    machines.deploy()
    assert machines["node3"].run("sh", "-c", f"wc -l <{mount}/numbers").stdout.strip() == "100000"
    refused = machines["desk"].weir("down", "--discard", code=1)
    assert "--yes" in refused.stderr
    assert machines["node3"].run("ls", mount).stdout == "numbers\n"
    machines["desk"].weir("down", "--discard", "--yes")
    machines.deploy()
    assert machines["node3"].run("ls", mount).stdout == ""


def test_the_desk_has_the_logs_of_all_hosts_and_says_which_do_not_answer(machines: Hosts) -> None:
    desk = machines["desk"]
    lines = desk.weir("logs", "-n", "1").stdout.splitlines()
    assert [line.partition(" | ")[0] for line in lines] == [f"server {n} on node{n + 1}" for n in range(3)]
    assert desk.weir("logs", "1", "-n", "1").stdout.startswith("server 1 on node2 | ")
    machines["node2"].run("sh", "-c", f"echo words of a mount | tee -a {machines.home}/mounts/*.log")
    shown = desk.weir("logs", "--mounts", "-n", "1").stdout
    assert shown == f"mount {machines.home}/mnt on node2 | words of a mount\n"
    assert "has no server 7" in desk.weir("logs", "7", code=1).stderr
    assert "on node[1-3]" in desk.weir("logs", "--follow", code=1).stderr
    machines["node3"].cut()
    answer = desk.weir("logs", "-n", "1", code=1)
    assert len(answer.stdout.splitlines()) == 2
    assert "node3" in answer.stderr


def test_the_desk_takes_backups_of_all_hosts_which_go_on_from_them(machines: Hosts) -> None:
    desk, mount = machines["desk"], machines.home / "mnt"
    folder = machines.folder / "backups"
    folder.mkdir(mode=0o700)
    machines["node1"].run("sh", "-c", f"mkdir {mount}/kept; seq 1000 >{mount}/kept/file; sync {mount}/kept/file")
    taken = json.loads(desk.weir("backup", folder / "metadata", "--output", "json").stdout)["hosts"]
    assert [(each["host"], each["servers"]) for each in taken] == [("node1", [0]), ("node2", [1]), ("node3", [2])]
    assert "is there already" in desk.weir("backup", folder / "metadata", code=1).stderr
    assert sorted(path.name for path in folder.iterdir()) == [f"metadata.node{number}" for number in (1, 2, 3)]
    desk.weir("down")
    for number, each in enumerate(taken):
        host = machines[each["host"]]
        assert (folder / f"metadata.{each['host']}").stat().st_mode & 0o777 == 0o600
        assert ".backup." not in host.run("ls", "-A", machines.home).stdout
        host.run("rm", "-r", f"{machines.home}/servers/{number}/journal")
        host.weir("restore", each["file"])
    machines.deploy()
    assert machines["node2"].run("cat", mount / "kept/file").stdout == "".join(f"{n}\n" for n in range(1, 1001))


def test_the_desk_shows_who_changed_what(machines: Hosts) -> None:
    desk = machines["desk"]
    desk.weir("policy", "set", "job-fair")
    desk.weir("policy", "set", "size-fair")
    entries = json.loads(desk.weir("audit", "--output", "json").stdout)["entries"]
    changed = entries[-1]
    assert (changed["kind"], changed["servers"], changed["claimed_host"]) == ("policy", [0, 1, 2], "desk")
    assert json.loads(changed["before"])["policy"] == "job-fair"
    deployments = [entry for entry in entries if entry["kind"] == "deployment"]
    assert deployments[0]["after"] == "up: 3 servers on node[1-3]"
    assert all(entry["claimed_command"].startswith("weir ") for entry in deployments)


def test_what_was_killed_is_started_again(machines: Hosts) -> None:
    mount = machines.home / "mnt"
    machines["node1"].run("sh", "-c", f"echo kept >{mount}/file; sync {mount}/file")
    pid = machines["node2"].run("sh", "-c", f"cut -d' ' -f1 {machines.home}/servers/1/pid").stdout.strip()
    machines["node2"].run("kill", "-KILL", pid)
    for process in machines["node3"].run("pgrep", "weir-mount").stdout.split():
        machines["node3"].run("kill", f"-{signal.SIGKILL.value}", process)
    assert machines["desk"].weir("status", code=1).stderr
    machines.deploy()
    machines["desk"].weir("status")
    assert machines["node3"].run("cat", mount / "file").stdout == "kept\n"


def test_a_lost_host_does_not_keep_the_others_down(machines: Hosts) -> None:
    pid = machines["node2"].run("cut", "-d ", "-f1", machines.home / "servers/1/pid").stdout.strip()
    machines["node2"].run("kill", "-KILL", pid)
    machines["node3"].cut()
    answer = machines["desk"].weir("deploy", "--output", "json", code=1)
    assert json.loads(answer.stdout)["left_out"] == ["node3"]
    assert "node3" in answer.stderr
    shown = machines["desk"].weir("status", code=1)
    assert shown.stdout.startswith("HOST") and "node3 does not answer" in shown.stdout
    assert "its program ended" not in shown.stderr
    status = json.loads(machines["desk"].weir("status", "--output", "json", code=1).stdout)
    assert [server["up"] for server in status["servers"]] == [True, True, False]
    machines["node3"].join()
    machines.deploy()
    machines["desk"].weir("status")


def test_a_rolling_restart_stops_no_program(machines: Hosts) -> None:
    before = json.loads(machines["desk"].weir("status", "--output", "json").stdout)["servers"]
    writer = (
        "import os, sys\n"
        "with open(sys.argv[1], 'wb', buffering=0) as file:\n"
        "    number = 0\n"
        "    while not os.path.exists(sys.argv[2]):\n"
        "        file.write(b'%9d\\n' % number)\n"
        "        number += 1\n"
        "print(number)\n"
    )
    stop = machines.folder / "stop"
    stop.unlink(missing_ok=True)
    path = machines.home / "mnt/lines"
    process = machines["node1"].start("python3", "-c", writer, str(path), str(stop), stdout=-1)
    document = json.loads(machines["desk"].weir("upgrade", "--output", "json").stdout)
    assert document["restarted"] == [0, 1, 2]
    stop.touch()
    written = int(process.communicate(timeout=PATIENCE_SECONDS)[0])
    assert process.returncode == 0
    lines = machines["node2"].run("cat", path).stdout.split()
    assert list(map(int, lines)) == list(range(written))
    after = json.loads(machines["desk"].weir("status", "--output", "json").stdout)["servers"]
    assert [server["control"] for server in after] == [server["control"] for server in before]


TAKE = """
import socket, sys
listeners = [socket.create_server((sys.argv[1], int(port))) for port in sys.argv[2:]]
print("listens", flush=True)
sys.stdin.read()
"""


def test_a_user_who_takes_the_ports_of_a_host_keeps_no_server_down(machines: Hosts) -> None:
    names = ("desk", "node1", "node2", "node3")
    mount = machines.home / "mnt"
    machines["node3"].run("sh", "-c", f"echo words >{mount}/file")

    def places(name: str) -> list[tuple[str, str]]:
        text = machines[name].run("cat", machines.home / "cluster.json").stdout
        return [(entry["tcp"], entry["control"]) for entry in json.loads(text)["servers"]]

    before = places("desk")
    node2 = machines["node2"]
    node2.run("sh", "-c", f"kill -9 $(cut -d ' ' -f 1 {machines.home}/servers/1/pid)")
    host = before[1][0].rpartition(":")[0]
    ports = [place.rpartition(":")[2] for place in before[1]]
    as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", TAKE]
    with node2.start(*as_user, host, *ports, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as squatter:
        try:
            assert squatter.stdout is not None and squatter.stdout.readline() == "listens\n"
            said = machines["desk"].weir("deploy", "--ssh-options", machines.ssh_options).stderr
            assert "user 65534 (nobody) has the data port" in said, said
            after = places("desk")
            assert (after[0], after[2]) == (before[0], before[2])
            assert not set(after[1]) & set(before[1])
            assert [places(name) for name in names] == [after] * len(names)
            for name in names[1:]:
                assert machines[name].run("cat", mount / "file").stdout == "words\n"
        finally:
            squatter.kill()
    # Nobody has the ports now: the server goes back there, and all hosts learn it again.
    machines["desk"].weir("upgrade")
    assert [places(name) for name in names] == [before] * len(names)
    for name in names[1:]:
        assert machines[name].run("cat", mount / "file").stdout == "words\n"


def test_targets_join_and_retire_and_every_host_has_the_configuration(machines: Hosts) -> None:
    mount = machines.home / "mnt"
    machines["node1"].run("sh", "-c", f"seq 300000 >{mount}/numbers")
    desk = machines["desk"]
    retired = json.loads(desk.weir("targets", "--output", "json").stdout)["targets"][0]["target"]
    added = json.loads(desk.weir("target", "add", "2", "--output", "json").stdout)["target"]
    assert json.loads(desk.weir("target", "retire", retired, "--output", "json").stdout)["objects_moved"] > 0
    refused = machines["node2"].weir("target", "add", "1", code=1)
    assert "deployed from another host" in refused.stderr
    for host in ("node1", "node2", "node3"):
        assert machines[host].run("sh", "-c", f"grep -c retired {machines.home}/cluster.toml").stdout == "1\n"
    desk.weir("config", "diff")
    desk.weir("down")
    machines.deploy()
    desk.weir("config", "diff")
    names = [each["target"] for each in json.loads(desk.weir("targets", "--output", "json").stdout)["targets"]]
    assert added in names and retired not in names
    assert machines["node3"].run("sh", "-c", f"seq 300000 | cmp - {mount}/numbers").stdout == ""
