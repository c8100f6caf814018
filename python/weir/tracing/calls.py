"""Single calls of a trace, summed to the totals that a Darshan log has."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from weir.tracing.totals import InterfaceTotals

Way = Literal["READ", "WRITE"]
_SIZES = (
    (100, "0_100"),
    (1_000, "100_1K"),
    (10_000, "1K_10K"),
    (100_000, "10K_100K"),
    (1_000_000, "100K_1M"),
    (4_000_000, "1M_4M"),
    (10_000_000, "4M_10M"),
    (100_000_000, "10M_100M"),
    (1_000_000_000, "100M_1G"),
)
"""Sizes that the classes of Darshan's counters end before."""
_LARGEST = "1G_PLUS"
_AMOUNT_MAX = 1 << 62
"""Greatest offset or length of a call: that of a file on Linux."""
_SECONDS_MAX = 1e9
"""Longest call."""
_TIMES = ("READ_TIME", "WRITE_TIME", "META_TIME")


def amount(text: str) -> int:
    """Read an offset or a length.

    Raises:
        ValueError: The text is no number that a call can have.
    """
    number = int(text)
    if not 0 <= number <= _AMOUNT_MAX:
        raise ValueError(f"{number} is no offset or length of a call")
    return number


def span(begin: str, end: str) -> float:
    """Read the seconds of a call.

    Raises:
        ValueError: The texts are no times, or too far apart.
    """
    seconds = float(end) - float(begin)
    if not seconds <= _SECONDS_MAX:
        raise ValueError(f"a call of {seconds} s")
    return max(seconds, 0.0)


@dataclass
class CallTotals:
    """The calls of one interface."""

    counters: Counter[str] = field(default_factory=Counter)
    """By the names of Darshan, such as `READS`."""
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_TIMES, 0.0))
    _ranks: dict[str, set[int]] = field(default_factory=dict)
    """Ranks that used each file."""
    _ends: dict[tuple[int, str], int] = field(default_factory=dict)
    """End of the last transfer of each rank in each file."""

    def use(self, rank: int, file: str) -> None:
        """Note that a rank uses a file."""
        self._ranks.setdefault(file, set()).add(rank)

    def transfer(self, way: Way, rank: int, file: str, offset: int | None, length: int, seconds: float) -> None:
        """Count a read or a write whose size is known.

        Args:
            offset: Its place; None where it is not known.
            length: Its bytes.
        """
        self.use(rank, file)
        self.move(f"{way}S", way, length, seconds)
        size = next((name for end, name in _SIZES if length < end), _LARGEST)
        # Traits know by the first class of each way that sizes are counted.
        for each in ("READ", "WRITE"):
            self.counters[f"SIZE_{each}_{_SIZES[0][1]}"] += 0
        self.counters[f"SIZE_{way}_{size}"] += 1
        before = self._ends.get((rank, file))
        if offset is None:
            return
        if before is not None and offset >= before:
            self.counters[f"SEQ_{way}S"] += 1
            self.counters[f"CONSEC_{way}S"] += offset == before
        self._ends[rank, file] = offset + length

    def move(self, counter: str, way: Way, length: int, seconds: float) -> None:
        """Count a read or a write without its size's class and its place.

        Args:
            counter: Its counter, such as `COLL_READS`.
            length: Its bytes.
        """
        self.counters[counter] += 1
        self.counters["BYTES_READ" if way == "READ" else "BYTES_WRITTEN"] += length
        self.seconds[f"{way}_TIME"] += seconds

    def other(self, counter: str, rank: int, file: str, seconds: float) -> None:
        """Count a call that moves no bytes.

        Args:
            counter: Its counter, such as `OPENS`; empty where only its time counts.
        """
        if file:
            self.use(rank, file)
        if counter:
            self.counters[counter] += 1
        self.seconds["META_TIME"] += seconds

    def totals(self, ranks: int) -> InterfaceTotals:
        """Return the totals.

        Args:
            ranks: Ranks of the run.
        """
        shared = sum(len(users) == ranks for users in self._ranks.values()) if ranks > 1 else 0
        return InterfaceTotals(
            files=len(self._ranks), shared_files=shared, counters=dict(self.counters), seconds=dict(self.seconds)
        )
