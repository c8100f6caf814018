"""Prices of storage: by availability, by demand, and less for who shares (LuxIO, section III-D, formulas 1 and 2).

A price is in node-hours, the currency of an allocation, so that a job's storage and its nodes are paid from one budget.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from weir.provisioning import documents
from weir.provisioning.errors import ProvisioningError

COSTS: Mapping[str, float] = {"disk": 0.02, "hdd": 0.02, "ssd": 0.05, "nvme": 0.1, "pmem": 0.4, "memory": 0.4}
"""Node-hours of one device for one hour, where the administrator sets no prices. Only their order counts: a faster
class costs more, and PMEM and memory are kept for the jobs that need them."""
COST_DEFAULT = 0.1
"""The same, of a class that has no cost."""
_EXPONENT_MAX = 700.0
"""Greatest exponent of `exp` whose result a double holds, rounded down."""


class Tier(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The devices of one class in a cluster, with the administrator's price."""

    device: str
    """Class of the devices, as in `System.device`."""
    cost: float
    """Node-hours of one device for one hour while all of the tier are free."""
    total: int
    """Devices of the tier in the cluster."""
    free: int
    """Devices of the tier that no deployment holds."""


class DemandPricing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The three parameters of the demand price, and the intervals by which demand rises and falls."""

    factor_min: float = 0.5
    """Factor of the price of a tier that nobody wants."""
    factor_max: float = 2.0
    """Factor of the price of a tier that everybody wants."""
    growth: float = 0.5
    """Rate of growth of the sigmoid: one step of demand changes its argument by so much."""
    rise_seconds: float = 3600.0
    """A request that follows the one before within this time raises the demand by 1 (the paper's t_i)."""
    fall_seconds: float = 3600.0
    """Each such time without a request lowers the demand by 1 (the paper's t_j)."""
    demand_max: float = 32.0
    """Greatest distance of demand from 0, so that a busy year is forgotten within a day or two."""


class Demand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The demand for a tier: 0 is neither wanted nor avoided."""

    level: float = 0.0
    requested_at: float | None = None
    """Time of the last request in seconds; None before the first."""
    settled_at: float | None = None
    """Time up to which the level has fallen for want of requests."""


class PriceList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prices of a cluster."""

    version: Literal[1] = 1
    """Version of this document."""
    tiers: tuple[Tier, ...] = ()
    demands: dict[str, Demand] = {}
    """Demand by the class of the devices; a class that is absent has none yet."""
    pricing: DemandPricing = DemandPricing()
    sharing_discount: float = 0.25
    """Part of the price that a job saves which lets others share its storage, or which shares it."""
    default_cost: float = 0.0
    """Cost of a device whose class has no tier: an administrator who sets no prices asks for none."""


def read_prices(text: bytes, place: str) -> PriceList:
    """Read a list of prices.

    Args:
        text: The document, JSON.
        place: Its place, for messages.

    Raises:
        ProvisioningError: The text is no such document, or cannot be computed with.
    """
    hint = "see docs/reference/schemas/prices.schema.json"
    prices = documents.decoded(text, place, PriceList, "list of prices", hint)
    try:
        check(prices)
    except ProvisioningError as error:
        raise ProvisioningError(f"{place}: {error.message}", hint=error.hint) from error
    return prices


def of_file(path: Path) -> PriceList:
    """Read a list of prices from its file.

    Raises:
        ProvisioningError: The file cannot be read, or is not a document of prices.
    """
    return read_prices(documents.content(path, "is it a list of prices?"), str(path))


def check(prices: PriceList) -> None:
    """Refuse a list of prices that cannot be computed with.

    Raises:
        ProvisioningError: A cost is negative, a tier has more free devices than it has, or a bound is no bound.
    """
    pricing = prices.pricing
    numbers = [prices.default_cost, *(tier.cost for tier in prices.tiers)]
    if not all(math.isfinite(each) and each >= 0 for each in numbers):
        raise ProvisioningError("a cost is negative or no number", hint="a device costs 0 node-hours or more")
    for tier in prices.tiers:
        if not 0 <= tier.free <= tier.total:
            raise ProvisioningError(
                f"the tier {tier.device} has {tier.free} free of {tier.total} devices", hint="correct the two counts"
            )
    if not 0 <= pricing.factor_min <= pricing.factor_max < math.inf:
        raise ProvisioningError(
            f"the demand factors run from {pricing.factor_min:g} to {pricing.factor_max:g}",
            hint="give factor_min at least 0 and factor_max at least factor_min",
        )
    for name in ("growth", "rise_seconds", "fall_seconds", "demand_max"):
        if not 0 < getattr(pricing, name) < math.inf:
            raise ProvisioningError(f"{name} is {getattr(pricing, name)}", hint="give a number above 0")
    if not 0 <= prices.sharing_discount < 1:
        raise ProvisioningError(
            f"sharing_discount is {prices.sharing_discount:g}", hint="give a part of the price from 0 to below 1"
        )


def availability_price(tier: Tier) -> float:
    """Price a device by the part of its tier that is free (formula 1).

    The paper divides the tier's cost by the count of devices that are available. The part that is available keeps the
    unit of the cost, and gives tiers of different sizes the same price while they are free.

    Returns:
        Node-hours of one device for one hour; infinite where none is free.
    """
    return tier.cost * tier.total / tier.free if tier.free else math.inf


def demand_factor(demand: float, pricing: DemandPricing) -> float:
    """Weigh a price by demand, with a sigmoid between two bounds (formula 2).

    Args:
        demand: Level of demand.
        pricing: The bounds and the rate of growth.

    Returns:
        A factor from `factor_min` to `factor_max`, in the middle of both at no demand, which never falls with demand.
    """
    exponent = max(-_EXPONENT_MAX, min(-pricing.growth * demand, _EXPONENT_MAX))
    factor = pricing.factor_min + (pricing.factor_max - pricing.factor_min) / (1.0 + math.exp(exponent))
    return min(max(factor, pricing.factor_min), pricing.factor_max)


def device_price(device: str, prices: PriceList) -> float:
    """Price one device, by its availability and by demand.

    Args:
        device: Class of the device.

    Returns:
        Node-hours of one device for one hour; infinite where the tier has none free.
    """
    tier = next((each for each in prices.tiers if each.device == device), None)
    if tier is None:
        return prices.default_cost
    level = prices.demands.get(device, Demand()).level
    base = availability_price(tier)
    return math.inf if math.isinf(base) else base * demand_factor(level, prices.pricing)


def deployment_price(devices: Mapping[str, int], seconds: float, prices: PriceList, *, shareable: bool) -> float:
    """Price a deployment: the sum of its devices' prices (LuxIO, section III-D).

    Args:
        devices: Number of devices by their class.
        seconds: Time for which they are held.
        shareable: Whether later jobs may share them, which is rewarded.

    Returns:
        Node-hours.
    """
    hourly = sum(count * device_price(device, prices) for device, count in devices.items() if count)
    return hourly * seconds / 3600.0 * (1.0 - prices.sharing_discount if shareable else 1.0)


def joining_price(price: float, sharers: int, prices: PriceList) -> float:
    """Price a place in a deployment that others use.

    Args:
        price: Price of the deployment for one job that shares with nobody, for the time of the job.
        sharers: Jobs that use it already.

    Returns:
        Node-hours: an equal part of the price, less the discount.
    """
    return price / (sharers + 1) * (1.0 - prices.sharing_discount)


def check_budget(offers: Iterable[float], budget: float | None) -> None:
    """Refuse a budget for which no offer is to be had, and say the least price.

    Args:
        offers: The prices of all offers.
        budget: Most node-hours; None is no bound.

    Raises:
        ProvisioningError: The budget is no number, nothing is offered, or each offer is above the budget.
    """
    if budget is not None and not (math.isfinite(budget) and budget >= 0):
        raise ProvisioningError(f"a budget of {budget:g} node-hours is none", hint="give node-hours of 0 or more")
    least = min(offers, default=math.inf)
    if math.isinf(least):
        raise ProvisioningError(
            "no storage is to be had: all devices are held",
            hint="wait until a deployment ends, or allow sharing with policy=interference",
        )
    if budget is not None and least > budget:
        raise ProvisioningError(
            f"the budget of {budget:g} node-hours is below the least price, {_rounded_up(least)}",
            hint=f"give budget={_rounded_up(least)} or more, or ask for less storage or time",
        )


def _rounded_up(price: float) -> str:
    """A price in few digits that is not below the price, so that a user may give it as the budget."""
    text = f"{price:.4g}"
    if float(text) < price:
        step = 10.0 ** (math.floor(math.log10(price)) - 3)
        text = f"{float(text) + step:.4g}"
    return text if float(text) >= price else repr(price)
