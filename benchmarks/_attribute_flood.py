"""A flood of extended attributes by one user, and the memory that it makes a server take.

The names of the store may take 256 MiB, of which one user alone can have a half. Without a bound the same calls
take 758 MiB of any server.
"""

import errno
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import weir

USER = 1000
"""An ordinary user, where root measures; otherwise the user who runs the benchmark."""
MEMORY = "256MiB"
FILES = 3000
VALUES = 4
VALUE_BYTES = 65_000
FLOOD_SECONDS_MAX = 600
CONFIGURATION = f"""version = 1
namespace_memory = "{MEMORY}"
[[server]]
[[server.target]]
backend = "dir"
"""


def measure(directory: Path) -> dict[str, float]:
    """Flood a store with attributes through its mount.

    Returns:
        `attribute_flood_memory_mib`: growth of the server's memory at its peak, in MiB. `attribute_flood_stat_ms_max`:
        longest time in which another program's `stat` was answered beside the flood.

    Raises:
        RuntimeError: The flood was not refused with EDQUOT, or the server did not live.
    """
    directory.chmod(0o755)
    configuration = directory / "flooded.toml"
    configuration.write_text(CONFIGURATION)
    home = directory / "home"
    with weir.store.up(configuration, home=home, mount=directory / "mnt") as store:
        server = int((home / "servers/0/pid").read_text().split()[0])
        before = _peak_mib(server)
        slowest = 0.0
        command = [sys.executable, __file__, str(directory / "mnt")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as flood:
            until = time.monotonic() + FLOOD_SECONDS_MAX
            while flood.poll() is None and time.monotonic() < until:
                began = time.perf_counter()
                (directory / "mnt").stat()
                slowest = max(slowest, time.perf_counter() - began)
                time.sleep(0.001)
            flood.kill()
            answer = flood.communicate()[0]
        if answer.strip() != errno.errorcode[errno.EDQUOT]:
            raise RuntimeError(f"a flood of attributes ended with {answer!r} where EDQUOT was expected")
        grown = _peak_mib(server) - before
        store.down(discard=True)
    return {"attribute_flood_memory_mib": grown, "attribute_flood_stat_ms_max": slowest * 1000}


def _peak_mib(pid: int) -> float:
    """Return the most memory that a process has taken (proc_pid_status(5))."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _flood(mount: Path) -> str:
    """Make files with large attributes; return the name of the error that ends it."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    try:
        for number in range(FILES):
            path = mount / f"flood-{number}"
            path.touch()
            for value in range(VALUES):
                os.setxattr(path, f"user.{value}", bytes(VALUE_BYTES))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "no error"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(_flood(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory(prefix="weir-bench-") as fresh:
            print(json.dumps(measure(Path(fresh))))
