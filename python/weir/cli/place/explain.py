"""`weir place explain`: the reasons for the targets of a file."""

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import CommandError
from weir.cli.common.output import Quantity, output_option, share, show, size
from weir.cli.common.parameters import PATH
from weir.plain_text import plain
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.cli.common.target_lines import Line

ATTRIBUTE = "weir.placement"
"""Extended attribute of a file with the record of its placement."""

_HEADER = ("TARGET", "LOAD THEN", "SPEED THEN", "FILL NOW", "LOAD NOW", "ACHIEVED/S", "EXPECTED/S", "SLOW SINCE")
_REASONS = {
    "full": "full",
    "dead": "of servers that did not report",
    "slow": "slow",
    "avoided": "that a lease has new files of the job avoid",
}


@click.command()
@click.argument("file", type=PATH)
@output_option
@click.pass_obj
def explain(home: Home, file: Path, output: str) -> None:
    """Explain the targets of a file on the store.

    The command shows the figures that decided when the file was made, and the present figures of its targets.
    """
    from weir import _core
    from weir.cli.common.layout_attribute import layout_of

    record = _record(file)
    spelling = layout_of(file).layout
    names = [name for component in _core.parse_layout(spelling) for name in component["targets"]]
    now = _now(home)
    then = {chosen["target"]: chosen for chosen in (record or {}).get("chosen", [])}
    lines = [(name, then.get(name), now.get(name)) for name in dict.fromkeys(names)]
    targets = [
        {"target": name, "then": chosen, "now": line.document() if line else None} for name, chosen, line in lines
    ]
    document = {"path": str(file), "layout": spelling, "record": record, "targets": targets}
    if output == "table":
        for line in _words(file, record, names):
            print(plain(line))
        print()
    show(output, document, _HEADER, [_row(*line) for line in lines])


def _words(file: Path, record: dict[str, Any] | None, names: list[str]) -> list[str]:
    """Describe the record in sentences."""
    from weir.amounts import size_text

    stripes = len(names)
    if record is None:
        return [f"{file}: the reason for the places of its {stripes} stripes was not kept"]
    if record["by"] == "explicit":
        lines = [
            f"{file}: its {stripes} stripes lie on the targets that its maker named (an interaction database, or -o)"
        ]
    else:
        lines = [f"{file}: its {stripes} stripes were placed by the allocator {record['by']} when it was made"]
    lines.append(
        f"considered {record['considered']} targets, on which {size_text(record['mean_load_bytes'])} "
        "had been placed or waited on average"
    )
    for kind, words in _REASONS.items():
        left_out = record[kind]
        if left_out["count"]:
            more = "" if left_out["count"] <= len(left_out["targets"]) else " and others"
            lines.append(f"left out {left_out['count']} {words}: {', '.join(left_out['targets'])}{more}")
    if record["taken"]:
        lines.append(
            f"{record['taken']} stripes lie on targets that a lease has new files of the job avoid: "
            "no other target was left, or the layout asked for these"
        )
    moved = [chosen["target"] for chosen in record["chosen"] if chosen["target"] not in names]
    if moved:
        lines.append(f"moved away since: {', '.join(moved)}")
    return lines


def _row(name: str, then: dict[str, Any] | None, now: "Line | None") -> tuple[object, ...]:
    from weir.cli.common.target_lines import rate, since

    was = (Quantity("-"), Quantity("-")) if then is None else (size(then["load_bytes"]), share(then["speed"]))
    if now is None:
        return (name, *was, *[Quantity("-")] * 4, "no answer")
    target = now.target
    return (
        name,
        *was,
        share(target.used_bytes / max(target.capacity_bytes, 1)),
        share(target.load),
        rate(target.achieved_bytes_per_second),
        rate(target.expected_bytes_per_second),
        since(target.slow_since),
    )


def _record(file: Path) -> dict[str, Any] | None:
    """Read the record that is kept with the file; None where none is kept.

    Raises:
        CommandError: The file is no file of a store.
    """
    try:
        record: dict[str, Any] = json.loads(os.getxattr(file, ATTRIBUTE))
        return record
    except OSError as error:
        if error.errno == errno.ENODATA and file.is_file():
            return None
        if error.errno in (errno.EOPNOTSUPP, errno.ENODATA):
            raise CommandError(
                f"{file} is not a file on a Weir store", hint="the store is at $WEIR_MOUNT; see `weir status`"
            ) from error
        raise CommandError(f"{file}: {error.strerror}", hint="is the path right?") from error


def _now(home: Home) -> "dict[str, Line]":
    """Ask for the figures of every target whose server answers; other targets are shown without figures."""
    from weir.cli.common.asking import ask_store
    from weir.cli.common.target_lines import target_lines
    from weir.store.control import Server

    answers = [answer for _, answer in ask_store(home, Server.status) if answer is not None]
    return {line.target.target: line for line in target_lines(answers)}
