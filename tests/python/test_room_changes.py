"""Changes in the control room: after a look and a confirmation, by those alone who may, and in the store's audit."""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import weir.store
from hogged import configuration, hog_at_work
from recorded import answer, document
from rooms import FORM, Room, asked, asked_at, browser, faults, go, offered, room_at, room_of, session_of, visit
from waits import wait_until
from weir.room.changes.kinds import CHANGES
from weir.room.changes.limit import SECONDS, spelled
from weir.room.visitors import Role

OWNER = pwd.getpwuid(os.geteuid()).pw_name
PARAMETERS: dict[str, dict[str, str]] = {
    "policy": {"policy": "job-fair"},
    "limit": {"job": "hog bob", "limit": "20%"},
    "quota": {"kind": "group", "name": "4242", "bytes": "1GiB", "inodes": "none"},
    "drain": {"target": "0.1"},
    "open": {"target": "0.0"},
    "speed": {"target": "0.0", "read": "100MB/s"},
}
"""Parameters of each change."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[weir.store.Store]:
    """A store of one server with three targets in files."""
    folder = tmp_path_factory.mktemp("changed")
    with weir.store.up(home=folder / "home", targets=3, backend="dir", mount=False) as store:
        yield store
        store.down(discard=True)


@pytest.fixture(scope="module")
def room(kept: weir.store.Store) -> Iterator[Room]:
    with room_of(kept) as room:
        yield room


def confirm(room: Room, cookie: str, change: str, **parameters: str) -> str:
    """Confirm a change, and give the page that says what came of it."""
    offer = offered(room, cookie, change, **parameters)
    done = asked(room, "/act", "POST", f"offer={offer}", Cookie=cookie, **FORM)
    assert done.status == 200, done.body
    return done.body


def audited(store: weir.store.Store, kind: str) -> list[dict[str, Any]]:
    """The entries of a kind in the audit of a store."""
    return [each for each in document(store, "audit")["entries"] if each["kind"] == kind]


def limits_of(store: weir.store.Store, uid: int | None) -> tuple[int | None, int | None]:
    """Bytes and inodes that a user may have; None is every user."""
    owners = document(store, "quota", "show")["owners"]
    (owner,) = [each for each in owners if (each["kind"], each["id"]) == ("user", uid)]
    return owner["bytes_max"], owner["inodes_max"]


def test_limits_of_a_user_are_changed_and_the_audit_names_the_visitor(kept: weir.store.Store, room: Room) -> None:
    cookie, before = session_of(room), len(audited(kept, "quota"))
    confirm(room, cookie, "quota", kind="user", name="4711", bytes="1GiB")
    confirm(room, cookie, "quota", kind="user", name="4711", inodes="500")
    assert limits_of(kept, 4711) == (1 << 30, 500)
    again = asked(room, f"/act/quota?{urlencode({'kind': 'user', 'name': '4711', 'inodes': '500'})}", Cookie=cookie)
    assert again.status == 400
    assert "these are the limits" in again.body
    first, second = audited(kept, "quota")[before:]
    for entry in (first, second):
        assert entry["claimed_request_of"] == OWNER
        assert entry["claimed_command"].startswith("weir room: quota of user 4711")


def test_a_target_is_drained_and_leaves(kept: weir.store.Store, room: Room) -> None:
    kept.run(["sh", "-c", "for i in 1 2 3 4 5 6; do echo $i > /weir/f$i; done"], check=True)
    cookie = session_of(room)
    assert "is being emptied" in confirm(room, cookie, "drain", target="0.1")

    def states() -> dict[str, str]:
        return {each["target"]: each["state"] for each in document(kept, "targets")["targets"]}

    wait_until("the target has left", lambda: states().get("0.1", "retired") == "retired")
    read = kept.run(["sh", "-c", "cat /weir/f*"], check=True, capture_output=True)
    assert read.stdout.split() == [b"1", b"2", b"3", b"4", b"5", b"6"]
    for name, reason in (("0.1", "has no target"), ("9.9", "has no target"), ("<b>", "not a target")):
        refused = asked(room, f"/act/drain?{urlencode({'target': name})}", Cookie=cookie)
        assert refused.status == 400
        assert reason in refused.body


def test_a_target_that_leaves_is_opened_again(kept: weir.store.Store, room: Room) -> None:
    cookie = session_of(room)
    kept.servers[0].set_target_state("0.2", "retiring")
    assert "is open again" in confirm(room, cookie, "open", target="0.2")
    (state,) = [each["state"] for each in document(kept, "targets")["targets"] if each["target"] == "0.2"]
    assert state == "open"
    assert asked(room, "/act/open?target=0.2", Cookie=cookie).status == 400


def test_a_speed_is_emulated_and_ends(kept: weir.store.Store, room: Room) -> None:
    cookie, before = session_of(room), len(audited(kept, "target speed"))
    confirm(room, cookie, "speed", target="0.0", read="100MB/s", write="50MB/s")
    confirm(room, cookie, "speed", target="0.0")
    first, second = (each["after"] for each in audited(kept, "target speed")[before:])
    assert "50MB/s" in first
    assert "MB/s" not in second
    assert asked(room, "/act/speed?target=0.0&read=soon", Cookie=cookie).status == 400


def test_a_job_is_limited_for_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(configuration("job-fair"))
    with weir.store.up(file, home=tmp_path / "home", mount=False) as store, room_of(store) as room, hog_at_work(store):
        cookie = session_of(room)
        wait_until("the hog works", lambda: any(job.job == "hog" and job.operations for job in store.jobs()))
        assert "is limited" in confirm(room, cookie, "limit", job=spelled("hog", "bob"), limit="20%")
        lease = store.servers[0].lease()
        assert 0 < lease.seconds <= SECONDS
        assert [(job.job, job.limit) for job in lease.jobs] == [("hog", 0.2)]
        leased = asked(room, f"/act/limit?{urlencode({'job': 'hog bob', 'limit': '10%'})}", Cookie=cookie)
        assert leased.status == 400
        assert "a lease is in force" in leased.body
        store.servers[0].set_lease(None, [], 0.0)
        nobody = asked(room, f"/act/limit?{urlencode({'job': 'none bob', 'limit': '10%'})}", Cookie=cookie)
        assert "knows no such job" in nobody.body


def test_pages_offer_what_their_visitor_may_change(kept: weir.store.Store, room: Room) -> None:
    with browser() as chromium, visit(chromium, room) as page:
        go(page, room, "store")
        assert faults(page) == []
        page.locator("form[action='/act/quota'] select").select_option("every user")
        page.locator("form[action='/act/quota'] input[name=bytes]").fill("3GiB")
        page.click("text=Change limits")
        assert page.locator("h1").inner_text() == "Change the limits of every user"
        assert faults(page) == []
        page.click("text=Change it")
        page.wait_for_selector("h1:has-text('The limits are changed')")
    assert limits_of(kept, None) == (3 << 30, None)
    answer(kept, "quota", "set", "--every-user", "--unset")
    assert room.complaints == []


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_without_its_right_is_refused_and_audited(kept: weir.store.Store, change: str, tmp_path: Path) -> None:
    """No session, a forged session, a forged confirmation, another site, and too low a role."""
    path, socket = f"/act/{change}?{urlencode(PARAMETERS[change])}", tmp_path / "room.sock"
    cross = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Origin": "https://evil.example"}
    before = {kind: len(audited(kept, kind)) for kind in ("policy", "lease", "quota", "target state", "target speed")}
    with room_of(kept) as room:
        cookie = session_of(room)
        assert asked(room, path).status == 401
        assert asked(room, path, Cookie="weir_room=forged").status == 401
        assert asked(room, "/act", "POST", "offer=forged", Cookie=cookie, **FORM).status == 403
        assert asked(room, path, "POST", "", Cookie=cookie, **FORM, **cross).status == 403
        assert asked(room, path, Cookie=cookie, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="cors").status == 403
    viewer = next(each.pw_name for each in pwd.getpwall() if each.pw_uid not in (0, os.geteuid()))
    with room_at(kept, socket, "--proxy-user", OWNER, "--proxy-header", "X-User"):
        found = asked_at(socket, path, X_User=viewer)
    assert found.status == 403
    assert "a viewer may not change this" in found.body
    assert CHANGES[change].role > Role.VIEWER
    assert before == {kind: len(audited(kept, kind)) for kind in before}
    refusals = [each for each in audited(kept, "room refusal") if each["object"] in (change, "change")]
    assert {each["outcome"] for each in refusals} == {"refused"}
    told = {(each["claimed_request_of"], each["reason"].partition(" ")[0]) for each in refusals}
    assert told >= {("nobody", "no"), (OWNER, "this"), (OWNER, "another"), (viewer, "a")}
