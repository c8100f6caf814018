"""The performance model: from a storage system to its rates, fitted from measured objectives (LuxIO, section III-D).

The logarithm of a rate is a curve over the number of devices, for each product and class of devices, and an effect for
each setting. The curve joins the means of the measured counts. The effect of a setting is shrunk by the part of it that
noise explains, so a setting that the measurements cannot tell from another has none.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from statistics import fmean
from typing import Literal

import msgspec

from weir.provisioning.objectives.device_classes import DEVICES
from weir.provisioning.objectives.sslos import Guarantees, Sensitivities, Sslo, System
from weir.provisioning.planning.needs import KINDS, rate

Basis = Literal["measured", "simulated", "devices", "another system", "assumed"]
"""Ground of an expectation: measured systems of the kind, simulated ones, the devices' own rates, another product on
such devices, or rates that are assumed of their class."""
ASSUMED_RATES: Mapping[str, tuple[float, float]] = {"disk": (150e6, 150e6), "memory": (5e9, 5e9)}
"""Rates of reads and writes of one device (bytes/s), for classes that are neither measured nor simulated. A plan that
rests on them says so."""
CONFIGURATIONS_MAX = 4096
"""Configurations of a product that are compared; a table with more combinations gives those that were measured."""
_COUNTS_KEPT_MAX = 4096
"""Numbers of devices whose values are kept: the search for the fewest servers asks for the same ones again."""
_EXPECTATIONS_KEPT_MAX = 1 << 14
"""Expectations that are kept, some 14 MB: jobs of a site ask for the same systems again and again."""
_COUNTS_FACTOR_MAX = 4
"""A curve is followed up to this many times the greatest measured count, and is level from there."""
Values = tuple[tuple[str, str], ...]
"""Settings with their values, by the order of their names."""
SETTINGS_MAX = 8
"""Settings of one product whose effects are estimated; a table that varies more has those that come first by name."""
_QUANTITIES = (*KINDS, "small", "random", "mixed", "shared_file", "concurrency")


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates that a system is expected to have."""

    guarantees: Guarantees
    sensitivities: Sensitivities
    basis: Basis


class _Curve:
    """The mean logarithm of a quantity over the logarithm of the number of devices."""

    def __init__(self, points: Mapping[int, float]) -> None:
        self._places = [math.log2(count) for count in sorted(points)]
        self._values = [points[count] for count in sorted(points)]

    def at(self, devices: int, *, grows: bool) -> float:
        """The value for a number of devices; a quantity that grows falls in proportion below the least count."""
        places, values = self._places, self._values
        place = math.log2(devices)
        if place <= places[0]:
            return values[0] + (place - places[0]) * math.log(2) * grows
        slope = 0.0
        if len(places) > 1:
            right = min(bisect_left(places, place), len(places) - 1)
            run = places[right] - places[right - 1]
            slope = (values[right] - values[right - 1]) / run
            if place <= places[-1]:
                return values[right - 1] + slope * (place - places[right - 1])
            # More devices never give more than their number, and a dip between two counts is no reason for another.
            slope = min(max(slope, 0.0), math.log(2))
        elif grows:
            return values[0]
        over = min(place, places[-1] + math.log2(_COUNTS_FACTOR_MAX)) - places[-1]
        return values[-1] + slope * over * grows


class _Group:
    """The measured systems of one product and class of devices."""

    def __init__(self, sslos: Sequence[Sslo]) -> None:
        self._curves: dict[str, _Curve] = {}
        self._effects: dict[str, dict[Values, float]] = {}
        values: dict[str, set[str]] = {}
        for each in sslos:
            for name, text in each.system.settings.items():
                values.setdefault(name, set()).add(text)
        settings = {name: tuple(sorted(found)) for name, found in sorted(values.items())}
        self._configurations = _configurations(settings, sslos)
        self._stripes_max = max(map(_stripes, self._configurations))
        self._bases: dict[int, dict[str, float]] = {}
        for quantity in _QUANTITIES:
            rows = [(each.system, value) for each in sslos if (value := _quantity(each, quantity)) is not None]
            if rows:
                self._fit(quantity, [(system, math.log(max(value, 1e-12))) for system, value in rows])
        keys = (tuple(sorted(each.items())) for each in self._configurations)
        self._factors = {key: self._factors_of(key) for key in keys}

    def _fit(self, quantity: str, rows: Sequence[tuple[System, float]]) -> None:
        at: dict[int, list[float]] = {}
        for system, value in rows:
            at.setdefault(devices_of(system), []).append(value)
        means = {count: fmean(found) for count, found in at.items()}
        residuals = [value - means[devices_of(system)] for system, value in rows]
        self._curves[quantity] = _Curve(means)
        self._effects[quantity] = _shrunk_effects([system.settings for system, _ in rows], residuals)

    def values(self, devices: int, settings: Mapping[str, str]) -> dict[str, float | None]:
        """The expected value of each quantity; None where it was not measured."""
        key = tuple(sorted(settings.items()))
        factors = self._factors.get(key) or self._factors_of(key)
        base = self._bases.get(devices)
        if base is None:
            base = {name: math.exp(curve.at(devices, grows=name in KINDS)) for name, curve in self._curves.items()}
            if len(self._bases) < _COUNTS_KEPT_MAX:
                self._bases[devices] = base
        found: dict[str, float | None] = dict.fromkeys(_QUANTITIES)
        for name, value in base.items():
            found[name] = value * factors[name]
        return found

    def _factors_of(self, pairs: Values) -> dict[str, float]:
        """The factor of a configuration for each quantity."""
        keys = [*((each,) for each in pairs), *combinations(pairs, 2)]
        return {name: math.exp(sum(effects.get(key, 0.0) for key in keys)) for name, effects in self._effects.items()}

    def fitting(self, devices: int) -> Sequence[Mapping[str, str]]:
        """The configurations that a system with a given number of devices can have."""
        if devices >= self._stripes_max:
            return self._configurations
        return [each for each in self._configurations if _stripes(each) <= devices] or ({},)


