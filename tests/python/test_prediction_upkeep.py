"""The paper's rules of when a prediction is renewed."""

import pytest
from weir.prediction.upkeep import Advice, advice


@pytest.mark.parametrize(
    ("created", "missed", "follows"),
    [
        (0, 0, Advice.KEEP),
        (100, 0, Advice.KEEP),
        (100, 9, Advice.KEEP),
        (100, 10, Advice.PREDICT),
        (100, 29, Advice.PREDICT),
        (100, 30, Advice.TRAIN),
        (100, 50, Advice.TRAIN),
        (100, 51, Advice.TRACE),
        (1, 1, Advice.TRACE),
    ],
)
def test_misses_ask_for_a_prediction_a_training_and_a_trace(created: int, missed: int, follows: Advice) -> None:
    assert advice(created=created, missed=missed) is follows
