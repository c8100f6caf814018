"""Allocators through weir._core: against OR-tools on large cases, and what they say of wrong input."""

import itertools
import random
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
from weir import _core
from weir.placement import min_cost_flow
from weir.placement.min_cost_flow import FlowError, Graph

STRIPE_BYTES = 1 << 20


@dataclass(frozen=True)
class Case:
    """Targets and requests in whole stripes; a slope is one over a speed, 0 for a server that is never narrow."""

    servers: list[int]
    loads: list[int]
    slopes: list[int]
    rooms: list[int]
    server_loads: list[int]
    server_slopes: list[int]
    stripes: list[int]

    def allocate(self) -> _core.Allocation:
        names = [str(target) for target in range(len(self.servers))]
        speeds = {str(server): 1.0 / slope for server, slope in enumerate(self.server_slopes) if slope}
        return _core.Allocator("balanced").allocate(
            names,
            self.stripes,
            [STRIPE_BYTES] * len(self.stripes),
            servers=[str(server) for server in self.servers],
            speeds=[1.0 / slope for slope in self.slopes],
            loads_bytes=[float(load * STRIPE_BYTES) for load in self.loads],
            free_bytes=[room * STRIPE_BYTES for room in self.rooms],
            server_speeds=speeds,
            server_loads_bytes={name: float(self.server_loads[int(name)] * STRIPE_BYTES) for name in speeds},
        )

    def least_cost(self) -> int | None:
        """The optimum in stripes squared: a flow over parallel unit edges; None where not all stripes fit."""
        requests, targets, servers = len(self.stripes), len(self.servers), len(self.server_loads)
        source, sink = requests + targets + servers, requests + targets + servers + 1
        edges: list[tuple[int, int, int, int]] = []
        edges += [(source, request, count, 0) for request, count in enumerate(self.stripes)]
        edges += [(request, requests + target, 1, 0) for request in range(requests) for target in range(targets)]
        for target, server in enumerate(self.servers):
            # The k-th stripe costs (L + k)^2 - (L + k - 1)^2 more.
            for k in range(1, min(requests, self.rooms[target]) + 1):
                cost = (2 * (self.loads[target] + k) - 1) * self.slopes[target]
                edges.append((requests + target, requests + targets + server, 1, cost))
        for server, (load, slope) in enumerate(zip(self.server_loads, self.server_slopes, strict=True)):
            most = self.servers.count(server) * requests
            edges += [(requests + targets + server, sink, 1, (2 * (load + k) - 1) * slope) for k in range(1, most + 1)]
        flow = SimpleMinCostFlow()
        columns = np.asarray(edges, dtype=np.int64).T
        flow.add_arcs_with_capacity_and_unit_cost(*columns)
        total = sum(self.stripes)
        flow.set_nodes_supplies(np.asarray([source, sink]), np.asarray([total, -total]))
        if flow.solve() == flow.INFEASIBLE:
            return None
        before = sum(load**2 * slope for load, slope in zip(self.loads, self.slopes, strict=True))
        before += sum(load**2 * slope for load, slope in zip(self.server_loads, self.server_slopes, strict=True))
        return before + int(flow.optimal_cost())


