"""MPI programs write shared files: MPI-IO by ROMIO, with collective buffering and with data sieving."""

import shutil
import subprocess
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS
from ways import Way

PROCESSES = 4
HINTS = {
    "collective buffering": ["romio_cb_write=enable", "romio_cb_read=enable", "cb_buffer_size=65536", "cb_nodes=2"],
    "data sieving": [
        "romio_cb_write=disable",
        "romio_cb_read=disable",
        "romio_ds_write=enable",
        "romio_ds_read=enable",
    ],
    "neither": ["romio_cb_write=disable", "romio_cb_read=disable", "romio_ds_write=disable", "romio_ds_read=disable"],
}


@pytest.fixture(scope="session")
def collective(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("mpicc.mpich") is None:
        pytest.skip("there is no mpich")
    result = tmp_path_factory.mktemp("mpi") / "collective"
    source = Path(__file__).parent / "programs" / "collective.c"
    subprocess.run(
        ["mpicc.mpich", "-O1", "-Wall", "-Werror", "-o", result, source], check=True, timeout=PATIENCE_SECONDS
    )
    return result


@pytest.mark.parametrize("hints", HINTS)
def test_mpi_io(way: Way, collective: Path, hints: str) -> None:
    """The library goes into the program's processes, not into mpiexec and its proxies."""
    answer = way.run(
        "sh", "-c",
        'preload=$LD_PRELOAD; unset LD_PRELOAD; processes=$1; shift;'
        ' exec mpiexec.mpich -n "$processes" env LD_PRELOAD="$preload" "$@"',
        "sh", str(PROCESSES), collective, way.folder / "shared", *HINTS[hints],
        served=["open", "write", "read"],
    )  # fmt: skip
    assert answer.stdout == f"{PROCESSES} processes agree\n"
