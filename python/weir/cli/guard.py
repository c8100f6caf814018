"""`weir guard`: protection of jobs that others slow."""

from pathlib import Path
from typing import Any

import click

from weir.amounts import clock_time
from weir.cli.common.ending import end_of_signals
from weir.cli.common.errors import CommandError, say, warn
from weir.cli.common.listing import Listing
from weir.cli.common.output import Quantity, output_option, show
from weir.cli.common.parameters import FILE, Checked, Number, each
from weir.cli.common.window_options import seconds_option
from weir.store import values
from weir.store.home import Home

_KINDS = ("share", "weight", "avoid", "limit")
"""As `weir.guard.bounds`, which the command line imports when it needs it."""
_COUNT = click.IntRange(1, 100_000)


def _kind(text: str) -> str:
    if text not in _KINDS:
        raise ValueError(f"{text!r} is none of {', '.join(_KINDS)}")
    return text


@click.group(cls=Listing, invoke_without_command=True)
@click.option(
    "--slowdown", type=Number(1, min_open=True), default=2.0, help=("Slowdown beyond which a job is a victim.")
)
@click.option("--windows", type=_COUNT, default=3, help=("Number of slowed windows in a row before an action begins."))
@click.option("--calm", type=_COUNT, default=10, help="Number of windows without a cause before an action ends.")
@click.option("--dwell", type=_COUNT, default=10, help=("Least number of windows between two changes for one victim."))
@click.option(
    "--changes",
    "changes_per_hour",
    type=click.IntRange(2, 3600),
    default=20,
    help=("Largest number of changes in an hour."),
)
@click.option(
    "--actions",
    "kinds",
    type=Checked("actions", each(_kind)),
    default=",".join(_KINDS),
    help="Actions that the guard may take, in the order in which it tries them.",
)
@click.option(
    "--policy",
    type=Checked("policy", values.policy),
    default="size-fair",
    help="Policy of the action `share`, in place of fifo.",
)
@click.option(
    "--weight-max", type=Number(1, 1000), default=4.0, help=("Largest factor by which a victim's weight is raised.")
)
@click.option(
    "--limit-min",
    type=Number(0.001, 1),
    default=0.1,
    help=("Smallest limit of a culprit, as a fraction of each device's time."),
)
@click.option(
    "--model", type=FILE, help=("Model that predicts slowdowns.  [default: none; the servers' windows show slowdowns]")
)
@click.option("--served", "is_served", is_flag=True, help="Use the predictions of `weir interference serve`.")
@seconds_option
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only show what the guard would do.")
@click.pass_context
def guard(
    context: click.Context,
    /,
    model: Path | None,
    is_served: bool,
    seconds: float | None,
    is_dry_run: bool,
    **bounds: Any,
) -> None:
    """Protect jobs that others slow, until ^C.

    A job is a victim if its waits for other jobs slow it beyond --slowdown. Its culprit is the job for which it
    waited longest, among jobs that received more than they are owed. The action `share` puts --policy in place of
    fifo, `weight` raises the victim's weight, `avoid` keeps new files of the victim off the culprit's targets, and
    `limit` limits the culprit. No job gets less than its owed share.

    An action ends when its cause is gone, or some seconds after the guard ends or dies. The guard needs
    the site's key. `weir guard log` shows what it did.
    """
    if context.invoked_subcommand is not None:
        return
    home: Home = context.obj
    from weir.cli.common.asking import administered
    from weir.guard.bounds import Bounds
    from weir.guard.decisions import Guard
    from weir.guard.journal import FOLDER, Journal
    from weir.guard.owing import owed_by
    from weir.guard.served import Served
    from weir.guard.watch import Watch, run

    kinds, policy = tuple(dict.fromkeys(bounds.pop("kinds").split(","))), values.policy(bounds.pop("policy"))
    limits = Bounds(kinds=kinds, policy=policy, **bounds)
    if model is not None and is_served:
        raise click.UsageError("--model and --served are two sources of predictions", context)
    forecast = None if model is None else _forecast(model)
    administered(home, "guard it")
    watch = Watch(
        find=lambda: administered(home, "guard it"),
        guard=Guard(limits, owed_by(home.configuration), is_dry=is_dry_run),
        journal=Journal(home.root / FOLDER),
        tell=lambda line: say(_sentence(line)),
        warn=warn,
        forecast=forecast,
        is_dry_run=is_dry_run,
    )
    if is_served:
        watch.forecast = Served(watch.answering)
    with _alone(home):
        run(watch, end_of_signals(seconds))


@guard.command(name="log")
@click.option("--last", type=_COUNT, help="Show only this number of last lines.  [default: all]")
@output_option
@click.pass_obj
def log(home: Home, last: int | None, output: str) -> None:
    """Show what the guard did, why, and what came of it, and which slowed jobs it left alone.

    The name of a job is followed by that of its user. BEFORE and AFTER are the victim's slowdowns, as means over
    windows.
    """

    from weir.guard.journal import FOLDER, Journal

    lines = Journal(home.root / FOLDER).lines()
    lines = lines if last is None else lines[-last:]

    def shown(figure: float | None) -> Quantity:
        return Quantity("" if figure is None else f"{figure:.2f}")

    rows = [
        (
            clock_time(line["time"]),
            ("would have " if line["is_dry_run"] and line["kind"] else "") + line["did"],
            _action(line),
            f"{line['victim']} ({line['victim_user']})",
            _culprit(line),
            shown(line["slowdown_before"]),
            shown(line["slowdown_after"]),
            line["reason"],
        )
        for line in lines
    ]
    show(output, lines, ("TIME", "DID", "ACTION", "VICTIM", "CULPRIT", "BEFORE", "AFTER", "REASON"), rows)


def _action(line: dict[str, Any]) -> str:
    value = line["value"]
    if line["kind"] is None:
        return "-"
    return f"{line['kind']} {value if isinstance(value, str) else f'{value:.2f}'}"


def _culprit(line: dict[str, Any]) -> str:
    return "-" if line["culprit"] is None else f"{line['culprit']} ({line['culprit_user']})"


def _sentence(line: dict[str, Any]) -> str:
    after = "" if line["slowdown_after"] is None else f"; its slowdown is {line['slowdown_after']:.1f} since"
    would = "would have " if line["is_dry_run"] else ""
    if line["kind"] is None:
        return f"{line['did']}: {line['reason']}"
    jobs = f"{line['victim']} ({line['victim_user']}) against {_culprit(line)}"
    return f"{would}{line['did']}: {_action(line)} for {jobs}: {line['reason']}{after}"


def _forecast(model: Path) -> Any:
    """The predictions of a model."""
    from weir.cli.common.interference_packages import needed

    needed("msgspec", "numpy", "pyarrow")
    from weir.guard.forecast import Forecast

    return Forecast(model)


def _alone(home: Home) -> Any:
    """Refuse a second guard of the same store: each would end the lease of the other."""
    import fcntl

    from weir.guard.journal import FOLDER

    home.check_owner()
    folder = home.root / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    file = (folder / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise CommandError("this store has a guard already", hint="end it first") from None
    return file
