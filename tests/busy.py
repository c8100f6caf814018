"""Run a command while at least 20 processes of the machine are runnable: `python tests/busy.py make test`.

Busy loops fill up what the command's own processes leave, so that each of these always shares the processors with 20
others, and the command waits for no more than that.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

RUNNABLE = 20
PR_SET_PDEATHSIG = 1
PAUSE_SECONDS = 0.2


def runnable() -> int:
    """The threads of the machine that run or wait for a processor."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])


def busy_loop() -> int:
    """Start a process that loops until it is killed, or its parent is gone."""
    child = os.fork()
    if child == 0:
        # A stopped loop would not see that its parent is gone.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        while True:
            pass
    return child


@contextlib.contextmanager
def ending(command: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the command where the block fails: a command that nobody waits for would go on."""
    try:
        yield
    except BaseException:
        command.terminate()
        raise


def main() -> int:
    if len(sys.argv) < 2:
        print("usage: python tests/busy.py COMMAND...", file=sys.stderr)
        return 2
    loops = [busy_loop() for _ in range(RUNNABLE)]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    active, total, looks = len(loops), 0, 0
    try:
        with subprocess.Popen(sys.argv[1:]) as command, ending(command):
            while command.poll() is None:
                time.sleep(PAUSE_SECONDS)
                others = max(0, runnable() - active - 1)
                wanted = max(0, min(len(loops), RUNNABLE - others))
                for loop in loops[wanted:active]:
                    os.kill(loop, signal.SIGSTOP)
                for loop in loops[active:wanted]:
                    os.kill(loop, signal.SIGCONT)
                active, total, looks = wanted, total + others + active, looks + 1
    finally:
        for loop in loops:
            os.kill(loop, signal.SIGKILL)
            os.waitpid(loop, 0)
    print(f"runnable processes, mean of {looks} looks: {total / max(1, looks):.1f}", file=sys.stderr)
    return command.returncode


if __name__ == "__main__":
    sys.exit(main())
