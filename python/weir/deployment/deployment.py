"""The life of a store on several hosts: deployed, asked, restarted server by server, ended and removed.

Everything is checked on every host before anything is changed on one. What was started for a deployment that fails is
stopped again. `home` is that of the host which the store is deployed from.
"""

import ipaddress
import secrets
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weir import distribution
from weir.deployment import asking, member, operations, places, record, steps, unchanged
from weir.deployment.fanout import Reach
from weir.deployment.nodes import folded
from weir.deployment.operations import Member, Probed
from weir.deployment.record import Record
from weir.store import auditing, cluster, lifecycle
from weir.store.audits import ToldEntry
from weir.store.configuration import Configuration, check
from weir.store.decoding import decode, encode
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.notices import Listener, Notice
from weir.ways import write_whole

SKEW_SECONDS = 120.0
"""Greatest difference between the clocks of two hosts: credentials hold from 300 s before they are minted."""


@dataclass(frozen=True)
class Wanted:
    """A store that is to be deployed.

    Attributes:
        servers: Names of the hosts that have servers; server `i` is on the host `i` modulo their number.
        clients: Names of further hosts, which only mount the store.
        network: Network of the addresses at which servers listen; None is that of the hosts' names.
        port: First of the ports that each host's servers listen at.
        mount: Mount point on every host; None is `mnt` in the home, and empty is no mount.
        token: Mark of the targets' folders outside of the home that go with the store's files; empty where they stay.
    """

    servers: tuple[str, ...]
    clients: tuple[str, ...]
    network: "ipaddress.IPv4Network | ipaddress.IPv6Network | None"
    port: int
    mount: str | None
    token: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, each once."""
        return tuple(dict.fromkeys((*self.servers, *self.clients)))


@dataclass(frozen=True)
class Deployed:
    """A store on several hosts that is up."""

    record: Record
    addresses: tuple[operations.Address, ...]
    mounts: dict[str, str | None]
    """Mount point on each host; None where the host does not mount the store."""


def deploy(
    home: Home,
    wanted: Wanted,
    reach: Reach,
    configuration: Configuration,
    listener: Listener,
    *,
    accept_journal_loss: bool,
) -> Deployed:
    """Deploy a store: install its parts on the hosts, start its servers, and mount it.

    Args:
        home: Home of the store, on this and on every host.
        reach: The way to them.
        configuration: Configuration of the servers, which need not have addresses.
        listener: Called with further notices for the user.
        accept_journal_loss: Whether to start also servers whose journals lost changes that were on stable storage.

    Returns:
        The store as it runs.

    Raises:
        SettingsError: The configuration or the hosts cannot be used; nothing was changed.
        StoreError: A host does not do its part. Servers that were started are stopped again.
        OSError: The home cannot be written.
    """
    with _opened(home).locked():
        present = record.read(home)
        had_key = home.read_site_key() is not None
        try:
            return _deploy(home, present, wanted, reach, configuration, listener, accept_journal_loss)
        except BaseException:
            if present is None:
                _forget(home, with_key=not had_key)
            raise


def _deploy(
    home: Home,
    present: Record | None,
    wanted: Wanted,
    reach: Reach,
    configuration: Configuration,
    listener: Listener,
    accept_journal_loss: bool,
) -> Deployed:
    """Deploy a store while this command holds its folder."""
    _refuse_other(home, present, wanted, len(configuration.servers))
    probed = probe(home, wanted.hosts, reach)
    identity = present.deployment if present else uuid.uuid4().hex
    check_parts(probed, identity, home)
    addresses = {
        host: places.address_of(host, probed[host], wanted.network, len(wanted.hosts)) for host in wanted.servers
    }
    numbers = _divided(present, wanted, len(configuration.servers))
    members = _members(identity, home, wanted, addresses, numbers, probed, listener, is_kept=reach.is_allocation)
    _place(configuration, members, wanted.port)
    check(configuration, None)
    if present is not None:
        unchanged.refuse_configuration(home, present, configuration, members)
    site_key = home.read_site_key() or secrets.token_hex(32) + "\n"
    described = Record(
        record.VERSION,
        identity,
        str(home.root),
        reach.via,
        reach.program,
        reach.options,
        dict(reach.ranks),
        members,
    )
    _keep(home, described, site_key, configuration)
    try:
        asking.checked(install(home, described, configuration))
        return _bring_up_whole(home, described, listener, accept_journal_loss=accept_journal_loss)
    except BaseException:
        if present is None:
            _remove_new(described, {host for host in probed if probed[host].member is None})
        raise


def bring_up(home: Home, described: Record, listener: Listener, *, accept_journal_loss: bool) -> Deployed:
    """Bring a deployed store up again: start the servers that do not run, and mount it where it is not mounted.

    A host that fails is left out, and the listener gets the reason: the other hosts continue without it.

    Args:
        listener: Called with further notices for the user.
        accept_journal_loss: As for `deploy`.

    Raises:
        StoreError: No host does its part.
    """
    with record.folder_of(home).locked():
        configuration = Configuration(record.read_configuration(home, described))
        able = asking.able(install(home, described, configuration), listener)
        begin_steps(home, described, able)
        was_up = home.cluster.is_file()
        request = operations.StartRequest(described.home, described.deployment, accept_journal_loss)
        serving = [part.host for part in described.members if part.servers and part.host in able]
        started = asking.able(
            asking.ask(described.reach(), operations.START, dict.fromkeys(serving, request)), listener
        )
        for host, answer in started.items():
            asking.pass_on(host, answer.notices, listener)
            if was_up and any(target.get("backend") == "ram" for target in configuration.targets()):
                _tell_lost_names(answer.started, listener)
        told = [address for answer in started.values() for address in answer.addresses]
        addresses = addresses_of(described, configuration, told)
        published = asking.able(
            asking.ask(described.reach(), operations.PUBLISH, publishing(described, able, addresses)), listener
        )
        return _deployed(home, described, addresses, published, listener)


def _tell_lost_names(servers: Iterable[int], listener: Listener) -> None:
    """Tell that servers which ended in a store that keeps nothing have lost what they had."""
    for number in servers:
        words = f"server {number} had ended, and starts without its names and bytes, which were in memory"
        listener(Notice(words, hint="what led to them answers ESTALE; `rmdir` and `unlink` remove it"))


def hand_out(home: Home, described: Record, configuration: Configuration, listener: Listener) -> None:
    """Give every host of a store that runs its copy of the configuration.

    Args:
        listener: Called where a host does not answer: it gets its copy when the store comes up again.

    Raises:
        StoreError: No host answers.
    """
    asking.able(install(home, described, configuration), listener)


def take_down(home: Home, described: Record, *, force: bool, discard: bool) -> lifecycle.Ended:
    """Unmount a store on every host and stop its servers.

    Args:
        force: Whether to unmount also where a program uses the mount.
        discard: Whether to remove the store's files in the homes, too.

    Returns:
        The ended parts.

    Raises:
        StoreError: A host did not end its part; the other hosts did.
    """
    with record.folder_of(home).locked():
        auditing.tell(home, ToldEntry("deployment", described.home, before="up", after="down"))
        request = operations.EndRequest(described.home, described.deployment, force, discard)
        ended = asking.ask_all(described.reach(), operations.END, dict.fromkeys(described.hosts(), request))
        steps.end(home, described.hosts())
        home.cluster.unlink(missing_ok=True)
        return _sum(ended)


def uninstall(home: Home, described: Record) -> lifecycle.Ended:
    """End a store and remove its homes on every host.

    Returns:
        The ended parts.

    Raises:
        StoreError: A host did not remove its part; the other hosts did, and the store stays known here.
    """
    with record.folder_of(home).locked():
        request = operations.Part(described.home, described.deployment)
        ended = asking.ask_all(described.reach(), operations.REMOVE, dict.fromkeys(described.hosts(), request))
        steps.end(home, described.hosts())
        _forget(home, with_key=True)
        return _sum(ended)


def restart(home: Home, described: Record, server: int, listener: Listener) -> None:
    """Stop one server in order and start it again at its address.

    Args:
        server: Number of the server.
        listener: Called with further notices for the user.

    Raises:
        StoreError: The server did not start again.
    """
    host = described.host_of(server)
    with record.folder_of(home).locked():
        request = operations.RestartRequest(described.home, described.deployment, server)
        answer = asking.ask_all(described.reach(), operations.RESTART, {host: request})[host]
        asking.pass_on(host, answer.notices, listener)
        before = told_before(home)
        moved = {address.server: address for address in answer.addresses if address not in before}
        if moved:
            addresses = tuple(moved.get(address.server, address) for address in before)
            asking.able(publish(home, described, addresses), listener)


def states(described: Record, *, seconds: float | None = None) -> dict[str, "operations.State | StoreError"]:
    """Ask every host what runs there.

    Args:
        seconds: Longest time until a host has answered; None is that of the operation.

    Returns:
        The state of each host, by its name; an error where a host does not answer.

    Raises:
        StoreError: ClusterShell is missing.
    """
    request = operations.Part(described.home, described.deployment)
    return asking.ask(described.reach(), operations.STATE, dict.fromkeys(described.hosts(), request), seconds=seconds)


def probe(home: Home, hosts: Sequence[str], reach: Reach) -> dict[str, Probed]:
    """Ask hosts what they are, and refuse a set of hosts that cannot have one store.

    Args:
        hosts: Names of the hosts.
        reach: The way to them.

    Returns:
        The state of each host, by its name.

    Raises:
        StoreError: A host does not answer, has another version or another time, or has two of the names.
    """
    begun = time.time()
    probed = asking.ask_all(reach, operations.PROBE, dict.fromkeys(hosts, operations.ProbeRequest(str(home.root))))
    ended = time.time()
    version = distribution.version()
    machines: dict[tuple[str, str], str] = {}
    for host, answer in probed.items():
        if answer.version != version:
            raise StoreError(
                f"{host} has weir {answer.version} at {reach.program}, and this host has {version}",
                hint="install the same version on every host, or name its path there with `program`",
            )
        skew = max(begun - answer.now_seconds, answer.now_seconds - ended, 0.0)
        if skew > SKEW_SECONDS:
            raise StoreError(
                f"the clock of {host} differs from this host's by {skew:.0f} s, and credentials would not hold",
                hint="set the clocks, for example with chrony",
            )
        machine = (answer.boot, answer.hostname)
        if machine in machines:
            raise StoreError(
                f"{machines[machine]} and {host} are one host, {answer.hostname}", hint="name each host once"
            )
        machines[machine] = host
    return probed


def _opened(home: Home) -> Home:
    """Make the folder that this command locks."""
    home.create()
    folder = record.folder_of(home)
    folder.create()
    return folder


def _refuse_other(home: Home, present: Record | None, wanted: Wanted, servers_wanted: int) -> None:
    """Refuse other hosts or servers than those of the store which was deployed from this home."""
    if present is None:
        return
    servers = tuple(part.host for part in present.members if part.servers)
    if servers != wanted.servers:
        raise StoreError(
            f"the store of {home.root} has its servers on {folded(servers)}",
            hint="leave out `nodes` to bring it up again, remove it with `weir uninstall`, or choose another `home`",
        )
    count = sum(len(part.servers) for part in present.members)
    if count != servers_wanted:
        raise StoreError(
            f"the store of {home.root} has {count} servers, and {servers_wanted} are wanted",
            hint="`weir deploy` without a file brings it up as it is; `weir server add` adds one",
        )


def _divided(present: Record | None, wanted: Wanted, servers: int) -> dict[str, tuple[int, ...]]:
    """The numbers of each host's servers: those that it has, or its share of those of a new store."""
    if present is not None:
        return {part.host: part.servers for part in present.members}
    count = len(wanted.servers)
    return {host: tuple(range(index, servers, count)) for index, host in enumerate(wanted.servers)}