class PerformanceModel:
    """Expected rates of systems."""

    def __init__(self, sslos: Sequence[Sslo], simulated: Sequence[Sslo] = ()) -> None:
        """Fit the model.

        Args:
            sslos: Measured objectives.
            simulated: Objectives of simulated systems, for products and devices of which none was measured.
        """
        self._measured = _groups(sslos)
        self._simulated = _groups(simulated)
        self._known: dict[object, Expectation | None] = {}
        self._configured: dict[object, Sequence[tuple[System, Expectation]]] = {}
        self._configurations_kept = 0

    def configurations(self, kind: str, device: str, devices: int) -> Sequence[Mapping[str, str]]:
        """The configurations that the model can tell apart.

        Args:
            kind: Product.
            device: Class of devices.
            devices: Number of devices: files never have more stripes.

        Returns:
            All combinations of the values of its settings of which each two were measured together; one empty
            configuration where nothing is known.
        """
        group = self._measured.get((kind, device)) or self._simulated.get((kind, device))
        return group.fitting(devices) if group is not None else ({},)

    def configured(
        self,
        bare: System,
        *,
        device_read_bytes_per_second: float | None = None,
        device_write_bytes_per_second: float | None = None,
    ) -> Sequence[tuple[System, Expectation]]:
        """List the configurations of a system with the rates of each.

        Args:
            bare: The system without settings, of whose kind rates are known.
            device_read_bytes_per_second: As for `expect`.
            device_write_bytes_per_second: As for `expect`.

        Returns:
            The systems and their rates. The lists of systems that were asked for before are kept.
        """
        own = (device_read_bytes_per_second, device_write_bytes_per_second)
        key = (own, bare.kind, bare.device, bare.network_bytes_per_second, bare.servers, bare.targets_per_server)
        found = self._configured.get(key)
        if found is None:
            settings = self.configurations(bare.kind, bare.device, devices_of(bare))
            systems = [msgspec.structs.replace(bare, settings=dict(each)) for each in settings]
            made = [(system, self._expect(system, own)) for system in systems]
            found = [(system, expected) for system, expected in made if expected is not None]
            assert len(found) == len(made), "rates that are known for one configuration are known for all"
            if self._configurations_kept + len(found) <= _EXPECTATIONS_KEPT_MAX:
                self._configured[key] = found
                self._configurations_kept += len(found)
        return found

    def expect(
        self,
        system: System,
        *,
        device_read_bytes_per_second: float | None = None,
        device_write_bytes_per_second: float | None = None,
    ) -> Expectation | None:
        """The rates of a system.

        Args:
            device_read_bytes_per_second: Rate of one device, which bounds the system; None where it is unknown.
            device_write_bytes_per_second: The same, of writes.

        Returns:
            The rates; None where neither the system nor its devices are known.
        """
        own = (device_read_bytes_per_second, device_write_bytes_per_second)
        shape = (system.kind, system.device, system.network_bytes_per_second, system.servers, system.targets_per_server)
        key = (shape, own, tuple(system.settings.items()))
        if key in self._known:
            return self._known[key]
        found = self._expect(system, own)
        if len(self._known) < _EXPECTATIONS_KEPT_MAX:
            self._known[key] = found
        return found

    def _expect(self, system: System, own: tuple[float | None, float | None]) -> Expectation | None:
        found = self._values(system, own)
        if found is None:
            return None
        values, basis = found
        network = system.network_bytes_per_second
        whole = None if network is None else network * system.servers
        devices = devices_of(system)
        bounds = [_least(None if each is None else each * devices, whole) for each in own]
        return Expectation(
            guarantees=Guarantees(
                read_bytes_per_second=_bounded(values.get("read"), bounds[0]),
                write_bytes_per_second=_bounded(values.get("write"), bounds[1]),
                metadata_operations_per_second=values.get("metadata"),
            ),
            sensitivities=Sensitivities(
                **{name: _bounded(values.get(name), 1.0) for name in _QUANTITIES if name not in KINDS}
            ),
            basis=basis,
        )

    def _values(
        self, system: System, own: tuple[float | None, float | None]
    ) -> tuple[dict[str, float | None], Basis] | None:
        """The quantities of a system without the bounds of its devices, and their ground."""
        key, devices = (system.kind, system.device), devices_of(system)
        if key in self._measured:
            return self._measured[key].values(devices, system.settings), "measured"
        if key in self._simulated:
            values = self._simulated[key].values(devices, system.settings)
            nominal = DEVICES.get(system.device)
            if nominal is not None:
                # A device that is slower or faster than the simulated one moves the system's rates in proportion.
                for name, rate_of_one, usual in (
                    ("read", own[0], nominal.read_bytes_per_second),
                    ("write", own[1], nominal.write_bytes_per_second),
                ):
                    if rate_of_one is not None and (value := values[name]) is not None:
                        values[name] = value * rate_of_one / usual
            return values, "simulated"
        if own != (None, None):
            return {"read": own[0] and own[0] * devices, "write": own[1] and own[1] * devices}, "devices"
        other = next((each for each in sorted(self._measured) if each[1] == system.device), None)
        if other is not None:
            return self._measured[other].values(devices, {}), "another system"
        assumed = ASSUMED_RATES.get(system.device)
        if assumed is None:
            return None
        return {"read": assumed[0] * devices, "write": assumed[1] * devices}, "assumed"


