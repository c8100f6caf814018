"""Documents of provisioning as files."""

import os
import stat
from pathlib import Path
from typing import TypeVar

import msgspec

from weir.provisioning.errors import ProvisioningError
from weir.ways import write_whole

DOCUMENT_BYTES_MAX = 16 << 20
"""A larger document is refused: a deployment of 4,096 servers with eight devices each takes some 2 MB."""
_Document = TypeVar("_Document", bound=msgspec.Struct)


def content(path: Path, hint: str, bytes_max: int = DOCUMENT_BYTES_MAX) -> bytes:
    """Read a file of bounded size.

    Args:
        hint: A remedy where it cannot be read.
        bytes_max: The most bytes that it may have.

    Raises:
        ProvisioningError: The file cannot be read, is no regular file, or is larger.
    """
    try:
        # A pipe without a writer would wait for ever.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ProvisioningError(f"{path} is not a file", hint=hint)
            read = file.read(bytes_max + 1)
    except OSError as error:
        raise ProvisioningError(f"{path}: {error.strerror}", hint=hint) from error
    if len(read) > bytes_max:
        raise ProvisioningError(f"{path} is larger than {bytes_max} bytes", hint=hint)
    return read


def decoded(text: bytes, place: str, kind: type[_Document], what: str, hint: str) -> _Document:
    """Decode a document.

    Args:
        text: JSON.
        place: Its place, for messages.
        what: Its name, with an adjective where it has one: `table of classes`.
        hint: A remedy where it is no such document.

    Raises:
        ProvisioningError: The text is no such document.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProvisioningError(f"{place} is no {what}: {error}", hint=hint) from error


def read(path: Path, kind: type[_Document], what: str, hint: str) -> _Document:
    """Read a document from its file.

    Args:
        kind: The document's type.
        what: Its name: `table of classes`.
        hint: A remedy where the file is no such document.

    Raises:
        ProvisioningError: As for `content` and `decoded`.
    """
    return decoded(content(path, hint), str(path), kind, what, hint)


def write(path: Path, document: msgspec.Struct) -> None:
    """Write a document as JSON for people and programs, whole or not at all.

    Raises:
        OSError: The file cannot be written. A file that was there before is as it was.
    """
    write_whole(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n", mode=None)
