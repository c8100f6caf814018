"""The parts of the learning of classes: intervals, baselines, elimination of features, clusters, the archive."""

import gzip
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray
from seeds import seed
from weir.provisioning.behaviour.classes import NEW_CLASS_FITNESS
from weir.provisioning.behaviour.identity import identify
from weir.provisioning.behaviour.traits import Traits, Transfers
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.learning import clustering, evaluation, intervals, models, tuning
from weir.provisioning.learning.archive import LogFile, ParsedLog, opened
from weir.provisioning.learning.dataset import Dataset
from weir.provisioning.learning.features import DERIVED, WORK, vector
from weir.provisioning.learning.runs import Run, bounded
from weir.provisioning.learning.summaries import read_table

SUMMARIES = Path(__file__).parents[1] / "data" / "tokio"


def dataset(features: NDArray[Any], seconds: NDArray[Any], **codes: NDArray[Any]) -> Dataset:
    """Runs with one measured time, and a program, job and month of their own unless they are told."""
    count = len(features)
    own = {name: codes.get(name, numpy.zeros(count, dtype=int)) for name in ("programs", "jobs", "groups", "kinds")}
    return Dataset(
        names=(*DERIVED, *(f"more{number}" for number in range(features.shape[1] - len(DERIVED)))),
        features=features.astype(numpy.float32),
        seconds=numpy.column_stack([seconds, seconds, seconds]),
        scaled=numpy.zeros((count, 10), dtype=numpy.float32),
        months=codes.get("months", numpy.zeros(count, dtype=int)),
        numbers=numpy.arange(count),
        program_names=tuple(str(number) for number in range(int(own["programs"].max()) + 1)),
        **own,
    )


def planted(count: int, dice: numpy.random.Generator) -> Dataset:
    """Runs whose time for a byte depends on two features and on nothing else."""
    features = dice.random((count, len(DERIVED))) * 4
    features[:, 12:] = 0
    work = features[:, DERIVED.index(WORK[0])]
    cost = 2 * features[:, 3] - features[:, 7]
    seconds = numpy.exp(work + cost + dice.normal(0, 0.05, count))
    return dataset(features, seconds, programs=dice.integers(0, 4, count), months=dice.integers(0, 6, count))


def test_intervals_hold_for_new_runs() -> None:
    """The finite-sample guarantee, on average over draws: at least the level."""
    dice = numpy.random.default_rng(seed())
    covered = []
    for _ in range(300):
        errors = numpy.abs(dice.standard_t(3, size=60))
        covered.append(float(numpy.mean(numpy.abs(dice.standard_t(3, size=200)) <= intervals.half_width(errors))))
    # The mean of 300 draws is within 0.01 of its expectation, by six standard errors.
    assert numpy.mean(covered) >= intervals.LEVEL - 0.02
    assert intervals.half_width(numpy.array([])) == numpy.inf


def test_intervals_of_unknown_programs_are_as_wide_as_the_worst_program_needs() -> None:
    errors = numpy.concatenate([numpy.full(100, 0.1), numpy.full(10, 2.0), numpy.full(100, 0.3)])
    programs = numpy.repeat([0, 1, 2], [100, 10, 100])
    assert intervals.half_width_of_unknown(errors, programs) == 2.0
    assert intervals.half_width(errors) == 0.3


def test_baselines_go_from_the_same_job_to_all() -> None:
    runs = dataset(
        numpy.zeros((6, len(DERIVED))),
        numpy.array([1.0, 2.0, 9.0, 100.0, 300.0, 50.0]),
        jobs=numpy.array([0, 0, 0, 1, 1, 2]),
        groups=numpy.array([0, 0, 0, 1, 1, 2]),
        kinds=numpy.array([0, 0, 0, 0, 0, 1]),
    )
    same = models.Baseline(models.SAME_JOB).fit(runs, runs.seconds[:, 0])
    mean = models.Baseline(models.GROUP_MEAN).fit(runs, runs.seconds[:, 0])
    assert numpy.exp(same.predict(runs)) == pytest.approx([2, 2, 2, 200, 200, 50])
    assert numpy.exp(mean.predict(runs)) == pytest.approx([4, 4, 4, 200, 200, 50])
    new = dataset(
        numpy.zeros((3, len(DERIVED))),
        numpy.ones(3),
        jobs=numpy.array([7, 8, 9]),
        groups=numpy.array([1, 8, 9]),
        kinds=numpy.array([0, 0, 9]),
    )
    assert numpy.exp(same.predict(new)) == pytest.approx([200, 9, 29.5])


