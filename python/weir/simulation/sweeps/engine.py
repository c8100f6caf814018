"""The build of the simulator, by which results of different builds are told apart."""

from functools import cache


@cache
def engine_digest() -> str:
    """Digest the native module, which holds the engine and every decision that it simulates.

    Returns:
        SHA-256 of the module's file, in hexadecimal digits.
    """
    import hashlib
    from pathlib import Path

    from weir import _core

    with Path(_core.__file__).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
