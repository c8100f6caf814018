"""The whole of ThemisIO's figure 7: costs measured here, real servers as far as two cores carry, simulated ones on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from weir.experiments import scaling
from weir.experiments.scaling import PROCESSES_PER_NODE, Rates, Wanted
from weir.experiments.tidy import Observation, Parameter, observed
from weir.simulation.scaling import (
    PAPER_BYTES_PER_SECOND,
    PAPER_LINK,
    PLACEMENTS,
    REQUEST_BYTES,
    Costs,
    Placement,
    Point,
    creates_per_second,
    drawn_homes,
    even_homes,
    simulated,
)

Say = Callable[[str], None]

FORMAT_VERSION = 1
"""Version of the document."""
_RATES = {"write_bytes_per_second": "B/s", "read_bytes_per_second": "B/s"}
_POLICIES = ("job-fair", "fifo")
"""The policies that the paper compares; the first one's figures are shown."""
_REAL_REQUEST_BYTES = 256 * 1024
_REAL_CREATE_SECONDS = 0.005
"""Emulated time of a create in the real part: slow enough that servers share their time and not this machine's."""
_COST_REQUESTS = 64
_COST_FILES = 100
_SMALL_BYTES = 4096
_SMALL_REQUESTS = 2000


@dataclass(frozen=True)
class Compared:
    """Real servers, and the same in the simulator, told the speed of the links and the homes of the trees."""

    real: Rates
    simulated: Point
    simulated_creates_per_second: float


@dataclass(frozen=True)
class Creates:
    """Simulated creates, in trees whose homes a hash draws, and in evenly spread trees."""

    servers: int
    drawn: float
    even: float


@dataclass(frozen=True)
class Curve:
    """Simulated numbers of servers, from 1 on, under one rule."""

    placement: Placement
    policy: str
    bound: str
    """The bound of a server's rate: its `links`, or its `costs` as measured here."""
    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        """Name for people."""
        return f"{self.placement.name}, {self.policy}, bound by {self.bound}"

    def efficiency(self, point: Point) -> float:
        """Compare a number of servers with one server.

        Returns:
            The rate of the slower direction over that many times the rate of one server.
        """
        return point.bytes_per_second / point.servers / self.points[0].bytes_per_second


@dataclass
class Study:
    """The results."""

    speed: float
    """Bytes a second of each link of the real part."""
    costs: Costs | None
    """Costs of this machine; None where there can be no nodes here."""
    real: list[Compared]
    curves: list[Curve]
    """Simulated servers on the paper's links."""
    creates: list[Creates]

    def document(self) -> dict[str, Any]:
        """Describe the results.

        Returns:
            Values for JSON, in bytes and seconds.
        """
        paper = [
            {"servers": count, "bytes_per_second": rate, "efficiency": rate / count / PAPER_BYTES_PER_SECOND[1]}
            for count, rate in PAPER_BYTES_PER_SECOND.items()
        ]
        # Where costs were measured, their curve comes first.
        first = self.curves[0]
        most = first.points[-1].servers
        return {
            "version": FORMAT_VERSION,
            "figure": "figure-7",
            "paper": paper,
            "speed": self.speed,
            "costs": asdict(self.costs) if self.costs else None,
            "real": [asdict(each) for each in self.real],
            "simulated": [
                {"bound": curve.bound, **asdict(point), "efficiency": curve.efficiency(point)}
                for curve in self.curves
                for point in curve.points
            ],
            "creates": [asdict(each) for each in self.creates],
            f"scaling_efficiency_{most}": first.efficiency(first.points[-1]),
            f"scaling_efficiencies_{most}": {curve.name: curve.efficiency(curve.points[-1]) for curve in self.curves},
        }

    def observations(self) -> Iterator[Observation]:
        """List the figures: rates of real servers, and of the same and of more in the simulator.

        Yields:
            The figures, number of servers by number.
        """
        for each in self.real:
            beside: dict[str, Parameter] = {"servers": each.real.servers, "link_bytes_per_second": self.speed}
            yield from observed({**beside, "run": "real"}, {**_RATES, "creates_per_second": "1/s"}, each.real)
            told = {**beside, "run": "simulated beside the real"}
            yield from observed(told, _RATES, each.simulated)
            yield Observation(told, "creates_per_second", each.simulated_creates_per_second, "1/s")
        for curve in self.curves:
            rule: dict[str, Parameter] = {"run": "simulated", "placement": curve.placement.name}
            rule |= {"policy": curve.policy, "bound": curve.bound}
            for point in curve.points:
                of_point = {**rule, "servers": point.servers}
                yield from observed(of_point, _RATES, point)
                yield Observation(of_point, "efficiency", curve.efficiency(point), "1")


