"""The life of a store as a whole: it is brought up, goes on after the loss of servers or mounts, and is taken down.

Callers of these functions hold no lock: each function takes the lock of the home for as long as it changes the home.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.store import auditing, cluster, configuration, machine, mounts, settings
from weir.store.access import servers_at
from weir.store.audits import ToldEntry
from weir.store.configuration import Configuration
from weir.store.errors import StoreError
from weir.store.home import Home, not_a_home
from weir.store.identity import LASTING_SECONDS, Identity
from weir.store.notices import Listener, Notice
from weir.ways import write_whole


@dataclass(frozen=True)
class Mounting:
    """The wanted mount of a store."""

    is_wanted: bool = True
    point: Path | None = None
    """Mount point; None is the place in the home, and no mount where none can be made."""


@dataclass(frozen=True)
class Running:
    """A store that is up."""

    configuration: Configuration
    servers: list[dict[str, Any]]
    """Addresses of the servers, as in cluster.json."""
    mount: Path | None
    """Mount point; None where the store is not mounted."""


@dataclass(frozen=True)
class Ended:
    """The parts of a store that were ended."""

    servers: int
    """Number of servers that ran."""
    mounts: tuple[Path, ...]
    """Mount points that were unmounted."""
    lost_bytes: int
    """Bytes that were on targets in memory."""
    left: tuple[str, ...]
    """Folders of targets outside of the home, whose files are left."""


def configured_by(home: Home, file: Path | None, given: Mapping[str, object]) -> Path | None:
    """Find the file whose settings a store has, or would have once it is up.

    Args:
        home: Home of the store, which need not exist.
        file: The file that the user named; None is the store that is up or lies in the home, or else the embedded
            store.
        given: Values by the name of the setting; None where a setting is not given.

    Returns:
        The file; None is the embedded store.
    """
    shapes = (settings.SERVERS, settings.TARGETS, settings.BACKEND)
    if file is not None or any(given.get(setting.name) is not None for setting in shapes):
        return file
    is_there = cluster.stored(home) is not None or (home.cluster.is_file() and not cluster.is_down(home))
    return home.configuration if is_there else None


def plan(home: Home, file: Path | None, given: Mapping[str, object], origin: Callable[[str], str]) -> Configuration:
    """Find the configuration to start.

    Args:
        home: Home of the store, which need not exist.
        file: A cluster.toml; None is the store that lies in the home, or else the embedded store.
        given: Values by the name of the setting; None where a setting is not given.
        origin: Called with the name of a given setting; tells its origin, such as `flag`.

    Returns:
        The configuration, which the server has checked.

    Raises:
        SettingsError: The file, or a setting, cannot be used.
    """
    decisions = (settings.POLICY, settings.SCHEDULER, settings.ALLOCATOR)
    file = configured_by(home, file, given)
    resolved = configuration.resolve(file, given, origin)
    _name_sharing(resolved, file)
    # The store's own file is no new decision: what was set since then counts.
    is_own = file is not None and file.is_relative_to(home.root)
    if not is_own or any(given.get(setting.name) is not None for setting in decisions):
        resolved.document[configuration.DECIDED] = time.time_ns() // 1_000_000
    configuration.check(resolved, file)
    return resolved


def bring_up(
    home: Home,
    wanted: Configuration,
    mounting: Mounting,
    listener: Listener,
    *,
    accept_journal_loss: bool = False,
) -> Running:
    """Start the servers of a store and mount it. Of a store that is up, start the servers and mounts that died.

    Args:
        home: Home of the store; it is made.
        wanted: Configuration to start. A store that is up keeps its own.
        mounting: The wanted mount.
        listener: Called with further notices for the user.
        accept_journal_loss: Whether to start also servers whose journals lost changes that were on stable storage.

    Returns:
        The store as it runs.

    Raises:
        StoreError: The store does not come up, and nothing of it is left running; or it is up already, and whole.
        OSError: The home cannot be written.
    """
    home.create()
    running = _bring_up(home, wanted, mounting, listener, accept_journal_loss=accept_journal_loss)
    after = f"up: {len(running.servers)} servers"
    auditing.tell(home, ToldEntry("deployment", str(home.root), after=after), listener)
    return running


def _bring_up(
    home: Home, wanted: Configuration, mounting: Mounting, listener: Listener, *, accept_journal_loss: bool
) -> Running:
    with home.locked():
        servers = _go_on(home, listener, is_mounted=mounting.is_wanted, accept_journal_loss=accept_journal_loss)
        if servers is not None:
            served = [mount.point for mount in mounts.mounts_of(home) if mount.is_served()]
            mounted = served[0] if served else _mount(home, mounting, listener)
            return Running(cluster.running(home), servers, mounted)
        for mount in mounts.mounts_of(home):
            mounts.stop(mount, force=True)
        cluster.stop(home)
        _refuse_other_shape(home, wanted)
        machine.check(home, wanted)
        _check_mounting(home, mounting)
        _make_site_key(home)
        mint_credentials(home)
        servers = cluster.start(home, wanted, listener, accept_journal_loss=accept_journal_loss)
        try:
            return Running(wanted, servers, _mount(home, mounting, listener))
        except BaseException:
            cluster.stop(home)
            raise


def check(home: Home, wanted: Configuration, mounting: Mounting, *, accept_journal_loss: bool = False) -> None:
    """Decide whether `bring_up` would start a configuration, without starting or changing anything.

    Args:
        home: Home of the store, which need not exist.
        wanted: A configuration that the server has checked.
        mounting: The wanted mount.
        accept_journal_loss: As for `bring_up`.

    Raises:
        StoreError: The home holds a store of another shape, this machine cannot run the configuration, the store
            cannot be mounted at the place that is named, or a folder of the store is not the one it should be.
    """
    if home.root.is_dir() and any(home.root.iterdir()) and not home.exists():
        raise not_a_home(home.root)
    _refuse_other_shape(home, wanted)
    if not home.cluster.is_file() or cluster.is_down(home):
        machine.check(home, wanted)
        _check_mounting(home, mounting)
    cluster.check_places(home, wanted, accept_journal_loss=accept_journal_loss)


def take_down(home: Home, *, force: bool, discard: bool, token: str = "") -> Ended:
    """Unmount a store and stop its servers.

    Args:
        force: Whether to unmount also where a program uses the mount.
        discard: Whether to remove the store's files in its home, too.
        token: With `discard`, the mark of folders of targets outside of the home that go, too, as of `cluster.discard`.

    Returns:
        The ended parts; none for a store that was not up.

    Raises:
        StoreError: There is no store in the home, a program uses the mount, or a marked folder cannot be removed.
    """
    if not home.exists():
        raise StoreError(f"there is no store in {home.root}", hint="set WEIR_HOME to that of the store")
    if _is_here_alone(home):
        auditing.tell(home, ToldEntry("deployment", str(home.root), before="up", after="down"))
    with home.locked():
        lost = _used_memory(home)
        unmounted = _unmount(home, force=force)
        stopped = cluster.stop(home)
        left = cluster.discard(home, token) if discard else []
    return Ended(stopped, tuple(unmounted), lost, tuple(left))


def remove(home: Home) -> None:
    """Take a store down and remove its files, without asking its servers; it works while this program ends, too.

    Args:
        home: Home of the store; without one, nothing happens.

    Raises:
        StoreError: The store cannot be unmounted, or another command holds its home.
    """
    if home.exists():
        with home.locked():
            _unmount(home, force=True)
            cluster.stop(home)
            cluster.discard(home)


def mint_credentials(home: Home) -> None:
    """Mint the credential of the mount, and that of this user's programs outside of `weir run`.

    Args:
        home: Home of the store, which has its key.

    Raises:
        StoreError: The key cannot be read.
    """
    site_key = home.read_site_key()
    if site_key is None:
        raise StoreError(f"cannot read {home.site_key}", hint="the user who brought the store up is its owner")
    mine = Identity.of_process("default")
    # Only root's mount is for every user, so only it speaks for others.
    mount = Identity.of_process("mount").narrowed(role="mount" if os.geteuid() == 0 else "user")
    write_whole(home.credentials / f"uid-{mine.uid}.json", mine.mint(site_key, LASTING_SECONDS))
    write_whole(home.credentials / "mount.json", mount.mint(site_key, LASTING_SECONDS))


def _unmount(home: Home, *, force: bool) -> list[Path]:
    """Unmount a store from everywhere; return its mount points."""
    unmounted = []
    for mount in mounts.mounts_of(home):
        mounts.stop(mount, force=force)
        unmounted.append(mount.point)
    return unmounted


def _name_sharing(wanted: Configuration, file: Path | None) -> None:
    """Refuse a wrong policy or scheduler before anything is started, and write down their canonical names."""
    document = wanted.document
    policy, scheduler = document.get("policy"), document.get("scheduler")
    if not isinstance(policy, str) or not isinstance(scheduler, str | None):
        # A policy of another type is refused by the server, which names the line.
        return
    is_filed = str(file) in (wanted.origins.get("policy"), wanted.origins.get("scheduler"))
    names = configuration.check_sharing(policy, scheduler, str(file) if is_filed else "")
    document["policy"] = names[0]
    if scheduler is not None:
        document["scheduler"] = names[1]


def _go_on(
    home: Home, listener: Listener, *, is_mounted: bool, accept_journal_loss: bool
) -> list[dict[str, Any]] | None:
    """Deal with a store that is up: start servers and mounts again that died, and refuse where none did.

    Returns:
        The addresses of a store that goes on; None where no store is up.
    """
    if not home.cluster.is_file() or cluster.is_down(home):
        return None
    numbers = cluster.dead_servers(home)
    lost = mounts.lost(home) if is_mounted else []
    if not numbers and not lost:
        raise _already_up(home)
    addresses = (
        cluster.restart(home, numbers, listener, accept_journal_loss=accept_journal_loss)
        if numbers
        else cluster.published(home)
    )
    if numbers:
        listener(Notice(f"started again: {', '.join(f'server {number}' for number in numbers)}"))
    for mount in lost:
        mounts.start_again(home, mount)
        listener(Notice(f"mounted again: {mount.point}"))
    return addresses


def _already_up(home: Home) -> StoreError:
    stopped = cluster.stopped_journals(home)
    if stopped:
        which = "; ".join(f"server {number}: {error}" for number, error in stopped)
        return StoreError(
            f"the store in {home.root} is up, but takes no changes where a journal stopped: {which}",
            hint="reads go on, and the journal begins anew by itself once its device works; see `weir status`",
        )
    return StoreError(f"the store in {home.root} is already up", hint="see `weir status`; end it with `weir down`")


def _refuse_other_shape(home: Home, wanted: Configuration) -> None:
    stored = cluster.stored(home)
    if stored is not None and stored.shape() != wanted.shape():
        raise StoreError(
            f"{home.root} holds a store of other servers and targets",
            hint="leave them as they are, choose another `home`, or remove its files with `weir down --discard`",
        )


def _make_site_key(home: Home) -> None:
    if home.read_site_key() is None:
        write_whole(home.site_key, os.urandom(32).hex() + "\n")


def _mount(home: Home, mounting: Mounting, listener: Listener) -> Path | None:
    """Mount the store. Where it cannot be mounted, and no mount point was named, notify the user and go on."""
    if not mounting.is_wanted:
        return None
    problem = mounts.device_problem()
    if problem and mounting.point is None:
        listener(
            Notice(
                f"the store is not mounted: {problem}",
                hint="programs reach it with `weir run --prefix /weir -- CMD`",
            )
        )
        return None
    chosen = (mounting.point or home.mount_point).absolute()
    mounts.start(home, chosen, cluster=home.cluster, credential=home.credentials / "mount.json")
    return chosen


def _check_mounting(home: Home, mounting: Mounting) -> None:
    """Refuse a mount that `_mount` could not make."""
    if mounting.is_wanted and (mounting.point is not None or not mounts.device_problem()):
        mounts.check(home, (mounting.point or home.mount_point).absolute())


def _is_here_alone(home: Home) -> bool:
    """Whether a store has all of its servers on this host. That of several hosts is the deploying host's to tell of."""
    return home.cluster.is_file() and {server.number for server in servers_at(home)} <= set(home.server_numbers())


def _used_memory(home: Home) -> int:
    """Bytes on `ram` targets of those servers of this host that answer."""
    if not home.cluster.is_file():
        return 0
    from weir.store.control import Server, ask_all

    own = set(home.server_numbers())
    answers = ask_all([server for server in servers_at(home) if server.number in own], Server.status)
    targets = [target for answer in answers if not isinstance(answer, StoreError) for target in answer.targets]
    return sum(target.used_bytes for target in targets if target.backend == "ram")
