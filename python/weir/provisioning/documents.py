"""Documents of provisioning as files."""

import os
from pathlib import Path

import msgspec


def write(path: Path, document: msgspec.Struct) -> None:
    """Write a document as JSON for people and programs, whole or not at all.

    Args:
        path: Its file.
        document: The document.

    Raises:
        OSError: The file cannot be written. A file that was there before is as it was.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # A link that another user put there is not followed.
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
