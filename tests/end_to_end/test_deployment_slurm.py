"""A store in an allocation of Slurm: its steps keep it, and it ends with them."""

import json
import subprocess
from collections.abc import Iterator

import pytest
import slurm
from store import Store, fresh, program
from waits import PATIENCE_SECONDS, wait_until
from weir.store.processes import Process

pytestmark = pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing())

DEPLOY = "deploy --network 127.0.0.0/8 --no-mount --port 17700 --output json"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with slurm.slurm(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


@pytest.fixture
def store() -> Iterator[Store]:
    with fresh() as store:
        yield store


def in_allocation(cluster: dict[str, str], store: Store, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script inside of an allocation of one node; `$weir` is the program."""
    environment = {**cluster, **store.variables(), "weir": " ".join(program()), "PATH": cluster["PATH"]}
    return subprocess.run(
        ["salloc", "--quiet", "--nodes=1", "bash", "-ec", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_a_store_lives_in_an_allocation(cluster: dict[str, str], store: Store) -> None:
    script = f"""
        $weir {DEPLOY} >{store.root}/deployed
        $weir run --prefix /weir -- sh -c 'echo hello >/weir/file'
        srun --overlap $weir run --prefix /weir -- cat /weir/file
        $weir status --output json >{store.root}/status
        $weir down
    """
    answer = in_allocation(cluster, store, script)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("hello\n")
    deployed = json.loads((store.root / "deployed").read_text())
    assert [host["host"] for host in deployed["hosts"]] == ["here"]
    assert [server["up"] for server in json.loads((store.root / "status").read_text())["servers"]] == [True]
    assert not list((store.home / "deployment").glob("*.pid")), "no step is left"


def test_a_store_ends_with_its_allocation(cluster: dict[str, str], store: Store) -> None:
    answer = in_allocation(cluster, store, f"$weir {DEPLOY} >{store.root}/deployed")
    assert answer.returncode == 0, answer.stderr
    server = Process.recorded(store.home / "servers/0/pid")
    assert server is not None
    wait_until("the server has ended with its step", lambda: not server.is_alive())


def test_outside_of_an_allocation_hosts_must_be_named(store: Store) -> None:
    refused = store.weir("deploy", code=2)
    assert "--nodes" in refused.stderr


def test_a_store_comes_up_again_in_the_next_allocation(cluster: dict[str, str], store: Store) -> None:
    first = f"$weir {DEPLOY} --backend dir >/dev/null; $weir run --prefix /weir -- sh -c 'echo kept >/weir/file'; $weir down"
    assert in_allocation(cluster, store, first).returncode == 0
    answer = in_allocation(
        cluster,
        store,
        "$weir deploy >/dev/null; $weir run --prefix /weir -- cat /weir/file; $weir down --discard --yes",
    )
    assert answer.stdout.startswith("kept\n"), answer.stderr
