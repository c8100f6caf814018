"""The reads of one step: manifest, base and augmentation, from all tiers at once."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from weir.adaptive.containers import opened
from weir.adaptive.errors import StepError, told
from weir.adaptive.lanes import Lane, Read
from weir.adaptive.manifest import Manifest, ManifestError, header_checksum, manifest_name, spelled
from weir.adaptive.policy import Accuracy, Plan, Planner, plan_step
from weir.adaptive.tiers import Place
from weir.plugins import PluginError

if TYPE_CHECKING:
    from weir import _core
    from weir.adaptive.meaning import Meaning

PIECE_BYTES_MAX = 64 << 20
"""Most bytes of a piece: a piece that is not whole when time is over is lost, so pieces stay small beside a step."""
_PIECES_OF_A_CONNECTION = 8
"""Pieces in which a connection reads: a step that runs out of time then keeps most of the bytes that came."""

Span = tuple[int, int]
"""Begin and end of bytes in a container."""


@dataclass(frozen=True)
class Channel:
    """A tier as a reader uses it."""

    place: Place
    lane: Lane
    planner: Planner


@dataclass
class _Progress:
    """The bytes that arrived from one tier, with header and base."""

    plan: Plan | None = None
    asked_bytes: int = 0
    begun_bytes: int = 0
    arrived_bytes: int = 0
    failed: bool = False
    begun: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class TierRead:
    """The reads of one step from one tier.

    Attributes:
        url: URL of the tier.
        forecast: Forecast of the tier's bandwidth in bytes per second; None where nothing was known.
        wanted_bytes: Planned bytes of the augmentation.
        read_bytes: Bytes that arrived, with header and base.
        seconds: Time from the first read to the last one that arrived, or to the deadline.
        bandwidth: Achieved bandwidth in bytes per second; None where nothing was read.
        warning: Reason not to trust the forecast.
        forecast_low: Lower end of the forecast's interval, which holds four of five bandwidths.
        forecast_high: Upper end.
    """

    url: str
    forecast: float | None
    wanted_bytes: int
    read_bytes: int
    seconds: float
    bandwidth: float | None
    warning: str | None = None
    forecast_low: float | None = None
    forecast_high: float | None = None


@dataclass(frozen=True)
class Arrived:
    """All bytes and results of a step's reads.

    Attributes:
        manifest: The manifest; None where not even the manifest has arrived.
        parts: Offset in the container and bytes of each part, in order, with neighbours joined.
        tiers: The reads from each tier.
        seconds: Time from the first read to the end.
        late: Whether planned bytes had not arrived.
        behind_bytes: Useful bytes behind the base for the request; None where they were not known in time.
        failures: Errors of parts that could not be read at all.
        notes: Further notes for the caller.
        fault: Failure of a plug-in, with which no step can go on.
    """

    manifest: Manifest | None
    parts: list[tuple[int, bytes]]
    tiers: list[TierRead]
    seconds: float
    late: bool
    behind_bytes: int | None = None
    failures: list[StepError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fault: PluginError | None = None


class Fetch:
    """The reads of one step. They run on the lanes' threads; each wait has a bound."""

    def __init__(
        self,
        number: int,
        channels: Sequence[Channel],
        accuracy: Accuracy | None,
        region: Sequence[tuple[int, int]] | None,
        meaning: "Meaning",
    ) -> None:
        """Prepare to read a step.

        Args:
            accuracy: Sufficient accuracy; None reads as planned.
            region: (start, stop) along each axis of the stored array; no more is read than it needs. None is the whole
                array.
            meaning: What the stored numbers mean: the accuracy is in the units of the values.
        """
        self.number = number
        self._meaning = meaning
        self._region = region
        self._behind_bytes: int | None = None
        self._notes: list[str] = []
        self._channels = channels
        self._accuracy = accuracy
        self._changed = threading.Condition()
        self._reads: list[tuple[Lane, Read]] = []
        self._pending = 0
        self._closed = False
        self._manifest: Manifest | None = None
        self._pieces: list[tuple[int, bytes]] = []
        self._progress = [_Progress() for _ in channels]
        self._failures: list[StepError] = []
        self._fault: PluginError | None = None
        self._started = 0.0
        self._ended = 0.0
        self._has_base = False
        self._given_up_at = math.inf

    def start(self) -> None:
        """Begin to read."""
        self._started = time.monotonic()
        self._submit(0, self._read_manifest)

    def wait(self, until: float) -> bool:
        """Wait for all reads to arrive or fail. Where the plans have a time budget, the wait ends with the budget, but
        not before the base is there.

        Args:
            until: Time of the monotonic clock at which the wait ends.

        Returns:
            Whether all reads arrived or failed.
        """
        with self._changed:
            while self._pending:
                left = (min(until, self._given_up_at) if self._has_base else until) - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            return True

    def close(self) -> Arrived:
        """Give up outstanding reads, and report the outcome to the planners.

        Returns:
            The arrived bytes.
        """
        with self._changed:
            late = self._pending > 0
            self._closed = True
            ended = time.monotonic() if late else self._ended
            reads = list(self._reads)
        for lane, read in reads:
            lane.give_up(read)
        tiers = [
            self._account(channel, progress, ended)
            for channel, progress in zip(self._channels, self._progress, strict=True)
        ]
        parts = _joined(self._pieces)
        seconds = ended - self._started
        return Arrived(
            self._manifest,
            parts,
            tiers,
            seconds,
            late,
            self._behind_bytes,
            self._failures,
            self._notes,
            self._fault,
        )

    def _submit(self, tier: int, action: Callable[[], None]) -> None:
        lane = self._channels[tier].lane
        with self._changed:
            if self._closed:
                return
            read = Read(partial(self._do, tier, action))
            self._pending += 1
            self._reads.append((lane, read))
        lane.submit(read)

    def _do(self, tier: int, action: Callable[[], None]) -> None:
        try:
            if not self._closed:
                action()
        except PluginError as error:
            with self._changed:
                self._fault = error
        except Exception as error:
            # No error may end a lane's thread: the caller that waits for the step gets the error.
            url = self._channels[tier].place.tier.url
            known = error if isinstance(error, StepError) else StepError(self.number, url, f"cannot be read: {error!r}")
            with self._changed:
                self._failures.append(known)
                self._progress[tier].failed = True
        finally:
            with self._changed:
                self._pending -= 1
                if self._pending == 0:
                    self._ended = time.monotonic()
                    self._changed.notify_all()

    def _read_manifest(self) -> None:
        name = manifest_name(self.number)
        place = self._channels[0].place
        data = self._bytes(place, name, 0, None)
        try:
            manifest = Manifest.decode(data)
        except ManifestError as error:
            raise StepError(self.number, place.name(name), f"the manifest is damaged: {error}") from error
        if manifest.number != self.number:
            raise StepError(self.number, place.name(name), f"it is the manifest of step {manifest.number}")
        with self._changed:
            self._manifest = manifest
        if len(manifest.parts) > len(self._channels):
            missing = manifest.parts[len(self._channels)]
            raise StepError(
                self.number,
                missing.name,
                f"it lies on tier {len(self._channels) + 1}, which is not named",
                hint="name all tiers of the stream, in order",
            )
        self._ask(0, [(0, manifest.base_end)])
        if not self._needs_head():
            limit = manifest.total_bytes
            if self._accuracy is not None and self._accuracy.bytes_max is not None:
                limit = self._accuracy.bytes_max
            self._augment(manifest, [(manifest.base_end, manifest.total_bytes)], limit)

    def _needs_head(self) -> bool:
        """Whether only the container's header can tell the bytes to read."""
        return self._region is not None or (self._accuracy is not None and self._accuracy.bytes_max is None)

    def _augment_by_head(self, manifest: Manifest) -> None:
        """Ask for the augmentation, once header and base are there."""
        with self._changed:
            base = [piece for piece in self._pieces if piece[0] < manifest.base_end]
        head = self.head(base)
        spans = [(manifest.base_end, manifest.total_bytes)]
        if self._region is not None:
            spans = [(begin, begin + length) for begin, length in head.ranges(self._region)]
        self._augment(manifest, spans, manifest.total_bytes if self._accuracy is None else self._limit(head))

    def _augment(self, manifest: Manifest, spans: Sequence[Span], limit: int) -> None:
        """Ask for the planned augmentation, as far as it lies in `spans` and before `limit`."""
        channels = self._channels[: len(manifest.parts)]
        begins = [max(part.offset, manifest.base_end) for part in manifest.parts]
        ends = [part.end for part in manifest.parts]
        useful = [_within(spans, begin, end) for begin, end in zip(begins, ends, strict=True)]
        wanted = [_within(each, 0, limit) for each in useful]
        with self._changed:
            self._behind_bytes = sum(map(_length, useful))
        asked = self._accuracy is not None
        available = [_length(each) for each in wanted]
        plans = plan_step([each.planner for each in channels], available, time.monotonic(), accuracy_asked=asked)
        if asked and not self._notes and self._is_short(channels, available):
            self._notes.append("the tiers that may be read are not as accurate as requested; see the step's max_error")
        with self._changed:
            longest = max((plan.seconds_max for plan in plans if plan.wanted_bytes), default=math.inf)
            self._given_up_at = time.monotonic() + longest
            self._changed.notify_all()
        for tier, (each, plan) in enumerate(zip(wanted, plans, strict=True)):
            with self._changed:
                self._progress[tier].plan = plan
            self._ask(tier, _first(each, plan.wanted_bytes), time.monotonic() + plan.seconds)

    def _is_short(self, channels: Sequence[Channel], available: Sequence[int]) -> bool:
        """Whether the policy leaves tiers alone that the requested accuracy needs."""
        by_amount = self._accuracy is not None and self._accuracy.bytes_max is not None
        pairs = zip(channels, available, strict=True)
        return not by_amount and any(each.planner.is_left_alone and needed for each, needed in pairs)

    def _ask(self, tier: int, spans: Sequence[Span], until: float = math.inf) -> None:
        """Read spans of the container from a tier in pieces. No piece begins after `until`."""
        chosen = self._channels[tier].planner.tier
        # Pieces are as large as those of a whole step: a piece's share of a busy tier depends on its size.
        plan = self._progress[tier].plan
        whole = _length(spans) if plan is None else plan.available_bytes
        share = math.ceil(whole / (chosen.connections * _PIECES_OF_A_CONNECTION))
        piece = max(min(share, PIECE_BYTES_MAX), chosen.request_bytes)
        with self._changed:
            self._progress[tier].asked_bytes += _length(spans)
        for begin, end in spans:
            for start in range(begin, end, piece):
                self._submit(tier, partial(self._read_piece, tier, start, min(start + piece, end), until))

    def _read_piece(self, tier: int, start: int, stop: int, until: float) -> None:
        assert self._manifest is not None
        part = self._manifest.parts[tier]
        place = self._channels[tier].place
        progress = self._progress[tier]
        with self._changed:
            if progress.begun is not None and time.monotonic() >= until:
                progress.asked_bytes -= stop - start
                return
            progress.begun = progress.begun if progress.begun is not None else time.monotonic()
            progress.begun_bytes += stop - start
        data = self._bytes(place, part.name, start - part.offset, stop - part.offset)
        with self._changed:
            if self._closed:
                return
            progress.arrived_bytes += len(data)
            progress.ended = time.monotonic()
            if data:
                self._pieces.append((start, data))
            base_end = self._manifest.base_end
            whole = sum(len(piece) for begin, piece in self._pieces if begin < base_end) == base_end
            is_base = start < base_end
            if is_base and whole:
                self._has_base = True
                self._changed.notify_all()
        if len(data) < stop - start:
            raise StepError(
                self.number,
                place.name(part.name),
                f"it is truncated: bytes {start - part.offset} to {stop - part.offset} give {len(data)}",
                hint="write the step again; the bytes before are still read",
            )
        if is_base and whole and self._needs_head():
            self._augment_by_head(self._manifest)

    def _limit(self, head: "_core.Refactored") -> int:
        """The offset at which the container is accurate enough."""
        assert self._accuracy is not None
        asked = self._accuracy
        if asked.bytes_max is not None:
            return asked.bytes_max
        try:
            return self._meaning.bytes_for(
                head, rmse=asked.rmse, max_error=asked.max_error, psnr=asked.psnr, relative=asked.relative
            )
        except ValueError:
            # No more than the stored accuracy exists, and it is better than nothing.
            self._notes.append("even whole steps are not as accurate as requested; see their max_error")
            return head.total_bytes

    def head(self, parts: Sequence[tuple[int, bytes]]) -> "_core.Refactored":
        """Read the container's header.

        Args:
            parts: (offset, bytes) of parts that hold the header.

        Raises:
            StepError: The header is damaged, or is that of another array than the manifest's.
        """
        assert self._manifest is not None
        name = self._channels[0].place.name(self._manifest.parts[0].name)
        try:
            data = _joined(list(parts))[0][1]
            head = opened(data)
        except (ValueError, IndexError) as error:
            raise StepError(self.number, name, f"the header is damaged: {error}") from error
        manifest = self._manifest
        found = (head.dtype, tuple(head.shape), header_checksum(data, head.header_bytes))
        if found != (manifest.dtype, manifest.shape, manifest.checksum):
            raise StepError(
                self.number,
                name,
                f"it holds another array ({spelled(*found[:2])}, checksum {found[2]:08x}) than its manifest"
                f" describes ({spelled(manifest.dtype, manifest.shape)}, checksum {manifest.checksum:08x})",
                hint="the file was replaced; write the step again",
            )
        return head

    def _bytes(self, place: Place, name: str, start: int, end: int | None) -> bytes:
        # Each file system has errors of its own; each error means that the bytes cannot be read.
        try:
            return place.read(name, start, end)
        except FileNotFoundError as error:
            raise StepError(
                self.number,
                place.name(name),
                "it is gone",
                hint=self._hint_of_loss(place, end),
            ) from error
        except Exception as error:
            raise StepError(
                self.number, place.name(name), f"cannot be read: {told(error)}", hint="may you read there?"
            ) from error

    def _hint_of_loss(self, place: Place, end: int | None) -> str:
        if place is not self._channels[0].place:
            return "the base alone still reads, with the policy `isolation`; if the tiers were moved, name all of them"
        return "see which steps there are" if end is None else "without its base a step cannot be read; others can"

    def _account(self, channel: Channel, progress: _Progress, ended: float) -> TierRead:
        seconds, bandwidth = 0.0, None
        if progress.begun is not None:
            cut = progress.arrived_bytes < progress.asked_bytes
            last = ended if cut or progress.ended is None else progress.ended
            seconds = max(last - progress.begun, 1e-9)
            if not progress.failed:
                bandwidth = progress.arrived_bytes / seconds if progress.arrived_bytes else None
        plan = progress.plan or Plan(0, 0, None)
        moment = progress.begun if progress.begun is not None else self._started
        if progress.plan is not None:
            barren = progress.begun_bytes if bandwidth is None and not progress.failed else 0
            channel.planner.record(plan, moment, progress.arrived_bytes, seconds, bandwidth, begun_bytes=barren)
        url = channel.place.tier.url
        read = TierRead(url, None, plan.wanted_bytes, progress.arrived_bytes, seconds, bandwidth)
        if (known := plan.forecast) is None:
            return read
        low, high = known.low, known.high
        return replace(read, forecast=known.value, forecast_low=low, forecast_high=high, warning=known.warning)


def _length(spans: Sequence[Span]) -> int:
    return sum(end - begin for begin, end in spans)


def _within(spans: Sequence[Span], begin: int, end: int) -> list[Span]:
    """The parts of `spans` that lie between `begin` and `end`."""
    cut = [(max(first, begin), min(last, end)) for first, last in spans]
    return [(first, last) for first, last in cut if first < last]


def _first(spans: Sequence[Span], count: int) -> list[Span]:
    """The first `count` bytes of `spans`."""
    found: list[Span] = []
    for begin, end in spans:
        taken = min(end - begin, count)
        if taken > 0:
            found.append((begin, begin + taken))
        count -= taken
    return found


def _joined(pieces: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Pieces in order, with neighbours joined."""
    runs: list[tuple[int, list[bytes]]] = []
    end = -1
    for offset, data in sorted(pieces, key=lambda piece: piece[0]):
        if offset == end:
            runs[-1][1].append(data)
        else:
            runs.append((offset, [data]))
        end = offset + len(data)
    return [(offset, data[0] if len(data) == 1 else b"".join(data)) for offset, data in runs]
