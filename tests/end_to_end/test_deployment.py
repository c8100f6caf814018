"""A store on several hosts: deployed over ssh, used, mended, restarted server by server, ended and removed."""

import json
import pwd
import re
import shlex
import shutil
from collections.abc import Iterator

import hosts
import pytest
from hosts import Hosts
from store import program, write_program

pytestmark = pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing())


@pytest.fixture(scope="module")
def network() -> Iterator[Hosts]:
    with hosts.hosts(["desk", "node1", "node2", "node3"]) as network:
        yield network


@pytest.fixture
def machines(network: Hosts) -> Iterator[Hosts]:
    """The hosts, on which no store is left at the end."""
    yield network
    for host in network.all:
        host.hear()
        host.join()
    network["desk"].weir("uninstall", "--yes", code=None)
    for host in network.all:
        host.run("rm", "-rf", str(network.home), code=None)


def test_a_store_comes_up_on_several_hosts_and_is_one_store_for_them(machines: Hosts) -> None:
    document = machines.deploy("--nodes", "node[1-2]", "--clients", "node3")
    assert [(host["host"], host["servers"]) for host in document["hosts"]] == [
        ("node1", [0]),
        ("node2", [1]),
        ("node3", []),
    ]
    mount = machines.home / "mnt"
    for writer, reader in (("node1", "node2"), ("node2", "node3"), ("node3", "node1")):
        machines[writer].run("sh", "-c", f"echo from {writer} >{mount}/{writer}")
        assert machines[reader].run("cat", mount / writer).stdout == f"from {writer}\n"
    # Where the store was deployed from, nothing is mounted, and programs use it all the same.
    assert machines["desk"].weir("run", "--prefix", "/store", "--", "cat", "/store/node3").stdout == "from node3\n"
    status = json.loads(machines["desk"].weir("status", "--output", "json").stdout)
    assert [server["up"] for server in status["servers"]] == [True, True]
    assert sorted(mount["host"] for mount in status["mounts"] if mount["served"]) == ["node1", "node2", "node3"]
    # Commands for the servers of one host name the hosts that have some; those of all hosts are at the desk.
    check, nodes = ["fsck", "--offline"], "10.77.0.2, 10.77.0.3"
    for name, places, commands in (
        ("desk", "node1, node2", (check,)),
        ("node3", nodes, (check, ["backup", "/tmp/backup.tar"], ["logs"])),
    ):
        for words in commands:
            refused = machines[name].weir(*words, code=1).stderr
            assert "has no servers on this host" in refused and places in refused, refused
    shown = machines["desk"].weir("logs", "-n", "5").stdout
    assert "server 0 on node1 | " in shown and "server 1 on node2 | " in shown
    assert "has a journal" in machines["desk"].weir("backup", "/tmp/backup.tar", code=1).stderr
    assert "call `weir logs 1` on 10.77.0.3" in machines["node1"].weir("logs", "1", code=1).stderr


def test_a_deployment_shows_on_a_terminal_how_many_hosts_have_done_a_step(machines: Hosts) -> None:
    words = [*program(), "deploy", "--nodes", "node[1-2]", "--no-mount", "--ssh-options", machines.ssh_options]
    told = machines["desk"].run("script", "-qec", shlex.join(words), "/dev/null").stdout
    assert re.search(r"deploy  \[-{20}\] 0%, probe", told), told
    assert re.search(r"deploy  \[#{20}\] 100%, publish", told), told


