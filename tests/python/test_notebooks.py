"""The example notebooks run as they stand, each on a store of its own, and show tables and plots."""

from pathlib import Path
from typing import Any

import pytest
from notebooks import NOTEBOOKS, executed, read

pytest.importorskip("nbclient", reason="nbclient runs notebooks, and `make setup` installs it")
pytest.importorskip("ipykernel", reason="ipykernel runs notebooks, and `make setup` installs it")

# Names of its own and of its dependencies that newer versions of them call by others.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:zmq")

SHOWN = {
    "is-my-job-slowed.ipynb": ["beside-fifo: slowdown", "waited most for flood"],
    "my-first-store.ipynb": ["2 servers, 4 targets", "producer", "The store is down."],
    "reading-with-a-deadline.ipynb": ["Stream of 12 steps: 64 x 64 x 64 float64", "deadline_seconds"],
}
"""Words of the tables of each notebook."""


def outputs(notebook: Any, kind: str) -> list[str]:
    """What the cells of a notebook show in one form."""
    found = [each for cell in notebook.cells if cell.cell_type == "code" for each in cell.outputs]
    return [each.data[kind] for each in found if kind in each.get("data", {})]


def test_each_notebook_is_tested() -> None:
    assert set(SHOWN) == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_outputs_are_kept_in_the_sources(name: str) -> None:
    for cell in read(name).cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None


@pytest.mark.slow
@pytest.mark.usefixtures("fuse")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows_tables_and_plots(name: str, tmp_path: Path) -> None:
    notebook = executed(name, tmp_path)
    tables = "".join(outputs(notebook, "text/html"))
    for words in SHOWN[name]:
        assert words in tables, f"{name} shows no {words!r}"
    assert len(outputs(notebook, "image/png")) >= 2
