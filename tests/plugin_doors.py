"""The doors of plug-ins: each way on which a user brings an algorithm of one's own, with those of `examples/plugins`.

The package is installed into a folder, which stands on the path of each program that a door starts. A door fails by an
exception. `benchmarks/_data_plugins.py` counts the kinds of which every door works.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import windows
from waits import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples/plugins"

SCENARIO = """topology = "2x4"
mode = "request"
policy = "size-fair"
{}

[layout]
stripe_count = 1

[[jobs]]
generator = "ior"
name = "large"
processes = 8
processes_per_node = 2
block = "8MiB"

[[jobs]]
generator = "ior"
name = "small"
processes = 2
processes_per_node = 2
block = "8MiB"
"""
"""A job of 4 nodes beside one of 1, with further keys of the scenario."""


def install(folder: Path) -> None:
    """Install the package of examples, as its user does."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    # A build leaves its folders beside the sources.
    sources = folder.parent / "sources"
    subprocess.run(["cp", "-r", str(EXAMPLES), str(sources)], check=True, timeout=PATIENCE_SECONDS)
    command += ["--disable-pip-version-check", "--target", str(folder), str(sources)]
    subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)


class Reader:
    """A user of the package: runs programs in a folder, where the package is installed."""

    def __init__(self, folder: Path, package: Path) -> None:
        self.folder = folder
        places = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "WEIR_HOME": str(folder / "home")}

    def weir(self, *words: str, code: int = 0) -> str:
        """Run a command of Weir, which has to end with this code; return what it prints and says."""
        return self._run([sys.executable, "-m", "weir.cli", *words], code)

    def document(self, *words: str) -> Any:
        """Run a command of Weir, and read its answer."""
        command = [sys.executable, "-m", "weir.cli", *words, "--output", "json"]
        ended = subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def python(self, program: str) -> str:
        """Run a program of Python."""
        return self._run([sys.executable, "-c", program], 0)

    def write(self, name: str, text: str) -> str:
        """Write a file into the folder; return its name."""
        (self.folder / name).write_text(text)
        return name

    def _run(self, command: list[str], code: int) -> str:
        ended = subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
        words = ended.stdout + ended.stderr
        assert ended.returncode == code, f"{command[-6:]} ended with {ended.returncode}: {words}"
        return words


def forecaster_of_a_tier(user: Reader) -> None:
    """A tier's forecaster by its name: a growing bandwidth is forecast beyond all that came."""
    user.python(
        "from weir.adaptive import Tier\n"
        "from weir.prediction.bandwidth import make\n"
        "forecaster = make(Tier('memory://run', forecaster='holt').forecaster)\n"
        "for step in range(12):\n"
        "    forecaster.observe(step * 10.0, 100.0 + 5.0 * step)\n"
        "found = forecaster.forecast(120.0)\n"
        "assert found.method == 'holt' and abs(found.value - 160.0) < 0.5, found\n"
    )


def forecaster_of_steps(user: Reader) -> None:
    """`weir adapt steps --forecaster`: the steps of a stream are read by its forecasts."""
    user.python("import numpy; numpy.save('field.npy', numpy.random.default_rng(1).normal(size=(12, 64, 64)))")
    user.weir("adapt", "refactor", "field.npy", "--stacked", "--tier", "fast", "--tier", "shared")
    words = ("--policy", "budget", "--seconds", "0.5", "--forecaster", "holt")
    read = user.document("adapt", "steps", "fast", "shared", *words)
    assert read["summary"]["steps"] == 12
    assert any(step["tiers"][-1]["forecast"] is not None for step in read["steps"])


def forecaster_of_placement(user: Reader) -> None:
    """`weir place --forecaster`, and the same prediction from Python: files that grow from run to run go on to grow."""
    lustre = str(ROOT / "examples/lustre/df.txt")
    words = ("--from", str(ROOT / "examples/run.darshan"), "--lustre", lustre, "--forecaster", "holt")
    placed = user.document("place", *words)
    assert placed["programs"][0]["model"] == "holt" and placed["files"]
    user.python(
        f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\n"
        "from past_runs import run_of\n"
        "from weir.prediction.context import NextRun\n"
        "from weir.prediction.creations import predict\n"
        "runs = [run_of([('/d/out', 0, 1000 * (5 + n))], started=float(n)) for n in range(6)]\n"
        "(one,) = predict(runs, NextRun.like(runs[-1]), model='holt').creations\n"
        "assert one.size_bytes == 11_000, one\n"
    )