def test_elimination_leaves_the_features_that_matter() -> None:
    runs = planted(400, numpy.random.default_rng(seed()))
    task = tuning.TuneTask("", runs, 0, (), {}, 0)
    ranking = tuning.ranked(task, lambda: True)
    assert set(ranking.columns[:2]) == {3, 7}
    assert sorted(ranking.columns) == list(range(12))


@pytest.mark.slow
def test_models_learn_what_was_planted_and_their_intervals_tell_the_truth() -> None:
    runs = planted(700, numpy.random.default_rng(seed()))
    learned, tested = runs.rows(numpy.arange(400)), runs.rows(numpy.arange(400, 700))
    settings = {**models.DEFAULTS, "trees": 20}
    task = evaluation.FitTask("", learned, tested, 0, numpy.arange(len(DERIVED)), settings, 0)
    scores = {each.model: each for each in evaluation.evaluated(task, lambda: True).scores if each.program is None}
    # The planted noise is 5 %, whose median is 3.4 %; the law is a line in logarithms.
    assert scores["ridge"].median_error < 0.06
    assert scores[models.STACKED].median_error < 0.5 < scores["group mean"].median_error
    for model in models.PARTS:
        assert scores[model].coverage > 0.75, model


def test_a_program_that_was_never_seen_has_wider_intervals() -> None:
    dice = numpy.random.default_rng(seed())
    runs = planted(300, dice)
    # Each program has a pace of its own, which no feature tells.
    seconds = runs.seconds * numpy.exp(2.0 * runs.programs)[:, None]
    runs = dataset(runs.features, seconds[:, 0], programs=runs.programs, groups=runs.programs, months=runs.months)
    fitted = models.fit(runs, 0, numpy.arange(len(DERIVED)), {**models.DEFAULTS, "trees": 4}, 0)
    known, unknown = fitted.widths["same-job median"]
    assert unknown > known
    new = dataset(runs.features, seconds[:, 0], programs=runs.programs + 4)
    assert not fitted.is_known(new).any() and fitted.is_known(runs).all()
    assert set(fitted.half_widths(new, "same-job median")) == {unknown}


@pytest.mark.parametrize("classes", [3, 5, 8])
def test_planted_clusters_are_found(classes: int) -> None:
    dice = numpy.random.default_rng(seed())
    # Corners that are equally far from each other, with points close to them.
    corners = numpy.eye(classes)
    table = numpy.concatenate([corner + dice.normal(0, 0.03, (40, classes)) for corner in corners]).astype(
        numpy.float32
    )
    table = clustering.normalised(table)
    points = [
        clustering.clustered(clustering.ClusterTask("", table, number, 0), lambda: True) for number in range(2, 13)
    ]
    assert clustering.chosen(points) == classes
    rows, labels = clustering.middles(table, classes, 0)
    assert len(set(labels)) == classes and sorted(labels[rows]) == list(range(classes))


