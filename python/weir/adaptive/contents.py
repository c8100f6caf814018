"""The contents of a stream, without restoring any array."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weir.adaptive.containers import opened
from weir.adaptive.errors import StepError
from weir.adaptive.manifest import Manifest, ManifestError, manifest_name
from weir.adaptive.meaning import Meaning
from weir.adaptive.tiers import Place

if TYPE_CHECKING:
    from weir import _core


def manifest_of(place: Place, number: int) -> Manifest:
    """Read the manifest of a step.

    Args:
        place: The first tier.

    Raises:
        StepError: The manifest is gone or damaged.
    """
    name = manifest_name(number)
    try:
        return Manifest.decode(place.read(name))
    except FileNotFoundError as error:
        raise StepError(number, place.name(name), "it is gone", hint="see which steps there are") from error
    except (OSError, ManifestError) as error:
        raise StepError(number, place.name(name), f"cannot be used: {error}") from error


def header_of(place: Place, number: int) -> "_core.Refactored":
    """Read the header of a step's container.

    Args:
        place: The first tier.

    Raises:
        StepError: The step cannot be read.
    """
    manifest = manifest_of(place, number)
    name = manifest.parts[0].name
    try:
        return opened(place.read(name, 0, manifest.base_end))
    except (OSError, ValueError) as error:
        raise StepError(number, place.name(name), f"cannot be used: {error}") from error


def accuracies(places: Sequence[Place], number: int, meaning: Meaning) -> list[dict[str, Any]]:
    """List the accuracies of a step by the bytes read.

    Args:
        places: The tiers of the stream.
        meaning: What the stored numbers mean.

    Returns:
        One entry for each cut of the container: `bytes` read, the `tier` on which they end, the bounds `rmse` and
        `max_error` in the variable's units, and whether the bounds were `measured` or derived from the coefficients.

    Raises:
        StepError: The step cannot be read.
    """
    manifest = manifest_of(places[0], number)
    refactored = header_of(places[0], number)
    lines = []
    for end, stored_rmse, stored_error, measured in refactored.table:
        rmse, max_error = meaning.errors(stored_rmse, stored_error, refactored)
        tier = next((index for index, part in enumerate(manifest.parts) if end <= part.end), len(manifest.parts) - 1)
        line = {"bytes": end, "tier": places[tier].tier.url, "rmse": rmse, "max_error": max_error, "measured": measured}
        lines.append(line)
    return lines