def forecaster_beside_ours(user: Reader) -> None:
    """`weir bench io-variation-figure-9 --forecaster`, on a store."""
    words = ("--runs", "1", "--steps", "8", "--forecaster", "holt", "--out", "bench")
    (found,) = user.document("bench", "io-variation-figure-9", *words)["runs"]
    assert len(found["forecasts"]["holt"]) == 8 and found["errors"]["holt"] >= 0


def allocator_of_a_simulation(user: Reader) -> None:
    """`allocator` of a scenario, in both modes: two choices spread files more evenly than one."""
    for file, name in (("scenario.toml", "two-choices"), ("random.toml", "random")):
        # One home server, which knows all that it placed.
        text = SCENARIO.format(f'allocator = "{name}"').replace('"2x4"', '"1x16"')
        user.write(file, text.replace("processes = 8", "processes = 256"))
    for mode in ("flow", "request"):
        costs = [
            user.document("simulate", "run", name, "--mode", mode, "--no-alone")["figures"]["target_cost"]
            for name in ("scenario.toml", "random.toml")
        ]
        assert costs[0] < costs[1], f"{mode}: {costs}"


def allocator_of_a_sweep(user: Reader) -> None:
    """`allocator` of a sweep, beside Weir's own."""
    _sweep(user, "allocator", ["balanced", "two-choices"])


def allocator_of_a_question(user: Reader) -> None:
    """`weir simulate what-if --allocator`."""
    log = str(ROOT / "examples/run.darshan")
    words = ("--logs", log, "--topology", "2x4", "--allocator", "two-choices", "--seeds", "1")
    assert "allocator two-choices" in user.weir("simulate", "what-if", *words)


def allocator_of_placement(user: Reader) -> None:
    """`weir place --allocator`."""
    files = [{"path": f"/weir/{number}", "size_bytes": 1 << 30} for number in range(200)]
    user.write("files.json", json.dumps(files))
    words = ("--creations", "files.json", "--lustre", str(ROOT / "examples/lustre/df.txt"))
    placed = user.document("place", *words, "--allocator", "two-choices")
    drawn = user.document("place", *words, "--allocator", "random")
    assert len(placed["files"]) == 200 and placed["imbalance"] < drawn["imbalance"]


def scheduler_of_a_simulation(user: Reader) -> None:
    """`scheduler` of a scenario: each gives a job of four nodes about four times the time of one node's."""
    for name in ("lottery", "deadline"):
        keys = f'scheduler = "{name}"\nuntil = "20ms"'
        user.write("scenario.toml", SCENARIO.format(keys).replace('"2x4"', '"1x1"').replace("8MiB", "256MiB"))
        jobs = user.document("simulate", "run", "scenario.toml", "--no-alone")["jobs"]
        shares = [job["share_received"] for job in jobs]
        assert 0.7 < shares[0] < 0.9, f"{name}: {shares}"


def scheduler_of_a_sweep(user: Reader) -> None:
    """`scheduler` of a sweep, beside Weir's own."""
    _sweep(user, "scheduler", ["virtual-time", "lottery", "deadline"])


def scheduler_of_a_question(user: Reader) -> None:
    """`weir simulate what-if --policy 'X by Y'`, in the mode with requests."""
    log = str(ROOT / "examples/run.darshan")
    words = ("--logs", log, "--topology", "2x4", "--policy", "size-fair by lottery", "--seeds", "1")
    assert "size-fair by lottery" in user.weir("simulate", "what-if", *words, "--mode", "request")


def scheduler_of_figure_12(user: Reader) -> None:
    """`weir bench figure-12 --scheduler`: the pair of jobs in virtual time, and each gets half where both have work."""
    words = ("--seconds", "8", "--scheduler", "lottery", "--scheduler", "virtual-time", "--out", "bench")
    panels = user.document("bench", "figure-12", *words)["panels"]
    assert [panel["title"] for panel in panels] == ["lottery (simulated)", "virtual-time (simulated)"]
    for panel in panels:
        both = [each for each in panel["summaries"] if each["phase"] == panel["summaries"][1]["phase"]]
        assert any(abs(each["share_device"] - 0.5) < 0.06 for each in both), panel["summaries"]


