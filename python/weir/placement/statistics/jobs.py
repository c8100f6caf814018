"""`job_stats` files of Lustre (`obdfilter.*.job_stats`): counters of each job.

The format is that of `lprocfs_jobstats_seq_show`: it looks like YAML, a list of jobs with a flow mapping for each
counter. It is read line by line because job names may hold what YAML gives a meaning.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from weir.placement.statistics.counters import Counter
from weir.placement.statistics.text import Place, lines

_JOB = re.compile(r"- job_id:?[ \t]*(.*)")
_FIELD = re.compile(r"[ \t]+([A-Za-z0-9_]+):[ \t]*(.*)")
_NESTED = re.compile(r"\w+:[ \t]*\{[^{}]*\}[ \t]*,?")
"""A histogram inside a counter (Lustre 2.16)."""
_COUNTER = "`NAME: { samples: N, unit: UNIT[, min: N, max: N, sum: N[, sumsq: N]] }`"
_NUMBERS = ("min", "max", "sum")


@dataclass(frozen=True, slots=True)
class JobCounters:
    """The counters of one job on one target."""

    job: str
    """What the site's `jobid_var` and `jobid_name` make of a job; may be empty."""
    snapshot_seconds: float
    """Unix time of the job's last request."""
    counters: Mapping[str, Counter]


def parse_job_stats(text: str, source: str) -> tuple[JobCounters, ...]:
    """The jobs of a `job_stats` file, in the file's order.

    Raises:
        MalformedError: naming `source` and the line, where it is no such file.
    """
    places = lines(text, source)
    if not places or places[0].text.strip() != "job_stats:":
        first = places[0] if places else Place(source, 1, "")
        first.malformed("`job_stats:`")
    blocks: list[tuple[Place, str, list[Place]]] = []
    for place in places[1:]:
        started = _JOB.fullmatch(place.text)
        if started:
            blocks.append((place, _unquoted(started[1].strip()), []))
        elif blocks:
            blocks[-1][2].append(place)
        else:
            place.malformed("`- job_id: NAME`")
    return tuple(_job(*block) for block in blocks)


def _job(start: Place, job: str, places: list[Place]) -> JobCounters:
    counters: dict[str, Counter] = {}
    snapshot_seconds = None
    for place in places:
        field = _FIELD.fullmatch(place.text)
        if field is None:
            place.malformed(_COUNTER)
        name, value = field[1], field[2].strip()
        if value.startswith("{"):
            counters[name] = _counter(place, value)
        elif name == "snapshot_time":
            snapshot_seconds = place.decimal(value.split(" ")[0], "seconds after `snapshot_time:`")
        elif name not in ("start_time", "elapsed_time"):
            place.malformed(_COUNTER)
    if snapshot_seconds is None:
        start.malformed("a job with a `snapshot_time:`")
    return JobCounters(job, snapshot_seconds, counters)


def _counter(place: Place, value: str) -> Counter:
    if not value.endswith("}"):
        place.malformed(_COUNTER)
    fields: dict[str, str] = {}
    for pair in _NESTED.sub("", value[1:-1]).split(","):
        if pair.strip():
            key, colon, word = pair.partition(":")
            if not colon:
                place.malformed(_COUNTER)
            fields[key.strip()] = word.strip()
    if "samples" not in fields:
        place.malformed(_COUNTER)
    numbers = [place.signed(fields[key], _COUNTER) if key in fields else None for key in _NUMBERS]
    return Counter(place.count(fields["samples"], _COUNTER), fields.get("unit", ""), *numbers)


def _unquoted(name: str) -> str:
    """The name of a job: Lustre quotes one that YAML would not take as a plain word."""
    quoted = len(name) > 1 and name.startswith('"') and name.endswith('"')
    return name[1:-1] if quoted else name
