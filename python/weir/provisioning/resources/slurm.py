"""The resources of a cluster as Slurm knows them: nodes, their temporary disks and memory, and when they are free.

Slurm from 23.02 on answers `scontrol show node --json`; 22.05, as in Debian 12, answers `sinfo --json` alike. Numbers
of newer versions are objects of `number`, `set` and `infinite`, and states are lists.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.resources.local import MEMORY_PART, UNKNOWN
from weir.provisioning.resources.model import Device, Node, Resources, checked

ANSWER_SECONDS_MAX = 60.0
"""Longest time for an answer of Slurm, whose own limit is `MessageTimeout`, 10 s, for each of its tries."""
KINDS = ("pmem", "nvme", "ssd", "hdd")
"""Classes of devices that a site's features of nodes may name."""
ENDLESS_SECONDS = 1e9
"""Time until a node is free whose jobs have no end."""
_CORES_MAX = 1 << 20
_MEBIBYTE = 1 << 20
_WORKING = frozenset(("idle", "allocated", "mixed", "planned", "completing"))
_LEFT_OUT = frozenset(
    (
        *("drain", "draining", "drained", "down", "fail", "failing", "maint", "maintenance", "not_responding"),
        *("reboot", "reboot_requested", "reboot_issued", "powering_down", "powered_down", "power_down", "reserved"),
        *("invalid_reg", "future", "unknown", "error", "blocked", "perfctrs", "dynamic_future"),
    )
)
"""Flags of nodes that take no new work (slurm's `sinfo`, NODE STATE CODES)."""
_HINT = "is `scontrol ping` answered here? else write a resource model and give it with `resources`"


def slurm_resources(now: float) -> Resources:
    """Ask Slurm for its nodes.

    Args:
        now: Time in seconds since 1970.

    Returns:
        The nodes: their temporary disk, by the class that a feature names, and their memory.

    Raises:
        ProvisioningError: Slurm does not answer, or answers in a form that is not known.
    """
    try:
        nodes = _ask("scontrol", "show", "node", "--json")
    except ProvisioningError:
        nodes = _ask("sinfo", "--json")
    return of_documents(nodes, _ask("squeue", "--json"), folder=_temporary_folder(), now=now)


def of_documents(nodes: bytes, jobs: bytes, *, folder: str, now: float) -> Resources:
    """Take the nodes from Slurm's answers.

    Args:
        nodes: Answer of `scontrol show node --json`, or of `sinfo --json` of Slurm 22.05.
        jobs: Answer of `squeue --json`.
        folder: Folder of the nodes' temporary disks, `TmpFS` of slurm.conf.
        now: Time in seconds since 1970.

    Raises:
        ProvisioningError: An answer has another form.
    """
    ends = _ends(_entries(jobs, "jobs"), now)
    found = []
    for each in _entries(nodes, "nodes"):
        name = each.get("name") or each.get("hostname")
        if not isinstance(name, str) or not name:
            raise ProvisioningError("Slurm's answer has a node without a name", hint=_HINT)
        states = _states(each)
        is_held = "allocated" in states
        found.append(
            Node(
                name=name,
                devices=tuple(_devices(each, folder)),
                cores=int(min(_number(each.get("cpus")), _CORES_MAX)),
                usable=bool(states & _WORKING) and not states & _LEFT_OUT,
                free_in_seconds=ends.get(name, ENDLESS_SECONDS) if is_held else 0.0,
            )
        )
    return checked("Slurm's answer", Resources(source="Slurm", nodes=tuple(found)))


def with_states(site: Resources, seen: Resources) -> Resources:
    """Join a site's resource model with the states of its nodes in Slurm.

    Args:
        site: The model, whose devices count.
        seen: The nodes as Slurm has them.

    Returns:
        The model with Slurm's states; nodes that Slurm does not know stay as they are.
    """
    import msgspec

    by_name = {each.name: each for each in seen.nodes}
    nodes = tuple(
        each
        if (other := by_name.get(each.name)) is None
        else msgspec.structs.replace(
            each, usable=each.usable and other.usable, free_in_seconds=max(each.free_in_seconds, other.free_in_seconds)
        )
        for each in site.nodes
    )
    return msgspec.structs.replace(site, nodes=nodes)


