"""Calls on files of the host: how many are made with the preload library, and how many answer otherwise with it."""

import sys
import tempfile
from pathlib import Path

from _running import ROOT

sys.path.insert(0, str(ROOT / "tests"))
import host_calls
from store import Store


def measure() -> dict[str, int]:
    """`host_calls` and `host_call_differences` over all ways, those beside a store included."""
    with tempfile.TemporaryDirectory(prefix="weir-host-calls-") as folder:
        # Servers end with the block, and files of the store go with the directory.
        store = Store(Path(folder))
        store.up("--servers", "1")
        try:
            return host_calls.measure(lambda _: store)
        finally:
            store.weir("down", "--force", "--discard", code=None)
