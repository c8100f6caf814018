"""The way of a found setting onto a real store: commands, and lines of its cluster.toml."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Application:
    """Everything that sets a found setting on a store."""

    commands: tuple[tuple[str, ...], ...]
    """Commands that a running store takes, as words behind `weir`."""
    lines: tuple[str, ...]
    """Lines for its cluster.toml, which a store reads when it comes up."""


def application_of(changes: Mapping[str, Any], policy: str, folder: str) -> Application:
    """Find the commands for a setting.

    Args:
        changes: The setting, as changes of a scenario.
        policy: The default's policy.
        folder: Folder on the store whose new files get the layout.

    Returns:
        The commands and lines.
    """
    import tomli_w

    commands: list[tuple[str, ...]] = []
    if "layout.components" in changes:
        commands.append(("layout", "set", *str(changes["layout.components"]).split(), folder))
    if "policy" in changes or "scheduler" in changes:
        scheduler = ("--scheduler", str(changes["scheduler"])) if "scheduler" in changes else ()
        commands.append(("policy", "set", str(changes.get("policy", policy)), *scheduler))
    document: dict[str, Any] = {}
    if "lambda" in changes:
        document["lambda_milliseconds"] = int(str(changes["lambda"]).removesuffix("ms"))
    if "allocator" in changes:
        document["layout"] = {"allocator": changes["allocator"]}
    if "share" in changes:
        document["share"] = list(changes["share"])
    return Application(tuple(commands), tuple(tomli_w.dumps(document).splitlines()))
