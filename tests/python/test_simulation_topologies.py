"""Topologies: presets, files, grids and stores; each text reads as the machines that it was printed of."""

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from store import Store
from weir.simulation.documents import Document, read_document
from weir.simulation.errors import ScenarioError
from weir.simulation.scenario import Entitlement, scenario_of
from weir.simulation.stores import (
    CLIENT_NODES,
    settings_of_configuration,
    settings_of_store,
    topology_of_configuration,
    topology_of_store,
)
from weir.simulation.topology import Topology, parse_topology, preset_names, read_topology, topology_named

SMALL = """[clients]
nodes = 2
link = { rate = "1GB/s" }
[[servers]]
link = { rate = "1GB/s" }
[[servers.targets]]
capacity = "1GiB"
read = "100MB/s"
write = "100MB/s"
"""


@pytest.mark.parametrize(
    ("name", "nodes", "servers", "targets"),
    [
        ("testbed-35", 2, 7, 35),
        ("titan", 18688, 144, 1008),
        ("summit-like", 4608, 154, 154),
        ("frontier-orion-like", 9408, 450, 1350),
        ("16x8", 64, 16, 128),
    ],
)
def test_presets_have_the_published_numbers(name: str, nodes: int, servers: int, targets: int) -> None:
    found = topology_named(name)
    assert (found.name, found.nodes, found.servers, found.targets) == (name, nodes, servers, targets)


def test_presets_as_a_whole_have_the_published_volumes_and_rates() -> None:
    """Sums over all targets against the figures that the files cite."""

    def total(name: str, *keys: str) -> float:
        targets = [target for server in topology_named(name).document["servers"] for target in server["targets"]]
        return sum(float(target[keys[0]][keys[1]] if keys[1:] else target[keys[0]]) for target in targets)

    assert total("testbed-35", "capacity_bytes") == 350 << 30
    assert total("titan", "write", "bytes_per_second") == pytest.approx(510e9, rel=0.01)
    assert total("titan", "capacity_bytes") == pytest.approx(16e15, rel=0.04)
    assert total("summit-like", "read", "bytes_per_second") == pytest.approx(2.5e12, rel=0.01)
    assert total("summit-like", "capacity_bytes") == pytest.approx(250e15, rel=0.01)
    assert total("frontier-orion-like", "capacity_bytes") == pytest.approx((679 + 11.5) * 1e15, rel=0.01)
    assert total("frontier-orion-like", "read", "bytes_per_second") == pytest.approx(15.5e12, rel=0.01)
    assert total("frontier-orion-like", "write", "bytes_per_second") == pytest.approx(14.6e12, rel=0.01)


def test_presets_have_the_layout_of_their_file_systems() -> None:
    assert topology_named("titan").layout == "-c 4 -S 1M"
    assert str(topology_named("frontier-orion-like").layout).count("-E") == 3
    assert topology_named("testbed-35").layout is None


@pytest.mark.parametrize("name", [*preset_names(), "3x2"])
def test_a_printed_topology_reads_as_the_same(name: str) -> None:
    found = topology_named(name)
    assert parse_topology(found.text(), origin=name) == found


