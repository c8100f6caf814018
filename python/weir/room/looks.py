"""The moment and the stretch of time that a page shows."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from weir.history.levels import DAY, HOUR, MINUTE, levels_of
from weir.history.moments import read_moment
from weir.room.errors import RoomError

SPANS = {"1m": MINUTE, "10m": 10 * MINUTE, "1h": HOUR, "6h": 6 * HOUR, "1d": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
"""Stretches by their names, in milliseconds."""
_COLUMNS_MAX = 90
"""Most columns of a figure over time."""
_WIDTHS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
"""Widths of a column, in seconds."""
_SETTLED = 3_000
"""Milliseconds until a window is surely in the history."""


@dataclass(frozen=True, slots=True)
class Look:
    """A stretch of time that ends now or at a moment of the past.

    Attributes:
        moment: The moment as it was asked for; empty is now.
        span: Name of the stretch.
        until: Its end in Unix milliseconds.
    """

    moment: str
    span: str
    until: int

    @property
    def is_live(self) -> bool:
        """Whether it shows the present."""
        return not self.moment

    @property
    def since(self) -> int:
        """Begin of the stretch in Unix milliseconds."""
        return self.until - SPANS[self.span]

    @property
    def query(self) -> dict[str, str]:
        """The parameters of a link that looks at the same time."""
        return {name: value for name, value in (("at", self.moment), ("span", self.span)) if value}

    def column(self, window: int) -> int:
        """Choose the width of a column of a figure over time.

        Args:
            window: Length of the store's windows in milliseconds.

        Returns:
            Milliseconds, not less than what the history keeps of that age.
        """
        age = round(time.time() * 1000) - self.since
        levels = levels_of(window, 30 * DAY)
        kept = next((level.width for level in levels if age <= level.age), levels[-1].width)
        least = max(kept, SPANS[self.span] // _COLUMNS_MAX)
        return next((width * 1000 for width in _WIDTHS if width * 1000 >= least), DAY)

    def moved(self, spans: float) -> "Look":
        """The same stretch, earlier or later.

        Args:
            spans: Stretches by which the moment moves; one that would lie ahead is now.
        """
        until = self.until + round(spans * SPANS[self.span])
        if until >= time.time() * 1000 - _SETTLED:
            return look_at({"span": self.span})
        return Look(datetime.fromtimestamp(until / 1000).strftime("%Y-%m-%dT%H:%M:%S"), self.span, until)


def look_at(query: Mapping[str, str], *, span: str = "10m") -> Look:
    """Read the moment and the stretch of a page's address.

    Args:
        query: The parameters; `at` is a moment as `weir jobs --since` takes it, `span` one of `SPANS`.
        span: The stretch where the address names none.

    Raises:
        RoomError: The address names no moment that was, or another stretch.
    """
    now = time.time()
    moment, chosen = query.get("at", "").strip(), query.get("span", "") or span
    if chosen not in SPANS:
        raise RoomError(f"{chosen!r} is no stretch of time here", hint=f"take one of {', '.join(SPANS)}")
    try:
        until = now if moment in ("", "now") else read_moment(moment, now)
    except ValueError as error:
        raise RoomError(str(error)) from error
    return Look("" if moment == "now" else moment, chosen, round(until * 1000))
