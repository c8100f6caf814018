"""Launchers of MPI programs, which tests name: `mpiexec` is MPICH's on one machine and OpenMPI's on another."""

OPENMPI_ANYWHERE = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
"""Variables with which OpenMPI 4 runs as root, and more ranks than there are processors, as MPICH does by itself."""
