"""The journal of the guard: a line of JSON for each of its actions, in a file of bounded size and its predecessor."""

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from weir.guard.decisions import Entry
from weir.guard.errors import GuardError

FOLDER = "guard"
"""Folder of the journal in the home."""
BYTES_MAX = 1 << 20
"""Length at which the file becomes the predecessor: some 3,000 lines."""
_KEYS = {"time", "window", "is_dry_run"} | {field.name for field in fields(Entry)}
"""Keys of a line."""
_UNKNOWN = {"victim_user": "?", "victim_uid": None, "culprit_user": "?", "culprit_uid": None}
"""Values of the keys that lines of earlier guards lack."""
_FILE, _PREDECESSOR = "journal.jsonl", "journal.1.jsonl"


class Journal:
    """The journal in a folder of the home."""

    def __init__(self, folder: Path) -> None:
        """Take a folder.

        Args:
            folder: The folder; `add` makes it.
        """
        self._folder = folder

    def add(self, entries: Iterable[Entry], window: int, *, is_dry_run: bool) -> list[dict[str, Any]]:
        """Write entries.

        Args:
            window: The window after which they were decided.
            is_dry_run: Whether nothing was done.

        Returns:
            The lines as they stand in the file.

        Raises:
            GuardError: The file cannot be written.
        """
        now = time.time()
        lines = [{"time": now, "window": window, "is_dry_run": is_dry_run, **asdict(entry)} for entry in entries]
        if not lines:
            return []
        path = self._folder / _FILE
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size >= BYTES_MAX:
                path.replace(self._folder / _PREDECESSOR)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
        except OSError as error:
            raise GuardError(f"cannot write {path}: {error}", hint="make room in the store's home") from error
        return lines

    def lines(self) -> list[dict[str, Any]]:
        """Read the journal.

        Returns:
            The lines, the oldest first. A line that a killed guard did not finish is left out.

        Raises:
            GuardError: A file is there and cannot be read.
        """
        found = []
        for name in (_PREDECESSOR, _FILE):
            path = self._folder / name
            try:
                texts = path.read_text().splitlines() if path.exists() else []
            except (OSError, ValueError) as error:
                raise GuardError(f"cannot read {path}: {error}", hint="remove it to begin anew") from error
            found += [line for text in texts if (line := _parsed(text)) is not None]
        return found


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return {**_UNKNOWN, **line} if isinstance(line, dict) and line.keys() >= _KEYS - _UNKNOWN.keys() else None
