"""A value that no command can use is refused while the command line is read: with exit code 2, and with nothing done.

Every parameter of every command is given a senseless value here. Those that take any text stand in a list, with the
reason.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from weir import cli
from weir.experiments.figures import EXPERIMENTS
from weir.store import home

ANY_TEXT = {
    "a path that need not exist, or whose absence is told of that path": {
        *(
            "weir up FILE",
            "weir backup FILE",
            "weir up --mount",
            "weir deploy FILE",
            "weir deploy --mount",
            "weir deploy --program",
        ),
        *(
            "weir run --trace",
            "weir run --observe",
            "weir mount POINT",
            "weir serve mount POINT",
            "weir umount POINT",
            "weir grant --to",
        ),
        *("weir backup FILE", "weir layout advise LOGS", "weir layout get PATH"),
        *("weir find PATHS", "weir stats subscribe --file"),
        *("weir trace export --to", "weir place explain FILE", "weir place show --file", "weir place --database"),
        *("weir place --into", "weir rebalance PATHS", "weir adapt reconstruct --to", "weir config diff FILE"),
        "weir config export --to",
        *("weir config show FILE", "weir simulate run SCENARIO", "weir simulate run --out", "weir simulate sweep FILE"),
        *("weir planner --socket", "weir planner --state", "weir planner --resources", "weir deployments --socket"),
        "weir job release --socket",
        *("weir planner --prices", "weir planner --factors"),
        *("weir simulate sweep --out", "weir simulate tune SCENARIO", "weir simulate tune --out"),
        *(
            f"weir bench {name} --out"
            for name in (*EXPERIMENTS, "figure-7", "io-variation-figure-9", "io-variation-figure-10")
        ),
        *("weir job ornament JOBSPEC", "weir job ornament --deployment"),
        *("weir quota show PLACE", "weir plan identity LOGS", "weir plan identity --job", "weir plan similar LOGS"),
        *("weir plan similar --classes-table", "weir classes build LOGS", "weir classes build --to"),
        *("weir classes add TABLE_FILE", "weir classes add LOGS", "weir classes add --to"),
        *("weir plan similar --job", "weir target add --path"),
        *("weir stage in SOURCE", "weir stage in DESTINATION", "weir stage out SOURCE", "weir stage out DESTINATION"),
        *("weir job run JOBSPEC", "weir job run --trace", "weir job run --schema", "weir job run --resources"),
        *("weir job run --local", "weir job run --sslos", "weir plan learned --sslos"),
        *("weir plan sslo LOG", "weir plan sslo --job", "weir plan sslo --sslos"),
        *("weir plan sslo --classes-table", "weir plan sslo --history"),
        *("weir plan run --observe", "weir plan run --keep"),
        *(f"weir plan run --{name}" for name in ("job", "resources", "local", "sslos", "classes-table")),
        *("weir plan run --prices", "weir plan run --factors"),
        *(
            f"weir plan {product} {name}"
            for product in ("resources", "config", "schema", "explain")
            for name in (
                "LOG",
                "--history",
                "--job",
                "--resources",
                "--local",
                "--sslos",
                "--classes-table",
                "--prices",
                "--factors",
            )
        ),
        *(
            "weir run --windows",
            "weir stats windows --to",
            "weir stats windows --token-file",
            "weir interference record --token-file",
        ),
        *("weir interference join DATA", "weir interference join --servers", "weir interference join --to"),
        *("weir plan similar --job", "weir target add --path", "weir interference import FILES"),
        *("weir interference import --to", "weir interference evaluate DATA", "weir interference train DATA"),
        *("weir interference evaluate --additional", "weir interference evaluate --plots"),
        *("weir interference record --to", "weir interference collect PLAN", "weir interference collect --to"),
        "weir guard --model",
        *("weir record --history", "weir jobs --history", "weir replay --history"),
        *("weir room --history", "weir room --unix", "weir top --history", "weir df --history"),
        *("weir report --history", "weir report --html"),
        *("weir interference train --to", "weir interference predict MODEL", "weir interference predict DATA"),
        *("weir interference matrix --to", "weir plan factors --matrix"),
        *("weir interference serve --model", "weir interference watch --model"),
        *("weir plan similar --job", "weir target add --path", "weir plan emit SCHEMA", "weir plan emit --into"),
        "weir plan factors --into",
        *("weir plan similar --classes-table", "weir classes build LOGS", "weir classes build --to"),
        *("weir classes add TABLE_FILE", "weir classes add LOGS", "weir classes add --to"),
        *("weir simulate tune --apply", "weir simulate report RUNS", "weir simulate report --html"),
        *("weir stress --out", "weir stress --path", "weir sslo build FOLDERS", "weir sslo build --to"),
        "weir sslo show FILE",
    },
    "a credential that the environment may name as well, and of which its own error tells": {
        *(
            "weir run --credential",
            "weir mount --credential",
            "weir stage in --credential",
            "weir stage out --credential",
            "weir rebalance --credential",
        ),
    },
    "a URL, or a path": {"weir adapt info TIERS", "weir adapt reconstruct TIERS", "weir adapt steps TIERS"},
    "a URL, or a path, too": {"weir adapt refactor --tier"},
    "a name that is looked for in a file": {
        *("weir stats show --file-system", "weir adapt refactor --dataset", "weir sslo build --default"),
        *("weir interference evaluate --workload", "weir report JOB", "weir report --user"),
        *("weir audit --kind", "weir audit --user"),
        *("weir adapt refactor --along", "weir adapt reconstruct --variable"),
    },
    "a pattern of names": {"weir find --name"},
    "a job that the planner is asked for": {"weir job release JOB"},
    "a device of this host, which is looked for": {"weir stats windows --device"},
    "a directive, whose own errors name the one that was meant": {"weir job ornament --weir"},
    "the words of another program": {
        *(
            "weir run COMMAND",
            "weir plan run COMMAND",
            "weir deploy --ssh-options",
            "weir simulate sweep --slurm-partition",
        ),
        *("weir simulate sweep --slurm-account", "weir simulate tune --slurm-partition"),
        *("weir simulate tune --slurm-account", "weir plan factors --node", "weir plan factors --other-node"),
        "weir classes build --slurm-partition",
        "weir classes build --slurm-account",
    },
    "a name that this command gives": {
        *("weir stats publish --server", "weir target add --class", "weir sslo build --source"),
    },
    "a class of devices that the resource model names": {
        *(f"weir plan {product} --device" for product in ("resources", "config", "schema", "explain", "run")),
        "weir job run --device",
        *("weir simulate tune --slurm-account", "weir classes build --slurm-partition"),
        "weir classes build --slurm-account",
    },
    "names of hosts, which ClusterShell reads": {"weir deploy --nodes", "weir deploy --clients"},
    "the name of one host, which ssh knows": {"weir server add --host", "weir server retire --to"},
    "words that stand for a layout and a path, which have a test of their own": {"weir layout set WORDS"},
}
SENSELESS = {
    **dict.fromkeys(("weir run --user", "weir run --group", "weir run --job"), "x" * 129),
    "weir interference record --name": "x" * 129,
    "weir stats windows --name": "x" * 129,
    **dict.fromkeys(("weir grant --user", "weir grant --group", "weir grant --job"), ""),
    "weir place --command": "'open",
}
"""Values where `!senseless` has a sense."""
OTHERS = {
    "weir planner": ["--resources", "/x"],
    "weir policy set": ["size-fair"],
    "weir target add": ["0"],
    "weir target retire": ["0.0"],
    "weir server retire": ["0"],
    "weir quota set": ["--user", "0", "--unset"],
    "weir run": ["--", "true"],
    "weir grant": ["--uid", "0"],
    "weir targets set": ["0.0", "--real"],
    "weir targets allocator": ["balanced"],
    "weir find": ["/"],
    "weir trace show": ["/"],
    "weir trace export": ["/", "--to", "/x.csv"],
    "weir layout advise": ["/x.darshan"],
    "weir layout set": ["-c", "1", "/x"],
    "weir layout get": ["/x"],
    "weir place show": ["/etc/passwd"],
    "weir place explain": ["/x"],
    "weir classes build": ["/x", "--to", "/x"],
    "weir classes add": ["/x", "/x", "--to", "/x"],
    "weir adapt refactor": ["/etc/passwd", "--tier", "/x"],
    "weir adapt info": ["/x"],
    "weir adapt steps": ["/x"],
    "weir adapt reconstruct": ["/x", "--step", "0", "--to", "/x/y.npy"],
    "weir simulate report": ["/x"],
    "weir stage in": ["/x", "x"],
    "weir stage out": ["x", "/x"],
    "weir job run": ["/x"],
    "weir job resume": ["x"],
    "weir job release": ["7"],
    "weir job end": ["x"],
    "weir plan emit": ["/x"],
    "weir plan run": ["--", "true"],
    "weir plan factors": ["--into", "/x"],
    "weir simulate run": ["/x"],
    "weir simulate sweep": ["/x"],
    "weir simulate what-if": ["--logs", "/"],
    "weir sslo build": ["/x"],
    **{f"weir plan {product}": ["/x.darshan"] for product in ("sslo", "resources", "schema", "explain")},
    "weir interference import": ["/x", "--to", "/y"],
    "weir interference join": ["/x", "--servers", "/x", "--to", "/y"],
    "weir stats windows": ["--to", "/x"],
    "weir interference evaluate": ["/x"],
    "weir interference train": ["/x", "--to", "/y"],
    "weir interference predict": ["/x", "/y"],
    **{f"weir plan {product}": ["/x.darshan"] for product in ("sslo", "resources", "config", "schema", "explain")},
    "weir interference record": ["--to", "/x"],
    "weir replay": ["--since", "1h", "--policy", "fifo"],
    "weir report": ["job"],
    "weir interference serve": ["--model", "/x"],
    "weir interference collect": ["/x", "--to", "/y"],
    "weir interference matrix": ["--to", "/x"],
}
"""Values of the parameters that a command requires."""


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, f"{path} {name}")
    yield path, command


def _others(path: str, name: str) -> list[str]:
    """The required words of a command, without an option that is given a senseless value."""
    words = OTHERS.get(path, [])
    if name not in words:
        return words
    place = words.index(name)
    return words[:place] + words[place + 2 :]


def parameters() -> Iterator[tuple[str, str, bool]]:
    """Each parameter that takes a value: its command, its name, and whether it is an option."""
    for path, command in commands(cli.weir, "weir"):
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                if not parameter.is_flag and not parameter.count:
                    yield path, max(parameter.opts, key=len), True
            elif path != "weir help":
                yield path, str(parameter.name).upper(), False


FREE = {name for names in ANY_TEXT.values() for name in names}
CHECKED = [each for each in parameters() if f"{each[0]} {each[1]}" not in FREE and each[0] != "weir"]


@pytest.fixture(autouse=True)
def unreachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A command that looks for a store, or starts a program, fails. Threads of tests before may go on."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the command went on")

    here = threading.current_thread()

    def refused_here(allowed: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object, **named: object) -> None:
            (refuse if threading.current_thread() is here else allowed)(*arguments, **named)

        return call

    monkeypatch.setattr(socket.socket, "connect", refused_here(socket.socket.connect))
    monkeypatch.setattr(subprocess.Popen, "__init__", refused_here(subprocess.Popen.__init__))
    monkeypatch.setattr(home, "find_cluster", refuse)
    for name in ("WEIR_CLUSTER", "WEIR_CREDENTIAL", "WEIR_MOUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def refusal(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", words)
    code = cli._run()
    printed = capsys.readouterr()
    assert code == 2, printed
    assert printed.out == ""
    return printed.err


def test_the_list_of_parameters_that_take_any_text_names_parameters() -> None:
    known = {f"{path} {name}" for path, name, _ in parameters()}
    assert known >= FREE, FREE - known
    assert len(CHECKED) > 150


@pytest.mark.parametrize(("path", "name", "is_option"), CHECKED, ids=[f"{path} {name}" for path, name, _ in CHECKED])
def test_a_senseless_value_is_refused_before_anything_is_done(
    path: str,
    name: str,
    is_option: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    value = SENSELESS.get(f"{path} {name}", "!senseless")
    words = path.split()
    if is_option:
        told = refusal([*words, f"{name}={value}", *_others(path, name)], monkeypatch, capsys)
    else:
        rest = OTHERS.get(path, ["x"])[1:]
        told = refusal([*words, value, *rest], monkeypatch, capsys)
    assert told.startswith("error: Invalid value"), told
    assert name in told or not is_option, told
    assert list(tmp_path.iterdir()) == []


def test_numbers_are_finite(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for path, command in commands(cli.weir, "weir"):
        for parameter in command.params:
            if isinstance(parameter, click.Option) and isinstance(parameter.type, click.types.FloatParamType):
                for value in ("nan", "inf"):
                    words = [*path.split(), f"{parameter.opts[0]}={value}", *OTHERS.get(path, [])]
                    assert "Invalid value" in refusal(words, monkeypatch, capsys), (path, parameter.opts)


@pytest.mark.parametrize(
    "words",
    [
        ["layout", "set", "-c", "x", "/x"],
        ["layout", "set", "-E", "1M", "-c", "1", "-E", "1M", "/x"],
        ["layout", "set", "/x"],
        ["policy", "set", "size-fair", "--scheduler", "fifo"],
        ["config", "show", "--policy", "fifo", "--scheduler", "gift"],
        ["adapt", "steps", "--policy", "plot", "--low", "2M", "--high", "1M", "/x"],
        ["deploy", "--nodes", "node[1-"],
        ["deploy", "--nodes", "a,b,a"],
        ["deploy", "--nodes", "a", "--clients", "b[x]"],
        ["place", "--creations", "/etc/passwd", "--stripe-count", "0", "--output", "json"],
        ["rebalance", "--gather"],
        ["targets", "set", "0.0"],
        ["targets", "set", "0.0", "--real", "--read", "1MB/s"],
        ["simulate", "what-if", "--logs", "/"],
        ["simulate", "topology", "no-such-machine"],
        ["stress", "--path", "/tmp", "--backend", "ram"],
        ["stress", "--path", "/tmp", "--servers", "1,2"],
        ["stress", "--replicas", "2"],
        ["stress", "--bytes", "1MiB"],
    ],
)
def test_options_that_contradict_each_other_are_refused_as_early(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "error: " in refusal(["weir", *words], monkeypatch, capsys)


@pytest.mark.parametrize(("name", "value"), [("WEIR_POLICY", "size-fiar"), ("WEIR_PORTS", "9-1")])
def test_a_senseless_value_in_the_environment_is_refused_too(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    assert value in refusal(["weir", "config", "show"], monkeypatch, capsys)
