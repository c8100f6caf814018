"""Traits, identities, classes and jobs: from Darshan logs and job scripts."""

import json
import math
from functools import cache
from pathlib import Path

import jsonschema
import msgspec
import provisioned
import pytest
import schemas
from weir.cli import weir as program
from weir.provisioning.behaviour.classes import COUNTS_MAX, built_in, fitnesses, scaled
from weir.provisioning.behaviour.identity import Identity, identify
from weir.provisioning.behaviour.traits import Traits, Transfers, of_log
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.job import Job, of_jobspec, of_script, read_job
from weir.tracing.darshan import DarshanError, read_logs
from weir.tracing.totals import read_totals

LOGS = sorted((Path(__file__).parents[1] / "data" / "darshan").glob("*.darshan"))


@cache
def all_traits() -> dict[str, Traits]:
    return {path.name: of_log(log) for path, log in read_totals(LOGS) if not isinstance(log, DarshanError)}


def traits(name: str) -> Traits:
    (found,) = (each for log, each in all_traits().items() if log.startswith(name))
    return found


def test_totals_are_the_sums_of_the_files() -> None:
    """Both ways through the reader count the same bytes and operations."""
    assert len(all_traits()) == len(LOGS)
    for path, log in read_logs(LOGS):
        assert not isinstance(log, DarshanError)
        found = all_traits()[path.name]
        # The standard streams are no files.
        assert found.read.bytes >= sum(file.read_bytes for file in log.files), path
        assert found.write.bytes >= sum(file.written_bytes for file in log.files), path
        assert found.read.operations >= sum(file.reads for file in log.files), path


def test_vpic_writes_large_requests_together() -> None:
    """The log of VPIC-IO with 2,048 ranks, which writes 2.2 TB by collective calls."""
    found = identify(traits("example"))
    assert found.name == "large-write-heavy-sequential-mpiio"
    assert found.processes == 2048
    assert found.written_bytes == 2_199_023_263_277
    assert found.large_fraction > 0.99
    assert found.collective_fraction > 0.9
    assert found.io_fraction == pytest.approx(0.42, abs=0.01)
    best = fitnesses(found, built_in().classes)[0]
    # The paper's fitness of VPIC to its best class is 0.4126 (table 9a), by other features.
    assert best.fitness == pytest.approx(0.41, abs=0.01)
    assert set(best.furthest) == {"collective_fraction", "large_fraction", "small_fraction"}


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("sample-badost", "large-write-moderate-sequential-posix"),
        ("noposix", "medium-write-moderate-sequential-stdio"),
        ("pq_app_write_id71296", "single-write-light-sequential-posix"),
        ("ior_hdf5", "small-write-moderate-sequential-hdf5"),
        ("dbin_tmatch", "single-read-light-sequential-mpiio"),
    ],
)
def test_identities_of_real_logs(log: str, name: str) -> None:
    assert identify(traits(log)).name == name


def test_streams_count_by_their_mean_size() -> None:
    found = identify(traits("noposix"))
    assert (found.small_fraction, found.large_fraction, found.sequential_fraction) == (1.0, 0.0, 1.0)


def test_the_job_that_is_to_run_gives_its_size() -> None:
    found = identify(traits("example"), Job(nodes=4, processes=32))
    assert (found.processes, found.nodes) == (32, 4)
    assert found.name == "small-write-heavy-sequential-mpiio"
    assert found.write_bytes_per_second == identify(traits("example")).write_bytes_per_second


def test_a_run_without_calls_has_an_identity() -> None:
    found = identify(Traits())
    assert found.name == "single-none-light-none-none"
    assert all(math.isfinite(each) and 0 <= each <= 1 for each in scaled(found))


def test_each_class_is_nearest_to_itself() -> None:
    table = built_in()
    assert len(table.classes) == 10
    assert sum(each.jobs_fraction for each in table.classes) == pytest.approx(1, abs=0.02)
    assert len({each.name for each in table.classes}) == 10
    for each in table.classes:
        best = fitnesses(each.centre, table.classes)[0]
        assert (best.name, best.fitness, best.furthest) == (each.name, 1.0, ())


def test_fitness_is_one_less_the_mean_square_distance() -> None:
    (least, most) = (
        Identity(name="least", processes=0),
        Identity(
            name="most",
            **{name: int(bound) for name, bound in COUNTS_MAX.items()},  # type: ignore[arg-type]
            small_fraction=1.0,
            large_fraction=1.0,
            sequential_fraction=1.0,
            collective_fraction=1.0,
        ),
    )
    (one,) = built_in().classes[:1]
    classes = [msgspec.structs.replace(one, name="c", centre=most)]
    assert fitnesses(least, classes)[0].fitness == pytest.approx(0)
    half = msgspec.structs.replace(most, small_fraction=0.5)
    assert fitnesses(half, classes)[0].fitness == pytest.approx(1 - math.sqrt(0.25 / 10))
    beyond = msgspec.structs.replace(most, processes=10**12)
    assert fitnesses(beyond, classes)[0].fitness == 1