def check_parts(probed: Mapping[str, Probed], identity: str, home: Home) -> None:
    """Refuse hosts whose home has something else.

    Args:
        probed: What the hosts are, by their names.
        identity: Identity of the store.

    Raises:
        StoreError: A home has another store, or something else.
    """
    for host, answer in probed.items():
        if answer.occupied:
            raise StoreError(f"{host}: {answer.occupied}", hint="choose another `home`")
        if answer.member is not None and answer.member.deployment != identity:
            raise StoreError(
                f"{host}: {home.root} has a part of another store",
                hint="`weir uninstall` where that store was deployed from, or another `home`",
            )


def _members(
    identity: str,
    home: Home,
    wanted: Wanted,
    addresses: Mapping[str, str],
    numbers: Mapping[str, tuple[int, ...]],
    probed: Mapping[str, Probed],
    listener: Listener,
    *,
    is_kept: bool,
) -> tuple[Member, ...]:
    """Describe the hosts' parts, and decide which hosts mount the store."""
    members = []
    for host in wanted.hosts:
        mount: str | None = None
        if wanted.mount != "":
            mount = wanted.mount or str(home.mount_point)
            if problem := probed[host].fuse_problem:
                if wanted.mount is not None:
                    raise StoreError(
                        f"{host} cannot mount the store: {problem}", hint="leave out `mount`, or that host"
                    )
                listener(
                    Notice(
                        f"{host} does not mount the store: {problem}",
                        hint="programs there reach it with `weir run --prefix /weir`",
                    )
                )
                mount = None
        address, servers = addresses.get(host, ""), numbers.get(host, ())
        members.append(Member(identity, host, address, servers, mount, is_kept, wanted.token))
    return tuple(members)


