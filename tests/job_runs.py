"""Jobs without a scheduler, for tests: their files, and what is left of them on the machine."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from store import Store, program

JOB = """\
version: 1
resources: [{{type: node, count: 1, with: [{{type: slot, count: 1, label: r, with: [{{type: core, count: 1}}]}}]}}]
tasks: [{{command: [sh, -c, {command}], slot: r, count: {{per_slot: 1}}}}]
attributes: {{system: {{duration: 600}}}}
"""


def schema(folder: Path, devices: Sequence[Path] = ()) -> dict[str, Any]:
    """A deployment with a server on each device, or one in memory."""
    servers: list[dict[str, Any]] = [
        {"node": f"node-{number}", "devices": [str(device)], "target_bytes": 64 << 20}
        for number, device in enumerate(devices)
    ]
    return {
        "version": 1,
        "name": "job",
        "identity": "small-write-light-sequential-posix",
        "behaviour_class": "",
        "sslo": "test",
        "policy": "performance",
        "system": {"device": "ssd", "servers": max(len(devices), 1)},
        "servers": servers or [{"node": "node-0", "devices": [], "target_bytes": 64 << 20}],
        "shareable": False,
        "size_bytes": 32 << 20,
        "expected": {},
        "stage_in": [{"source": str(folder / "input"), "destination": "input"}],
        "stage_out": [{"source": "results", "destination": str(folder / "out")}],
    }


class Job:
    """A job in a fresh folder."""

    def __init__(self, store: Store, *, devices: int = 0, **changes: Any) -> None:
        self.store = store
        self.folder = store.root / "work"
        self.folder.mkdir()
        self.devices = [self.folder / f"device-{number}" for number in range(devices)]
        for device in self.devices:
            device.mkdir()
        self.schema = {**schema(self.folder, self.devices), **changes}
        (self.folder / "input").mkdir()
        (self.folder / "input/data").write_bytes(b"12345")

    @property
    def out(self) -> Path:
        """The destination of the results."""
        return self.folder / "out"

    @property
    def storage(self) -> Path:
        """The folder of the job's storage."""
        return self.store.root / "home-jobs/job"

    def arguments(self, command: str) -> list[str]:
        """The arguments of `weir` that run a shell command as the job."""
        (self.folder / "job.yaml").write_text(JOB.format(command=json.dumps(command)))
        (self.folder / "schema.json").write_text(json.dumps(self.schema))
        where = ("--schema", self.folder / "schema.json", "--name", "job")
        return ["job", "run", str(self.folder / "job.yaml"), *map(str, where)]

    def run(self, command: str, *, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a shell command as the job."""
        return self.store.weir(*self.arguments(command), code=code)

    def start(self, command: str) -> "subprocess.Popen[str]":
        """Start a shell command as the job; its words are for the caller."""
        return subprocess.Popen(
            [*program(), *self.arguments(command)],
            env=self.store.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )

    def phase(self) -> str:
        """The phase that the job has come to; empty where there is none."""
        listed = self.store.json("job", "list")
        return str(listed[0]["phase"]) if listed else ""

    def processes(self) -> list[str]:
        """Command lines of the machine's processes that name the job's folders."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.store.root) in line and path.parent.name != str(os.getpid()):
                found.append(line)
        return found

    def assert_nothing_is_left(self) -> None:
        """Neither a process, a mount nor a file of the job's storage is there."""
        assert self.processes() == []
        assert str(self.store.root) not in Path("/proc/self/mountinfo").read_text()
        assert not self.storage.exists()
        assert [path for device in self.devices for path in device.iterdir()] == []
