"""The web application of the room: addresses, headers, sessions, and pages as HTML."""

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from aiohttp import web

from weir.errors import WeirError
from weir.plain_text import plain
from weir.room import assets
from weir.room.changes.kinds import CHANGES
from weir.room.changes.offers import Offers, check_right
from weir.room.doors import Rights, Sessions
from weir.room.errors import ForbiddenError, RoomError
from weir.room.figures import FIGURES, figure
from weir.room.html import Templates
from weir.room.looks import Look, look_at
from weir.room.pages import adaptive, interference, job, jobs, placement, plans, store, waits, what_if
from weir.room.panels import Page
from weir.room.refusals import Refusals
from weir.room.sources import Sources
from weir.room.visitors import Visitor
from weir.store.claims import acting_for
from weir.store.configuration import read_toml
from weir.ways import check_closed

_LOG = logging.getLogger("weir.room")
COOKIE = "weir_room"
"""Begin of the name of the session's cookie; browsers send cookies to all ports of a host, so the port ends it."""
_STATIC = Path(__file__).resolve().parent / "static"
_BODY_BYTES_MAX = 64 << 10
_AT_ONCE = 8
"""Most pages and figures that are made at once."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_REPORT_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'; sandbox",
    "X-Frame-Options": "SAMEORIGIN",
}
"""Headers of the page of `weir report`, which has its style within and no script."""
_CHANGES = "/act"
"""Begin of the paths of changes."""
_OPEN = ("/login", "/static/")
"""Paths that need no session."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Maker = Callable[[Sources, Look, Visitor], Page]

PAGES: dict[str, tuple[str, Maker, str]] = {
    "store": ("Store", store.page, "1h"),
    "jobs": ("Jobs", jobs.page, "10m"),
    "waits": ("Who waits for whom", waits.page, "10m"),
    "interference": ("Interference", interference.page, "1d"),
    "placement": ("Placement", placement.page, "1h"),
    "adaptive": ("Adaptive", adaptive.page, "1h"),
    "plans": ("Plans", plans.page, "1d"),
}
"""Pages that the moment alone describes: their titles, makers and usual stretches of time."""


