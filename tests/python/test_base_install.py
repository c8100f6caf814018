"""Every command on a base install: without the packages of the extras it works, or one error names what to install."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution, requires
from pathlib import Path

import click
import pytest
from weir import cli
from weir import distribution as weir_distribution
from weir.experiments.figures import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "examples/run.darshan"
BASE = ("weir-hpc", "click", "tomli-w")
"""The distributions of a base install."""
WAIT_SECONDS = 120
RESIDENT = ("mount", "record", "serve mount", "serve server", "top", "stats publish", "stats subscribe")
"""Commands that run until they are ended."""
RESIDENT_SECONDS = 10
ARGUMENTS = {
    "backup": ("backup.tar",),
    "config export": ("rules",),
    "restore": ("backup.tar",),
    "replay": ("--since", "1h", "--policy", "job-fair"),
    "report": ("--darshan", LOG),
    "run": ("--", "true"),
    "serve server": ("1",),
    "policy set": ("size-fair",),
    "grant": ("--to", "grant"),
    "layout advise": (LOG,),
    "layout get": ("/file",),
    "targets allocator": ("balanced",),
    "targets set": ("0.0", "--capacity", "1GiB"),
    "target add": ("0",),
    "target retire": ("0.1",),
    "server retire": ("1",),
    "stage in": ("folder", "/in"),
    "stage out": ("/out", "folder"),
    "job end": ("job-1",),
    "job ornament": ("job.sh",),
    "job release": ("1",),
    "job resume": ("job-1",),
    "job run": ("job.sh",),
    "find": ("folder",),
    "stats windows": ("--to", "windows.ndjson"),
    "trace export": ("folder", "--to", "trace.parquet"),
    "trace show": ("folder",),
    "trace windows": ("folder",),
    "place explain": ("/file",),
    "place show": ("places.db",),
    "plan config": (LOG,),
    "plan run": ("--", "true"),
    "plan emit": ("schema.json",),
    "plan explain": (LOG,),
    "plan factors": ("--into", "factors.json"),
    "plan identity": (LOG,),
    "plan resources": (LOG,),
    "plan schema": (LOG,),
    "plan similar": (LOG,),
    "plan sslo": (LOG,),
    "sslo build": ("folder",),
    "interference collect": ("plan.toml", "--to", "data"),
    "interference evaluate": ("data.parquet",),
    "interference import": ("data.csv", "--to", "data"),
    "interference join": ("folder", "--servers", "folder", "--to", "data"),
    "interference matrix": ("--to", "matrix.json"),
    "interference predict": ("model", "data.parquet"),
    "interference record": ("--to", "windows", "--seconds", "0.5"),
    "interference train": ("data.parquet", "--to", "model"),
    "planner": ("--resources", "resources.toml"),
    "deployments end": ("job-1",),
    "deployments show": ("job-1",),
    "classes add": ("classes.json", LOG, "--to", "classes.json"),
    "classes build": (LOG, "--to", "folder"),
    "interference clients": ("--seconds", "0.5"),
    "interference gather": ("--seconds", "0.5"),
    **{f"bench {name}": ("--seconds", "1") for name in EXPERIMENTS},
    "adapt info": ("folder",),
    "adapt reconstruct": ("folder", "--number", "0", "--to", "array.npy"),
    "adapt refactor": ("array.npy", "--tier", "folder"),
    "adapt steps": ("folder",),
    "simulate report": ("runs.json",),
    "simulate run": ("scenario.toml",),
    "simulate sweep": ("sweep.toml",),
    "simulate what-if": ("--logs", "folder"),
}
"""Arguments of the commands that need some."""
FILES = {
    "job.sh": "#!/bin/sh\n#SBATCH --nodes=1\n#WEIR size=1GiB\ntrue\n",
    "schema.json": "{}",
    "plan.toml": "",
    "resources.toml": 'source = "test"\n',
    "scenario.toml": "",
    "sweep.toml": "",
    "classes.json": "{}",
    "data.csv": "",
}


@dataclass(frozen=True)
class Install:
    """A base install."""

    program: tuple[str, ...]
    folder: Path
    """The folder in which commands run."""
    environment: dict[str, str]

    def run(self, *words: object, seconds: float = WAIT_SECONDS) -> subprocess.CompletedProcess[str] | None:
        """Run `weir`; None where the command still ran at the end of the time."""
        command = [*self.program, *map(str, words)]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.communicate(timeout=WAIT_SECONDS)
                return None
        return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Install]:
    """A base install with a store of two servers."""
    folder = tmp_path_factory.mktemp("base")
    venv.EnvBuilder(symlinks=True).create(folder / "venv")
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    for name in BASE:
        for top in {
            each.parts[0] for each in distribution(name).files or () if each.parts[0] not in ("..", "__pycache__")
        }:
            (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    for each in Path(sys.executable).parent.glob("weir-*"):
        (folder / "venv/bin" / each.name).symlink_to(each)
    here = folder / "here"
    here.mkdir()
    (here / "folder").mkdir()
    for name, text in FILES.items():
        (here / name).write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WEIR_", "PYTHON"))}
    environment = {**kept, "WEIR_HOME": str(folder / "home"), "HOME": str(folder)}
    program = (str(folder / "venv/bin/python"), "-c", "from weir.cli import main; main()")
    made = Install(program, here, environment)
    up = made.run("up", "--servers", "2", "--targets", "2", "--no-mount")
    assert up is not None
    assert up.returncode == 0, up.stderr
    try:
        yield made
    finally:
        made.run("down", "--force")


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command, in an order in which the store outlives the others."""
    found = dict(_of(cli.weir, click.Context(cli.weir), ()))
    last = [name for name in ("down", "uninstall") if name in found]
    yield from ((name, found[name]) for name in (*(each for each in found if each not in last), *last))


