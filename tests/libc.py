"""Calls of libc that Python has no name for, by the names under which programs link to them."""

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEEP_SIZE, PUNCH_HOLE, COLLAPSE_RANGE, ZERO_RANGE, INSERT_RANGE, UNSHARE_RANGE = 1, 2, 8, 16, 32, 64
"""Modes of fallocate(2)."""
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
"""Flags of renameat2(2)."""
AT_FDCWD = -100

# The program's own scope, in which a preloaded library stands before libc.
_LIBRARY = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """Call a function of libc.

    Raises:
        OSError: It returned a negative number.
    """
    function = getattr(_LIBRARY, name)
    function.restype = ctypes.c_int
    result = int(function(*(_argument(value) for value in arguments)))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _argument(value: object) -> object:
    if isinstance(value, int):
        return ctypes.c_long(value)
    if isinstance(value, Path):
        return os.fsencode(value)
    return value


def fallocate(descriptor: int, mode: int, offset: int, length: int) -> None:
    """fallocate(2)."""
    call("fallocate", descriptor, mode, offset, length)


def renameat2(old: Path, new: Path, flags: int) -> None:
    """renameat2(2), with paths alone."""
    call("renameat2", AT_FDCWD, old, AT_FDCWD, new, flags)


def linkat(descriptor: int, new: Path) -> None:
    """linkat(2) of an open file by its name in /proc, as open(2) shows it for O_TMPFILE."""
    follow = 0x400
    call("linkat", AT_FDCWD, f"/proc/self/fd/{descriptor}".encode(), AT_FDCWD, new, follow)


def refused(numbers: int | tuple[int, ...], function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Check that a call is refused with this error number, or one of these."""
    expected = (numbers,) if isinstance(numbers, int) else numbers
    try:
        result = function(*arguments, **options)
    except OSError as error:
        assert error.errno in expected, error
    else:
        raise AssertionError(f"{function} gave {result}, not {[errno.errorcode[number] for number in expected]}")
