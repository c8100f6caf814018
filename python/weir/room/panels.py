"""A page of the room as plain data: titles, words, tables, and names of figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weir.plain_text import plain

LABEL_MAX = 32
"""Most characters of a name in a figure or a button."""
ROWS_MAX = 1_000
"""Most rows of a table; the commands have more."""


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads to another page of the room."""

    text: str
    page: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mark:
    """A text that stands out: `good`, `bad` or `odd`."""

    text: str
    tone: str


Text = str | Link | Mark


@dataclass(frozen=True, slots=True)
class Table:
    """A table; numbers are of the type `weir.amounts.Quantity`."""

    header: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    further: int = 0
    """Rows that are left out."""


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter that a visitor gives to a change.

    Attributes:
        name: Name of the parameter.
        label: Its label; a field without one is not shown, and has its value.
        choices: Values that it can have, and their texts; without choices any text.
        example: A text that it could be.
    """

    name: str
    label: str = ""
    value: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    example: str = ""


def chosen(values: Iterable[str]) -> Mapping[str, str]:
    """The choices whose texts are their values."""
    return {value: value for value in values}


@dataclass(frozen=True, slots=True)
class Form:
    """A change that a page offers to those who may make it; it leads to a page with what would change.

    Attributes:
        change: One of `weir.room.changes.kinds.CHANGES`.
        title: What the button says.
    """

    change: str
    title: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """A section of a page.

    Attributes:
        name: Unique in the page.
        figure: Name of its figure in `weir.room.figures`; empty where it has none.
        query: Parameters of the figure beside the moment.
        none: What is said where the table is empty.
        forms: Changes of what the panel shows.
    """

    name: str
    title: str
    words: str = ""
    table: Table | None = None
    figure: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    none: str = ""
    forms: tuple[Form, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Attributes:
        cards: Figures at the top, each with its title.
        notes: What is not known, and other words about the whole page.
    """

    title: str
    panels: tuple[Panel, ...]
    cards: tuple[tuple[str, str], ...] = ()
    notes: tuple[Mark, ...] = ()


def shortened(name: str) -> str:
    """Write a name in at most `LABEL_MAX` characters; the tables have all."""
    text = plain(name)
    return text if len(text) <= LABEL_MAX else f"{text[: LABEL_MAX - 1]}…"


def table_of(header: tuple[str, ...], rows: Sequence[tuple[Text, ...]]) -> Table:
    """Make a table of at most `ROWS_MAX` rows."""
    return Table(header, tuple(rows[:ROWS_MAX]), max(len(rows) - ROWS_MAX, 0))
