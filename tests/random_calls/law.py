"""The law: a sequence of random calls has the same answers on a store as on tmpfs, whichever way each client goes."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from random_calls.expected import is_expected
from random_calls.players import Place
from random_calls.steps import Step, Steps

LENGTH = 100
"""Steps of a sequence: longer ones find little more, and are harder to shrink."""
TRIES_MAX = 400
"""Sequences that are played to shrink one."""


@dataclass(frozen=True)
class Difference:
    """A sequence whose last step has another answer on the store."""

    seed: int
    kept: tuple[int, ...]
    """The numbers of the steps, in the sequence of the seed."""
    steps: tuple[Step, ...]
    right: str
    """The answer on tmpfs."""
    wrong: str
    names: tuple[str, ...]
    """Of the clients."""

    def __str__(self) -> str:
        lines = [f"    {self.names[step.client]:14} {step.words}" for step in self.steps]
        right, wrong = _apart(self.right, self.wrong)
        keep = ",".join(map(str, self.kept))
        replay = f"PYTHONPATH=tests .venv/bin/python -m random_calls --seed {self.seed} --keep {keep}"
        return "\n".join([f"seed {self.seed}:", *lines, f"  tmpfs: {right}", f"  store: {wrong}", f"  {replay}"])


def sequence(seed: int, can_map: Sequence[bool]) -> list[Step]:
    """The sequence of a seed."""
    return Steps(random.Random(seed), can_map).sequence(LENGTH)


@dataclass
class Law:
    """Two places with the same clients."""

    tmpfs: Place
    store: Place
    calls: int = 0
    """Calls that were compared."""
    ended_early: int = 0
    """Sequences that ended at an expected difference."""

    def differences(self, seeds: Iterator[int] | Sequence[int]) -> Iterator[Difference | None]:
        """For each seed, what differs, shrunk; None where nothing does."""
        for seed in seeds:
            steps = sequence(seed, self.can_map)
            yield self.shrunk(seed, list(range(len(steps))))

    @property
    def can_map(self) -> list[bool]:
        """Which clients can have shared mappings."""
        return [player.can_map for player in self.store.players]

    def shrunk(self, seed: int, kept: Sequence[int]) -> Difference | None:
        """The shortest sequence found that differs, made of steps of a seed's sequence."""
        found = self.played(seed, kept)
        tries, size = 0, len(kept) // 2
        while found and size:
            begin = 0
            while begin < len(found.kept) - 1 and tries < TRIES_MAX:
                tries += 1
                fewer = self.played(seed, found.kept[:begin] + found.kept[begin + size :])
                if fewer:
                    found = fewer
                else:
                    begin += size
            size //= 2
        return found

    def played(self, seed: int, kept: Sequence[int]) -> Difference | None:
        """Play steps of a seed's sequence in both places, up to the first answer that differs."""
        steps = sequence(seed, self.can_map)
        self.tmpfs.begin()
        self.store.begin()
        for count, number in enumerate(kept):
            step = steps[number]
            right, wrong = self.tmpfs.play(step), self.store.play(step)
            self.calls += 1
            if right == wrong:
                continue
            if is_expected(step, self.store.players[step.client].way, right, wrong):
                self.ended_early += 1
                return None
            upto = tuple(kept[: count + 1])
            names = tuple(player.name for player in self.store.players)
            return Difference(seed, upto, tuple(steps[each] for each in upto), right, wrong, names)
        return None


def _apart(one: str, other: str) -> tuple[str, str]:
    """The part around the first difference of two answers."""
    pairs = enumerate(zip(one, other, strict=False))
    at = next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
    begin = max(0, at - 80)
    return one[begin : at + 120], other[begin : at + 120]
