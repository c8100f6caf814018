"""Allocation of many requests over a large file system, beside the paper's graph on OR-tools and on networkx.

make bench-allocation       every figure; the last line is one JSON object
.venv/bin/python benchmarks/allocation.py balanced literal networkx

3,600 targets on 450 servers, each with a load of its own. `balanced` is timed in Rust; the graphs are built and solved
in a process of their own each, and networkx is stopped after a while: what it needs is more than that.
"""

import json
import multiprocessing
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection

from _harness import ROOT, WAIT_SECONDS, announce, finish
from weir.placement import min_cost_flow
from weir.placement.min_cost_flow import Graph

SEED = 1
SERVERS = 450
TARGETS = 3600
REQUESTS = 1000
STRIPES = 8
LOAD_STRIPES_MAX = 10
"""Most stripes of work that a target has before; the graph's fill is this load over twice its maximum."""
NETWORKX_SECONDS_MAX = 60.0
NETWORKX_SMALL = (50, 180)
"""Requests and targets of the case that networkx finishes: a four-hundredth of the edges."""
LIMITS_MS = {"allocation": 1.0, "allocation_general": 50.0, "allocation_100k": 1000.0}
"""Required times in milliseconds: for one stripe count, for mixed counts, and for 100,000 requests."""
COMMAND = ("cargo", "run", "--quiet", "--release", "--locked", "--package", "weir-placement", "--example", "allocation")


def balanced() -> dict[str, float]:
    """Times of the allocators in milliseconds, and the fullest target."""
    output = subprocess.run(COMMAND, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS)
    figures: dict[str, float] = json.loads(output.stdout)
    for name, limit in LIMITS_MS.items():
        own = figures[f"{name}_ms"]
        announce(name, f"{own:.2f} ms", f"asked: below {limit:g} ms", own / limit)
    fullest, even = figures["allocation_fullest_stripes"], figures["lustre_standard_fullest_stripes"]
    announce("fullest target", f"{fullest:g} stripes", f"lustre-standard {even:g} stripes", fullest / even)
    return figures


def literal() -> dict[str, float]:
    """The paper's graph on OR-tools: its time, and the fullest target."""
    graph, loads = case(REQUESTS, TARGETS)
    start = time.perf_counter()
    allocation = min_cost_flow.allocate(graph)
    seconds = time.perf_counter() - start
    given = Counter(target for targets in allocation for target in targets)
    fullest = max(loads[target] + count for target, count in given.items())
    most = max(given.values())
    limit = f"{LIMITS_MS['allocation']:g} ms; {len(given)} targets used"
    announce("graph on OR-tools", f"{1000 * seconds:.0f} ms", limit, 1000 * seconds / LIMITS_MS["allocation"])
    return {
        "literal_graph_ms": 1000 * seconds,
        "literal_graph_targets_used": len(given),
        "literal_graph_stripes_on_one_target": most,
        "literal_graph_fullest_stripes": fullest,
    }


def on_networkx() -> dict[str, float]:
    """The paper's graph on networkx: a small case to its end, and the whole one until its time is up."""
    small = bounded(*NETWORKX_SMALL)
    whole = bounded(REQUESTS, TARGETS)
    is_bound = whole is None
    figures = {
        "networkx_seconds": NETWORKX_SECONDS_MAX if whole is None else whole,
        "networkx_seconds_is_lower_bound": float(is_bound),
    }
    if small is not None:
        requests, targets = NETWORKX_SMALL
        announce(
            "networkx, small", f"{small:.1f} s", f"{requests} requests, {targets} targets", small / NETWORKX_SECONDS_MAX
        )
        figures["networkx_small_seconds"] = small
    word = "stopped after" if is_bound else "took"
    seconds = figures["networkx_seconds"]
    announce(
        "networkx, whole",
        f"{word} {seconds:.0f} s",
        f"{REQUESTS} requests, {TARGETS} targets",
        seconds / NETWORKX_SECONDS_MAX,
    )
    return figures


def case(requests: int, targets: int) -> tuple[Graph, list[int]]:
    """The paper's graph of loaded targets with room for all, and their loads in stripes."""
    draw = random.Random(SEED)
    loads = [draw.randrange(LOAD_STRIPES_MAX + 1) for _ in range(targets)]
    servers = [target * SERVERS // TARGETS for target in range(targets)]
    of_server: list[list[int]] = [[] for _ in range(max(servers) + 1)]
    for server, load in zip(servers, loads, strict=True):
        of_server[server].append(load)
    server_loads = [sum(loads) / len(loads) / LOAD_STRIPES_MAX for loads in of_server]
    fills = [load / (2 * LOAD_STRIPES_MAX) for load in loads]
    return Graph(servers, server_loads, fills, [requests] * targets, [STRIPES] * requests), loads


def bounded(requests: int, targets: int) -> float | None:
    """Seconds that networkx takes for a case; None where it was stopped."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=solve, args=(requests, targets, sender))
    child.start()
    sender.close()
    child.join(NETWORKX_SECONDS_MAX)
    if child.is_alive():
        child.kill()
        child.join()
        return None
    return float(receiver.recv())


def solve(requests: int, targets: int, sender: Connection) -> None:
    """Send the seconds that networkx takes for the paper's graph."""
    import networkx

    graph, _ = case(requests, targets)
    flow = networkx.DiGraph()
    total = sum(graph.stripes)
    flow.add_node("source", demand=-total)
    flow.add_node("sink", demand=total)
    start = time.perf_counter()
    for request, count in enumerate(graph.stripes):
        flow.add_edge("source", ("request", request), capacity=count, weight=0)
    for target, server in enumerate(graph.servers):
        cost = round(graph.server_loads[server] * min_cost_flow.COST_UNIT)
        for request in range(len(graph.stripes)):
            flow.add_edge(("request", request), target, capacity=1, weight=cost)
        fill = round(graph.fills[target] * min_cost_flow.COST_UNIT)
        flow.add_edge(target, "sink", capacity=graph.capacities[target], weight=fill)
    networkx.min_cost_flow(flow)
    sender.send(time.perf_counter() - start)


PARTS: dict[str, Callable[[], dict[str, float]]] = {"balanced": balanced, "literal": literal, "networkx": on_networkx}


def allocation(names: Iterable[str] = PARTS) -> dict[str, float]:
    """The figures of the named parts."""
    figures: dict[str, float] = {}
    for name in names:
        figures |= PARTS[name]()
    return figures


if __name__ == "__main__":
    finish("allocation", allocation(sys.argv[1:] or PARTS))
