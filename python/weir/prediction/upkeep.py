"""Rules for the renewal of a prediction, from the paper (section 5.5.1 and the end of 5.7)."""

from enum import Enum

PREDICT_AGAIN_AT = 0.10
"""Part of missed creations at which the next run is predicted again."""
TRAIN_AGAIN_AT = 0.30
"""Part of missed creations at which the model is trained again: three times the part for a new prediction."""
TRACE_AGAIN_ABOVE = 0.50
"""Part of missed creations above which past runs predict nothing."""


class Advice(Enum):
    """Work before the next run."""

    KEEP = "keep"
    """The prediction holds."""
    PREDICT = "predict"
    """Predict again."""
    TRAIN = "train"
    """Train again, with the newest runs."""
    TRACE = "trace"
    """Trace a run again: the known runs fit another program."""


def advice(*, created: int, missed: int) -> Advice:
    """Find the work that is due.

    Args:
        created: Number of files that the last runs created.
        missed: Number of these files that were not in the interaction database.
    """
    part = missed / created if created else 0.0
    if part > TRACE_AGAIN_ABOVE:
        return Advice.TRACE
    if part >= TRAIN_AGAIN_AT:
        return Advice.TRAIN
    return Advice.PREDICT if part >= PREDICT_AGAIN_AT else Advice.KEEP
