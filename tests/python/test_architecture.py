"""The directions between crates and within them, and what the pure leaves may not know."""

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rust_sources import Crate, blanked, without_tests
from waits import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]

LEAVES = {
    "weir-wire",
    "weir-fairshare",
    "weir-device",
    "weir-placement",
    "weir-trace",
    "weir-refactor",
    "weir-interference",
}
PURE = LEAVES | {"weir-channel", "weir-exchange", "weir-simulator"}
"""The crates that know no thread, clock, file, socket or random source."""

ALLOWED = {
    "weir-placement": set[str](),
    "weir-fairshare": set[str](),
    "weir-device": {"weir-fairshare"},
    "weir-trace": set[str](),
    "weir-refactor": set[str](),
    "weir-interference": set[str](),
    "weir-wire": {"weir-fairshare", "weir-placement"},
    "weir-channel": {"weir-placement", "weir-wire"},
    "weir-exchange": {"weir-fairshare", "weir-device", "weir-placement", "weir-wire"},
    "weir-simulator": {"weir-exchange", "weir-fairshare", "weir-device", "weir-placement", "weir-wire"},
    "weir-log": set[str](),
    "weir-windows": set[str](),
    "weir-core": {"weir-channel", "weir-exchange", "weir-log", *LEAVES},
    "weir-server": {"weir-core", "weir-channel", "weir-log", *LEAVES},
    "weir-session": {"weir-placement", "weir-wire"},
    "weir-client": {"weir-channel", "weir-session", "weir-windows", *LEAVES},
    "weir-preload": {"weir-client", *LEAVES, "weir-windows"},
    "weir-mount": {"weir-client", "weir-log", *LEAVES},
    "weir-mover": {"weir-client", *LEAVES},
    "weir-python": {"weir-channel", "weir-client", "weir-simulator", "weir-windows", *LEAVES},
    "weir-testing": {"weir-channel", "weir-fairshare", "weir-placement", "weir-wire"},
    "weir-stride": {"weir-fairshare"},
    "weir-world": {"weir-core", "weir-log", "weir-session", "weir-testing", *LEAVES},
}
"""Which crates of this workspace each one may depend on."""

SUPPORTS = "weir-testing"
"""The supports of tests: every crate may use them, in its tests alone."""

WORLD = "weir-world"
"""The world is a test as a whole: nothing depends on it."""

TEST_ONLY = {"weir-device": {"weir-placement"}, "weir-stride": {"weir-simulator"}}
"""The crates that only tests may use beside the supports: all decisions of a store beside a device, and the simulator
beside an example of a scheduler."""

IMPURE = re.compile(
    r"\bstd::(thread|net|fs|os|process|env|io::(stdin|stdout|stderr)|time::(Instant|SystemTime)|sync::mpsc)\b"
    r"|\b(Instant|SystemTime)::now\b|\b(rustix|libc|mio|tokio|rand|getrandom)::"
)
"""Threads, clocks, files, sockets, environment and random sources."""

SYSTEM = re.compile(
    r"\b(mio|nix|signal_hook|listenfd)::|\bstd::(fs|thread|os::unix::(net|fs))\b|\bstd::net::(Tcp|Udp|ToSocket|Shutdown)"
    r"|\brustix::(event|fs|mm|net|process|rand|thread|time)::"
)
"""Files, sockets, threads and other calls of the system."""

CLOCK = re.compile(r"\b(Instant|SystemTime)\s*::\s*now\b|\bclock_gettime\b")
"""Looks at a clock of the system."""

CORE_IMPURE = re.compile(
    r"\bstd::(thread|net(?!::IpAddr)|fs|os|process|env|io::(stdin|stdout|stderr)|time::(Instant|SystemTime))\b"
    r"|\b(Instant|SystemTime)::now\b|\b(libc|mio|nix|tokio|rand|getrandom)::|\brustix::(?!io::Errno\b)"
)
"""Calls that neither the core of the server nor a client's calls make. They know errors of the system, the core
addresses, too, and its questions carry the sending end of a channel."""

CORE_SHARED = {
    "control/board.rs": "threads of the control API wait for a snapshot",
    "control/table.rs": "threads of the control API write a snapshot's texts",
    "journal/memory.rs": "the disk of a world and of tests",
    "storage/memory_folder.rs": "the disk of a world and of tests",
    "storage/stamp.rs": "the edge writes marks beside the server",
}
"""The files of the core with a lock or a cell that threads share, and the reason."""

CLIENT_SYSTEM_CALLERS = {
    "connect.rs",
    "descriptors.rs",
    "exchange.rs",
    "locks.rs",
    "observer.rs",
    "pool.rs",
    "session.rs",
    "transfer.rs",
    "transport.rs",
}
"""The client's files that call the system or look at a clock: they drive the values of `crates/session`, and wait."""

SHARED = re.compile(r"\b(Mutex|RwLock|Condvar|OnceLock|LazyLock|Atomic\w+)\b")
"""Locks and cells that threads share."""

