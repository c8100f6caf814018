"""The contents of a stream of named variables, without restoring any array."""

from dataclasses import dataclass

from weir.adaptive.catalogue import place_of
from weir.adaptive.contents import manifest_of
from weir.adaptive.named.places import tiers_below
from weir.adaptive.named.reader import DatasetReader
from weir.adaptive.named.schema import Kind


@dataclass(frozen=True)
class Held:
    """One variable of a stream.

    Attributes:
        variable: Its name.
        dims: Its dimensions.
        shape: Its shape, over all steps.
        dtype: Type of the stored values.
        units: Its units; empty where it has none.
        kind: The place of its values: a stream of its own, each step's record, or the record of what never changes.
        tolerance: Largest error of a whole step, in its units; 0 where every bit is kept.
        steps: Number of its steps.
        tier_bytes: Bytes on each tier; None of variables without a stream of their own.
    """

    variable: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    units: str
    kind: str
    tolerance: float
    steps: int
    tier_bytes: list[int] | None


def held_by(reader: DatasetReader) -> list[Held]:
    """List the variables of a stream.

    Raises:
        StepError: The manifest of a step is gone or damaged.
    """
    found = []
    for each in reader.schema.variables:
        steps = (
            reader.steps if reader.schema.along in each.dims or reader.schema.along is None else min(reader.steps, 1)
        )
        sums: list[int] | None = None
        if each.kind is Kind.STREAM:
            place = place_of(tiers_below(reader.tiers[:1], reader.schema.folder_of(each))[0])
            parts = [[part.length for part in manifest_of(place, number).parts] for number in range(steps)]
            sums = [sum(column) for column in zip(*parts, strict=True)]
        dtype = "text" if each.is_text else each.dtype.name
        units = str(each.attributes.get("units", ""))
        found.append(
            Held(each.name, each.dims, reader.shape_of(each), dtype, units, each.kind, each.tolerance, steps, sums)
        )
    return found
