"""Runs as files: one JSON document, and tables of the jobs, targets, servers and series in Parquet.

`docs/reference/simulated-runs.md` describes both. A record has no wall-clock time, so one scenario has one record.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from weir.simulation.alone import Alone
from weir.simulation.errors import SimulationError
from weir.simulation.figures import JobFigures, RunFigures, figures_of_run
from weir.simulation.outcome import JobOutcome, Outcome, ServerOutcome, TargetOutcome, number, part_of
from weir.ways import make_folders, replacing, write_whole

if TYPE_CHECKING:
    from weir.simulation.engine import Prepared
    from weir.simulation.outcome import Series

VERSION = 1
KIND = "weir-simulated-run"
DOCUMENT = "run.json"
"""Name of the document in the folder of a run."""
_BYTES_MAX = 1 << 30
"""Largest document that is read: 3,600 targets and 10,000 jobs with 512 intervals each take 60 MB."""
INTERVALS_MAX = 512
"""Most intervals of a series in a record: a plot tells no more apart, and 3,600 targets have 2 million values."""
_DIGITS = 6
"""Digits of the values of series behind the point."""
_SERIES = {
    "jobs": ("device_series",),
    "targets": ("busy_series",),
    "servers": ("link_series", "processor_series"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A run, its settings and its figures."""

    name: str
    """Its name in reports."""
    settings: dict[str, Any]
    """The scenario without its machines and its work: the settings of the store, and the numbers of machines."""
    sample_seconds: float
    """Interval of the series, in seconds; 0 where none was kept."""
    outcome: Outcome
    """The engine's account."""
    jobs: tuple[JobFigures, ...]
    """The jobs, in the order of the workload."""

    @property
    def figures(self) -> RunFigures:
        """The figures of the run as a whole."""
        return figures_of_run(self.outcome, self.jobs)

    def _repr_html_(self) -> str:
        """The jobs of the run as a table of HTML."""
        from weir.simulation.run_table import record_html

        return record_html(self)

    def document(self) -> dict[str, Any]:
        """Describe the run.

        Returns:
            Values for JSON.
        """
        outcome = self.outcome
        return {
            "kind": KIND,
            "version": VERSION,
            "name": self.name,
            "settings": self.settings,
            "sample_seconds": self.sample_seconds,
            "is_complete": outcome.is_complete,
            "is_interrupted": outcome.is_interrupted,
            "seconds": outcome.seconds,
            "events": outcome.events,
            "target_cost": outcome.target_cost,
            "figures": dataclasses.asdict(self.figures),
            "jobs": [{**_row_of_job(job), **_series_of(job.outcome)} for job in self.jobs],
            "targets": [{**_row_of_target(target), **_series_of(target)} for target in outcome.targets],
            "servers": [
                {**_row_of_server(number, server), **_series_of(server)}
                for number, server in enumerate(outcome.servers)
            ],
        }


