"""A host's part of a store on several hosts: the operations that `weir agent` does in the host's own home."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from weir import distribution
from weir.deployment import operations, parcels
from weir.deployment.operations import Address, Member
from weir.store import cluster, lifecycle, mounts, units
from weir.store.decoding import DecodingError, decode, encode
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.notices import Notice
from weir.store.processes import Process
from weir.ways import write_whole

_ADDRESSES_SECONDS = 30.0
"""Longest time in which `ip` tells the host's addresses."""


def member_file(home: Home) -> Path:
    """Name the file that describes the host's part of a store."""
    return home.root / "member.json"


def member_of(home: Home) -> Member | None:
    """Read the host's part of a store.

    Returns:
        The part; None where the home has none.

    Raises:
        StoreError: The file is damaged.
    """
    path = member_file(home)
    try:
        document = json.loads(path.read_text())
        # A part of before has no mark.
        return decode(Member, {"token": "", **document} if isinstance(document, dict) else document, place="the part")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(
            f"cannot use {path}: {error}", hint="`weir deploy` writes it anew where it is removed"
        ) from error


def part_of(home: Home, deployment: str) -> Member:
    """Read the host's part of one store.

    Args:
        deployment: Identity of the store.

    Raises:
        StoreError: The home has no part of the store.
    """
    member = member_of(home)
    if member is None or member.deployment != deployment:
        raise StoreError(f"{home.root} has no part of this store", hint="`weir deploy` puts it there")
    return member


def probe(request: operations.ProbeRequest) -> operations.Probed:
    """Tell what this host is, and whether its home has room for a part of a store.

    Returns:
        The state of the host.

    Raises:
        StoreError: The description of the host's part is damaged.
    """
    home = Home.at(request.home)
    member = member_of(home)
    return operations.Probed(
        hostname=socket.gethostname(),
        boot=Process.current().boot,
        version=distribution.version(),
        now_seconds=time.time(),
        addresses=_addresses(),
        member=member,
        occupied="" if member else _occupation(home),
        fuse_problem=mounts.device_problem() or "",
    )


def install(request: operations.InstallRequest) -> operations.Installed:
    """Take a part of a store into the home: the site's key, the configuration, and the description of the part.

    Returns:
        Whether the home had no part of the store.

    Raises:
        StoreError: The home is another store's or another host's, or a port is not free.
        OSError: The home cannot be written.
    """
    home = Home.at(request.home)
    home.create()
    try:
        return _install(home, request)
    except BaseException:
        home.remove_empty()
        raise


def start(request: operations.StartRequest) -> operations.Started:
    """Start those servers of the host that do not run.

    Returns:
        The addresses of all servers of the host.

    Raises:
        StoreError: A server did not start. Those that were started are stopped again.
    """
    home = Home.at(request.home)
    notices: list[Notice] = []
    with home.locked():
        member = part_of(home, request.deployment)
        running = _running(home)
        missing = []
        for number in member.servers:
            if number in running:
                continue
            if parcels.put_in_place(home, number):
                missing.append(number)
            else:
                notices.append(
                    Notice(f"server {number} has not come here yet", hint="`weir server retire` continues its move")
                )
        cluster.start_servers(
            home, home.configuration, missing, notices.append, accept_journal_loss=request.accept_journal_loss
        )
        return _started(home, member, missing, notices)


def publish(request: operations.PublishRequest) -> operations.Published:
    """Tell the addresses of the whole store to the users of this host, and mount the store.

    Returns:
        The mount point.

    Raises:
        StoreError: The store cannot be mounted at the wanted place.
    """
    home = Home.at(request.home)
    notices: list[Notice] = []
    with home.locked():
        member = part_of(home, request.deployment)
        own = {address.server: address for address in _announced(home, member)}
        # Only clients of this host can use the sockets of its servers.
        known = [own.get(address.server, address) for address in request.addresses]
        cluster.publish(home, [encode(address) for address in known])
        for mount in mounts.lost(home):
            mounts.start_again(home, mount)
        mounted = [mount.point for mount in mounts.mounts_of(home)]
        wanted = None if member.mount is None else Path(member.mount)
        if wanted is not None and wanted not in mounted:
            mounts.start(home, wanted, cluster=home.cluster, credential=home.credentials / "mount.json")
    return operations.Published(member.mount, _told(notices))


