"""The files that `weir place` places: a list that the user gives, or a prediction from past runs."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.cli.errors import CommandError, warn

if TYPE_CHECKING:
    from weir.prediction.context import NextRun
    from weir.prediction.creations import Prediction
    from weir.tracing.records import Creation, Run


@dataclass(frozen=True, slots=True)
class ExpectedCreations:
    """The files that one program is expected to make."""

    creations: "tuple[Creation, ...]"
    prediction: "Prediction | None"
    """The prediction; None where the user listed the files."""


def expected_creations(options: dict[str, Any]) -> list[ExpectedCreations]:
    """Find the files that each coming program is expected to make.

    Args:
        options: Options of `weir place`.

    Returns:
        The files of each program.

    Raises:
        CommandError: There is no past run, or the past runs predict nothing for a program.
        CreationsError: The user's list cannot be used.
        TraceError: A trace cannot be read.
        DarshanError: A Darshan log cannot be read.
    """
    if options["creations"] is not None:
        return [ExpectedCreations(_listed(options["creations"]), None)]
    groups = _groups(options["past"])
    if not groups:
        raise CommandError("there is no run in the paths of --from", hint="record one: `weir run --trace DIR -- CMD`")
    if not options["commands"]:
        return [_predicted(runs, _next(runs[-1].program, runs[-1].arguments, runs[-1], options)) for runs in groups]
    everything = sorted((run for runs in groups for run in runs), key=lambda run: run.started)
    return [_predicted(everything, _of_command(command, everything, options)) for command in options["commands"]]


def _listed(file: Path) -> "tuple[Creation, ...]":
    from weir.placement.creation_list import read_creations

    return tuple(read_creations(file))


def _groups(past: Sequence[Path]) -> "list[list[Run]]":
    """The runs of each coming program, the latest last: those of a directory, and logs by their program."""
    from weir.tracing.darshan import read_log
    from weir.tracing.files import read_runs

    groups: dict[Path | str, list[Run]] = {}
    for path in past:
        if path.suffix == ".darshan":
            run = read_log(path).run
            groups.setdefault(run.program, []).append(run)
        else:
            groups.setdefault(path, []).extend(read_runs([path], note=warn))
    return [sorted(runs, key=lambda run: run.started) for runs in groups.values() if runs]


def _of_command(command: str, runs: "Sequence[Run]", options: dict[str, Any]) -> "NextRun":
    words = shlex.split(command) or [""]
    program = _recorded_name(runs, Path(words[0]).name)
    like = next((run for run in reversed(runs) if run.program == program), runs[-1])
    return _next(program, tuple(words[1:]), like, options)


def _next(program: str, arguments: tuple[str, ...], like: "Run", options: dict[str, Any]) -> "NextRun":
    from weir.prediction.context import NextRun

    return NextRun(program, arguments, options["ranks"] or like.ranks, options["problem_size"], options["steps"])


def _recorded_name(runs: "Sequence[Run]", name: str) -> str:
    """The name under which a program was recorded. For `python3` it is the name behind the link, such as
    `python3.11`.
    """
    known = [run.program for run in reversed(runs)]
    if name in known:
        return name
    bare = name.rstrip("0123456789.")
    return next((program for program in known if program.rstrip("0123456789.") == bare), name)


def _predicted(runs: "Sequence[Run]", coming: "NextRun") -> ExpectedCreations:
    from weir.prediction.creations import predict

    prediction = predict(runs, coming)
    if not prediction.creations:
        raise CommandError(
            f"{prediction.runs} past runs are of {coming.program}, and predict none of its files",
            hint="which programs were recorded? see `weir trace show --runs`",
        )
    for unpredictable in prediction.unpredictable:
        warn(f"not placed: {unpredictable.files} files {unpredictable.pattern}: {unpredictable.reason}")
    return ExpectedCreations(prediction.creations, prediction)