def _groups(sslos: Sequence[Sslo]) -> "dict[tuple[str, str], _Group]":
    found: dict[tuple[str, str], list[Sslo]] = {}
    for each in sslos:
        found.setdefault((each.system.kind, each.system.device), []).append(each)
    return {key: _Group(group) for key, group in found.items()}


def devices_of(system: System) -> int:
    """The devices of a system.

    Returns:
        Their number.
    """
    return system.servers * system.targets_per_server


def _stripes(settings: Mapping[str, str]) -> int:
    """The stripes of a file, as far as the settings name a number."""
    text = settings.get("stripe_count", "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


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
    """The configurations to compare; nothing is known of values of two settings that were never measured together."""
    seen = {tuple(sorted(each.system.settings.items())) for each in sslos}
    measured = {pair for each in seen for pair in combinations(each, 2)}
    if math.prod(map(len, settings.values())) <= CONFIGURATIONS_MAX:
        every = (tuple(zip(settings, values, strict=True)) for values in product(*settings.values()))
        found = tuple(dict(each) for each in every if measured.issuperset(combinations(each, 2)))
        if found:
            # A table may have systems that name fewer settings than its other systems do.
            short = (dict(each) for each in sorted(seen) if len(each) < len(settings))
            return (*found, *short)[:CONFIGURATIONS_MAX]
    return tuple(dict(each) for each in sorted(seen)[:CONFIGURATIONS_MAX])


def _shrunk_effects(settings: Sequence[Mapping[str, str]], residuals: Sequence[float]) -> dict[Values, float]:
    """The effects of settings, and of pairs of them beyond the sum of both.

    Each is a mean of residuals, shrunk by the positive-part estimator of James and Stein: by the part of its square
    that its standard error explains. Settings that never vary say nothing.
    """
    names = sorted({name for each in settings for name in each})
    varying = [name for name in names if len({each.get(name) for each in settings}) > 1][:SETTINGS_MAX]
    effects: dict[Values, float] = {}
    left = list(residuals)
    for size in (1, 2):
        for chosen in combinations(varying, size):
            keys = [tuple((name, each[name]) for name in chosen if name in each) for each in settings]
            found = {key: effect for key, effect in _means(keys, left).items() if len(key) == size}
            effects |= found
            left = [value - found.get(key, 0.0) for key, value in zip(keys, left, strict=True)]
    return effects


def _means(keys: Sequence[Values], residuals: Sequence[float]) -> dict[Values, float]:
    """The shrunk mean of the residuals of each key."""
    groups: dict[Values, list[float]] = {}
    for key, residual in zip(keys, residuals, strict=True):
        groups.setdefault(key, []).append(residual)
    # Freedom is what the means leave; without any, nothing tells an effect from noise.
    freedom = len(residuals) - len(groups)
    if freedom < 1:
        return {}
    means = {key: fmean(found) for key, found in groups.items()}
    within = sum((residual - means[key]) ** 2 for key, residual in zip(keys, residuals, strict=True)) / freedom
    effects = {}
    for key, mean in means.items():
        error = within / len(groups[key])
        if mean * mean > error:
            effects[key] = mean * (1.0 - error / (mean * mean))
    return effects
