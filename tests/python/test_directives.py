"""Directives of jobs: strict, with a suggestion for what was mistyped."""

import json
from pathlib import Path

import provisioned
import pytest
import seeds
import yaml
from weir.provisioning.deployments import Transfer
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.directives import TRANSFERS_MAX, Directives, of_attributes, of_script
from weir.provisioning.jobs.job import of_jobspec
from weir.provisioning.jobs.job import of_script as job_of_script


def read(*lines: str) -> Directives:
    return of_script("job.sh", "\n".join(["#!/bin/bash", *lines, "srun vpic", "#WEIR nonsense"]))


def refusal(*lines: str) -> str:
    with pytest.raises(ProvisioningError) as refused:
        read(*lines)
    assert refused.value.hint, "each refusal has a hint"
    return refused.value.message


def test_all_directives_are_read() -> None:
    found = read(
        "#SBATCH --nodes=4",
        "#WEIR policy=utilization size=200GB slowdown=1.5   # a comment",
        "#WEIR budget=40 lease=30m window=2h trace=/home/ada/past.darshan",
        "#WEIR replicas=2 encrypted=false representation=posix durable=yes",
        "#WEIR stage_in=/project/ada/mesh:input/mesh",
        "#WEIR stage_in=/project/ada/tables/",
        '#WEIR stage_out="results:/project/ada/with space"',
    )
    assert found == Directives(
        policy="utilization",
        size_bytes=200_000_000_000,
        slowdown=1.5,
        budget=40.0,
        lease_seconds=1800.0,
        window_seconds=7200.0,
        replicas=2,
        encrypted=False,
        representation="posix",
        durable=True,
        trace="/home/ada/past.darshan",
        stage_in=(
            Transfer(source="/project/ada/mesh", destination="input/mesh"),
            Transfer(source="/project/ada/tables", destination="tables"),
        ),
        stage_out=(Transfer(source="results", destination="/project/ada/with space"),),
    )


def test_a_line_goes_on_behind_a_backslash() -> None:
    assert read("#WEIR size=1GB \\", "#WEIR policy=performance") == read("#WEIR size=1GB policy=performance")


def test_lines_behind_the_first_command_do_not_count() -> None:
    assert read() == Directives()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["#WEIR polcy=performance"], ["job.sh:2", "`polcy`", "did you mean `policy`?"]),
        (["", "#WEIR stage-in=/a:b"], ["job.sh:3", "did you mean `stage_in`?"]),
        (["#WEIR capacity=1GB"], ["did you mean `size`?"]),
        (["#WEIR policy=performence"], ["did you mean `performance`?"]),
        (["#WEIR size"], ["`size` has no value"]),
        (["#WEIR size="], ["is empty"]),
        (["#WEIR size=lots"], ["size=lots"]),
        (["#WEIR size=0"], ["above 0"]),
        (["#WEIR size=1GB size=2GB"], ["twice"]),
        (["#WEIR"], ["no directive"]),
        (["#WEIRD size=1GB"], ["`#WEIRD` is no directive"]),
        (["#WEIR slowdown=0.5"], ["at least 1"]),
        (["#WEIR slowdown=nan"], ["at least 1"]),
        (["#WEIR budget=inf"], ["above 0"]),
        (["#WEIR budget=-3"], ["above 0"]),
        (["#WEIR lease=soon"], ["lease=soon"]),
        (["#WEIR replicas=0"], ["from 1"]),
        (["#WEIR encrypted=perhaps"], ["neither"]),
        (["#WEIR trace=past.darshan"], ["absolute"]),
        (["#WEIR stage_in=$HOME/in:in"], ["not replaced"]),
        (["#WEIR stage_in=/in:../out"], ["relative path in the store"]),
        (["#WEIR stage_in=/in:/out"], ["relative path in the store"]),
        (["#WEIR stage_in=/"], ["relative path in the store"]),
        (["#WEIR stage_in=/a:x stage_in=/b:x"], ["two sources for x"]),
        (["#WEIR stage_out=results"], ["missing"]),
        (["#WEIR stage_out=results:out"], ["missing"]),
        (["#WEIR size='1GB"], ["quotation"]),
        (["#WEIR size=1GB \\", "#SBATCH -N1"], ["goes on"]),
        (["#WEIR size=1GB \\"], ["goes on"]),
        (["#WEIR stage_in=/" + "a" * 5000], ["longer"]),
        ([f"#WEIR stage_in=/a:{number}" for number in range(TRANSFERS_MAX + 1)], [f"more than {TRANSFERS_MAX}"]),
    ],
)
def test_mistakes_are_told(lines: list[str], words: list[str]) -> None:
    message = refusal(*lines)
    assert all(word in message for word in words), message


def test_a_jobspec_has_the_same_directives() -> None:
    found = of_attributes("job.yaml", {"size": 10**9, "durable": True, "stage_in": ["/a:x", "/b:y"], "slowdown": 2})
    assert found == read("#WEIR size=1GB durable=true slowdown=2 stage_in=/a:x stage_in=/b:y")
    with pytest.raises(ProvisioningError, match="did you mean `durable`"):
        of_attributes("job.yaml", {"durabel": True})
    with pytest.raises(ProvisioningError, match="size is"):
        of_attributes("job.yaml", {"size": {"bytes": 3}})


def test_hints_of_a_job_are_the_same_directives() -> None:
    lines = ["#WEIR size=1GB stage_in=/a:x", "#WEIR stage_in=/b:y stage_out=r:/r"]
    script = "\n".join(["#!/bin/sh", *lines, "true"])
    assert of_attributes("job", job_of_script(Path("job"), script).hints) == of_script("job", script)
    jobspec = yaml.safe_load(provisioned.JOBSPEC)
    jobspec["attributes"]["user"]["weir"] = {"size": "1GB", "stage_in": ["/a:x", "/b:y"], "stage_out": ["r:/r"]}
    hints = of_jobspec(Path("job"), json.dumps(jobspec)).hints
    assert of_attributes("job", hints) == of_script("job", script)
    with pytest.raises(ProvisioningError, match="size"):
        of_attributes("job", job_of_script(Path("job"), "#!/bin/sh\n#WEIR size=1 size=2\n").hints)


def test_any_text_is_read_or_refused() -> None:
    """No line makes the reader fail otherwise: the scheduler's daemon waits for its answer."""
    choices = seeds.seeded()
    alphabet = [*"=:/\\'\"# 1é\0", "policy", "size", "stage_in", "stage_out", "..", "\n#WEIR "]
    for _ in range(2000):
        line = "".join(choices.choices(alphabet, k=choices.randrange(12)))
        try:
            of_script("job.sh", f"#!/bin/sh\n#WEIR {line}\n")
        except ProvisioningError as error:
            assert error.message
