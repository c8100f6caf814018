"""Lists of hosts, in the spelling of Slurm and ClusterShell, and the hosts of an allocation."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.distribution import install_command
from weir.store import values
from weir.store.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from types import ModuleType

NODES_MAX = 4096
"""Most hosts of one store: a list with a typo such as `node[1-100000]` is refused before a host is asked."""
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"\s*(\d+)(?:-(\d+))?(?:/(\d+))?\s*")
_DIGITS_MAX = 18
"""Most digits of a number in a name: a longer one is no typo of a host."""
_FLUX_SECONDS = 30.0
"""Longest time until Flux tells its hosts."""


def listed(spelled: str) -> tuple[str, ...]:
    """Read a list of hosts.

    Args:
        spelled: The hosts, such as `node[01-16],login1` or `@compute`; or the path of a file with such a list in each
            line, where `#` begins a comment.

    Returns:
        Names of the hosts, in the list's order.

    Raises:
        SettingsError: The list cannot be read, has no host, too many, or one twice; the error names the line of the
            file.
    """
    path = Path(spelled)
    if path.is_file():
        named: list[tuple[str, str]] = []
        for number, line in enumerate(_lines(path), start=1):
            text = line.partition("#")[0].strip()
            if text:
                named += [(host, f"{path}, line {number}") for host in _expanded(text, f"{path}, line {number}")]
        place = str(path)
    else:
        if "/" in spelled:
            raise SettingsError(f"there is no list of hosts at {spelled}", hint="is the path right?")
        named = [(host, spelled) for host in _expanded(spelled, spelled)]
        place = spelled if spelled.strip() else "an empty list"
    if not named:
        raise SettingsError(f"{place} names no host", hint="name hosts such as node[01-16]")
    seen: dict[str, str] = {}
    for host, where in named:
        if host in seen:
            also = f" and in {seen[host]}" if seen[host] != where else ""
            raise SettingsError(f"{where} names {host} twice{also}", hint="name each host once")
        seen[host] = where
    return tuple(seen)


def allocated(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Find the hosts of the allocation that this process runs in.

    Returns:
        Names of the hosts; None outside of an allocation of Slurm or Flux.

    Raises:
        SettingsError: Slurm's list cannot be read.
        StoreError: Flux does not tell its hosts.
    """
    slurm = environment.get("SLURM_JOB_NODELIST")
    if slurm:
        return tuple(_expanded(slurm, "SLURM_JOB_NODELIST"))
    if environment.get("FLUX_URI"):
        return tuple(dict.fromkeys(_expanded(_flux_hosts(), "the hosts of this Flux instance")))
    return None


def folded(hosts: tuple[str, ...] | list[str]) -> str:
    """Write a list of hosts as short as it can be.

    Args:
        hosts: Names of hosts.

    Returns:
        The list, such as `node[01-16]`.
    """
    return str(_node_sets().NodeSet.fromlist(list(hosts)))


def _flux_hosts() -> str:
    command = ["flux", "getattr", "hostlist"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_FLUX_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"`flux getattr hostlist` failed: {error}", hint="name the hosts with `nodes`") from error
    if answer.returncode != 0:
        raise StoreError(f"`flux getattr hostlist` failed: {answer.stderr.strip()}", hint="name the hosts with `nodes`")
    return answer.stdout.strip()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {error}", hint="is it a list of hosts?") from error


def _expanded(text: str, place: str) -> list[str]:
    """Expand one list, in its order."""
    node_sets = _node_sets()
    if not text.isascii():
        # ClusterShell takes digits of all scripts, and would name another host.
        raise SettingsError(f"{place}: {text[:80]!a} has letters or digits beyond ASCII", hint="write them in ASCII")
    try:
        # A set sorts its members; their order in the text decides which host has which server.
        parts = _parts(text)
        if sum(map(_named_max, parts)) > NODES_MAX:
            raise _too_many(place)
        hosts = [values.host(host) for part in parts for host in node_sets.NodeSet(part)]
    except ValueError as error:
        raise SettingsError(f"{place}: {error}", hint="hosts are spelled as node[01-16],login1") from error
    except node_sets.NodeSetException as error:
        raise SettingsError(f"{place}: {error}", hint="hosts are spelled as node[01-16],login1") from error
    # A group may name any number.
    if len(hosts) > NODES_MAX:
        raise _too_many(place)
    return hosts


def _too_many(place: str) -> SettingsError:
    return SettingsError(f"{place} names more hosts than the {NODES_MAX} of one store", hint="is a digit too many?")


def _named_max(part: str) -> int:
    """The most hosts that a name with ranges stands for, found without naming them: a list may stand for billions."""
    count = 1
    for group in _GROUP.findall(part):
        members = 0
        for each in group.split(","):
            numbers = _RANGE.fullmatch(each)
            if numbers is None:
                # ClusterShell says what is wrong with it.
                members += 1
            elif max(map(len, numbers.groups(""))) > _DIGITS_MAX:
                return NODES_MAX + 1
            else:
                begin, end, step = numbers.groups()
                members += max(int(end or begin) - int(begin), 0) // max(int(step or 1), 1) + 1
        count *= members
    return count


def _parts(text: str) -> list[str]:
    """Split a list at commas and blanks outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth == 0 and (letter == "," or letter.isspace()):
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]


def _node_sets() -> "ModuleType | Any":
    try:
        from ClusterShell import NodeSet
    except ImportError as error:
        raise StoreError("lists of hosts need the package ClusterShell", hint=install_command("deployment")) from error
    return NodeSet
