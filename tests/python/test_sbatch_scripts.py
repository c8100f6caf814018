"""Scripts are read as sbatch reads them: against a table of its readings, and against sbatch itself."""

import random
from pathlib import Path

import pytest
import sbatch_scripts
import seeds
from sbatch_scripts import Sbatch, as_directives, difference, generated, read_by_weir
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.batch_script import HEADER_BYTES_MAX, LINE_CHARACTERS_MAX, decoded, read_header
from weir.provisioning.jobs.directives import of_script
from weir.provisioning.jobs.job import of_script as job_of_script
from weir.provisioning.jobs.job import read_job

GENERATED = 200
"""Scripts that a run compares with sbatch; every other one is of directives."""
READ = "#WEIR size=1GB stage_out=results:/out"


def words(*lines: str) -> tuple[tuple[str, ...], ...]:
    found = read_by_weir("\n".join(["#!/bin/bash", *lines]).encode(), directives=True)
    assert not found.refusal, found.refusal
    return found.words


def refusal(script: bytes) -> str:
    with pytest.raises(ProvisioningError) as refused:
        job_of_script(Path("job.sh"), decoded(script))
    assert refused.value.hint
    return refused.value.message


def test_scripts_are_read_as_the_table_says() -> None:
    rows = list(sbatch_scripts.recorded())
    assert {bool(sbatch.refusal) for _, sbatch, _ in rows} == {True, False}
    for script, sbatch, directives in rows:
        assert not difference(script, sbatch, directives=directives)


@pytest.mark.skipif(bool(sbatch_scripts.missing()), reason=sbatch_scripts.missing())
def test_scripts_are_read_as_the_sbatch_of_slurm_reads_them(tmp_path: Path) -> None:
    choices, sbatch, read = seeds.seeded(), Sbatch(tmp_path), 0
    for number in range(GENERATED):
        directives = bool(number % 2)
        script = generated(random.Random(choices.random()), "#WEIR" if directives else "#SBATCH")
        found = sbatch.read(as_directives(script) if directives else script)
        assert not difference(script, found, directives=directives)
        read += not read_by_weir(script, directives=directives).refusal
    assert read > GENERATED // 10, "nearly all scripts were refused"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["# part\fpart two", READ], id="a form feed in a comment"),
        pytest.param(["\f", READ], id="a line of a form feed"),
        pytest.param(["  # my job", READ], id="an indented comment"),
        pytest.param(["# a\x85b \u2028 c\N{BOM}", READ], id="line ends of Unicode in a comment"),
        pytest.param(["   ", "\t", "", READ], id="blank lines"),
        pytest.param(["#SBATCH -N 1", "#SBATCH hetjob", READ], id="a second component"),
        pytest.param(["#SBATCH --nodes=1k", READ], id="nodes in thousands"),
        pytest.param(["#SBATCH --nodes=2,4", READ], id="a list of numbers of nodes"),
        pytest.param([READ, "echo", "#WEIR nonsense"], id="a line below the first command"),
        pytest.param(["#WEIR size=1GB \\", "#WEIR stage_out=results:/out"], id="a line that goes on"),
        pytest.param(["#WEIR size=1GB #\\#", '#WEIR stage_out="results:/out" # of mine'], id="comments"),
    ],
)
def test_directives_are_found_where_sbatch_finds_options(lines: list[str]) -> None:
    found = of_script("job.sh", "\n".join(["#!/bin/bash", *lines, "echo", ""]))
    assert (found.size_bytes, found.stage_out[0].destination) == (10**9, "/out")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (b"#WEIR stage_out=results:/out#7", ["job.sh:2", "cuts `stage_out=results:/out#7` at `#`"]),
        (b"#\n#WEIR size=1GB#", ["job.sh:3", "cuts"]),
        (b'#WEIR "" size=1GB', ["job.sh:2", "drops `size=1GB` behind an empty word"]),
        (b"#WEIR size=1GB hetjob policy=performance", ["job.sh:2", "drops `policy=performance`"]),
        (b"#WEIR stage_in=/a\\ b:c", ["job.sh:2", "differently"]),
        (b"#WEIR size=1GB # mine \\\n#WEIR stage_out=r:/r", ["job.sh:2", "comment ends with a backslash"]),
        (b"#WEIR size=1GB \\\n\n#WEIR durable=true", ["job.sh:2", "none goes on"]),
        (b"#WEIR size=1GB \\ \n#WEIR durable=true", ["job.sh:2", "differently"]),
        (b"#WEIR size=1GB \\\n#WEIRdurable=true", ["job.sh:3", "`#WEIRdurable=true` is no directive"]),
        (b"  #WEIR size=1GB", ["job.sh:2", "no line of directives"]),
        (b"# weir size=1GB", ["job.sh:2", "no line of directives"]),
        ("\N{BOM}#WEIR size=1GB".encode(), ["job.sh:2", r"'\ufeff'"]),
        ("\x85#WEIR size=1GB".encode(), ["job.sh:2", r"'\x85'"]),
        ("\u2028#WEIR size=1GB".encode(), ["job.sh:2", r"'\u2028'"]),
        ("#WEIR size=1GB\u2028#WEIR durable=true".encode(), ["job.sh:2", "cuts"]),
        (b"#WEIR stage_out=r:/\xe9", ["job.sh:2", "not UTF-8"]),
        (b"#WEIR stage_out='r:/r", ["job.sh:2", "quotation mark"]),
        (b"#WEIR : size=1GB", ["job.sh:2", "begins with `:`"]),
        (b"#WEIR size=1GB\r\n", ["job.sh:2", "DOS"]),
        (b"true\0", ["job.sh:2", "NUL"]),
        (b"#WEIR size=1" + b"0" * LINE_CHARACTERS_MAX, ["job.sh:2", "more than"]),
        (b"# x\n" * (HEADER_BYTES_MAX // 4) + b"#WEIR size=1GB", ["job.sh: ", "above its first command"]),
        (b"#SBATCH -N1\n#SBATCH --ndoes=4", ["job.sh:3", "did you mean --nodes?"]),
        (b"#SBATCH --nod=4", ["job.sh:2", "--nodefile, --nodelist, --nodes"]),
        (b"#SBATCH --nodes=many --nodes=2", ["job.sh:2", "--nodes is 'many'"]),
        (b"#SBATCH -n3 --\n#SBATCH -N2", ["job.sh:3", "'-N2' is no option"]),
        (b"#SBATCH --exclusive 4", ["job.sh:2", "'4' is no option"]),
        (b"#SBATCH -J", ["job.sh:2", "-J has no value"]),
        (b"#PBS -l nodes=4", ["job.sh:2", "another scheduler"]),
    ],
)
def test_what_would_be_dropped_is_refused_with_its_line(script: bytes, told: list[str]) -> None:
    message = refusal(b"#!/bin/bash\n" + script)
    assert all(each in message for each in told), message


