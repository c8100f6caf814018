"""The work of jobs of an accounting file: each has the log of its own, that of a like job, or that of a rule."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from weir.simulation.documents import Table
from weir.simulation.errors import ScenarioError
from weir.simulation.workload import Job, Remarks, Work
from weir.simulation.workloads.accounting import AccountedJob, read_accounting
from weir.simulation.workloads.jobs import Template, logged_jobs, on_nodes, templates_of
from weir.simulation.workloads.logs import LoggedJob

UNMATCHED = ("error", "skip")
"""What happens to jobs that no log and no rule fits."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that gives jobs their work."""

    name: str
    """Pattern of the names of its jobs, as of file names."""
    user: str
    """Pattern of the users of its jobs."""
    templates: list[Template]

    def fits(self, job: AccountedJob) -> bool:
        """Decide whether a job has the work of this rule.

        Returns:
            Whether its name and its user fit.
        """
        return fnmatchcase(job.name, self.name) and fnmatchcase(job.user, self.user)


def accounted_jobs(table: Table, seed: int, number: int, remarks: Remarks) -> Iterator[tuple[Job, Work]]:
    """Read the jobs of an `[[accounting]]` table.

    Args:
        seed: Start of all dice.
        number: Number of the table in its scenario.
        remarks: Takes the remarks about logs and traces.

    Yields:
        The jobs with their work, by their start.

    Raises:
        ScenarioError: The file or a log cannot be used, or no log and no rule fits a job.
    """
    path = table.path("file")
    try:
        accounted = read_accounting(path)
    except ScenarioError as error:
        raise table.error("file", error.message, error.hint) from error
    logs = _Logs(logged_jobs(table, "logs", remarks) if table.has("logs") else [])
    rules = [_rule(entry, seed, (number << 16) + place, remarks) for place, entry in enumerate(table.tables("rules"))]
    skips = table.choice("unmatched", "error", UNMATCHED) == "skip"
    pace = table.number("pace", 1.0)
    priority = table.whole("priority", 1, least=1, most=2**31)
    table.close()
    used = dict.fromkeys(range(len(rules)), 0)
    for job in accounted:
        make = _work(job, logs, rules, used)
        if make is None and not skips:
            raise table.error(
                "file",
                f"{path}: line {job.line}: no log and no rule fits job {job.job_id} ({job.name} of {job.user})",
                'give its log, a [[accounting.rules]] for it, or unmatched = "skip"',
            )
        if make is not None:
            work = on_nodes(make(), job.nodes)
            arrival = pace * (job.started - accounted[0].started)
            yield Job(job.name, job.user, job.account, job.nodes, priority, arrival), work


def _work(job: AccountedJob, logs: "_Logs", rules: list[Rule], used: dict[int, int]) -> Callable[[], Work] | None:
    """The maker of a job's work; `used` counts the jobs of each rule."""
    logged = logs.of(job)
    if logged is not None:
        work = logged.work
        return lambda: work
    for place, rule in enumerate(rules):
        if rule.fits(job):
            copy, used[place] = used[place], used[place] + 1
            template = rule.templates[copy % len(rule.templates)]
            return lambda: template.make(copy)
    return None


def _rule(table: Table, seed: int, number: int, remarks: Remarks) -> Rule:
    rule = Rule(table.text("name", "*"), table.text("user", "*"), templates_of(table, seed, number, remarks))
    table.close()
    return rule


class _Logs:
    """Logs by the jobs that they fit."""

    def __init__(self, logs: list[LoggedJob]) -> None:
        self._by_number = {log.job_id: log for log in logs}
        self._by_name: dict[Any, list[LoggedJob]] = {}
        for log in sorted(logs, key=lambda log: (log.started, log.job_id)):
            self._by_name.setdefault((log.name, log.user), []).append(log)
            self._by_name.setdefault(log.name, []).append(log)
        self._used: dict[Any, int] = {}

    def of(self, job: AccountedJob) -> LoggedJob | None:
        """The log of a job's number; else those of its name and user in turn; else those of its name in turn."""
        # Members of an array have one number of a job in Darshan's logs: that before the underscore.
        own = self._by_number.get(int(re.split(r"[_+]", job.job_id)[0]))
        if own is not None:
            return own
        for key in ((job.name, job.user), job.name):
            like = self._by_name.get(key)
            if like:
                turn = self._used.get(key, 0)
                self._used[key] = turn + 1
                return like[turn % len(like)]
        return None
