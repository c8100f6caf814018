"""The end of a temporary store whose program is killed: no block of the program ends then, and nothing else runs.

A process in a session of its own waits for the program's end, and takes the store down.
"""

import os
import select
import subprocess
import sys
from pathlib import Path

_PACKAGES = Path(__file__).absolute().parents[2]
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from weir.store.keeper import keep; keep(*sys.argv[1:])"
"""The package may be imported from anywhere, and this program's own path of imports is not its environment's."""


def start(folder: Path) -> "subprocess.Popen[bytes]":
    """Begin to wait for the end of this process.

    Args:
        folder: Folder of the temporary store, which may not be up yet.

    Returns:
        The process that waits. It is ended once the store is gone.

    Raises:
        OSError: No process can be started.
    """
    watched = os.pidfd_open(os.getpid())
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, _PACKAGES, str(watched), folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            pass_fds=(watched,),
            start_new_session=True,
        )
    finally:
        os.close(watched)


def keep(watched: str, folder: str) -> None:
    """Wait for the end of a program, and remove its store.

    Args:
        watched: Number of the descriptor of the program (pidfd_open(2)): another process with its number is no longer
            the program.
    """
    select.select([int(watched)], [], [])
    from weir.store.temporary import remove

    remove(Path(folder))
