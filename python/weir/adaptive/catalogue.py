"""The steps of a stream, read from its first tier."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy

from weir.adaptive.errors import AdaptiveError, AdaptiveWarning, NoAnswerError, NoStreamError, told
from weir.adaptive.lanes import Answer, HangError, Lane
from weir.adaptive.manifest import END, NAMES, STREAM, ManifestError, Stream, number_of, steps_at_end
from weir.adaptive.meaning import Meaning
from weir.adaptive.mesh import NodeOrder
from weir.adaptive.tiers import Place, Tier, TierLike, Zone, named_tiers, tiers_of

STEPS_GONE_MAX = 10_000
"""Most missing manifests that are reported one by one: with more, the count of the steps is damaged."""
OPEN_SECONDS_MAX = 60.0
"""Longest wait for a listing; a file system that takes longer hangs."""


class Catalogue:
    """The steps of a stream.

    Attributes:
        place: The stream's first tier.
        stream: The description of the stream.
        meaning: What its stored arrays mean.
    """

    def __init__(self, place: Place, *, seconds: float = OPEN_SECONDS_MAX, tolerant: bool = False) -> None:
        """Read the description of a stream.

        Args:
            place: The stream's first tier.
            seconds: Longest wait for each answer of the tier.
            tolerant: Whether a stream whose end is damaged counts as one that has not ended, with a warning.

        Raises:
            AdaptiveError: There is no stream, or its description cannot be read.
            NoAnswerError: The tier does not answer in time.
        """
        self.place = place
        self._tolerant = tolerant
        self._told: set[str] = set()
        self._inquiry = Inquiry(place.tier.url, seconds)
        self.stream = self._inquiry.answer("to read the stream's description", lambda: stream_at(place))
        self.meaning = _meaning(self.stream, place)

    def order(self) -> NodeOrder | None:
        """Read the order of the mesh's nodes.

        Returns:
            The order; None where the values have no mesh.

        Raises:
            AdaptiveError: The order is gone or damaged, or belongs to another mesh.
            NoAnswerError: The tier does not answer in time.
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
        """Look for steps. Steps between the first and the last one that lack a manifest are listed, too: reading one
        raises an error.

        Args:
            after: Number behind which steps are wanted; -1 wants all.

        Returns:
            Numbers of the steps, in ascending order, and whether the stream has ended.

        Raises:
            AdaptiveError: The first tier cannot be listed, names far more steps than it holds, or has a damaged end.
            NoAnswerError: The tier does not answer in time.
        """
        names, written, problem = self._inquiry.answer("to list its steps", self._listed)
        if problem is not None and problem not in self._told:
            self._told.add(problem)
            warnings.warn(f"{problem}; the stream counts as not ended", AdaptiveWarning, stacklevel=3)
        there = [number for name in names if (number := number_of(name)) is not None and number > after]
        end = max(max(there, default=after) + 1, written or 0)
        begin = after + 1 if after >= 0 else min(there, default=end)
        if end - begin > len(there) + STEPS_GONE_MAX:
            raise AdaptiveError(
                f"tier {self.place.tier.url} is damaged: it lists {end - begin} steps, and holds {len(there)}",
                hint=f"look at {self.place.name(END)}, and for manifests with numbers that are none of this stream's",
            )
        return list(range(begin, end)), written is not None

    def _listed(self) -> tuple[list[str], int | None, str | None]:
        """Names of the objects, the number of steps where the stream has ended, and the damage of its end."""
        try:
            names = self.place.names()
        except Exception as error:
            raise AdaptiveError(f"tier {self.place.tier.url} cannot be listed: {told(error)}") from error
        if END not in names:
            return names, None, None
        name = self.place.name(END)
        try:
            return names, steps_at_end(self.place.read(END)), None
        except OSError as error:
            raise AdaptiveError(f"{name} cannot be used: {told(error)}", hint="may you read there?") from error
        except ManifestError as error:
            problem = f"{name} cannot be used: {error}"
            if self._tolerant:
                return names, None, problem
            raise AdaptiveError(
                problem, hint="no step needs this file: remove it, and the stream counts as not ended"
            ) from error