def test_an_ordinary_user_deploys_a_store_on_hosts_that_mount_it() -> None:
    """A mount reaches the server of its own host by a socket, whose owner it knows from the server."""
    user = "nobody"
    uid, mount = pwd.getpwnam(user).pw_uid, "mnt/words"
    with hosts.hosts(["desk", "node1"], users=[user]) as machines:
        weir = write_program(machines.folder / "bin", uid)
        # Each host has a folder of its own there.
        home = machines.home.parent / user
        for host in machines.all:
            host.run("install", "-d", f"--owner={user}", home)
        rights = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
        as_user = [*rights, "env", f"HOME={machines.folder / user}", f"WEIR_HOME={home / 'store'}"]
        nodes = ("deploy", "--nodes", "desk,node1", "--program", str(weir))
        machines["desk"].run(*as_user, weir, *nodes, cwd="/")
        try:
            machines["desk"].run(*as_user, "sh", "-c", f"echo words >{home}/store/{mount}", cwd="/")
            assert machines["node1"].run(*as_user, "cat", home / "store" / mount, cwd="/").stdout == "words\n"
        finally:
            machines["desk"].run(*as_user, weir, "uninstall", "--yes", cwd="/", code=None)


def test_the_desk_may_be_one_of_the_hosts(machines: Hosts) -> None:
    machines.deploy("--nodes", "desk,node1")
    machines["desk"].run("sh", "-c", f"echo here >{machines.home}/mnt/file")
    assert machines["node1"].run("cat", machines.home / "mnt/file").stdout == "here\n"
    machines["desk"].weir("down")
    assert not (machines.folder / "desk/state/weir/cluster.json").exists()
    machines.deploy()
    machines["desk"].weir("uninstall", "--yes")
    # A reserve of room was left where the store was deployed from.
    assert not (machines.folder / "desk/state/weir").exists()


def test_memory_is_not_restarted_by_mistake(machines: Hosts) -> None:
    machines.deploy("--nodes", "node1")
    machines["node1"].run("sh", "-c", f"echo here >{machines.home}/mnt/file")
    assert "lose" in machines["desk"].weir("upgrade", code=1).stderr
    assert machines["node1"].run("cat", machines.home / "mnt/file").stdout == "here\n"
    machines["desk"].weir("upgrade", "--yes")


def test_a_host_that_does_not_answer_leaves_every_host_as_it_was(machines: Hosts) -> None:
    machines["node3"].cut()
    said = machines.deploy(
        "--nodes", "node[1-3]", "--ssh-options", f"{machines.ssh_options} -oConnectTimeout=3", code=1
    )
    assert "node3" in said
    assert "node1" not in said
    for host in machines.all:
        assert host.run("ls", machines.home, code=None).stdout == "", "nothing is left on any host"


def test_lists_of_hosts_with_mistakes_are_refused_before_a_host_is_asked(machines: Hosts) -> None:
    names = machines.folder / "names"
    names.write_text("# all of them\nnode[1-2]\nnode3 node1\n")
    assert f"{names}, line 3 names node1 twice" in machines.deploy("--nodes", names, code=2)
    names.write_text("node[1-\n")
    assert f"{names}, line 1" in machines.deploy("--nodes", names, code=2)
    assert "names node1 twice" in machines.deploy("--nodes", "node[1-2],node1", code=2)
    assert "4096" in machines.deploy("--nodes", "node[1-99999]", code=2)
    assert "no list of hosts" in machines.deploy("--nodes", "./absent", code=2)
    assert "an empty list names no host" in machines.deploy("--nodes", "", code=2)
    if shutil.which("srun") is None:
        assert "there is no program `srun` on this host" in machines.deploy("--nodes", "node1", "--via", "srun", code=1)
    assert "nodd1: ssh failed" in machines.deploy("--nodes", "nodd1", code=1)


def test_two_names_of_one_host_are_refused(machines: Hosts) -> None:
    said = machines.deploy("--nodes", "node1,10.77.0.2", code=1)
    assert "node1 and 10.77.0.2 are one host" in said


def test_another_version_is_refused(machines: Hosts) -> None:
    other = machines.folder / "weir"
    own = program()[0]
    other.write_text(f'#!/bin/sh\n{own} "$@" | sed \'s/"version": "[^"]*"/"version": "0.0.1"/\'\n')
    other.chmod(0o755)
    assert "node1 has weir 0.0.1" in machines.deploy("--nodes", "node[1-2]", "--program", other, code=1)
    assert "cannot be executed" in machines.deploy("--nodes", "node1", "--program", "/absent/weir", code=1)


