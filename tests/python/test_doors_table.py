"""Each listener of the sources stands in the table of doors, and each role at each door has an attack or a reason."""

import re
from pathlib import Path

import doors
import pytest
from doors import DOORS, PROBES, ROLES, ROOT

ATTACKS = ROOT / "tests/end_to_end/test_adversary.py"


def test_every_listener_of_the_sources_is_in_the_table() -> None:
    """A new door needs a row with its proof, or whoever finds it first decides who gets in."""
    found = {*doors.rust_places(), *doors.python_places(), *doors.unit_places()}
    known = {place for door in DOORS.values() for place in door.places} | set(PROBES)
    assert found - known == set(), "listen there, and stand in no row of tests/doors.py"
    assert known - found == set(), "stand in tests/doors.py, and listen no more"


@pytest.mark.parametrize("name", DOORS)
def test_every_role_at_a_door_has_an_attack_or_a_reason(name: str) -> None:
    door = DOORS[name]
    assert not set(door.left) & set(door.elsewhere), "a role is played, or is not"
    assert {*door.left, *door.elsewhere} <= set(ROLES)
    assert all(door.left.values())
    for place in door.elsewhere.values():
        file, function = place.split(" ")
        assert re.search(rf"\b(?:fn|def) {function}\b", (ROOT / file).read_text()), place


def test_a_new_listener_is_found(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(
        "import socket\n"
        "class Web(ThreadingHTTPServer):\n    pass\n"
        "def one(s):\n    s.bind(('', 0))\n"
        "async def two():\n    await asyncio.start_server(print)\n"
        "def no(sql):\n    sql.event.listen(sql, 'connect', print)\n"
    )
    found = {place.rpartition(" ")[2] for place in doors.python_places(tmp_path)}
    assert found == {"Web", "one", "two"}
