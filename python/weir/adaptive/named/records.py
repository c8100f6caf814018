"""Small arrays in one object: numpy's archives, without pickles."""

import io
import math
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy
from numpy.lib import format as npy

BYTES_MAX = 4 << 30
"""Most bytes of the arrays of an archive: what compresses well may expand without end."""
Array = numpy.ndarray[Any, Any]


class RecordError(ValueError):
    """Bytes that are no archive of arrays."""


def packed(arrays: Mapping[str, Array], *, steps: int, compress: bool = False) -> bytes:
    """Put arrays into an archive.

    Args:
        arrays: The arrays by name; none is of objects.
        steps: Number of the steps that they belong to.
        compress: Whether the archive is compressed.
    """
    content = io.BytesIO()
    save = numpy.savez_compressed if compress else numpy.savez
    named = {f"v.{name}": values for name, values in arrays.items()}
    save(content, steps=numpy.array(steps), allow_pickle=False, **named)
    return content.getvalue()


def unpacked(data: bytes) -> tuple[dict[str, Array], int]:
    """Take the arrays out of an archive.

    Returns:
        The arrays by name, and the number of steps.

    Raises:
        RecordError: The bytes are no archive, are damaged, or would fill more than 4 GiB.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.file_size for member in archive.infolist()) > BYTES_MAX:
                raise RecordError(f"its arrays have more than {BYTES_MAX >> 30} GiB")
            found = {member.filename.removesuffix(".npy"): _array(archive, member) for member in archive.infolist()}
        steps = int(found.pop("steps"))
    except RecordError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        raise RecordError(f"it is no archive of arrays: {error}") from error
    except (zlib.error, MemoryError, OverflowError, RecursionError, SyntaxError) as error:
        raise RecordError(f"it is damaged: {error!r}") from error
    return {name[2:]: values for name, values in found.items()}, steps


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """One array, of which the archive has as many bytes as the array's own header says."""
    content = io.BytesIO(archive.read(member))
    version = npy.read_magic(content)
    shape, _, dtype = npy.read_array_header_1_0(content) if version == (1, 0) else npy.read_array_header_2_0(content)
    left = len(content.getbuffer()) - content.tell()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != left:
        raise RecordError(f"its array {member.filename} is damaged")
    content.seek(0)
    values: Array = npy.read_array(content, allow_pickle=False)
    return values
