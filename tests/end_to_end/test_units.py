"""The units of the package under a running systemd: a store that stays, its faults, reboots and end, and the planner."""

import json
from collections.abc import Iterator
from pathlib import Path

import hosts
import pytest
import service_manager
import sites
from hosts import DURABLE, Host, Hosts
from waits import wait_until

_MISSING = hosts.missing() or service_manager.missing()
pytestmark = pytest.mark.skipif(bool(_MISSING), reason=_MISSING)

UNITS = Path(__file__).resolve().parents[2] / "packaging" / "systemd"
SERVERS = ("node1", "node2", "node3")
MOUNT = Path("/var/lib/scratch")
MOUNT_CAPABILITIES = sum(1 << number for number in (2, 6, 7, 9, 19, 21))
"""CAP_DAC_READ_SEARCH, SETGID, SETUID, LINUX_IMMUTABLE, SYS_PTRACE and SYS_ADMIN (linux/capability.h)."""


@pytest.fixture
def machines() -> Iterator[Hosts]:
    """Hosts with systemd and the package's units; the first one has no server."""
    with hosts.hosts(["desk", *SERVERS], has_systemd=True) as machines:
        for host in machines.all:
            host.run("sh", "-c", f"cp {UNITS}/* /etc/systemd/system && systemctl daemon-reload")
        yield machines
        machines["desk"].weir("uninstall", "--yes", code=None)


def units_of(host: Host) -> list[str]:
    """The host's units, as its administrator enables them."""
    servers = [f"weir-server@{SERVERS.index(host.name)}"] if host.name in SERVERS else []
    return [*servers, "weir-mount"]


def stay(machines: Hosts) -> None:
    """Deploy a store on directories, and hand it over to systemd."""
    file = machines.folder / "cluster.toml"
    file.write_text(DURABLE)
    machines.deploy(file, "--nodes", ",".join(SERVERS), "--clients", "desk", "--mount", MOUNT)
    machines["desk"].weir("down")
    for host in machines.all:
        host.run("systemctl", "enable", "--now", *units_of(host))
    wait_until("the store is up", lambda: is_whole(machines))


def is_whole(machines: Hosts) -> bool:
    """Whether all servers answer, and all hosts mount the store where it was deployed to."""
    answer = machines["desk"].weir("status", "--output", "json", code=None)
    if answer.returncode != 0:
        return False
    mounts = json.loads(answer.stdout)["mounts"]
    assert all(mount["point"] == str(MOUNT) for mount in mounts), mounts
    return sorted(mount["host"] for mount in mounts if mount["served"]) == sorted(host.name for host in machines.all)


def shown(host: Host, unit: str, name: str) -> str:
    return host.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()


def kill(host: Host, unit: str) -> None:
    """Kill what a unit runs, and wait until systemd has started it again."""
    killed = shown(host, unit, "MainPID")
    host.run("systemctl", "kill", "--signal=KILL", unit)
    wait_until(
        f"{unit} of {host.name} starts again",
        lambda: shown(host, unit, "MainPID") not in ("0", killed) and shown(host, unit, "ActiveState") == "active",
    )


def states(machines: Hosts) -> set[str]:
    """The states of all hosts' units of the store."""
    return {shown(host, unit, "ActiveState") for host in machines.all for unit in units_of(host)}


def check_rights(desk: Host, host: Host) -> None:
    """The settings of the units hold, and what they leave is enough to look at a caller and open its credential."""
    for unit, capabilities in (("weir-server@0", 0), ("weir-mount", MOUNT_CAPABILITIES)):
        status = host.run("cat", f"/proc/{shown(host, unit, 'MainPID')}/status").stdout
        found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert [int(found[name], 16) for name in ("CapEff", "CapBnd")] == [capabilities] * 2
        assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    host.run("mkdir", "--mode=777", MOUNT / "open")
    credential = Path("/run/kept.json")
    granted = desk.weir("grant", "--uid", "65534", "--gid", "65534", "--job", "kept", "--to", "-").stdout
    host.run("sh", "-c", f"umask 077; cat >{credential}; chown 65534 {credential}", input=granted)
    program = [
        "env",
        f"WEIR_CREDENTIAL={credential}",
        "dd",
        "if=/dev/zero",
        f"of={MOUNT}/open/file",
        "bs=4k",
        "count=1",
    ]
    host.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *program)
    jobs = json.loads(desk.weir("jobs", "--all", "--output", "json").stdout)
    assert "kept" in {job["job"] for job in jobs}


