"""Launchers of MPI programs, which tests name: `mpiexec` is MPICH's on one machine and OpenMPI's on another."""

import subprocess
from pathlib import Path

OPENMPI_ANYWHERE = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
"""Variables with which OpenMPI 4 runs as root, and more ranks than there are processors, as MPICH does by itself."""


def launcher_of(program: Path) -> tuple[str, dict[str, str]]:
    """The launcher of the MPI that a program was built with, and the variables with which it runs anywhere."""
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return ("mpiexec.mpich", {}) if "libmpich" in libraries else ("mpiexec.openmpi", OPENMPI_ANYWHERE)
