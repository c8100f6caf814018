"""Attacks of an adversary on the doors of a store, by door and role.

`program.py` is the adversary, `world.py` the store, and each other module has the attacks on some doors. An attack
returns where the adversary got nothing; `tests/end_to_end/test_adversary.py` then looks whether the store is whole.
"""

from collections.abc import Callable

from attacks.world import World

Attack = Callable[[World], None]
ATTACKS: dict[tuple[str, str], Attack] = {}
"""Each attack by its door and its role."""


def attack(door: str, *roles: str) -> Callable[[Attack], Attack]:
    """Enter a function that plays roles at a door."""

    def enter(function: Attack) -> Attack:
        ATTACKS.update({(door, role): function for role in roles})
        return function

    return enter
