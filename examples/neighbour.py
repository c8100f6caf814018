"""A job of one node that floods the storage: many processes, each writing and reading back blocks without a pause.

Run it on a store: `weir run --nodes 1 -- python neighbour.py PROCESSES DIRECTORY`; it works in a new directory below
$WEIR_MOUNT/DIRECTORY. It prints `flooding` when every process is at work, and ends at SIGTERM, when its blocks were all
read back as they were written.
"""

import os
import signal
import sys
import tempfile
from pathlib import Path

BLOCK_BYTES = 16 << 10
BLOCKS = 128


def flood(path: Path, ready: int) -> None:
    """Rounds of blocks over one file, written and compared, until told to stop."""
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    contents = [os.urandom(BLOCK_BYTES) for _ in range(4)]
    os.pwrite(file, contents[0], 0)
    os.write(ready, b".")
    for number in range(sys.maxsize):
        if stopping:
            return
        position = number % BLOCKS
        content = contents[number % len(contents)]
        os.pwrite(file, content, position * BLOCK_BYTES)
        if os.pread(file, BLOCK_BYTES, position * BLOCK_BYTES) != content:
            sys.exit(f"{path}: block {position} came back changed")


def main() -> None:
    processes = int(sys.argv[1])
    directory = Path(tempfile.mkdtemp(prefix="neighbour-", dir=Path(os.environ["WEIR_MOUNT"], sys.argv[2])))
    reader, writer = os.pipe()
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            flood(directory / str(number), writer)
            os._exit(0)
        children.append(child)
    for _ in children:
        os.read(reader, 1)

    def stop(*_: object) -> None:
        for child in children:
            os.kill(child, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    print("flooding", flush=True)
    failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    sys.exit(f"{len(failed)} of {processes} processes failed" if failed else 0)


if __name__ == "__main__":
    main()
