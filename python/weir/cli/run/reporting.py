"""`weir run --report`: the page about a run, from a watch over its store and the traces of its processes."""

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weir.cli.common.asking import observed
from weir.cli.common.errors import say, warn
from weir.cli.common.report_file import write_report
from weir.errors import WeirError
from weir.store.home import Home

if TYPE_CHECKING:
    from weir._core import Claims
    from weir.report.facts import Facts, File
    from weir.report.traced import Traced
    from weir.report.watching import Watch

_FINDINGS_SAID = 3


class Reporting:
    """The report of one run; without a target there is none."""

    def __init__(self, home: Home, target: Path | None, trace: str | None, *, is_preloaded: bool) -> None:
        """Prepare a report.

        Args:
            target: File of the report; None for no report.
            trace: Folder of the run's traces, where the user asked for them.
            is_preloaded: Whether the run has the preload library, which traces.
        """
        self._home = home
        self._target = target
        self._own_trace = tempfile.mkdtemp(prefix="weir-trace-") if target and is_preloaded and not trace else None
        self.trace = trace or self._own_trace
        self._run_name: str | None = None
        self._watch: Watch | None = None
        self._claims: Claims | None = None
        self._begun = time.time()

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Prepare the watch over a run's job.

        Args:
            environment: Variables of the program, among them its credential.
        """
        self._run_name = environment.get("WEIR_TRACE_RUN")
        if self._target is None or "WEIR_CREDENTIAL" not in environment:
            return
        from weir.report.watching import Watch
        from weir.store.identity import read_claims
        from weir.store.observations import JobKey

        try:
            observed(self._home)
            self._claims = read_claims(Path(environment["WEIR_CREDENTIAL"]))
        except WeirError as error:
            warn(f"the report will have nothing about the store: {error.message}", hint=error.hint)
            return
        job = JobKey(self._claims["job"], self._claims["uid"])
        self._watch = Watch(lambda: observed(self._home), job, warn)

    def start(self) -> None:
        """Begin to watch, once the program runs."""
        self._begun = time.time()
        if self._watch is not None:
            self._watch.start()

    def end(self) -> None:
        """End the watch, once the program has ended."""
        if self._watch is not None:
            self._watch.end()

    def write(self, command: Sequence[str]) -> None:
        """Write the report. A failure is a warning: the run has its own exit code.

        Args:
            command: The program and its arguments.
        """
        if self._target is None:
            return
        from weir.report.rules import findings_of

        try:
            facts = self._facts(command)
            findings = findings_of(facts)
            write_report(self._target, facts, findings)
        except (WeirError, OSError) as error:
            words = error.message if isinstance(error, WeirError) else f"{error.filename}: {error.strerror}"
            warn(f"no report is written: {words}", hint=error.hint if isinstance(error, WeirError) else "")
            return
        finally:
            self._remove()
        for number, finding in enumerate(findings[:_FINDINGS_SAID], start=1):
            say(f"{number}. {finding.title}: {finding.words} `{finding.command}`")
        say(f"the report is {self._target}" + ("; no rule found a fault" if not findings else ""))

    def _facts(self, command: Sequence[str]) -> "Facts":
        """Facts of the store where it was watched, and of the traces where there are some.

        Raises:
            WeirError: Neither knows the run.
        """
        from dataclasses import replace

        from weir.report import traced

        seen = None
        if self.trace is not None and self._run_name is not None and any(Path(self.trace).iterdir()):
            seen = _with_sizes(traced.read([Path(self.trace)], note=warn, run=self._run_name))
        try:
            facts = self._watched()
        except WeirError as error:
            if seen is None:
                raise
            facts = traced.facts_of(seen, "the traces of its processes")
            return replace(facts, unknown=(*facts.unknown, f"the store told nothing of the run: {error.message}"))
        facts = facts if seen is None else traced.with_trace(facts, seen)
        return replace(facts, program=" ".join(command))

    def _watched(self) -> "Facts":
        from dataclasses import replace

        from weir.report import stored
        from weir.report.errors import ReportError

        if self._watch is None or self._claims is None:
            raise ReportError("the store was not watched, and the run left no trace", hint="is the store up?")
        history = self._watch.history()
        try:
            since = round(self._begun * 1000) - history.window
            stretch = stored.Stretch(self._watch.job, self._claims["user"], since, round(time.time() * 1000))
            facts = stored.facts_of(history, stretch)
        finally:
            history.close()
        return replace(facts, source="the store, watched during the run")

    def _remove(self) -> None:
        if self._own_trace is not None:
            shutil.rmtree(self._own_trace, ignore_errors=True)
        if self._watch is not None:
            self._watch.remove()


def _with_sizes(seen: "Traced") -> "Traced":
    """Look up the sizes of files that the run only read, through the mount that it read them through."""
    from dataclasses import replace

    return replace(seen, files=tuple(each if each.size_bytes else _with_size(each) for each in seen.files))


def _with_size(file: "File") -> "File":
    from dataclasses import replace

    try:
        return replace(file, size_bytes=Path(file.path).stat().st_size)
    except OSError:
        # It was removed, or the run saw it under a prefix that is no path here.
        return file