def test_units_run_a_store_from_its_deployment_to_its_end(machines: Hosts) -> None:
    desk, node1, node2 = machines["desk"], machines["node1"], machines["node2"]
    stay(machines)
    assert states(machines) == {"active"}
    node1.run("sh", "-c", f"seq 300000 >{MOUNT}/numbers")
    for host in machines.all:
        assert host.run("sh", "-c", f"wc -l <{MOUNT}/numbers").stdout.strip() == "300000"
    assert "server 0 listens on" in node1.run("journalctl", "--unit=weir-server@0").stdout
    assert "ready" in desk.run("journalctl", "--unit=weir-mount").stdout
    # A mount was refused until a server of its own host had told the addresses, and for ever where there is none.
    for host in machines.all:
        assert "error:" not in host.run("journalctl", "--unit=weir-mount").stdout
    check_rights(desk, node1)
    # A host that goes down ends its mount first, whatever the number of its server.
    assert "weir-server@1.service" in shown(node2, "weir-mount", "After").split()

    for host, unit in ((node1, "weir-server@0"), (node2, "weir-mount"), (desk, "weir-mount")):
        kill(host, unit)
    wait_until("the store is up again", lambda: is_whole(machines))
    assert node2.run("sh", "-c", f"seq 300000 | cmp - {MOUNT}/numbers").stdout == ""

    before = shown(node1, "weir-server@0", "MainPID")
    desk.weir("upgrade")
    after = shown(node1, "weir-server@0", "MainPID")
    assert states(machines) == {"active"} and after not in ("0", before)
    assert node1.run("cat", machines.home / "servers/0/pid").stdout.split()[0] == after

    node1.run("systemctl", "stop", *units_of(node1))
    assert not is_whole(machines) and node1.run("mountpoint", MOUNT, code=None).returncode != 0
    node1.run("systemctl", "start", *units_of(node1))
    wait_until("the store is up after a stop", lambda: is_whole(machines))
    desk.weir("down")
    wait_until("no unit runs", lambda: states(machines) == {"inactive"})
    for host in machines.all:
        host.run("systemctl", "start", *units_of(host))
    wait_until("the store is up after `weir down`", lambda: is_whole(machines))
    assert desk.run("sh", "-c", f"seq 300000 | cmp - {MOUNT}/numbers").stdout == ""

    for host in machines.all:
        host.run("systemctl", "disable", "--now", *units_of(host))
    assert states(machines) == {"inactive"}
    desk.weir("uninstall", "--yes")
    for host in machines.all:
        for left in (machines.home, MOUNT):
            host.run("test", "-e", left, code=1)
        host.run("sh", "-c", "rm /etc/systemd/system/weir-* && systemctl daemon-reload")
        assert "weir" not in host.run("systemctl", "list-units", "--all", "weir*", "--no-legend").stdout


def test_a_store_comes_back_with_its_hosts(machines: Hosts) -> None:
    desk, node1, node2 = machines["desk"], machines["node1"], machines["node2"]
    # Other users of this host cannot pass to the home, so they find the store by what is told in /run.
    node1.run("chmod", "700", machines.home.parent)
    stay(machines)
    node2.run("sh", "-c", f"seq 300000 >{MOUNT}/synced; sync {MOUNT}/synced")
    node1.run("sh", "-c", f"seq 200000 >{MOUNT}/written")
    node1.reboot()
    node2.lose_power()
    desk.reboot()
    wait_until("the store is up after reboots", lambda: is_whole(machines))
    assert states(machines) == {"active"}
    for host in machines.all:
        for name, lines in (("synced", 300000), ("written", 200000)):
            assert host.run("sh", "-c", f"seq {lines} | cmp - {MOUNT}/{name}").stdout == ""
    announced = Path("/run/weir") / machines.home.as_posix().strip("/").replace("/", "-")
    assert len(json.loads(node1.run("cat", announced / "cluster.json").stdout)["servers"]) == len(SERVERS)
    assert node1.run("cat", announced / "mount").stdout == f"{MOUNT}\n"


def test_the_planner_runs_beside_a_store(machines: Hosts) -> None:
    desk = machines["desk"]
    desk.run("sh", "-c", "getent passwd slurm || echo slurm:x:64030:64030::/nonexistent:/bin/false >>/etc/passwd")
    desk.run("mkdir", "/etc/weir")
    desk.run("tee", "/etc/weir/resources.toml", input=sites.node("localhost", Path("/tmp")))
    desk.run("chmod", "700", machines.home.parent)
    desk.run("systemctl", "enable", "--now", "weir-planner")
    assert desk.weir("deployments", "list").stdout.startswith("NAME")
    # The home of a new store is empty, although the planner has its state.
    machines.deploy("--nodes", "desk")
    desk.run("systemctl", "restart", "weir-planner")
    assert desk.weir("deployments", "list").stdout.startswith("NAME")
    desk.run("systemctl", "stop", "weir-planner")
    told = desk.run("find", "/run/weir", "-type", "f").stdout
    assert "cluster.json" in told, "the planner took along what the store tells other users"
    desk.weir("uninstall", "--yes")
    desk.run("test", "-e", "/run/weir/planner.sock", code=1)

    desk.run("systemctl", "start", "weir-planner")
    kill(desk, "weir-planner")
    assert desk.weir("deployments", "list").stdout.startswith("NAME")
    desk.reboot()
    wait_until("the planner comes with its host", lambda: shown(desk, "weir-planner", "ActiveState") == "active")
    assert desk.weir("deployments", "list").stdout.startswith("NAME")


def test_the_health_of_a_store_knows_its_units(machines: Hosts) -> None:
    stay(machines)
    machines["node2"].run("systemctl", "stop", "weir-server@1")

    def mend(host: str) -> str | None:
        answer = machines[host].weir("health", "--within", "10", "--output", "json", code=None)
        ended = [each["mend"] for each in json.loads(answer.stdout) if each["code"] == "server-down"]
        return ended[0] if ended else None

    command = "systemctl restart weir-server@1.service"
    wait_until("the deploying host tells the unit", lambda: mend("desk") == f"ssh node2 {command}")
    assert mend("node2") == command
