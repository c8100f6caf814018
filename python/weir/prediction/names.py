"""Names of files taken apart into arguments, counters and random-looking parts."""

import re
from dataclasses import dataclass
from posixpath import normpath

from weir.prediction.context import Context

NUMBER = "\0"
"""Replaces a number of the name in a skeleton."""
WORD = "\2"
"""Replaces a hash or a UUID."""
FIELD = re.compile(f"[{NUMBER}{WORD}]")
ARGUMENT = "\1"
"""Encloses the name of an option, in place of the option's value."""

_TEXT_MIN = 3
"""A shorter value of an argument counts only as a whole component of the path."""

_FIELDS = re.compile(
    r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z_])tmp(?=[a-z0-9_]*(?:[a-z][0-9]|[0-9][a-z]))[a-z0-9_]{8}(?![0-9A-Za-z_])"
    r"|(?<![0-9A-Za-z])(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}(?![0-9A-Za-z])"
    r"|[0-9]+",
    re.ASCII,
)
"""UUIDs, names of Python's tempfile, hexadecimal words of eight digits and more that hold letters and digits, and
decimal numbers."""


@dataclass(frozen=True, slots=True)
class Name:
    """A path as a skeleton and the skeleton's fields."""

    skeleton: str
    fields: tuple[str, ...]


def parse(path: str, context: Context) -> Name:
    """Take a path apart.

    Args:
        path: Path of a file.
        context: Circumstances of the run that made it.

    Returns:
        The skeleton and its fields; the skeleton has the option's name in place of an argument's value. Fields and
        arguments are looked for below the place of a store alone.
    """
    literal = context.place_length(path)
    place, below = path[:literal], path[literal:]
    found = _argument_in(path, context)
    if found is None:
        return Name(place + _skeleton(below), tuple(_FIELDS.findall(below)))
    begin, end, key = found
    place, before, after = path[: min(begin, literal)], path[literal:begin], path[end:]
    skeleton = f"{place}{_skeleton(before)}{ARGUMENT}{key}{ARGUMENT}{_skeleton(after)}"
    return Name(skeleton, (*_FIELDS.findall(before), *_FIELDS.findall(after)))


def build(skeleton: str, fields: tuple[str, ...], context: Context) -> str | None:
    """Put a path together.

    Args:
        fields: Texts of the skeleton's fields.
        context: Circumstances of the run that will make the file.

    Returns:
        The path; None where the run lacks an argument of the skeleton.
    """
    parts = skeleton.split(ARGUMENT)
    if len(parts) == 3:
        value = context.texts.get(parts[1])
        if value is None:
            return None
        parts[1] = _as_in_path(value)
        if parts[1].startswith("/"):
            fields = fields[len(FIELD.findall(parts[0])) :]
            parts[0] = ""
        elif not parts[0]:
            return None
    pieces: list[str] = []
    remaining = iter(fields)
    for index, part in enumerate(parts):
        texts = [part] if index == 1 else FIELD.split(part)
        pieces.append(texts[0])
        for text in texts[1:]:
            pieces += (next(remaining), text)
    return "".join(pieces)


def in_file_name(skeleton: str, field: int) -> bool:
    """Decide whether a field stands in the file's own name, and not in that of a directory above it.

    Args:
        skeleton: Skeleton of the path.
        field: Number of the field.

    Returns:
        Whether it does.
    """
    return field >= len(FIELD.findall(skeleton.rpartition("/")[0]))


def is_random_word(text: str) -> bool:
    """Decide whether a field is a hash or a UUID, not a number.

    Returns:
        Whether it is.
    """
    return not text.isdecimal()


def _skeleton(text: str) -> str:
    return _FIELDS.sub(lambda match: WORD if is_random_word(match[0]) else NUMBER, text)


def _argument_in(path: str, context: Context) -> tuple[int, int, str] | None:
    """The position of the longest argument value in a path, and its option."""
    best: tuple[int, int, str] | None = None
    literal = context.place_length(path)
    for key, value in context.texts.items():
        text = _as_in_path(value)
        begin = _place(path, text)
        # What ends within the place of the store, or lies in it, is none of the program's choice.
        if begin is None or begin + len(text) < literal or 0 < begin < literal:
            continue
        if best is None or len(text) > best[1] - best[0]:
            best = (begin, begin + len(text), key)
    return best


def _place(path: str, text: str) -> int | None:
    if text.startswith("/"):
        rest = path[len(text) :]
        return 0 if len(text) > 1 and path.startswith(text) and not rest[:1].isalnum() else None
    if not text or text in (".", "..") or text.startswith("../"):
        return None
    place = path.rfind("/" + text)
    if place < 0:
        return None
    rest = path[place + 1 + len(text) :]
    is_component = rest == "" or rest[0] == "/"
    is_known_well = len(text) >= _TEXT_MIN and not rest[:1].isalnum()
    return place + 1 if is_component or is_known_well else None


def _as_in_path(value: str) -> str:
    """An argument's value as the name of a file shows it: without `.` and doubled slashes."""
    # POSIX keeps a leading `//` as it is; a path that was opened has one.
    return normpath(re.sub("/+", "/", value)) if value else value