def study(*, seconds: float, speed: float, real: Sequence[int], servers: Sequence[int], say: Say) -> Study:
    """Run the experiment.

    Args:
        seconds: Time that each link of the real part needs for the writes of a node, and again for its reads.
        speed: Bytes a second of each link of the real part.
        real: Numbers of real servers; with none, costs are not measured either.
        servers: Numbers of simulated servers, the first of which is 1.
        say: Called with a sentence for each run.

    Raises:
        ExperimentError: There can be no nodes here, or a process of the load fails.
        StoreError: The store does not come up, or does not answer.
        ScenarioError: The simulator cannot run a number of servers.
    """
    costs = _measured_costs(say) if real else None
    compared = []
    for count in real:
        say(f"real: {count} servers and client nodes of {PROCESSES_PER_NODE} processes, links of {speed / 1e6:g} MB/s")
        compared.append(_compared(count, seconds, speed, costs))
    links = Costs(PAPER_LINK, costs.request_seconds if costs else 0.0, None, None, 0.0)
    wanted = [(PLACEMENTS[0], _POLICIES[0], "costs", costs)] if costs else []
    wanted += [(PLACEMENTS[0], policy, "links", links) for policy in _POLICIES]
    wanted += [(placement, _POLICIES[0], "links", links) for placement in PLACEMENTS[1:]]
    curves = []
    for placement, policy, bound, told in wanted:
        say(f"simulated: {placement.name}, {policy}, bound by {bound}, {', '.join(map(str, servers))} servers")
        points = (simulated(count, placement, policy, told, homes=drawn_homes(count, 0)) for count in servers)
        curves.append(Curve(placement, policy, bound, tuple(points)))
    creates = [
        Creates(
            count,
            creates_per_second(count, drawn_homes(count, 0), costs),
            creates_per_second(count, even_homes(count), costs),
        )
        for count in servers
        if costs
    ]
    return Study(speed, costs, compared, curves, creates)


def _measured_costs(say: Say) -> Costs:
    """The costs of this machine's servers and network, without a bound on the links."""
    say("costs: one server and a client node, links as fast as this machine's")
    alone = scaling.measure(
        Wanted(
            servers=1,
            bytes_per_second=None,
            request_bytes=REQUEST_BYTES,
            requests=_COST_REQUESTS,
            files=_COST_FILES,
        )
    )
    small = scaling.measure(
        Wanted(
            servers=1,
            bytes_per_second=None,
            request_bytes=_SMALL_BYTES,
            requests=_SMALL_REQUESTS,
            files=1,
            processes=1,
        )
    )
    return Costs(
        link_bytes_per_second=PAPER_LINK,
        request_seconds=_SMALL_BYTES / small.read_bytes_per_second,
        write_bytes_per_second=alone.write_bytes_per_second,
        read_bytes_per_second=alone.read_bytes_per_second,
        create_seconds=1 / alone.creates_per_second,
    )


def _compared(servers: int, seconds: float, speed: float, costs: Costs | None) -> Compared:
    requests = max(round(seconds * speed / PROCESSES_PER_NODE / _REAL_REQUEST_BYTES), 1)
    files = max(round(seconds / 2 / _REAL_CREATE_SECONDS / PROCESSES_PER_NODE), 1)
    wanted = Wanted(
        servers=servers,
        bytes_per_second=speed,
        request_bytes=_REAL_REQUEST_BYTES,
        requests=requests,
        files=files,
        create_seconds=_REAL_CREATE_SECONDS,
    )
    real = scaling.measure(wanted)
    told = Costs(speed, costs.request_seconds if costs else 0.0, None, None, _REAL_CREATE_SECONDS)
    point = simulated(
        servers,
        PLACEMENTS[0],
        wanted.policy,
        told,
        homes=real.homes,
        file_bytes=requests * _REAL_REQUEST_BYTES,
        request_bytes=_REAL_REQUEST_BYTES,
    )
    return Compared(real, point, creates_per_second(servers, real.homes, told, creates=files))
