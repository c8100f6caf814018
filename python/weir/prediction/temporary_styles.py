"""Styles of temporary names: `x.tmp`, `.x.aB3dE6`, `tmpk3_0z9qa`, learned from pairs of a temporary and a last name.

A style says how the name at a file's making follows from the file's last name: parts that are the last name, its stem
or a text, and parts that are random. A part is random if its values never repeat and look random, or are numbers that
differ. `mkstemp` and its kin make random parts of 6, 8 or 10 letters, so a common beginning that fits no such length
is chance.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property


class Kind(Enum):
    """The kind of a piece of a temporary name."""

    BASE = "base"
    """The last part of the last name, or the part of the last name at the same place."""
    STEM = "stem"
    """The same without the ending behind the last dot."""
    TEXT = "text"
    RANDOM = "random"
    """Letters, digits and underscores."""
    NUMBER = "number"
    """Digits, as those of a process or a time."""


_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_WORD = re.compile(rf"(?<![0-9A-Za-z_]){_UUID}(?![0-9A-Za-z_])|[0-9A-Za-z_]+|[^0-9A-Za-z_]")
_IDENTIFIER = re.compile(_UUID)
_UNDERSCORES = re.compile(r"_|[^_]+")
_LENGTHS = (6, 8, 10, 12, 16, 20, 22, 24, 26, 32, 36, 40, 64)
"""Lengths of random parts: of mkstemp (6), Python's tempfile (8), mktemp (10), and of hashes and identifiers."""
_COMMON_STYLES = 16
"""Styles with random parts that are tried on every pair: a program has one or two."""
_END_MIN = 3
"""Fewer letters at the end of a random part that all names share are chance."""
_ALONE = re.compile(r"(tmp)?(?=[a-z0-9_]*[0-9_])(?=[a-z0-9_]*[a-z])[a-z0-9_]{8}", re.ASCII)
"""A name of Python's tempfile: it is random, though no second one shows it."""
_SPECIAL = re.compile(r"([?#*\\])")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of one part of a temporary path."""

    kind: Kind
    text: str = ""
    """The text of a text, or the marks of a random piece: one `?` for each letter."""


Part = tuple[Piece, ...]


@dataclass(frozen=True)
class Style:
    """A style of temporary names."""

    shared: int | None
    """Number of leading folders that both names share; None where the folders correspond one by one."""
    parts: tuple[Part, ...]
    """The further parts of the path. Where folders correspond one by one, these are the parts from the first that is
    not the last name's own."""

    def name(self, last: str) -> str:
        """Make the temporary name of a file, with `?` and `#` in place of random parts."""
        *folders, _ = parts = last.split("/")
        if self.shared is not None:
            return "/".join([*folders[: self.shared], *(_filled(part, parts[-1]) for part in self.parts)])
        kept = parts[: len(parts) - len(self.parts)]
        return "/".join([*kept, *map(_filled, self.parts, parts[len(kept) :])])

    @cached_property
    def pattern(self) -> str | None:
        """The pattern by which a path of this style is recognised; None where no part is random."""
        return "/".join(map(_pattern, self._random)) if self._random else None

    def marked(self, path: str) -> str | None:
        """Put marks in place of the random parts of a path, as the look-up at a file's making does.

        Returns:
            The path with marks; None where it does not match the pattern.
        """
        if not self._random:
            return path
        parts = path.split("/")
        if len(parts) <= len(self._random):
            return None
        marked = parts[: -len(self._random)]
        for part, expression, text in zip(self._random, self._expressions, parts[-len(self._random) :], strict=True):
            found = expression.fullmatch(text)
            if found is None:
                return None
            marked.append("".join(map(_mark, part, found.groups())))
        return "/".join(marked)

    @cached_property
    def _random(self) -> tuple[Part, ...]:
        """The parts from the first random one on."""
        first = next((at for at, part in enumerate(self.parts) if _is_random(part)), len(self.parts))
        return self.parts[first:]

    @cached_property
    def _expressions(self) -> "list[re.Pattern[str]]":
        return [re.compile("".join(map(_expression, part)), re.DOTALL | re.ASCII) for part in self._random]