LOCK = re.compile(r"\b(Mutex|RwLock|Condvar|OnceLock|LazyLock)\b|\bfutex\b")
"""Locks and cells for which a handler of a signal, or the child of a fork, could wait."""

PARALLEL = "crates/refactor/src/parallel.rs"
"""The one file of the leaves that starts threads; it joins them before it returns."""

UNSAFE_CRATES = {"preload", "mount", "server", "refactor", "windows", "python"}
"""Crates in which `unsafe` may stand; of the server only in the memory of targets, of the codec where it
names instructions, of the windows where they are mapped, and of the module for Python
where it names the memory of buffers."""


NAMESPACE_VALUES = {"change", "decision", "draft", "errno"}
"""The files of the namespace that all its parts share: values without state."""

PRELOAD_FLOORS = (
    ("symbols",),
    ("calls",),
    ("observation",),
    ("recorder", "placement"),
    ("files",),
    ("store",),
    ("host",),
)
"""The floors of the preload library from above. Folders on one floor do not know each other; see its `lib.rs`."""


@pytest.fixture(scope="module")
def packages() -> dict[str, dict[str, Any]]:
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    return {package["name"]: package for package in json.loads(answer.stdout)["packages"]}


def ours(package: dict[str, Any], *, development: bool) -> set[str]:
    return {
        dependency["name"]
        for dependency in package["dependencies"]
        if dependency["name"].startswith("weir-") and (dependency["kind"] == "dev") == development
    }


def test_every_crate_is_placed(packages: dict[str, dict[str, Any]]) -> None:
    assert packages.keys() <= ALLOWED.keys(), "say in this test what a new crate may depend on"


def test_dependencies_point_down(packages: dict[str, dict[str, Any]]) -> None:
    for name, package in packages.items():
        assert ours(package, development=False) <= ALLOWED[name], name
        allowed = ALLOWED[name] | TEST_ONLY.get(name, set()) | {name, SUPPORTS}
        assert ours(package, development=True) <= allowed, f"{name}, in its tests"


def test_supports_of_tests_stay_in_tests(packages: dict[str, dict[str, Any]]) -> None:
    assert packages[SUPPORTS]["publish"] == [], "the supports of tests are published nowhere"
    for name, package in packages.items():
        assert WORLD not in ours(package, development=False), f"{name} names {WORLD}"
        kinds = {dependency["kind"] for dependency in package["dependencies"] if dependency["name"] == SUPPORTS}
        assert name == WORLD or kinds <= {"dev"}, f"{name} names {SUPPORTS} outside its dev-dependencies"


def test_folders_have_plain_names(packages: dict[str, dict[str, Any]]) -> None:
    for name, package in packages.items():
        assert Path(package["manifest_path"]).parent.name == name.removeprefix("weir-")


def files_with(sources: Path, *patterns: re.Pattern[str]) -> set[str]:
    """Files below `sources` in which one of `patterns` stands outside of tests."""
    found = set()
    for path in sorted(sources.rglob("*.rs")):
        if "tests" in path.relative_to(sources).parts or path.name.endswith("tests.rs"):
            continue
        code = without_tests(blanked(path.read_text()))
        if any(pattern.search(code) for pattern in patterns):
            found.add(str(path.relative_to(sources)))
    return found


def test_the_core_of_the_server_calls_no_system() -> None:
    callers = files_with(ROOT / "crates" / "core" / "src", CORE_IMPURE)
    assert not callers, "a step asks the edge by a trait (docs/design/server.md)"


def test_the_core_shares_no_state_with_workers() -> None:
    sharers = files_with(ROOT / "crates" / "core" / "src", SHARED)
    assert sharers == CORE_SHARED.keys(), (
        "a worker answers what it saw, and the next step decides (storage/dir/seen.rs)"
    )


def test_rules_are_taken_out_in_worlds_alone(packages: dict[str, dict[str, Any]]) -> None:
    for name, package in packages.items():
        features = {
            feature
            for dependency in package["dependencies"]
            if dependency["name"] == "weir-core"
            for feature in dependency["features"]
        }
        assert not features or name == WORLD, f"{name} asks for {features} of the core"


def test_the_system_is_called_by_the_drivers_of_the_client() -> None:
    sources = ROOT / "crates" / "client" / "src"
    callers = files_with(sources, SYSTEM, CLOCK)
    assert callers == CLIENT_SYSTEM_CALLERS, "a call says what comes next, its driver does it (crates/session)"


def test_a_call_of_a_client_calls_no_system_and_waits_for_nobody() -> None:
    sources = ROOT / "crates" / "session" / "src"
    assert not files_with(sources, CORE_IMPURE), "a call says what comes next, its driver does it"
    assert not files_with(sources, LOCK), "a handler of a signal may be in the midst of another call"


