"""The knowledge of a run before it starts: its arguments as numbers and texts, and its ranks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from weir.tracing.records import Run

RANKS = "ranks"
"""Name of the number of ranks among the numbers of a context. No option has this name: options begin with `-` or a
digit."""

_NUMBER = re.compile(r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)([kKmMgGtT]?)(?:i?[bB])?")
_GLUED = re.compile(r"(-[A-Za-z])(\d.*)")
_KEY = re.compile(r"[A-Za-z_][\w.\-]*")
_PREFIXES = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python whose next word is a value and no script (python(1))."""
_TITLE_MAX = 40
_INTERPRETER = re.compile(r"(python|perl|ruby|Rscript|julia|bash|sh)[\d.]*")


@dataclass(frozen=True, slots=True)
class NextRun:
    """A run that was not traced yet."""

    program: str
    """Name of the executable without its folder."""
    arguments: tuple[str, ...]
    """Arguments after the program's name."""
    ranks: int
    """Size of the communicator; 1 without MPI."""
    problem_size: float = 1.0
    """Size of the problem as a multiple of the last run's, if no argument states it."""
    steps: int | None = None
    """Number of steps that write, if it is known and no argument states it."""
    places: tuple[str, ...] = ()
    """Mount points and prefixes of stores. No run chose their names, so no number in them means anything."""

    @classmethod
    def like(cls, run: Run, *, places: tuple[str, ...] = ()) -> "NextRun":
        """Take the knowledge of a run before it started.

        Args:
            places: Mount points and prefixes of stores.
        """
        return cls(run.program, run.arguments, run.ranks, places=places)

    def context(self) -> "Context":
        """Read the arguments.

        Returns:
            The circumstances of the run.
        """
        context = context_of(self.arguments, ranks=self.ranks, places=self.places)
        return replace(context, problem_size=self.problem_size)


@dataclass(frozen=True, slots=True)
class Context:
    """A run's circumstances, as the laws of counts and sizes see them."""

    numbers: dict[str, float]
    """`RANKS`, and every option or position that holds a number; sizes in bytes."""
    texts: dict[str, str]
    """Every option or position that holds no number."""
    flags: frozenset[str]
    """The options of the call."""
    problem_size: float = 1.0
    """Size of the problem as a multiple of the last run's."""
    places: tuple[str, ...] = ()
    """Mount points and prefixes of stores."""

    @property
    def ranks(self) -> int:
        """Size of the communicator."""
        return int(self.numbers[RANKS])

    def at(self, ranks: int) -> "Context":
        """Change the number of ranks.

        Args:
            ranks: Size of the communicator.

        Returns:
            The same circumstances with that many ranks.
        """
        return replace(self, numbers={**self.numbers, RANKS: float(ranks)})

    def place_length(self, path: str) -> int:
        """Find how much of a path is the place of a store.

        Args:
            path: An absolute path.

        Returns:
            Length of the mount point or prefix above the path, in characters; 0 where there is none.
        """
        return max((len(place) for place in self.places if f"{path}/".startswith(f"{place}/")), default=0)


def context_of(arguments: Sequence[str], *, ranks: int, places: tuple[str, ...] = ()) -> Context:
    """Read arguments as options and positions: `-b 1m`, `-b1m`, `--block=1m`, `block=1m`, `1m`.

    The parser cannot know whether an option takes the next word, so a word behind an option counts as its value.

    Args:
        arguments: Arguments after the program's name.
        ranks: Size of the communicator.
        places: Mount points and prefixes of stores.

    Returns:
        The circumstances of the run.
    """
    values: dict[str, str] = {}
    flags: set[str] = set()
    position = 0
    option: str | None = None
    for word in arguments:
        key, equals, value = word.partition("=")
        glued = _GLUED.fullmatch(word)
        if equals and (key.startswith("-") or _KEY.fullmatch(key)):
            values[key] = value
            flags.add(key)
            option = None
        elif glued:
            values[glued[1]] = glued[2]
            flags.add(glued[1])
            option = None
        elif word.startswith("-") and number(word) is None:
            flags.add(word)
            option = word
        else:
            if option is not None:
                values[option] = word
                option = None
            else:
                values[str(position)] = word
                position += 1
    numbers = {RANKS: float(ranks)}
    texts = {}
    for key, value in values.items():
        found = number(value)
        if found is None:
            texts[key] = value
        else:
            numbers[key] = found
    return Context(numbers, texts, frozenset(flags), places=places)


def number(text: str) -> float | None:
    """Read a number with a binary prefix: `1048576`, `1m` or `2.5`.

    Returns:
        The number; None where the text is none.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    try:
        value = float(match[1]) * (1 << _PREFIXES[match[2].lower()])
    except OverflowError:
        return None
    return value if abs(value) < 1e300 else None


def identity(program: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Find the key that runs of one program share.

    Args:
        program: Name of the executable.
        arguments: Arguments after it.

    Returns:
        The program's name, and for an interpreter also the script's or the module's name.
    """
    if not _INTERPRETER.fullmatch(program):
        return (program,)
    is_value = False
    for index, word in enumerate(arguments):
        if is_value:
            is_value = False
        elif word == "-m" and index + 1 < len(arguments):
            return (program, f"-m {arguments[index + 1]}")
        elif word == "-c" and index + 1 < len(arguments):
            return (program, " ".join(_without_numbers(arguments[index + 1 :])))
        elif word in _OPTIONS_WITH_VALUE:
            is_value = True
        elif not word.startswith("-"):
            return (program, word.rsplit("/", 1)[-1])
    return (program,)


def title(program: str, arguments: Sequence[str]) -> str:
    """Name a program for people: an interpreter with its script.

    Args:
        program: Name of the executable.
        arguments: Arguments after it.

    Returns:
        The name; the text of `-c` is cut.
    """
    words = " ".join(identity(program, arguments))
    return words if len(words) <= _TITLE_MAX else words[: _TITLE_MAX - 1] + "…"


def _without_numbers(words: Sequence[str]) -> list[str]:
    return [re.sub(r"\d+", "#", word) for word in words]
