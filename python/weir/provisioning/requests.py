"""The wishes of a user for a job's storage: from options, or from the hints of a job script or jobspec."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, get_args

import msgspec

from weir.provisioning.deployments import Policy
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.sslos import Semantics

SystemKind = Literal["weir", "orangefs", "beeond", "lustre"]
"""The products that a plan can deploy."""
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([kKMGTP]?)(i?B|)(?:/s)?")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIME = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([smhd]?)")
_BYTES_MAX = 1 << 62


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wishes of a user; a field that is None leaves the choice to the plan."""

    version: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    """Version of this document."""
    policy: Policy = "performance"
    system: SystemKind = "weir"
    devices: tuple[str, ...] = ()
    """Classes of devices that the plan may use; all without one."""
    size_bytes: Annotated[int, msgspec.Meta(ge=1, le=_BYTES_MAX)] | None = None
    read_bytes_per_second: Annotated[float, msgspec.Meta(gt=0, le=1e18)] | None = None
    """Least rate of the job's reads; a plan that cannot reach the rate is refused."""
    write_bytes_per_second: Annotated[float, msgspec.Meta(gt=0, le=1e18)] | None = None
    semantics: Semantics | None = None
    """Properties that the storage has to have."""
    window_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None
    """Longest time that the job waits for resources of its own."""
    slowdown_max: Annotated[float, msgspec.Meta(ge=1, le=1e6)] | None = None
    """Greatest slowdown by jobs that share."""
    budget: Annotated[float, msgspec.Meta(ge=0, le=1e18)] | None = None
    """Greatest price, in node-hours."""
    lease_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0


def parse_bytes(text: str) -> int:
    """Read an amount of bytes: `1M` and `1MiB` are 2^20, `1MB` is 10^6, and `/s` may follow.

    Args:
        text: The amount.

    Returns:
        Bytes.

    Raises:
        ValueError: The text is no amount, or the amount is 0 or too large.
    """
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r:.60} is no amount of bytes; write it as in 1.5T, 100GB or 2GiB/s")
    number, prefix, unit = found.groups()
    base = 1000 if unit == "B" and prefix else 1024
    amount = int(float(number) * base ** _POWERS[prefix.upper()])
    if not 1 <= amount <= _BYTES_MAX:
        raise ValueError(f"{text!r:.60} is not from 1 byte to 4 EiB")
    return amount


def parse_seconds(text: str) -> float:
    """Read a time: a number with `s`, `m`, `h` or `d`; seconds without.

    Args:
        text: The time.

    Returns:
        Seconds.

    Raises:
        ValueError: The text is no time.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r:.60} is no time; write it as in 90s, 30m, 2h or 1d")
    return float(found[1]) * _SECONDS[found[2]]


def of_hints(hints: Mapping[str, str], base: Request | None = None) -> Request:
    """Read the wishes in a job's hints; hints of other parts of Weir are left alone.

    Args:
        hints: Names and values, as in `#WEIR` lines.
        base: Wishes that stand before the hints, such as a site's; those of options stand above and come later.

    Returns:
        The wishes.

    Raises:
        ProvisioningError: A hint's value cannot be read.
    """
    fields: dict[str, object] = {}
    semantics: dict[str, object] = {}
    for name, value in hints.items():
        try:
            if name in _READERS:
                field, read = _READERS[name]
                fields[field] = read(value)
            elif name in _SEMANTICS:
                semantics[name] = _SEMANTICS[name](value)
        except ValueError as error:
            raise ProvisioningError(f"the hint {name}={value:.60} cannot be used: {error}", hint=_HINT) from error
    before = base or Request()
    if semantics:
        known = msgspec.to_builtins(before.semantics) if before.semantics else {}
        fields["semantics"] = {**known, **semantics}
    try:
        return msgspec.convert({**msgspec.to_builtins(before), **fields}, Request)
    except msgspec.ValidationError as error:
        raise ProvisioningError(f"the hints cannot be used: {error}", hint=_HINT) from error


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"the values are {', '.join(words)}")
        return text

    return read


def _yes(text: str) -> bool:
    return _one_of(("yes", "no"))(text) == "yes"


def _count(text: str) -> int:
    if re.fullmatch(r"[1-9]\d{0,3}", text) is None:
        raise ValueError("it is no number from 1 to 9999")
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("it is not a finite number")
    return number


_READERS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "policy": ("policy", _one_of(get_args(Policy))),
    "system": ("system", _one_of(get_args(SystemKind))),
    "devices": ("devices", lambda text: tuple(text.split(","))),
    "size": ("size_bytes", parse_bytes),
    "read": ("read_bytes_per_second", lambda text: float(parse_bytes(text))),
    "write": ("write_bytes_per_second", lambda text: float(parse_bytes(text))),
    "window": ("window_seconds", parse_seconds),
    "slowdown": ("slowdown_max", _number),
    "budget": ("budget", _number),
    "lease": ("lease_seconds", parse_seconds),
}
"""Hints by their names, with the field of a request and the reader of the value."""
_SEMANTICS: Mapping[str, Callable[[str], object]] = {
    "replicas": _count,
    "encrypted": _yes,
    "durable": _yes,
    "representation": _one_of(("posix", "object", "hdf5")),
}
_HINT = f"hints of a plan are {', '.join((*_READERS, *_SEMANTICS))}; docs/guides/planning.md describes them"
