"""Options of sbatch in a batch script: which words are options, and the values of those that Weir uses."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.batch_script import Header

_FLAGS = frozenset((
    "consolidate-segments", "contiguous", "external", "hold", "ignore-pbs", "no-requeue", "overcommit",
    "oversubscribe", "parsable", "quiet", "reboot", "spread-job", "spread-segments", "stepmgr", "test-only",
    "use-min-nodes", "verbose", "wait",
))  # fmt: skip
"""Options without a value."""
_OPTIONAL = frozenset((
    "exclusive", "get-user-env", "nice", "no-kill", "oom-kill-step", "propagate", "requeue", "resv-ports",
))  # fmt: skip
"""Options whose value stands behind `=`, or not at all."""
_REQUIRED = frozenset((
    "account", "acctg-freq", "array", "batch", "bb", "bbf", "begin", "chdir", "cluster", "cluster-constraint",
    "clusters", "comment", "constraint", "container", "container-id", "context", "core-spec", "cores-per-socket",
    "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot", "dependency", "distribution", "error",
    "exclude", "export", "export-file", "extra", "extra-node-info", "gid", "gpu-bind", "gpu-freq", "gpus",
    "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint", "input", "job-name",
    "kill-on-invalid-dep", "licenses", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu",
    "mem-per-gpu", "mem-update", "mincpus", "network", "nodefile", "nodelist", "nodes", "ntasks", "ntasks-per-core",
    "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "ntasks-per-tres", "open-mode", "output", "partition",
    "power", "prefer", "priority", "profile", "qos", "reservation", "resources", "runtime", "segment", "signal",
    "sockets-per-node", "switches", "tasks-per-node", "thread-spec", "threads-per-core", "time", "time-min", "tmp",
    "tres-bind", "tres-per-task", "uid", "wait-all-nodes", "wckey", "wrap",
))  # fmt: skip
"""Options with a value, which may be the next word."""
_NAMES = _FLAGS | _OPTIONAL | _REQUIRED


def _by_prefix() -> dict[str, list[str]]:
    """Names by each of their beginnings: a script of nothing but options is read in linear time."""
    found: dict[str, list[str]] = {}
    for name in sorted(_NAMES):
        for length in range(len(name) + 1):
            found.setdefault(name[:length], []).append(name)
    return found


_ABBREVIATED = _by_prefix()
_LETTERS = {
    "A": "account", "a": "array", "b": "begin", "D": "chdir", "M": "clusters", "C": "constraint", "S": "core-spec",
    "c": "cpus-per-task", "d": "dependency", "m": "distribution", "e": "error", "x": "exclude",
    "B": "extra-node-info", "G": "gpus", "H": "hold", "i": "input", "J": "job-name", "L": "licenses",
    "k": "no-kill", "F": "nodefile", "w": "nodelist", "N": "nodes", "n": "ntasks", "o": "output", "O": "overcommit",
    "s": "oversubscribe", "p": "partition", "q": "qos", "Q": "quiet", "t": "time", "v": "verbose", "W": "wait",
}  # fmt: skip
"""Options by their letter."""
_ALIASES = {"tasks-per-node": "ntasks-per-node", "cluster": "clusters"}
_COUNT_MAX = (1 << 31) - 1
_COUNT = re.compile(r"\s*\+?(?P<number>[0-9]{1,12})(?P<thousands>[kK]?)(?P<millions>[mM]?)\s*")
_LISTED = re.compile(r"[0-9]{1,9}(?:-[0-9]{1,9})?(?::[0-9]{1,9})?")
_INTEGER = re.compile(r"\s*\+?(?P<number>[0-9]{1,12})")
_TIME = re.compile(r"(?:(?P<days>[0-9]{1,9})-)?(?P<parts>[0-9]{1,9}(?::[0-9]{1,9}){0,2})?")


@dataclass(frozen=True)
class Options:
    """The options that Weir uses, of one component or of a whole job."""

    nodes: int | None = None
    """Least number of nodes; None where the job leaves it to the scheduler."""
    processes: int | None = None
    seconds: float | None = None
    """Time limit; None is unlimited, or the partition's."""