@pytest.mark.parametrize("begin", [b"\xef\xbb\xbf", b" ", b"\n"])
def test_a_script_that_sbatch_takes_for_none_is_refused(begin: bytes) -> None:
    assert "job.sh:1: the script does not begin with" in refusal(begin + b"#!/bin/bash\n#WEIR size=1GB\n")


@pytest.mark.parametrize(
    ("lines", "nodes", "processes", "seconds"),
    [
        (["#SBATCH -N 4 --nodes=2 -t 5 --time=0"], 2, None, None),
        (["#SBATCH --nodes=2 -N 4"], 4, None, None),
        (["#SBATCH -N -8 --time=-1"], 1, None, None),
        (["#SBATCH -HN4 -sn 3"], 3, 3, None),
        (["#SBATCH --ntasks-per-n=3 --nodes=2"], 2, 6, None),
        (["#SBATCH --comment -N7 -N", "#SBATCH 3"], 3, None, None),
        (["#SBATCH --nodes=2-8:2"], 2, None, None),
        (["#SBATCH -N2 --time=1:0", "#SBATCH hetjob", "#SBATCH -n3"], 3, 5, 60.0),
        (["#SBATCH -N2 # nodes", "#SBATCH -n 4#tasks", "#SLURM -t 1-"], 2, 4, 86_400.0),
        (["#PBS -l nodes=4", "#SBATCH --ignore-pbs -N3"], 3, None, None),
    ],
)
def test_options_are_those_of_sbatch(
    lines: list[str], nodes: int | None, processes: int | None, seconds: float | None
) -> None:
    found = job_of_script(Path("job.sh"), "\n".join(["#!/bin/sh", *lines, "srun app"]))
    assert (found.nodes, found.processes, found.seconds) == (nodes, processes, seconds)


def test_bytes_of_any_encoding_stand_where_no_directive_is(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_bytes(b"#!/bin/bash\n#SBATCH -N2 -J \xe9t\xe9\n# \xfc\n#WEIR size=1GB\necho \xe9\n")
    assert (read_job(path).nodes, read_job(path).hints) == (2, {"size": "1GB"})


def test_a_command_of_several_lines_is_a_command() -> None:
    assert job_of_script(Path("job.sh"), "#!/bin/sh\npython -c '\nprint(1)'\n").command == ("python -c '",)


def test_options_of_plugins_are_taken_where_a_scheduler_took_them() -> None:
    from weir.planner.work import read_script

    job, found = read_script("#!/bin/sh\n#SBATCH --of-a-plugin image -N3 --nod=2 -Z\n#WEIR size=1GB\ntrue\n")
    assert (job.nodes, found.size_bytes) == (3, 10**9)


def test_a_header_is_read_within_its_bounds() -> None:
    line = "#WEIR " + "size=1 " * ((LINE_CHARACTERS_MAX - 10) // 7)
    header = read_header("job.sh", "\n".join(["#!/bin/sh", *[line] * 3]))
    assert len(header.directives) == 3
