"""A store on this machine: its life from Python, and what commands know of it.

`up` brings one up and answers a `Store`. What is here imports the rest when it is needed, so that a program that only
reads an error or a path starts at once.
"""

from weir.store.errors import SettingsError, StoreError
from weir.store.instance import Store, up
from weir.store.notices import Notice

__all__ = ["Notice", "SettingsError", "Store", "StoreError", "up"]
