"""Whole answers of the control API; a test names only the fields that differ."""

from typing import Any

from weir.store.answers import Job, Status, Target
from weir.store.decoding import decode

COST = {"fixed_seconds": 0.0, "bytes_per_second": None}
DEVICE: dict[str, Any] = {
    "load": 0.0,
    "queued": 0,
    "latency_seconds": 0.0,
    "busy_seconds": 0.0,
    "cost": {"read": COST, "write": COST},
    "speed": None,
}
TARGET: dict[str, Any] = {
    "target": "0.0",
    "backend": "ram",
    "capacity_bytes": 1 << 30,
    "used_bytes": 0,
    "trouble": None,
    "absent": False,
    "failing_since": None,
    "device_failures": 0,
    "full_since": None,
    "keeps": "nothing",
    "state": "open",
    "class": "ram",
    "speed_ratio": 1.0,
    "disk": None,
    "disk_free_bytes": None,
    "achieved_bytes_per_second": None,
    "expected_bytes_per_second": None,
    "slow_since": None,
    "backlog_seconds": 0.0,
    **DEVICE,
}
STATUS: dict[str, Any] = {
    "server": 0,
    "version": "0",
    "boot": "1",
    "state": "open",
    "uptime_seconds": 1.0,
    "clock_seconds": 1_800_000_000.0,
    "policy": "size-fair",
    "scheduler": "virtual-time",
    "allocator": "balanced",
    "connections": 0,
    "outstanding": 0,
    "held_bytes": 0,
    "kept_bytes": 1024,
    "kept_bytes_max": 1 << 30,
    "inodes": 1,
    "unpublished_bytes": 0,
    "durable": False,
    "identity": None,
    "journal": None,
    "full": False,
    "load": {"processors": None, "memory": None, "network": None},
    "targets": [],
    "servers": 1,
    "target_numbers": 0,
    "taken_ports": [],
    "leaving": [],
    "metadata": DEVICE,
    "placements": {"stripes": {}, "targets": {}, "refused": {}},
    "peers": [],
    "reports_ignored": 0,
}
JOB: dict[str, Any] = {
    "job": "a",
    "id": "1",
    "user": "u",
    "group": "g",
    "uid": 1,
    "nodes": 4,
    "priority": 1,
    "active": True,
    "connections": 3,
    "operations": 10,
    "bytes_read": 5,
    "bytes_written": 6,
    "charged_seconds": 1.1,
    "device_seconds": 1.0,
    "queue_wait_seconds_median": 0.1,
    "queue_wait_seconds_p90": 0.15,
    "queue_wait_seconds_p99": 0.2,
    "queue_wait_seconds_max": 0.3,
    "queue_wait_seconds_total": 2.0,
    "waited_for": [
        {"job": "b", "user": "v", "uid": 1, "seconds": 3.0},
        {"job": "c", "user": "v", "uid": 1, "seconds": 1.0},
    ],
    "waited_for_others_seconds": 0.5,
    "devices": [{"device": "0.0", "share_owed": 0.8, "share_owed_for_seconds": 2.0, "device_seconds": 1.0}],
    "contended_seconds": 10.0,
    "owing_seconds": 10.0,
    "owed_seconds": 8.0,
    "received_seconds": 7.0,
    "share_owed": 0.8,
    "share_received": 0.7,
    "last_seen_seconds": 3.0,
}


def job(**different: Any) -> Job:
    return decode(Job, {**JOB, **different}, is_exact=True)


def target(**different: Any) -> Target:
    return decode(Target, {**TARGET, **different}, is_exact=True)


def status(**different: Any) -> Status:
    return decode(Status, {**STATUS, **different}, is_exact=True)
