"""Foreign files and messages, mutated, and their decoders in bounded memory.

Run as a program, in a process of its own: `foreign.py DECODER SAMPLES SEED ROUNDS`. It ends with 0 where every mutated
sample came to a result or to the decoder's own error.
"""

import contextlib
import io
import json
import math
import os
import random
import re
import resource
import shutil
import sys
import threading
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.store import step_journal
from weir.store.home import Home
from weir.store.placement_journal import MOVES, PLACED_RUNS, Move, PlacedRun
from weir.tracing.totals import TotalsReader

if TYPE_CHECKING:
    from weir.room.looks import Look
    from weir.room.panels import Page
    from weir.room.sources import Sources
    from weir.room.visitors import Visitor

MEMORY_BYTES_MAX = 768 << 20
"""The memory of a decoder beside its imports; the samples have at most some hundred kilobytes."""
_NUMBERS = (b"0", b"-1", b"1", b"255", b"2147483648", b"9223372036854775807", b"18446744073709551616",
            b"1" + b"0" * 30, b"9" * 5000, b"1e400", b"-1e400", b"1e-400", b"0.5", b"NaN", b"Infinity", b"-Infinity",
            b"null", b"true", b'""', b"[]", b"{}", b'"\\ud800"')  # fmt: skip
_TEXTS = (b"\x1b]0;title\x07", b"\x1b[2J", b"\x9b31m", b"\xe2\x80\xae", b"\n", b"\r", b"\0", b"\xff\xfe", b"..", b"/",
          b"'; rm -rf ~ '", b"x" * 5000, b"[" * 100_000, b'{"a":' * 20_000, b"%s%n", b"-o")  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")
_WORD = re.compile(rb"[A-Za-z_]{2,}")


@dataclass(frozen=True)
class Decoder:
    """A reader of foreign files or messages."""

    act: Callable[[Path], None]
    """Reads the samples in a folder; raises for faults alone."""
    files: str = "*"
    """Which of the samples are mutated."""


def mutated(data: bytes, dice: random.Random) -> bytes:
    """`data` with some changes, of which most leave its form as it is."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
        _change(changed, dice)
    return bytes(changed)


def _change(data: bytearray, dice: random.Random) -> None:
    kind = dice.randrange(10)
    if kind < 4 and (found := [*_NUMBER.finditer(data)]):
        one = dice.choice(found)
        data[one.start() : one.end()] = dice.choice(_NUMBERS)
    elif kind < 5 and (found := [*_WORD.finditer(data)]):
        one = dice.choice(found)
        data[one.start() : one.end()] = dice.choice(_TEXTS)
    elif kind < 6 and data:
        position = dice.randrange(len(data))
        data[position] ^= 1 << dice.randrange(8)
    elif kind < 7 and data:
        position, width = dice.randrange(len(data)), dice.choice((1, 2, 4, 8))
        data[position : position + width] = dice.choice((b"\xff", b"\0", b"\x7f", b"\x80")) * width
    elif kind < 8:
        del data[dice.randrange(len(data) + 1) :]
    elif kind < 9 and data:
        begin = dice.randrange(len(data))
        piece = data[begin : begin + dice.randrange(1, 200)]
        position = dice.randrange(len(data))
        data[position:position] = piece
    else:
        position = dice.randrange(len(data) + 1)
        data[position:position] = dice.choice(_TEXTS)


def command(*arguments: str | Path) -> None:
    """Run `weir` in this process: it ends with 0, 1 or 2, tells errors in a line, and prints no control characters."""
    from weir import cli

    words, data = io.StringIO(), io.StringIO()
    sys.argv = ["weir", *map(str, arguments)]
    with contextlib.redirect_stdout(data), contextlib.redirect_stderr(words):
        code = cli._run()
    told = words.getvalue()
    assert code in (0, 1, 2), f"exit code {code}"
    assert code == 0 or "error: " in told or "warning: " in told, f"exit code {code} without a word: {told!r}"
    for text in (told, data.getvalue()):
        raw = [line for line in text.split("\n") if not line.isprintable()]
        assert not raw, f"raw characters: {raw[0]!r}"


def refused(*errors: type[Exception]) -> contextlib.AbstractContextManager[None]:
    """The errors that a decoder promises."""
    return contextlib.suppress(*errors)


def _stream(folder: Path) -> None:
    fast = folder / "fast"
    command("adapt", "info", fast)
    command("adapt", "info", fast, "--step", "0")
    command("adapt", "reconstruct", fast, "--step", "0", "--to", folder / "step.npy")


def _named_stream(folder: Path) -> None:
    from weir.adaptive.errors import AdaptiveError
    from weir.adaptive.named import DatasetReader

    fast = folder / "fast"
    command("adapt", "info", fast)
    command("adapt", "reconstruct", fast, "--step", "0", "--to", folder / "step.nc")
    with refused(AdaptiveError), DatasetReader(fast) as reader:
        for name in reader.names:
            with refused(AdaptiveError):
                reader.values(name)


class Halves:
    """A codec of one's own: the upper and the lower bytes of floats."""

    def encode(self, values: Any, tolerance: float | None) -> list[bytes]:
        halves = values.view("u2").reshape(-1, 2)
        return [halves[:, 1].tobytes(), halves[:, 0].tobytes()]

    def decode(self, parts: Any, shape: Any, dtype: Any) -> Any:
        import numpy

        raw = numpy.frombuffer(parts[0], "u2").astype("u4") << 16
        if len(parts) > 1:
            raw |= numpy.frombuffer(parts[1], "u2")
        return raw.view(dtype).reshape(shape)


