"""Readers of the targets' space: the text of `lfs df`, and the `kbytes*` files of a server."""

import re
from dataclasses import dataclass

from weir.lustre.text import Place, lines

_KIBIBYTE = 1024
_ROW = "`NAME_UUID TOTAL USED AVAILABLE USE% MOUNT[OST:INDEX]`"
_MOUNTED = re.compile(r"(.*)\[(OST|MDT):(\d{1,9})\][ \t]*([A-Za-z]*)")
_TARGET = re.compile(r"(.+)-(OST|MDT)([0-9a-fA-F]{4,8})")
_DEGRADED = "D"
_WRITABLE_NOT = frozenset("RSI")
"""Flags of `lfs df` for targets that take no new objects: read-only, out of space, out of inodes (lfs-df(1))."""


@dataclass(frozen=True, slots=True)
class TargetSpace:
    """One OST in `lfs df`."""

    target: str
    """Name of the target, `FILESYSTEM-OSTxxxx`."""
    index: int
    mount: str
    total_bytes: int
    used_bytes: int
    available_bytes: int
    active: bool = True
    """Whether the target answers and takes new objects."""
    degraded: bool = False


def target_index(target: str) -> int | None:
    """Read the index of an OST from its name.

    Returns:
        The index, the hexadecimal digits of `FILESYSTEM-OSTxxxx`; None where the name is no OST's.
    """
    found = _TARGET.fullmatch(target)
    return int(found[3], 16) if found and found[2] == "OST" else None


def file_system(target: str) -> str:
    """Read the name of the file system from a target's name.

    Args:
        target: Name of a target, `FILESYSTEM-OSTxxxx`.

    Returns:
        The name; empty where `target` has none.
    """
    found = _TARGET.fullmatch(target)
    return found[1] if found else ""


def parse_kilobytes(text: str, source: str) -> int:
    """Read a `kbytestotal`, `kbytesfree` or `kbytesavail` file, whose number counts KiB.

    Args:
        text: Content of the file.
        source: Path of the file, for errors.

    Returns:
        The number in bytes.

    Raises:
        MalformedError: The file holds no number. The error names `source`.
    """
    place = Place(source, 1, text.strip())
    return _kibibytes(place, place.text, "a number of KiB")


def parse_lfs_df(text: str, source: str) -> tuple[TargetSpace, ...]:
    """Read the output of `lfs df` for one or more file systems; MDTs and sums are left out.

    Args:
        text: The output.
        source: Origin of the text, for errors.

    Returns:
        The OSTs, in the order of their lines.

    Raises:
        MalformedError: The text is none of `lfs df`, or that of `lfs df -h` or `-i`. The error names `source` and the
            line.
    """
    return tuple(found for place in lines(text, source) if (found := target_of(place)) is not None)


def target_of(place: Place) -> TargetSpace | None:
    """Read the OST of a line.

    Args:
        place: A line of `lfs df`.

    Returns:
        The OST; None for headings, sums and MDTs.

    Raises:
        MalformedError: The line is none of `lfs df`, or that of `lfs df -h` or `-i`.
    """
    text = place.text.strip()
    if text.startswith("UUID"):
        if "1K-blocks" not in text:
            place.malformed("`1K-blocks`: `lfs df` without -h and without -i")
        return None
    if re.match(r"filesystem[ _]summary:", text):
        return None
    name, _, rest = text.partition(" ")
    target = name.removesuffix("_UUID")
    if rest.lstrip().startswith(":"):
        return _inactive(target)
    words = rest.split(maxsplit=4)
    mounted = _MOUNTED.fullmatch(words[4]) if len(words) == 5 else None
    if mounted is None:
        place.malformed(_ROW)
    total, used, available = (_kibibytes(place, word, _ROW) for word in words[:3])
    if mounted[2] == "MDT":
        return None
    flags = set(mounted[4])
    return TargetSpace(
        target,
        int(mounted[3]),
        mounted[1],
        total,
        used,
        available,
        active=not flags & _WRITABLE_NOT,
        degraded=_DEGRADED in flags,
    )


def _kibibytes(place: Place, word: str, expected: str) -> int:
    """Read a number of KiB as bytes, in 64 bits as every file system counts them."""
    found = place.count(word, expected) * _KIBIBYTE
    if found >= 1 << 64:
        place.malformed(expected)
    return found


def _inactive(target: str) -> TargetSpace | None:
    """Read `NAME_UUID : inactive device`, or another reason why the space of a target is not known."""
    index = target_index(target)
    return None if index is None else TargetSpace(target, index, "", 0, 0, 0, active=False)
