"""Storage tiers, the fastest first, and their objects. A tier is any folder that fsspec opens."""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from weir.adaptive.errors import AdaptiveError, told
from weir.distribution import install_command
from weir.plugins import PluginError

if TYPE_CHECKING:
    from io import FileIO

    from weir.adaptive.plot import Plot
    from weir.plugins.forecaster import ForecasterLike

CONNECTIONS = 2
"""Range reads under way at once: one moves data while the other waits for its first byte."""
REQUEST_BYTES = 1 << 20
"""Least bytes of a range read."""
_GROWTH = 4.0
"""Default ratio of a tier's bytes to those of the tier before it."""
_MOVED = frozenset({"file", "local", "sftp", "ssh", "hdfs", "webhdfs", "smb", "ftp"})
"""File systems that show a file while it is written; object stores show an object once it is whole."""


class Zone(StrEnum):
    """The expected use of a tier (section III-A of the paper)."""

    ISOLATION = "isolation"
    """A tier that this reader alone uses: read at every step."""
    AUGMENTATION = "augmentation"
    """A shared tier: read as far as the forecast of its bandwidth allows."""
    BEST_EFFORT = "best-effort"
    """A tier that is read only for an accuracy that the tiers above do not hold."""


@dataclass(frozen=True)
class Tier:
    """A place for one part of every step.

    Attributes:
        url: A folder: a local path, a path on a Weir mount, or any URL of fsspec (`memory://run`, `s3://bucket/run`).
        zone: Zone of the tier. By default the first of several tiers is isolation, and all others are augmentation.
        share: Part of the bytes behind the base on this tier. By default each tier holds four times the bytes of the
            tier before it, and the first tier the base alone. The last tier holds the rest.
        plot: The augmentation-bandwidth plot, where it differs from the policy's.
        forecaster: A name of `weir.prediction.bandwidth`, or a plug-in: its name, its place `module:attribute`, or its
            class.
        threshold: Part of the largest amplitude below which the paper's Fourier transform, alone or within `online`,
            leaves a frequency out, 0 to 1 (section III-C of the paper). By default a quarter.
        period_seconds: The shortest period of the reads' disturbances, where it is known: a warning then tells that
            steps are too far apart to see it.
        connections: Number of range reads under way at once.
        request_bytes: Least bytes of a range read: latency dominates smaller ones. From a tier without a known
            bandwidth, this many bytes are read.
        storage_options: Options for fsspec to open the tier.
    """

    url: str
    zone: Zone | str | None = None
    share: float | None = None
    plot: "Plot | None" = None
    forecaster: "ForecasterLike" = "online"
    threshold: float | None = None
    period_seconds: float | None = None
    connections: int = CONNECTIONS
    request_bytes: int = REQUEST_BYTES
    storage_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the tier.

        Raises:
            AdaptiveError: An attribute has a value that no tier can have.
        """
        if not self.url:
            raise AdaptiveError("a tier has no URL", hint="name a folder, as in `/fast/run` or `s3://bucket/run`")
        if self.zone is not None and self.zone not in {known.value for known in Zone}:
            raise AdaptiveError(f"tier {self.url}: there is no zone `{self.zone}`", hint=f"there are {', '.join(Zone)}")
        if self.share is not None and not 0.0 <= self.share <= 1.0:
            raise AdaptiveError(f"tier {self.url}: a share of {self.share} is not between 0 and 1")
        if self.connections < 1:
            raise AdaptiveError(f"tier {self.url}: {self.connections} connections cannot read anything")
        if self.request_bytes < 1:
            raise AdaptiveError(f"tier {self.url}: requests of {self.request_bytes} bytes read nothing")
        if self.threshold is not None and not 0.0 <= self.threshold <= 1.0:
            raise AdaptiveError(
                f"tier {self.url}: a threshold of {self.threshold} is no part of the largest amplitude",
                hint="give 0 to 1: 0.25 is usual",
            )
        from weir.prediction.bandwidth import check

        try:
            check(self.forecaster)
        except PluginError as error:
            raise AdaptiveError(f"tier {self.url}: {error.message}", hint=error.hint) from error

    @staticmethod
    def parse(text: str) -> "Tier":
        """Read a tier from a text.

        Args:
            text: `[ZONE=]URL`.

        Raises:
            AdaptiveError: The text names no URL, or a zone that there is not.
        """
        zone, equals, url = text.partition("=")
        zones = [known.value for known in Zone]
        if equals and zone in zones:
            return Tier(url, zone=Zone(zone))
        # A path or URL with an equals sign, such as run/day=3, has one of these before it.
        if equals and not any(mark in zone for mark in "/:.~"):
            near = get_close_matches(zone, zones, n=1)
            meant = f"did you mean {near[0]}={url}? there" if near else "there"
            raise AdaptiveError(
                f"tier {text}: there is no zone `{zone}`",
                hint=f"{meant} are {', '.join(zones)}; a folder of that name is ./{text}",
            )
        return Tier(text)


TierLike = Tier | str | os.PathLike[str]


def named_tiers(given: "Sequence[TierLike] | TierLike") -> list[Tier]:
    """Make tiers of their names.

    Args:
        given: A tier, or several in order: a Tier, a path, or a text as for `Tier.parse`.

    Returns:
        The tiers in order, as they were named.

    Raises:
        AdaptiveError: An argument is no tier.
    """
    listed = [given] if isinstance(given, Tier | str | os.PathLike) else list(given)
    return [_named(tier) for tier in listed]


def _named(tier: TierLike) -> Tier:
    if isinstance(tier, Tier):
        return tier
    if isinstance(tier, str):
        return Tier.parse(tier)
    try:
        return Tier(os.fspath(tier))
    except TypeError:
        raise AdaptiveError(f"{tier!r} is no tier", hint="a tier is a folder's path or URL, or a Tier") from None


def tiers_of(given: "Sequence[TierLike] | TierLike") -> tuple[Tier, ...]:
    """Make tiers of their names, and give each its zone.

    Args:
        given: A tier, or several in order, as for `named_tiers`.

    Returns:
        The tiers in order, each with its zone.

    Raises:
        AdaptiveError: There is no tier, or one is named twice.
    """
    tiers = named_tiers(given)
    if not tiers:
        raise AdaptiveError("there is no tier", hint="name at least one folder")
    if len({tier.url for tier in tiers}) != len(tiers):
        raise AdaptiveError(f"a tier is named twice: {', '.join(tier.url for tier in tiers)}")
    first = Zone.ISOLATION if len(tiers) > 1 else Zone.AUGMENTATION
    usual = [first, *[Zone.AUGMENTATION] * (len(tiers) - 1)]
    return tuple(replace(tier, zone=tier.zone or zone) for tier, zone in zip(tiers, usual, strict=True))


def divide(tiers: Sequence[Tier], *, base_end: int, total: int) -> list[tuple[int, int]]:
    """Divide the bytes of a step among tiers.

    Args:
        tiers: All tiers, in order.
        base_end: Bytes of header and base, which lie on the first tier.
        total: Bytes of the container; the bytes behind the base can be cut anywhere.

    Returns:
        (offset, length) of the bytes on each tier, in order and without a gap.

    Raises:
        AdaptiveError: The shares come to more than the whole.
    """
    ends = [base_end + round(min(part, 1.0) * (total - base_end)) for part in accumulate(_shares(tiers)[:-1])]
    return [(begin, end - begin) for begin, end in pairwise([0, *ends, total])]


def _shares(tiers: Sequence[Tier]) -> list[float]:
    if len(tiers) == 1:
        return [1.0]
    given = [tier.share if index else tier.share or 0.0 for index, tier in enumerate(tiers)]
    left = 1.0 - sum(share for share in given if share is not None)
    if left < -1e-9:
        raise AdaptiveError(
            f"the shares of the tiers come to {1.0 - left:g}", hint="they are parts of one whole: at most 1 together"
        )
    weights = [0.0 if share is not None else _GROWTH**index for index, share in enumerate(given)]
    total = sum(weights)
    return [
        share if share is not None else max(left, 0.0) * weight / total
        for share, weight in zip(given, weights, strict=True)
    ]


class Place:
    """An open tier: byte ranges and whole objects below its folder.

    Attributes:
        tier: The tier.
    """

    def __init__(self, tier: Tier) -> None:
        """Open a tier.

        Raises:
            AdaptiveError: fsspec knows no such place, or a package for it is missing.
        """
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise AdaptiveError("fsspec is not installed", hint=install_command("adaptive")) from error
        self.tier = tier
        try:
            self._files, root = url_to_fs(tier.url, **tier.storage_options)
        except (ImportError, ValueError, OSError) as error:
            # An ImportError of fsspec names the missing package.
            hint = "" if isinstance(error, ImportError) else "is its URL right?"
            raise AdaptiveError(f"tier {tier.url} cannot be opened: {told(error)}", hint=hint) from error
        self._root = str(root).rstrip("/")
        protocol = self._files.protocol
        self._protocols = {protocol} if isinstance(protocol, str) else set(protocol)

    @property
    def local_root(self) -> str | None:
        """The folder; None where the tier does not lie in this machine's file system."""
        return self._root if self._protocols & {"file", "local"} else None

    @property
    def url(self) -> str:
        """URL for another process: relative local paths are made absolute."""
        return self._root if self.local_root is not None else self.tier.url

    def name(self, name: str) -> str:
        """Name an object as a user knows it.

        Args:
            name: Name of the object below the tier's folder.

        Returns:
            URL of the object.
        """
        return f"{self.tier.url.rstrip('/')}/{name}"

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """Read a range of an object.

        Args:
            start: First byte.
            end: One past the last byte; None is the object's end.

        Returns:
            The bytes, fewer where the object is shorter.

        Raises:
            OSError: The object is not there, or cannot be read.
        """
        path = f"{self._root}/{name}"
        if self.local_root is None:
            return bytes(self._files.cat_file(path, start=start, end=end))
        # A buffered reader reads whole blocks of the file system, which are 1 MiB on a Weir mount. It would read more
        # than the range, and the measured bandwidth would not be that of the range.
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is no file")
            file.seek(start)
            return _read_fully(file, None if end is None else end - start)

    def write(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Write an object. The object is never seen half written.

        Args:
            data: Content of the object.

        Raises:
            OSError: The object cannot be written.
        """
        path = f"{self._root}/{name}"
        self._files.makedirs(self._root, exist_ok=True)
        if not self._protocols & _MOVED:
            self._files.pipe_file(path, bytes(data))
            return
        try:
            with self._files.open(f"{path}.part", "wb") as file:
                file.write(data)
            self._files.mv(f"{path}.part", path)
        except BaseException:
            # A disk that is full stays full with half an object on it.
            with suppress(Exception):
                self._files.rm_file(f"{path}.part")
            raise

    def remove(self, name: str) -> None:
        """Remove an object, if it is there.

        Raises:
            OSError: The object cannot be removed.
        """
        with suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")

    def names(self) -> list[str]:
        """List the objects in the folder.

        Returns:
            Names of the objects; none where the folder does not exist.

        Raises:
            OSError: The folder cannot be listed.
        """
        self._files.invalidate_cache(self._root)
        try:
            entries = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return [str(entry).rstrip("/").rpartition("/")[2] for entry in entries]


def _open_at_once(path: str, flags: int) -> int:
    """Open a file. A pipe in its place would hold the open until somebody writes there."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read_fully(file: "FileIO", count: int | None) -> bytes:
    """The next `count` bytes, or fewer at the end of the file."""
    if count is None:
        return file.readall()
    data = bytearray(count)
    view, done = memoryview(data), 0
    while done < count and (read := file.readinto(view[done:])):
        done += read
    return bytes(view[:done])
