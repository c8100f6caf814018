"""The power of two choices (Mitzenmacher, IEEE TPDS 12, 2001)."""

import random
from collections.abc import Sequence
from typing import Protocol


class Target(Protocol):
    """The fields of `weir.plugins.allocator.Target` that are looked at."""

    @property
    def speed(self) -> float: ...
    @property
    def load_bytes(self) -> float: ...


class Demand(Protocol):
    """The fields of `weir.plugins.allocator.Demand` that are looked at."""

    @property
    def stripes(self) -> int: ...
    @property
    def stripe_bytes(self) -> int: ...


class TwoChoices:
    """Draws two targets for each stripe, and takes the one that would be done sooner."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def allocate(self, targets: Sequence[Target], demands: Sequence[Demand]) -> list[list[int]]:
        loads = [target.load_bytes for target in targets]
        chosen = []
        for demand in demands:
            left = list(range(len(targets)))
            own: list[int] = []
            for _ in range(demand.stripes):
                drawn = self._dice.sample(left, min(2, len(left)))
                best = min(drawn, key=lambda place: (loads[place] + demand.stripe_bytes) / targets[place].speed)
                left.remove(best)
                loads[best] += demand.stripe_bytes
                own.append(best)
            chosen.append(own)
        return chosen
