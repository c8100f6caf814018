"""Layouts in the forms that `lfs setstripe` takes: commands, and YAML templates for `lfs setstripe --yaml`."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from weir.placement.database import END_OF_FILE, Component

_UNITS = ((40, "T"), (30, "G"), (20, "M"), (10, "k"))


def files(components: Iterable[Component]) -> Iterator[tuple[str, list[Component]]]:
    """Group components by file.

    Args:
        components: Components; those of a file follow each other.

    Yields:
        The path of each file, and its components.
    """
    for path, parts in groupby(components, key=attrgetter("path")):
        yield path, list(parts)


def lfs_command(path: str, parts: Sequence[Component]) -> str:
    """Write the command that makes a file with its layout (lfs-setstripe(1)).

    Returns:
        The command, quoted for a shell.
    """
    return f"lfs setstripe {layout_of(parts)} {shell_word(path)}"


def shell_word(text: str) -> str:
    r"""Quote a text as one word of a shell command.

    Returns:
        The word; in the form `$'\x1b'` (of bash, zsh and ksh) where the text is not printable.
    """
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_in_quotes, text))}'"


def layout_of(parts: Sequence[Component]) -> str:
    """Spell a layout.

    Args:
        parts: Components of one file.

    Returns:
        The layout in the spelling of `lfs setstripe`.
    """
    words = []
    for part in parts:
        if len(parts) > 1:
            words.append(f"-E {_end(part)}")
        words.append(f"-c {part.stripe_count} -S {_size(part.stripe_bytes)}")
        if part.targets:
            words.append(f"-o {','.join(part.targets)}")
    return " ".join(words)


def yaml_template(parts: Sequence[Component]) -> str:
    """Write the template that `lfs setstripe --yaml` reads, in the form that `lfs getstripe --yaml` prints for a PFL
    file.

    The objects stand no deeper than their key: lfs of Lustre 2.11 to 2.16 looks for their indices only there.

    Args:
        parts: Components of one file.
    """
    if len(parts) == 1:
        return "\n".join(_striping(parts[0], "")) + "\n"
    lines = ["lcm_layout_gen: 0", "lcm_mirror_count: 1", f"lcm_entry_count: {len(parts)}"]
    for index, part in enumerate(parts):
        end = "EOF" if part.extent_end == END_OF_FILE or index + 1 == len(parts) else part.extent_end
        lines += [
            f"component{index}:",
            f"  lcme_id: {index + 1}",
            "  lcme_mirror_id: 0",
            "  lcme_flags: 0",
            f"  lcme_extent.e_start: {part.extent_start}",
            f"  lcme_extent.e_end: {end}",
            "  sub_layout:",
            *_striping(part, "    "),
        ]
    return "\n".join(lines) + "\n"


def _striping(part: Component, indent: str) -> list[str]:
    first = part.targets[0] if part.targets else "-1"
    lines = [
        f"lmm_stripe_count: {part.stripe_count}",
        f"lmm_stripe_size: {part.stripe_bytes}",
        "lmm_pattern: raid0",
        "lmm_layout_gen: 0",
        f"lmm_stripe_offset: {first}",
    ]
    if part.targets:
        lines.append("lmm_objects:")
        for target in part.targets:
            lines += [f"- l_ost_idx: {target}", "  l_fid: 0x0:0x0:0x0"]
    return [indent + line for line in lines]


def _end(part: Component) -> str:
    return "-1" if part.extent_end == END_OF_FILE else _size(part.extent_end)


def _size(count: int) -> str:
    """Spell a size with the largest binary prefix that keeps it whole."""
    for shift, letter in _UNITS:
        if count and count % (1 << shift) == 0:
            return f"{count >> shift}{letter}"
    return str(count)


def _in_quotes(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    # A shell takes bytes, and one character may be several.
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
