"""`weir adapt steps`: reads of a stream as by an analysis, with the cost and the accuracy of each step."""

import time
from statistics import fmean, pvariance
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.amounts import parse_amount
from weir.cli.common.errors import CommandError, say, warn
from weir.cli.common.output import output_option, seconds, share, show, size
from weir.cli.common.parameters import Checked, Number

if TYPE_CHECKING:
    from weir.adaptive.policy import Policy
    from weir.adaptive.reader import Reader, Step

_OPTIONS_OF = {
    "plot": {"--low": "low", "--high": "high", "--k": "slope", "--b": "intercept"},
    "budget": {"--seconds": "seconds", "--variance": "variance"},
}
"""Policies, their options, and the parameters that these set."""
_TRANSFORMERS = ("paper-dft", "online")
"""Forecasters that take the Fourier transform of a window."""
_HEADER = ("STEP", "SECONDS", "READ", "AUGMENTED", "FORECAST/S", "ACHIEVED/S", "RMSE", "MAX ERROR", "LATE")


def _known_forecaster(text: str) -> None:
    from weir.prediction.bandwidth import check

    check(text)


def _read_tier(text: str) -> None:
    from weir.adaptive.tiers import Tier

    Tier.parse(text)


TIER = Checked("tier", _read_tier)
"""A tier: `[ZONE=]URL`."""


@click.command()
@click.argument("tiers", metavar="TIER...", nargs=-1, required=True, type=TIER)
@click.option(
    "--policy",
    type=click.Choice(["best-effort", "isolation", "plot", "budget"]),
    default="best-effort",
    help="Rule for the amount to read: everything, only the base, by --low and --high, or by --seconds or --variance.",
)
@click.option(
    "--low",
    metavar="SIZE",
    callback=parse_amount,
    help=("With --policy plot: bandwidth up to which only the base is read."),
)
@click.option(
    "--high",
    metavar="SIZE",
    callback=parse_amount,
    help=("With --policy plot: bandwidth from which everything is read."),
)
@click.option(
    "--k",
    "slope",
    type=Number(0),
    help=("With --policy plot: slope of the degree between these bandwidths, per byte per second."),
)
@click.option("--b", "intercept", type=Number(), help="With --policy plot: the degree at a bandwidth of 0.")
@click.option("--seconds", type=Number(0, min_open=True), help="Time budget of a step's augmentation, in seconds.")
@click.option("--variance", type=Number(0, min_open=True), help="Variance of that time, in seconds squared.")
@click.option(
    "--forecaster",
    type=Checked("forecaster", _known_forecaster),
    default="online",
    help="Forecaster of each tier's bandwidth, or a plug-in.",
)
@click.option(
    "--threshold",
    type=Number(0, 1),
    help="With --forecaster paper-dft or online: fraction of the largest amplitude below which a frequency is"
    " left out.  [default: 0.25]",
)
@click.option("--deadline", type=Number(0, min_open=True), help="Longest time of a step, in seconds.")
@click.option("--period", type=Number(0), default=0.0, help="Seconds from one step to the next.")
@click.option("--steps", "count", type=click.IntRange(1), help="Number of steps after which to end.")
@click.option("--warm-up", type=click.IntRange(0), default=0, help="Number of first steps that read everything.")
@click.option("--prefetch", is_flag=True, help="Read the next step while waiting for its time.")
@click.option("--follow", type=Number(0), default=0.0, help="Seconds to wait for steps that are not yet written.")
@output_option
def steps(tiers: tuple[str, ...], output: str, **options: Any) -> None:
    """Read the steps of a stream as an analysis would, and show their times and accuracies.

    The last line has mean and variance of the time.
    """
    with _reader(tiers, options) as reader:
        read, missed = _read_steps(reader, options["period"], options["count"])
    if missed and not read:
        raise CommandError(f"none of {missed} steps had its base in time", hint="give a longer --deadline")
    if not read:
        raise CommandError(f"the stream on {tiers[0]} has no steps", hint="is it still to be written? see --follow")
    times = [step.seconds for step in read]
    summary = {
        "steps": len(read),
        "seconds_mean": fmean(times),
        "seconds_variance": pvariance(times),
        "augmentation_mean": fmean(step.augmentation for step in read),
        "rmse_mean": fmean(step.rmse for step in read),
        "late": sum(step.late for step in read),
        "missed": missed,
    }
    documents = [_document(step) for step in read]
    if output == "ndjson":
        show(output, [*documents, {"summary": summary}], (), ())
        return
    show(output, {"steps": documents, "summary": summary}, _HEADER, [_row(step) for step in read])
    if output == "table":
        print(
            f"\n{summary['steps']} steps, {summary['seconds_mean']:.6f} s on average, variance "
            f"{summary['seconds_variance']:.3g} s2, augmentation {summary['augmentation_mean']:.3f}"
        )