def end(request: operations.EndRequest) -> operations.EndedThere:
    """Unmount the store and stop the servers of this host.

    Args:
        request: How the part ends.

    Returns:
        The ended parts.

    Raises:
        StoreError: A program uses the mount, or a marked folder of a target cannot be removed.
    """
    home = Home.at(request.home)
    token = part_of(home, request.deployment).token
    ended = lifecycle.take_down(home, force=request.force, discard=request.discard, token=token)
    return operations.EndedThere(ended.servers, tuple(map(str, ended.mounts)), ended.lost_bytes, ended.left)


def restart(request: operations.RestartRequest) -> operations.Started:
    """Stop one server of the host in order, and start it again at its address.

    Returns:
        The addresses of all servers of the host.

    Raises:
        StoreError: The server did not start again.
    """
    home = Home.at(request.home)
    notices: list[Notice] = []
    with home.locked():
        member = part_of(home, request.deployment)
        if request.server not in member.servers:
            raise StoreError(f"server {request.server} is not a server of {member.host}")
        unit = units.unit_of(home, request.server)
        if unit is None:
            cluster.stop_servers(home, [request.server])
            cluster.start_servers(home, home.configuration, [request.server], notices.append)
    if unit is not None:
        units.restart(home, request.server, unit)
    return _started(home, member, [request.server], notices)


def fetch(request: operations.FetchRequest) -> operations.Fetched:
    """Give parts of the files of a server that goes to another host.

    Args:
        request: The server, and the parts that the other host has.

    Returns:
        The files and some of the missing parts.

    Raises:
        StoreError: The home has no part of the store, or not the server's files.
        OSError: A file cannot be read.
    """
    home = Home.at(request.home)
    with home.locked():
        part_of(home, request.deployment)
        if request.seals:
            cluster.stop_servers(home, [request.server])
            parcels.seal(home, request.server)
        return parcels.fetch(home, request.server, request.have, request.bytes_max)


def store(request: operations.StoreRequest) -> operations.Stored:
    """Take parts of the files of a server that comes to this host.

    Args:
        request: The server and the parts.

    Returns:
        The files as far as they are here.

    Raises:
        StoreError: The home has no part of the store.
        OSError: A file cannot be written.
    """
    home = Home.at(request.home)
    with home.locked():
        part_of(home, request.deployment)
        return operations.Stored(*parcels.store(home, request.server, request.fetched))


def forget(request: operations.ForgetRequest) -> operations.Forgotten:
    """Remove the files of a server that went elsewhere, or of one that did not come.

    Returns:
        Nothing.

    Raises:
        StoreError: The home has no part of the store.
        OSError: A file cannot be removed.
    """
    home = Home.at(request.home)
    with home.locked():
        part_of(home, request.deployment)
        parcels.forget(home, request.server)
    return operations.Forgotten()


def drop(request: operations.DropRequest) -> operations.Dropped:
    """Stop a server that never joined the store, and remove its files.

    Returns:
        Whether it ran.

    Raises:
        StoreError: The home has no part of the store.
        OSError: A file cannot be removed.
    """
    home = Home.at(request.home)
    with home.locked():
        part_of(home, request.deployment)
        ran = cluster.stop_servers(home, [request.server]) > 0
        cluster.forget_server(home, request.server)
    return operations.Dropped(ran)


def state(request: operations.Part) -> operations.State:
    """Tell what runs on this host.

    Returns:
        Its servers that run, its mounts, and the servers that units keep.

    Raises:
        StoreError: The host has no part of the store.
    """
    home = Home.at(request.home)
    own = part_of(home, request.deployment)
    points = tuple(operations.MountState(str(mount.point), mount.is_served()) for mount in mounts.mounts_of(home))
    kept = tuple(number for number in own.servers if units.enabled_unit(home, number) is not None)
    return operations.State(tuple(_running(home)), points, kept)


def remove(request: operations.Part) -> operations.EndedThere:
    """End the host's part of a store, and remove its home. A host that has no part any more has nothing to do.

    Raises:
        StoreError: The home has a part of another store.
        OSError: A file cannot be removed.
    """
    home = Home.at(request.home)
    if member_of(home) is None:
        return operations.EndedThere(0, (), 0, ())
    ended = remove_home(home, part_of(home, request.deployment).token)
    return operations.EndedThere(ended.servers, tuple(map(str, ended.mounts)), ended.lost_bytes, ended.left)


