"""The performance model: from a storage system to its rates, fitted from measured objectives (LuxIO, section III-D).

The logarithm of a rate is a curve over the number of devices, for each product and class of devices, and an effect for
each setting. The curve joins the means of the measured counts. The effect of a setting is shrunk by the part of it that
noise explains, so a setting that the measurements cannot tell from another has none.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Literal

import msgspec

from weir.provisioning.needs import KINDS, rate
from weir.provisioning.sslos import Guarantees, Sensitivities, Sslo, System

Basis = Literal["measured", "another system", "devices", "assumed"]
"""Ground of an expectation: measured systems of the kind, another product on such devices, the devices' own rates,
or rates that are assumed of their class."""
ASSUMED_RATES: Mapping[str, tuple[float, float]] = {
    "disk": (150e6, 150e6),
    "hdd": (150e6, 150e6),
    "ssd": (500e6, 450e6),
    "nvme": (2.5e9, 1.5e9),
    "pmem": (5e9, 2e9),
    "memory": (5e9, 5e9),
}
"""Rates of reads and writes of one device (bytes/s), for classes of which neither the site nor a table knows more: what
vendors state of common devices. A plan that rests on them says so."""
CONFIGURATIONS_MAX = 4096
"""Configurations of a product that are compared; a table with more combinations gives those that were measured."""
_COUNTS_FACTOR_MAX = 4
"""A curve is followed up to this many times the greatest measured count, and is level from there."""
_QUANTITIES = (*KINDS, "small", "random", "mixed", "shared_file", "concurrency")


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates that a system is expected to have."""

    guarantees: Guarantees
    sensitivities: Sensitivities
    basis: Basis


class _Curve:
    """The mean logarithm of a quantity over the logarithm of the number of devices."""

    def __init__(self, points: Mapping[int, float]) -> None:
        self.counts = sorted(points)
        self.values = [points[count] for count in self.counts]

    def at(self, devices: int, *, grows: bool) -> float:
        """The value for a number of devices; a quantity that grows falls in proportion below the least count."""
        places = [math.log2(count) for count in self.counts]
        place = math.log2(devices)
        if place <= places[0]:
            return self.values[0] + (place - places[0]) * math.log(2) * grows
        slope = 0.0
        if len(places) > 1:
            right = min(bisect_left(places, place), len(places) - 1)
            run = places[right] - places[right - 1]
            slope = (self.values[right] - self.values[right - 1]) / run
            if place <= places[-1]:
                return self.values[right - 1] + slope * (place - places[right - 1])
            # More devices never give more than their number, and a dip between two counts is no reason for another.
            slope = min(max(slope, 0.0), math.log(2))
        elif grows:
            return self.values[0]
        over = min(place, places[-1] + math.log2(_COUNTS_FACTOR_MAX)) - places[-1]
        return self.values[-1] + slope * over * grows


class _Group:
    """The measured systems of one product and class of devices."""

    def __init__(self, sslos: Sequence[Sslo]) -> None:
        self._curves: dict[str, _Curve] = {}
        self._effects: dict[str, dict[tuple[str, str], float]] = {}
        values: dict[str, set[str]] = {}
        for each in sslos:
            for name, text in each.system.settings.items():
                values.setdefault(name, set()).add(text)
        self.settings = {name: tuple(sorted(found)) for name, found in sorted(values.items())}
        """Values that each setting had."""
        self.configurations = _configurations(self.settings, sslos)
        for quantity in _QUANTITIES:
            rows = [(each.system, value) for each in sslos if (value := _quantity(each, quantity)) is not None]
            if rows:
                self._fit(quantity, [(system, math.log(max(value, 1e-12))) for system, value in rows])

    def _fit(self, quantity: str, rows: Sequence[tuple[System, float]]) -> None:
        at: dict[int, list[float]] = {}
        for system, value in rows:
            at.setdefault(devices_of(system), []).append(value)
        means = {count: fmean(found) for count, found in at.items()}
        residuals = [value - means[devices_of(system)] for system, value in rows]
        self._curves[quantity] = _Curve(means)
        self._effects[quantity] = _shrunk_effects([system.settings for system, _ in rows], residuals)

    def value(self, quantity: str, devices: int, settings: Mapping[str, str]) -> float | None:
        """The expected value of a quantity; None where it was not measured."""
        curve = self._curves.get(quantity)
        if curve is None:
            return None
        effects = self._effects[quantity]
        shift = sum(effects.get(each, 0.0) for each in settings.items())
        return math.exp(curve.at(devices, grows=quantity in KINDS) + shift)


