"""The section *Quotas* of the page *Store*: what users and groups have, and may have."""

from weir.errors import WeirError
from weir.room.changes.quota import KINDS
from weir.room.panels import Field, Form, Panel, Text, chosen, table_of
from weir.room.sources import Sources
from weir.room.visitors import Visitor
from weir.store.quotas import HEADER

_FORM = Form(
    "quota",
    "Change limits",
    (
        Field("kind", "Owner", choices=chosen(KINDS)),
        Field("name", "name", example="ada"),
        Field("bytes", "bytes", example="10GiB or none"),
        Field("inodes", "inodes", example="1000000 or none"),
    ),
)


def panel_of(sources: Sources, visitor: Visitor) -> Panel:
    """Make the section. A visitor who may not see the jobs of others sees the own quota alone."""
    try:
        found = sources.quotas()
    except WeirError as error:
        return Panel("quotas", "Quotas", none=error.line)
    seen = [each for each in found if visitor.sees_all or (each.kind, each.name) == ("user", visitor.user)]
    words = "An owner without limits of its own has those of every user, or of every group."
    rows: list[tuple[Text, ...]] = [each.row() for each in seen]
    return Panel("quotas", "Quotas", words, table_of(HEADER, rows), none="nobody has files or limits", forms=(_FORM,))
