"""`weir layout get`: the layout of a file, or of new files of a directory."""

from pathlib import Path

import click

from weir.cli.common.layout_attribute import layout_of
from weir.cli.common.output import output_option, show, size
from weir.cli.common.parameters import PATH
from weir.store.home import Home


@click.command(name="get")
@click.argument("path", type=PATH)
@output_option
@click.pass_obj
def show_layout(home: Home, path: Path, output: str) -> None:
    """Show the layout of a file, or that of new files of a directory."""
    from weir import _core

    attribute = layout_of(path)
    components = _core.parse_layout(attribute.layout)
    document: dict[str, object] = {"path": str(path), "layout": attribute.layout, "components": components}
    if attribute.spread is not None:
        document["spread"] = attribute.spread
    rows = [
        (
            size(component["start"]),
            "end of file" if component["end"] is None else size(component["end"]),
            _stripes(component["stripes"]),
            "-" if component["stripe_bytes"] is None else size(component["stripe_bytes"]),
            ",".join(component["targets"]) or "chosen for each file",
        )
        for component in components
    ]
    show(output, document, ("FROM", "TO", "STRIPES", "STRIPE SIZE", "TARGETS"), rows)


def _stripes(count: int | None) -> object:
    return {None: "default", -1: "all"}.get(count, count)