def record_of(name: str, prepared: "Prepared", outcome: Outcome, jobs: Sequence[JobFigures]) -> Record:
    """Put a run, its settings and its figures together.

    Args:
        name: Name of the run in reports.
        outcome: The engine's account.

    Returns:
        The record, whose series have at most `INTERVALS_MAX` intervals.
    """
    document = prepared.document
    topology = document["topology"]
    settings = {key: value for key, value in document.items() if key not in ("topology", "workload")}
    settings |= {
        "topology": topology["name"],
        "client_nodes": topology["clients"]["nodes"],
        "servers": len(topology["servers"]),
        "targets": sum(len(server["targets"]) for server in topology["servers"]),
        "steps": len(prepared.steps["stream"]),
    }
    lengths = (len(target.busy_series) for target in outcome.targets)
    factor = max(1, -(-max(lengths, default=0) // INTERVALS_MAX))
    coarse = dataclasses.replace(
        outcome,
        jobs=tuple(_coarser(job, factor, is_sum=True) for job in outcome.jobs),
        targets=tuple(_coarser(target, factor) for target in outcome.targets),
        servers=tuple(_coarser(server, factor) for server in outcome.servers),
    )
    rows = tuple(dataclasses.replace(row, outcome=part) for row, part in zip(jobs, coarse.jobs, strict=True))
    return Record(name, settings, outcome.sample_seconds * factor, coarse, rows)


def write(record: Record, folder: Path) -> list[Path]:
    """Write a run into a folder: the document, and the tables where pyarrow is installed.

    Args:
        folder: The folder, which is made.

    Returns:
        Paths of the files.
    """
    make_folders(folder)
    path = folder / DOCUMENT
    write_whole(path, json.dumps(record.document()), mode=None)
    return [path, *_write_tables(record, folder)]


def read(path: Path) -> Record:
    """Read a run.

    Args:
        path: Its document, or the folder that holds it.

    Raises:
        SimulationError: The file cannot be read, or describes no run of this version.
    """
    file = path / DOCUMENT if path.is_dir() else path
    hint = f"give a folder that `weir simulate run --out` wrote, or its {DOCUMENT}"
    try:
        if file.stat().st_size > _BYTES_MAX:
            raise SimulationError(f"{file} is too large to be a simulated run", hint=hint)
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise SimulationError(f"cannot read {file}: {error.strerror}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise SimulationError(f"{file} is no simulated run: it is not JSON", hint=hint) from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise SimulationError(f"{file} is no simulated run", hint=hint)
    if document.get("version") != VERSION:
        raise SimulationError(
            f"{file} is a simulated run of version {document.get('version')!r}, and this program reads {VERSION}",
            hint="run the scenario again",
        )
    try:
        return _record_of_document(document)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise SimulationError(f"{file} is damaged: {error!r}", hint="run the scenario again") from error


def _record_of_document(document: dict[str, Any]) -> Record:
    jobs = tuple(_job_of(row) for row in document["jobs"])
    outcome = part_of(
        Outcome,
        {
            **document,
            "jobs": tuple(job.outcome for job in jobs),
            "targets": tuple(part_of(TargetOutcome, row) for row in document["targets"]),
            "servers": tuple(part_of(ServerOutcome, row) for row in document["servers"]),
        },
    )
    settings = document["settings"]
    if not isinstance(settings, dict) or not isinstance(document["name"], str):
        raise TypeError("its name or its settings are of another type")
    return Record(document["name"], settings, outcome.sample_seconds, outcome, jobs)


def _job_of(row: dict[str, Any]) -> JobFigures:
    seconds, busy, owed = row["alone_seconds"], row["alone_busy_seconds"], row["share_owed"]
    names = {key: row[key] for key in ("name", "user", "group")}
    if not all(isinstance(name, str) for name in names.values()):
        raise TypeError("the name of a job is no text")
    return JobFigures(
        **names,
        nodes=int(number(row["nodes"], "nodes")),
        arrival_seconds=number(row["arrival_seconds"], "arrival_seconds"),
        outcome=part_of(JobOutcome, row),
        alone=None if seconds is None else Alone(number(seconds, "alone_seconds"), number(busy, "alone_busy_seconds")),
        share_owed=None if owed is None else number(owed, "share_owed"),
        share_received=number(row["share_received"], "share_received"),
    )


def _row_of_job(job: JobFigures) -> dict[str, Any]:
    """A job without its series: the row of a table."""
    part, alone = job.outcome, job.alone
    return {
        "name": job.name,
        "user": job.user,
        "group": job.group,
        "nodes": job.nodes,
        "arrival_seconds": job.arrival_seconds,
        **_values_of(part),
        "read_bytes_per_second": part.read_bytes_per_second,
        "write_bytes_per_second": part.write_bytes_per_second,
        "bytes_per_second": part.bytes_per_second,
        "alone_seconds": alone.seconds if alone else None,
        "alone_busy_seconds": alone.busy_seconds if alone else None,
        "slowdown": job.slowdown,
        "io_slowdown": job.io_slowdown,
        "share_owed": job.share_owed,
        "share_received": job.share_received,
    }


def _row_of_target(target: TargetOutcome) -> dict[str, Any]:
    return {"target": target.name, **_values_of(target)}


def _row_of_server(number: int, server: ServerOutcome) -> dict[str, Any]:
    return {"server": number, **_values_of(server)}


def _values_of(part: Any) -> dict[str, Any]:
    fields = [field.name for field in dataclasses.fields(part)]
    return {name: getattr(part, name) for name in fields if not name.endswith("_series")}


def _series_of(part: Any) -> dict[str, list[float]]:
    names = [field.name for field in dataclasses.fields(part) if field.name.endswith("_series")]
    return {name: [round(value, _DIGITS) for value in getattr(part, name).tolist()] for name in names}


def _coarser(part: Any, factor: int, *, is_sum: bool = False) -> Any:
    """Take `factor` intervals of a part's series as one."""
    if factor == 1:
        return part
    names = [field.name for field in dataclasses.fields(part) if field.name.endswith("_series")]
    return dataclasses.replace(part, **{name: _merged(getattr(part, name), factor, is_sum) for name in names})


def _merged(series: "Series", factor: int, is_sum: bool) -> "Series":
    padded = numpy.pad(series, (0, -len(series) % factor)).reshape(-1, factor)
    merged = padded.sum(axis=1, dtype=numpy.float64)
    return numpy.asarray(merged if is_sum else merged / factor, numpy.float32)


def _write_tables(record: Record, folder: Path) -> list[Path]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return []
    outcome = record.outcome
    tables: dict[str, list[dict[str, Any]]] = {
        "jobs": [_row_of_job(job) for job in record.jobs],
        "targets": [_row_of_target(target) for target in outcome.targets],
        "servers": [_row_of_server(number, server) for number, server in enumerate(outcome.servers)],
    }
    metadata = {b"weir_simulated_run": str(VERSION).encode()}
    paths = []
    for name, rows in tables.items():
        table = pyarrow.Table.from_pylist(rows, schema=_schema(rows[0]) if rows else None)
        paths.append(_put(parquet.write_table, table.replace_schema_metadata(metadata), folder / f"{name}.parquet"))
    series = pyarrow.table(_series_columns(record)).replace_schema_metadata(metadata)
    paths.append(_put(parquet.write_table, series, folder / "series.parquet"))
    return paths


def _put(write_table: Callable[..., None], table: Any, path: Path) -> Path:
    with replacing(path, mode=None) as file:
        write_table(table, file)
    return path


def _schema(row: dict[str, Any]) -> Any:
    """The types of a table: a figure that no row has is a number all the same."""
    import pyarrow

    kinds = {bool: pyarrow.bool_(), int: pyarrow.int64(), str: pyarrow.string()}
    return pyarrow.schema([(name, kinds.get(type(value), pyarrow.float64())) for name, value in row.items()])


def _series_columns(record: Record) -> dict[str, Any]:
    """All series below each other: kind, place in the kind's table, begin of the interval, value."""
    kinds: list[str] = []
    places = [numpy.zeros(0, numpy.int32)]
    begins: list[Any] = [numpy.zeros(0)]
    values = [numpy.zeros(0, numpy.float32)]
    for kind, place, series in _all_series(record.outcome):
        kinds += [kind] * len(series)
        places.append(numpy.full(len(series), place, numpy.int32))
        begins.append(numpy.arange(len(series)) * record.sample_seconds)
        values.append(series)
    return {
        "series": kinds,
        "place": numpy.concatenate(places),
        "begin_seconds": numpy.concatenate(begins),
        "value": numpy.concatenate(values),
    }


def _all_series(outcome: Outcome) -> "Iterator[tuple[str, int, Series]]":
    tables: dict[str, Sequence[Any]] = {"jobs": outcome.jobs, "targets": outcome.targets, "servers": outcome.servers}
    for table, names in _SERIES.items():
        for name in names:
            for place, part in enumerate(tables[table]):
                yield f"{table}.{name}", place, getattr(part, name)