def own_containers(folder: Path) -> None:
    """Write a container of a codec of one's own, in which a cell is missing."""
    import numpy
    from weir.adaptive.own_codec import refactor
    from weir.plugins import CODEC, Plugin

    values = numpy.sin(numpy.arange(48 * 32, dtype="f4")).reshape(48, 32)
    values[3, 4] = numpy.nan
    plugin = Plugin(CODEC, "halves", "foreign:Halves", given=Halves)
    (folder / "container").write_bytes(refactor(values, plugin, tolerance=None, exact=True, fill=None))


def _own_containers(folder: Path) -> None:
    from weir.adaptive import own_codec
    from weir.adaptive.array import restore
    from weir.plugins import CODEC, Plugin, PluginError

    own_codec.choose(Plugin(CODEC, "halves", "foreign:Halves", given=Halves))
    for path in folder.iterdir():
        data = path.read_bytes()
        # A checksum keeps out what was damaged by chance, and not what was written so.
        length = int.from_bytes(data[8:12], "little")
        sealed = data[:12] + zlib.crc32(data[16 : 16 + length]).to_bytes(4, "little") + data[16:]
        for container in (data, sealed):
            with refused(ValueError, PluginError):
                restored = restore(container)
                assert restored.rmse >= 0 and restored.max_error >= 0