@dataclass(frozen=True)
class _Given:
    """A value, and the line that gives it."""

    place: str
    value: str


def read_options(source: str, header: Header, *, is_accepted: bool = False) -> Options:
    """Read the options of a script; the last one of a name counts, as for sbatch.

    Args:
        source: Name of the script, for messages.
        is_accepted: Whether a scheduler has taken the script, which may know options of plugins and later releases.

    Returns:
        The options, summed over the components of a heterogeneous job, whose longest time counts.

    Raises:
        ProvisioningError: sbatch refuses an option; the error names the line.
    """
    if differing := next((line for line in header.options if line.words.differs and not is_accepted), None):
        raise ProvisioningError(f"{source}:{differing.number}: {differing.words.loss}", hint="quote the value")
    given: dict[str, _Given] = {}
    components = []
    for component in range(max((line.component for line in header.options), default=0) + 1):
        words = [
            _Given(f"{source}:{line.number}", word)
            for line in header.options
            if line.component == component
            for word in line.words.words
        ]
        # A component has its own numbers, and the time of the one before it.
        kept = {name: each for name, each in given.items() if name not in ("nodes", "ntasks", "ntasks-per-node")}
        given = kept
        for name, each in _named(words, is_accepted=is_accepted):
            # sbatch refuses a wrong value where another one follows, too.
            if check := _CHECKS.get(name):
                check(each)
            given[name] = each
        components.append(_valued(given))
    if header.foreign and not is_accepted and "ignore-pbs" not in given:
        raise ProvisioningError(
            f"{source}:{header.foreign}: options of another scheduler are not read",
            hint="write them as `#SBATCH` lines, and add `#SBATCH --ignore-pbs`",
        )
    if len(components) == 1:
        return components[0]
    times = [each.seconds for each in components if each.seconds is not None]
    return Options(
        nodes=sum(each.nodes or 1 for each in components),
        processes=sum(each.processes or each.nodes or 1 for each in components),
        seconds=max(times) if len(times) == len(components) else None,
    )


def _named(words: Iterable[_Given], *, is_accepted: bool) -> Iterator[tuple[str, _Given]]:
    """Options by name, as getopt_long takes them: the value of one may be the next word, in the next line too."""
    rest = iter(words)
    for word in rest:
        text = word.value
        if text.startswith("--") and len(text) > 2:
            name, equals, value = text[2:].partition("=")
            name, is_known = _full(word, name, is_accepted=is_accepted)
            if name in _FLAGS and equals:
                raise _wrong(word, f"--{name} takes no value")
            if not equals and is_known and name in _REQUIRED:
                yield name, _value(word, f"--{name}", rest)
            else:
                yield name, _Given(word.place, value)
        elif text.startswith("-") and len(text) > 1 and text != "--":
            yield from _lettered(word, rest, is_accepted=is_accepted)
        else:
            # Nothing behind `--` is an option.
            stray = word if text != "--" else next(rest, None)
            if stray is not None and not is_accepted:
                raise _wrong(stray, f"{stray.value!r:.80} is no option of sbatch")


def _lettered(word: _Given, rest: Iterator[_Given], *, is_accepted: bool) -> Iterator[tuple[str, _Given]]:
    """Options of one letter, several in a word: `-HN4`."""
    letters = word.value[1:]
    for at, letter in enumerate(letters, 1):
        name = _LETTERS.get(letter)
        if name is None:
            if is_accepted:
                return
            raise _wrong(word, f"sbatch has no option -{letter}")
        if name in _FLAGS:
            yield name, _Given(word.place, "")
            continue
        value = letters[at:]
        yield name, _Given(word.place, value) if value or name in _OPTIONAL else _value(word, f"-{letter}", rest)
        return


def _value(word: _Given, name: str, rest: Iterator[_Given]) -> _Given:
    found = next(rest, None)
    if found is None:
        raise _wrong(word, f"{name} has no value")
    return found