def remove_home(home: Home, token: str = "") -> lifecycle.Ended:
    """End what runs of a store on this host, and remove its home with all files.

    Args:
        token: Mark of folders of targets outside of the home that go, too.

    Returns:
        The ended parts.

    Raises:
        StoreError: There is no store in the home, it cannot be unmounted, or a marked folder cannot be removed.
    """
    ended = lifecycle.take_down(home, force=True, discard=True, token=token)
    for folder in (home.mounts, home.credentials):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (home.site_key, home.reserve, member_file(home)):
        file.unlink(missing_ok=True)
    home.remove_empty()
    return ended


def _install(home: Home, request: operations.InstallRequest) -> operations.Installed:
    member = request.member
    with home.locked():
        present = member_of(home)
        if present is not None and present.deployment != member.deployment:
            raise StoreError(
                f"{home.root} has a part of another store there",
                hint="`weir uninstall` where that store was deployed from, or another `home`",
            )
        if present is not None and present.host != member.host:
            raise StoreError(
                f"{home.root} is one folder for {present.host} and {member.host}",
                hint="choose a `home` on a file system of each host's own, such as /var/lib/weir",
            )
        if present is None and (reason := _occupation(home)):
            raise StoreError(reason, hint="end that store with `weir down --discard`, or choose another `home`")
        running = _running(home)
        ports = zip(member.servers, request.ports[::2], request.ports[1::2], strict=True)
        known = () if present is None else present.servers
        for number, *pair in ports:
            # A server that was here before listens elsewhere where another program has its port.
            if number not in running and number not in known:
                _check_ports(member.address, pair)
        write_whole(member_file(home), json.dumps(encode(member)) + "\n")
        write_whole(home.site_key, request.site_key)
        write_whole(home.configuration, request.configuration)
        lifecycle.mint_credentials(home)
    return operations.Installed(present is None)


def _occupation(home: Home) -> str:
    """Why a home cannot take a part of a store; empty where it can."""
    if not home.root.exists() or (home.root.is_dir() and not any(home.root.iterdir())):
        return ""
    if not home.exists():
        return f"{home.root} is not empty, and not the home of a store"
    if home.cluster.exists() or cluster.stored(home) is not None:
        return f"{home.root} is the home of a store of this host alone"
    return ""


def _running(home: Home) -> list[int]:
    """The servers of this host that run."""
    records = ((number, Process.recorded(home.record(number))) for number in home.server_numbers())
    return [number for number, process in records if process is not None and process.is_alive()]


def _announced(home: Home, member: Member) -> list[Address]:
    """The addresses of the host's servers, as these say themselves, without those of which files are still to come."""
    present = [number for number in member.servers if home.server(number).is_dir()]
    return [decode(Address, json.loads(home.address(number).read_text())) for number in present]


def _started(home: Home, member: Member, started: Sequence[int], notices: Sequence[Notice]) -> operations.Started:
    try:
        addresses = tuple(_announced(home, member))
    except (OSError, DecodingError, ValueError) as error:
        raise StoreError(f"cannot read the addresses of {member.host}'s servers: {error}") from error
    return operations.Started(tuple(each.from_elsewhere() for each in addresses), tuple(started), _told(notices))


def _told(notices: Sequence[Notice]) -> tuple[operations.Told, ...]:
    return tuple(operations.Told(notice.words, notice.hint) for notice in notices)


def _check_ports(address: str, ports: Sequence[int]) -> None:
    """Refuse an address that is not this host's, and ports that another program listens at."""
    for port in ports:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((address, port))
            except OSError as error:
                raise StoreError(
                    f"cannot listen at {address}, port {port}: {os.strerror(error.errno or 0)}",
                    hint="another program has the port, or another host the address: see `port` and `network`",
                ) from error


def _addresses() -> tuple[str, ...]:
    """The addresses of the host's interfaces; none where `ip` cannot tell them."""
    try:
        answer = subprocess.run(
            ["ip", "-json", "address"], capture_output=True, text=True, timeout=_ADDRESSES_SECONDS, check=True
        )
        return tuple(
            str(address["local"]) for link in json.loads(answer.stdout) for address in link.get("addr_info", [])
        )
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return ()
