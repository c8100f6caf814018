"""Changes files at random until a file is there, and compares them with its own record all the time.

    python changes.py FOLDER STOP SEED

Files are written, read, cut, renamed and removed, and directories made and removed. A call that is answered with EIO has
an open outcome, and is repeated: a server may be away for longer than a call waits, as on a busy machine.
"""

import errno
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

FILES = 6
LENGTH_MAX = 3 << 20
PATIENCE_SECONDS = 600.0
PAUSE_SECONDS = 0.05
"""Pause between two changes: several of these programs leave some of the processors to others."""


def patiently(call: Callable[[], object], done: Callable[[OSError], bool] = lambda error: False) -> int:
    """Repeat a call while it is answered with EIO; answers how often. `done` knows the errors of a call that took effect."""
    end = time.monotonic() + PATIENCE_SECONDS
    repeated = 0
    while True:
        try:
            call()
            return repeated
        except OSError as error:
            if repeated and done(error):
                return repeated
            if error.errno != errno.EIO or time.monotonic() > end:
                raise
            repeated += 1


def main() -> None:
    """Change files until the end."""
    folder, stop = Path(sys.argv[1]), Path(sys.argv[2])
    choices = random.Random(int(sys.argv[3]))
    patiently(folder.mkdir, lambda error: error.errno == errno.EEXIST)
    models: dict[str, bytearray] = {}
    print("begun", flush=True)
    steps = repeated = 0
    longest = 0.0
    while not stop.exists():
        begun = time.monotonic()
        repeated += step(folder, models, choices)
        longest = max(longest, time.monotonic() - begun)
        steps += 1
        time.sleep(PAUSE_SECONDS)
    for name, model in models.items():
        compare(folder / name, model)
    print(f"{steps} steps, {repeated} repeated, the longest {longest:.1f} s")


def step(folder: Path, models: dict[str, bytearray], choices: random.Random) -> int:
    """Do one change, or compare; answers how often a call was repeated."""
    name = f"file{choices.randrange(FILES)}"
    path = folder / name
    kind = choices.randrange(10)
    if name not in models or kind == 0:
        data = choices.randbytes(choices.randrange(LENGTH_MAX))
        models[name] = bytearray(data)
        return patiently(lambda: replace(folder / "new", path, data))
    model = models[name]
    if kind == 1:
        length = choices.randrange(len(model) + 1)
        del model[length:]
        return patiently(lambda: os.truncate(path, length))
    if kind == 2:
        del models[name]
        return patiently(path.unlink, lambda error: error.errno == errno.ENOENT)
    if kind == 3:
        inner = folder / "inner"
        made = patiently(inner.mkdir, lambda error: error.errno == errno.EEXIST)
        return made + patiently(inner.rmdir, lambda error: error.errno == errno.ENOENT)
    if kind < 7:
        data = choices.randbytes(choices.randrange(1, 200_000))
        offset = choices.randrange(len(model) + 1)
        model[offset : offset + len(data)] = data
        return patiently(lambda: write(path, data, offset))
    return patiently(lambda: compare(path, model))


def replace(new: Path, path: Path, data: bytes) -> None:
    """Make a file anew, as careful programs do."""
    with new.open("wb") as file:
        file.write(data)
    new.rename(path)


def write(path: Path, data: bytes, offset: int) -> None:
    """Write into a file."""
    with path.open("r+b", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[os.pwrite(file.fileno(), left, offset + len(data) - len(left)) :]


def compare(path: Path, model: bytearray) -> None:
    """Compare a file with its record."""
    with path.open("rb") as file:
        found = file.read()
    if found != model:
        pairs = enumerate(zip(found, model, strict=False))
        first = next((at for at, (one, other) in pairs if one != other), min(len(found), len(model)))
        sys.exit(f"{path}: {len(found)} bytes, {len(model)} expected, first difference at {first}")


if __name__ == "__main__":
    main()
