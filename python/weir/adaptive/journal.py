"""The journal of a reader: it notes each step that it hands out where the control room looks for steps."""

import math
import os
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from weir.adaptive.errors import AdaptiveWarning, told
from weir.adaptive.lanes import HangError, Lane
from weir.store.settings import ADAPTIVE_JOURNAL
from weir.store.step_journal import JOURNAL, NAME_MAX, OFF, StepEntry, TierEntry

if TYPE_CHECKING:
    from weir.adaptive.reader import Step

WAIT_SECONDS_MAX = 0.5
"""Longest wait for a line to be written; a folder that takes longer gets no further ones."""


class Journal:
    """The journal of one reader. A journal that fails harms no step: it warns once."""

    def __init__(self, folder: Path, urls: Sequence[str]) -> None:
        """Take a folder.

        Args:
            folder: The folder; the first line makes it.
            urls: URLs of the stream's tiers, in order.
        """
        from weir.adaptive.server_forecast import own_claims
        from weir.store.identity import user_name

        self._folder = folder
        self._names = [shown(url) for url in urls]
        claims = own_claims()
        self._job = "" if claims is None else claims["job"]
        self._user = user_name(os.geteuid()) if claims is None else claims["user"]
        self._lane = Lane("journal", 1)
        self._has_told = False
        self._is_off = False

    def note(self, step: "Step", *, whole_bytes: int, deadline_seconds: float | None) -> None:
        """Note a step.

        Args:
            step: The step as it is handed out.
            whole_bytes: What a reader without a bound would have read.
            deadline_seconds: The reader's longest time of a step.
        """
        if self._is_off:
            return
        # No error of a journal may take a step from a program.
        try:
            entry = self._entry(step, whole_bytes, deadline_seconds)
            self._lane.answer(partial(JOURNAL.add, self._folder, entry), WAIT_SECONDS_MAX)
        except HangError:
            self._is_off = True
            self._tell("it does not answer")
        except Exception as error:
            self._tell(told(error))

    def _tell(self, reason: str) -> None:
        if not self._has_told:
            self._has_told = True
            name = ADAPTIVE_JOURNAL.environment
            words = f"steps are not noted in {self._folder}: {reason}; {name} names another folder, or `{OFF}`"
            warnings.warn(words, AdaptiveWarning, stacklevel=6)

    def _entry(self, step: "Step", whole_bytes: int, deadline_seconds: float | None) -> StepEntry:
        tiers = [
            TierEntry(
                name=name,
                forecast=_known(tier.forecast),
                low=_known(tier.forecast_low),
                high=_known(tier.forecast_high),
                bandwidth=_known(tier.bandwidth),
            )
            for name, tier in zip(self._names, step.tiers, strict=True)
        ]
        return StepEntry(
            at=time.time(),
            job=self._job,
            user=self._user,
            host=os.uname().nodename,
            pid=os.getpid(),
            stream=self._names[0],
            step=step.number,
            rmse=_known(step.rmse),
            max_error=_known(step.max_error),
            read_bytes=step.bytes_read,
            whole_bytes=whole_bytes,
            augmentation=float(step.augmentation),
            seconds=step.seconds,
            waited_seconds=step.waited_seconds,
            deadline_seconds=_known(deadline_seconds),
            is_late=step.late,
            tiers=tuple(tiers),
        )


def journal_of(urls: Sequence[str]) -> Journal | None:
    """Make the journal of a reader.

    Args:
        urls: URLs of the stream's tiers, in order.

    Returns:
        The journal; None where the environment names no folder.
    """
    folder = os.environ.get(ADAPTIVE_JOURNAL.environment)
    return Journal(Path(folder), urls) if folder and folder != OFF else None


def shown(url: str) -> str:
    """Shorten the URL of a tier to its end, and take out what may be secret: user, password and query."""
    scheme, separator, rest = url.partition("://")
    if separator:
        authority, slash, path = rest.partition("/")
        host = authority.rpartition("@")[2]
        url = f"{scheme}://{host}{slash}{path}".partition("?")[0]
    return url[-NAME_MAX:]


def _known(number: float | None) -> float | None:
    """A number of at least 0; None where nothing finite is known."""
    return max(float(number), 0.0) if number is not None and math.isfinite(number) else None
