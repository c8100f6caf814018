"""Directives for Weir in a job: `#WEIR name=value` lines of a batch script, `weir` among a jobspec's attributes.

They are checked strictly: a job with a mistyped directive is refused when it is submitted, and never runs without the
storage that its user meant.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from weir.provisioning.deployments import Policy, Transfer
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.batch_script import DIRECTIVE, Header, read_header
from weir.store import values

TRANSFERS_MAX = 64
"""Most trees that a job may have staged: each is a process of its own, and a directory tells further ones apart."""
VALUE_CHARACTERS_MAX = 4096
"""Longest value: that of a path on Linux."""
_NAME_CHARACTERS_MAX = 40
"""Longest name for which the one that was meant is looked for."""
_LISTS = ("stage_in", "stage_out")
"""Directives that may stand several times."""
_WORD = re.compile(r"(?P<name>[^=\s]+)=(?P<value>.*)", re.DOTALL)
_SYNTAX = f"write `{DIRECTIVE} name=value`, such as `{DIRECTIVE} policy=interference size=200GB`"

Representation = Literal["posix", "object", "hdf5"]


class Directives(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wishes of a job's user; None stands for the site's default."""

    version: Literal[1] = 1
    """Version of this document."""
    policy: Policy | None = None
    """Pace of sharing."""
    size_bytes: int | None = None
    """Capacity that the job's files need."""
    slowdown: float | None = None
    """Greatest slowdown by jobs that share; 1 is none."""
    budget: float | None = None
    """Most node-hours that the storage may cost."""
    lease_seconds: float | None = None
    """Time for which a shared store outlives its last sharer."""
    window_seconds: float | None = None
    """Time for which a job of the policy `utilization` waits for a store that it can share."""
    replicas: int | None = None
    encrypted: bool | None = None
    representation: Representation | None = None
    durable: bool | None = None
    trace: str = ""
    """Absolute path of the Darshan log or trace of a past run; empty without one."""
    stage_in: tuple[Transfer, ...] = ()
    stage_out: tuple[Transfer, ...] = ()


class _RefusedError(Exception):
    """A value that no directive of this name can have."""


def of_script(source: str, text: str) -> Directives:
    """Read the directives of a batch script, as far as sbatch reads options: up to the first command.

    Args:
        source: Name of the script, for messages.
        text: The script. A line that ends with a backslash goes on in the next one.

    Raises:
        ProvisioningError: A line is no directive, or has a value that cannot be; the error names the line.
    """
    return of_header(source, read_header(source, text))


def of_header(source: str, header: Header) -> Directives:
    """Read the directives of a batch script's header.

    Args:
        source: Name of the script, for messages.

    Returns:
        The directives; those of a heterogeneous job are of all its components.

    Raises:
        ProvisioningError: A line is no directive, or has a value that cannot be; the error names the line.
    """
    return _read(_words(source, header))


def of_attributes(source: str, attributes: Mapping[str, Any]) -> Directives:
    """Read the directives of a jobspec, the mapping `weir` of its attributes.

    Args:
        source: Name of the jobspec, for messages.
        attributes: Values by the names of directives: texts, numbers, booleans, and lists of texts for transfers.

    Raises:
        ProvisioningError: There is no directive of a name, or a value cannot be.
    """
    return _read(_entries(source, attributes))


def hints_of(source: str, header: Header) -> dict[str, str]:
    """Tell the directives of a header by name; the values of several of a name are lines.

    Args:
        source: Name of the script, for messages.

    Returns:
        Values by name, as `of_attributes` reads them.

    Raises:
        ProvisioningError: A word is no directive.
    """
    hints: dict[str, str] = {}
    for _, name, value in _words(source, header):
        hints[name] = f"{hints[name]}\n{value}" if name in hints else value
    return hints


def _words(source: str, header: Header) -> Iterator[tuple[str, str, str]]:
    """Place, name and value of each directive."""
    for line in header.directives:
        place = f"{source}:{line.number}"
        if not line.words.words:
            raise ProvisioningError(f"{place}: the line has no directive", hint=_SYNTAX)
        for word in line.words.words:
            found = _WORD.fullmatch(word)
            if found is None:
                raise ProvisioningError(f"{place}: `{word:.80}` has no value{_meant(word)}", hint=_SYNTAX)
            yield place, found["name"], found["value"]


