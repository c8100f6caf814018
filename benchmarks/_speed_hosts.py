"""Small reads and opens from another host than the server's, beside the version before and NFS.

The hosts are those of the tests: namespaces with a bridge between them. Each version has two hosts of its own.
"""

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from _harness import ROOT, compiled
from _speed_places import NOW, PREFIX, Checkout, Place, before
from _speed_rounds import Effort, Figures, Work, compared, measured, rate_figures

sys.path.insert(0, str(ROOT / "tests"))

import hosts

WAYS = ("run", "prefix", "mount")
SERVER, CLIENT = "node1", "node2"
_FILE_SYSTEMS = Path("/proc/filesystems")


def works(effort: Effort) -> list[Work]:
    """The turns of a round."""
    return [
        Work("remote_write_1m", "write", effort.blocks),
        Work("remote_reread_4k", "read-small", effort.blocks, effort.seconds),
        Work("remote_random_read_4k", "random-read", effort.blocks, effort.seconds),
        Work("remote_create_4k", "fill", effort.files),
        Work("remote_stat", "stat", effort.files, effort.seconds),
        Work("remote_open_read_close", "open", effort.files, effort.seconds),
        Work("remote_remove", "remove", effort.files),
    ]


def measure(directory: Path, effort: Effort) -> Mapping[str, float | None]:
    """The rates on the client's host, and their ratios."""
    reason = hosts.missing()
    if reason:
        print(f"hosts are not measured: {reason}", flush=True)
        return {"remote_4k_vs_before": None}
    load = compiled("speed_load", directory)
    with ExitStack() as ends:
        places: list[Place] = []
        for checkout in (NOW, before()):
            network = ends.enter_context(hosts.hosts([SERVER, CLIENT]))
            _deploy(network, checkout)
            places += _places(network, checkout)
        reason = _mount_nfs(network)
        if reason:
            print(f"nfs is not measured: {reason}", flush=True)
        else:
            places.append(Place("nfs", Path(_NFS), network[CLIENT].command(), network.variables()))
        rates = measured(load, places, works(effort), effort.rounds)
    figures: Figures = rate_figures(rates)
    figures |= compared(rates, "remote_4k_vs_before", "remote_random_read_4k", "run", "run_before")
    for work in works(effort):
        for way in WAYS:
            figures |= compared(rates, f"{way}_{work.name}_vs_before", work.name, way, f"{way}_before")
            figures |= compared(rates, f"{way}_{work.name}_vs_nfs", work.name, way, "nfs")
    return figures


def _deploy(network: hosts.Hosts, checkout: Checkout) -> None:
    """A store with its server on one host, mounted on both."""
    options = ["--ssh-options", network.ssh_options, "--program", checkout.weir]
    words = ["deploy", "--nodes", SERVER, "--clients", CLIENT, *options]
    network[SERVER].run(checkout.weir, *words, environment=checkout.programs())


def _places(network: hosts.Hosts, checkout: Checkout) -> Iterator[Place]:
    """The ways into the store from the client's host."""
    client, mount = network[CLIENT], network.home / "mnt"
    environment = {**network.variables(), **checkout.programs()}
    run = [str(checkout.weir), "run"]
    for way in WAYS:
        client.run("mkdir", mount / way)
        words = {"run": [*run, "--"], "prefix": [*run, "--prefix", PREFIX, "--"], "mount": []}[way]
        folder = (Path(PREFIX) if way == "prefix" else mount) / way
        yield Place(f"{way}{checkout.suffix}", folder, client.command(*words), environment)


_NFS = "/mnt"
_EXPORT = "/srv"


def _mount_nfs(network: hosts.Hosts) -> str:
    """Mount memory of the server's host on the client's by NFS 4.2; returns the reason if it cannot be."""
    known = _FILE_SYSTEMS.read_text().split()
    absent = [name for name in ("nfs4", "nfsd") if name not in known]
    if absent:
        return f"this kernel has no {' and no '.join(absent)}"
    missing = [name for name in ("exportfs", "rpc.nfsd", "rpc.mountd", "mount.nfs4") if shutil.which(name) is None]
    if missing:
        return f"there is no {', '.join(missing)}: Debian's nfs-kernel-server has them"
    server, client = network[SERVER], network[CLIENT]
    export = f"exportfs -i -o rw,no_root_squash,no_subtree_check,fsid=0 '*:{_EXPORT}'"
    serve = f"mount -t tmpfs tmpfs {_EXPORT} && mount -t nfsd nfsd /proc/fs/nfsd"
    serve = f"{serve} && {export} && rpc.mountd && rpc.nfsd 8"
    mount = f"mount -t nfs4 -o vers=4.2 {server.address}:/ {_NFS}"
    for host, script in ((server, serve), (client, mount)):
        answer = host.run("sh", "-c", script, code=None)
        if answer.returncode != 0:
            return f"{script!r} on {host.name} gave {answer.returncode}: {answer.stderr.strip()}"
    return ""