def _place(configuration: Configuration, members: Sequence[Member], port: int) -> None:
    """Write the address of each server into the configuration. Ports that the file names stay."""
    for part in members:
        for index, number in enumerate(part.servers):
            table = configuration.servers[number]
            for key, offset in (("listen", 0), ("control", 1)):
                named = places.port_of(table.get(key))
                table[key] = places.joined(part.address, named or port + 2 * index + offset)


def _keep(home: Home, described: Record, site_key: str, configuration: Configuration) -> None:
    """Keep the description, the key and the configuration of a store here."""
    record.write(home, described)
    write_whole(home.site_key, site_key)
    write_whole(record.configuration_file(home), configuration.text())
    lifecycle.mint_credentials(home)


def install(
    home: Home, described: Record, configuration: Configuration
) -> dict[str, "operations.Installed | StoreError"]:
    """Give every host its part.

    Args:
        configuration: Configuration of the servers.

    Returns:
        The answer of each host; an error in the place of a host that does not take its part.

    Raises:
        StoreError: The site's key cannot be read.
    """
    site_key = home.read_site_key()
    if site_key is None:
        raise StoreError(f"cannot read {home.site_key}", hint="bring it back from a copy: every host has one")
    requests = {
        part.host: operations.InstallRequest(
            described.home, part, configuration.text(), site_key, _ports(configuration, part)
        )
        for part in described.members
    }
    return asking.ask(described.reach(), operations.INSTALL, requests)