def test_jobspecs_are_counted_through_slots() -> None:
    assert of_jobspec(Path("job.yaml"), provisioned.JOBSPEC) == Job(
        nodes=4,
        processes=24,
        seconds=3600.0,
        command=("vpic", "--particles", "8M"),
        hints={"policy": "utilization", "size": "4TB"},
    )


def test_scripts_are_read_as_sbatch_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text(provisioned.SCRIPT)
    assert read_job(path) == Job(
        nodes=4,
        processes=64,
        seconds=95_400.0,
        command=("srun", "vpic", "--particles", "8M"),
        hints={"policy": "utilization", "size": "4TB"},
    )


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("90", 5400.0),
        ("5:30", 330.0),
        ("1:00:00", 3600.0),
        ("2-0", 172_800.0),
        ("1-1:1", 90_060.0),
        ("UNLIMITED", None),
    ],
)
def test_time_limits_of_slurm(time: str, seconds: float | None) -> None:
    assert of_script(Path("job.sh"), f"#!/bin/sh\n#SBATCH --time={time}\n").seconds == seconds


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("version: 1", "version: 7", "version is 7"),
        ("count: 4", "count: -1", "count of node is -1"),
        ("count: 4", "count: 9999999999", "more than 4294967296 of node"),
        ("slot: ranks", "slot: other", "slot 'other', which no resource has"),
        ("per_slot: 3", "per_moon: 3", "by 'per_moon'"),
        ("tasks:", "other:", "tasks is missing"),
        ("duration: 3600.0", "duration: soon", "duration is 'soon'"),
        # No floating-point number holds it.
        ("duration: 3600.0", f"duration: 1{'0' * 400}", "not a number of seconds"),
        ("duration: 3600.0", "duration: .nan", "not a number of seconds"),
        ("duration: 3600.0", "duration: .inf", "not a number of seconds"),
        ("resources:", "resources: &a [*a]\nother:", "aliases"),
        ("resources:", "resources: [", "while parsing"),
    ],
)
def test_a_jobspec_that_breaks_the_rules_is_refused(before: str, after: str, fault: str) -> None:
    with pytest.raises(ProvisioningError, match=r"job\.yaml is no jobspec of Flux") as told:
        of_jobspec(Path("job.yaml"), provisioned.JOBSPEC.replace(before, after, 1))
    assert fault in told.value.message


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("#SBATCH --nodes=many", "--nodes is 'many'"),
        ("#SBATCH four", "job.sh:2: 'four' is no option"),
        ("#WEIR policy", "job.sh:2: `policy` has no value"),
        ("#SBATCH --time=soon", "--time is 'soon'"),
        ("#SBATCH 'open", "job.sh:2: the quotation mark ' has no other one"),
    ],
)
def test_a_script_with_a_bad_line_is_refused(line: str, fault: str) -> None:
    with pytest.raises(ProvisioningError) as told:
        of_script(Path("job.sh"), f"#!/bin/sh\n{line}\nsrun app\n")
    assert fault in told.value.message


def test_documents_keep_to_their_schemas() -> None:
    job = of_jobspec(Path("job.yaml"), provisioned.JOBSPEC)
    documents = {
        "traits": traits("example"),
        "job": job,
        "identity": identify(traits("example"), job),
        "classes": built_in(),
    }
    assert documents.keys() <= schemas.DOCUMENTS.keys()
    for name, each in documents.items():
        jsonschema.validate(json.loads(msgspec.json.encode(each)), schemas.schema(name))
        assert msgspec.json.decode(msgspec.json.encode(each), type=schemas.DOCUMENTS[name]) == each
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**msgspec.to_builtins(Transfers()), "moon": 1}, schemas.schema("identity"))


def test_the_published_schemas_are_those_of_the_types() -> None:
    """`python tests/schemas.py` writes them anew."""
    written = dict(schemas.files())
    assert {
        path: path.read_text() for folder in ("schemas", "planner") for path in (schemas.REFERENCE / folder).iterdir()
    } == written


def test_a_plan_of_a_file_that_is_no_log_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.darshan"
    other.write_text("no log\n")
    with pytest.raises(DarshanError, match="is not a Darshan log"):
        program.main(["plan", "identity", str(other)], standalone_mode=False)
    assert capsys.readouterr().out == ""
