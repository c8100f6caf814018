"""ThemisIO's figure 7: the rates of more and more servers, simulated and on nodes with networks of their own."""

import os
import time
from pathlib import Path

import pytest
from weir import plots
from weir.experiments import networks
from weir.experiments.scaling import PROCESSES_PER_NODE, Wanted, measure
from weir.plots.canvas import picture
from weir.simulation.scaling import (
    PAPER_LINK,
    PLACEMENTS,
    Costs,
    Placement,
    Point,
    creates_per_second,
    drawn_homes,
    even_homes,
    simulated,
)
from weir.simulation.scaling_study import Study, study

LINKS = Costs(PAPER_LINK, 1e-5, None, None, 1e-3)
STRIPED, WHOLE, HASH_1, HASH_4 = PLACEMENTS
needs_networks = pytest.mark.skipif(bool(networks.missing()), reason=networks.missing() or "there are networks")


def point(servers: int, placement: Placement) -> Point:
    homes = even_homes(servers)
    return simulated(servers, placement, "job-fair", LINKS, homes=homes, file_bytes=32 << 20)


def efficiency(servers: int, placement: Placement) -> float:
    return point(servers, placement).bytes_per_second / servers / point(1, placement).bytes_per_second


def test_one_server_is_bound_by_its_link() -> None:
    assert point(1, STRIPED).bytes_per_second == pytest.approx(PAPER_LINK, rel=0.02)


def test_files_that_a_hash_places_scale_worse_than_files_that_the_store_places() -> None:
    """Eight processes a server, each on the servers that it drew: some servers get twice as many as others."""
    assert efficiency(8, WHOLE) > 0.95
    assert efficiency(8, HASH_1) < 0.75
    assert efficiency(8, HASH_1) < efficiency(8, HASH_4) < efficiency(8, WHOLE)


def test_the_busiest_home_bounds_creates() -> None:
    """A server takes 1 ms for a create, so eight trees on one home and none on the other take as long as one server."""
    assert creates_per_second(2, even_homes(2), LINKS) == pytest.approx(2000, rel=0.02)
    assert creates_per_second(2, (0,) * (2 * PROCESSES_PER_NODE), LINKS) == pytest.approx(1000, rel=0.02)
    homes = drawn_homes(16, 0)
    busiest = max(homes.count(server) for server in range(16))
    expected = 16_000 * PROCESSES_PER_NODE / busiest
    assert creates_per_second(16, homes, LINKS) == pytest.approx(expected, rel=0.02)


@pytest.fixture(scope="module")
def alone() -> Study:
    return study(seconds=1.0, speed=8e6, real=(), servers=(1, 2), say=lambda _: None)


def test_the_efficiency_of_the_most_servers_is_in_the_document(alone: Study) -> None:
    document = alone.document()
    assert document["costs"] is None and document["real"] == []
    first = alone.curves[0]
    assert document["scaling_efficiency_2"] == first.efficiency(first.points[-1])
    assert 0 < document["scaling_efficiency_2"] <= 1
    assert [each["servers"] for each in document["paper"]] == [1, 8, 128]
    assert document["paper"][-1]["efficiency"] == pytest.approx(0.68, abs=0.005)


def test_the_curves_are_drawn(alone: Study, tmp_path: Path) -> None:
    with picture(tmp_path / "figure.png") as figure:
        rates, efficiencies = plots.scaling(alone, figure=figure)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert len(rates.lines) == len(alone.curves) + 1
    assert efficiencies.get_ylabel() == "efficiency"


@pytest.mark.slow
@needs_networks
def test_real_servers_and_clients_have_networks_of_their_own() -> None:
    before = Path("/proc/self/ns/net").readlink()
    wanted = Wanted(2, 4e6, request_bytes=64 << 10, requests=4, files=3, create_seconds=0.005)
    found = measure(wanted)
    assert len(found.homes) == 2 * PROCESSES_PER_NODE
    assert set(found.homes) <= {0, 1}
    # Two links bound what two client nodes write and read, and two servers what they create.
    assert 0 < found.write_bytes_per_second < 1.5 * 2 * 4e6
    assert 0 < found.read_bytes_per_second < 1.5 * 2 * 4e6
    assert 0 < found.creates_per_second <= 2 / 0.005
    assert Path("/proc/self/ns/net").readlink() == before
    assert "WEIR_PROGRAMS" not in os.environ or not os.environ["WEIR_PROGRAMS"].startswith("/tmp/weir-bench-")


@needs_networks
def test_nodes_end_with_their_block() -> None:
    with networks.Nodes(2, bytes_per_second=1e6) as nodes:
        places = [nodes.place(number) for number in range(2)]
        assert len({place.readlink() for place in places}) == 2
        with nodes.inside(0):
            assert Path("/proc/thread-self/ns/net").readlink() == places[0].readlink()
    deadline = time.monotonic() + 10
    while any(place.exists() for place in places):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_files_on_all_targets_do_not_follow_each_other_from_target_to_target() -> None:
    """All files went on from their homes in one order, so their processes met on each target in turn: 0.2 here."""
    rates = {
        servers: simulated(
            servers,
            STRIPED,
            "job-fair",
            LINKS,
            homes=drawn_homes(servers, 0),
            file_bytes=8 << 20,
            request_bytes=256 << 10,
        ).bytes_per_second
        for servers in (1, 16)
    }
    assert rates[16] / 16 / rates[1] > 0.75
