"""Progress of long work: a bar on a terminal, nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import click

_LENGTH = 1000
"""Steps of a bar: a thousandth of the work is the least that is shown."""


@contextmanager
def bars() -> Iterator[Callable[[str, int, int], None]]:
    """Show the progress of works that follow each other, each as a bar on standard error.

    Yields:
        A function for the name of the work, the number of its parts that are done, and of all parts.
    """
    if not sys.stderr.isatty():
        yield lambda label, done, parts: None
        return
    with ExitStack() as shown:
        bar: click.progressbar | None = None  # type: ignore[valid-type]

        def show(label: str, done: int, parts: int) -> None:
            nonlocal bar
            if bar is None or bar.label != label:
                shown.close()
                bar = shown.enter_context(click.progressbar(length=_LENGTH, label=label, file=sys.stderr))
            bar.update(_LENGTH * done // max(parts, 1) - bar.pos)

        yield show
