"""The experiments of ThemisIO's figures 8, 9, 10, 12 and 14 (SC'23, sections 5.3, 5.4 and 5.6).

The paper ran its first job for 60 s and the others from 15 s to 45 s, with 56 processes a node; here both are less, in
the same proportions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from weir.experiments import windows
from weir.experiments.convergence import Convergence, convergence_of
from weir.experiments.jobs import Job, Run, coarser, run_jobs
from weir.experiments.policies import shares_owed
from weir.experiments.store import Store
from weir.experiments.windows import Row, Summary
from weir.store.errors import SettingsError

Say = Callable[[str], None]

SCHEDULERS = ("virtual-time", "statistical-token", "gift", "tbf", "fifo")
"""The schedulers that figure 12 compares."""
LAMBDAS_MILLISECONDS = (10, 50, 200, 500)
"""The intervals of figure 14."""
SPEED = "32MB/s"
"""Speed of each target, slow enough that jobs share the targets and not this machine's processors."""
TOLERANCE = 0.02
"""Tolerance of a window's share, unless one request is more."""
_WINDOW_SECONDS = 1.0
_PROCESSES_PER_NODE = 4
_PROCESSES_PER_TARGET = 4
"""Processes for each target of a job in figure 14: few, because all wake up at once, and the milliseconds that follow
count."""
_REQUEST_BYTES = (256 * 1024, 128 * 1024, 64 * 1024)
_REQUEST_PART_MAX = 0.0025
"""A request takes at most this part of a window, where the smallest is not too large for it."""
_LAMBDA_WINDOW_SECONDS = 0.1
_POLL_SECONDS = 3.0
"""Time for which figure 14 asks the servers for their shares: the longest interval a few times."""


@dataclass(frozen=True)
class Options:
    """The user's choices.

    Attributes:
        seconds: Length of the first job.
        speed: Speed of each target, such as `32MB/s`.
        scheduler: Scheduler; None is the store's default.
        schedulers: Schedulers that figure 12 compares; none for all of Weir's.
        lambdas_milliseconds: Intervals of figure 14.
    """

    seconds: float
    speed: str = SPEED
    scheduler: str | None = None
    schedulers: tuple[str, ...] = ()
    lambdas_milliseconds: tuple[int, ...] = LAMBDAS_MILLISECONDS


@dataclass
class Panel:
    """One run of a figure."""

    title: str
    policy: str
    scheduler: str | None
    jobs: list[Job] = field(default_factory=list)
    window_seconds: float = _WINDOW_SECONDS
    rows: list[Row] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    disagreement_max: float | None = None
    """Greatest distance between a share by device time and the same by the jobs' own bytes."""
    busy_ratio: float | None = None
    """Part of their time in which the targets worked."""
    request_seconds: float = 0.0
    """Time that a target works on one request."""
    groupings: tuple[str, ...] = ("name",)
    """Attributes of a job by which the plots add jobs up."""
    convergence: Convergence | None = None
    refused: str = ""
    """Reason why the store did not come up for this panel; then nothing was run."""
    hint: str = ""


@dataclass
class Figure:
    """The results of an experiment."""

    name: str
    title: str
    options: Options
    panels: list[Panel]


@dataclass(frozen=True)
class Experiment:
    """An experiment that can be run."""

    name: str
    title: str
    shows: str
    """Subject of the experiment, in a sentence."""
    seconds: float
    """Length of the first job, unless the user chooses another."""
    run: Callable[[Options, Say], list[Panel]]


def run(name: str, options: Options, say: Say) -> Figure:
    """Run an experiment.

    Args:
        name: Name of an experiment in `EXPERIMENTS`.
        options: The user's choices.
        say: Called with a sentence for each panel.

    Raises:
        ExperimentError: The experiment cannot go on.
        StoreError: Its store does not come up, or does not answer.
    """
    experiment = EXPERIMENTS[name]
    return Figure(name, experiment.title, options, experiment.run(options, say))