def _ask(*command: str) -> bytes:
    try:
        answer = subprocess.run(command, capture_output=True, timeout=ANSWER_SECONDS_MAX, check=False)
    except FileNotFoundError:
        raise ProvisioningError(f"{command[0]} is not installed", hint=_HINT) from None
    except subprocess.TimeoutExpired:
        raise ProvisioningError(
            f"`{' '.join(command)}` has not answered for {ANSWER_SECONDS_MAX:.0f} s", hint=_HINT
        ) from None
    if answer.returncode != 0:
        said = answer.stderr.decode(errors="replace").strip().splitlines()
        raise ProvisioningError(f"`{' '.join(command)}` failed: {(said or ['it says nothing'])[0]:.200}", hint=_HINT)
    return answer.stdout


def _temporary_folder() -> str:
    for line in _ask("scontrol", "show", "config").decode(errors="replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "TmpFS":
            return value.strip()
    return "/tmp"


def _entries(text: bytes, name: str) -> Sequence[Mapping[str, Any]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProvisioningError(f"Slurm's answer about its {name} is no JSON: {error}", hint=_HINT) from error
    found = document.get(name) if isinstance(document, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ProvisioningError(f"Slurm's answer has no list of {name}", hint=_HINT)
    return found


def _number(value: Any) -> float:
    """A number of either form; 0 where none is set."""
    if isinstance(value, dict):
        if value.get("infinite"):
            return float("inf")
        value = value.get("number") if value.get("set", True) else 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return max(0.0, float(value))


def _words(value: Any) -> list[str]:
    """Words of a list, or of a text with commas or plus signs between them."""
    if isinstance(value, str):
        value = value.replace("+", ",").split(",")
    return [str(each).strip().lower() for each in value] if isinstance(value, list) else []


def _states(node: Mapping[str, Any]) -> set[str]:
    return {each.rstrip("*~#!%$@^-") for each in (*_words(node.get("state")), *_words(node.get("state_flags")))}


def _devices(node: Mapping[str, Any], folder: str) -> Iterator[Device]:
    disk = _number(node.get("temporary_disk"))
    if 0 < disk < float("inf"):
        features = set(_words(node.get("active_features")) or _words(node.get("features")))
        kind = next((each for each in KINDS if each in features), UNKNOWN)
        yield Device(path=folder, kind=kind, capacity_bytes=min(int(disk) * _MEBIBYTE, 1 << 62))
    whole = _number(node.get("real_memory"))
    if 0 < whole < float("inf"):
        # Slurm's free memory is no measure: the kernel's cache is not in it.
        left = max(0.0, whole - _number(node.get("alloc_memory")))
        yield Device(
            kind="memory",
            capacity_bytes=min(int(whole) * _MEBIBYTE, 1 << 62),
            free_bytes=min(int(left * MEMORY_PART) * _MEBIBYTE, 1 << 62),
        )


def _ends(jobs: Sequence[Mapping[str, Any]], now: float) -> dict[str, float]:
    """Seconds until the last job of each node ends."""
    ends: dict[str, float] = {}
    for job in jobs:
        if not {"running", "completing", "suspended"} & set(_words(job.get("job_state"))):
            continue
        end = _number(job.get("end_time"))
        left = min(max(end - now, 0.0), ENDLESS_SECONDS) if 0 < end < float("inf") else ENDLESS_SECONDS
        for name in _nodes_of(job):
            ends[name] = max(ends.get(name, 0.0), left)
    return ends


def _nodes_of(job: Mapping[str, Any]) -> Iterator[str]:
    """The nodes of a job: older versions list `allocated_nodes`, newer ones `nodes.allocation`."""
    resources = job.get("job_resources")
    if not isinstance(resources, dict):
        return
    found = resources.get("allocated_nodes")
    if found is None and isinstance(resources.get("nodes"), dict):
        found = resources["nodes"].get("allocation")
    for each in found if isinstance(found, list) else ():
        name = each.get("nodename", each.get("name")) if isinstance(each, dict) else None
        if isinstance(name, str):
            yield name
