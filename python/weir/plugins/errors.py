"""Errors of plug-ins: each names the plug-in that is at fault."""

import traceback
from typing import TYPE_CHECKING

from weir.errors import WeirError

if TYPE_CHECKING:
    from weir.plugins.plugin import Plugin


class PluginError(WeirError):
    """A plug-in that is not there, cannot be loaded, fails, or answers what it may not.

    Attributes:
        plugin: Name of the plug-in, as it was asked for.
    """

    def __init__(self, plugin: str, message: str, *, hint: str = "") -> None:
        """Report the failure of a plug-in.

        Args:
            message: The failure, with the plug-in that it concerns.
            hint: A remedy; empty where none is known.
        """
        super().__init__(message, hint=hint)
        self.plugin = plugin


def failure(plugin: "Plugin", where: str, error: BaseException) -> PluginError:
    """Describe an exception of a plug-in.

    Args:
        where: Name of the method that was called.

    Returns:
        The error, which names the plug-in, and the file and the line where the exception was raised.
    """
    frames = traceback.extract_tb(error.__traceback__)
    place = f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return PluginError(
        plugin.name,
        f"the {plugin.words} failed in {where}{place}: {words}",
        hint="the fault is the plug-in's: mend it there, or choose another",
    )


def wrong_answer(plugin: "Plugin", where: str, message: str) -> PluginError:
    """Describe an answer that a plug-in may not give.

    Args:
        where: Name of the method that answered.
        message: What is wrong with the answer.
    """
    return PluginError(
        plugin.name,
        f"the {plugin.words} gave a wrong answer in {where}: {message}",
        hint=f"the fault is the plug-in's: see {plugin.kind.page}",
    )
