"""Fixtures of every test: stores that are taken down whatever happens, and checks of the machine."""

import itertools
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import forks
import hypothesis
import pytest
from agents import Remote, TwoWays
from store import Store, fresh
from ways import ALL, MOUNTED, Way, has_fuse, make_way

_FOLDERS = itertools.count()

# A start of `weir` by a test is a fork where that is the same (`forks.py`).
subprocess.Popen = forks.Start  # type: ignore[misc]
# Models of tests are small: threads that wait for each other would take more of the processors than the work itself.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# No example fails because the machine is busy.
hypothesis.settings.register_profile("weir", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("weir")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out tests that bring a store up or take seconds")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("fast"):
        left_out = [item for item in items if not is_fast(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_fast(item)]


def is_fast(item: pytest.Item) -> bool:
    """Whether a test brings no store up and is not marked as slow."""
    stores = {"make_store", "shared_store"}.intersection(getattr(item, "fixturenames", ()))
    return item.path.parent.name == "python" and not stores and item.get_closest_marker("slow") is None


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """Shells start background jobs with SIGINT and SIGQUIT ignored. Programs that tests start would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Plans weigh what earlier runs of their user had: tests have no user's, and leave nothing for one."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture
def make_store() -> Iterator[Callable[[], Store]]:
    """Make homes for stores; whatever was brought up in them is taken down at the end."""
    with ExitStack() as ends:
        yield lambda: ends.enter_context(fresh())


@pytest.fixture
def gates() -> Iterator[dict[str, threading.Event]]:
    """Events by parts of file names: a file of `gated://` with such a part in its name hangs until the event is set."""
    import fsspec
    from places import Gated

    fsspec.register_implementation("gated", Gated, clobber=True)
    Gated.gates.clear()
    Gated.asked.clear()
    yield Gated.gates
    for gate in Gated.gates.values():
        gate.set()


@pytest.fixture
def store(make_store: Callable[[], Store]) -> Store:
    """A home in which nothing was brought up yet."""
    return make_store()


@pytest.fixture
def root_only() -> None:
    """Skip where the test cannot become other users."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")


@pytest.fixture
def user_fuse(fuse: None, root_only: None) -> None:
    """Skip where other users cannot mount: they open the device themselves, through fusermount3."""
    if Path("/dev/fuse").stat().st_mode & 0o006 != 0o006:
        pytest.skip("/dev/fuse is closed to other users; `make setup` as root opens it as udev would")


@pytest.fixture
def fuse() -> None:
    """Skip where nothing can be mounted."""
    if not has_fuse():
        pytest.skip("there is no /dev/fuse")


@pytest.fixture(scope="session")
def shared_store() -> Iterator[Store]:
    """One store for all tests that only put files into a directory of their own: two servers of two targets each."""
    with fresh("weir-shared-") as store:
        store.up(servers=2, targets=2)
        yield store


@pytest.fixture(scope="module")
def second_mount(shared_store: Store) -> Iterator[Path]:
    """Another mount of the shared store, which is another client of its servers."""
    if not has_fuse():
        pytest.skip("there is no /dev/fuse")
    point = shared_store.root / "second"
    point.mkdir()
    shared_store.weir("mount", point)
    yield point
    shared_store.weir("umount", point)
    shutil.rmtree(point, ignore_errors=True)


@pytest.fixture(params=ALL)
def way(request: pytest.FixtureRequest, shared_store: Store) -> Iterator[Way]:
    """A fresh directory of the shared store, by each way into it; tests that some cannot pass say so."""
    if request.param in MOUNTED and not has_fuse():
        pytest.skip("there is no /dev/fuse")
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())
    way = make_way(request.param, shared_store, f"{name}-{next(_FOLDERS)}")
    yield way
    if shared_store.mount.is_mount():
        shutil.rmtree(shared_store.mount / way.folder.name, ignore_errors=True)


@pytest.fixture
def two_ways(request: pytest.FixtureRequest, fuse: None, shared_store: Store) -> Iterator[TwoWays]:
    """Agents that go two ways into one fresh directory of the shared store, and end with the test."""
    agents: list[Remote] = []

    def start(serve: Callable[[Path], None], one: str, other: str) -> list[Remote]:
        name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())
        first = make_way(one, shared_store, f"{name}-{next(_FOLDERS)}")
        agents.extend(Remote(way, serve) for way in (first, Way(other, shared_store, first.sibling(other))))
        return agents

    yield start
    for agent in agents:
        agent.kill()
