"""Weir: a burst buffer in user space that divides its I/O time among jobs by policy.

    import weir

    with weir.store.up(servers=2, targets=2) as store:
        store.run(["cp", "-r", "inputs", "/weir"], prefix="/weir", check=True)

adaptive      Adaptive reading: as accurate as shared storage allows in the given time.
plots         Plots of stores, jobs, plans, runs, steps and experiments, which return matplotlib's axes.
provisioning  The storage that a job needs, planned from the record of a past run.
simulation    The simulator: topologies, workloads, scenarios and their runs in virtual time.
store         A store on this machine: its life, its jobs and their windows.
"""

from typing import TYPE_CHECKING

from weir.exports import exporting

if TYPE_CHECKING:
    from weir import adaptive, plots, provisioning, simulation, store

    __version__: str

__all__ = ["adaptive", "plots", "provisioning", "simulation", "store"]

_find, __dir__ = exporting(__name__, dict.fromkeys(__all__, ""))


def __getattr__(name: str) -> object:
    """Find the version, and import the packages that `import weir` promises when they are first named."""
    if name == "__version__":
        from weir.distribution import version

        return version()
    return _find(name)
