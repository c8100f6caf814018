"""A store on this machine: its life, its jobs and their windows.

`up` brings a store up and returns a `Store`. Names are imported when they are asked for, so that a program that only
reads an error or a path starts at once.
"""

from typing import TYPE_CHECKING

from weir.exports import exporting

if TYPE_CHECKING:
    from weir.store.errors import SettingsError, StoreError
    from weir.store.instance import Store, up
    from weir.store.job_table import JobTable
    from weir.store.job_windows import JobWindow, JobWindows
    from weir.store.notices import Notice
    from weir.store.run import Run

__all__ = ["JobTable", "JobWindow", "JobWindows", "Notice", "Run", "SettingsError", "Store", "StoreError", "up"]

__getattr__, __dir__ = exporting(
    __name__,
    {
        "JobTable": "job_table",
        "JobWindow": "job_windows",
        "JobWindows": "job_windows",
        "Notice": "notices",
        "Run": "run",
        "SettingsError": "errors",
        "Store": "instance",
        "StoreError": "errors",
        "up": "instance",
    },
)
