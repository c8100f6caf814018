"""Pages as HTML. Every text of others is escaped, and shown without characters that turn or hide others."""

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup, escape

from weir.amounts import Quantity
from weir.plain_text import plain
from weir.room.looks import SPANS
from weir.room.panels import Link, Mark, Text

_COMMAND = re.compile(r"`([^`]*)`")
_ADDRESSES_MAX = 4_096
"""Most addresses of links that are kept: live pages have the same ones each second."""


class Templates:
    """The templates of the room."""

    @cached_property
    def _environment(self) -> jinja2.Environment:
        made = jinja2.Environment(
            loader=jinja2.PackageLoader("weir.room", "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        made.filters["plain"] = plain
        made.filters["words"] = words
        made.filters["cells"] = cells
        made.filters["query"] = urlencode
        made.tests["quantity"] = lambda text: isinstance(text, Quantity)
        made.globals["spans"] = tuple(SPANS)
        return made

    def render(self, name: str, **values: Any) -> str:
        """Render a template."""
        return self._environment.get_template(name).render(**values)


def words(text: str) -> Markup:
    """Write words, in which a command stands between backticks."""
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(plain(text)))))


def cells(row: Iterable[Text]) -> Markup:
    """Write the cells of a row of a table, as one text: a page may have ten thousand cells each second."""
    return Markup("".join(map(_cell, row)))


def _cell(text: Text) -> str:
    if isinstance(text, Quantity):
        return f'<td class="number">{escape(text)}</td>'
    if isinstance(text, Link):
        return f'<td><a href="{_address(text.page, tuple(text.query.items()))}">{escape(plain(text.text))}</a></td>'
    if isinstance(text, Mark):
        return f'<td><span class="mark {escape(text.tone)}">{escape(plain(text.text))}</span></td>'
    return f"<td>{escape(plain(text))}</td>"


@lru_cache(maxsize=_ADDRESSES_MAX)
def _address(page: str, query: tuple[tuple[str, str], ...]) -> str:
    """The address of a link, escaped."""
    return str(escape(f"/{page}?{urlencode(query, errors='replace')}"))
