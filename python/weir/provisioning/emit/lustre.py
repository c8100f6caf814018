"""Striping of a directory on Lustre: a line of `lfs setstripe` (lfs-setstripe(1))."""

import re
import shlex
from collections.abc import Sequence

import msgspec

from weir.placement.database import END_OF_FILE, Component
from weir.placement.emit import layout_of
from weir.provisioning.deployments import Deployment
from weir.provisioning.emit import checks
from weir.provisioning.emit.checks import EmittedFile
from weir.provisioning.emit.system_semantics import most
from weir.provisioning.errors import ProvisioningError

FILE = "setstripe.sh"
SETTINGS = ("layout", "pool", "stripe_count", "stripe_size")
"""`layout` is a whole layout in the spelling of `lfs setstripe`, and excludes the two of stripes."""
STRIPE_BYTES = 1 << 20
"""Lustre's own default."""
_STRIPES_MAX = 2000
"""Most stripes of a file on Lustre (Lustre manual, table 1.2)."""
_STRIPE_UNIT = 1 << 16
_STRIPE_BYTES_MAX = (4 << 30) - _STRIPE_UNIT
_OST = re.compile(r"(?:[A-Za-z0-9_]{1,8}-)?OST([0-9a-fA-F]{4})", re.ASCII)
_POOL = re.compile(r"[A-Za-z0-9_]{1,15}", re.ASCII)
"""Names of pools, which Lustre bounds to 15 characters."""
_HEAD = "#!/bin/sh\n"


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """The striping of one extent of each file."""

    end: int | None
    """First byte behind it; None is the end of the file."""
    stripes: int
    """-1 is one on every target."""
    stripe_bytes: int


class Striping(msgspec.Struct, frozen=True, kw_only=True):
    """The striping of a directory's new files."""

    directory: str
    extents: tuple[Extent, ...]
    pool: str = ""
    targets: tuple[int, ...] = ()
    """Indices of OSTs; empty where Lustre chooses."""


def of(deployment: Deployment, *, directory: str) -> Striping:
    """Take the striping of a directory from a deployment.

    Args:
        deployment: The deployment. Servers whose devices are named as OSTs (`OST001a`) choose them; else the number of
            targets counts.
        directory: The directory, which is there on Lustre.

    Raises:
        ProvisioningError: Lustre cannot stripe so.
    """
    from weir import _core

    named = [device.rpartition("/")[2] for server in deployment.servers for device in server.devices]
    osts = [int(found[1], 16) for each in named if (found := _OST.fullmatch(each))]
    checks.check(_without_osts(deployment), "Lustre", most("lustre", servers=len(deployment.servers)))
    chosen = deployment.system.settings
    checks.known(chosen, SETTINGS, "Lustre")
    targets = tuple(osts) if osts and len(osts) == len(named) else ()
    count = len(targets) or sum(
        len(each.devices) or deployment.system.targets_per_server for each in deployment.servers
    )
    if "layout" in chosen:
        if {"stripe_count", "stripe_size"} & chosen.keys():
            raise ProvisioningError(
                "layout has its own stripes", hint="leave out layout, or stripe_count and stripe_size"
            )
        try:
            parts = _core.parse_layout(chosen["layout"])
        except ValueError as error:
            raise ProvisioningError(f"the layout {chosen['layout'][:80]!r} is none: {error}", hint=_SPELLING) from error
        extents = tuple(
            Extent(end=part["end"], stripes=part["stripes"] or count, stripe_bytes=part["stripe_bytes"] or STRIPE_BYTES)
            for part in parts
        )
        if any(part["targets"] for part in parts):
            raise ProvisioningError("the layout names targets of Weir", hint="name OSTs as the servers' devices")
    else:
        try:
            stripe_bytes = _core.parse_size(chosen.get("stripe_size", str(STRIPE_BYTES)))
        except ValueError as error:
            raise ProvisioningError(f"stripe_size: {error}", hint=_SPELLING) from error
        if "stripe_count" in chosen and chosen["stripe_count"] != "-1":
            count = checks.number(chosen["stripe_count"], "stripe_count", 1, _STRIPES_MAX)
        extents = (
            Extent(end=None, stripes=-1 if chosen.get("stripe_count") == "-1" else count, stripe_bytes=stripe_bytes),
        )
    return _checked(Striping(directory=directory, extents=extents, pool=chosen.get("pool", ""), targets=targets))


