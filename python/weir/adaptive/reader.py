"""The reader of a stream's steps, each as accurate as its time allows."""

import asyncio
import operator
import threading
import time
import warnings
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, overload

from weir.adaptive.catalogue import OPEN_SECONDS_MAX, Catalogue, complete
from weir.adaptive.errors import AdaptiveError, AdaptiveWarning, DeadlineError, NoStreamError, StepError
from weir.adaptive.fetch import Arrived, Channel, Fetch, TierRead
from weir.adaptive.journal import journal_of
from weir.adaptive.lanes import Lane
from weir.adaptive.manifest import Manifest, manifest_name, spelled
from weir.adaptive.policy import Accuracy, Fixed, Planner, Policy, policy_of
from weir.adaptive.region import Cut, Region, cut_of
from weir.adaptive.tiers import Place, TierLike

if TYPE_CHECKING:
    import numpy

    from weir import _core
    from weir.adaptive.slowdowns import Slowdowns

WAIT_SECONDS_MAX = 600.0
"""Longest wait of a step without a deadline for tiers that hang."""
_FOLLOW_SECONDS_MAX = 1e8
"""Longest time to follow a stream, three years; a longer one counts as this."""
_POLL_SECONDS = 0.2
"""Pause between two looks for a step that is not there yet."""
_RESTORED_STEPS = 5
"""Number of last steps in the estimate of the restoring time."""


@dataclass(frozen=True)
class Step:
    """One step, as accurate as its time allowed.

    Attributes:
        number: Number of the step.
        data: The array, of the stream's dtype and of its shape or the region's; on a mesh one value for each node, in
            the order of the nodes.
        rmse: Upper bound of the root mean square error at the bytes read, in units of the data; found when the step was
            written.
        max_error: Upper bound of the largest error of a value, in units of the data; found when the step was written.
        bytes_read: Bytes read from all tiers.
        seconds: Time of the reads, whether or not the caller waited.
        augmentation: Part of the bytes behind the base that was read, 0 to 1.
        waited_seconds: Time that the caller waited for the reads.
        restore_seconds: Time of restoring the array.
        late: Whether the deadline came before all planned bytes, or before the array was restored.
        tiers: The reads from each tier.
        problems: Damaged or missing parts, where they were tolerated.
        fill: Fill values that were stated of the step: cells that have one are exact, and are no part of the errors.
    """

    number: int
    data: "numpy.ndarray[Any, Any]"
    rmse: float
    max_error: float
    bytes_read: int
    seconds: float
    augmentation: float
    waited_seconds: float
    restore_seconds: float
    late: bool
    tiers: tuple[TierRead, ...]
    problems: tuple[str, ...]
    fill: tuple[float, ...] = ()

    def _repr_html_(self) -> str:
        """The step as a table of HTML."""
        from weir.adaptive.stream_table import step_html

        return step_html(self)


