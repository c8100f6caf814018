"""The planner as a process: its parts made, its deployments taken up again, and its end."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import stat
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path

from weir.planner.errors import PlannerError
from weir.planner.helpers import Helpers
from weir.planner.ledger import Ledger, now
from weir.planner.lives import Lives
from weir.planner.orphans import Orphans
from weir.planner.places import reserved
from weir.planner.plans import Plans
from weir.planner.records import ORDER
from weir.planner.server import Server, listen
from weir.planner.service import Service
from weir.planner.settings import DESCRIPTORS, Settings
from weir.planner.site import Site
from weir.planner.steps import Steps
from weir.planner.stores import open_store
from weir.planner.tables import read_tables
from weir.ways import check_closed

_CLAIM_SECONDS = 3.0
"""Time between two renewals of the claim; that of Redis holds for three of them."""
_CLAIM_FAULTS_MAX = 20
"""Renewals in a row that may fail, because a database is restarted, before the planner ends."""
_TIDY_SECONDS = 60.0
_LOG = logging.getLogger("weir.planner")


def run(settings: Settings) -> None:
    """Run the planner in the foreground until SIGTERM or SIGINT.

    Args:
        settings: The administrator's choices.

    Raises:
        WayError: Another user could change a file that the planner reads, or put another in its place.
        PlannerError: A part cannot be used; nothing was started then.
        ProvisioningError: The resource model or a table cannot be used.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if most == resource.RLIM_INFINITY else min(DESCRIPTORS, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    asyncio.run(_run(settings))


async def _run(settings: Settings) -> None:
    _check_steps(settings.steps)
    for path in (settings.resources, settings.prices, settings.factors, settings.socket.parent):
        if path is not None:
            check_closed(path)
    tables = read_tables(
        settings.prices,
        settings.factors,
        sharers_room=settings.sharers_room,
        new_class_fitness=settings.new_class_fitness,
    )
    folders = _prepare(settings.state)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    store = await asyncio.to_thread(open_store, settings.database)
    ledger = Ledger(store)
    helpers = Helpers(tables)
    try:
        await ledger.load()
        site = Site(ledger, _model(settings), share_max=settings.share_max)
        plans = Plans(ledger, site, helpers)
        steps = Steps(settings.steps, folders, settings.reach)
        lives = Lives(ledger, plans, site, steps, settings)
        orphans = Orphans(ledger, lives, steps, settings.orphan_seconds)
        service = Service(settings, ledger, plans, site, steps, lives)
        server = Server(service, settings.scheduler_user)
        await helpers.start()
        async with (
            _bound(settings.socket) as listener,
            _bound(reserved(settings.socket), owner=_reserve_owner(settings)) as reserve,
            server.listening(reserve, listener),
        ):
            lives.resume()
            _LOG.info("planner on %s with %d deployments", settings.socket, sum(1 for _ in ledger.all()))
            _tell_supervisor()
            async with _upkeep(settings, ledger, site, orphans, ended) as failed:
                await ended.wait()
            await lives.end()
            await steps.end()
        if failed:
            raise failed[0]
    finally:
        await helpers.end()
        await ledger.close()


def _reserve_owner(settings: Settings) -> int:
    """The user of the reserved socket. Root needs no right to it, and only root can give it away."""
    own = os.geteuid()
    return own if own != 0 or settings.scheduler_user is None else settings.scheduler_user


@contextlib.asynccontextmanager
async def _bound(path: Path, *, owner: int | None = None) -> AsyncIterator[socket.socket]:
    listener = listen(path, owner=owner)
    own = path.stat().st_ino
    try:
        yield listener
    finally:
        with contextlib.suppress(OSError):
            # Another planner's socket may lie there meanwhile.
            if path.stat().st_ino == own:
                path.unlink()


@contextlib.asynccontextmanager
async def _upkeep(
    settings: Settings, ledger: Ledger, site: Site, orphans: Orphans, ended: asyncio.Event
) -> AsyncIterator[list[PlannerError]]:
    """Renew the claim and tidy up within the block; a claim that is lost ends the planner."""
    failed: list[PlannerError] = []

    async def keep() -> None:
        faults, tidied, told = 0, now(), ""
        while True:
            await asyncio.sleep(_CLAIM_SECONDS)
            try:
                await ledger.keep_claim()
                faults = 0
                await ledger.let_go(now() - settings.hold_seconds)
                if now() - tidied > _TIDY_SECONDS:
                    tidied = now()
                    await ledger.tidy(tidied)
            except PlannerError as error:
                faults += 1
                _LOG.warning("%s", error.message)
                if "another planner" in error.message or faults >= _CLAIM_FAULTS_MAX:
                    failed.append(error)
                    ended.set()
                    return
            if site.error != told:
                told = site.error
                if told:
                    _LOG.warning("%s; the resource model before it holds", told)

    tasks = [asyncio.ensure_future(keep()), asyncio.ensure_future(orphans.watch())]
    try:
        yield failed
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _prepare(state: Path) -> Path:
    """Make the folder of the state; the users' folders lie in one that they may pass."""
    check_closed(state)
    try:
        state.mkdir(mode=0o711, parents=True, exist_ok=True)
        found = state.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise PlannerError(
                f"{state} is no folder of this user",
                hint="another user could change the planner's data: give it an own folder by `state`",
            )
        folders = state / "users"
        folders.mkdir(mode=0o711, exist_ok=True)
        folders.chmod(0o711)
    except OSError as error:
        raise PlannerError(f"{state} cannot be used: {error.strerror or error}", hint="see `state`") from error
    return folders


def _tell_supervisor() -> None:
    """Tell systemd that requests are answered, if it waits for the word (sd_notify(3))."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place:
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notice,
            contextlib.suppress(OSError),
        ):
            notice.settimeout(1.0)
            notice.sendto(b"READY=1", "\0" + place[1:] if place.startswith("@") else place)


def _check_steps(name: str) -> None:
    try:
        module = import_module(name)
    except ImportError as error:
        raise PlannerError(f"the steps {name} cannot be used: {error}", hint="see `steps`") from error
    lacking = [step for step in ORDER if not callable(getattr(module, step, None))]
    if lacking:
        raise PlannerError(f"the module {name} has no {', '.join(lacking)}", hint="see docs/reference/planner.md")


def _model(settings: Settings) -> Path:
    if settings.resources is None:
        raise PlannerError(
            "no resource model is given", hint="`resources` names the nodes and devices of the site; see docs/guides"
        )
    return settings.resources
