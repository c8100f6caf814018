"""Work of other processes in tests of the client: they import it, as pytest's own modules they could not."""

from typing import Any


def read_on(files: Any, file: Any) -> tuple[str, bytes]:
    """The job of another process, and the rest of a file that it was given."""
    return files.job, file.read()


def cat(system: Any, path: str) -> tuple[str, bytes]:
    """The job of another process, and the bytes that it finds by `weir://`."""
    return system.files.job, system.cat_file(path)