def _reader(tiers: tuple[str, ...], options: dict[str, Any]) -> "Reader":
    from dataclasses import replace

    from weir.adaptive.reader import Reader
    from weir.adaptive.tiers import Tier

    forecaster, threshold = options["forecaster"], options["threshold"]
    if threshold is not None and forecaster not in _TRANSFORMERS:
        raise click.UsageError(f"--threshold is of --forecaster {' and '.join(_TRANSFORMERS)}, not of {forecaster}")
    named = [replace(Tier.parse(tier), forecaster=forecaster, threshold=threshold) for tier in tiers]
    return Reader(
        named,
        policy=_policy(options),
        deadline_seconds=options["deadline"],
        prefetch=options["prefetch"],
        follow_seconds=options["follow"],
        warm_up_steps=options["warm_up"],
        tolerant=True,
    )


def _policy(options: dict[str, Any]) -> "Policy | str":
    from weir.adaptive.errors import AdaptiveError

    name = options["policy"]
    for other, named in _OPTIONS_OF.items():
        given = [option for option, parameter in named.items() if options[parameter] is not None and other != name]
        if given:
            raise click.UsageError(f"{given[0]} is of --policy {other}, not of {name}")
    try:
        return _made(name, options)
    except AdaptiveError as error:
        raise click.UsageError(error.message) from error


def _made(name: str, options: dict[str, Any]) -> "Policy | str":
    from weir.adaptive.budget import Budget
    from weir.adaptive.plot import Plot

    if name == "plot":
        if options["low"] is None or options["high"] is None:
            raise click.UsageError("--policy plot needs --low and --high")
        return Plot(options["low"], options["high"], k=options["slope"], b=options["intercept"])
    if name == "budget":
        if (options["seconds"] is None) == (options["variance"] is None):
            raise click.UsageError("--policy budget needs either --seconds or --variance")
        return Budget(seconds=options["seconds"], variance=options["variance"])
    return name


def _read_steps(reader: "Reader", period: float, count: int | None) -> "tuple[list[Step], int]":
    """The steps that came, and the number of steps whose base had not arrived at the deadline."""
    import warnings
    from dataclasses import replace

    import numpy

    from weir.adaptive.errors import DeadlineError

    steps: list[Step] = []
    missed = 0
    begun = time.monotonic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while len(steps) + missed != count:
            try:
                step = next(reader)
            except StopIteration:
                break
            except DeadlineError as error:
                warn(str(error))
                missed += 1
            else:
                # Only the cost is kept, not the array: a long stream is larger than memory.
                steps.append(replace(step, data=numpy.empty(0)))
            done = len(steps) + missed
            late = begun + done * period - time.monotonic()
            if late > 0:
                time.sleep(late)
            elif period and done == 1:
                say(f"a step takes longer than its period of {period:g} s")
    for warning in caught:
        warn(str(warning.message))
    return steps, missed


def _document(step: "Step") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "step": step.number,
        "seconds": step.seconds,
        "waited_seconds": step.waited_seconds,
        "bytes_read": step.bytes_read,
        "augmentation": step.augmentation,
        "rmse": step.rmse,
        "max_error": step.max_error,
        "late": step.late,
        "tiers": [asdict(tier) for tier in step.tiers],
        "problems": list(step.problems),
    }


def _row(step: "Step") -> tuple[object, ...]:
    last = step.tiers[-1]
    return (
        step.number,
        seconds(step.seconds),
        size(step.bytes_read),
        share(step.augmentation),
        "-" if last.forecast is None else size(last.forecast),
        "-" if last.bandwidth is None else size(last.bandwidth),
        f"{step.rmse:.6g}",
        f"{step.max_error:.6g}",
        "yes" if step.late else "no",
    )
