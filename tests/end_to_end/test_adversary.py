"""An adversary at every door: nothing is carried out with rights, no secret leaves, work goes on, and nothing is lost.

`tests/doors.py` has the doors and the roles, `tests/attacks` what the adversary does. The adversary is another user
where the tests run as root. After each attack the store is as it was, and the honest user works on it.
"""

from collections.abc import Iterator

import pytest
from attacks import ATTACKS, on_data, on_figures_and_control, on_this_host
from attacks.world import World, world
from doors import DOORS

MODULES = (on_data, on_figures_and_control, on_this_host)
PAIRS = [(name, role) for name, door in DOORS.items() for role in door.attacked]


@pytest.fixture(scope="module")
def attacked() -> Iterator[World]:
    with world() as made:
        yield made


def test_every_role_that_is_not_left_has_an_attack() -> None:
    assert set(PAIRS) == set(ATTACKS), MODULES


def test_every_trick_of_the_adversary_works_where_it_may(attacked: World) -> None:
    """Else no failure of a trick would say anything."""
    place = attacked.folder / "socket"
    with attacked.adversary("listen", "ends", str(place)) as squatter:
        assert squatter.at
        (told,) = attacked.told("take", squatter.at)
    assert {"removed", "bound", "bound beside", "linked over"} <= set(told["worked"])
    for left in (place, place.with_name("beside")):
        left.unlink()


@pytest.mark.parametrize(("door", "role"), PAIRS, ids=lambda word: word.replace(" ", "-"))
def test_an_adversary_gets_nothing_and_breaks_nothing(attacked: World, door: str, role: str) -> None:
    ATTACKS[door, role](attacked)
    attacked.check_whole()
