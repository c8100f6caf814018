"""The files that `weir place` places: a list that the user gives, or a prediction from past runs."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import CommandError, say, warn

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


def expected_creations(options: dict[str, Any], *, places: tuple[str, ...]) -> list[ExpectedCreations]:
    """Find the files that each coming program is expected to make.

    Args:
        options: Options of `weir place`, and `recorded_after_seconds`: the Unix time after which runs count.
        places: Mount points and prefixes of the store, that of `weir run` first. No number in them means anything.

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
    since = options.get("recorded_after_seconds", 0.0)
    groups = [_here(runs, places) for runs in _groups(options["past"], since)]
    if not groups:
        raise CommandError("there is no run in the paths of --from", hint="record one: `weir run --trace DIR -- CMD`")
    known = {run.place.path for runs in groups for run in runs if run.place is not None}
    options = {**options, "places": tuple(sorted({*places, *known}))}
    if not options["commands"]:
        for runs in groups:
            _tell_others(runs)
        coming = [_next(runs[-1].program, runs[-1].arguments, runs[-1], options) for runs in groups]
        return [_predicted(runs, next_run, options["model"]) for runs, next_run in zip(groups, coming, strict=True)]
    everything = sorted((run for runs in groups for run in runs), key=lambda run: run.started)
    return [
        _predicted(everything, _of_command(command, everything, options), options["model"])
        for command in options["commands"]
    ]


def _tell_others(runs: "Sequence[Run]") -> None:
    """Tell the programs of a directory beside that of its latest run, which alone is expected to run again."""
    latest = _title(runs[-1])
    others = [title for title in dict.fromkeys(map(_title, runs)) if title != latest]
    if others:
        warn(f"placed for {latest} alone: there are runs of {', '.join(others)}, too; give a --command for each")


def _listed(file: Path) -> "tuple[Creation, ...]":
    from weir.placement.creation_list import read_creations

    return tuple(read_creations(file))


def _groups(past: Sequence[Path], since: float) -> "list[list[Run]]":
    """The runs of each coming program from a Unix time on, the latest last: those of a directory, and logs by their
    program.
    """
    from weir.tracing.darshan import read_log
    from weir.tracing.files import read_runs

    groups: dict[Path | str, list[Run]] = {}
    for path in past:
        if path.suffix == ".darshan":
            run = read_log(path).run
            groups.setdefault(run.program, []).append(run)
        else:
            groups.setdefault(path, []).extend(read_runs([path], note=warn))
    late = [[run for run in runs if run.started >= since] for runs in groups.values()]
    return [sorted(runs, key=lambda run: run.started) for runs in late if runs]


def _here(runs: "Sequence[Run]", places: tuple[str, ...]) -> "list[Run]":
    """The runs as they would have been at the store's mount point of now, where they had another one."""
    from weir.store.mounts import is_mount_point
    from weir.tracing.places import relocated

    mount = next((place for place in places if is_mount_point(Path(place))), None)
    moved = {
        run.place.path
        for run in runs
        if mount is not None and run.place is not None and run.place.is_mount and run.place.path not in places
    }
    for before in sorted(moved):
        say(f"the store is at {mount}: files that were traced below {before} are expected there")
    return [
        relocated(run, mount) if mount is not None and run.place is not None and run.place.path in moved else run
        for run in runs
    ]


def _of_command(command: str, runs: "Sequence[Run]", options: dict[str, Any]) -> "NextRun":
    from weir.prediction.command_line import understand

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--command {command}: {error}") from error
    if ":" in words:
        raise click.UsageError(f"--command {command}: give each of its programs a --command of its own")
    found = understand(words, runs)
    if found.like is None:
        known = ", ".join(dict.fromkeys(_title(run) for run in reversed(runs)))
        raise CommandError(
            f"no past run is of `{command}`: the paths of --from have runs of {known}",
            hint="record one: `weir run --trace DIR -- CMD`",
        )
    ranks = options["ranks"] or found.ranks
    return _next(found.program, found.arguments, found.like, {**options, "ranks": ranks})


def _title(run: "Run") -> str:
    from weir.prediction.context import title

    return title(run.program, run.arguments)


def _next(program: str, arguments: tuple[str, ...], like: "Run", options: dict[str, Any]) -> "NextRun":
    from weir.prediction.context import NextRun

    return NextRun(
        program,
        arguments,
        options["ranks"] or like.ranks,
        options["problem_size"],
        options["steps"],
        options["places"],
    )


def _predicted(runs: "Sequence[Run]", coming: "NextRun", model: str | None) -> ExpectedCreations:
    from weir.prediction.context import title
    from weir.prediction.creations import predict

    prediction = predict(runs, coming, model=model)
    if not prediction.creations:
        told = "".join(f"; {one.files} files {one.pattern}: {one.reason}" for one in prediction.unpredictable)
        count = "1 past run is" if prediction.runs == 1 else f"{prediction.runs} past runs are"
        raise CommandError(
            f"{count} of {title(coming.program, coming.arguments)}, and predict none of its files{told}",
            hint="such names cannot be foreseen: the store places these files when they are made"
            if told
            else "which programs were recorded? see `weir trace show --runs`",
        )
    for unpredictable in prediction.unpredictable:
        files = "1 file" if unpredictable.files == 1 else f"{unpredictable.files} files"
        warn(f"not placed: {files} {unpredictable.pattern}: {unpredictable.reason}")
    return ExpectedCreations(prediction.creations, prediction)
