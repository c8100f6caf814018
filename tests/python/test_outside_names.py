"""Names within containers and arrays that lead outside of the folder which the user named: nothing there is read."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray
from waits import PATIENCE_SECONDS
from weir import adaptive

SECRET = b"the secret of another folder " * 4096
NAMES = (
    "..",
    ".",
    "",
    "../secret",
    "{secret}",
    "a\0b",
    "./../secret",
    "..\\secret",
    "x" * 5000,
    "\ud800",
    "stream.json",
)
"""Names that a foreign document may give a part; `{secret}` stands for an absolute path."""


def run(folder: Path, *arguments: str | Path) -> str:
    """Run a command that reads foreign data: it ends by itself, with a line about an error."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    answer = subprocess.run(
        [sys.executable, "-m", "weir.cli", *map(str, arguments)], cwd=folder, env=environment, capture_output=True,
        text=True, timeout=PATIENCE_SECONDS, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert answer.returncode == 1 and "error: " in answer.stderr and "Traceback" not in answer.stderr, answer
    return answer.stdout + answer.stderr


def nothing_told(folder: Path, said: str) -> bool:
    """Whether no file that a command wrote, and no word of it, has a part of the secret."""
    told = [said.encode(), *(path.read_bytes() for path in folder.glob("restored*") if path.is_file())]
    return not any(SECRET[:29] in each for each in told)


def wave() -> NDArray[Any]:
    rows, columns = numpy.mgrid[0:48, 0:32]
    field: NDArray[Any] = (numpy.sin(rows / 7) * numpy.cos(columns / 9)).astype(numpy.float32)
    return field


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(SECRET)
    fast = tmp_path / "fast"
    adaptive.write([str(fast), str(tmp_path / "shared")], [wave()], exact=True, chunk_bytes=1 << 12)
    return fast


def _with_part(fast: Path, change: Callable[[Path, dict[str, object]], object]) -> None:
    """Change the first part of the stream's step."""
    for path in fast.glob("*.json"):
        document = json.loads(path.read_text())
        if "parts" in document:
            change(path.with_name(document["parts"][0]["name"]), document["parts"][0])
            path.write_text(json.dumps(document))
            return
    raise AssertionError("the stream has no manifest in a file")


@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_a_stream_lies_on_its_tier(stream: Path, tmp_path: Path, name: str) -> None:
    named = name.replace("{secret}", str(tmp_path / "secret"))
    _with_part(stream, lambda _, part: part.update(name=named))
    said = run(tmp_path, "adapt", "reconstruct", stream, "--step", "0", "--to", tmp_path / "restored.npy")
    assert nothing_told(tmp_path, said)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
def test_a_part_of_a_stream_that_is_no_file_holds_nobody_up(stream: Path, tmp_path: Path, kind: str) -> None:
    def replace(path: Path, part: dict[str, object]) -> None:
        path.unlink()
        if kind == "link":
            path.symlink_to(tmp_path / "secret")
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")

    _with_part(stream, replace)
    said = run(tmp_path, "adapt", "reconstruct", stream, "--step", "0", "--to", tmp_path / "restored.npy")
    assert nothing_told(tmp_path, said)


@pytest.mark.parametrize("dataset", ["../secret", "..", "{secret}", "a/../../secret", "group/../../secret"])
def test_a_dataset_lies_in_its_store(tmp_path: Path, dataset: str) -> None:
    """Zarr's folder and HDF5's file: the name of a dataset, and the list of members that a foreign store has."""
    zarr = pytest.importorskip("zarr")
    outside = zarr.open_group(tmp_path / "secret", mode="w")
    outside.create_array("secret", data=numpy.frombuffer(SECRET, numpy.uint8))
    inside = zarr.open_group(tmp_path / "store", mode="w")
    inside.create_group("group").create_array("wave", data=wave())
    named = dataset.replace("{secret}", str(tmp_path / "secret"))
    for wanted in (named, f"{named}/secret"):
        said = run(tmp_path, "adapt", "refactor", f"{tmp_path / 'store'}:{wanted}", "--tier", tmp_path / "restored")
        assert nothing_told(tmp_path, said)
    metadata = json.loads((tmp_path / "store/zarr.json").read_text())
    members = {named: json.loads((tmp_path / "secret/secret/zarr.json").read_text())}
    metadata["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": members}
    (tmp_path / "store/zarr.json").write_text(json.dumps(metadata))
    said = run(tmp_path, "adapt", "refactor", f"{tmp_path / 'store'}:{named}", "--tier", tmp_path / "restored")
    assert nothing_told(tmp_path, said) and not list(tmp_path.glob("restored/*"))
