"""Locks a file, writes under the lock, and goes on at each line of its input: as a program whose host was cut off would.

It prints "held", then the results of a write and a read under a lock that it takes for its own, then what it reads under a new
one.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Callable


def result(call: Callable[[], object]) -> str:
    try:
        return str(call())
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def main(path: str) -> None:
    file = os.open(path, os.O_RDWR)
    fcntl.lockf(file, fcntl.LOCK_EX)
    os.pwrite(file, b"1", 0)
    print("held", flush=True)
    sys.stdin.readline()
    print(result(lambda: os.pwrite(file, b"9", 0)), result(lambda: os.pread(file, 1, 0)), flush=True)
    fcntl.lockf(file, fcntl.LOCK_EX)
    print(os.pread(file, 1, 0).decode(), os.pwrite(file, b"3", 0), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
