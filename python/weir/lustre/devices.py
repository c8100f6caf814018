"""Reader of `lctl dl -t`: the devices of a Lustre client, and through them the server of each target."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from weir.lustre.text import lines

_EXPECTED = "`NUMBER STATUS TYPE NAME UUID REFERENCES [NID]`"
_CLIENT = re.compile(r"(.+-OST[0-9a-fA-F]{4,8})-osc-\S+")
"""Name of a client's device for an OST; the device of an MDS ends in `-osc-MDTxxxx`."""


@dataclass(frozen=True, slots=True)
class Device:
    """A line of `lctl dl`."""

    number: int
    """Number of the device."""
    status: str
    """`UP`, `IN` for a device that was set inactive, or another word."""
    kind: str
    """Type of the device: `osc`, `mdc`, `obdfilter` and others."""
    name: str
    uuid: str
    references: int
    nid: str | None
    """Network address of the server; None without `-t`."""


def parse_lctl_dl(text: str, source: str) -> tuple[Device, ...]:
    """Read the output of `lctl dl` or `lctl dl -t`.

    Args:
        text: The output.
        source: Origin of the text, for errors.

    Returns:
        The devices, in the order of their lines.

    Raises:
        MalformedError: A line is no device. The error names `source` and the line.
    """
    devices = []
    for place in lines(text, source):
        words = place.text.split()
        if len(words) not in (6, 7):
            place.malformed(_EXPECTED)
        number, status, kind, name, uuid, references, *nid = words
        devices.append(
            Device(
                place.count(number, _EXPECTED),
                status,
                kind,
                name,
                uuid,
                place.count(references, _EXPECTED),
                nid[0] if nid else None,
            )
        )
    return tuple(devices)


def servers_of(devices: Iterable[Device]) -> dict[str, str]:
    """Find the server of each target.

    Args:
        devices: Devices of a client.

    Returns:
        The network address of each target's server, by the target's name. A device without an address is left out.
    """
    found = {}
    for device in devices:
        client = _CLIENT.fullmatch(device.name)
        if device.kind in ("osc", "osp") and client and device.nid:
            found[client[1]] = device.nid
    return found


def inactive(devices: Iterable[Device]) -> frozenset[str]:
    """Find the targets that a client does not use.

    Returns:
        Names of the targets whose device is not `UP`.
    """
    return frozenset(
        client[1] for device in devices if device.status != "UP" and (client := _CLIENT.fullmatch(device.name))
    )