def test_runs_far_from_all_classes_open_one_each() -> None:
    scaled = numpy.zeros((9, 10), dtype=numpy.float32)
    scaled[3:6, :5] = 1.0
    scaled[6:9, 5:] = 1.0
    scaled[8, 0] = 0.1
    new = clustering.opened(scaled, numpy.array([0]), NEW_CLASS_FITNESS)
    assert len(new) == 2 and {int(row) // 3 for row in new} == {1, 2}
    place, fitness = clustering.best_fitness(scaled, numpy.concatenate([[0], new]))
    assert (fitness >= 0.75).all()
    assert [list(place[first : first + 3]) for first in (0, 3, 6)] == [
        [each] * 3 for each in (place[0], place[3], place[6])
    ]
    assert len(clustering.opened(scaled[:3], numpy.array([0]), NEW_CLASS_FITNESS)) == 0


def test_features_tell_no_time() -> None:
    """A feature that is made of times would tell the time that is predicted."""
    (run, *_) = read_table(SUMMARIES / "cori.csv.gz")
    slower = {
        way: Transfers(
            **{**{f: getattr(getattr(run.traits, way), f) for f in Transfers.__struct_fields__}, "seconds": 1e9}
        )
        for way in ("read", "write")
    }
    plain = {name: getattr(run.traits, name) for name in Traits.__struct_fields__}
    changed = Run(traits=Traits(**{**plain, **slower, "seconds": 1e9, "metadata_seconds": 1e9}), started=run.started)
    assert vector(run, {}) == vector(changed, {})
    assert len(vector(run, {"a": 0, "b": 1})) == len(DERIVED) + 2


def test_summaries_agree_with_themselves() -> None:
    """Known totals of a row, and the shape of a shared file."""
    runs = list(read_table(SUMMARIES / "cori.csv.gz"))
    assert {run.traits.program for run in runs} == {"ior", "vpicio_uni", "hacc_io_read", "hacc_io_write", "dbscan_read"}
    assert {run.storage for run in runs} == {"cscratch", "datawarp"}
    shared = next(run.traits for run in runs if run.traits.program == "ior" and run.traits.files == 1)
    assert (shared.shared_files, shared.processes, shared.write.bytes) == (1, 4096, 1 << 40)
    assert shared.write.large_operations == shared.write.operations == 1 << 20
    assert identify(shared).name.startswith("large-write-")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"a,b\n1,2\n", "it has no column darshan_nprocs"),
        (b"", "it has no column darshan_nprocs"),
        (b"x" * (2 << 20), "a line of more than"),
        (gzip.compress(b"darshan_nprocs,", mtime=0)[:-9], "cannot be read"),
        (b"\xff\xfe\n", "cannot be read"),
    ],
)
def test_a_file_that_is_no_table_is_refused(content: bytes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(ProvisioningError, match=fault):
        list(read_table(path))


def test_a_table_with_a_bad_number_names_the_line(tmp_path: Path) -> None:
    lines = gzip.decompress((SUMMARIES / "cori.csv.gz").read_bytes()).decode().splitlines()
    lines[2] = lines[2].replace("4096", "nan", 1)
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(ProvisioningError, match=r"table\.csv, line 3: darshan_nprocs is nan"):
        list(read_table(path))


def test_an_archive_keeps_runs_of_logs_that_did_not_change(tmp_path: Path) -> None:
    run = Run(traits=Traits(program="a"), started=1.0, storage="scratch")
    with opened(tmp_path / "archive.db") as archive:
        assert archive.list_logs([("/a", 1, 1), ("/b", 1, 1)]) == 2
        ((first, second),) = archive.waiting(10)
        archive.keep([ParsedLog(first.number, (run,), None), ParsedLog(second.number, (), "damaged")])
        assert (archive.waiting_count(), archive.runs_count()) == (0, 1)
        assert archive.unreadable(5) == (1, [("/b", "damaged")])
    with opened(tmp_path / "archive.db") as archive:
        # One log is as it was, the other is gone, and a new one came.
        assert archive.list_logs([("/a", 1, 1), ("/c", 1, 1)]) == 2
        assert [log.path for batch in archive.waiting(10) for log in batch] == ["/c"]
        assert (archive.runs_count(), archive.unreadable(5)) == (1, (0, []))
        # The log has changed: its old run does not count.
        archive.list_logs([("/a", 2, 1)])
        assert list(archive.waiting(10)) == [(LogFile(first.number, "/a"),)]
        assert list(archive.runs()) == []


def test_absurd_counters_are_bounded() -> None:
    traits = bounded(
        Traits(program="p" * 500, processes=-3, files=-1, metadata_seconds=float("nan"), read=Transfers(bytes=2**80))
    )
    assert (len(traits.program), traits.processes, traits.files, traits.metadata_seconds) == (128, 1, 0, 0.0)
    assert traits.read.bytes == 2**62
    assert all(numpy.isfinite(vector(Run(traits=traits, started=0.0), {})))
