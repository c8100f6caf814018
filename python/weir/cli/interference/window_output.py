"""The file of windows that a command makes."""

from collections.abc import Sequence
from typing import Any

import click

from weir.cli.common.output import show
from weir.cli.common.parameters import FILE

TO = click.option("--to", "target", required=True, type=FILE, help="The data set that is written.")


def show_written(output: str, document: dict[str, Any]) -> None:
    """Show what a command wrote, each figure under its name."""
    headings: Sequence[str] = [name.replace("_", " ").upper() for name in document]
    show(output, document, tuple(headings), [tuple(document.values())])
