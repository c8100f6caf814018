"""Room of a new store for the jobs that join it while its own job runs.

A job may join a store that has room for it beside the jobs that use the store. A store of the size that its own job
asked for has none until this job ends.
"""

import math

from weir.provisioning.deployments import TARGET_BYTES, Deployment, target_bytes, targets, with_targets
from weir.provisioning.resources.model import Resources

_REST_DIVISOR = 2
"""A store takes at most half of the room that its own job leaves on a device. So no store fills a device by room that
nobody asked for yet, and other jobs find a place there."""


def with_sharers_room(deployment: Deployment, resources: Resources, part: float) -> Deployment:
    """Give a store room for later jobs, as far as its devices have it.

    Args:
        deployment: A deployment with servers of its own, whose equal targets hold what its job asked for.
        resources: The resources that it was planned on.
        part: Room for later jobs over the size of the deployment's own job; 0 for none.

    Returns:
        The deployment with larger targets. Its size stays that of its own job.
    """
    own = deployment.servers[0].target_bytes
    wanted = target_bytes(math.ceil(deployment.size_bytes * (1 + part)), targets(deployment))
    rest = max(_least_room(deployment, resources) - own, 0) // _REST_DIVISOR
    larger = min(wanted, own + rest // TARGET_BYTES * TARGET_BYTES)
    return with_targets(deployment, larger) if larger > own else deployment


def _least_room(deployment: Deployment, resources: Resources) -> int:
    """Room of the fullest device of a deployment, each of which has one target."""
    wanted = {(server.node, path) for server in deployment.servers for path in server.devices or ("",)}
    names = {name for name, _ in wanted}
    return min(
        device.room
        for node in resources.nodes
        if node.name in names
        for device in node.devices
        if (node.name, device.path) in wanted
    )
