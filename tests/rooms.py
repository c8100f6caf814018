"""A control room over a store, and a browser that looks at it."""

import http.client
import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest
import weir.store
from waits import PATIENCE_SECONDS

if TYPE_CHECKING:
    from email.message import Message

    from playwright.sync_api import Browser, Page

FORM = {"Content_Type": "application/x-www-form-urlencoded"}
"""Header of a form that is posted."""
PAGES = ("store", "jobs", "waits", "interference", "placement", "adaptive", "plans", "what-if")


@dataclass
class Room:
    """A room that is open."""

    entrance: str
    """Its address with the token."""
    process: "subprocess.Popen[str]"
    complaints: list[str] = field(default_factory=list)
    """Errors of scripts, and what the browser refused by the room's policy."""

    @property
    def base(self) -> str:
        """Its address without a path."""
        return self.entrance.partition("/?")[0]


@contextmanager
def room_of(store: weir.store.Store, *options: str) -> Iterator[Room]:
    """Open a room of a store on a free port."""
    with _opened(store, "--port", "0", *options) as room:
        assert room.entrance.startswith("http://"), words_of(store)
        yield room


@contextmanager
def room_at(store: weir.store.Store, place: Path, *options: str) -> Iterator[Room]:
    """Open a room of a store at a Unix socket."""
    with _opened(store, "--unix", str(place), *options) as room:
        assert room.entrance == str(place), words_of(store)
        yield room


def words_of(store: weir.store.Store) -> str:
    """The standard error of the rooms of a store."""
    return (store.home.parent / "room.err").read_text()


@contextmanager
def _opened(store: weir.store.Store, *options: str) -> Iterator[Room]:
    command = [sys.executable, "-m", "weir.cli", "--home", str(store.home), "room", *options]
    said = store.home.parent / "room.err"
    with said.open("a") as words, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=words, text=True) as process:
        try:
            assert process.stdout is not None
            yield Room(process.stdout.readline().strip(), process)
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            finally:
                process.kill()


@contextmanager
def browser() -> Iterator["Browser"]:
    """Start Debian's Chromium, which Playwright drives; without them the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the extra test brings playwright")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # The sandbox of Chromium does not start as root, nor in most containers.
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


@contextmanager
def visit(started: "Browser", room: Room, **context: Any) -> Iterator["Page"]:
    """Enter a room with a fresh session."""
    visited = started.new_context(**context)
    # Playwright's own bound of 30 s is met on a busy machine.
    visited.set_default_timeout(PATIENCE_SECONDS * 1000)
    page = visited.new_page()
    page.on("pageerror", lambda error: room.complaints.append(str(error)))
    page.on("console", lambda message: room.complaints.append(message.text) if message.type == "error" else None)
    try:
        page.goto(room.entrance)
        yield page
    finally:
        visited.close()


def go(page: "Page", room: Room, path: str) -> None:
    """Go to a page, and wait until its figures are drawn."""
    answer = page.goto(f"{room.base}/{path}")
    assert answer is not None and answer.status == 200, page.content()
    page.wait_for_selector("#room[data-drawn]", state="attached")


def faults(page: "Page") -> list[str]:
    """Serious faults that axe-core finds on a page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the extra test brings axe")
    script = Path(axe.__file__).with_name("axe.min.js")
    # The room's policy runs no script of others; the protocol of the browser may evaluate this one.
    session = page.context.new_cdp_session(page)
    session.send("Runtime.evaluate", {"expression": script.read_text()})
    question = {"expression": "axe.run().then(JSON.stringify)", "awaitPromise": True, "returnByValue": True}
    found = json.loads(session.send("Runtime.evaluate", question)["result"]["value"])
    return [
        f"{fault['id']}: {node['html']}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


@dataclass(frozen=True)
class Answer:
    """An answer of a room."""

    status: int
    headers: "Message"
    body: str


def asked(room: Room, path: str, method: str = "GET", body: str = "", **headers: str) -> Answer:
    """Ask a room without a browser."""
    connection = http.client.HTTPConnection(urlsplit(room.base).netloc, timeout=PATIENCE_SECONDS)
    with closing(connection):
        return _answer_to(connection, method, path, body, headers)


def _answer_to(
    connection: http.client.HTTPConnection, method: str, path: str, body: str, headers: dict[str, str]
) -> Answer:
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    found = connection.getresponse()
    return Answer(found.status, found.headers, found.read().decode())


class _OverSocket(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_SECONDS)
        self.sock.connect(str(self._path))


def asked_at(place: Path, path: str, **headers: str) -> Answer:
    """Ask a room that listens at a Unix socket."""
    with closing(_OverSocket(place)) as connection:
        return _answer_to(connection, "GET", path, "", headers)


def session_of(room: Room) -> str:
    """The cookie of a fresh session."""
    found = asked(room, room.entrance.removeprefix(room.base))
    assert found.status == 303
    cookie = found.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    return cookie.partition(";")[0]


def offered(room: Room, cookie: str, change: str, **parameters: str) -> str:
    """The confirmation that a page with a proposed change has."""
    shown = asked(room, f"/act/{change}?{urlencode(parameters)}", Cookie=cookie)
    assert shown.status == 200, shown.body
    found = re.search(r'name="offer" value="([\w-]+)"', shown.body)
    assert found is not None
    return found[1]
