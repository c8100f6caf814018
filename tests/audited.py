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

TOLD: Mapping[str, str] = {
    "deployment": "store/lifecycle.py bring_up, store/lifecycle.py take_down, deployment/deployment.py _deployed,"
    " deployment/deployment.py take_down",
    "upgrade": "deployment/rolling.py restart_all",
    "server move": "deployment/handover.py _finish",
    "backup": "cli/backup.py backup",
    "grant": "cli/grant.py grant",
    "room refusal": "room/refusals.py note",
}
"""Changes that no server makes, each with the functions that tell the servers of them."""

COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("up", "deploy", "down", "job run", "job resume", "job end", "planner"), "deployment"),
    **dict.fromkeys(("deployments end", "job release"), "deployment"),
    "upgrade": "upgrade",
    "backup": "backup",
    "grant": "grant",
    **dict.fromkeys(("policy set", "room"), "policy"),
    "targets allocator": "allocator",
    "targets set": "target speed",
    "target add": "target",
    "target retire": "target state",
    "server add": "server",
    "server retire": "server state",
    "quota set": "quota",
    "fsck": "mend",
    "guard": "lease",
}
"""Commands that change a store, each with the kind of entry that it leaves."""

_READS = "reads alone"
_FILES = "changes files of its user alone, by the rights that the servers check"
_HOST = "changes what runs on its host, and nothing of the store"
_OWN = "works on a store or on files of its own"

COMMANDS_LEFT: Mapping[str, str] = {
    "restore": "the store is down; the next start tells of it",
    "uninstall": "the audit goes with the store",
    "serve server": "a server under a supervisor, whose administrator it is that starts it",
    "interference serve": LEFT["PUT /v1/interference"],
    **dict.fromkeys(("mount", "umount", "serve mount"), _HOST),
    **dict.fromkeys(("run", "stage in", "stage out", "layout set", "rebalance"), _FILES),
    **dict.fromkeys(("status", "health", "logs", "audit", "env", "policy show", "jobs", "record"), _READS),
    **dict.fromkeys(("replay", "report"), _READS),
    **dict.fromkeys(("top", "layout advise", "layout get", "targets", "df", "quota show", "find", "help"), _READS),
    **dict.fromkeys(("job list", "job ornament", "deployments list", "deployments show", "guard log"), _READS),
    **dict.fromkeys(
        ("config diff", "config export", "config reference", "config show", "sslo show", "plugins"), _READS
    ),
    **dict.fromkeys((f"stats {name}" for name in ("publish", "show", "subscribe", "windows")), _READS),
    **dict.fromkeys((f"trace {name}" for name in ("export", "show", "windows")), _READS),
    **dict.fromkeys(("place", "place explain", "place show"), _READS),
    **dict.fromkeys(
        (f"plan {name}" for name in ("config", "emit", "explain", "factors", "identity", "learned", "resources")), _OWN
    ),
    **dict.fromkeys((f"plan {name}" for name in ("run", "schema", "similar", "sslo")), _OWN),
    **dict.fromkeys(("stress", "sslo build", "classes add", "classes build"), _OWN),
    **dict.fromkeys(
        (f"interference {name}" for name in ("clients", "collect", "evaluate", "gather", "import", "join")), _OWN
    ),
    **dict.fromkeys((f"interference {name}" for name in ("matrix", "predict", "record", "train", "watch")), _OWN),
    **dict.fromkeys((f"adapt {name}" for name in ("info", "reconstruct", "refactor", "steps")), _OWN),
    **dict.fromkeys((f"simulate {name}" for name in ("report", "run", "sweep", "topology", "tune", "what-if")), _OWN),
    **dict.fromkeys(("bench list", "bench io-variation-figure-9", "bench io-variation-figure-10"), _OWN),
    **dict.fromkeys((f"bench figure-{number}" for number in ("7", "8", "9", "10", "12", "14")), _OWN),
}
"""Commands that change nothing of a store, each with the reason."""