def case_of(seed: int, *, counts: list[int], tight: bool, speeds: bool, servers: bool, idle: int) -> Case:
    """40 servers of 6 targets; `idle` of the targets have nothing to do and all others much."""
    draw = random.Random(seed)
    targets, requests = 240, 150
    stripes = [draw.choice(counts) for _ in range(requests)]
    room = 2 * sum(stripes) // targets + 2
    return Case(
        servers=[target // 6 for target in range(targets)],
        loads=[draw.randrange(4) if target < idle else draw.randrange(40, 200) for target in range(targets)],
        slopes=[draw.choice([1, 1, 2, 7]) if speeds else 1 for _ in range(targets)],
        rooms=[draw.randrange(room) if tight else requests for _ in range(targets)],
        server_loads=[draw.randrange(100) for _ in range(40)],
        server_slopes=[draw.choice([0, 1, 3]) if servers else 0 for _ in range(40)],
        stripes=stripes,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("servers", [False, True])
@pytest.mark.parametrize("speeds", [False, True])
@pytest.mark.parametrize(("tight", "idle"), [(False, 240), (False, 9), (True, 240), (True, 60)])
@pytest.mark.parametrize("counts", [[8], [1, 3, 8, 16]])
def test_balanced_costs_what_the_optimal_flow_costs(
    seed: int, servers: bool, speeds: bool, tight: bool, idle: int, counts: list[int]
) -> None:
    case = case_of(seed, counts=counts, tight=tight, speeds=speeds, servers=servers, idle=idle)
    least = case.least_cost()
    if least is None:
        with pytest.raises(ValueError, match="stripes do not fit"):
            case.allocate()
        return
    allocation = case.allocate()
    assert allocation.cost / STRIPE_BYTES**2 == pytest.approx(least, rel=1e-9)
    assert allocation.ratio == 1.0
    taken = [0] * len(case.servers)
    for targets, count in zip(allocation.targets, case.stripes, strict=True):
        assert len(set(targets)) == len(targets) == count
        for target in targets:
            taken[int(target)] += 1
    assert all(count <= room for count, room in zip(taken, case.rooms, strict=True))
    loads = [(load + count) * STRIPE_BYTES for load, count in zip(case.loads, taken, strict=True)]
    assert allocation.loads_bytes == pytest.approx(loads)


def test_what_does_not_fit_is_counted_as_the_greatest_flow_leaves_it() -> None:
    # Two targets with room for 1 and 5: three requests of 2 stripes can have 3 + 1 stripes at most.
    with pytest.raises(ValueError, match="2 of 6 stripes do not fit"):
        _core.Allocator().allocate(["0", "1"], [2, 2, 2], [10] * 3, free_bytes=[19, 50])


def test_flat_is_targets_in_one_row() -> None:
    names = [f"{server}.{index}" for server in range(7) for index in range(5)]
    allocation = _core.Allocator().allocate(names, [8, 1, 16], [5, 5, 5])
    flat = np.frombuffer(allocation.flat, dtype=np.uint32)
    assert [names[place] for place in flat] == [name for targets in allocation.targets for name in targets]
    assert sys.byteorder in ("little", "big")


def test_stripes_of_a_request_spread_over_servers() -> None:
    names = [f"{server}.{index}" for server in range(7) for index in range(5)]
    for targets in _core.Allocator().allocate(names, [8] * 128, [5] * 128).targets:
        servers = [name.split(".")[0] for name in targets]
        assert sorted(servers.count(server) for server in set(servers)) == [1] * 6 + [2]
        assert all(one != other for one, other in itertools.pairwise(servers))


def test_unequal_stripes_say_how_far_from_the_best_they_are() -> None:
    draw = random.Random(4)
    names = [str(target) for target in range(35)]
    counts = [draw.randrange(1, 17) for _ in range(200)]
    sizes = [draw.randrange(1 << 20, 1 << 30) for _ in counts]
    allocation = _core.Allocator().allocate(names, counts, sizes)
    assert allocation.bound is not None
    assert allocation.ratio is not None
    assert 1.0 <= allocation.ratio < 1.01
    assert max(allocation.loads_bytes) < 1.02 * sum(allocation.loads_bytes) / 35


def test_hundreds_of_contending_counts_end_with_a_bound() -> None:
    case = case_of(1, counts=list(range(1, 241)), tight=False, speeds=True, servers=True, idle=100)
    more = replace(case, stripes=[1 + request % 240 for request in range(960)], rooms=[960] * 240)
    allocation = more.allocate()
    assert allocation.ratio is not None
    assert 1.0 <= allocation.ratio < 1.1
    for targets, count in zip(allocation.targets, more.stripes, strict=True):
        assert len(set(targets)) == len(targets) == count


@pytest.mark.parametrize("name", ["lustre-standard", "random"])
def test_the_same_seed_draws_the_same(name: str) -> None:
    free = [1 << 40, 1 << 39, 1 << 30, 1 << 40] * 4
    names = [str(target) for target in range(16)]

    def drawn(seed: int) -> list[list[str]]:
        allocator = _core.Allocator(name, seed=seed)
        return [row for _ in range(3) for row in allocator.allocate(names, [4] * 9, [1] * 9, free_bytes=free).targets]

    assert drawn(7) == drawn(7) != drawn(8)


def test_names_are_listed_where_one_is_unknown() -> None:
    assert _core.allocator_names() == ["balanced", "lustre-standard", "random"]
    assert [_core.Allocator(name).name for name in _core.allocator_names()] == _core.allocator_names()
    with pytest.raises(ValueError, match="unknown allocator `best`: expected one of balanced, lustre-standard, random"):
        _core.Allocator("best")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"targets": ["3.1", "3.1"]}, "target 3.1 occurs twice"),
        ({"targets": ["3.1", "x"]}, "`x` is no target: write SERVER.INDEX"),
        ({"targets": ["+3"]}, "is no target"),
        ({"targets": []}, "no target can take stripes: all 0"),
        ({"speeds": [0.0, -1.0]}, "all 2 are full, dead or have no speed"),
        ({"speeds": [1.0, float("nan")]}, "target 1.0 has speed NaN"),
        ({"loads_bytes": [1.0, -1.0]}, "target 1.0 has speed 1 and load -1"),
        ({"speeds": [1.0]}, "speeds has 1 values where 2 are expected"),
        ({"servers": ["a", "b", "c"]}, "servers has 3 values where 2 are expected"),
        ({"stripes": [1, 1]}, "stripe_bytes has 1 values where 2 are expected"),
        ({"stripes": [0]}, "demand 0 asks for no stripes"),
        ({"stripes": [3]}, "demand 0 asks for 3 stripes on distinct targets, and only 2 targets"),
        ({"stripes": [2], "free_bytes": [9, 100]}, "1 of 2 stripes do not fit"),
        ({"server_speeds": {"9": 1.0}}, "no target lies on server 9"),
        ({"server_loads_bytes": {"0": float("inf")}}, "server 0 has speed inf and load inf"),
    ],
)
@pytest.mark.parametrize("name", ["balanced"])
def test_wrong_input_is_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    plain: dict[str, Any] = {"targets": ["0.0", "1.0"], "stripes": [1], "stripe_bytes": [10]}
    with pytest.raises(ValueError, match=message):
        _core.Allocator(name).allocate(**(plain | arguments))


