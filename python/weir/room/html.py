"""Pages as HTML. Every text of others is escaped, and shown without characters that turn or hide others."""

import re
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup, escape

from weir.amounts import Quantity
from weir.plain_text import plain
from weir.room.looks import SPANS
from weir.room.panels import Link, Mark, Text

_COMMAND = re.compile(r"`([^`]*)`")


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
        made.filters["cell"] = cell
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


def cell(text: Text) -> Markup:
    """Write a cell of a table."""
    if isinstance(text, Quantity):
        return Markup('<td class="number">{}</td>').format(text)
    if isinstance(text, Link):
        form = Markup('<td><a href="/{}?{}">{}</a></td>')
        return form.format(text.page, urlencode(text.query, errors="replace"), plain(text.text))
    if isinstance(text, Mark):
        return Markup('<td><span class="mark {}">{}</span></td>').format(text.tone, plain(text.text))
    return Markup("<td>") + escape(plain(text)) + Markup("</td>")