@dataclass(frozen=True, slots=True)
class _Form:
    """A temporary name beside its last name, before it is known which of its words are random."""

    shared: int | None
    parts: tuple[tuple[tuple[Kind, str], ...], ...]

    @property
    def shape(self) -> tuple[object, ...]:
        """The form without its words: those of one style have one shape."""
        return (self.shared, tuple(tuple(_shape(kind, text) for kind, text in part) for part in self.parts))

    @property
    def words(self) -> list[str]:
        return [text for part in self.parts for kind, text in part if kind == Kind.TEXT]


def learn(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Style]:
    """Find the style of temporary names.

    Args:
        pairs: Temporary names, each with the last name of its file.

    Returns:
        The style of each pair; pairs without a usable style are left out.
    """
    shapes: dict[tuple[object, ...], dict[tuple[str, str], _Form]] = {}
    for pair in dict.fromkeys(pairs):
        form = _form(*pair)
        shapes.setdefault(form.shape, {})[pair] = form
    styles: dict[tuple[str, str], Style] = {}
    for forms in shapes.values():
        _learn_shape(forms, 0, {}, styles)
    counts = Counter(style for style in styles.values() if style.pattern is not None)
    common = [style for style, _ in counts.most_common(_COMMON_STYLES)]
    return {pair: next((other for other in common if _fits(other, pair)), style) for pair, style in styles.items()}


def _fits(style: Style, pair: tuple[str, str]) -> bool:
    """Whether a style makes the temporary name. A random word looks like a text now and then."""
    return style.marked(pair[0]) == style.name(pair[1])


def _learn_shape(
    forms: dict[tuple[str, str], _Form], at: int, random: dict[int, Part], styles: dict[tuple[str, str], Style]
) -> None:
    """Decide for each word from `at` on whether it is random; forms that differ in a text part ways."""
    words = [form.words for form in forms.values()]
    for place in range(at, len(words[0])):
        values = [own[place] for own in words]
        pieces = _random_pieces(values)
        if pieces is not None:
            random = {**random, place: pieces}
        elif len(set(values)) > 1:
            for value in dict.fromkeys(values):
                alike = {pair: form for pair, form in forms.items() if form.words[place] == value}
                _learn_shape(alike, place, random, styles)
            return
    for pair, form in forms.items():
        style = _style(form, random)
        if _fits(style, pair):
            styles[pair] = style


def _random_pieces(values: Sequence[str]) -> Part | None:
    """The pieces of a word that is random in part; None for a word that is a text."""
    if all(map(_IDENTIFIER.fullmatch, values)) and len(set(values)) == len(values):
        return _marks_of_identifier(values[0])
    if len(values) == 1:
        return _pieces_alone(values[0])
    if len(set(values)) < 2:
        return None
    if all(value.isdigit() for value in values):
        return (Piece(Kind.NUMBER),)
    if len(set(values)) < len(values) or len({len(value) for value in values}) > 1:
        return None
    length = len(values[0])
    before = next(at for at in range(length) if len({value[at] for value in values}) > 1)
    after = next(at for at in range(length) if len({value[-1 - at] for value in values}) > 1)
    size = next((size for size in _LENGTHS if size >= length - before - after), length)
    before, after = _widened(before, after, size - (length - before - after))
    middles = [value[before : length - after] for value in values]
    if len(middles[0]) < _LENGTHS[0] or not any(map(_looks_random, middles)):
        return None
    ends = [Piece(Kind.TEXT, text) if text else None for text in (values[0][:before], values[0][length - after :])]
    pieces = (ends[0], Piece(Kind.RANDOM, "?" * len(middles[0])), ends[1])
    return tuple(piece for piece in pieces if piece is not None)


def _widened(before: int, after: int, letters: int) -> tuple[int, int]:
    """Give letters of a common beginning or end to the random part: a short end is chance more often than a text."""
    from_end = min(after, letters) if after < _END_MIN else 0
    from_start = min(before, letters - from_end)
    return before - from_start, max(after - (letters - from_start), 0)


def _pieces_alone(value: str) -> Part | None:
    if not _ALONE.fullmatch(value):
        return None
    text = value[:-8]
    return (Piece(Kind.TEXT, text), Piece(Kind.RANDOM, "?" * 8)) if text else (Piece(Kind.RANDOM, "?" * 8),)


def _marks_of_identifier(value: str) -> Part:
    pieces = [Piece(Kind.RANDOM, "?" * len(part)) for part in value.split("-")]
    return tuple(piece for part in pieces for piece in (part, Piece(Kind.TEXT, "-")))[:-1]


