"""Identities of jobs, for the commands of `weir plan`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.cli.errors import CommandError, warn
from weir.distribution import install_command

if TYPE_CHECKING:
    from weir.provisioning.behaviour.identity import Identity
    from weir.provisioning.jobs.job import Job
    from weir.tracing.totals import LogTotals, TotalsReader


def require_provisioning() -> None:
    """Check that the packages of provisioning are installed.

    Raises:
        CommandError: One is not.
    """
    try:
        import msgspec  # noqa: F401
        import yaml  # noqa: F401
    except ImportError as error:
        raise CommandError(f"{error.name} is not installed", hint=install_command("provisioning")) from error


@contextmanager
def early_reader(log: Path) -> "Iterator[TotalsReader]":
    """Start the reader of logs, which imports its library while the block does other work.

    Args:
        log: The log that will be read; one that cannot be a log is refused at once.

    Yields:
        The reader.

    Raises:
        DarshanError: The file cannot be a log.
    """
    from weir.tracing.darshan import refusal
    from weir.tracing.totals import TotalsReader

    refused = refusal(log)
    if refused is not None:
        raise refused
    reader = TotalsReader()
    reader.start()
    try:
        yield reader
    finally:
        reader.end()


def identity_of(reader: "TotalsReader", log: Path, job: "Job | None") -> "Identity":
    """Read the identity of a run.

    Args:
        reader: The reader of logs.
        log: Darshan log.
        job: The job that is to run; None where only the log is known.

    Returns:
        The identity.

    Raises:
        DarshanError: The log cannot be read.
    """
    from weir.provisioning.behaviour.identity import identify
    from weir.provisioning.behaviour.traits import of_log

    return identify(of_log(_complete(reader.read(log))), job)


def identities(logs: Sequence[Path], job: "Job | None") -> "list[tuple[Path, Identity]]":
    """Read the identities of runs.

    Args:
        logs: Darshan logs.
        job: The job that is to run; None where only the logs are known.

    Returns:
        Each log with its identity.

    Raises:
        DarshanError: A log cannot be read.
    """
    from weir.provisioning.behaviour.identity import identify
    from weir.provisioning.behaviour.traits import of_log
    from weir.tracing.darshan import DarshanError
    from weir.tracing.totals import read_totals

    found = []
    for path, log in read_totals(logs):
        if isinstance(log, DarshanError):
            raise log
        found.append((path, identify(of_log(_complete(log)), job)))
    return found


def _complete(log: "LogTotals") -> "LogTotals":
    """Warn where a log is not complete."""
    if log.incomplete:
        warn(f"{log.path}: {', '.join(log.incomplete)} ran out of memory in the run, so some of its calls are missing")
    return log


def document(of: Any) -> dict[str, Any]:
    """Turn a document of provisioning into values for JSON.

    Args:
        of: The document.

    Returns:
        The values.
    """
    import msgspec

    built: dict[str, Any] = msgspec.to_builtins(of)
    return built
