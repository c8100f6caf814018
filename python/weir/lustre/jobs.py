"""Reader of Lustre's `job_stats` files (`obdfilter.*.job_stats`): counters of each job.

The format is that of `lprocfs_jobstats_seq_show`. It looks like YAML: a list of jobs with a flow mapping for each
counter. The reader goes line by line, because names of jobs may hold characters that mean something in YAML.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from weir.lustre.counters import Counter
from weir.lustre.text import Place

_JOB = re.compile(r"- job_id:?[ \t]*(.*)")
_COUNTER = re.compile(
    r"\{[ \t]*samples:[ \t]*(\d{1,20})"
    r"(?:[ \t]*,[ \t]*unit:[ \t]*([^\s,{}]*))?"
    r"(?:[ \t]*,[ \t]*min:[ \t]*(-?\d{1,20})[ \t]*,[ \t]*max:[ \t]*(-?\d{1,20})[ \t]*,[ \t]*sum:[ \t]*(-?\d{1,20}))?"
    r"(?:[ \t]*,[ \t]*\w+:[ \t]*(?:-?\d{1,40}|\{[^{}]*\}))*[ \t]*\}"
)
"""The parts behind the sum (squares, or a histogram from Lustre 2.16 on) are passed over."""
_EXPECTED = "`NAME: { samples: N, unit: UNIT[, min: N, max: N, sum: N[, ...]] }`"
_MOMENTS = ("start_time", "elapsed_time")


@dataclass(frozen=True, slots=True)
class JobCounters:
    """The counters of one job on one target."""

    job: str
    """Name of the job, as the site's `jobid_var` and `jobid_name` form it; may be empty."""
    snapshot_seconds: float
    """Unix time of the job's last request."""
    counters: Mapping[str, Counter]
    """Counters by their names."""


def parse_job_stats(text: str, source: str, *, only: Collection[str] | None = None) -> tuple[JobCounters, ...]:
    """Read a `job_stats` file.

    Args:
        text: Content of the file.
        source: Path of the file, for errors.
        only: Names of the wanted counters, because there may be a hundred thousand jobs; None wants all.

    Returns:
        The jobs, in the order of the file.

    Raises:
        MalformedError: The text is no `job_stats` file. The error names `source` and the line.
    """
    numbered = ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
    number, line = next(numbered, (1, ""))
    if line.strip() != "job_stats:":
        Place(source, number, line).malformed("`job_stats:`")
    found: list[JobCounters] = []
    began = Place(source, number, line)
    job, seconds, counters = None, None, dict[str, Counter]()
    for number, line in numbered:
        if line.startswith("- "):
            if job is not None:
                found.append(_finished(began, job, seconds, counters))
            began = Place(source, number, line)
            job, seconds, counters = _name(began), None, {}
            continue
        name, colon, value = line.partition(":")
        name = name.strip()
        if job is None or not colon or line[0] not in " \t" or not name.isidentifier():
            Place(source, number, line).malformed("`- job_id: NAME`" if job is None else _EXPECTED)
        if name == "snapshot_time":
            word = value.strip().split(" ")[0]
            seconds = Place(source, number, line).decimal(word, "seconds after `snapshot_time:`")
        elif name not in _MOMENTS and (only is None or name in only):
            counters[name] = _counter(value.strip()) or Place(source, number, line).malformed(_EXPECTED)
    if job is not None:
        found.append(_finished(began, job, seconds, counters))
    return tuple(found)


def _name(place: Place) -> str:
    """Read the name of a job; Lustre quotes a name that YAML would not take as a plain word."""
    started = _JOB.fullmatch(place.text)
    if started is None:
        place.malformed("`- job_id: NAME`")
    name = started[1].strip()
    quoted = len(name) > 1 and name.startswith('"') and name.endswith('"')
    return name[1:-1] if quoted else name


def _finished(began: Place, job: str, seconds: float | None, counters: dict[str, Counter]) -> JobCounters:
    if seconds is None:
        began.malformed("a job with a `snapshot_time:`")
    return JobCounters(job, seconds, counters)


def _counter(value: str) -> Counter | None:
    found = _COUNTER.fullmatch(value)
    if found is None:
        return None
    samples, unit, minimum, maximum, total = found.groups()
    if total is None:
        return Counter(int(samples), unit or "")
    return Counter(int(samples), unit or "", int(minimum), int(maximum), int(total))
