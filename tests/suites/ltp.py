"""The Linux Test Project's tests of calls on files and its file system tests, from the user's own build.

DIR/ltp is where `make install` of LTP put `runtest` and `testcases/bin`. What mounts, formats or quotas a device of its
own tests another file system, and what changes the machine (clocks, swap, modules) is no test of a file system.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ways import MOUNTED

from suites.comparison import Outcome, Results
from suites.place import Place
from suites.suite import build, missing_build

CALLS = (
    "access", "chdir", "chmod", "chown", "chroot", "close", "close_range", "copy_file_range", "creat", "dup",
    "dup2", "dup3", "execl", "execle", "execlp", "execv", "execve", "execveat", "execvp", "faccessat", "faccessat2",
    "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync",
    "fgetxattr", "flistxattr", "flock", "fpathconf", "fremovexattr", "fsetxattr", "fstat", "fstatat", "fstatfs",
    "fsync", "ftruncate", "futimesat", "getcwd", "getdents", "getxattr", "inotify", "io_submit", "lchown",
    "lgetxattr", "link", "linkat", "listxattr", "llistxattr", "llseek", "lremovexattr", "lseek", "lstat", "mincore",
    "mkdir", "mkdirat", "mknod", "mknodat", "mmap", "mremap", "msync", "munmap", "name_to_handle_at", "nftw",
    "nftw64", "open", "open_by_handle_at", "openat", "openat2", "pathconf", "posix_fadvise", "pread", "preadv",
    "preadv2", "pwrite", "pwritev", "pwritev2", "read", "readahead", "readdir", "readlink", "readlinkat", "readv",
    "realpath", "removexattr", "rename", "renameat", "renameat2", "rmdir", "sendfile", "setxattr", "splice", "stat",
    "statfs", "statvfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "truncate", "umask",
    "unlink", "unlinkat", "utime", "utimensat", "utimes", "write", "writev",
)  # fmt: skip
"""Calls on names, descriptors and bytes of files; a test is named after its call and a number."""
FILE_SYSTEM_TESTS = (
    "fs_di", "fs_inod", "ftest", "gf", "inode", "iogen", "lftest", "linker", "openfile", "rwtest", "stream",
    "writetest",
)  # fmt: skip
"""Of `runtest/fs`, those that work in the temporary directory."""
LOOP_SECONDS = 5
"""Of tests that repeat themselves for up to two minutes, of which there are forty."""
TEST_SECONDS = 120.0
"""A test takes seconds."""
SHORT_CALLS = ("rename", "link", "unlink", "ftruncate", "lseek", "pread", "pwrite", "readv", "writev")
_OUTCOMES = {0: Outcome.OK, 32: Outcome.SKIPPED}
"""LTP's exit codes: a test that says TCONF alone exits with 32; others are bits for failed, broken and warned."""


class Ltp:
    """Every test is one line of shell, as in LTP's own lists."""

    name = "ltp"
    ways = MOUNTED
    store_options = ("--servers", "2", "--targets", "2", "--capacity", "1GiB")
    seconds_max = 7200.0
    uid = None
    has_reference = True

    def missing(self) -> str | None:
        if os.geteuid() != 0:
            return "only root can become the users that the tests need"
        return missing_build("ltp", "runtest/syscalls")

    def run(self, place: Place, *, is_short: bool) -> Results:
        root = build("ltp")
        assert root is not None
        results: Results = {}
        for test, line in chosen(root / "runtest", is_short=is_short):
            if place.is_over:
                break
            folder = place.make_folder(test)
            environment = {
                "LTPROOT": str(root),
                "TMPDIR": str(folder),
                # Without the programs that format devices: tests that want one say that they do not apply.
                "PATH": f"{root}/testcases/bin:/usr/local/bin:/usr/bin:/bin",
                "LTP_COLORIZE_OUTPUT": "n",
            }
            answer = place.run("sh", "-c", line, seconds=TEST_SECONDS, environment=environment, folder=folder)
            results[test] = _OUTCOMES.get(answer.code, answer.outcome) if not answer.timed_out else Outcome.TIMED_OUT
            place.remove_folder(folder)
        return results


def chosen(lists: Path, *, is_short: bool) -> Iterator[tuple[str, str]]:
    """Tests and their commands, from LTP's lists."""
    calls = SHORT_CALLS if is_short else CALLS
    for test, line in _lines(lists / "syscalls"):
        if call_of(test) in calls:
            yield test, line
    if not is_short and (lists / "fs").is_file():
        for test, line in _lines(lists / "fs"):
            if re.fullmatch(rf"(?:{'|'.join(FILE_SYSTEM_TESTS)})\d*", test):
                yield test, capped(line)


def capped(line: str) -> str:
    """A command of `runtest/fs` that runs for a given time, for a shorter one: of growfiles, rwtest and iogen."""
    line = re.sub(r"(growfiles .*-L )(\d+)", lambda match: f"{match[1]}{min(int(match[2]), LOOP_SECONDS)}", line)
    return re.sub(r"(rwtest .*-i )(\d+)s", lambda match: f"{match[1]}{min(int(match[2]), LOOP_SECONDS)}s", line)


def call_of(test: str) -> str:
    """The call that a test is named after: its name without the number and the width of the arguments."""
    name = re.sub(r"(?:_64|_16)$", "", test)
    return re.sub(r"_?(?:0\d{2}|\d{2})[A-Za-z]?$|_\d+$", "", name)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        words = line.split(None, 1)
        if len(words) == 2 and not line.startswith("#"):
            yield words[0], words[1]
