"""The semantics that each storage system can be deployed with."""

from weir.provisioning.objectives.sslos import Semantics

_REPLICAS = {
    # Weir places each byte once.
    "weir": 1,
    # OrangeFS replicates metadata alone (MetaReplicationFactor).
    "orangefs": 1,
    # BeeOND mirrors targets and metadata in pairs of servers (`beeond start -k -j`).
    "beeond": 2,
    # Mirrors of Lustre are made of files that are there (`lfs mirror`), not by a directory's striping.
    "lustre": 1,
    "path": 1,
}


def most(kind: str, *, servers: int, in_memory: bool = False) -> Semantics:
    """Tell the most that a system keeps.

    Args:
        kind: The product, as in `System.kind`.
        servers: Number of servers.
        in_memory: Whether its targets are in memory, which ends with the servers.

    Returns:
        The semantics: a job that asks for more has to be refused. None of the systems encrypts bytes at rest by itself.
    """
    replicas = _REPLICAS[kind] if servers % 2 == 0 else 1
    return Semantics(replicas=replicas, durable=not in_memory)