class Inquiry:
    """Questions to a tier, which may hang."""

    def __init__(self, url: str, seconds: float) -> None:
        """Prepare to ask a tier.

        Args:
            url: URL of the tier, for errors.
            seconds: Longest wait for each answer.
        """
        self._url = url
        self._seconds = seconds
        self._lane = Lane(url, 1, idle_seconds=0.0)

    def answer(self, doing: str, action: Callable[[], Answer]) -> Answer:
        """Do an action on the tier, and return or raise its outcome.

        Args:
            doing: The action in words, for the error.

        Returns:
            The result of the action.

        Raises:
            NoAnswerError: The action takes too long.
        """
        try:
            return self._lane.answer(action, self._seconds)
        except HangError as error:
            raise NoAnswerError(
                f"tier {self._url} does not answer: {doing} took more than {self._seconds:g} s",
                hint="is it mounted, and does its server run? `open_seconds` says how long to wait",
            ) from error


def stream_at(place: Place) -> Stream:
    """Read the description of the stream on its first tier.

    Raises:
        NoStreamError: There is no stream.
        AdaptiveError: The description is damaged, or cannot be read.
    """
    name = place.name(STREAM)
    try:
        return Stream.decode(place.read(STREAM))
    except ManifestError as error:
        raise AdaptiveError(f"{name} is damaged: {error}", hint="name the first tier of a stream, first") from error
    except FileNotFoundError as error:
        _refuse_names(place)
        raise NoStreamError(
            f"there is no stream on tier {place.tier.url}: {name} is not there",
            hint="name the tiers in the order they were written, the fastest first; is the path right?",
        ) from error
    except Exception as error:
        # Each file system has errors of its own.
        raise AdaptiveError(
            f"tier {place.tier.url} cannot be used: {name} cannot be read: {told(error)}", hint="may you read there?"
        ) from error


def _refuse_names(place: Place) -> None:
    """Tell of the streams of variables below a stream with names.

    Raises:
        AdaptiveError: There are some.
    """
    try:
        described = json.loads(place.read(NAMES))
        names = [str(each["name"]) for each in described["variables"] if each["kind"] == "stream"]
    except Exception:
        # The object is no description of names, so there is no stream.
        return
    raise AdaptiveError(
        f"the stream on tier {place.tier.url} is of named variables, and not of one array",
        hint=f"its variables {', '.join(names)} are streams in folders below; or open it by xarray's engine `weir`",
    )


def _meaning(stream: Stream, place: Place) -> Meaning:
    shape = stream.shape if stream.nodes is None else (stream.nodes,)
    try:
        if stream.meaning is None:
            return Meaning.of(numpy.dtype(stream.dtype), shape)
        meaning = Meaning.from_document(stream.meaning)
    except (TypeError, ValueError) as error:
        raise AdaptiveError(f"{place.name(STREAM)} is damaged: {error}") from error
    stored = shape if stream.nodes is None else meaning.form.stored_shape
    if (meaning.form.stored_dtype.name, meaning.form.stored_shape) != (stream.dtype, stored):
        raise AdaptiveError(f"{place.name(STREAM)} is damaged: its meaning is that of other arrays")
    return meaning


def complete(
    given: "Sequence[TierLike] | TierLike", *, seconds: float = OPEN_SECONDS_MAX, tolerant: bool = False
) -> tuple[tuple[Place, ...], Catalogue]:
    """Open the tiers of a stream. The stream's own description completes the named tiers, and names the others.

    Args:
        given: The first tiers of the stream, in their order.
        seconds: Longest wait for each answer of a tier.
        tolerant: As for `Catalogue`.

    Returns:
        All tiers in their order, open, and the catalogue of the stream.

    Raises:
        AdaptiveError: There is no stream on the first tier, more tiers are named than it has, or a tier cannot be
            opened.
    """
    named = named_tiers(given)
    tiers_of(named)
    first = place_of(named[0], seconds)
    catalogue = Catalogue(first, seconds=seconds, tolerant=tolerant)
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
    """Open a tier; some file systems connect to their server for this.

    Args:
        seconds: Longest wait until the tier is open.

    Raises:
        AdaptiveError: The tier cannot be opened, or not in time.
    """
    return Inquiry(tier.url, seconds).answer("to open it", lambda: Place(tier))


def _zone(text: str, first: Place) -> Zone:
    try:
        return Zone(text)
    except ValueError as error:
        raise AdaptiveError(f"{first.name(STREAM)} is damaged: there is no zone `{text}`") from error
