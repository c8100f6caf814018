"""The objects of a stream of named variables on its first tier."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy

from weir.adaptive.errors import AdaptiveError, NoStreamError, told
from weir.adaptive.manifest import NAMES, ManifestError
from weir.adaptive.named.records import RecordError, unpacked
from weir.adaptive.named.schema import Kind, Schema
from weir.adaptive.tiers import Place, Tier

_THREADS = 8
"""Records that are read at once: each is small, and its time that of a round trip."""
Record = dict[str, numpy.ndarray[Any, Any]]


def tiers_below(tiers: Sequence[Tier], folder: str) -> list[Tier]:
    """Name the tiers of one variable's stream.

    Args:
        tiers: The tiers of all variables.
        folder: Folder of the variable; empty where the stream lies in the tiers' own folders.
    """
    return [replace(tier, url=f"{tier.url.rstrip('/')}/{folder}") if folder else tier for tier in tiers]


def dataset_at(place: Place) -> Schema:
    """Read the description of the variables.

    Raises:
        NoStreamError: There is none.
        AdaptiveError: It is damaged, or cannot be read.
    """
    name = place.name(NAMES)
    try:
        return Schema.decode(place.read(NAMES))
    except ManifestError as error:
        raise AdaptiveError(f"{name} is damaged: {error}", hint="write the stream again") from error
    except FileNotFoundError as error:
        raise NoStreamError(
            f"there is no stream on tier {place.tier.url}: {name} is not there",
            hint="name the first tier of a stream, first; is the path right?",
        ) from error
    except Exception as error:
        # Each file system has errors of its own.
        raise AdaptiveError(f"{name} cannot be read: {told(error)}", hint="may you read there?") from error


def arrays_at(place: Place, name: str) -> tuple[Record, int]:
    """Read an object with small arrays.

    Raises:
        AdaptiveError: It is damaged, or cannot be read.
    """
    try:
        return unpacked(place.read(name))
    except RecordError as error:
        raise AdaptiveError(f"{place.name(name)} is damaged: {error}", hint="write the stream again") from error
    except Exception as error:
        # Each file system has errors of its own.
        raise AdaptiveError(f"{place.name(name)} cannot be read: {told(error)}", hint="may you read there?") from error


def records_at(place: Place, schema: Schema) -> list[Record]:
    """Read the records of all whole steps.

    Returns:
        The records of step 0, 1 and so on. Of a stream that has ended they lie in one object.

    Raises:
        AdaptiveError: The tier cannot be listed, or a record is damaged.
    """
    names = set(place.names())
    if schema.end_name in names:
        stacked, steps = arrays_at(place, schema.end_name)
        axes = {each.name: each.dims.index(schema.along) for each in schema.variables if each.kind is Kind.RECORD}
        return [
            {name: values.take(number, axis=axes[name]) for name, values in stacked.items()} for number in range(steps)
        ]
    there = {number for name in names if (number := schema.number_of(name)) is not None}
    count = next(number for number in range(len(there) + 1) if number not in there)
    if not any(each.kind is Kind.RECORD for each in schema.variables):
        return [{} for _ in range(count)]
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(lambda number: arrays_at(place, schema.record_name(number))[0], range(count))
        return list(found)
