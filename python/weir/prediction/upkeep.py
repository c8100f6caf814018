"""When a prediction is to be renewed: the paper's rules (section 5.5.1 and the end of 5.7)."""

from enum import Enum

PREDICT_AGAIN_AT = 0.10
"""Part of the creations that were not found at which the next ones are predicted again."""
TRAIN_AGAIN_AT = 0.30
"""Part at which the model is trained again: three predictions came to as much."""
TRACE_AGAIN_ABOVE = 0.50
"""Part above which the past says nothing of the program any more."""


class Advice(Enum):
    """What is to be done before the next run."""

    KEEP = "keep"
    """The prediction holds."""
    PREDICT = "predict"
    """Predict again."""
    TRAIN = "train"
    """Learn anew, with the runs that came since."""
    TRACE = "trace"
    """Trace a run again: what is known is of another program."""


def advice(*, created: int, missed: int) -> Advice:
    """What follows when `missed` of `created` files were not found in the interaction database."""
    part = missed / created if created else 0.0
    if part > TRACE_AGAIN_ABOVE:
        return Advice.TRACE
    if part >= TRAIN_AGAIN_AT:
        return Advice.TRAIN
    return Advice.PREDICT if part >= PREDICT_AGAIN_AT else Advice.KEEP
