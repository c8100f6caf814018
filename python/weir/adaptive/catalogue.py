"""The steps of a stream, read from its first tier."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from weir.adaptive.errors import AdaptiveError, NoAnswerError, NoStreamError, told
from weir.adaptive.lanes import Answer, HangError, Lane
from weir.adaptive.manifest import END, STREAM, ManifestError, Stream, number_of, steps_at_end
from weir.adaptive.mesh import NodeOrder
from weir.adaptive.tiers import Place, Tier, TierLike, Zone, named_tiers, tiers_of

STEPS_GONE_MAX = 10_000
"""Most missing manifests that are reported one by one: with more, the count of the steps is damaged."""
OPEN_SECONDS_MAX = 60.0
"""Longest wait for a listing; a file system that takes longer hangs."""


class Catalogue:
    """The steps of a stream."""

    def __init__(self, place: Place, *, seconds: float = OPEN_SECONDS_MAX) -> None:
        """Read the stream on the first tier, `place`, which has so many seconds for each answer.

        Raises:
            AdaptiveError: There is none.
        """
        self.place = place
        self._inquiry = Inquiry(place.tier.url, seconds)
        self.stream = self._inquiry.answer("to read what lies there", lambda: stream_at(place))

    def order(self) -> NodeOrder | None:
        """The order of the mesh's nodes; None where the values have no mesh.

        Raises:
            AdaptiveError: It is gone or damaged.
        """
        if self.stream.nodes is None:
            return None
        name = self.stream.mesh
        try:
            order = NodeOrder.from_bytes(self._inquiry.answer("to read the mesh", lambda: self.place.read(name)))
        except NoAnswerError:
            raise
        except (OSError, ValueError) as error:
            hint = "without it the values are in no order: write the stream again"
            raise AdaptiveError(f"{self.place.name(name)} cannot be used: {told(error)}", hint=hint) from error
        if (order.places.shape, order.nodes) != (self.stream.shape, self.stream.nodes):
            raise AdaptiveError(f"{self.place.name(name)} is the order of another mesh, of {order.nodes} nodes")
        return order

    def look(self, *, after: int = -1) -> tuple[list[int], bool]:
        """Steps beyond `after`, in order, from the first one to the last, and whether the stream has ended.

        Steps between them without a manifest are listed, too: reading one raises an error.

        Raises:
            AdaptiveError: The first tier cannot be listed, or it tells of far more steps than are there.
        """
        names, written = self._inquiry.answer("to list its steps", self._listed)
        there = [number for name in names if (number := number_of(name)) is not None and number > after]
        end = max(max(there, default=after) + 1, written or 0)
        begin = after + 1 if after >= 0 else min(there, default=end)
        if end - begin > len(there) + STEPS_GONE_MAX:
            raise AdaptiveError(
                f"tier {self.place.tier.url} is damaged: it tells of {end - begin} steps, and holds {len(there)}",
                hint=f"look at {self.place.name(END)}, and for manifests with numbers that are none of this stream's",
            )
        return list(range(begin, end)), written is not None

    def _listed(self) -> tuple[list[str], int | None]:
        """Names of the objects, and the number of steps where the stream has ended."""
        try:
            names = self.place.names()
        except Exception as error:
            raise AdaptiveError(f"tier {self.place.tier.url} cannot be listed: {told(error)}") from error
        if END not in names:
            return names, None
        try:
            return names, steps_at_end(self.place.read(END))
        except (OSError, ManifestError) as error:
            raise AdaptiveError(f"{self.place.name(END)} cannot be used: {told(error)}") from error


class Inquiry:
    """Questions to a tier, which may hang."""

    def __init__(self, url: str, seconds: float) -> None:
        """Allow the tier at `url` so many seconds for each answer."""
        self._url = url
        self._seconds = seconds
        self._lane = Lane(url, 1, idle_seconds=0.0)

    def answer(self, doing: str, action: Callable[[], Answer]) -> Answer:
        """Do `action`, and return or raise its outcome.

        Raises:
            NoAnswerError: It takes too long.
        """
        try:
            return self._lane.answer(action, self._seconds)
        except HangError as error:
            raise NoAnswerError(
                f"tier {self._url} does not answer: {doing} took more than {self._seconds:g} s",
                hint="is it mounted, and does its server run? `open_seconds` says how long to wait",
            ) from error


def stream_at(place: Place) -> Stream:
    """The description of the stream on its first tier.

    Raises:
        NoStreamError: There is none.
        AdaptiveError: It cannot be read.
    """
    name = place.name(STREAM)
    try:
        return Stream.decode(place.read(STREAM))
    except ManifestError as error:
        raise AdaptiveError(f"{name} is damaged: {error}", hint="name the first tier of a stream, first") from error
    except FileNotFoundError as error:
        raise NoStreamError(
            f"there is no stream on tier {place.tier.url}: {name} is not there",
            hint="name the tiers in the order they were written, the fastest first; is the path right?",
        ) from error
    except Exception as error:
        # Each file system has errors of its own.
        raise AdaptiveError(
            f"tier {place.tier.url} cannot be used: {name} cannot be read: {told(error)}", hint="may you read there?"
        ) from error


def complete(
    given: "Sequence[TierLike] | TierLike", *, seconds: float = OPEN_SECONDS_MAX
) -> tuple[tuple[Place, ...], Catalogue]:
    """Places of the named tiers, completed by the stream's own description, which also adds the unnamed tiers.

    Each tier has so many seconds for an answer.

    Raises:
        AdaptiveError: There is no stream on the first.
    """
    named = named_tiers(given)
    tiers_of(named)
    first = place_of(named[0], seconds)
    catalogue = Catalogue(first, seconds=seconds)
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
    return (first, *(place_of(tier, seconds) for tier in tiers[1:])), catalogue


def place_of(tier: Tier, seconds: float = OPEN_SECONDS_MAX) -> Place:
    """An open tier; some file systems connect to their server to open it.

    Raises:
        AdaptiveError: It cannot be opened, or not within so many seconds.
    """
    return Inquiry(tier.url, seconds).answer("to open it", lambda: Place(tier))


def _zone(text: str, first: Place) -> Zone:
    try:
        return Zone(text)
    except ValueError as error:
        raise AdaptiveError(f"{first.name(STREAM)} is damaged: there is no zone `{text}`") from error
