"""The scripts of the figures: Vega, Vega-Lite and Vega-Embed, as the package vl-convert brings them."""

import hashlib
from importlib.metadata import version
from pathlib import Path

from weir.ways import make_folders, write_whole

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def vega(folder: Path) -> Path:
    """Find the script with the three libraries, and make it where it is missing, which takes some seconds.

    Args:
        folder: A folder of this user alone, in which it is kept for the next start.
    """
    named = f"{version('vl-convert-python')} {_SNIPPET}"
    path = folder / f"vega-{hashlib.sha256(named.encode()).hexdigest()[:16]}.js"
    if not path.exists():
        import vl_convert

        make_folders(folder, 0o700)
        write_whole(path, vl_convert.javascript_bundle(_SNIPPET).encode())
    return path
