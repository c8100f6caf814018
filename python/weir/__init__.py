"""Weir: a burst buffer in user space that divides its I/O time among jobs by policy.

import weir

with weir.store.up(servers=2, targets=2) as store:
    store.run(["cp", "-r", "inputs", "/weir"], prefix="/weir", check=True)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir import simulation, store

    __version__: str

__all__ = ["simulation", "store"]


def __getattr__(name: str) -> Any:
    """Find the version, and import the packages that `import weir` promises when they are first named."""
    if name == "__version__":
        from weir.distribution import version

        return version()
    if name in __all__:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
