"""Identities of jobs, for the commands of `weir plan`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import warn
from weir.cli.common.parameters import Number

if TYPE_CHECKING:
    from weir.provisioning.behaviour.identity import Identity
    from weir.provisioning.behaviour.recorded import RunReader
    from weir.provisioning.jobs.job import Job


NEW_CLASS = click.option(
    "--new-class",
    metavar="FITNESS",
    type=Number(0, 1),
    help="A job whose best fitness is below FITNESS is a class of its own.  [default: the table's own, usually 0.75]",
)


@contextmanager
def early_reader(log: Path) -> "Iterator[RunReader]":
    """Start the reader of logs, which imports its library while the block does other work.

    Args:
        log: The log or the traces that will be read; what can be neither is refused at once.

    Yields:
        The reader.

    Raises:
        DarshanError: The file cannot be a log.
    """
    from weir.provisioning.behaviour.recorded import RunReader

    reader = RunReader(note=warn)
    try:
        reader.start(log)
        yield reader
    finally:
        reader.end()


def identities(logs: Sequence[Path], job: "Job | None") -> "list[tuple[Path, Identity]]":
    """Read the identities of runs.

    Args:
        logs: Darshan logs, and traces.
        job: The job that is to run; None where only the logs are known.

    Returns:
        Each log with its identity.

    Raises:
        DarshanError: A log cannot be read.
        TraceError: Traces cannot be read.
    """
    from weir.provisioning.behaviour.identity import identify
    from weir.provisioning.behaviour.recorded import RunReader

    reader = RunReader(note=warn)
    try:
        return [(path, identify(reader.read(path), job)) for path in logs]
    finally:
        reader.end()


def document(of: Any) -> dict[str, Any]:
    """Turn a document of provisioning into values for JSON.

    Args:
        of: The document.
    """
    import msgspec

    built: dict[str, Any] = msgspec.to_builtins(of)
    return built
