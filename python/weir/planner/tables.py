"""Prices, interference factors and room for sharers of the site, which every plan of the planner weighs."""

import hashlib
from functools import cached_property
from pathlib import Path

import msgspec

from weir.provisioning.behaviour.classes import NEW_CLASS_FITNESS
from weir.provisioning.sharing import interference_factors, prices
from weir.provisioning.sharing.interference_factors import FactorTable
from weir.provisioning.sharing.leases import SHARERS_ROOM
from weir.provisioning.sharing.prices import PriceList


class Tables(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The tables of the administrator; those that come with Weir stand for the ones that are None."""

    prices: PriceList | None = None
    factors: FactorTable | None = None
    sharers_room: float = SHARERS_ROOM
    """Room of a new store for jobs that join later, over the size of its own job."""
    new_class_fitness: float = NEW_CLASS_FITNESS
    """Fitness below which a job is a class of its own."""

    @cached_property
    def digest(self) -> str:
        """Digest of the tables: a plan that was made by other ones is made again."""
        return hashlib.blake2b(msgspec.json.encode(self), digest_size=16).hexdigest()


def read_tables(
    prices_file: Path | None,
    factors_file: Path | None,
    *,
    sharers_room: float = SHARERS_ROOM,
    new_class_fitness: float = NEW_CLASS_FITNESS,
) -> Tables:
    """Read the tables.

    Args:
        prices_file: A list of prices; None for none.
        factors_file: A table of interference factors; None for none.
        sharers_room: Room of a new store for jobs that join later, over the size of its own job.
        new_class_fitness: Fitness below which a job is a class of its own.

    Raises:
        ProvisioningError: A file cannot be read, or is no such document.
    """
    return Tables(
        prices=None if prices_file is None else prices.of_file(prices_file),
        factors=None if factors_file is None else interference_factors.of_file(factors_file),
        sharers_room=sharers_room,
        new_class_fitness=new_class_fitness,
    )
