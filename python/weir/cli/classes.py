"""`weir classes`: classes of I/O behaviour, made from a site's own logs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.cluster_options import chosen_pool, cluster_options
from weir.cli.common.errors import CommandError, say, warn
from weir.cli.common.job_identity import NEW_CLASS
from weir.cli.common.listing import Listing
from weir.cli.common.output import Quantity, output_option, print_table, share
from weir.cli.common.parameters import FILE, FOLDER, PATH, Number
from weir.distribution import install_command
from weir.ways import make_work_folder

if TYPE_CHECKING:
    from weir.provisioning.behaviour.classes import TimeName
    from weir.provisioning.learning.report import ClassReport, Report

_INTERRUPTED = 130
_ERROR_SHOWN_MAX = 10.0
"""Relative errors from this one on are alike to a reader: the model knows nothing."""
_FACTOR_SHOWN_MAX = 1000
"""Factors from this one on are alike to a reader: the interval tells nothing."""


@click.group(cls=Listing)
def classes() -> None:
    """Make classes of I/O behaviour from a site's own logs.

    `weir plan` compares jobs with them, in place of the classes that come with Weir.
    """


@classes.command(name="build")
@click.argument("logs", metavar="LOGS...", nargs=-1, required=True, type=PATH)
@click.option(
    "--to",
    "folder",
    metavar="DIR",
    required=True,
    type=FOLDER,
    help="Folder of the classes and the report, in which a killed build continues.",
)
@click.option(
    "--trials",
    type=click.IntRange(1, 10_000),
    default=16,
    help="Trials of the search for hyper-parameters, for each of the three times.",
)
@click.option(
    "--fitted-runs",
    metavar="RUNS",
    type=click.IntRange(20, 1_000_000),
    default=8000,
    help="Largest number of runs on which a model is fitted; of more runs, a sample is drawn.",
)
@click.option(
    "--trees",
    type=click.IntRange(1, 10_000),
    default=60,
    help="Number of trees of the forest; XGBoost has three times as many, AdaBoost half.",
)
@click.option("--clusters", type=click.IntRange(2, 200), default=16, help="Largest number of clusters to try.")
@click.option(
    "--io-fraction-min",
    metavar="FRACTION",
    type=Number(0, 1),
    default=0.0,
    help="Leave out runs that spent a smaller fraction of their time in I/O.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    help="Seed of all random numbers: the same logs and seed give the same classes.",
)
@NEW_CLASS
@click.option(
    "--interval-max",
    metavar="FACTOR",
    type=Number(1),
    default=3.0,
    help="Show a predicted time only if its 90 % interval lies between the time divided by FACTOR and the time"
    " multiplied by FACTOR.",
)
@cluster_options
@output_option
def build_classes(
    logs: tuple[Path, ...],
    folder: Path,
    trials: int,
    fitted_runs: int,
    trees: int,
    clusters: int,
    io_fraction_min: float,
    seed: int,
    new_class: float | None,
    interval_max: float,
    output: str,
    **where: Any,
) -> int:
    """Make classes from Darshan logs, and report how well models predict the times of their I/O.

    LOGS are logs, folders with logs at any depth, or tables of summaries as pytokio writes them (.csv, .csv.gz). Each
    log is read once, so the same command continues after Ctrl-C or a crash, and can be given more logs.
    """
    _check_packages()
    from weir.cli.common.progress import progress
    from weir.provisioning.behaviour.classes import NEW_CLASS_FITNESS
    from weir.provisioning.learning.building import REPORT, TABLE, Options, build
    from weir.provisioning.learning.parsing import check
    from weir.provisioning.learning.processes import Processes

    check(logs)
    # Workers that Slurm starts write their logs and read their keys there.
    make_work_folder(folder)
    options = Options(
        trials=trials,
        fitted_runs=fitted_runs,
        trees=trees,
        classes_max=clusters,
        io_fraction_min=io_fraction_min,
        seed=seed,
        new_class_fitness=NEW_CLASS_FITNESS if new_class is None else new_class,
        interval_max=interval_max,
    )
    try:
        with progress() as show, chosen_pool(where, folder, Processes) as pool:
            table, report = build(logs, folder, pool, options, show)
    except KeyboardInterrupt:
        say("interrupted; the same command continues")
        return _INTERRUPTED
    for note in report.notes:
        warn(note)
    _show(report, output)
    say(f"written: {folder / TABLE} with {len(table.classes)} classes, {folder / REPORT}")
    return 0


@classes.command(name="add")
@click.argument("table_file", metavar="TABLE", type=FILE)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=PATH)
@click.option(
    "--to", "target", metavar="FILE", required=True, type=FILE, help="File of the new table; it may be TABLE."
)
@NEW_CLASS
@output_option
def add_to_classes(
    table_file: Path, logs: tuple[Path, ...], target: Path, new_class: float | None, output: str
) -> None:
    """Count more jobs in a table of classes. A log that is too far from every class opens a new one.

    TABLE is a file of `weir classes build`. Existing classes do not change, so plans for known jobs do not change
    either.
    """
    from weir.cli.common.output import show

    _check_packages()
    from weir.provisioning.behaviour.classes import read_table, with_fitness_min, with_job
    from weir.provisioning.behaviour.identity import identify
    from weir.provisioning.behaviour.traits import of_log
    from weir.provisioning.documents import write
    from weir.tracing.darshan import DarshanError
    from weir.tracing.totals import read_totals

    table = with_fitness_min(read_table(table_file), new_class)
    documents = []
    for path, log in read_totals(logs):
        if isinstance(log, DarshanError):
            raise log
        identity = identify(of_log(log))
        table, own, is_new = with_job(table, identity)
        documents.append({"log": str(path), "identity": identity.name, "class": own.name, "is_new": is_new})
    write(target, table)
    rows = [(each["identity"], each["class"], "new" if each["is_new"] else "") for each in documents]
    show(output, documents, ("IDENTITY", "CLASS", ""), rows)
    say(f"written: {target} with {len(table.classes)} classes")


def _check_packages() -> None:
    """Refuse to begin without the packages that the end needs."""
    from importlib.util import find_spec

    needed = ("darshan", "joblib", "msgspec", "numpy", "optuna", "sklearn", "xgboost", "yaml")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise CommandError(f"{missing[0]} is not installed", hint=install_command("provisioning"))


def _show(report: "Report", output: str) -> None:
    import msgspec

    from weir.cli.common.output import show

    if output != "table":
        show(output, msgspec.to_builtins(report), (), ())
        return
    best = {(each.target, each.held_out): each for each in report.best}
    scores: list[Sequence[object]] = [
        (
            score.target,
            score.held_out,
            score.model + (" *" if best[score.target, score.held_out].model == score.model else ""),
            score.runs,
            _error(score.mape),
            _error(score.median_error),
            share(score.coverage),
            Quantity(f"x{score.factor:.2f}" if score.factor < _FACTOR_SHOWN_MAX else f">x{_FACTOR_SHOWN_MAX:,}"),
        )
        for score in report.scores
        if score.program is None
    ]
    if scores:
        print_table(("TIME", "HELD OUT", "MODEL", "RUNS", "MAPE", "MEDIAN", "COVERED", "INTERVAL"), scores)
        if report.best_model:
            print(f"best on held-out months and applications: {report.best_model}")
        for each in report.best:
            verdict = "useful" if each.is_useful else f"of no use, {each.refusal}"
            print(f"{each.target}, held-out {each.held_out}, {each.model}: {verdict}")
        print()
    print_table(
        ("CLASS", "RUNS", "READ", "WRITE", "METADATA", ""),
        [
            (
                each.name,
                each.runs,
                *(_time(each, name) for name in ("read", "write", "metadata")),
                "opened" if each.is_opened else "",
            )
            for each in report.classes
        ],
    )


def _error(fraction: float) -> Quantity:
    """A relative error; of one beyond the greatest that is shown, only that it is."""
    return share(fraction) if fraction < _ERROR_SHOWN_MAX else Quantity(f">{_ERROR_SHOWN_MAX:.0%}")


def _time(of: "ClassReport", name: "TimeName") -> str:
    """The time of the run in the middle of a class, with its interval; `-` where the prediction is of no use."""
    told = of.times.get(name)
    if told is None:
        return Quantity("-")
    seconds = of.middle_seconds[name]
    source = " shipped" if told.source == "shipped" else ""
    return Quantity(f"{seconds:.3g} s ({seconds / told.factor:.3g}-{seconds * told.factor:.3g}){source}")
