"""`weir bench`: the published experiments, run on this machine."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.bench import scaling, variation
from weir.cli.bench.export import check_packages, export, export_option
from weir.cli.common.errors import FAILED, USAGE, CommandError, say, warn
from weir.cli.common.listing import Listing
from weir.cli.common.output import Quantity, output_option, share, show
from weir.cli.common.parameters import FOLDER, Checked, Number
from weir.distribution import install_command
from weir.store import values

if TYPE_CHECKING:
    from weir.experiments.figures import Experiment, Figure, Options

_HEADER = (
    "PANEL",
    "TIME",
    "JOB",
    "USER",
    "NODES",
    "MB/S",
    "DEVIATION",
    "OWED",
    "RECEIVED",
    "BY BYTES",
    "ERROR MAX",
    "WITHIN",
)
_COMPARISON = "figure-12"
"""The experiment that compares schedulers."""
_SCHEDULERS = ("virtual-time", "statistical-token", "gift", "tbf", "fifo")
"""The schedulers of `weir.experiments.figures`."""
_SECONDS_MIN = 1.0
_SECONDS_MAX = 3600.0
_LAMBDA_MAX = 60_000
_REQUEST_SECONDS_MAX = 0.01
"""Longest request, in windows of 1 s, that gets no warning."""


class _Experiments(Listing):
    """The commands of this module, and one for each experiment."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from weir.experiments.figures import EXPERIMENTS

        return sorted([*super().list_commands(ctx), *EXPERIMENTS], key=_by_number)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from weir.experiments.figures import EXPERIMENTS

        experiment = EXPERIMENTS.get(cmd_name)
        return super().get_command(ctx, cmd_name) if experiment is None else _command(experiment)


@click.group(cls=_Experiments)
def bench() -> None:
    """Run published experiments, each on a store of its own with targets of an emulated speed.

    The experiments are those of ThemisIO (SC'23), named by their figures, and two of I/O variation (IPDPS'21). Each
    draws a plot and writes its numbers.
    """


for each in variation.EXPERIMENTS:
    bench.add_command(each.command)


@bench.command(name="list")
@output_option
def list_experiments(output: str) -> None:
    """List the experiments and their subjects."""
    from weir.experiments.figures import EXPERIMENTS

    first = (scaling.NAME, scaling.TITLE, scaling.SHOWS, scaling.SECONDS)
    found = [first, *((each.name, each.title, each.shows, each.seconds) for each in EXPERIMENTS.values())]
    found += [(each.name, each.title, each.shows, each.seconds) for each in variation.EXPERIMENTS]
    document = [dict(zip(("name", "title", "shows", "seconds"), each, strict=True)) for each in found]
    show(output, document, ("NAME", "TITLE", "SHOWS"), [each[:3] for each in found])


bench.add_command(scaling.figure_7)


def _by_number(name: str) -> tuple[int, str]:
    """The order of commands: `list`, then figures by their numbers."""
    number = name.removeprefix("figure-")
    return (int(number) if number.isdecimal() else 0, name)


def _known_scheduler(text: str) -> None:
    from weir.experiments.figures import SCHEDULERS
    from weir.plugins import SCHEDULER, named

    if text not in SCHEDULERS:
        named(SCHEDULER, text, SCHEDULERS).load()


_scheduler = click.option(
    "--scheduler",
    type=Checked("scheduler", values.scheduler),
    help=f"Scheduler: {', '.join(_SCHEDULERS[:-1])}.  [default: the store's]",
)
_schedulers = click.option(
    "--scheduler",
    "schedulers",
    type=Checked("scheduler", _known_scheduler),
    multiple=True,
    help=f"Scheduler: {', '.join(_SCHEDULERS)}, or a plug-in, with which all run in virtual time; may be given again. "
    " [default: all of Weir's]",
)


def _command(experiment: "Experiment") -> click.Command:
    """Make the command that runs an experiment."""
    from weir.experiments.figures import LAMBDAS_MILLISECONDS, SPEED

    def run(out: Path, table: Path | None, output: str, **chosen: Any) -> int:
        intervals = tuple(chosen.pop("lambdas", ())) or LAMBDAS_MILLISECONDS
        return _run(experiment, out, table, output, lambdas_milliseconds=intervals, **chosen)

    options: list[Callable[[Any], Any]] = [
        click.option(
            "--seconds",
            type=Number(_SECONDS_MIN, _SECONDS_MAX),
            default=experiment.seconds,
            help="Length of the first job.",
        ),
        click.option(
            "--speed",
            type=Checked("rate", values.rate),
            default=SPEED,
            help="Speed of each target, in both directions.",
        ),
        _schedulers if experiment.name == _COMPARISON else _scheduler,
        click.option(
            "--out",
            metavar="DIR",
            type=FOLDER,
            default="weir-bench",
            help="Folder for the plot and the numbers.",
        ),
        export_option,
        output_option,
    ]
    if experiment.name == "figure-14":
        default = ", ".join(map(str, LAMBDAS_MILLISECONDS))
        options.append(
            click.option(
                "--lambda",
                "lambdas",
                metavar="MILLISECONDS",
                type=click.IntRange(1, _LAMBDA_MAX),
                multiple=True,
                help=f"Interval of the exchange; may be given again.  [default: {default}]",
            )
        )
    for option in reversed(options):
        run = option(run)
    return click.command(name=experiment.name, help=f"{experiment.shows}\n\n{experiment.title}.")(run)