@dataclass
class Room:
    """The application and what it shows.

    Attributes:
        sources: Where pages take their data from.
        hosts: Names by which browsers may call the room.
        rights: Who may do what over the Unix socket.
        sessions: Sessions over TCP.
        cookie: Name of their cookie.
    """

    sources: Sources
    hosts: set[str]
    rights: Rights
    sessions: Sessions = field(default_factory=Sessions)
    cookie: str = COOKIE
    _offers: Offers = field(default_factory=Offers)
    _refusals: Refusals = field(init=False)
    _templates: Templates = field(default_factory=Templates)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _replays: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def __post_init__(self) -> None:
        """Begin without refusals."""
        self._refusals = Refusals(self.sources.home)

    @property
    def scripts(self) -> Path:
        """The folder of the scripts of figures."""
        return self.sources.home.root / "room"

    def application(self) -> web.Application:
        """Make the application."""
        made = web.Application(middlewares=[self._guarded], client_max_size=_BODY_BYTES_MAX)
        made.router.add_get("/", self._first)
        made.router.add_get("/login", self._login)
        made.router.add_post("/login", self._log_in)
        for name in PAGES:
            made.router.add_get(f"/{name}", self._page)
        made.router.add_get("/job", self._job)
        made.router.add_get("/report", self._report)
        made.router.add_get("/what-if", self._what_if)
        made.router.add_get("/act/{change}", self._propose)
        made.router.add_post("/act", self._act)
        made.router.add_get("/figure/{name}", self._figure)
        made.router.add_get("/static/vega.js", self._vega)
        made.router.add_static("/static/", _STATIC)
        return made

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what no visitor may ask, and set the headers of each answer."""
        try:
            response = await self._allowed(request, handler)
        except web.HTTPException as answer:
            response = self._error(answer.status, answer.reason, "")
        except ForbiddenError as error:
            response = await self._refused(request, 403, error.message, error.hint or "")
        except WeirError as error:
            response = self._error(400, error.message, error.hint or "")
        except Exception:
            _LOG.exception("%s failed", request.path)
            response = self._error(500, "the room failed at this page", "its standard error says how")
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers["Server"] = "weir"
        return response

    async def _allowed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        visitor = request["visitor"] = await self._visitor(request)
        host = request.headers.get("Host", "")
        if host.lower() not in self.hosts:
            hint = "`weir room --allow-host NAME` admits a name"
            return await self._refused(request, 421, f"the room is not called {host!r}", hint)
        origin = request.headers.get("Origin")
        if request.method != "GET" and origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return await self._refused(request, 403, "another site may ask nothing here")
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        is_navigation = request.method == "GET" and request.headers.get("Sec-Fetch-Mode") == "navigate"
        if site not in ("same-origin", "none") and not is_navigation:
            return await self._refused(request, 403, "another site may ask nothing here")
        if visitor is None and not request.path.startswith(_OPEN):
            if token := request.query.get("token"):
                return self._entered(token, f"/{request.rel_url.raw_path.lstrip('/')}")
            if request.path == "/" or is_navigation:
                return _moved("/login")
            return await self._refused(request, 401, "no session", "open the address that `weir room` printed")
        return await handler(request)

    async def _refused(self, request: web.Request, status: int, message: str, hint: str = "") -> web.Response:
        """Refuse a request, and note it where it is for a change."""
        if request.path.startswith(_CHANGES):
            change = request.path.removeprefix(_CHANGES).lstrip("/")
            visitor = request["visitor"]
            known = change if change in CHANGES else "change"
            # The names by which a room is called are the caller's choice.
            reason = "no session" if visitor is None else "another name" if status == 421 else message
            await asyncio.to_thread(self._refusals.note, visitor, known, reason)
        return self._error(status, message, hint)

    async def _visitor(self, request: web.Request) -> Visitor | None:
        peer = request.transport.get_extra_info("socket") if request.transport else None
        if peer is not None and peer.family == socket.AF_UNIX:
            # The site's directory of users may take its time, which is no time of others.
            return await asyncio.to_thread(self.rights.visitor_of_socket, peer, request.headers)
        return self.sessions.visitor_of(request.cookies.get(self.cookie, ""))

    def _entered(self, token: str, path: str) -> web.Response:
        session = self.sessions.begin(token)
        if session is None:
            return self._html("login.html", status=403, problem="this is not the token of the room that runs now")
        response = _moved(path)
        response.set_cookie(self.cookie, session, httponly=True, samesite="Strict", path="/")
        return response

    async def _first(self, request: web.Request) -> web.Response:
        return _moved("/store")

    async def _login(self, request: web.Request) -> web.Response:
        return self._html("login.html", problem="")

    async def _log_in(self, request: web.Request) -> web.Response:
        given = await request.post()
        return self._entered(str(given.get("token", "")), "/store")

    async def _page(self, request: web.Request) -> web.Response:
        _, make, span = PAGES[request.path.lstrip("/")]
        look = look_at(request.query, span=span)
        made = await self._made(make, self.sources, look, request["visitor"])
        return self._shown(request, look, made)

    async def _job(self, request: web.Request) -> web.Response:
        look = look_at(request.query)
        name, user = unquote(request.query.get("name", "")), unquote(request.query.get("user", ""))
        made = await self._made(job.page, self.sources, look, request["visitor"], name, user)
        return self._shown(request, look, made, report=request["visitor"].sees_all)

    async def _report(self, request: web.Request) -> web.Response:
        look = look_at(request.query)
        name, user = unquote(request.query.get("name", "")), unquote(request.query.get("user", ""))
        text = await self._made(job.report, self.sources, look, request["visitor"], name, user)
        return web.Response(text=text, content_type="text/html", headers=_REPORT_HEADERS)

    async def _what_if(self, request: web.Request) -> web.Response:
        look = look_at(request.query)
        policy = request.query.get("policy", "").strip()
        configuration = self.sources.home.configuration
        document = dict(read_toml(configuration)) if configuration.exists() else {}
        if policy and self._replays.locked():
            raise RoomError("the room replays a stretch of time for somebody else", hint="ask again in a moment")
        async with self._replays:
            made = await self._made(what_if.page, self.sources, look, request["visitor"], policy, document)
        return self._shown(request, look, made, policies=what_if.POLICIES, policy=policy)

    async def _propose(self, request: web.Request) -> web.Response:
        """Show what a change would do."""
        change = CHANGES.get(request.match_info["change"])
        if change is None:
            raise web.HTTPNotFound
        check_right(request["visitor"], change.role)
        proposal = await self._made(change.propose, self.sources, request.query)
        offer = self._offers.add(self._owner(request), proposal)
        return self._asked(request, proposal.page, offer)

    async def _act(self, request: web.Request) -> web.Response:
        """Carry a confirmed proposal out."""
        visitor = request["visitor"]
        given = await request.post()
        proposal = self._offers.take(self._owner(request), str(given.get("offer", "")))
        with acting_for(f"weir room: {proposal.words}", visitor.user):
            page = await self._made(proposal.carry_out)
        _LOG.warning("%s, %s: %s", visitor.user, visitor.role.name.lower(), plain(proposal.words))
        return self._asked(request, page, "")

    def _asked(self, request: web.Request, page: Page, offer: str) -> web.Response:
        """Show a proposal, or what came of it."""
        visitor = request["visitor"]
        return self._html("confirm.html", page=page, offer=offer, look=look_at({}), visitor=visitor, changes=())

    def _owner(self, request: web.Request) -> str:
        """The session over TCP, and the user over the Unix socket; either ends with a role that is lost."""
        visitor = request["visitor"]
        return f"{visitor.user} {visitor.role.name} {request.cookies.get(self.cookie, '')}"

    async def _figure(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in FIGURES:
            raise web.HTTPNotFound
        look = look_at(request.query)
        made = await self._made(figure, name, self.sources, look, request["visitor"], request.query)
        if made is None:
            return web.Response(status=204)
        return web.json_response(made, dumps=lambda document: json.dumps(document, allow_nan=False))

    async def _vega(self, request: web.Request) -> web.FileResponse:
        path = await asyncio.to_thread(assets.vega, self.scripts)
        return web.FileResponse(path, headers={"Cache-Control": "private, max-age=86400"})

    async def _made(self, make: Callable[..., Any], *arguments: Any) -> Any:
        async with self._turns:
            return await asyncio.to_thread(make, *arguments)

    def _shown(self, request: web.Request, look: Look, page: Page, **further: Any) -> web.Response:
        return self._html(
            "page.html",
            page=page,
            look=look,
            path=request.path,
            titles={**{name: title for name, (title, _, _) in PAGES.items()}, "what-if": "What if"},
            kept={name: request.query.get(name, "") for name in ("name", "user", "policy") if name in request.query},
            visitor=request["visitor"],
            changes=[name for name, change in CHANGES.items() if request["visitor"].role >= change.role],
            **further,
        )

    def _error(self, status: int, message: str, hint: str) -> web.Response:
        return self._html("error.html", status=status, message=message, hint=hint)

    def _html(self, template: str, *, status: int = 200, **values: Any) -> web.Response:
        text = self._templates.render(template, status=status, **values)
        return web.Response(status=status, text=text, content_type="text/html")


def _moved(path: str) -> web.Response:
    """Lead a browser to a path of the room."""
    return web.Response(status=303, headers={"Location": path})


async def serve(room: Room, *, host: str, port: int, unix: Path | None, ready: Callable[[str], None]) -> None:
    """Serve a room until the task is cancelled.

    Args:
        port: 0 takes a free one.
        unix: A Unix socket in place of TCP.
        ready: Takes the address once the room listens there.

    Raises:
        RoomError: The address cannot be had.
    """
    bound: int | None = None
    runner = web.AppRunner(room.application(), access_log=None)
    await runner.setup()
    try:
        if unix is not None:
            await _listen_unix(runner, unix)
            bound = unix.stat().st_ino
            ready(str(unix))
        else:
            taken = await _listen_tcp(runner, host, port)
            room.cookie = f"{COOKIE}_{taken}"
            room.hosts |= {f"{name}:{taken}" for name in ("127.0.0.1", "localhost", "[::1]", host)}
            shown = f"[{host}]" if ":" in host else host
            ready(f"http://{shown}:{taken}/?token={room.sessions.token}")
        await asyncio.to_thread(assets.vega, room.scripts)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
        # Another room may have put its own socket there meanwhile.
        if unix is not None and bound is not None and unix.exists() and unix.stat().st_ino == bound:
            unix.unlink()


async def _listen_tcp(runner: web.AppRunner, host: str, port: int) -> int:
    site = web.TCPSite(runner, host, port, reuse_address=True)
    try:
        await site.start()
    except OSError as error:
        hint = "another program listens there; choose another port, or 0 for any"
        raise RoomError(f"cannot listen at {host}:{port}: {error.strerror}", hint=hint) from error
    return int(runner.addresses[0][1])


async def _listen_unix(runner: web.AppRunner, path: Path) -> None:
    """Listen at a socket that every user may connect to, in the place of one that a killed room left."""
    check_closed(path.parent)
    hint = "a path of at most 100 bytes in a folder that is there"
    try:
        if _is_answered(path):
            raise RoomError(f"another room listens at {path}", hint="end it, or name another socket")
        await web.UnixSite(runner, str(path)).start()
        path.chmod(0o666)
    except OSError as error:
        raise RoomError(f"cannot listen at {path}: {error.strerror or error}", hint=hint) from error


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        return path.is_socket() and probe.connect_ex(str(path)) == 0
