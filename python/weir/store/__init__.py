"""A store on this machine: its life from Python, and the knowledge of it that commands share.

`up` brings a store up and returns a `Store`. The modules here import each other when they are needed, so that a program
that only reads an error or a path starts at once.
"""

from weir.store.errors import SettingsError, StoreError
from weir.store.instance import Store, up
from weir.store.notices import Notice

__all__ = ["Notice", "SettingsError", "Store", "StoreError", "up"]