def _looks_random(word: str) -> bool:
    """Whether letters and digits are mixed, or capitals stand within."""
    has_digit = any(letter.isdigit() for letter in word)
    has_letter = any(letter.isalpha() for letter in word)
    has_capital = any(letter.isupper() for letter in word[1:]) and not word.isupper()
    return (has_digit and has_letter) or has_capital


def _form(made: str, last: str) -> _Form:
    here, there = made.split("/"), last.split("/")
    if len(here) == len(there):
        first = next((at for at, (one, other) in enumerate(zip(here, there, strict=True)) if one != other), 0)
        return _Form(None, tuple(map(_pieces, here[first:], there[first:])))
    shared = 0
    while shared < min(len(here), len(there)) - 1 and here[shared] == there[shared]:
        shared += 1
    return _Form(shared, tuple(_pieces(part, there[-1]) for part in here[shared:]))


def _pieces(made: str, last: str) -> tuple[tuple[Kind, str], ...]:
    """A part of a temporary path: its words, and where the last name or its stem stands."""
    stem = last.rpartition(".")[0]
    for kind, name in ((Kind.BASE, last), (Kind.STEM, stem)):
        at = _place(made, name)
        if at is not None:
            return (*_words(made[:at]), (kind, ""), *_words(made[at + len(name) :]))
    return tuple(_words(made))


def _place(text: str, name: str) -> int | None:
    """The position of a name in a text, between ends that are neither letters nor digits."""
    at = text.find(name) if name else -1
    if at < 0 or text[at - 1 : at].isalnum() or text[at + len(name) : at + len(name) + 1].isalnum():
        return None
    return at


def _words(text: str) -> list[tuple[Kind, str]]:
    """Words and separators. `_` separates where words and numbers stand beside it: random parts have it within, too."""
    words: list[tuple[Kind, str]] = []
    for word in _WORD.findall(text):
        pieces = word.split("_")
        is_plain = all(piece == "" or piece.isdigit() or piece.isalpha() for piece in pieces)
        words += [(Kind.TEXT, piece) for piece in (_UNDERSCORES.findall(word) if is_plain else [word])]
    return words


def _shape(kind: Kind, text: str) -> tuple[Kind, object]:
    if kind != Kind.TEXT:
        return (kind, "")
    if text.isdigit():
        return (Kind.NUMBER, "")
    return (Kind.TEXT, len(text)) if any(map(str.isalnum, text)) else (Kind.TEXT, text)


def _style(form: _Form, random: dict[int, Part]) -> Style:
    parts: list[Part] = []
    place = 0
    for part in form.parts:
        pieces: list[Piece] = []
        for kind, text in part:
            if kind == Kind.TEXT:
                pieces += random.get(place, (Piece(Kind.TEXT, text),))
                place += 1
            else:
                pieces.append(Piece(kind))
        parts.append(tuple(pieces))
    return Style(form.shared, tuple(parts))


def _is_random(part: Part) -> bool:
    return any(piece.kind in (Kind.RANDOM, Kind.NUMBER) for piece in part)


def _filled(part: Part, last: str) -> str:
    texts = {Kind.BASE: last, Kind.STEM: last.rpartition(".")[0], Kind.NUMBER: "#"}
    return "".join(texts.get(piece.kind, piece.text) for piece in part)


def _pattern(part: Part) -> str:
    texts = {Kind.BASE: "*", Kind.STEM: "*", Kind.NUMBER: "#"}
    return "".join(
        _SPECIAL.sub(r"\\\1", piece.text) if piece.kind == Kind.TEXT else texts.get(piece.kind, piece.text)
        for piece in part
    )


def _expression(piece: Piece) -> str:
    """The texts that a piece stands for, as `pattern.rs` of the preload library finds them."""
    match piece.kind:
        case Kind.TEXT:
            return f"({re.escape(piece.text)})"
        case Kind.RANDOM:
            return f"([0-9A-Za-z_]{{{len(piece.text)}}})"
        case Kind.NUMBER:
            return r"((?<![0-9])[0-9]+(?![0-9]))"
        case _:
            return "(.*)"


def _mark(piece: Piece, text: str) -> str:
    return piece.text if piece.kind == Kind.RANDOM else "#" if piece.kind == Kind.NUMBER else text
