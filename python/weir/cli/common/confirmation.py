"""Questions before something is done that cannot be undone."""

import sys

from weir.cli.common.errors import CommandError


def confirm(deed: str, *, yes: bool) -> None:
    """Ask whether to do something; without a terminal, only `--yes` is an answer.

    Args:
        deed: The deed, such as `remove the files of the store`.
        yes: Whether the user has said so already.

    Raises:
        CommandError: The user does not want it, or cannot be asked.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"this would {deed}", hint="add --yes if that is wanted")
    sys.stderr.write(f"This will {deed}. Type `yes` to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != "yes":
        raise CommandError("nothing was done")