def _run(experiment: "Experiment", out: Path, table: Path | None, output: str, **chosen: Any) -> int:
    """Run an experiment, show its results and write them."""
    import signal

    from weir.experiments import figures, records

    check_packages(table)
    # SIGTERM is an interruption: the experiment then ends its store and its jobs.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options: Options = figures.Options(**chosen)
    figure = _figure(experiment, options)
    refused = [panel for panel in figure.panels if panel.refused]
    if len(refused) == len(figure.panels):
        raise CommandError(refused[0].refused, hint=refused[0].hint, exit_code=USAGE)
    files = records.write(figure, out)
    plot = _draw(figure, out)
    export(table, experiment.name, records.observations(figure))
    _show(figure, output, [str(path) for path in [*files, *([plot] if plot else [])]])
    for panel in figure.panels:
        if panel.rows and not panel.summaries:
            warn(f"{panel.title}: no window counts but the first of each phase", hint="choose more --seconds")
        if panel.request_seconds > _REQUEST_SECONDS_MAX:
            warn(
                f"{panel.title}: one request is {100 * panel.request_seconds:.1f}% of a window, so shares are coarse",
                hint="choose a higher --speed",
            )
    for panel in refused:
        warn(f"{panel.title} was not run: {panel.refused}", hint=panel.hint)
    return FAILED if refused else 0


def _figure(experiment: "Experiment", options: "Options") -> "Figure":
    """The results of an experiment: on a store, or in virtual time where a plug-in is compared."""
    from weir.experiments import figures

    if set(options.schedulers) <= set(_SCHEDULERS):
        return figures.run(experiment.name, options, say)
    from weir.simulation.scheduler_panels import panels

    say("a plug-in is among the schedulers: all run in virtual time")
    return figures.Figure(experiment.name, experiment.title, options, panels(options.schedulers, options, say))


def _draw(figure: "Figure", out: Path) -> Path | None:
    from weir.plots import experiments

    try:
        return experiments.draw(figure, out)
    except ImportError as error:
        warn(f"nothing is drawn: {error}", hint=f"install matplotlib: `{install_command('plots')}`")
        return None


def _show(figure: "Figure", output: str, files: list[str]) -> None:
    from weir.experiments import hierarchy, records

    document = {**records.document(figure, with_windows=False), "files": files}
    show(output, document, _HEADER, _rows(figure))
    for panel in figure.panels:
        if panel.disagreement_max is not None and panel.busy_ratio is not None:
            say(
                f"{panel.title}: targets busy {100 * panel.busy_ratio:.1f}% of the time; shares by device time and by"
                f" the jobs' own bytes differ by at most {100 * panel.disagreement_max:.2f} points"
            )
        if len(panel.groupings) > 1:
            for line in hierarchy.lines(hierarchy.tree(panel.jobs, panel.summaries, panel.groupings)):
                say(line)
        if panel.convergence is not None:
            say(f"{panel.title}: {_convergence_words(panel.convergence)}")
    say(f"written: {', '.join(files)}")


def _rows(figure: "Figure") -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for panel in figure.panels:
        jobs = {job.name: job for job in panel.jobs}
        for each in panel.summaries:
            deviation = each.bytes_per_second_deviation
            rows.append(
                (
                    panel.title,
                    f"{each.start_seconds:g}-{each.end_seconds:g} s",
                    each.job,
                    jobs[each.job].user,
                    jobs[each.job].nodes,
                    Quantity(f"{each.bytes_per_second_median / 1e6:.2f}"),
                    Quantity("-" if deviation is None else f"{deviation / 1e6:.2f}"),
                    Quantity("-") if each.share_owed is None else share(each.share_owed),
                    share(each.share_device),
                    share(each.share_bytes),
                    Quantity("-") if each.share_error_max is None else share(each.share_error_max),
                    Quantity("-" if each.windows_within is None else f"{each.windows_within}/{each.windows}"),
                )
            )
    return rows


def _convergence_words(convergence: Any) -> str:
    if convergence.right_seconds is None:
        return "the servers never owed the shares that are right for the whole store"
    return (
        f"every server owed the right shares {1000 * convergence.right_seconds:.0f} ms after the first request,"
        f" in exchange {convergence.exchanges}; shares over the second that followed were at most"
        f" {100 * (convergence.share_error_max or 0):.2f} points off"
    )
