"""The build of a site's classes, from its logs to the table and the report."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy
from numpy.typing import NDArray

from weir.provisioning.behaviour.classes import (
    NEW_CLASS_FITNESS,
    ClassTable,
    ClassTime,
    TimeName,
    beside_built_in,
    table_of,
)
from weir.provisioning.behaviour.identity import identify
from weir.provisioning.documents import write
from weir.provisioning.learning import clustering, evaluation, report, tuning, usefulness
from weir.provisioning.learning.archive import Archive, opened
from weir.provisioning.learning.dataset import Dataset, load, month_name
from weir.provisioning.learning.features import DERIVED, TARGETS, WORK
from weir.provisioning.learning.intervals import COVERAGE_TOLERANCE, LEVEL, PROGRAMS_ENOUGH
from weir.provisioning.learning.models import SHIPPED, STACKED, TREES
from weir.provisioning.learning.parsing import listed, parse
from weir.provisioning.learning.steps import key_of, run_steps
from weir.simulation.sweeps.pools import Pool
from weir.ways import make_work_folder

ARCHIVE, TABLE, REPORT = "archive.db", "classes.json", "report.json"
"""Files of a build's folder."""
_UNREADABLE_TOLD = 5
_CLASSES_MIN = 2
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of a build."""

    trials: int = 16
    """Trials of the search for hyper-parameters, for each predicted time."""
    fitted_runs: int = 8000
    """Largest number of runs on which a model is fitted; of more runs, a sample is drawn."""
    trees: int = TREES
    """Number of trees of the forest; XGBoost has three times as many, AdaBoost half."""
    classes_max: int = 16
    """Greatest number of clusters that is tried."""
    io_fraction_min: float = 0.0
    """Runs that spent less of their time in I/O are left out; the paper leaves out those below 0.05."""
    new_class_fitness: float = NEW_CLASS_FITNESS
    """Fitness below which a run opens a class of its own."""
    interval_max: float = usefulness.FACTOR_MAX
    """Greatest ratio between the end of an interval and its prediction for which a prediction is useful."""
    seed: int = 0
    """Seed of all random numbers: the same logs and seed give the same classes."""


@dataclass(frozen=True)
class _Build:
    """The parts that the steps of one build share."""

    archive: Archive
    pool: Pool
    options: Options
    runs: Dataset
    digest: str
    progress: Progress


def build(
    paths: Sequence[Path], folder: Path, pool: Pool, options: Options, progress: Progress
) -> tuple[ClassTable, report.Report]:
    """Make classes from logs. What a killed build finished is taken from its folder.

    Args:
        paths: Darshan logs, tables of summaries, and folders with either.
        folder: Folder of the archive, the table and the report, which is made.
        pool: The place where logs are read and models are fitted.
        progress: Called with the name of the work, the number of its parts that are done, and of all.

    Returns:
        The table and the report, which the folder has too.

    Raises:
        ProvisioningError: There is no such log, too few can be read, or the folder is another build's.
    """
    make_work_folder(folder)
    with opened(folder / ARCHIVE) as archive:
        logs = archive.list_logs(listed(paths))
        parse(archive, pool, lambda done, parts: progress("logs", done, parts))
        runs = load(archive, io_fraction_min=options.io_fraction_min)
        one = _Build(archive, pool, options, runs, runs.digest(), progress)
        tuned = _tuned(one)
        scores = _scores(one, tuned)
        best = report.best_model(scores)
        points, rows, labels, is_opened = _clusters(one, tuned)
        place, _ = clustering.best_fitness(runs.scaled, rows)
        counts = [int((place == number).sum()) for number in range(len(rows))]
        times = _class_times(one, tuned, rows, place, best or STACKED)
        table = _with_times(_table(one, rows, counts, paths), times)
        document = report.Report(
            logs=logs,
            unreadable=archive.unreadable(0)[0],
            runs=len(runs),
            programs=len(runs.program_names),
            months=_months(runs),
            later_months=tuple(month_name(int(month)) for month in evaluation.later_months(runs)),
            targets=tuple(_target(one, target, each) for target, each in tuned.items()),
            scores=tuple(scores),
            best=report.bests(scores, options.interval_max),
            best_model=best,
            clusters=tuple(points),
            elbow=clustering.elbow(points) if points else 1,
            chosen=int(labels.max()) + 1,
            interval_max=options.interval_max,
            agreement=float((labels == place).mean()),
            classes=tuple(
                report.ClassReport(
                    name=each.name,
                    runs=count,
                    is_opened=new,
                    times=each.times,
                    refused=each.refused,
                    middle_seconds=own.middle_seconds,
                )
                for each, count, new, own in zip(table.classes, counts, is_opened, times, strict=True)
            ),
            notes=tuple(_notes(one, tuned, scores, times)),
        )
    if len(runs) < evaluation.RUNS_ENOUGH:
        table = beside_built_in(table)
    write(folder / TABLE, table)
    write(folder / REPORT, document)
    return table, document


def _tuned(one: _Build) -> dict[int, tuning.Tuned]:
    """The search of each time, on runs of the months that are not held out."""
    is_early = ~numpy.isin(one.runs.months, evaluation.later_months(one.runs))
    searched = {}
    for target in range(len(TARGETS)):
        (rows,) = numpy.nonzero((one.runs.seconds[:, target] > 0) & is_early)
        if len(rows) >= evaluation.RUNS_MIN // 2 and (one.runs.seconds[:, target] > 0).sum() >= evaluation.RUNS_MIN:
            searched[target] = one.runs.rows(evaluation.sample(rows, tuning.ROWS_MAX, one.options.seed))
    step = _counter(one, "tuning", len(searched) * (one.options.trials + 1))
    return {
        target: tuning.search(
            *(one.archive, one.pool, runs, target),
            trials=one.options.trials,
            trees=one.options.trees,
            seed=one.options.seed,
            progress=step,
        )
        for target, runs in searched.items()
    }


def _scores(one: _Build, tuned: dict[int, tuning.Tuned]) -> list[report.SplitScore]:
    tasks = []
    for target, found in tuned.items():
        for split in evaluation.splits(one.runs, target, one.options.seed):
            tasks.append((target, split, _fit_task(one, target, found, split.learned, split.tested, split.held_out)))
    answers = run_steps(
        one.archive,
        one.pool,
        [task for _, _, task in tasks],
        evaluation.evaluated,
        evaluation.Scores,
        _counter(one, "models", len(tasks)),
    )
    parts: dict[tuple[int, str], list[evaluation.Scores]] = {}
    for (target, split, _), answer in zip(tasks, answers, strict=True):
        parts.setdefault((target, split.held_out), []).append(answer)
    return [
        report.SplitScore(target=_name(target), held_out=cast("Any", held_out), **msgspec.structs.asdict(score))
        for (target, held_out), each in parts.items()
        for score in evaluation.pooled(each)
    ]


def _fit_task(
    one: _Build, target: int, tuned: tuning.Tuned, learned: NDArray[Any], tested: NDArray[Any], why: str
) -> evaluation.FitTask:
    learned = evaluation.sample(learned, one.options.fitted_runs, one.options.seed)
    tested = evaluation.sample(tested, evaluation.TESTED_MAX, one.options.seed)
    return evaluation.FitTask(
        key=key_of(
            *(why, one.digest, target, tuned.ranking, tuned.settings, one.options.seed),
            *(_rows_digest(learned), _rows_digest(tested)),
        ),
        learned=one.runs.rows(learned),
        tested=one.runs.rows(tested),
        target=target,
        columns=tuning.chosen_columns(tuned.ranking, tuned.settings),
        settings=tuned.settings,
        seed=one.options.seed,
    )


def _rows_digest(rows: NDArray[Any]) -> str:
    return hashlib.blake2b(rows.tobytes(), digest_size=16).hexdigest()


def _clusters(
    one: _Build, tuned: dict[int, tuning.Tuned]
) -> "tuple[list[clustering.Point], NDArray[Any], NDArray[Any], list[bool]]":
    """The tried numbers of classes, the middles' rows, each run's cluster, and whether each class was opened."""
    # A storage is no behaviour, so it is in no class.
    columns = sorted(
        {int(column) for each in tuned.values() for column in tuning.chosen_columns(each.ranking, each.settings)}
        & set(range(len(DERIVED)))
    ) or list(range(len(DERIVED)))
    table = clustering.normalised(one.runs.features[:, columns])
    every = numpy.arange(len(one.runs))
    sampled = table[evaluation.sample(every, clustering.SAMPLE_MAX, one.options.seed)]
    most = min(one.options.classes_max, len(numpy.unique(sampled, axis=0)) - 1)
    tasks = [
        clustering.ClusterTask(
            key_of("clusters", one.digest, columns, number, one.options.seed), sampled, number, one.options.seed
        )
        for number in range(_CLASSES_MIN, most + 1)
    ]
    points = run_steps(
        *(one.archive, one.pool, tasks, clustering.clustered),
        clustering.Point,
        _counter(one, "classes", len(tasks)),
    )
    number = clustering.chosen(points) if points else 1
    rows, labels = clustering.middles(table, number, one.options.seed)
    # Two clusters may have middles that are alike in all that fitness looks at: one class stands for both.
    _, firsts = numpy.unique(one.runs.scaled[rows], axis=0, return_index=True)
    kept = rows[numpy.sort(firsts)]
    new = clustering.opened(one.runs.scaled, kept, one.options.new_class_fitness)
    return points, numpy.concatenate([kept, new]), labels, [False] * len(kept) + [True] * len(new)


def _table(one: _Build, rows: NDArray[Any], counts: list[int], paths: Sequence[Path]) -> ClassTable:
    centres = []
    for row, count in zip(rows, counts, strict=True):
        identity = identify(one.archive.run(int(one.runs.numbers[row])).traits)
        # A class tells nothing about the user whose run is in its middle.
        centres.append((count / len(one.runs), msgspec.structs.replace(identity, program="")))
    named = ", ".join(path.name or str(path) for path in paths[:3]) + (", …" if len(paths) > 3 else "")
    source = f"{len(one.runs):,} runs of {named}"
    return table_of(source, centres, jobs=len(one.runs), new_class_fitness=one.options.new_class_fitness)


@dataclass
class _Times:
    """The predicted times of one class."""

    told: dict[TimeName, ClassTime] = field(default_factory=dict)
    refused: dict[TimeName, str] = field(default_factory=dict)
    middle_seconds: dict[TimeName, float] = field(default_factory=dict)


def _class_times(
    one: _Build, tuned: dict[int, tuning.Tuned], rows: NDArray[Any], place: NDArray[Any], model: str
) -> list[_Times]:
    """The times of each class, by models that are fitted on all runs."""
    tasks = [_middles_task(one, target, found, rows, place) for target, found in tuned.items()]
    answers = run_steps(
        *(one.archive, one.pool, tasks, evaluation.predicted),
        evaluation.Predicted,
        _counter(one, "intervals", len(tasks)),
    )
    times = [_Times() for _ in rows]
    for target in range(len(TARGETS)):
        if target not in tuned:
            for each in times:
                each.refused[_name(target)] = "too few runs have such a time"
    for target, answer in zip(tuned, answers, strict=True):
        # The feature is the logarithm of one more than the work.
        work = numpy.expm1(one.runs.features[rows, one.runs.names.index(WORK[target])].astype(float))
        for number, each in enumerate(times):
            if not work[number]:
                each.refused[_name(target)] = "the run in the middle of the class does no such work"
                continue
            site, shipped = (
                (answer.seconds[by][number] / float(work[number]), answer.widths[by][number]) for by in (model, SHIPPED)
            )
            is_better = model != SHIPPED and site[1].half_width <= shipped[1].half_width
            told, reason = usefulness.chosen(site if is_better else None, shipped, one.options.interval_max)
            if told is None:
                each.refused[_name(target)] = reason
            else:
                each.told[_name(target)] = told
                each.middle_seconds[_name(target)] = told.seconds_per_unit * float(work[number])
    return times


def _middles_task(
    one: _Build, target: int, tuned: tuning.Tuned, rows: NDArray[Any], place: NDArray[Any]
) -> evaluation.MiddlesTask:
    (learned,) = numpy.nonzero(one.runs.seconds[:, target] > 0)
    learned = evaluation.sample(learned, one.options.fitted_runs, one.options.seed)
    task = _fit_task(one, target, tuned, learned, rows, "middles")
    classes = place[learned]
    return evaluation.MiddlesTask(
        key=key_of(task.key, _rows_digest(classes)),
        learned=task.learned,
        tested=one.runs.rows(rows),
        target=target,
        columns=task.columns,
        settings=task.settings,
        seed=task.seed,
        classes=classes,
    )


def _with_times(table: ClassTable, times: Sequence[_Times]) -> ClassTable:
    classes = tuple(
        msgspec.structs.replace(each, times=own.told, refused=own.refused)
        for each, own in zip(table.classes, times, strict=True)
    )
    return msgspec.structs.replace(table, classes=classes)


def _target(one: _Build, target: int, tuned: tuning.Tuned) -> report.Target:
    return report.Target(
        name=_name(target),
        runs=int((one.runs.seconds[:, target] > 0).sum()),
        features=tuple(one.runs.names[column] for column in tuned.ranking[: int(tuned.settings["features"])]),
        settings=tuned.settings,
        default_errors=tuned.default_errors,
        tuned_errors=tuned.errors,
    )


def _notes(
    one: _Build, tuned: dict[int, tuning.Tuned], scores: list[report.SplitScore], times: Sequence[_Times]
) -> list[str]:
    count, some = one.archive.unreadable(_UNREADABLE_TOLD)
    notes = [*_shortages(one.runs), *(f"{path}: {reason}" for path, reason in some)]
    if count > len(some):
        notes.append(f"{count - len(some)} more logs could not be read")
    for target, name in enumerate(TARGETS):
        measured = int((one.runs.seconds[:, target] > 0).sum())
        if target not in tuned:
            notes.append(f"the {name} time is not predicted: {measured} runs have one, fewer than are needed")
        else:
            told = [each.told[_name(target)].source for each in times if _name(target) in each.told]
            refused = [reason for each in times if (reason := each.refused.get(_name(target)))]
            notes.append(f"the predicted {name} time is {usefulness.summary(told, refused)}")
    for held_out in (evaluation.MONTHS, evaluation.APPLICATIONS):
        if not any(score.held_out == held_out for score in scores):
            notes.append(f"no {held_out} could be held out: the runs are of too few")
    if not all(score.coverage >= LEVEL - COVERAGE_TOLERANCE for score in scores if _is_of_best(score, scores)):
        notes.append("some intervals of the best model cover less than they should: see `coverage`")
    return notes


def _shortages(runs: Dataset) -> list[str]:
    """The reasons for which the errors and intervals of so few runs mean little, with the numbers that would do."""
    shortages = []
    if len(runs) < evaluation.RUNS_ENOUGH:
        shortages.append(
            f"{len(runs)} runs are too few to judge the models: {evaluation.RUNS_ENOUGH} would do, because a fifth is "
            f"held out, and fewer cannot tell whether intervals hold {LEVEL:.0%} of the runs within "
            f"{COVERAGE_TOLERANCE:.0%}; the classes that come with Weir stay in the table for jobs unlike these runs"
        )
    if len(runs.program_names) < PROGRAMS_ENOUGH:
        shortages.append(
            f"{len(runs.program_names)} programs are too few to judge predictions for unknown ones: {PROGRAMS_ENOUGH} "
            "would do, because the interval of an unknown program is that of the worst known one until then"
        )
    return shortages


def _is_of_best(score: report.SplitScore, scores: list[report.SplitScore]) -> bool:
    return score.program is None and score.model == report.best_model(scores)


def _months(runs: Dataset) -> tuple[str, str] | None:
    known = runs.months[runs.months >= 0]
    return (month_name(int(known.min())), month_name(int(known.max()))) if len(known) else None


def _name(target: int) -> TimeName:
    return cast("TimeName", TARGETS[target])


def _counter(one: _Build, work: str, parts: int) -> Callable[[], object]:
    done = 0
    one.progress(work, done, parts)

    def step() -> None:
        nonlocal done
        done += 1
        one.progress(work, done, parts)

    return step