def test_space_factors_follow_free_space_beyond_the_window() -> None:
    assert _core.space_factors([100, 90, 0], [100, 100, 100]) == [1.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="total_bytes has 1 values"):
        _core.space_factors([1, 2], [1])


def test_the_papers_graph_gives_every_request_the_same_targets() -> None:
    servers = [target // 8 for target in range(80)]
    graph = Graph(servers, [0.1] * 10, [target / 80 for target in range(80)], [1000] * 80, [8] * 50)
    assert min_cost_flow.allocate(graph) == [list(range(8))] * 50


def test_the_papers_graph_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FlowError, match="4 stripes do not fit into the capacities of 2 targets"):
        min_cost_flow.allocate(Graph([0, 0], [0.0], [0.0, 0.0], [1, 1], [2, 2]))
    with pytest.raises(FlowError, match="asks for 1 to 2 stripes"):
        min_cost_flow.allocate(Graph([0, 0], [0.0], [0.0, 0.0], [1, 1], [3]))
    with pytest.raises(FlowError, match="loads and fills are from 0 to 1"):
        min_cost_flow.allocate(Graph([0], [0.0], [1.5], [1], [1]))
    monkeypatch.setitem(sys.modules, "ortools.graph.python.min_cost_flow", None)
    with pytest.raises(FlowError, match=r"needs OR-tools, which is not installed .*pip install ortools"):
        min_cost_flow.allocate(Graph([0], [0.0], [0.0], [1], [1]))