def _entries(source: str, attributes: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, value in attributes.items():
        # The hints of a job have several transfers as lines.
        several = value.split("\n") if isinstance(value, str) and name in _LISTS else value
        for each in several if isinstance(several, list) else [several]:
            # YAML reads `yes` and `true` as booleans, and a size without a unit as a number.
            if isinstance(each, bool):
                yield source, str(name), "true" if each else "false"
            elif isinstance(each, str | int | float):
                yield source, str(name), str(each)
            else:
                raise ProvisioningError(
                    f"{source}: {name} is {each!r:.80}", hint="a directive is a text, a number or a list of texts"
                )


def _read(words: Iterable[tuple[str, str, str]]) -> Directives:
    fields: dict[str, Any] = {}
    for place, name, value in words:
        if name not in _READERS:
            raise ProvisioningError(f"{place}: there is no directive `{name:.40}`{_meant(name)}", hint=_known())
        field, reader = _READERS[name]
        is_list = field in _LISTS
        if field in fields and not is_list:
            raise ProvisioningError(f"{place}: `{name}` stands twice", hint="leave one of the two")
        try:
            found = reader(_checked(value))
        except (_RefusedError, ValueError) as error:
            raise ProvisioningError(f"{place}: {name}={value:.80}: {error}", hint=_HINTS[name]) from error
        fields[field] = (*fields.get(field, ()), found) if is_list else found
        if is_list and len(fields[field]) > TRANSFERS_MAX:
            raise ProvisioningError(
                f"{place}: more than {TRANSFERS_MAX} of `{name}`", hint="stage a directory that has the others"
            )
    _refuse_overlaps(fields)
    return Directives(**fields)


def _refuse_overlaps(fields: Mapping[str, Any]) -> None:
    """Two trees that are staged to one place would mix, in an order that nobody chose."""
    for name in _LISTS:
        seen: set[str] = set()
        for each in fields.get(name, ()):
            if each.destination in seen:
                raise ProvisioningError(f"{name} has two sources for {each.destination}", hint="give each its place")
            seen.add(each.destination)


def _checked(value: str) -> str:
    if not value:
        raise _RefusedError("the value is empty")
    if len(value) > VALUE_CHARACTERS_MAX:
        raise _RefusedError(f"the value is longer than {VALUE_CHARACTERS_MAX} characters")
    if any(not letter.isprintable() for letter in value):
        raise _RefusedError("the value has control characters")
    return value


def _positive(reader: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        found = reader(text)
        # Infinity and not-a-number pass no comparison with a finite bound.
        if not 0 < found < float(1 << 63):
            raise _RefusedError("a number above 0 is needed")
        return found

    return read


def _slowdown(text: str) -> float:
    found = float(text)
    if not 1 <= found < float(1 << 31):
        raise _RefusedError("a slowdown is at least 1, which is none")
    return found


def _replicas(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d?", text, re.ASCII):
        raise _RefusedError("a number from 1 to 99 is needed")
    return int(text)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false", "yes", "no"):
        raise _RefusedError("it is neither true nor false")
    return text.lower() in ("true", "yes")


def _choice(*names: str) -> Callable[[str], str]:
    return lambda text: values.one_of(text, names, "value")


def _outside(path: str) -> str:
    """An absolute path. Variables would be the service's, not the user's."""
    if path.startswith(("~", "$")):
        raise _RefusedError("variables are not replaced in directives")
    if not path.startswith("/"):
        raise _RefusedError(f"`{path}` is no absolute path")
    return posixpath.normpath(path)


def _inside(path: str) -> str:
    """A path in the store, relative to its root."""
    found = posixpath.normpath(path) if path else ""
    if not found or found.startswith("/") or found.split("/")[0] == "..":
        raise _RefusedError(f"`{path}` is no relative path in the store")
    return found


def _stage_in(text: str) -> Transfer:
    source, colon, destination = text.rpartition(":")
    if not colon:
        source, destination = text, posixpath.basename(posixpath.normpath(text))
    return Transfer(source=_outside(source), destination=_inside(destination))


def _stage_out(text: str) -> Transfer:
    # A path in the store may have colons; the first one before a `/` ends the path.
    source, colon, destination = text.partition(":/")
    if not colon:
        raise _RefusedError("the place outside of the store is missing")
    return Transfer(source=_inside(source), destination=_outside(f"/{destination}"))


_READERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "policy": ("policy", _choice("cost", "performance", "interference", "utilization")),
    "size": ("size_bytes", _positive(values.size)),
    "slowdown": ("slowdown", _slowdown),
    "budget": ("budget", _positive(float)),
    "lease": ("lease_seconds", _positive(values.duration)),
    "window": ("window_seconds", _positive(values.duration)),
    "replicas": ("replicas", _replicas),
    "encrypted": ("encrypted", _truth),
    "representation": ("representation", _choice("posix", "object", "hdf5")),
    "durable": ("durable", _truth),
    "trace": ("trace", _outside),
    "stage_in": ("stage_in", _stage_in),
    "stage_out": ("stage_out", _stage_out),
}
"""Field and reader of each directive."""

_HINTS: Mapping[str, str] = {
    "policy": "`cost` is the cheapest that is enough, `performance` the fastest, `interference` bounds the slowdown of"
    " sharing, `utilization` shares most",
    "size": "an amount of bytes, such as 200GB",
    "slowdown": "such as 1.5: at most half as slow again",
    "budget": "a number of node-hours, such as 40",
    "lease": "a time, such as 30m or 2h",
    "window": "a time, such as 30m or 2h",
    "replicas": "copies of each byte, such as 2",
    "encrypted": "true or false",
    "representation": "posix, object or hdf5",
    "durable": "true or false",
    "trace": "the absolute path of the Darshan log or trace of a past run",
    "stage_in": "stage_in=/absolute/source:place/in/store",
    "stage_out": "stage_out=place/in/store:/absolute/destination",
}
"""Help for each directive."""


def _meant(word: str) -> str:
    import difflib

    bare = word.split("=", 1)[0][:_NAME_CHARACTERS_MAX].lower().replace("-", "_")
    # Slurm's own keyword, which asks for a pool of a burst buffer.
    if bare == "capacity":
        return ": did you mean `size`?"
    near = difflib.get_close_matches(bare, _READERS, n=1)
    return f": did you mean `{near[0]}`?" if near else ""


def _known() -> str:
    return f"the directives are {', '.join(_READERS)}"
