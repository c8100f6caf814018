"""Places that behave badly: local files that hang, come slowly, or are refused."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from fsspec.implementations.local import LocalFileSystem


class Gated(LocalFileSystem):  # type: ignore[misc]
    """Local files. A file that `gates` names cannot be read or listed before its event is set."""

    protocol = "gated"
    gates: ClassVar[dict[str, threading.Event]] = {}
    asked: ClassVar[list[str]] = []
    came: ClassVar[threading.Condition] = threading.Condition()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(LocalFileSystem._strip_protocol(path.removeprefix("gated://")))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        self._pass(path)
        return bytes(super().cat_file(path, start=start, end=end, **options))

    def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
        self._pass(f"list {path}")
        return super().ls(path, detail=detail, **options)

    def _pass(self, path: str) -> None:
        with self.came:
            self.asked.append(Path(path).name)
            self.came.notify_all()
        for name, gate in self.gates.items():
            if name in path:
                gate.wait()


class Throttled(LocalFileSystem):  # type: ignore[misc]
    """Local files, each read at a bandwidth of its own; reads that are under way at once share it."""

    protocol = "throttled"
    bandwidth: ClassVar[Callable[[str], float]]
    """Bytes per second of a file, by its name."""
    _device: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(LocalFileSystem._strip_protocol(path.removeprefix("throttled://")))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        data = bytes(super().cat_file(path, start=start, end=end, **options))
        with self._device:
            time.sleep(len(data) / type(self).bandwidth(Path(path).name))
        return data