class Reader:
    """The steps of a stream: iterate over it, also with `async for`.

    Threads may share a reader; each step goes to one thread.

    `len(reader)` is the number of steps that are there, `reader[-1]` the last one, `reader[::2]` every other one, and
    `reader[3, ..., ::-1]` a region of one: numpy's rules, and what was iterated over does not matter.

    Attributes:
        meaning: What the stored numbers are: type, shape, packing and fill values of the values.
    """

    def __init__(
        self,
        tiers: Sequence[TierLike] | TierLike,
        *,
        policy: Policy | str = Fixed.BEST_EFFORT,
        accuracy: Accuracy | None = None,
        deadline_seconds: float | None = None,
        prefetch: bool = False,
        region: Region | None = None,
        tolerant: bool = False,
        follow_seconds: float = 0.0,
        open_seconds: float = OPEN_SECONDS_MAX,
        warm_up_steps: int = 0,
        threads: int = 1,
        slowdowns: "Slowdowns | None" = None,
        unpack: bool = True,
    ) -> None:
        """Open a stream.

        Args:
            tiers: Tiers in the order of the writer, the fastest first; the stream names the missing ones.
            policy: `best-effort`, `isolation`, a Plot or a Budget.
            accuracy: Sufficient accuracy; the reader reads no more than it needs.
            deadline_seconds: Longest time from the request of a step to its hand-over, with the bytes that arrived.
                Reading ends earlier by the time that restoring the last steps took.
            prefetch: Whether the next step is read while the caller works on one.
            region: A slice or a number for each axis, an ellipsis for all others; a number is a slice of length 1. The
                rest of the array is not restored.
            tolerant: Whether a step with missing or damaged parts is handed out with a warning, instead of an error.
                A stream whose end is damaged then counts as not ended.
            follow_seconds: Longest wait for a stream that is not yet begun, and for its next step.
            open_seconds: Longest time in which a tier must list its objects; a slower tier counts as hanging.
            warm_up_steps: Number of first steps that read everything, so that the forecasts learn from them.
            threads: Number of threads that restore arrays.
            slowdowns: Asks for the predicted slowdown of the next reads, such as `adaptive.store_slowdowns()`.
            unpack: Whether packed values are in the variable's units, and not as in the file; errors are so anyway.

        Raises:
            AdaptiveError: There is no such stream, policy or region.
            NoAnswerError: A tier hangs.
        """
        _check_accuracy(accuracy)
        _check_amounts(
            open_seconds=(open_seconds, 1e-9),
            deadline_seconds=(deadline_seconds, 1e-9),
            follow_seconds=(follow_seconds, 0),
            warm_up_steps=(warm_up_steps, 0),
            threads=(threads, 1),
        )
        chosen = policy_of(policy)
        follow_seconds = min(follow_seconds, _FOLLOW_SECONDS_MAX)
        places, self._catalogue = _opened(tiers, min(open_seconds, WAIT_SECONDS_MAX), follow_seconds, tolerant=tolerant)
        self._channels = [_channel(place, chosen, warm_up_steps, slowdowns) for place in places]
        self._journal = journal_of([place.url for place in places])
        self._accuracy, self._policy = accuracy, chosen
        self._has_deadline = deadline_seconds is not None and deadline_seconds <= _FOLLOW_SECONDS_MAX
        self._wait_seconds = deadline_seconds if deadline_seconds and self._has_deadline else WAIT_SECONDS_MAX
        self._restoring: deque[float] = deque(maxlen=_RESTORED_STEPS)
        self._prefetch, self._deadline_seconds = prefetch, deadline_seconds
        self._order = self._catalogue.order()
        self.meaning, self._unpack = self._catalogue.meaning, unpack
        self._cut = None if region is None else self._region(region)
        self._tolerant, self._follow_seconds, self._threads = tolerant, follow_seconds, threads
        self._lock = threading.Condition()
        self._numbers = deque(self._catalogue.look()[0])
        # Numbers of the first and the last step that were seen.
        self._first, self._known = min(self._numbers, default=None), max(self._numbers, default=-1)
        self._ahead: Fetch | None = None
        self._closed = False
        self._doubted: set[str] = set()

    def __iter__(self) -> Iterator[Step]:
        """Iterate over the steps that no caller has got yet."""
        return self

    def __next__(self) -> Step:
        """Read the next step.

        Raises:
            StopIteration: There is no further step.
            StepError: The step cannot be read; the step behind it is next.
        """
        step = self._step()
        if step is None:
            raise StopIteration
        return step

    def __aiter__(self) -> AsyncIterator[Step]:
        """Iterate over the steps that no caller has got yet."""
        return self

    async def __anext__(self) -> Step:
        """Read the next step, while other tasks go on.

        Raises:
            StopAsyncIteration: There is no further step.
            StepError: The step cannot be read; the step behind it is next.
        """
        step = await asyncio.to_thread(self._step)
        if step is None:
            raise StopAsyncIteration
        return step

    def __enter__(self) -> Self:
        """Read steps in a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up the reads ahead."""
        self.close()

    async def __aenter__(self) -> Self:
        """Read steps in a block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up the reads ahead."""
        self.close()

    def step(self, number: int) -> Step:
        """Read one step, whatever step is next.

        Args:
            number: Number of the step, from 0.

        Raises:
            AdaptiveError: `number` is no whole number.
            StepError: The step is not there, or cannot be read.
        """
        asked = time.monotonic()
        try:
            number = operator.index(number)
        except TypeError:
            raise AdaptiveError(f"{number!r} is no step", hint="steps are numbered from 0") from None
        if number > self._known or number < 0:
            self._look()
        if not 0 <= number <= self._known:
            place = self._channels[0].place.name(manifest_name(max(number, 0)))
            hint = f"there are steps up to {self._known}" if self._known >= 0 else "there are none yet"
            raise StepError(number, place, "there is no such step", hint=hint)
        return self._read(number, self._cut, asked)

    def __len__(self) -> int:
        """Number of the steps that are there now."""
        self._look()
        return 0 if self._first is None else self._known - self._first + 1

    @overload
    def __getitem__(self, key: SupportsIndex) -> Step: ...

    @overload
    def __getitem__(self, key: slice | EllipsisType) -> list[Step]: ...

    @overload
    def __getitem__(self, key: tuple[Any, ...]) -> Any: ...

    def __getitem__(self, key: Any) -> Any:
        """Read the steps, or regions of steps, that an index names.

        Args:
            key: A number or a slice of steps, and after it a region of each, as for numpy: places named by a number
                lose their axis.

        Raises:
            IndexError: There is no such step.
            AdaptiveError: There is no such region.
            StepError: A step cannot be read.
        """
        picked, *region = key if isinstance(key, tuple) else (key,)
        picked = slice(None) if picked is ... else picked
        if region and self._cut is not None:
            raise AdaptiveError("the reader reads a region already", hint="take what you need from step.data")
        cut = self._region(region) if region else self._cut
        there = range(length := len(self))
        if isinstance(picked, slice):
            return [self._at(place, cut, squeeze=bool(region)) for place in there[picked]]
        place = operator.index(picked)
        if not -length <= place < length:
            raise IndexError(f"there is no step {place}: the stream has {length}")
        return self._at(place % length, cut, squeeze=bool(region))

    def _region(self, region: Region) -> Cut:
        if self._order is not None:
            raise AdaptiveError(
                "values on a mesh have no regions: neighbours in space are spread over the nodes' numbers",
                hint="read all, and take the nodes that you need from step.data",
            )
        return cut_of(region, self.meaning.form.shape)

    def _at(self, place: int, cut: Cut | None, *, squeeze: bool) -> Step:
        step = self._read((self._first or 0) + place, cut, time.monotonic())
        return replace(step, data=cut.squeezed(step.data)) if squeeze and cut is not None else step

    def _read(self, number: int, cut: Cut | None, asked: float) -> Step:
        fetch = self._fetch(number, cut)
        fetch.start()
        return self._received(fetch, asked, cut)

    def _fetch(self, number: int, cut: Cut | None) -> Fetch:
        bounds = None if cut is None else self.meaning.form.stored_bounds(cut.bounds)
        return Fetch(number, self._channels, self._accuracy, bounds, self.meaning)

    def __repr__(self) -> str:
        """The first tier, and the number of steps that were seen."""
        return f"<reader of {self._known + 1} steps in {self._channels[0].place.tier.url}>"

    def _repr_html_(self) -> str:
        """The stream and the settings of the reader as a table of HTML."""
        from weir.adaptive.stream_table import reader_html

        tiers = [channel.place.tier for channel in self._channels]
        settings = {
            "policy": self._policy,
            "accuracy": self._accuracy,
            "deadline_seconds": self._deadline_seconds,
            "prefetch": self._prefetch,
            "region": None if self._cut is None else self._cut.bounds,
            "tolerant": self._tolerant,
        }
        return reader_html(self._catalogue.stream, tiers, self._known + 1, settings)

    def close(self) -> None:
        """Give up the reads ahead; there are no more steps."""
        with self._lock:
            ahead, self._ahead = self._ahead, None
            self._closed = True
            self._lock.notify_all()
        if ahead is not None:
            ahead.close()

    def _step(self) -> Step | None:
        asked = time.monotonic()
        fetch = self._take()
        if fetch is None:
            return None
        # The time of a step that had to be written first begins when the step is there.
        begun = time.monotonic() if self._follow_seconds else asked
        return self._received(fetch, begun, self._cut)

    def _received(self, fetch: Fetch, begun: float, cut: Cut | None) -> Step:
        """Receive the bytes that arrive until the deadline of a step that was requested at `begun`."""
        fetch.wait(begun + self._wait_seconds - self._reserve())
        arrived = fetch.close()
        waited = time.monotonic() - begun
        if self._prefetch:
            self._read_ahead()
        try:
            step = self._restored(fetch, arrived, begun, waited, cut)
        finally:
            for channel in self._channels:
                channel.planner.learn()
        if self._journal is not None and arrived.manifest is not None:
            whole = arrived.manifest.total_bytes
            self._journal.note(step, whole_bytes=whole, deadline_seconds=self._deadline_seconds)
        return step

    def _take(self) -> Fetch | None:
        """The begun fetch of the next step; a step that is not written yet is waited for."""
        until = time.monotonic() + self._follow_seconds
        while True:
            with self._lock:
                if self._closed:
                    return None
                if self._ahead is not None:
                    fetch, self._ahead = self._ahead, None
                    return fetch
                if self._numbers:
                    return self._begin()
                if not self._follow_seconds:
                    return None
            # The lock is free meanwhile: a tier may take its time for the listing.
            ended = self._look()
            with self._lock:
                if self._numbers:
                    continue
                if ended or time.monotonic() >= until:
                    return None
                self._lock.wait(_POLL_SECONDS)

    def _look(self) -> bool:
        """Look for new steps; tell whether the stream has ended."""
        numbers, ended = self._catalogue.look(after=self._known)
        with self._lock:
            self._numbers.extend(number for number in numbers if number > self._known)
            if self._first is None:
                self._first = min(numbers, default=None)
            self._known = max(self._known, *numbers, -1)
        return ended

    def _reserve(self) -> float:
        """Seconds before the deadline for restoring; reading has at least half of the time."""
        if not self._has_deadline or not self._restoring:
            return 0.0
        return min(sorted(self._restoring)[len(self._restoring) // 2], self._wait_seconds / 2)

    def _begin(self) -> Fetch:
        fetch = self._fetch(self._numbers.popleft(), self._cut)
        fetch.start()
        return fetch

    def _read_ahead(self) -> None:
        with self._lock:
            if self._ahead is None and self._numbers and not self._closed:
                self._ahead = self._begin()

    def _restored(self, fetch: Fetch, arrived: Arrived, begun: float, waited: float, cut: Cut | None) -> Step:
        manifest = arrived.manifest
        if arrived.fault is not None:
            raise arrived.fault
        if arrived.failures and (manifest is None or not self._tolerant):
            raise arrived.failures[0]
        if manifest is None or not _holds(arrived.parts, manifest.base_end):
            raise self._baseless(fetch.number, arrived)
        self._check(manifest)
        head = fetch.head(arrived.parts)
        place = self._channels[0].place.name(manifest.parts[0].name)
        came = time.monotonic()
        try:
            bounds = None if cut is None else self.meaning.form.stored_bounds(cut.bounds)
            restored = head.restore(arrived.parts, region=bounds, threads=self._threads)
        except ValueError as error:
            raise StepError(fetch.number, place, f"cannot be restored: {error}") from error
        data, fill = self._values(restored, head, cut)
        rmse, max_error = self.meaning.errors(restored.rmse, restored.max_error, head)
        restore_seconds = time.monotonic() - came
        self._restoring.append(restore_seconds)
        late = arrived.late or (self._has_deadline and time.monotonic() > begun + self._wait_seconds)
        problems = (*map(str, arrived.failures), *(self._located(manifest, offset) for offset in restored.damaged))
        for problem in (*problems, *self._doubts(arrived)):
            warnings.warn(problem, AdaptiveWarning, stacklevel=5)
        read = sum(len(data) for _, data in arrived.parts)
        whole = manifest.total_bytes - manifest.base_end
        behind = whole if arrived.behind_bytes is None else arrived.behind_bytes
        return Step(
            fetch.number,
            data,
            rmse,
            max_error,
            read,
            arrived.seconds,
            (read - manifest.base_end) / behind if behind else 1.0,
            waited,
            restore_seconds,
            late,
            tuple(arrived.tiers),
            problems,
            fill,
        )

    def _values(
        self, restored: "_core.Restored", head: "_core.Refactored", cut: Cut | None
    ) -> "tuple[numpy.ndarray[Any, Any], tuple[float, ...]]":
        """The values of a restored container, and their fill values."""
        import numpy

        data = numpy.frombuffer(restored.data, dtype=head.dtype).reshape(restored.shape)
        if self._order is not None:
            data = self._order.values(data)
        encoding = self.meaning.encoding
        counted = self.meaning.counted(data, head.fill, None if cut is None else cut.bounds)
        if cut is not None:
            counted = cut.pick(counted)
        if not self._unpack:
            return encoding.stored(counted), tuple(head.fill)
        return encoding.in_units(counted), encoding.unit_fills if encoding.is_packed else tuple(head.fill)

    def _doubts(self, arrived: Arrived) -> list[str]:
        """Warn of unreliable forecasts and an unreachable accuracy, once each."""
        doubts = {tier.url: f"tier {tier.url}: {tier.warning}" for tier in arrived.tiers if tier.warning is not None}
        doubts |= {note: note for note in arrived.notes}
        with self._lock:
            new = doubts.keys() - self._doubted
            self._doubted |= new
        return [doubts[key] for key in new]

    def _located(self, manifest: Manifest, offset: int) -> str:
        """The file of the damaged block at an offset in the container, and the block's place in that file."""
        tier = next((index for index, part in enumerate(manifest.parts) if offset < part.end), 0)
        part = manifest.parts[tier]
        place = self._channels[tier].place.name(part.name)
        return f"step {manifest.number}: {place}: the block at byte {offset - part.offset} is damaged"

    def _baseless(self, number: int, arrived: Arrived) -> StepError:
        if arrived.failures:
            return arrived.failures[0]
        missing = manifest_name(number) if arrived.manifest is None else arrived.manifest.parts[0].name
        return DeadlineError(
            number,
            self._channels[0].place.name(missing),
            f"not even the base had arrived after {arrived.seconds:.3g} s",
            hint="give the first tier to this reader alone, on fast storage, or allow more time",
        )

    def _check(self, manifest: Manifest) -> None:
        stream = self._catalogue.stream
        if manifest.stream != stream.identity:
            place = self._channels[0].place.name(manifest_name(manifest.number))
            hint = "one folder was written by two programs at once: give each stream a folder of its own"
            raise StepError(manifest.number, place, "it belongs to another stream", hint=hint)
        if (manifest.dtype, manifest.shape) != (stream.dtype, stream.shape):
            raise StepError(
                manifest.number,
                self._channels[0].place.name(manifest.parts[0].name),
                f"it holds {spelled(manifest.dtype, manifest.shape)}, and the stream "
                f"{spelled(stream.dtype, stream.shape)}",
            )


def _check_accuracy(accuracy: object) -> None:
    if not isinstance(accuracy, Accuracy | None):
        raise AdaptiveError(f"{accuracy!r} is no accuracy", hint="give an accuracy, such as a psnr of 60")


def _check_amounts(**amounts: tuple[float | None, float]) -> None:
    """Refuse an option below its least value; each option comes with both."""
    for name, (amount, least) in amounts.items():
        if amount is not None and not amount >= least:
            raise AdaptiveError(f"{name} = {amount} makes no sense", hint=f"it is at least {least:g}")


def _opened(
    tiers: Sequence[TierLike] | TierLike, seconds: float, follow_seconds: float, *, tolerant: bool
) -> tuple[tuple[Place, ...], Catalogue]:
    """Open the tiers and the stream on them; a stream that is not begun yet is waited for."""
    until = time.monotonic() + follow_seconds
    while True:
        try:
            return complete(tiers, seconds=seconds, tolerant=tolerant)
        except NoStreamError:
            if time.monotonic() >= until:
                raise
            time.sleep(_POLL_SECONDS)


def _channel(place: Any, policy: Policy, warm_up_steps: int, slowdowns: "Slowdowns | None") -> Channel:
    from weir.adaptive.server_forecast import server_forecast_of

    tier = place.tier
    planner = Planner(
        tier,
        policy,
        warm_up_steps=warm_up_steps,
        server_forecast=server_forecast_of(place.local_root),
        slowdowns=slowdowns,
    )
    return Channel(place, Lane(tier.url, tier.connections), planner)


def _holds(parts: Sequence[tuple[int, bytes]], end: int) -> bool:
    """Whether the first part reaches from the beginning to `end`."""
    return bool(parts) and parts[0][0] == 0 and len(parts[0][1]) >= end
