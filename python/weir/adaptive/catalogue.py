"""Which steps a stream has, from its first tier."""

from collections.abc import Sequence
from dataclasses import replace

from weir.adaptive.errors import AdaptiveError
from weir.adaptive.manifest import END, STREAM, ManifestError, Stream, number_of, steps_at_end
from weir.adaptive.tiers import Place, Tier, TierLike, Zone, named_tiers, tiers_of


class Catalogue:
    """The steps of a stream."""

    def __init__(self, place: Place) -> None:
        """Read the stream on the first tier, `place`.

        Raises:
            AdaptiveError: There is none.
        """
        self.place = place
        self.stream = stream_at(place)

    def numbers(self, *, after: int = -1) -> list[int]:
        """Steps beyond `after`, in order, from the first that is there to the last that was written whole.

        Those between them whose manifests are gone are named too: to read them says so.

        Raises:
            AdaptiveError: The first tier cannot be read.
        """
        names = self._names()
        there = [number for name in names if (number := number_of(name)) is not None and number > after]
        end = max(there, default=after) + 1
        if END in names:
            end = max(end, self._steps_at_end())
        begin = after + 1 if after >= 0 else min(there, default=end)
        return list(range(begin, end))

    def ended(self) -> bool:
        """Whether no more steps will come."""
        return END in self._names()

    def _steps_at_end(self) -> int:
        try:
            return steps_at_end(self.place.read(END))
        except (OSError, ManifestError) as error:
            raise AdaptiveError(f"{self.place.name(END)} cannot be used: {error}") from error

    def _names(self) -> list[str]:
        try:
            return self.place.names()
        except OSError as error:
            raise AdaptiveError(f"tier {self.place.tier.url} cannot be listed: {error}") from error


def stream_at(place: Place) -> Stream:
    """What is written of the stream on its first tier.

    Raises:
        AdaptiveError: There is no stream.
    """
    name = place.name(STREAM)
    try:
        return Stream.decode(place.read(STREAM))
    except ManifestError as error:
        raise AdaptiveError(f"{name} is damaged: {error}", hint="name the first tier of a stream, first") from error
    except OSError as error:
        raise AdaptiveError(
            f"there is no stream on tier {place.tier.url}: {name} cannot be read: {error}",
            hint="name the tiers in the order they were written, the fastest first",
        ) from error


def complete(given: "Sequence[TierLike] | TierLike") -> tuple[tuple[Tier, ...], tuple[Place, ...], Catalogue]:
    """The tiers that are named, with what the stream itself says of those and of the ones that are not.

    Raises:
        AdaptiveError: There is no stream on the first.
    """
    named = named_tiers(given)
    tiers_of(named)
    first = Place(named[0])
    catalogue = Catalogue(first)
    recorded = catalogue.stream.tiers
    if len(named) > len(recorded):
        raise AdaptiveError(
            f"the stream on tier {named[0].url} has {len(recorded)} tiers, and {len(named)} are named",
            hint=f"it was written to {', '.join(url for url, _ in recorded)}",
        )
    named += [Tier(url) for url, _ in recorded[len(named) :]]
    tiers = tiers_of(
        [replace(tier, zone=tier.zone or _zone(zone, first)) for tier, (_, zone) in zip(named, recorded, strict=True)]
    )
    return tiers, (first, *(Place(tier) for tier in tiers[1:])), catalogue


def _zone(text: str, first: Place) -> Zone:
    try:
        return Zone(text)
    except ValueError as error:
        raise AdaptiveError(f"{first.name(STREAM)} is damaged: there is no zone `{text}`") from error
