"""Locks of the three kinds, by one call."""

import fcntl
import os
import struct

KINDS = ("process", "description", "flock")


def lock(file: int, kind: str, exclusive: bool, wait: bool = False, start: int = 0, length: int = 0) -> None:
    """Lock a file or a range of it."""
    if kind == "flock":
        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB))
        return
    request = struct.pack("hhqqi4x", fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK, os.SEEK_SET, start, length, 0)
    of_description = (fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK) if kind == "description" else None
    fcntl.fcntl(file, of_description or (fcntl.F_SETLKW if wait else fcntl.F_SETLK), request)