def codec_of_a_stream(user: Reader) -> None:
    """`weir adapt refactor --codec`: another program reads the stream, and its stated errors hold."""
    user.python("import numpy; numpy.save('field.npy', numpy.random.default_rng(2).normal(size=(3, 32, 32)))")
    words = ("--stacked", "--tier", "fast", "--tier", "shared", "--codec", "bit-rounding", "--tolerance", "1e-3")
    assert len(user.document("adapt", "refactor", "field.npy", *words)) == 3
    user.python(
        "import numpy\n"
        "from weir import adaptive\n"
        "truth = numpy.load('field.npy')\n"
        "for policy in ('best-effort', 'isolation'):\n"
        "    with adaptive.open(['fast', 'shared'], policy=policy) as reader:\n"
        "        for step, array in zip(reader, truth, strict=True):\n"
        "            error = abs(step.data - array).max()\n"
        "            assert 0 < error <= step.max_error * (1 + 1e-12), (policy, error, step.max_error)\n"
        "            assert policy == 'isolation' or error <= 1e-3\n"
    )


def codec_of_figure_10(user: Reader) -> None:
    """`weir bench io-variation-figure-10 --codec`."""
    found = user.document("bench", "io-variation-figure-10", "--side", "128", "--codec", "bit-rounding")
    of_codec = [each for each in found["outcomes"] if each["codec"] == "bit-rounding"]
    # With all bits of a float there is no error left to tell.
    assert of_codec[0]["psnr"] > 10 and of_codec[-1]["psnr"] is None


def model_of_an_evaluation(user: Reader) -> None:
    """`weir interference evaluate --estimator`: far better than the most frequent class."""
    from weir.interference.windows import write

    write(windows.made(1), user.folder / "windows.parquet")
    words = ("windows.parquet", "--estimator", "softmax", "--estimator", "majority")
    scores = user.document("interference", "evaluate", *words)["scores"]
    f1 = {(each["split"], each["estimator"]): each["f1"] for each in scores}
    assert f1["other runs", "softmax"] > 0.7 > f1["other runs", "majority"], f1


def workload_of_a_simulation(user: Reader) -> None:
    """`generator` of a scenario: a job that writes, fails, and reads its last checkpoint again."""
    user.write("scenario.toml", _restarts())
    (job,) = user.document("simulate", "run", "scenario.toml", "--no-alone")["jobs"]
    assert job["is_complete"] and job["written_bytes"] > 0 and job["read_bytes"] > 0


def workload_of_a_sweep(user: Reader) -> None:
    """`generator` of a sweep, with its parameters."""
    table = '[sweep]\njobs.0.between_failures = ["30s", "120s"]\nseeds = 2\n'
    user.write("sweep.toml", f"{_restarts()}\n{table}")
    found = user.document("simulate", "sweep", "sweep.toml", "--out", "results", "--no-alone")
    assert len(found["cells"]) == 2


def _restarts() -> str:
    return (
        'topology = "2x4"\nseed = 3\n[layout]\nstripe_count = 1\n[[jobs]]\ngenerator = "restarts"\ncomputing = "300s"\n'
        'between_failures = "60s"\nwriting = "1s"\nbytes = "4MiB"\n'
    )


def _sweep(user: Reader, key: str, names: list[str]) -> None:
    user.write("sweep.toml", SCENARIO.format("") + f"\n[sweep]\n{key} = {json.dumps(names)}\nseeds = 2\n")
    found = user.document("simulate", "sweep", "sweep.toml", "--out", "results")
    assert [cell["settings"][key] for cell in found["cells"]] == names


DOORS: Mapping[str, tuple[Callable[[Reader], None], ...]] = {
    "forecaster": (forecaster_of_a_tier, forecaster_of_steps, forecaster_of_placement, forecaster_beside_ours),
    "allocator": (
        allocator_of_a_simulation,
        allocator_of_a_sweep,
        allocator_of_a_question,
        allocator_of_placement,
    ),
    "scheduler": (
        scheduler_of_a_simulation,
        scheduler_of_a_sweep,
        scheduler_of_a_question,
        scheduler_of_figure_12,
    ),
    "codec": (codec_of_a_stream, codec_of_figure_10),
    "interference model": (model_of_an_evaluation,),
    "workload": (workload_of_a_simulation, workload_of_a_sweep),
}
"""The doors of each kind."""
