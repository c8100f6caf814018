"""The example notebooks, and their execution in a fresh folder, for tests and benchmarks."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parents[1] / "examples/notebooks"
NOTEBOOKS = tuple(sorted(path.name for path in FOLDER.glob("*.ipynb")))
CELL_SECONDS_MAX = 300
"""Longest time of a cell, on a busy machine."""


def read(name: str) -> "NotebookNode":
    """A notebook as it is in the sources."""
    import nbformat

    # Its annotations are partial.
    decode: Any = nbformat.read
    notebook: NotebookNode = decode(FOLDER / name, as_version=4)
    return notebook


def executed(name: str, folder: Path) -> "NotebookNode":
    """The notebook with its outputs, after all of its cells ran in a folder.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    from nbclient import NotebookClient

    notebook = read(name)
    # No store and no setting of the one who runs the tests; the kernel's own files are below the folder, too.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_")}
    environment |= {"HOME": str(folder), "IPYTHONDIR": str(folder / "ipython"), "MPLCONFIGDIR": str(folder / "mpl")}
    client = NotebookClient(
        notebook, timeout=CELL_SECONDS_MAX, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    kernel = client.create_kernel_manager()
    # The default, TCP on loopback, is open to every user of this machine. Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="weir-kernel-") as sockets:
        kernel.transport, kernel.ip = "ipc", f"{sockets}/s"
        client.execute(env=environment)
    return notebook