def _figure_8(options: Options, say: Say) -> list[Panel]:
    first, second = _job(1, 4, options), _later(2, 1, options)
    users = [
        _job(1, 2, options, user="A"),
        _later(2, 2, options, user="A"),
        _later(3, 1, options, user="B"),
    ]
    return [
        _panel("(a) size-fair: 4 nodes, 1 node", "size-fair", [first, second], options, say),
        _panel("(b) job-fair: 4 nodes, 1 node", "job-fair", [first, second], options, say),
        _panel(
            "(c) user-fair: A with 2 + 2 nodes, B with 1", "user-fair", users, options, say, groupings=("user", "name")
        ),
    ]


def _figure_9(options: Options, say: Say) -> list[Panel]:
    jobs = [
        _job(1, 1, options, user="user-1"),
        _later(2, 2, options, user="user-1"),
        _later(3, 4, options, user="user-2"),
        _later(4, 6, options, user="user-2"),
    ]
    policy = "user-then-size-fair"
    return [_panel("four jobs of two users", policy, jobs, options, say, groupings=("user", "name"))]


def _figure_10(options: Options, say: Say) -> list[Panel]:
    # Users, groups and node counts as in the published artifact of the paper.
    members = [("user-2", 2), ("user-2", 3), ("user-2", 2), ("user-3", 3), ("user-3", 2), ("user-4", 1), ("user-4", 2)]
    jobs = [_job(1, 1, options, user="user-1", group="group-1")]
    for number, (user, nodes) in enumerate(members, start=2):
        jobs.append(_later(number, nodes, options, user=user, group="group-2"))
    return [
        _panel(
            "eight jobs of four users in two groups",
            "group-then-user-then-size-fair",
            jobs,
            options,
            say,
            groupings=("group", "user", "name"),
        )
    ]


def _figure_12(options: Options, say: Say) -> list[Panel]:
    jobs = [_job(1, 1, options), _later(2, 1, options)]
    chosen = options.schedulers or SCHEDULERS
    panels = []
    for scheduler in chosen:
        policy = "fifo" if scheduler == "fifo" else "job-fair"
        of_policy = replace(options, scheduler=None if scheduler == "fifo" else scheduler)
        panels.append(_panel(scheduler, policy, jobs, of_policy, say))
    return panels


def _figure_14(options: Options, say: Say) -> list[Panel]:
    return [_lambda_panel(interval, options, say) for interval in options.lambdas_milliseconds]


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "figure-8",
            "Sharing under size-fair, job-fair and user-fair",
            "A job of 4 nodes beside one of 1 node, by size and by job; two jobs of one user beside one of another.",
            20.0,
            _figure_8,
        ),
        Experiment(
            "figure-9",
            "Sharing under user-then-size-fair",
            "Four jobs of two users: time is divided among users, then by size among the jobs of each.",
            20.0,
            _figure_9,
        ),
        Experiment(
            "figure-10",
            "Sharing under group-then-user-then-size-fair",
            "Eight jobs of four users in two groups: three levels.",
            20.0,
            _figure_10,
        ),
        Experiment(
            "figure-12",
            "Schedulers under job-fair",
            "A pair of jobs of 1 node under each scheduler: throughput, and how much it varies.",
            20.0,
            _figure_12,
        ),
        Experiment(
            "figure-14",
            "Fairness over two servers that exchange their jobs every lambda",
            "Three jobs of 16, 8 and 8 nodes, one on both servers: when the servers' weights become right.",
            6.0,
            _figure_14,
        ),
    )
}
"""Every experiment, by name."""


def _job(number: int, nodes: int, options: Options, *, user: str = "user", group: str = "group") -> Job:
    """A job that has work all the time."""
    return Job(
        f"job-{number}",
        processes=nodes * _PROCESSES_PER_NODE,
        seconds=options.seconds,
        nodes=nodes,
        user=user,
        group=group,
    )


def _later(number: int, nodes: int, options: Options, *, user: str = "user", group: str = "group") -> Job:
    """A job that has work in the second and third quarter of the time."""
    job = _job(number, nodes, options, user=user, group=group)
    return replace(job, start_seconds=options.seconds / 4, seconds=options.seconds / 2)


