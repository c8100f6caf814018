"""Prediction of the files that the next run of a program will create.

Four models compete on the last run, which is left out of their training: laws of the run's numbers, ARIMA
alone, the last run scaled, and a Markov chain. The best of them predicts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weir.plugins import FORECASTER, named
from weir.prediction.accuracy import Accuracy, accuracy
from weir.prediction.context import NextRun, title
from weir.prediction.forecasters import Arima, Forecaster, LastRun, Regression
from weir.prediction.history import PastRun, comparable
from weir.prediction.markov import expect_by_chain
from weir.prediction.own import Own
from weir.prediction.pattern import Expected, Unpredictable, expect
from weir.prediction.roles import evenly_padded, samples_of
from weir.prediction.temporaries import Temporaries, temporaries_of
from weir.tracing.records import SHARED, Creation, Run

REGRESSION = "regression"
ARIMA = "arima"
LAST_RUN = "last-run"
MARKOV = "markov"
MODELS = (REGRESSION, ARIMA, LAST_RUN, MARKOV)
"""Names of the models. The first of equal models wins: it follows a change of scale, which a hold-out need not show."""


_FORECASTERS: dict[str, Forecaster] = {REGRESSION: Regression(), ARIMA: Arima(), LAST_RUN: LastRun()}
"""The forecasters of the models that share the structure of names."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The creations of a coming run."""

    program: str
    title: str
    """The program's name for people: an interpreter with its script."""
    creations: tuple[Creation, ...]
    """The creations by their last names, in their expected order; ranks take turns."""
    unpredictable: tuple[Unpredictable, ...]
    """Further expected files, with names that cannot be known."""
    model: str
    """Name of the model that predicted."""
    hold_out: dict[str, Accuracy]
    """The accuracy of each model on the last run, trained on earlier runs; empty where there was only one run."""
    runs: int
    """Number of past runs in the training."""
    likeness: float
    """Part of the coming call's options and texts that past calls had; below 1 the call is new."""
    temporaries: Temporaries = field(default_factory=Temporaries)
    """The names under which files are made first, where the program renames them afterwards."""


def predict(runs: Sequence[Run], coming: NextRun, *, model: str | None = None) -> Prediction:
    """Predict the creations of a program's next run.

    Args:
        runs: Runs of the past, of this program and of others.
        coming: The knowledge of the coming run.
        model: One of `MODELS`, or the name or place of a plug-in of the kind `forecaster`; None takes the model of
            `MODELS` that is best on the last run, trained on earlier runs.

    Returns:
        The prediction; it has no creations if no past run is of this program.

    Raises:
        PluginError: There is no such model, or the plug-in fails.
    """
    past, likeness = comparable(runs, coming)
    scores = _hold_out(past, coming.places) if model is None else {}
    chosen = model or max(MODELS, key=lambda name: scores[name].fraction if scores else 0.0)
    creations, unpredictable = _predicted(past, coming, chosen)
    temporaries = temporaries_of(past, creations, coming.context())
    recognised = tuple(creation for creation in creations if creation.path not in temporaries.lost_paths)
    unpredictable += temporaries.lost
    name = title(coming.program, coming.arguments)
    return Prediction(coming.program, name, recognised, unpredictable, chosen, scores, len(past), likeness, temporaries)


def _hold_out(past: Sequence[PastRun], places: tuple[str, ...]) -> dict[str, Accuracy]:
    if len(past) < 2:
        return {}
    last = past[-1].run
    held_out = NextRun.like(last, places=places)
    return {name: accuracy(_predicted(past[:-1], held_out, name)[0], last.creations) for name in MODELS}


def _predicted(
    past: Sequence[PastRun], coming: NextRun, model: str
) -> tuple[tuple[Creation, ...], tuple[Unpredictable, ...]]:
    if not past:
        return (), ()
    context = coming.context()
    if model == MARKOV:
        return _ordered(expect_by_chain(past, context)), ()
    forecaster = _FORECASTERS[model] if model in _FORECASTERS else Own(named(FORECASTER, model, MODELS))
    expected: list[Expected] = []
    unpredictable: list[Unpredictable] = []
    for skeleton in _skeletons(past):
        for alike in evenly_padded(samples_of(past, skeleton)):
            found = expect(skeleton, alike, context, forecaster, steps=coming.steps)
            if isinstance(found, Unpredictable):
                unpredictable.append(found)
            else:
                expected += found
    return _ordered(expected), tuple(unpredictable)


def _skeletons(past: Sequence[PastRun]) -> list[str]:
    """Patterns that the next run will have: patterns of the last run that at least half of all runs have."""
    return [skeleton for skeleton in past[-1].groups if 2 * sum(skeleton in one.groups for one in past) >= len(past)]


def _ordered(expected: Sequence[Expected]) -> tuple[Creation, ...]:
    """Give each rank's creations their positions, and let the ranks take turns.

    Patterns that took turns, as the files of each step do, take turns for all steps of the coming run. Later
    patterns come after them again.
    """
    unique = {one.path: one for one in expected}
    begins = {
        is_shared: _blocks([one for one in expected if (one.rank == SHARED) == is_shared])
        for is_shared in (True, False)
    }
    counts: dict[int, int] = {}
    creations = []
    for one in sorted(unique.values(), key=lambda one: (begins[one.rank == SHARED][one.span], one.turn)):
        order = counts.get(one.rank, 0)
        counts[one.rank] = order + 1
        creations.append(
            Creation(one.path, one.rank, order, one.size_bytes, one.written_bytes, one.writers, one.layout)
        )
    return tuple(sorted(creations, key=lambda creation: (creation.order, creation.rank)))


def _blocks(expected: Sequence[Expected]) -> dict[tuple[float, float], float]:
    """For each span the first turn of its group: the spans that overlap, one with the next."""
    begins: dict[tuple[float, float], float] = {}
    begin, end = 0.0, -1.0
    for span in sorted({one.span for one in expected}):
        if span[0] > end:
            begin = span[0]
        end = max(end, span[1])
        begins[span] = begin
    return begins


def check_model(name: str) -> None:
    """Check that there is a model, and that a plug-in loads.

    Args:
        name: As `model` of `predict`.

    Raises:
        PluginError: There is no such model, or the plug-in cannot be loaded.
    """
    if name not in MODELS:
        named(FORECASTER, name, MODELS).load()