RATES = some.floats(1e-3, 1e15) | some.integers(1, 10**12).map(float)
TIMES = some.floats(0, 1e5) | some.integers(0, 10**9).map(lambda count: count / 1e9)
HOPS = some.fixed_dictionaries({"bytes_per_second": RATES, "latency_seconds": TIMES})
WAYS = some.fixed_dictionaries({"bytes_per_second": RATES, "fixed_seconds": TIMES})
CURVES = some.lists(some.floats(0, 1), unique=True, max_size=3).flatmap(
    lambda uses: some.tuples(
        *(some.fixed_dictionaries({"used": some.just(use), "rate": some.floats(0.01, 1)}) for use in sorted(uses))
    ).map(list)
)
TARGETS = some.fixed_dictionaries(
    {
        "class": some.sampled_from(["", "disk", 'a "b"\n']),
        "capacity_bytes": some.integers(1 << 20, 1 << 60),
        "used_bytes": some.integers(0, 1 << 20),
        "read": WAYS,
        "write": WAYS,
        "seek_penalty": some.floats(0, 10),
        "seek_floor": some.floats(0.01, 1),
        "fullness": CURVES,
    }
)
SERVERS = some.fixed_dictionaries(
    {
        "link": HOPS,
        "processor_bytes_per_second": some.none() | RATES,
        "metadata_seconds": TIMES,
        "targets": some.lists(TARGETS, min_size=1, max_size=3).flatmap(
            lambda kinds: some.lists(some.sampled_from(kinds), min_size=1, max_size=6)
        ),
    }
)
STAGES = some.fixed_dictionaries(
    {
        "name": some.sampled_from(["io", "leaf"]),
        "count": some.integers(1, 1000),
        "link": HOPS,
        "side": some.sampled_from(["client", "server"]),
    }
)
DOCUMENTS = some.fixed_dictionaries(
    {
        "name": some.sampled_from(["one", "zwei ü"]),
        "layout": some.sampled_from([None, "-c 4 -S 1M"]),
        "clients": some.fixed_dictionaries({"nodes": some.integers(1, 1 << 20), "link": HOPS}),
        "routers": some.lists(STAGES, max_size=2),
        "servers": some.lists(SERVERS, min_size=1, max_size=2).flatmap(
            lambda kinds: some.lists(some.sampled_from(kinds), min_size=1, max_size=5)
        ),
    }
)


@settings(max_examples=40, deadline=None)
@given(DOCUMENTS)
def test_any_topology_is_printed_and_read_without_loss(document: dict[str, Any]) -> None:
    text = Topology(document).text()
    assert parse_topology(text, origin="text").document == document


