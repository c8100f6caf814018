"""A store on this machine: its life, its jobs and their windows.

`up` brings a store up and returns a `Store`; `connect` gives the files of a store to this process. Names are imported
when they are asked for, so that a program that only reads an error or a path starts at once.
"""

from typing import TYPE_CHECKING

from weir.exports import exporting

if TYPE_CHECKING:
    from weir.store.client import FileSystem
    from weir.store.client_address import connect
    from weir.store.errors import SettingsError, StoreError
    from weir.store.instance import Store, up
    from weir.store.job_table import JobTable
    from weir.store.job_windows import JobWindow, JobWindows
    from weir.store.notices import Notice
    from weir.store.run import Run

__all__ = [
    "FileSystem",
    "JobTable",
    "JobWindow",
    "JobWindows",
    "Notice",
    "Run",
    "SettingsError",
    "Store",
    "StoreError",
    "connect",
    "up",
]

__getattr__, __dir__ = exporting(
    __name__,
    {
        "FileSystem": "client",
        "JobTable": "job_table",
        "JobWindow": "job_windows",
        "JobWindows": "job_windows",
        "Notice": "notices",
        "Run": "run",
        "SettingsError": "errors",
        "Store": "instance",
        "StoreError": "errors",
        "connect": "client_address",
        "up": "instance",
    },
)
