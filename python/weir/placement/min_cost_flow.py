"""The paper's own allocation (Tarazu, algorithm 1 and figure 13), literally, on OR-tools: for comparison only.

The cost of a target does not depend on the number of its stripes, so the cheapest targets are filled to their capacity
before any other target gets a stripe. Weir places files by `balanced`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

NAME = "min-cost-flow-linear"

COST_UNIT = 1_000_000
"""Cost of a load or fill of 1: the costs of the graph are whole numbers."""


class FlowError(ValueError):
    """The flow cannot be solved: OR-tools is missing, the input is wrong, or the stripes do not fit."""


@dataclass(frozen=True)
class Graph:
    """The input of algorithm 1."""

    servers: Sequence[int]
    """For each target the place of its server in `server_loads`."""
    server_loads: Sequence[float]
    """Load of each server, from 0 to 1."""
    fills: Sequence[float]
    """Used part of each target, from 0 to 1."""
    capacities: Sequence[int]
    """Number of stripes that each target can take."""
    stripes: Sequence[int]
    """Number of stripes of each request."""

    def check(self) -> None:
        """Check that the lists fit together.

        Raises:
            FlowError: The lengths of the lists do not match, or a value is out of its range.
        """
        if not len(self.servers) == len(self.fills) == len(self.capacities):
            raise FlowError("servers, fills and capacities must have one value for each target")
        if any(not 0 <= server < len(self.server_loads) for server in self.servers):
            raise FlowError("a target lies on a server of which no load is given")
        if any(not 0.0 <= value <= 1.0 for value in (*self.server_loads, *self.fills)):
            raise FlowError("loads and fills are from 0 to 1")
        if any(value < 0 for value in self.capacities):
            raise FlowError("a capacity is negative")
        if any(not 1 <= count <= len(self.servers) for count in self.stripes):
            raise FlowError(f"a request asks for 1 to {len(self.servers)} stripes: there is one target for each")


def allocate(graph: Graph) -> list[list[int]]:
    """Solve the flow.

    Edges: source to request (capacity: its stripes), request to each target (1; cost: the load of the target's server),
    target to sink (capacity: its stripes; cost: its fill).

    Returns:
        The targets of each request, as places in `graph.servers`, in ascending order.

    Raises:
        FlowError: OR-tools is missing, the input is wrong, or not all stripes fit.
    """
    graph.check()
    try:
        import numpy as np
        from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
    except ImportError as error:
        raise FlowError(
            f"{NAME} needs OR-tools, which is not installed ({error}): pip install ortools, or use `balanced`"
        ) from error
    requests, targets = len(graph.stripes), len(graph.servers)
    source, sink = requests + targets, requests + targets + 1
    request_nodes = np.arange(requests)
    target_nodes = requests + np.arange(targets)
    load = np.asarray(graph.server_loads, dtype=float)[np.asarray(graph.servers, dtype=int)]
    server_cost = np.rint(load * COST_UNIT).astype(np.int64)
    fill_cost = np.rint(np.asarray(graph.fills, dtype=float) * COST_UNIT).astype(np.int64)
    flow = SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(
        np.full(requests, source), request_nodes, np.asarray(graph.stripes), np.zeros(requests, dtype=np.int64)
    )
    choices = flow.add_arcs_with_capacity_and_unit_cost(
        np.repeat(request_nodes, targets),
        np.tile(target_nodes, requests),
        np.ones(requests * targets, dtype=np.int64),
        np.tile(server_cost, requests),
    )
    flow.add_arcs_with_capacity_and_unit_cost(
        target_nodes, np.full(targets, sink), np.asarray(graph.capacities), fill_cost
    )
    total = int(sum(graph.stripes))
    flow.set_nodes_supplies(np.asarray([source, sink]), np.asarray([total, -total]))
    status = flow.solve()
    if status == flow.INFEASIBLE:
        raise FlowError(f"{total} stripes do not fit into the capacities of {targets} targets; ask for fewer")
    if status != flow.OPTIMAL:
        raise FlowError(f"OR-tools did not solve the flow of {requests} requests over {targets} targets: {status}")
    taken = np.asarray(flow.flows(choices)).reshape(requests, targets)
    return [np.flatnonzero(row).tolist() for row in taken]
