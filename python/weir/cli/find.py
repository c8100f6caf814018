"""`weir find`: files of a store by their targets, stripes, size, age, owner and name."""

import errno
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from weir.cli.common.errors import FAILED, CommandError, warn
from weir.cli.common.layout_attribute import layout_of
from weir.cli.common.output import json_text, output_option
from weir.cli.common.parameters import PATH, Checked, Type
from weir.plain_text import plain
from weir.store import values
from weir.store.home import Home, find_cluster

_COMPARISON = re.compile(r"(?P<sign>[+-]?)(?P<amount>.+)")
_DAY_SECONDS = 86_400.0
_KINDS: dict[str, Callable[[int], bool]] = {"f": stat.S_ISREG, "d": stat.S_ISDIR, "l": stat.S_ISLNK}


@dataclass(frozen=True)
class _Bound:
    """A number that is to be met: exactly, or from above or below."""

    sign: str
    amount: float

    def holds(self, number: float) -> bool:
        if self.sign == "+":
            return number > self.amount
        return number < self.amount if self.sign == "-" else number == self.amount


class _Bounded(Type):
    """A bound such as `+1G` (more), `-10` (less) or `4` (exactly)."""

    def __init__(self, name: str, read: Callable[[str], float]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, _Bound):
            return value
        match = _COMPARISON.fullmatch(str(value))
        try:
            if match is None:
                raise ValueError("nothing is given")
            return _Bound(match["sign"], self._read(match["amount"]))
        except ValueError as error:
            self.fail(f"`{value}`: {error}", param, ctx)


def _size(text: str) -> float:
    return float(values.size(text))


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("give a number, such as 4, +4 or -4")
    return number


@dataclass(frozen=True)
class _Wanted:
    """The tests that a file has to pass."""

    targets: frozenset[str]
    stripes: _Bound | None
    size: _Bound | None
    days: _Bound | None
    uid: int | None
    pattern: str | None
    kind: str | None

    @property
    def needs_layout(self) -> bool:
        return bool(self.targets) or self.stripes is not None


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=PATH)
@click.option(
    "--target",
    "targets",
    metavar="TARGET",
    multiple=True,
    type=Checked("target", values.target),
    help="Files with bytes on this target, such as 0.1.",
)
@click.option("--stripes", type=_Bounded("COUNT", _number), help="Files with this many targets: 4, +4 (more) or -4.")
@click.option("--size", type=_Bounded("SIZE", _size), help="Files of this size: 1M, +1G (larger) or -4k.")
@click.option(
    "--days", type=_Bounded("DAYS", _number), help="Files changed this many days ago: +30 (before) or -1 (since)."
)
@click.option(
    "--user", metavar="USER", type=Checked("user", values.user), help="Files of this user, by name or number."
)
@click.option("--name", "pattern", metavar="PATTERN", help="Files whose name matches, such as '*.h5'.")
@click.option("--type", "kind", type=click.Choice(tuple(_KINDS)), help="Regular files, directories or links.")
@output_option
@click.pass_obj
def find(
    home: Home,
    paths: tuple[Path, ...],
    targets: tuple[str, ...],
    stripes: _Bound | None,
    size: _Bound | None,
    days: _Bound | None,
    user: str | None,
    pattern: str | None,
    kind: str | None,
    output: str,
) -> int:
    """List the files below PATH that pass all tests, one path a line.

    PATH is on a mounted store, or is seen through `weir run --prefix /weir -- weir find /weir`. The exit code is 1 if
    a file or folder could not be read.
    """

    wanted = _Wanted(
        frozenset(targets), stripes, size, days, None if user is None else values.user(user), pattern, kind
    )
    _check_targets(home, paths, targets)
    failures: list[OSError] = []
    found = []
    for path, status in _below(paths, failures):
        try:
            entry = _entry(path, status, wanted)
        except FileNotFoundError:
            # It was removed since its directory was read.
            continue
        if entry is None:
            continue
        if output == "json":
            found.append(entry)
        else:
            print(plain(str(path)))
    if output == "json":
        print(json_text(found))
    for failure in failures:
        warn(f"{failure.filename}: {failure.strerror}")
    return FAILED if failures else 0


def _check_targets(home: Home, paths: tuple[Path, ...], targets: tuple[str, ...]) -> None:
    """Refuse a target that the store has not.

    Nothing is checked of paths of another store than the command's, and while a server is silent, which could have it.
    """
    from weir.store import launch
    from weir.store.access import access_to
    from weir.store.control import Server, ask_all, servers_of
    from weir.store.errors import StoreError

    if not targets:
        return
    try:
        cluster = find_cluster(home)
        places = [place for place in (launch.mount_point(home), os.environ.get("WEIR_PREFIX")) if place]
        if not all(any(path.absolute().is_relative_to(place) for place in places) for path in paths):
            return
        asked = ask_all(servers_of(cluster, access_to(home, cluster)), Server.status)
    except StoreError:
        return
    known: list[str] = []
    for answer in asked:
        if isinstance(answer, StoreError):
            return
        known += [target.target for target in answer.targets]
    for target in targets:
        if target not in known:
            raise CommandError(f"the store has no target {target}", hint=f"its targets are {', '.join(known)}")


def _below(paths: tuple[Path, ...], failures: list[OSError]) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything at and below paths, with its status; links are not followed."""
    for root in paths:
        waiting = [root]
        while waiting:
            path = waiting.pop()
            try:
                status = path.lstat()
                if stat.S_ISDIR(status.st_mode):
                    waiting += sorted(path.iterdir(), reverse=True)
            except OSError as error:
                if path == root or error.errno != errno.ENOENT:
                    failures.append(error)
                continue
            yield path, status


def _entry(path: Path, status: os.stat_result, wanted: _Wanted) -> dict[str, object] | None:
    """The file's figures if it passes all tests, the cheap ones first."""
    if wanted.kind is not None and not _KINDS[wanted.kind](status.st_mode):
        return None
    if wanted.pattern is not None and not fnmatchcase(path.name, wanted.pattern):
        return None
    if wanted.uid is not None and status.st_uid != wanted.uid:
        return None
    if wanted.size is not None and not wanted.size.holds(status.st_size):
        return None
    if wanted.days is not None and not wanted.days.holds((time.time() - status.st_mtime) // _DAY_SECONDS):
        return None
    entry: dict[str, object] = {"path": str(path), "size_bytes": status.st_size, "uid": status.st_uid}
    if not wanted.needs_layout:
        return entry
    if not stat.S_ISREG(status.st_mode):
        return None
    targets = _targets_of(path)
    if wanted.targets and wanted.targets.isdisjoint(targets):
        return None
    if wanted.stripes is not None and not wanted.stripes.holds(len(targets)):
        return None
    return {**entry, "targets": targets}


def _targets_of(path: Path) -> list[str]:
    """The targets of a file, each once: a target may have several objects of it, such as 0.1 and 0.1+1."""
    from weir import _core

    try:
        components = _core.parse_layout(layout_of(path).layout)
    except CommandError:
        path.lstat()
        raise
    named = (target.partition("+")[0] for component in components for target in component["targets"])
    return list(dict.fromkeys(named))