def _ports(configuration: Configuration, part: Member) -> tuple[int, ...]:
    tables = [configuration.servers[number] for number in part.servers]
    return tuple(places.port_of(table[key]) for table in tables for key in ("listen", "control"))


def _bring_up_whole(home: Home, described: Record, listener: Listener, *, accept_journal_loss: bool) -> Deployed:
    """Start every server of a store and mount it on every host, or leave nothing of it running."""
    reach = described.reach()
    begin_steps(home, described, described.hosts())
    serving = tuple(part.host for part in described.members if part.servers)
    request = operations.StartRequest(described.home, described.deployment, accept_journal_loss)
    answers = asking.ask(reach, operations.START, dict.fromkeys(serving, request))
    try:
        started = asking.checked(answers)
        for host, answer in started.items():
            asking.pass_on(host, answer.notices, listener)
        addresses = tuple(
            sorted((each for answer in started.values() for each in answer.addresses), key=lambda each: each.server)
        )
        published = asking.ask_all(reach, operations.PUBLISH, publishing(described, described.hosts(), addresses))
    except BaseException:
        _stop_new(home, described, answers)
        raise
    return _deployed(home, described, addresses, published, listener)


def begin_steps(home: Home, described: Record, hosts: Iterable[str]) -> None:
    """Begin the lasting steps of hosts in an allocation; elsewhere there is nothing to do.

    Args:
        hosts: Names of the hosts.
    """
    reach = described.reach()
    if reach.is_allocation:
        steps.begin(home, reach, hosts)


def addresses_of(
    described: Record, configuration: Configuration, told: Iterable[operations.Address]
) -> tuple[operations.Address, ...]:
    """Find the addresses of all servers, also of those whose hosts do not answer.

    Args:
        told: Addresses that count before the configuration: a server listens elsewhere where its port is taken.

    Returns:
        The addresses, by the servers' numbers.
    """
    known = {address.server: address for address in told}

    def address(number: int) -> operations.Address:
        table = configuration.servers[number]
        named = operations.Address(number, str(table["listen"]), str(table["control"]))
        return known.get(number, named)

    return tuple(map(address, sorted(number for part in described.members for number in part.servers)))