def _arrays(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.suffix != ".raw":
            command("adapt", "refactor", path, "--tier", folder.parent / "written")
        shutil.rmtree(folder.parent / "written", ignore_errors=True)


def _trace(folder: Path) -> None:
    command("trace", "show", folder)
    command("trace", "export", folder, "--to", folder.parent / "export.csv")
    command("layout", "advise", folder, "--targets", "8")
    command("trace", "windows", folder, "--processes")
    command("interference", "import", folder, "--to", folder.parent / "imported.parquet")


TOTALS = TotalsReader()
"""Its process stays over the rounds."""


def _darshan(folder: Path) -> None:
    import planned
    from weir.interference import dxt, windows
    from weir.interference.errors import InterferenceError
    from weir.provisioning.behaviour.identity import identify
    from weir.provisioning.behaviour.traits import of_log
    from weir.provisioning.errors import ProvisioningError
    from weir.tracing.darshan import DarshanError, read_logs

    for _, answer in read_logs(sorted(folder.iterdir()), seconds_max=60, times=True):
        assert str(answer)
        if not isinstance(answer, DarshanError):
            with refused(InterferenceError):
                windows.of_rows(dxt.rows_of(answer, 1.0, "run"))
    for path in sorted(folder.iterdir()):
        with refused(DarshanError, ProvisioningError):
            identity = identify(of_log(TOTALS.read(path, seconds_max=60)))
            planned.planner().plan(identity, None, planned.cluster(4))


def _recorded(folder: Path) -> None:
    from weir.errors import WeirError
    from weir.provisioning.behaviour.history import past_of
    from weir.provisioning.behaviour.identity import identify
    from weir.provisioning.behaviour.recorded import RunReader
    from weir.provisioning.jobs.job import Job

    reader = RunReader(note=lambda _: None)
    for path in (folder / "host-user-app-1-1.0", folder / "dxt.txt"):
        with refused(WeirError):
            found = identify(reader.read(path))
            assert all(math.isfinite(each) for each in (found.io_fraction, found.read_bytes_per_second))
    with refused(WeirError):
        past_of(folder, Job(command=("ior",), processes=512), Path("/dev/null"))


def _lustre_text(folder: Path) -> None:
    command("stats", "show", "--lfs-df", folder / "lfs-df.txt", "--lctl-dl", folder / "lctl-dl.txt")
    command("place", "--creations", folder / "creations.json", "--lustre", folder / "lfs-df.txt")


def _lustre_document(folder: Path) -> None:
    command("stats", "show", "--file", folder / "statistics.json")
    command("place", "--creations", folder / "creations.json", "--lustre", folder / "statistics.json")


def _lustre_tree(folder: Path) -> None:
    from weir.interference.devices import Storage
    from weir.interference.errors import InterferenceError
    from weir.interference.sampling import Sampler
    from weir.lustre.rates import rates
    from weir.lustre.tree import read_tree

    reading = read_tree(folder)
    rates(reading, reading)
    sampler = Sampler(1.0, lambda line: None)
    with refused(InterferenceError):
        for moment in range(4):
            for window in sampler.take(float(moment), Storage(folder, ("sda",), True, lambda line: None).read()):
                window.row("run")


def _message(folder: Path) -> None:
    from weir.lustre.message import RejectedError, decode

    for path in folder.iterdir():
        with refused(RejectedError):
            decode(path.read_bytes())


def _database(folder: Path) -> None:
    command("place", "show", folder / "placement.db")
    command("place", "show", folder / "placement.db", "--file", "/mnt/ior/test.1")


def _creations(folder: Path) -> None:
    for name in ("creations.json", "creations.csv"):
        command("place", "--creations", folder / name, "--lustre", folder / "lfs-df.txt", "--emit", "lfs")
        command(
            "place", "--creations", folder / name, "--lustre", folder / "lfs-df.txt", "--layout", folder / "layout.ini"
        )


def _backup(folder: Path) -> None:
    home = folder.parent / "restored"
    command("--home", home, "restore", folder / "backup.tar", "--yes")
    spools = [path.name for path in home.glob(".restore*")]
    shutil.rmtree(home, ignore_errors=True)
    assert not spools, spools


def _report(folder: Path) -> None:
    from weir.placement.lookups import ReportError, read_report

    with refused(ReportError):
        read_report(folder / "placement.db.report")


def _configuration(folder: Path) -> None:
    command("config", "show", folder / "cluster.toml")
    command("config", "show", folder / "cluster.toml", "--output", "json")


def _credential(folder: Path) -> None:
    from weir.store.errors import StoreError
    from weir.store.identity import read_claims

    with refused(StoreError):
        read_claims(folder / "credential.json")


def _sweep(folder: Path) -> None:
    from itertools import islice

    from weir.errors import WeirError
    from weir.simulation.errors import ScenarioError
    from weir.simulation.sweeps.execution import Scenarios
    from weir.simulation.sweeps.plan import read_plan
    from weir.simulation.sweeps.results import document, read_results

    with refused(WeirError):
        plan = read_plan(folder / "sweep" / "sweep.toml")
        scenarios = Scenarios(plan.base)
        for settings in islice(plan.points(), 3):
            try:
                scenarios.of(settings)
            except ScenarioError as error:
                raise plan.fault(settings, error) from error
    with refused(WeirError):
        document(read_results(folder / "sweep"))


def _addresses(folder: Path) -> None:
    os.environ["WEIR_CLUSTER"] = str(folder / "cluster.json")
    for name in ("jobs", "targets"):
        command("--home", folder / "home", name)


def _simulated_run(folder: Path) -> None:
    command("simulate", "report", folder)
    command("simulate", "report", folder, "--output", "json")


def _scenario(folder: Path) -> None:
    from weir.simulation.errors import SimulationError
    from weir.simulation.scenario import read_scenario

    with refused(SimulationError):
        read_scenario(folder / "scenario.toml")


def _accounting(folder: Path) -> None:
    from weir.simulation.errors import SimulationError
    from weir.simulation.workloads.accounting import read_accounting

    with refused(SimulationError):
        read_accounting(folder / "sacct.txt")


def _job(folder: Path) -> None:
    from weir.provisioning.errors import ProvisioningError
    from weir.provisioning.jobs.directives import of_attributes, of_script
    from weir.provisioning.jobs.job import read_job

    for name in ("jobspec.yaml", "job.sh"):
        with refused(ProvisioningError):
            of_attributes(name, read_job(folder / name).hints)
    with refused(ProvisioningError):
        of_script("job.sh", (folder / "job.sh").read_bytes().decode(errors="replace"))


def _stress(folder: Path) -> None:
    from weir.provisioning.errors import ProvisioningError
    from weir.provisioning.stress import objectives
    from weir.provisioning.stress.results import read_results

    with refused(ProvisioningError):
        objectives.table(read_results([folder]), source="samples")


def _planner_requests(folder: Path) -> None:
    from weir.errors import WeirError
    from weir.planner import protocol
    from weir.planner.errors import PlannerError
    from weir.planner.work import read_script

    for line in (folder / "requests.ndjson").read_bytes().splitlines():
        try:
            request = protocol.decode(line)
        except PlannerError as error:
            assert protocol.encode(protocol.refusal(0, error)).count(b"\n") == 1
            continue
        if isinstance(request, protocol.Plan | protocol.Validate) and request.script:
            with refused(WeirError):
                read_script(request.script)


def _resources(folder: Path) -> None:
    import planned
    from weir.provisioning.errors import ProvisioningError
    from weir.provisioning.resources.model import read_resources

    for name in ("resources.toml", "resources.json"):
        with refused(ProvisioningError):
            found = read_resources(folder / name)
            planned.planner().plan(planned.writer(), None, found)


def _slurm(folder: Path) -> None:
    from weir.provisioning.errors import ProvisioningError
    from weir.provisioning.resources.slurm import of_documents

    nodes, jobs = ((folder / f"{name}.json").read_bytes() for name in ("nodes", "jobs"))
    with refused(ProvisioningError):
        of_documents(nodes, jobs, folder="/tmp", now=0.0)


def _deployment(folder: Path) -> None:
    from weir.provisioning.errors import ProvisioningError
    from weir.provisioning.lifecycle.record import JobFolder
    from weir.provisioning.lifecycle.setup import configuration_of
    from weir.provisioning.lifecycle.validation import validate
    from weir.provisioning.schema_file import read_schema

    with refused(ProvisioningError):
        deployment = read_schema(folder / "deployment.json")
        validate(deployment)
        configuration_of(deployment, deployment.servers, "token")
    with refused(ProvisioningError):
        JobFolder(folder).state()


def _copy_record(folder: Path) -> None:
    from weir.staging.errors import StagingError
    from weir.staging.record import Record

    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with refused(StagingError):
            record = Record(opened, b"copy", "/source")
            parts = record.parts_of((b"large",))
            assert parts is None or all(isinstance(checksum, bytes) for checksum in parts.done.values())
            record.is_leftover(record.prefix + b"1")
            record.close(done=False)
    finally:
        os.close(opened)


def _sslos(folder: Path) -> None:
    import planned
    from weir.provisioning.behaviour import classes
    from weir.provisioning.errors import ProvisioningError
    from weir.provisioning.objectives import sslo_tables
    from weir.provisioning.planning.planner import Planner

    with refused(ProvisioningError):
        table = sslo_tables.read_table(folder / "sslos.json")
        Planner(classes.built_in(), table).plan(planned.writer(), None, planned.cluster(4))


def _tables(folder: Path) -> None:
    from weir.provisioning.errors import ProvisioningError
    from weir.provisioning.sharing import interference_factors, prices

    with refused(ProvisioningError):
        prices.read_prices((folder / "prices.json").read_bytes(), "prices")
    with refused(ProvisioningError):
        interference_factors.read_table((folder / "factors.json").read_bytes(), "factors")


def _windows(folder: Path) -> None:
    from weir.interference import joining, labels, plan, planner_factors, predictor, quanterference, slowdowns, windows
    from weir.interference.errors import InterferenceError
    from weir.provisioning.behaviour import classes

    with refused(InterferenceError):
        windows.read([folder / "windows.parquet"])
    with refused(InterferenceError):
        rows = windows.read_rows([folder / "windows.parquet"])
        joining.join(rows, rows, {})
    with refused(InterferenceError):
        plan.read(folder / "plan.toml")
    with refused(InterferenceError):
        labels.read_operations(folder / "operations.csv")
    with refused(InterferenceError):
        quanterference.read_windows([folder / "enzo_2_time_data.json"])
    with refused(InterferenceError):
        predictor.load(folder / "model.json")
    with refused(InterferenceError):
        matrix = slowdowns.read(folder / "matrix.json")
        planner_factors.table(matrix, "fifo", classes.built_in().classes, "here")


def _schema(folder: Path) -> None:
    from weir.provisioning.emit.targets import TARGETS, emit
    from weir.provisioning.errors import ProvisioningError
    from weir.provisioning.schema_file import read_schema

    for path in folder.iterdir():
        with refused(ProvisioningError):
            deployment = read_schema(path)
            for target in TARGETS:
                with refused(ProvisioningError):
                    emit(deployment, target, mount="/mnt/weir", folder="/etc/weir")


def _emitted(folder: Path) -> None:
    from weir.provisioning.emit import beeond, lustre, orangefs, weir_store
    from weir.provisioning.emit.checks import EmittedFile
    from weir.provisioning.errors import ProvisioningError

    for module in (beeond, lustre, orangefs, weir_store):
        with refused(ProvisioningError):
            own = sorted((folder / module.__name__.rpartition(".")[2]).iterdir())
            module.read([EmittedFile(name=path.name, text=path.read_text(errors="replace")) for path in own])


def _classes(folder: Path) -> None:
    from weir.provisioning.behaviour.classes import built_in, fitnesses, read_table, with_job
    from weir.provisioning.errors import ProvisioningError

    with refused(ProvisioningError):
        table = read_table(folder / "classes.json")
        job = built_in().classes[3].centre
        assert all(0 <= each.fitness <= 1 for each in fitnesses(job, table.classes))
        with_job(table, job)


def _summaries(folder: Path) -> None:
    from weir.provisioning.errors import ProvisioningError
    from weir.provisioning.learning.features import seconds, vector
    from weir.provisioning.learning.summaries import read_table

    for path in folder.iterdir():
        with refused(ProvisioningError):
            for run in read_table(path):
                assert all(math.isfinite(each) for each in (*vector(run, {}), *seconds(run.traits)))


def step_journals(folder: Path) -> None:
    tiers = (
        step_journal.TierEntry("/fast", None, None, None, 1e9),
        step_journal.TierEntry("s3://a/run", 1e8, 5e7, 2e8, 9e7),
    )
    for number in range(30):
        entry = step_journal.StepEntry(
            at=1001.5 + number,
            job="run.sh-1",
            user="ada",
            host="node",
            pid=number % 2,
            stream="/fast",
            step=number,
            rmse=1e-4,
            max_error=1e-3 / (number + 1),
            read_bytes=500 + number,
            whole_bytes=1000,
            augmentation=0.5,
            seconds=0.2,
            waited_seconds=0.1,
            deadline_seconds=2.5,
            is_late=False,
            tiers=tiers,
        )
        step_journal.JOURNAL.add(Home(folder).step_journals, entry)


def _step_journals(folder: Path) -> None:
    from weir.room.pages.adaptive import page

    _looked_at(folder, page, ("accuracy", "forecasts"))


def placement_journals(folder: Path) -> None:
    home = Home(folder)
    for number in range(20):
        at, counts = 1001.5 + number, (number, 1, 0, number % 3)
        run = PlacedRun(at, "node", number, "run.sh-1", "ada", "run.sh", "/a.db", *counts, names=("/a", "/b"))
        PLACED_RUNS.add(home.placement_journals, run)
        move = Move(at, 1000.0, "node", 7, "ada", "drain 0.1", 1000, 50 * number, number, 0, is_over=number == 19)
        MOVES.add(home.placement_journals, move)


def _placement_journals(folder: Path) -> None:
    from weir.room.pages.placement import page

    _looked_at(folder, page, ("predictions",))


def _looked_at(folder: Path, page: "Callable[[Sources, Look, Visitor], Page]", figures: tuple[str, ...]) -> None:
    """Make a page and its figures."""
    from weir.room.figures import figure
    from weir.room.html import cells
    from weir.room.looks import Look
    from weir.room.sources import Sources
    from weir.room.visitors import Role, Visitor

    sources = Sources(list, folder, list, Home(folder))
    look, visitor = Look("then", "1m", 1_060_000), Visitor("root", Role.ADMINISTRATOR, sees_all=True)
    for panel in page(sources, look, visitor).panels:
        for row in () if panel.table is None else panel.table.rows:
            assert cells(row).encode()
    for name in figures:
        json.dumps(figure(name, sources, look, visitor, {}), allow_nan=False).encode()


DECODERS = {
    "stream": Decoder(_stream, files="fast/*"),
    "named-stream": Decoder(_named_stream, files="fast/*"),
    "containers": Decoder(_stream, files="*/*.weir"),
    "arrays": Decoder(_arrays),
    "backup": Decoder(_backup),
    "own-containers": Decoder(_own_containers),
    "traces": Decoder(_trace),
    "darshan": Decoder(_darshan),
    "recorded": Decoder(_recorded, files="**/*"),
    "lustre-text": Decoder(_lustre_text),
    "lustre-document": Decoder(_lustre_document),
    "lustre-tree": Decoder(_lustre_tree, files="**/*"),
    "messages": Decoder(_message),
    "database": Decoder(_database),
    "creations": Decoder(_creations),
    "look-ups": Decoder(_report),
    "configuration": Decoder(_configuration),
    "credential": Decoder(_credential),
    "addresses": Decoder(_addresses),
    "sweep": Decoder(_sweep, files="sweep/*"),
    "simulated-run": Decoder(_simulated_run),
    "scenario": Decoder(_scenario),
    "accounting": Decoder(_accounting),
    "job": Decoder(_job),
    "stress": Decoder(_stress),
    "planner-requests": Decoder(_planner_requests),
    "resources": Decoder(_resources),
    "deployment": Decoder(_deployment, files="*.json"),
    "copy-record": Decoder(_copy_record, files=".copy.weir-stage"),
    "sslos": Decoder(_sslos),
    "slurm": Decoder(_slurm),
    "windows": Decoder(_windows),
    "tables": Decoder(_tables),
    "schema": Decoder(_schema),
    "emitted": Decoder(_emitted, files="*/*"),
    "classes": Decoder(_classes),
    "summaries": Decoder(_summaries),
    "step-journals": Decoder(_step_journals),
    "placement-journals": Decoder(_placement_journals),
}
"""Every decoder of foreign files and messages that Python code calls, by name."""


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY_BYTES_MAX
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(name: str, samples: Path, seed: int, rounds: int) -> int:
    """Mutate the samples so many times; answers the exit code."""
    # Readers of streams keep threads for a while; what their stacks could grow to is not what they take.
    threading.stack_size(1 << 20)
    decoder = DECODERS[name]
    dice = random.Random(seed)
    folder = samples.parent / "mutated"
    shutil.copytree(samples, folder)
    # What is sound is read first: imports are made, and the samples are none by which nothing could be told.
    decoder.act(folder)
    _limit_memory()
    shutil.rmtree(folder)
    chosen = sorted(path.relative_to(samples) for path in samples.glob(decoder.files) if path.is_file())
    for number in range(rounds):
        shutil.copytree(samples, folder)
        for path in dice.sample(chosen, min(len(chosen), dice.choice((1, 1, 2)))):
            (folder / path).write_bytes(mutated((samples / path).read_bytes(), dice))
        try:
            decoder.act(folder)
        except BaseException:
            traceback.print_exc()
            print(f"{name}: round {number} of seed {seed}, samples in {folder}", file=sys.stderr)
            return 1
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    sys.stderr.flush()
    # Threads that wait for a tier are not waited for.
    os._exit(code)