def files(values: Striping) -> tuple[EmittedFile, ...]:
    """Write the command.

    Returns:
        A script with the one command.
    """
    words = []
    start = 0
    for extent in values.extents:
        end = END_OF_FILE if extent.end is None else extent.end
        part = Component("", 1, start, end, extent.stripe_bytes, extent.stripes, 0, 0, tuple(map(str, values.targets)))
        start = end
        if len(values.extents) > 1:
            words += ["-E", "-1" if extent.end is None else str(extent.end)]
        words += layout_of([part]).split()
        words += ["-p", values.pool] if values.pool else []
    return (EmittedFile(name=FILE, text=f"{_HEAD}{shlex.join(['lfs', 'setstripe', *words, values.directory])}\n"),)


def read(emitted: Sequence[EmittedFile]) -> Striping:
    """Read the command back.

    Raises:
        ProvisioningError: It is no such command.
    """
    from weir import _core

    text = checks.only(emitted, (FILE,))[FILE]
    try:
        words = shlex.split(text.removeprefix(_HEAD))
    except ValueError as error:
        raise _wrong(str(error)) from error
    if not text.startswith(_HEAD) or words[:2] != ["lfs", "setstripe"] or len(words) % 2 == 0 or len(words) < 5:
        raise _wrong("it is not `lfs setstripe OPTION VALUE... DIRECTORY`")
    pairs = list(zip(words[2:-1:2], words[3:-1:2], strict=True))
    layout = " ".join(f"{option} {shlex.quote(value)}" for option, value in pairs if option not in ("-p", "-o"))
    try:
        parts = _core.parse_layout(layout)
    except ValueError as error:
        raise _wrong(str(error)) from error
    pools = {value for option, value in pairs if option == "-p"}
    chosen = {value for option, value in pairs if option == "-o"}
    counts = [sum(option == name for option, _ in pairs) for name in ("-p", "-o")]
    if len(pools) > 1 or len(chosen) > 1 or not all(count in (0, len(parts)) for count in counts):
        raise _wrong("its extents have different pools or OSTs")
    extents = [
        Extent(end=part["end"], stripes=part["stripes"], stripe_bytes=part["stripe_bytes"])
        for part in parts
        if part["stripes"] is not None and part["stripe_bytes"] is not None
    ]
    if len(extents) < len(parts):
        raise _wrong("an extent lacks -c or -S")
    found = _checked(
        Striping(
            directory=words[-1],
            extents=tuple(extents),
            pool=pools.pop() if pools else "",
            targets=_indices(chosen.pop()) if chosen else (),
        )
    )
    if files(found)[0].text != text:
        raise _wrong("it has words or options in another order than `weir plan emit` writes them")
    return found


_SPELLING = "write it as `lfs setstripe` has it, such as '-E 64M -c 1 -E -1 -c 8 -S 4M'"


def _without_osts(deployment: Deployment) -> Deployment:
    """The deployment for the common checks: names of OSTs are no paths."""
    from msgspec.structs import replace

    servers = tuple(
        replace(each, devices=tuple(device for device in each.devices if not _OST.fullmatch(device)))
        for each in deployment.servers
    )
    return replace(deployment, servers=servers)


def _indices(text: str) -> tuple[int, ...]:
    return tuple(checks.number(each, "-o", 0, 0xFFFF) for each in text.split(","))


def _checked(values: Striping) -> Striping:
    """A striping that Lustre accepts."""
    checks.path(values.directory, "the directory on Lustre")
    if values.directory.startswith("/-") or (values.pool and not _POOL.fullmatch(values.pool)):
        raise ProvisioningError(
            f"{values.pool[:80]!r} is no name of a pool", hint="use letters, digits and `_`, 15 at most"
        )
    if len(set(values.targets)) < len(values.targets):
        raise ProvisioningError("an OST is there twice", hint="name each OST once")
    for extent in values.extents:
        if extent.stripes != -1 and not 1 <= extent.stripes <= _STRIPES_MAX:
            raise ProvisioningError(
                f"{extent.stripes} stripes cannot be", hint=f"give 1 to {_STRIPES_MAX}, or -1 for every target"
            )
        if values.targets and extent.stripes > len(values.targets):
            raise ProvisioningError(
                f"{extent.stripes} stripes need as many OSTs, and {len(values.targets)} are named",
                hint="name more OSTs, or none",
            )
        if extent.stripe_bytes % _STRIPE_UNIT or not 0 < extent.stripe_bytes <= _STRIPE_BYTES_MAX:
            raise ProvisioningError(
                f"a stripe of {extent.stripe_bytes} bytes cannot be",
                hint=f"give a multiple of 64 KiB up to {_STRIPE_BYTES_MAX}",
            )
    return values


def _wrong(message: str) -> ProvisioningError:
    return ProvisioningError(f"{FILE}: {message}", hint="`weir plan emit` writes it anew")