def told_before(home: Home, *, without: int | None = None) -> list[operations.Address]:
    """Read the addresses of a store that is up.

    Args:
        without: Number of a server that is left out, because it comes or goes elsewhere.

    Returns:
        The addresses of the servers, as they were published last.
    """
    known = [decode(operations.Address, each, place="cluster.json") for each in cluster.published(home)]
    return [address.from_elsewhere() for address in known if address.server != without]


def publish(
    home: Home, described: Record, addresses: tuple[operations.Address, ...]
) -> dict[str, operations.Published | StoreError]:
    """Tell every host, and this one, the addresses of the store.

    Args:
        addresses: Addresses of the servers.

    Returns:
        The answer of each host; an error in the place of a host that does not answer.
    """
    answers = asking.ask(described.reach(), operations.PUBLISH, publishing(described, described.hosts(), addresses))
    publish_here(home, addresses)
    return answers


def publishing(
    described: Record, hosts: Iterable[str], addresses: tuple[operations.Address, ...]
) -> dict[str, operations.PublishRequest]:
    """Make the requests that tell hosts of a store's addresses.

    Args:
        hosts: Names of the hosts.
        addresses: Addresses of the servers.

    Returns:
        Request for each host.
    """
    return dict.fromkeys(hosts, operations.PublishRequest(described.home, described.deployment, addresses))


def publish_here(home: Home, addresses: Sequence[operations.Address]) -> None:
    """Tell the addresses of a store to the users of this host, where it has no part of the store.

    Args:
        addresses: Addresses of the servers.
    """
    if member.member_of(home) is None:
        cluster.publish(home, [encode(address) for address in addresses])


def _deployed(
    home: Home,
    described: Record,
    addresses: tuple[operations.Address, ...],
    published: Mapping[str, operations.Published],
    listener: Listener,
) -> Deployed:
    """The store as it runs, whose addresses are told here too."""
    for host, done in published.items():
        asking.pass_on(host, done.notices, listener)
    publish_here(home, addresses)
    after = f"up: {len(addresses)} servers on {folded(tuple(published))}"
    auditing.tell(home, ToldEntry("deployment", described.home, after=after), listener)
    return Deployed(described, addresses, {host: done.mount for host, done in published.items()})


def _fresh(described: Record, answers: Mapping[str, "operations.Started | StoreError"]) -> list[str]:
    """The hosts on which every server was started by this command."""
    of = {part.host: part for part in described.members}
    return [
        host
        for host, answer in answers.items()
        if not isinstance(answer, StoreError) and set(answer.started) == set(of[host].servers)
    ]


def _remove_new(described: Record, hosts: Iterable[str]) -> None:
    """Remove what a deployment that failed left on hosts which had nothing before."""
    request = operations.Part(described.home, described.deployment)
    asking.ask(described.reach(), operations.REMOVE, dict.fromkeys(hosts, request))


def _forget(home: Home, *, with_key: bool) -> None:
    """Remove what this host keeps of a store, and the home if nothing else lies there."""
    record.forget(home)
    home.cluster.unlink(missing_ok=True)
    if with_key:
        home.site_key.unlink(missing_ok=True)
        for credential in home.credentials.glob("*.json"):
            credential.unlink(missing_ok=True)
    record.folder_of(home).remove_empty()
    home.remove_empty()


def _stop_new(home: Home, described: Record, answers: Mapping[str, "operations.Started | StoreError"]) -> None:
    """End the parts of those hosts on which every server was started by a deployment that failed."""
    fresh = _fresh(described, answers)
    request = operations.EndRequest(described.home, described.deployment, force=True, discard=False)
    asking.ask(described.reach(), operations.END, dict.fromkeys(fresh, request))
    steps.end(home, fresh)


def _sum(ended: Mapping[str, operations.EndedThere]) -> lifecycle.Ended:
    from pathlib import Path

    return lifecycle.Ended(
        sum(answer.servers for answer in ended.values()),
        tuple(Path(point) for answer in ended.values() for point in answer.mounts),
        sum(answer.lost_bytes for answer in ended.values()),
        tuple(f"{host}:{path}" for host, answer in ended.items() for path in answer.left),
    )
