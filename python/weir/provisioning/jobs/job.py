"""The job that asks for storage: from a Flux jobspec (RFC 14, RFC 25), or from a batch script of Slurm."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs import directives
from weir.provisioning.jobs.batch_script import Header, decoded, is_script, read_header
from weir.provisioning.jobs.sbatch_options import read_options

DOCUMENT_BYTES_MAX = 1 << 20
"""A jobspec or script above this is refused: none that people or schedulers write is so large."""
NESTING_MAX = 64
"""A jobspec that is nested deeper is refused: each resource nests by two."""
_COUNT_MAX = 1 << 32
_SECONDS_MAX = 1e12
"""A longer time limit is a mistake: this one is 30,000 years."""


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as its scheduler knows it."""

    version: int = 1
    """Version of this document."""
    nodes: int | None = None
    """Nodes; None where the job leaves them to the scheduler."""
    processes: int | None = None
    """Tasks of the job; None where the document does not tell."""
    seconds: float | None = None
    """Time limit."""
    command: tuple[str, ...] = ()
    """The program and its arguments, as far as the document names one."""
    hints: dict[str, str] = {}
    """Hints for Weir: `attributes.user.weir` of a jobspec, `#WEIR` lines of a script. Several values are lines."""


def read_jobspec(path: Path) -> dict[str, Any]:
    """Read a jobspec as it is written.

    Args:
        path: The file, in YAML or JSON.

    Returns:
        The document.

    Raises:
        ProvisioningError: The file is no jobspec; the error names the place.
    """
    text = _text(path, _read(path))
    of_jobspec(path, text)
    document: dict[str, Any] = _parsed(path, text)
    return document


def read_job(path: Path) -> Job:
    """Read a jobspec, in YAML or JSON, or a batch script, which begins with `#!`.

    Raises:
        ProvisioningError: The file is neither, or breaks the rules of its kind; the error names the place.
    """
    content = _read(path)
    text = decoded(content)
    return of_script(path, text) if is_script(text) else of_jobspec(path, _text(path, content))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        raise ProvisioningError(f"{path}: {error.strerror}") from error
    if len(content) > DOCUMENT_BYTES_MAX:
        raise ProvisioningError(
            f"{path} is larger than {DOCUMENT_BYTES_MAX} bytes", hint="is it a jobspec or a script?"
        )
    return content


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ProvisioningError(f"{path} is not text: {error.reason}", hint="is it a jobspec or a script?") from error


def of_jobspec(path: Path, text: str) -> Job:
    """Take the job from a jobspec of Flux.

    Args:
        path: The file, for messages.
        text: YAML or JSON.

    Returns:
        The job. Counts that are ranges count with their least.

    Raises:
        ProvisioningError: The text is no jobspec.
    """
    document = _parsed(path, text)
    if not isinstance(document, dict):
        raise _wrong(path, "it is no mapping")
    if document.get("version") not in (1, 999):
        raise _wrong(path, f"version is {document.get('version')!r}, and 1 (RFC 25) and 999 (RFC 14) are known")
    resources = _sequence(path, document, "resources")
    tasks = _sequence(path, document, "tasks")
    found = _Resources()
    for each in resources:
        _count_resources(path, each, 1, found)
    attributes = document.get("attributes") or {}
    system = _mapping(path, attributes, "system")
    hints = {**_hints(path, system), **_hints(path, _mapping(path, attributes, "user"))}
    duration = system.get("duration")
    is_number = isinstance(duration, int | float) and not isinstance(duration, bool)
    if duration is not None and not (is_number and 0 <= duration <= _SECONDS_MAX):
        raise _wrong(path, f"attributes.system.duration is {duration!r:.80}, not a number of seconds")
    return Job(
        nodes=found.types.get("node"),
        processes=sum(_task_count(path, each, found) for each in tasks),
        seconds=float(duration) if duration else None,
        command=_command(path, tasks[0]),
        hints=hints,
    )


def _parsed(path: Path, text: str) -> Any:
    import yaml

    # The library's C parser is some ten times faster, but it nests without a bound where it makes values.
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > NESTING_MAX:
                raise _wrong(path, f"it is nested more than {NESTING_MAX} deep")
            # Aliases can make a small file a huge document, and a jobspec needs none.
            if isinstance(event, yaml.AliasEvent):
                raise _wrong(path, "it has aliases (`*name`)")
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # Numbers and dates that Python does not hold are no YAML errors.
        raise _wrong(path, " ".join(str(error).split())) from error


@dataclass
class _Resources:
    """Resources of a jobspec, counted."""

    types: dict[str, int] = field(default_factory=dict)
    """By type, such as `node` and `core`."""
    slots: dict[str, int] = field(default_factory=dict)
    """Slots by label."""


