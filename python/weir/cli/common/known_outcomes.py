"""The outcomes of a user's earlier deployments, for commands that plan."""

from pathlib import Path
from typing import TYPE_CHECKING

from weir.cli.common.errors import warn

if TYPE_CHECKING:
    from weir.provisioning.outcomes.outcome import Outcome


def known_outcomes(home: Path) -> "tuple[Outcome, ...]":
    """Read the outcomes of a user. An archive that cannot be used gets a warning, and plans are made without it.

    Args:
        home: Home of the user's store.

    Returns:
        The outcomes, the latest last.
    """
    from weir.errors import WeirError
    from weir.provisioning.lifecycle.execution import jobs_folder
    from weir.provisioning.outcomes import archive

    try:
        return archive.read(archive.file_of(jobs_folder(home)))
    except WeirError as error:
        warn(error.message, hint=error.hint)
        return ()
