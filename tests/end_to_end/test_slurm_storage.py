"""Storage of jobs under Slurm: asked for by `#WEIR` lines, set up, filled, used, emptied and ended by real daemons."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_storage
from slurm_storage import Site

pytestmark = pytest.mark.skipif(bool(slurm_storage.missing()), reason=slurm_storage.missing())

ENDED = ("COMPLETED", "FAILED", "CANCELLED")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with slurm_storage.site() as site:
        yield site


@pytest.fixture
def project(site: Site) -> Path:
    """The user's folder, with input for a job."""
    (site.project / "input").mkdir(exist_ok=True)
    (site.project / "input" / "words").write_text("the quick brown fox\n")
    return site.project


def directives(site: Site, *further: str) -> list[str]:
    return [
        f"#WEIR size=64MiB trace={site.project}/past.darshan",
        f"#WEIR stage_in={site.project}/input:input",
        *(f"#WEIR {each}" for each in further),
    ]


def is_left(site: Site, number: str) -> list[str]:
    """Processes and mounts of a job's deployment."""
    name = f"/slurm-{number}/"
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if name in line]
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if name in command:
            processes.append(command)
    return mounts + processes


def test_a_job_has_a_store_with_its_input_and_leaves_its_output(site: Site, project: Path) -> None:
    number = site.submit(
        *directives(site, f"stage_out=results:{project}/results"),
        'mkdir "$WEIR_MOUNT/results"',
        'tr a-z A-Z <"$WEIR_MOUNT/input/words" >"$WEIR_MOUNT/results/words"',
        'stat --file-system --format=%T "$WEIR_MOUNT"',
        "id --user",
    )
    job = site.await_state(number, *ENDED)
    assert job["JobState"] == "COMPLETED", job["text"] + site.output(number)
    assert (project / "results" / "words").read_text() == "THE QUICK BROWN FOX\n"
    assert (project / "results" / "words").stat().st_uid == site.uid
    assert site.output(number).splitlines() == ["fuseblk" if False else "fuse", str(site.uid)]
    site.await_planner(number, "ended")
    assert not is_left(site, number)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#WEIR polcy=performance", "did you mean `policy`?"),
        ("#WEIR size=lots", "size=lots"),
        ("#WEIR capacity=1GB pool=ssd", "did you mean `size`?"),
        ("#WEIR uid=0 size=1GB", "no directive `uid`"),
    ],
)
def test_a_bad_line_is_refused_at_submission(site: Site, line: str, words: str) -> None:
    refusal = site.submit(line, "true", code=1)
    assert words in refusal, refusal


def test_a_job_without_directives_is_no_concern_of_the_planner(site: Site) -> None:
    number = site.submit("true")
    assert site.await_state(number, *ENDED)["JobState"] == "COMPLETED"
    assert site.deployment(number)["state"] == "none"
