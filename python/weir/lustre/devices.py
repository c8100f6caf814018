"""`lctl dl -t`: the devices of a Lustre client, and through them the server on which each target is."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from weir.lustre.text import lines

_EXPECTED = "`NUMBER STATUS TYPE NAME UUID REFERENCES [NID]`"
_CLIENT = re.compile(r"(.+-OST[0-9a-fA-F]{4,8})-osc-\S+")
"""Name of a client's device for an OST (an MDS's ends in `-osc-MDTxxxx`)."""


@dataclass(frozen=True, slots=True)
class Device:
    """A line of `lctl dl`."""

    number: int
    status: str
    """`UP`, or `IN` for a device that was set inactive, and others."""
    kind: str
    """`osc`, `mdc`, `obdfilter`, ..."""
    name: str
    uuid: str
    references: int
    nid: str | None
    """Network address of the server, which `-t` adds."""


def parse_lctl_dl(text: str, source: str) -> tuple[Device, ...]:
    """The devices of `lctl dl` or `lctl dl -t`.

    Raises:
        MalformedError: naming `source` and the line.
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
    """Target name to the network address of its server."""
    found = {}
    for device in devices:
        client = _CLIENT.fullmatch(device.name)
        if device.kind in ("osc", "osp") and client and device.nid:
            found[client[1]] = device.nid
    return found


def inactive(devices: Iterable[Device]) -> frozenset[str]:
    """Names of the targets whose device is not up."""
    return frozenset(
        client[1] for device in devices if device.status != "UP" and (client := _CLIENT.fullmatch(device.name))
    )