@pytest.mark.parametrize("leaf", sorted(PURE))
def test_leaves_are_pure(packages: dict[str, dict[str, Any]], leaf: str) -> None:
    sources = Path(packages[leaf]["manifest_path"]).parent / "src"
    for path in sorted(sources.rglob("*.rs")):
        if path == ROOT / PARALLEL:
            continue
        # Tests may print seeds and read clocks; they stand at the end of a file.
        code, _, _ = path.read_text().partition("#[cfg(test)]\nmod tests")
        for number, line in enumerate(code.splitlines(), start=1):
            found = IMPURE.search(line.split("//")[0])
            assert not found, f"{path}:{number}: {line.strip()}"


def test_unsafe_stands_where_it_may(packages: dict[str, dict[str, Any]]) -> None:
    for package in packages.values():
        folder = Path(package["manifest_path"]).parent
        if folder.name not in UNSAFE_CRATES:
            libraries = [path for path in (folder / "src" / "lib.rs", folder / "src" / "main.rs") if path.is_file()]
            assert libraries
            assert all("#![forbid(unsafe_code)]" in path.read_text() for path in libraries), folder


def test_floors_of_the_preload_library() -> None:
    floors = {folder: floor for floor, folders in enumerate(PRELOAD_FLOORS) for folder in folders}

    def folder_of(file: str) -> str:
        return file.partition("/")[0].removesuffix(".rs")

    arrows = Crate(ROOT / "crates/preload").arrows()
    assert {folder_of(file) for file in arrows} == floors.keys() | {"lib"}, "say in this test where a new folder stands"
    for start, targets in arrows.items():
        for target in targets:
            above, below = folder_of(start), folder_of(target)
            assert above in (below, "lib") or floors[above] < floors[below], f"{start} uses {target}"


def test_steps_of_the_server_call_downwards() -> None:
    """Calls of methods of `Server`, resolved by their type: every impl of it stands in this folder."""
    folder = ROOT / "crates/core/src/server"
    rows = re.findall(r"^//! \| (`.*?) \|", (folder / "mod.rs").read_text(), re.MULTILINE)
    floors = {step: floor for floor, row in enumerate(rows) for step in re.findall(r"`(\w+)`", row)}
    bodies = {}
    for path in sorted(folder.glob("*.rs")):
        code = without_tests(blanked(path.read_text()))
        bodies[path.stem] = "\n".join(re.findall(r"^impl Server \{\n(.*?)^\}", code, re.DOTALL | re.MULTILINE))
    assert {step for step, body in bodies.items() if body} <= floors.keys() | {"mod"}, "name the step in mod.rs"
    homes = {
        name: step
        for step, body in bodies.items()
        for name in re.findall(r"^    (?:pub(?:\([a-z]+\))? )?fn (\w+)", body, re.MULTILINE)
    }
    for step, body in bodies.items():
        for name in re.findall(r"\bself\s*\.(\w+)\(", body):
            below = homes.get(name, step)
            if below not in (step, "mod"):
                assert floors.get(step, -1) <= floors[below], f"{step} calls `{name}` of {below}, which stands above it"


def test_parts_of_the_namespace_use_those_below() -> None:
    """Each part is a folder with one struct; only `Namespace` above them knows all."""
    folder = ROOT / "crates/core/src/namespace"
    rows = re.findall(r"^//! \| (`.*?) \|", (folder / "mod.rs").read_text(), re.MULTILINE)
    floors = {part: floor for floor, row in enumerate(rows) for part in re.findall(r"`(\w+)`", row)}
    parts = {entry.name for entry in folder.iterdir() if entry.is_dir()} - {"tests"}
    assert parts == floors.keys(), "say in mod.rs where a new part stands"
    for part in parts:
        front = blanked((folder / part / "mod.rs").read_text())
        fields = re.search(
            rf"^pub(?:\(crate\))? struct {part.capitalize()} {{\n(.*?)^}}", front, re.DOTALL | re.MULTILINE
        )
        assert fields and not re.search(r"\bpub\b", fields[1]), f"the state of {part} is its own"
    for start, targets in Crate(ROOT / "crates/core").arrows().items():
        above = start.removeprefix("namespace/").partition("/")[0]
        for target in targets:
            inside, _, below = target.partition("/")
            below = below.partition("/")[0].removesuffix(".rs")
            if above not in floors or inside != "namespace" or below in NAMESPACE_VALUES:
                continue
            is_below = below in floors and floors[above] < floors[below]
            assert below == above or is_below, f"{start} uses {target}, by {targets[target]}"


def imported(path: Path) -> set[str]:
    """Modules that a Python file imports, also inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: imports are absolute"
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


def test_click_is_the_command_line_alone() -> None:
    for path in (ROOT / "python/weir").rglob("*.py"):
        if (ROOT / "python/weir/cli") not in path.parents:
            assert not any(module.split(".")[0] == "click" for module in imported(path)), path


def test_files_hold_one_idea() -> None:
    """STYLE 9: a file past 600 lines probably holds two."""
    for folder in ("crates", "python", "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".rs", ".py"):
                lines = len(path.read_text().splitlines())
                assert lines <= 700, f"{path} has {lines} lines"
