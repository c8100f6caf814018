"""Identities of jobs, for the commands of `weir plan`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.cli.errors import CommandError, warn
from weir.distribution import install_command

if TYPE_CHECKING:
    from weir.provisioning.identity import Identity
    from weir.provisioning.jobs import Job


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
    from weir.provisioning.identity import identify
    from weir.provisioning.traits import of_log
    from weir.tracing.darshan import DarshanError
    from weir.tracing.totals import read_totals

    found = []
    for path, log in read_totals(logs):
        if isinstance(log, DarshanError):
            raise log
        if log.incomplete:
            warn(f"{path}: {', '.join(log.incomplete)} ran out of memory in the run, so some of its calls are missing")
        found.append((path, identify(of_log(log), job)))
    return found


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