def _panel(
    title: str, policy: str, jobs: Sequence[Job], options: Options, say: Say, *, groupings: tuple[str, ...] = ("name",)
) -> Panel:
    """Run jobs under a policy on one server with one target."""
    panel = Panel(title, policy, options.scheduler, groupings=groupings)
    say(f"{title}: {len(jobs)} jobs for {options.seconds:g} s")
    try:
        with Store(policy=policy, scheduler=options.scheduler, speed=options.speed) as store:
            panel.jobs = sized(jobs, store, _WINDOW_SECONDS)
            run = run_jobs(store, panel.jobs, window_seconds=_WINDOW_SECONDS)
            panel.request_seconds = _request_seconds(store, panel.jobs)
    except SettingsError as error:
        panel.refused, panel.hint = error.message, error.hint
        return panel
    _measure(panel, run, devices=1)
    return panel


def _measure(panel: Panel, run: Run, *, devices: int) -> None:
    panel.rows = rows_of(run, panel.policy)
    panel.summaries = windows.summaries(
        panel.rows, run.window_seconds, tolerance=max(TOLERANCE, panel.request_seconds / run.window_seconds)
    )
    panel.disagreement_max = windows.disagreement_max(panel.rows)
    panel.busy_ratio = windows.busy_ratio(panel.rows, devices)


def rows_of(run: Run, policy: str, *, outstanding_min: float = windows.OUTSTANDING_MIN) -> list[Row]:
    """Make the table of a run's windows.

    Args:
        policy: Policy of the store.
        outstanding_min: As for `windows.table`.

    Returns:
        The rows, with the shares that the policy owes.
    """
    by_name = {job.name: job for job in run.jobs}

    def owed(names: Sequence[str]) -> dict[str, float] | None:
        return shares_owed(policy, [by_name[name] for name in names])

    return windows.table(run.jobs, run.samples, run.done, run.window_seconds, owed, outstanding_min=outstanding_min)


def sized(jobs: Sequence[Job], store: Store, window_seconds: float) -> list[Job]:
    """Choose the size of the jobs' requests.

    Args:
        store: A store that is up.

    Returns:
        The jobs with the largest requests that are a small part of a window at the store's speed.
    """
    rate = min(store.device_rates(), default=math.inf)
    fitting = [size for size in _REQUEST_BYTES if size / rate <= _REQUEST_PART_MAX * window_seconds]
    return [replace(job, request_bytes=(fitting or _REQUEST_BYTES[-1:])[0]) for job in jobs]


def _request_seconds(store: Store, jobs: Sequence[Job]) -> float:
    """Time that a target works on the largest request."""
    rate = min(store.device_rates(), default=math.inf)
    return max(job.request_bytes for job in jobs) / rate


def _lambda_panel(interval: int, options: Options, say: Say) -> Panel:
    """Run the three jobs of figure 5 on two servers that exchange their jobs every `interval` milliseconds."""
    policy = "size-fair"
    title = f"lambda = {interval} ms"
    panel = Panel(title, policy, options.scheduler, window_seconds=_LAMBDA_WINDOW_SECONDS)
    say(f"{title}: 3 jobs on two servers for {options.seconds:g} s")
    places = (("0.0", "1.0"), ("0.0",), ("1.0",))
    jobs = [
        replace(_job(number, nodes, options), processes=_PROCESSES_PER_TARGET * len(targets), targets=targets)
        for number, (nodes, targets) in enumerate(zip((16, 8, 8), places, strict=True), start=1)
    ]
    try:
        with Store(
            policy=policy,
            scheduler=options.scheduler,
            servers=2,
            speed=options.speed,
            lambda_milliseconds=interval,
        ) as store:
            panel.jobs = sized(jobs, store, _WINDOW_SECONDS)
            run = run_jobs(
                store,
                panel.jobs,
                window_seconds=_LAMBDA_WINDOW_SECONDS,
                poll_seconds=min(_POLL_SECONDS, options.seconds),
            )
            panel.request_seconds = _request_seconds(store, panel.jobs)
    except SettingsError as error:
        panel.refused, panel.hint = error.message, error.hint
        return panel
    _measure(panel, coarser(run, round(_WINDOW_SECONDS / _LAMBDA_WINDOW_SECONDS)), devices=2)
    panel.rows = rows_of(run, policy)
    panel.convergence = convergence_of(run, policy, panel.rows, interval)
    return panel
