"""Containers of any codec: of Weir's own by the native module, and of plug-ins by `own_codec`."""

from typing import TYPE_CHECKING, Any, cast

from weir.adaptive import own_codec
from weir.plugins import CODEC, Plugin, is_spelled_as_target, named

if TYPE_CHECKING:
    import numpy

    from weir import _core

CODECS = ("planes", "decimate")
"""Names of Weir's codecs."""


def opened(head: bytes) -> "_core.Refactored":
    """Read the header of a container.

    Args:
        head: First bytes of the container, the whole header among them.

    Raises:
        ValueError: The header is missing or damaged.
    """
    from weir import _core

    if head[:8] == own_codec.MAGIC:
        # It has the methods of the native one.
        return cast("_core.Refactored", own_codec.OwnContainer(head))
    return _core.Refactored(head)


def refactor(values: "numpy.ndarray[Any, Any]", *, codec: str = "planes", fill: Any = None, **options: Any) -> bytes:
    """Refactor an array.

    Args:
        codec: One of `CODECS`, or the name or place of a plug-in.
        fill: Fill values, of the array's type; None where none are stated.
        options: Further options of `weir._core.refactor`. A plug-in has `tolerance` and `exact` alone.

    Returns:
        The container.

    Raises:
        PluginError: There is no such codec, or the plug-in fails.
        ValueError: The array cannot be refactored so.
    """
    if codec in CODECS:
        from weir import _core

        return _core.refactor(values, codec=codec, fill=fill, **options)
    plugin = own_codec.choose(plugin_of(codec))
    tolerance, exact = options.get("tolerance"), options.get("exact", False)
    return own_codec.refactor(values, plugin, tolerance=tolerance, exact=exact, fill=fill)


def plugin_of(codec: str) -> Plugin:
    """Find a codec that is a plug-in.

    Args:
        codec: Its name, or `module:attribute`.

    Raises:
        PluginError: There is no such codec.
    """
    return named(CODEC, codec, CODECS)


def check(codec: str, *, is_kept: bool = False) -> None:
    """Check that there is a codec, and that a plug-in loads.

    Args:
        is_kept: Whether readers in other programs have to find it: these find no place `module:attribute`.

    Raises:
        PluginError: There is no such codec, or the plug-in cannot be loaded.
        ValueError: It is named by its place, and readers have to find it.
    """
    if codec in CODECS:
        return
    if is_kept and is_spelled_as_target(codec):
        raise ValueError(
            f"the codec {codec} is named by its place, and the readers of a stream find codecs by the name that a "
            f"package declares: see {CODEC.page}"
        )
    plugin_of(codec).load()
