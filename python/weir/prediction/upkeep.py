"""When a prediction is to be renewed: the paper's rules (section 5.5.1)."""

from dataclasses import dataclass
from enum import Enum

PREDICT_AGAIN_AT = 0.10
"""Part of the look-ups that missed at which the rest of the run is predicted again."""
PREDICTIONS_MAX = 3
"""Renewed predictions of one training; one more, and the misses have come to 30 %."""
TRACE_AGAIN_ABOVE = 0.50
"""Part of a run's creations that were not found above which its past says nothing of it."""
_LOOKUPS_MIN = 10
"""Of fewer look-ups, one miss would already be 10 %."""


class Advice(Enum):
    """What to do after a look-up."""

    KEEP = "keep"
    """The prediction holds."""
    PREDICT = "predict"
    """Predict the rest of the run again, from what it has created so far."""
    TRAIN = "train"
    """Learn anew, from the past runs and this one."""
    TRACE = "trace"
    """Trace a whole run again: what is known is of another program."""


@dataclass(slots=True)
class Upkeep:
    """Counts hits and misses in the interaction database during a run, and says what follows.

    Misses count since the last renewal, so that a prediction is judged by itself. A fresh trace is asked for only when
    a run has ended, as it can only be made of a whole one.
    """

    hits: int = 0
    misses: int = 0
    predictions: int = 0
    """Renewed predictions since the last training."""
    _hits_before: int = 0
    _misses_before: int = 0

    def hit(self) -> Advice:
        """A creation was found."""
        self.hits += 1
        return Advice.KEEP

    def miss(self) -> Advice:
        """A creation was not found."""
        self.misses += 1
        lookups = self.hits + self.misses - self._hits_before - self._misses_before
        if lookups < _LOOKUPS_MIN or self.misses - self._misses_before < PREDICT_AGAIN_AT * lookups:
            return Advice.KEEP
        self._hits_before, self._misses_before = self.hits, self.misses
        if self.predictions < PREDICTIONS_MAX:
            self.predictions += 1
            return Advice.PREDICT
        self.predictions = 0
        return Advice.TRAIN

    def end(self) -> Advice:
        """The run is over: whether its past still says anything of it."""
        lookups = self.hits + self.misses
        return Advice.TRACE if self.misses > TRACE_AGAIN_ABOVE * lookups else Advice.KEEP