def test_a_fault_names_the_file_the_line_and_the_key(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(SMALL.replace('capacity = "1GiB"', 'capacity = "much"'))
    with pytest.raises(ScenarioError) as caught:
        topology_named("site.toml", folder=tmp_path)
    assert caught.value.message.startswith(f'{path}: line 7: capacity: "much" is not a size')
    path.write_text(SMALL.partition("[[servers]]")[0])
    with pytest.raises(ScenarioError, match=r"site\.toml: servers: the topology has no targets"):
        read_topology(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        read_topology(path)
    with pytest.raises(ScenarioError, match="there is no topology testbed-36") as caught:
        topology_named("testbed-36")
    assert "testbed-35" in caught.value.hint
    with pytest.raises(ScenarioError, match="No such file"):
        topology_named(str(tmp_path / "none.toml"))
    with pytest.raises(ScenarioError, match=r"0x8: line \d+: count: 0 is not from 1"):
        topology_named("0x8")


CLUSTER = """version = 1
[[server]]
metadata_speed = { fixed = "50us" }
[[server.target]]
backend = "ram"
capacity = "4GiB"
speed = { read = "200MB/s", fixed = "1ms" }
[[server.target]]
backend = "dir"
class = "disk"
capacity = "1TiB"
speed = { read = "200MB/s", write = "100MB/s" }
"""


def test_a_store_that_is_not_up_has_the_speeds_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    found = topology_named(str(path))
    assert (found.name, found.nodes, found.servers, found.targets) == ("cluster", CLIENT_NODES, 1, 2)
    first, second = found.document["servers"][0]["targets"]
    assert first["read"] == {"bytes_per_second": 2e8, "fixed_seconds": 1e-3}
    assert first["write"]["bytes_per_second"] > 1e11, "bytes that cost nothing have no bound"
    assert (first["class"], second["class"], second["capacity_bytes"]) == ("ram", "disk", 1 << 40)
    assert found.document["servers"][0]["metadata_seconds"] == 50e-6
    assert parse_topology(found.text(), origin="again") == found
    for gone, words in (
        ('speed = { read = "200MB/s", write', "line 8: server[0].target[1]: the target has no speed"),
        ('capacity = "1TiB"', "line 8: server[0].target[1]: the target has no capacity"),
    ):
        path.write_text("\n".join(line for line in CLUSTER.splitlines() if not line.startswith(gone)))
        with pytest.raises(ScenarioError) as caught:
            topology_of_configuration(read_document(path))
        assert words in caught.value.message and "store" in caught.value.hint


@pytest.mark.slow
def test_a_running_store_tells_its_targets_and_their_speeds(store: Store) -> None:
    store.up(
        servers=2,
        targets=3,
        capacity="64MiB",
        read_speed="200MB/s",
        write_speed="100MB/s",
        fixed_time="1ms",
        metadata_time="50us",
        policy="job-fair",
    )
    cluster = store.home / "cluster.json"
    found = topology_of_store(cluster)
    assert (found.servers, found.targets, found.capacity_bytes) == (2, 6, 6 * (64 << 20))
    target = found.document["servers"][1]["targets"][2]
    assert target["read"] == {"bytes_per_second": pytest.approx(2e8), "fixed_seconds": pytest.approx(1e-3)}
    assert target["write"] == {"bytes_per_second": pytest.approx(1e8), "fixed_seconds": pytest.approx(1e-3)}
    assert found.document["servers"][0]["metadata_seconds"] == pytest.approx(50e-6, rel=0.01)
    assert parse_topology(found.text(), origin="store") == found
    assert settings_of_store(cluster) == {
        "policy": "job-fair",
        "scheduler": "virtual-time",
        "allocator": "balanced",
        "lambda": "100ms",
    }


def test_a_stores_configuration_has_the_settings_of_a_scenario(tmp_path: Path) -> None:
    text = (
        'version = 1\npolicy = "size-fair"\nlambda_milliseconds = 250\n'
        '[[share]]\nuser = "alice"\nweight = 2\nreservation = "20%"\n'
        '[[share]]\ngroup = "physics"\nlimit = 0.5\n'
        '[layout]\nstripe_size = "64k"\nstripe_count = 2\nallocator = "random"\n'
    )
    values = {"topology": "2x2", "jobs": [{"generator": "ior"}], **settings_of_configuration(tomllib.loads(text))}
    found = scenario_of(Document(values, {}, origin="store", folder=tmp_path))
    assert found.lambda_seconds == 0.25
    assert (found.stripe_bytes, found.stripe_count) == (65536, 2)
    assert found.entitlements == (
        Entitlement(user="alice", weight=2, reservation=0.2),
        Entitlement(group="physics", limit=0.5),
    )
    assert settings_of_configuration({"version": 1, "layout": {"allocator": "random"}}) == {}


@pytest.mark.slow
def test_the_grants_of_a_running_store_are_taken_over(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(
        "version = 1\nlambda_milliseconds = 50\n[layout]\nstripe_count = 1\n"
        '[[share]]\nuser = "alice"\nreservation = "30%"\n'
        '[[server]]\n[[server.target]]\ncapacity = "64MiB"\n[[server.target]]\ncapacity = "64MiB"\n'
    )
    store.up(file)
    found = settings_of_store(store.home / "cluster.json")
    assert found["share"] == [{"user": "alice", "reservation": "30%"}]
    assert found["layout"] == {"stripe_count": 1}
    assert found["lambda"] == "50ms"
    (store.home / "cluster.toml").rename(store.home / "hidden.toml")
    try:
        assert set(settings_of_store(store.home / "cluster.json")) == {"policy", "scheduler", "allocator"}
    finally:
        (store.home / "hidden.toml").rename(store.home / "cluster.toml")


@pytest.mark.slow
def test_the_command_prints_what_it_reads(store: Store, tmp_path: Path) -> None:
    printed = store.weir("simulate", "topology", "testbed-35").stdout
    path = tmp_path / "printed.toml"
    path.write_text(printed)
    assert store.weir("simulate", "topology", path).stdout == printed
    rows = store.weir("simulate", "topology", "--list").stdout.splitlines()
    assert [row.split()[0] for row in rows[1:]] == preset_names()
    wrong = store.weir("simulate", "topology", "testbed-35", "--from-store", code=2)
    assert "--from-store, or --list" in wrong.stderr
    assert "no store is up" in store.weir("simulate", "topology", "--from-store", code=1).stderr


def test_a_topology_is_its_document() -> None:
    found = parse_topology(SMALL, origin="small")
    assert (found.capacity_bytes, found.free_bytes) == (1 << 30, 1 << 30)
    assert json.loads(json.dumps(found.document)) == found.document
    assert dataclasses.replace(found) == found
