"""The copying process of `mover.move`: `python -m weir.staging SOURCE DESTINATION [WORKERS [ORIGIN]]`.

It runs in the environment of the store that it copies into or out of. Standard output has one JSON object a line.
"""

import json
import os
import select
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weir.staging.copying import WORKERS, copy
from weir.staging.errors import StagingError
from weir.staging.reports import Progress


def main() -> int:
    """Copy, and tell the progress and the end.

    Returns:
        Exit code: 0 where the copy is done.
    """
    stop = threading.Event()
    threading.Thread(target=_await_hangup, args=(sys.stdout.fileno(), stop), daemon=True).start()
    last: Progress | None = None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())

    def tell(document: dict[str, Any]) -> None:
        try:
            sys.stdout.write(json.dumps(document) + "\n")
            sys.stdout.flush()
        except OSError:
            # The caller is gone, and nobody would see the end.
            stop.set()

    def show(progress: Progress) -> None:
        nonlocal last
        if progress != last:
            last = progress
            tell({"progress": asdict(progress)})

    source, destination = (Path(os.fsdecode(word)) for word in sys.argv[1:3])
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else WORKERS
    origin = sys.argv[4] if len(sys.argv) > 4 else None
    try:
        report = copy(source, destination, origin=origin, workers=workers, progress=show, stop=stop)
    except StagingError as error:
        words = {"message": error.message, "hint": error.hint, "missing": error.is_missing, "full": error.is_full}
        tell({"error": words})
        return 1
    tell({"report": asdict(report)})
    return 0


def _await_hangup(descriptor: int, stop: threading.Event) -> None:
    """Stop a copy whose caller is gone. A copy that reads back writes no progress that would fail."""
    hangup = select.poll()
    # Errors and hangups are reported without being asked for.
    hangup.register(descriptor, 0)
    hangup.poll()
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
