"""Samples of a made-up store, for tests of a history without servers; as a program it keeps them until it is killed."""

import random
import sys
from pathlib import Path

from weir.history.database import Database
from weir.history.samples import Sample
from weir.store.answers import WaitedFor
from weir.store.observations import JobKey, ObservedDevice, ObservedJob, Statistic, Window
from weir.store.predictions import JobPrediction, PredictedHorizon, Predictions

WINDOW = 1000
BEGIN = 1_790_000_000
"""Number of the first window, of one second each."""
DEVICES = ("0.0", "0.1", "0.metadata")
_COUNTERS = (
    "reads",
    "writes",
    "read_sectors",
    "written_sectors",
    "read_milliseconds",
    "write_milliseconds",
    "in_progress",
    "busy_milliseconds",
    "queued_milliseconds",
)


def window(number: int, generator: random.Random, jobs: int) -> Window:
    """A window in which some of the jobs work."""
    devices = tuple(
        ObservedDevice(name, **{counter: Statistic(float(generator.randrange(100)), 0.0, 0.0) for counter in _COUNTERS})
        for name in DEVICES
    )
    lines = tuple(line(f"job-{job}", generator) for job in range(jobs) if generator.random() < 0.7)
    return Window(number, devices, lines, 0)


def line(job: str, generator: random.Random) -> ObservedJob:
    """The work of a job at a device."""
    waited = (WaitedFor("hog", "bob", 7, generator.random()),)
    return ObservedJob(
        job=job,
        user="ada",
        uid=5,
        device=generator.choice(DEVICES),
        reads=generator.randrange(1000),
        writes=generator.randrange(1000),
        read_bytes=generator.randrange(1 << 40),
        written_bytes=generator.randrange(1 << 40),
        stats=1,
        opens=2,
        closes=3,
        lists=4,
        makes=5,
        removes=6,
        renames=7,
        changes=8,
        request_seconds=generator.random() * 8,
        device_seconds=generator.random(),
        waited_for=waited,
        waited_for_others_seconds=generator.random(),
        under_way_max=generator.randrange(64),
    )


def sample(number: int, generator: random.Random, jobs: int = 3) -> Sample:
    """The sample of one window."""
    made = Sample((number + 1) * WINDOW, WINDOW)
    made.add_windows(number, [window(number, generator, jobs)], {})
    return made


def predicted(number: int, *, slowed: bool) -> Predictions:
    """The predictions of one window for `job-1`: slowed by another job as it was measured, or not slowed by a model."""
    horizon = PredictedHorizon(0, "from 5" if slowed else "below 2", 0.9, ())
    responsible = (WaitedFor("flood", "bob", 7, 0.5),) if slowed else ()
    job = JobPrediction(
        "job-1", "ada", 5, "measured" if slowed else "trees", (horizon,), (), 0.1, 0.5, 5.0, responsible
    )
    return Predictions(number, WINDOW / 1000, (), (job,))


def key(job: int) -> JobKey:
    """The key of a job of `sample`."""
    return JobKey(f"job-{job}", 5)


def main() -> None:
    """Keep one sample after the other in a folder, and tell the number of each that is kept."""
    folder, first, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    generator = random.Random(seed)
    database = Database(folder, bytes_max=1 << 30)
    number = first
    while True:
        database.add(sample(number, generator))
        print(number, flush=True)
        number += 1
        if number % 50 == 0:
            # Ten days later everything of the finest level folds.
            database.settle(number * WINDOW + 3 * 3_600_000)


if __name__ == "__main__":
    main()
