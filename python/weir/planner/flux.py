"""Flux's side of the planner: the deployment of a job is planned when its jobspec is taken in, and written into it."""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weir.planner import protocol
from weir.planner.client import Client
from weir.provisioning.jobs import ornaments


def planned(jobspec: Mapping[str, Any], uid: int, socket: str | None = None) -> dict[str, Any]:
    """Plan the storage of a job that asks Weir for storage.

    Args:
        jobspec: The jobspec (RFC 25).
        uid: The user who submitted, as Flux knows them.
        socket: The planner's socket; None is the one that `Client` finds.

    Returns:
        The jobspec with the deployment at `attributes.system.weir`. A deployment that the user wrote there is gone.

    Raises:
        ProvisioningError: A wish is no directive.
        PlannerError: No planner answers, or no storage fits.
    """
    plain = ornaments.bare(jobspec)
    if ornaments.wishes_of(plain) is None:
        return plain
    # Flux numbers a job after its jobspec was taken in, so the deployment has a name of its own.
    name = f"flux-{secrets.token_hex(8)}"
    request = protocol.Plan(uid=uid, name=name, script=json.dumps(plain))
    with Client(None if socket is None else Path(socket)) as client:
        answer = client.ask(request, protocol.Planned)
    return ornaments.ornament(plain, answer.deployment)