def test_a_home_that_hosts_share_is_refused(machines: Hosts) -> None:
    # Every host sees this folder, as it would see a home directory on NFS.
    shared = machines.folder / "shared"
    options = ["--home", str(shared), "deploy", "--nodes", "node[1-2]", "--ssh-options", machines.ssh_options]
    said = machines["desk"].weir(*options, code=1).stderr
    assert "is one folder for" in said
    assert not (shared / "member.json").exists()


def test_a_port_that_is_taken_is_named_and_nothing_is_left(machines: Hosts) -> None:
    listener = (
        "import socket,time; s=socket.create_server(('10.77.0.3', 7701)); print('x', flush=True); time.sleep(600)"
    )
    process = machines["node2"].start("python3", "-c", listener, stdout=-1)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        said = machines.deploy("--nodes", "node[1-2]", code=1)
        assert "node2: cannot listen at 10.77.0.3, port 7701" in said
        assert "node1" not in said
    finally:
        machines["node2"].run("pkill", "--full", "create_server")
        process.communicate()
    for host in ("node1", "node2"):
        assert machines[host].run("ls", machines.home, code=None).stdout == ""
    machines.deploy("--nodes", "node[1-2]", "--port", "7710")


def test_servers_are_divided_among_hosts_in_turn(machines: Hosts) -> None:
    document = machines.deploy("--nodes", "node[1-2]", "--servers", "3", "--targets", "1")
    assert [host["servers"] for host in document["hosts"]] == [[0, 2], [1]]
    assert [server["tcp"] for server in document["servers"]] == ["10.77.0.2:7700", "10.77.0.3:7700", "10.77.0.2:7702"]
    assert "has its servers on node[1-2]" in machines.deploy("--nodes", "node[2-3]", code=1)
    assert "on several hosts" in machines["desk"].weir("up", code=1).stderr


def test_what_a_store_cannot_take_any_more_is_refused_and_changes_nothing(machines: Hosts) -> None:
    machines.deploy("--nodes", "node[1-2]", "--capacity", "64MiB")
    folder = machines.folder / "desk/state/weir/deployment"
    before = {path.name: path.read_text() for path in folder.glob("*.*")}
    for options in (
        ["--backend", "dir"],
        ["--capacity", "32MiB"],
        ["--port", "7800"],
        ["--targets", "4"],
        ["--mount", "/elsewhere"],
        ["--network", "10.9.0.0/16"],
    ):
        for hosts_too in ([], ["--nodes", "node[1-2]"]):
            said = machines.deploy(*options, *hosts_too, code=1)
            assert f"does not take `{options[0]}` {options[1]}" in said and said.count("error:") == 1, said
    file = machines.folder / "cluster.toml"
    file.write_text('version = 1\npolicy = "fifo"\n')
    assert "with another configuration" in machines.deploy(file, "--nodes", "node[1-2]", code=1)
    machines.deploy("--nodes", "node[1-2]", "--port", "65535", code=2)
    machines.deploy("--nodes", "node[1-2]", "--capacity", "64MiB", "--port", "7700")
    after = {path.name: path.read_text() for path in folder.glob("*.*")}
    assert after.keys() == before.keys() and after["store.json"] == before["store.json"]
    machines["desk"].weir("config", "diff")


def test_a_network_chooses_the_addresses(machines: Hosts) -> None:
    assert "node1 has no address in 10.9.0.0/16" in machines.deploy(
        "--nodes", "node1", "--network", "10.9.0.0/16", code=2
    )
    document = machines.deploy("--nodes", "node1", "--network", "10.77.0.0/24")
    assert document["servers"][0]["tcp"].startswith("10.77.0.2:")