def _count_resources(path: Path, resource: Any, above: int, found: _Resources) -> None:
    if not isinstance(resource, dict) or not isinstance(resource.get("type"), str):
        raise _wrong(path, f"a resource is {resource!r:.80}, not a mapping with a type")
    kind = resource["type"]
    total = above * _count(path, resource)
    if total > _COUNT_MAX:
        raise _wrong(path, f"it asks for more than {_COUNT_MAX} of {kind}")
    found.types[kind] = found.types.get(kind, 0) + total
    if kind == "slot":
        label = str(resource.get("label", "default"))
        found.slots[label] = found.slots.get(label, 0) + total
    below = resource.get("with") or []
    if not isinstance(below, list):
        raise _wrong(path, f"`with` of {kind} is no list")
    for each in below:
        _count_resources(path, each, total, found)


def _count(path: Path, resource: Mapping[str, Any]) -> int:
    count = resource.get("count", 1)
    if isinstance(count, dict):
        count = count.get("min")
    # RFC 14 has idsets and ranges as text, such as `2-8`, `4+` and `2-8:2:*`.
    if isinstance(count, str) and (found := re.match(r"\d{1,12}", count)):
        count = int(found[0])
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise _wrong(path, f"count of {resource.get('type')} is {resource.get('count')!r}, not a number from 1")
    return count


def _task_count(path: Path, task: Any, found: _Resources) -> int:
    if not isinstance(task, dict):
        raise _wrong(path, f"a task is {task!r:.80}, not a mapping")
    count = task.get("count") or {"per_slot": 1}
    if not isinstance(count, dict) or len(count) != 1:
        raise _wrong(path, f"count of a task is {count!r:.80}, not one of per_slot, per_resource and total")
    ((kind, number),) = count.items()
    places = 1
    if kind == "per_slot":
        label = str(task.get("slot", "default"))
        if label not in found.slots:
            raise _wrong(path, f"a task runs in slot {label!r}, which no resource has")
        places = found.slots[label]
    elif kind == "per_resource" and isinstance(number, dict):
        if number.get("type") not in found.types:
            raise _wrong(path, f"a task runs on each {number.get('type')!r}, which no resource is")
        places, number = found.types[number["type"]], number.get("count")
    elif kind != "total":
        raise _wrong(path, f"count of a task is by {kind!r}, not by per_slot, per_resource or total")
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _COUNT_MAX:
        raise _wrong(path, f"count.{kind} of a task is {number!r:.80}, not a number from 1")
    return number * places


def _command(path: Path, task: Any) -> tuple[str, ...]:
    command = task.get("command")
    if isinstance(command, str):
        return tuple(shlex.split(command))
    if not isinstance(command, list) or not all(isinstance(each, str) for each in command):
        raise _wrong(path, f"command of a task is {command!r:.80}, not a list of words")
    return tuple(command)


def _hints(path: Path, attributes: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(name): "\n".join(map(str, each)) if isinstance(each, list) else str(each)
        for name, each in _mapping(path, attributes, "weir").items()
    }


def _sequence(path: Path, document: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = document.get(name)
    if not isinstance(found, list) or not found:
        raise _wrong(path, f"{name} is {'missing' if found is None else 'no list with an entry'}")
    return found


def _mapping(path: Path, document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name) if isinstance(document, dict) else None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _wrong(path, f"{name} is no mapping")
    return found


def of_script(path: Path, text: str) -> Job:
    """Take the job from a batch script: its `#SBATCH` lines, and hints in `#WEIR` lines as `name=value`.

    Args:
        path: The file, for messages.
        text: The script.

    Returns:
        The job. Its command is the first line that is no comment.

    Raises:
        ProvisioningError: An option or hint cannot be read; the error names the line.
    """
    header = read_header(str(path), text)
    # The strict reader goes first: its errors name the line, and suggest the directive that was meant.
    directives.of_header(str(path), header)
    return of_header(path, header)


def of_header(path: Path, header: Header, *, is_accepted: bool = False) -> Job:
    """Take the job from the header of a batch script.

    Args:
        path: The file, for messages.
        is_accepted: Whether a scheduler has taken the script, which may know options of plugins and later releases.

    Returns:
        The job. Its command is the first line that is no comment.

    Raises:
        ProvisioningError: An option or hint cannot be read; the error names the line.
    """
    options = read_options(str(path), header, is_accepted=is_accepted)
    try:
        command = tuple(shlex.split(header.command))
    except ValueError:
        # A command of several lines has its other quotation mark below.
        command = (header.command,)
    return Job(
        nodes=options.nodes,
        processes=options.processes,
        seconds=options.seconds,
        command=command,
        hints=directives.hints_of(str(path), header),
    )


def _wrong(path: Path, fault: str) -> ProvisioningError:
    return ProvisioningError(
        f"{path} is no jobspec of Flux: {fault}", hint="RFC 25 describes jobspecs; a batch script begins with `#!`"
    )
