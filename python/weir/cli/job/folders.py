"""The folders of jobs, for the commands of `weir job`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from weir.cli.common.errors import CommandError, tell
from weir.cli.common.parameters import Checked
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.provisioning.lifecycle.execution import Tellers
    from weir.provisioning.lifecycle.interruption import Interruption
    from weir.provisioning.lifecycle.record import JobFolder

_SIGNALLED = 128
"""Added to the number of the signal that ended a job, as a shell does."""


def _read_name(text: str) -> None:
    from weir.provisioning.lifecycle.names import check_name

    check_name(text)


NAME = Checked("name", _read_name)


def folder_of(home: Home, name: str) -> "JobFolder":
    """Find the folder of a job that is not at its end.

    Raises:
        CommandError: There is none.
    """
    from weir.provisioning.lifecycle.execution import jobs_folder
    from weir.provisioning.lifecycle.record import JobFolder

    folder = JobFolder(jobs_folder(home.root) / name)
    if not folder.exists():
        raise CommandError(f"there is no job {name}", hint="`weir job list` shows those that are not at their end")
    return folder


def finished(
    folder: "JobFolder",
    tellers: "Tellers",
    interruption: "Interruption",
    go_on: "Callable[[JobFolder, Tellers, Interruption], int]",
) -> int:
    """Go on with a job.

    Returns:
        The exit code of the job.

    Raises:
        CommandError: The job failed; the error has its exit code.
    """
    from weir.provisioning.errors import ProvisioningError

    try:
        return go_on(folder, tellers, interruption)
    except ProvisioningError as error:
        code = folder.state().exit_code if folder.exists() else None
        signalled = _SIGNALLED + interruption.number if interruption.number else None
        raise CommandError(error.message, hint=error.hint, exit_code=signalled or code or 1) from error


class Telling:
    """The takers of notices and progress, for the length of a block."""

    def __enter__(self) -> "Tellers":
        """Begin to show progress."""
        from weir.cli.common.progress import copy_progress
        from weir.provisioning.lifecycle.execution import Tellers

        self._progress = copy_progress()
        return Tellers(tell, self._progress.__enter__())

    def __exit__(self, *error: object) -> None:
        """End it."""
        self._progress.__exit__(None, None, None)
