"""The doors through which a store is changed, and what its audit has of each.

`tests/python/test_audit.py` finds the doors in the sources: a new one needs a row, and an entry or a reason.
"""

from collections.abc import Mapping

REQUESTS: Mapping[str, str] = {
    "PUT /v1/policy": "policy",
    "PUT /v1/lease": "lease",
    "PUT /v1/allocator": "allocator",
    "PUT /v1/quotas": "quota",
    "PUT /v1/mend": "mend",
    "PUT /v1/targets/{target}/speed": "target speed",
    "PUT /v1/servers/{server}": "server",
    "PUT /v1/servers/{server}/names": "server names",
    "PUT /v1/servers/{server}/state": "server state",
    "PUT /v1/targets/{target}": "target",
    "PUT /v1/targets/{target}/state": "target state",
    "PUT /v1/audit": "deployment",
}
"""Requests that change something, each with the kind of its entry."""

LEFT: Mapping[str, str] = {
    "PUT /v1/interference": "predictions are shown and change nothing; they come each second",
}
"""Requests that change nothing, each with the reason."""
