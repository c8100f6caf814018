"""The run of a program as a job of a store."""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weir.amounts import seconds
from weir.html_table import html_table


class Run(subprocess.CompletedProcess[Any]):
    """A program that ran as a job, and has ended; a notebook shows it as a table.

    Attributes:
        job: Name of the job, by which `Store.jobs` and `Store.windows` know it.
        seconds: Time from the begin of the program to its end.
    """

    def __init__(
        self,
        args: Sequence[str | Path],
        returncode: int,
        stdout: Any = None,
        stderr: Any = None,
        *,
        job: str,
        seconds: float,
    ) -> None:
        """Describe a run, as `subprocess.CompletedProcess` does.

        Args:
            job: Name of the job.
            seconds: Time from the begin of the program to its end.
        """
        super().__init__(args, returncode, stdout, stderr)
        self.job = job
        self.seconds = seconds

    def __repr__(self) -> str:
        """The program, its exit code, its job and its time."""
        return f"<run of {self._program()} as {self.job}: exit code {self.returncode}, {self.seconds:.3g} s>"

    def _repr_html_(self) -> str:
        """The run as a table of HTML."""
        row = (self.job, self._program(), self.returncode, seconds(self.seconds))
        return html_table("Run", ("job", "program", "exit code", "time"), [row])

    def _program(self) -> str:
        return shlex.join(str(word) for word in self.args)