def _of(command: click.Command, context: click.Context, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from _of(inner, click.Context(inner), (*path, name))


def test_the_packages_of_the_extras_are_not_there(install: Install) -> None:
    names = {
        re.split(r"[^A-Za-z0-9-]", line)[0] for line in requires(weir_distribution.NAME) or [] if "extra ==" in line
    }
    assert {"msgspec", "numpy", "darshan"} <= names
    found = subprocess.run(
        [install.program[0], "-c", "import msgspec"], capture_output=True, env=install.environment, check=False
    )
    assert b"ModuleNotFoundError" in found.stderr


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda each: each if isinstance(each, str) else "")
def test_a_command_works_or_names_what_it_lacks(name: str, command: click.Command, install: Install) -> None:
    needed = [each.name for each in command.params if each.required]
    assert not needed or name in ARGUMENTS, f"`weir {name}` needs {needed}: give ARGUMENTS some"
    seconds = RESIDENT_SECONDS if name in RESIDENT else WAIT_SECONDS
    found = install.run(*name.split(), *ARGUMENTS.get(name, ()), seconds=seconds)
    if found is None:
        assert name in RESIDENT, f"`weir {name}` still ran after {seconds} s"
        return
    assert "Traceback" not in found.stderr, found.stderr
    if found.returncode == 0:
        return
    errors = [line for line in found.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, found.stderr
    if lacking := re.search(r"(\S+) is not installed", errors[0]):
        assert re.search(r"^hint: pip install .*", found.stderr, re.MULTILINE), found.stderr
        assert lacking.group(1) not in ("click", "tomli_w")


@pytest.mark.parametrize("name", ["plan similar", "plan sslo", "plan explain", "sslo show", "classes build"])
def test_commands_of_an_extra_name_it(name: str, install: Install) -> None:
    found = install.run(*name.split(), *ARGUMENTS.get(name, ()))
    assert found is not None
    assert found.returncode == 1
    assert re.match(r"error: (msgspec|darshan) is not installed\nhint: pip install .*msgspec", found.stderr), (
        found.stderr
    )