def _full(word: _Given, name: str, *, is_accepted: bool) -> tuple[str, bool]:
    """The name that an abbreviation is of, and whether it is known."""
    candidates = [name] if name in _NAMES else _ABBREVIATED.get(name, [])
    if len(candidates) == 1:
        return _ALIASES.get(candidates[0], candidates[0]), True
    if is_accepted:
        return name, False
    if candidates:
        raise _wrong(word, f"--{name} is short for {', '.join(f'--{each}' for each in candidates[:4])}")
    near = difflib.get_close_matches(name[:40], _NAMES, n=1)
    raise _wrong(word, f"sbatch has no option --{name:.40}" + (f": did you mean --{near[0]}?" if near else ""))


def _valued(given: Mapping[str, _Given]) -> Options:
    nodes = _nodes(given["nodes"]) if "nodes" in given else None
    processes = _tasks(given["ntasks"]) if "ntasks" in given else None
    per_node = _tasks(given["ntasks-per-node"]) if "ntasks-per-node" in given else None
    if processes is None and per_node is not None and nodes is not None:
        processes = per_node * nodes
    elif processes is not None and nodes is not None:
        # sbatch takes no more nodes than there are tasks.
        nodes = min(nodes, processes)
    seconds = _seconds(given["time"]) if "time" in given else None
    return Options(nodes=nodes, processes=processes, seconds=seconds)


def _nodes(given: _Given) -> int:
    """The least number: `4`, `2-8`, `-8`, `1k`, and of later releases `2,4` and `2-8:2`."""
    text = given.value
    listed = text.split(",")
    if ("," in text or ":" in text) and all(_LISTED.fullmatch(each) for each in listed):
        return _in_range(given, "--nodes", min(int(re.split("[-:]", each)[0]) for each in listed))
    least, dash, most = text.partition("-")
    counts = [_count(each) for each in (least, most)]
    if dash and not least.strip():
        counts[0] = 1
    if counts[0] is None or (dash and (counts[1] is None or 0 < counts[1] < counts[0])):
        raise _wrong(given, f"--nodes is {text!r:.80}, not a number from 1")
    return _in_range(given, "--nodes", counts[0])


def _count(text: str) -> int | None:
    found = _COUNT.fullmatch(text)
    if found is None:
        return None
    return int(found["number"]) * (1024 if found["thousands"] else 1) * (1 << 20 if found["millions"] else 1)


def _tasks(given: _Given) -> int:
    found = _INTEGER.fullmatch(given.value)
    return _in_range(given, "the number of tasks", int(found["number"]) if found else 0)


def _in_range(given: _Given, what: str, number: int) -> int:
    if not 1 <= number <= _COUNT_MAX:
        raise _wrong(given, f"{what} is {given.value!r:.80}, not a number from 1")
    return number


def _seconds(given: _Given) -> float | None:
    """A time limit: minutes, minutes:seconds, hours:minutes:seconds, or with `days-` before. 0 is no limit."""
    text = given.value
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return None
    found = _TIME.fullmatch(text)
    if not text or found is None:
        raise _wrong(given, f"--time is {text!r:.80}, not minutes, [days-]hours:minutes:seconds or days-hours")
    parts = [int(each) for each in (found["parts"] or "0").split(":")]
    units = [3600, 60, 1]
    if found["days"] is None and len(parts) < len(units):
        units = units[1:]
    seconds = 86_400.0 * int(found["days"] or 0) + sum(part * unit for part, unit in zip(parts, units, strict=False))
    return seconds or None


_CHECKS: Mapping[str, Callable[[_Given], object]] = {
    "nodes": _nodes,
    "ntasks": _tasks,
    "ntasks-per-node": _tasks,
    "time": _seconds,
}
"""The values that are read, by option."""


def _wrong(given: _Given, fault: str) -> ProvisioningError:
    return ProvisioningError(f"{given.place}: {fault}", hint="see `man sbatch`")