class PerformanceModel:
    """Expected rates of systems."""

    def __init__(self, sslos: Sequence[Sslo]) -> None:
        """Fit the model.

        Args:
            sslos: Measured objectives.
        """
        groups: dict[tuple[str, str], list[Sslo]] = {}
        for each in sslos:
            groups.setdefault((each.system.kind, each.system.device), []).append(each)
        self._groups = {key: _Group(found) for key, found in groups.items()}

    def configurations(self, kind: str, device: str) -> Sequence[Mapping[str, str]]:
        """The configurations that the model can tell apart.

        Args:
            kind: Product.
            device: Class of devices.

        Returns:
            All combinations of the measured values of its settings; one empty configuration where none was measured.
        """
        group = self._groups.get((kind, device))
        return group.configurations if group is not None else ({},)

    def expect(
        self,
        system: System,
        *,
        device_read_bytes_per_second: float | None = None,
        device_write_bytes_per_second: float | None = None,
    ) -> Expectation | None:
        """The rates of a system.

        Args:
            system: The system.
            device_read_bytes_per_second: Rate of one device, which bounds the system; None where it is unknown.
            device_write_bytes_per_second: The same, of writes.

        Returns:
            The rates; None where neither the system nor its devices are known.
        """
        group = self._groups.get((system.kind, system.device))
        basis: Basis = "measured"
        settings = system.settings
        own = (device_read_bytes_per_second, device_write_bytes_per_second)
        if group is None and own == (None, None):
            other = next((key for key in sorted(self._groups) if key[1] == system.device), None)
            if other is None:
                own, basis = ASSUMED_RATES.get(system.device, (None, None)), "assumed"
            else:
                group, basis, settings = self._groups[other], "another system", {}
        devices = devices_of(system)
        if group is None:
            if own == (None, None):
                return None
            basis = "devices" if basis == "measured" else basis
            values: dict[str, float | None] = dict.fromkeys(_QUANTITIES)
            values["read"], values["write"] = (each and each * devices for each in own)
        else:
            values = {quantity: group.value(quantity, devices, settings) for quantity in _QUANTITIES}
        network = system.network_bytes_per_second
        bounds = [None if each is None else each * devices for each in own]
        bounds = [_least(bound, None if network is None else network * system.servers) for bound in bounds]
        return Expectation(
            guarantees=Guarantees(
                read_bytes_per_second=_bounded(values["read"], bounds[0]),
                write_bytes_per_second=_bounded(values["write"], bounds[1]),
                metadata_operations_per_second=values["metadata"],
            ),
            sensitivities=Sensitivities(
                **{name: _bounded(values[name], 1.0) for name in _QUANTITIES if name not in KINDS}
            ),
            basis=basis,
        )


def devices_of(system: System) -> int:
    """The devices of a system.

    Args:
        system: The system.

    Returns:
        Their number.
    """
    return system.servers * system.targets_per_server


def _quantity(sslo: Sslo, quantity: str) -> float | None:
    found: dict[str, float | None] = msgspec.structs.asdict(sslo.sensitivities)
    found |= {kind: rate(sslo.guarantees, kind) for kind in KINDS}
    return found[quantity]


def _bounded(value: float | None, bound: float | None) -> float | None:
    return value if bound is None or value is None else min(value, bound)


def _least(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _configurations(settings: Mapping[str, Sequence[str]], sslos: Sequence[Sslo]) -> Sequence[Mapping[str, str]]:
    if math.prod(map(len, settings.values())) <= CONFIGURATIONS_MAX:
        return tuple(dict(zip(settings, values, strict=True)) for values in product(*settings.values()))
    seen = {tuple(sorted(each.system.settings.items())) for each in sslos}
    return tuple(dict(each) for each in sorted(seen)[:CONFIGURATIONS_MAX])


def _shrunk_effects(settings: Sequence[Mapping[str, str]], residuals: Sequence[float]) -> dict[tuple[str, str], float]:
    """The effect of each value of each setting, by the positive-part estimator of James and Stein.

    A mean of residuals is shrunk by the part of its square that its standard error explains.
    """
    count = len(residuals)
    if count < 3:
        return {}
    by_value: dict[tuple[str, str], list[float]] = {}
    for each, residual in zip(settings, residuals, strict=True):
        for pair in each.items():
            by_value.setdefault(pair, []).append(residual)
    variance = sum(residual * residual for residual in residuals) / (count - 1)
    effects = {}
    for pair, found in by_value.items():
        mean = fmean(found)
        error = variance / len(found)
        if mean * mean > error:
            effects[pair] = mean * (1.0 - error / (mean * mean))
    return effects
