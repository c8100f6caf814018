"""Pictures that commands draw beside their answers, where matplotlib is installed."""

from collections.abc import Callable, Sequence
from pathlib import Path

from weir.cli.common.errors import say, warn
from weir.distribution import install_command


def say_drawn(draw: Callable[[], Sequence[Path]]) -> list[Path]:
    """Draw pictures, and say on standard error where they are; without matplotlib say which extra is missing.

    Args:
        draw: Draws, and returns the paths of the pictures.

    Returns:
        Paths of the pictures; none without matplotlib.
    """
    try:
        drawn = list(draw())
    except ImportError as error:
        warn(f"nothing is drawn: {error}", hint=f"install matplotlib: `{install_command('plots')}`")
        return []
    if drawn:
        say(f"drawn: {', '.join(map(str, drawn))}")
    return drawn
