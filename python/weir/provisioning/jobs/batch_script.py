"""The header of a batch script, by the rules of sbatch: lines that it reads options in, and the words of each.

The rules are those of `src/sbatch/opt.c` of Slurm 22.05 to 25.11, and generated scripts are compared with sbatch. The
planner, `weir job` and Slurm's plugin all read scripts here.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace

from weir.provisioning.errors import ProvisioningError

DIRECTIVE = "#WEIR"
"""Begin of a line with directives."""
OPTIONS = ("#SBATCH", "#SLURM")
"""Begins of a line with options of sbatch."""
LINE_CHARACTERS_MAX = 16 << 10
"""Longest line of options or directives: four paths of Linux."""
HEADER_BYTES_MAX = 64 << 10
"""A script with more above its first command is refused: words take up to 1 ms a kilobyte. Slurm's plugin sends no
more than this and a command, so a script that was cut is refused here, too."""
COMMAND_CHARACTERS_MAX = 16 << 10
"""More of the first command is not kept: it only tells jobs apart."""
_BLANKS = " \t\v\f\r"
"""Characters that separate words: C's, and not Unicode's. A line ends at `\\n` alone."""
_SEPARATOR = re.compile(rf"(?:hetjob|packjob)(?![^{_BLANKS}])", re.IGNORECASE)
_PLAIN = re.compile(rf"[^{_BLANKS}\\\\\"'#]+")
"""Letters of a word that stand for themselves."""
_COMMAND = re.compile(rf"^[{_BLANKS}]*[^#\n{_BLANKS}]", re.MULTILINE)
"""The begin of the first line that is neither blank nor a comment."""
_NEAR_DIRECTIVE = re.compile(r"\s+#WEIR\b|#\s*weir\s+\w+=", re.IGNORECASE)
"""A comment that sbatch would not read, though its writer meant directives."""
_INVISIBLE = ("Cc", "Cf", "Zl", "Zp", "Zs")
"""Categories of characters that nobody sees, such as a byte order mark."""
_REPLACED = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Words:
    """The words of a line."""

    words: tuple[str, ...]
    loss: str = ""
    """The part of the line that sbatch drops without a warning, or that its releases read differently; may be empty."""
    differs: bool = False
    """Whether releases of sbatch read the line differently."""
    end: int = 0
    """The position at which the words end and a comment may begin."""


@dataclass(frozen=True)
class Line:
    """A line of options or directives."""

    number: int
    """Number in the script, from 1."""
    words: Words
    component: int = 0
    """Component of a heterogeneous job."""


@dataclass(frozen=True)
class Header:
    """The lines above the first command, and that command."""

    options: tuple[Line, ...] = ()
    directives: tuple[Line, ...] = ()
    command: str = ""
    foreign: int = 0
    """Number of the first line of options of PBS or LSF, which some releases of sbatch translate; 0 without one."""


def is_script(text: str) -> bool:
    """Decide whether a text is meant as a batch script, and not as a jobspec.

    Returns:
        Whether its first characters that one sees are `#!`.
    """
    return text[:16].lstrip("\ufeff \t\r\n").startswith("#!")


def decoded(content: bytes) -> str:
    """Decode a script as a text in which directives have every byte of theirs, or are refused.

    Args:
        content: The bytes of the script, in any encoding that has ASCII.

    Returns:
        The text; bytes that are no UTF-8 are U+FFFD, which no directive may have.
    """
    return content.decode(errors="replace")


def read_header(source: str, text: str) -> Header:
    """Read the header of a batch script.

    Args:
        source: Name of the script, for messages.
        text: The script.

    Raises:
        ProvisioningError: sbatch refuses the script, or would drop lines that were meant as directives; the error
            names the line.
    """
    _check_whole(source, text)
    head, command, number = _parted(source, text)
    _check_command(source, command, number)
    options: list[Line] = []
    directives: list[tuple[int, str, int]] = []
    component = foreign = 0
    for at, line in enumerate(head.split("\n"), 1):
        if not line:
            continue
        magic = next((each for each in (*OPTIONS, DIRECTIVE) if line.startswith(each)), None)
        if magic is not None and len(line) > LINE_CHARACTERS_MAX:
            raise ProvisioningError(
                f"{source}:{at}: the line has more than {LINE_CHARACTERS_MAX} characters",
                hint="write each directive in a line of its own",
            )
        if magic == DIRECTIVE:
            directives.append((at, _rest(f"{source}:{at}", line), component))
        elif magic is not None:
            rest = line.removeprefix(magic).lstrip(_BLANKS)
            component += _SEPARATOR.match(rest) is not None
            options.append(Line(at, split(f"{source}:{at}", rest), component))
        elif _NEAR_DIRECTIVE.match(line):
            raise ProvisioningError(
                f"{source}:{at}: `{line.strip():.40}` is no line of directives",
                hint=f"a line begins with `{DIRECTIVE}`",
            )
        elif line.startswith(("#PBS", "#BSUB")):
            foreign = foreign or at
    lines = tuple(_continued(source, directives))
    return Header(tuple(options), lines, command[:COMMAND_CHARACTERS_MAX], foreign)


def _check_whole(source: str, text: str) -> None:
    if not text.startswith("#!"):
        raise ProvisioningError(
            f"{source}:1: the script does not begin with `#!`, and sbatch takes no other",
            hint="remove what stands before `#!`, a byte order mark too",
        )
    if "\r\n" in text:
        number = text.count("\n", 0, text.index("\r\n")) + 1
        raise ProvisioningError(
            f"{source}:{number}: the line ends as those of DOS, and sbatch takes no such script",
            hint=r"`sed -i 's/\r$//' SCRIPT` mends it",
        )
    if "\0" in text:
        number = text.count("\n", 0, text.index("\0")) + 1
        raise ProvisioningError(
            f"{source}:{number}: the line has a NUL, and Slurm takes no such script", hint="remove it"
        )


def _parted(source: str, text: str) -> tuple[str, str, int]:
    """The lines above the first command, that command, and its number."""
    found = _COMMAND.search(text, 0, HEADER_BYTES_MAX)
    begin = found.start() if found else len(text)
    if len(text[: min(begin, HEADER_BYTES_MAX + 1)].encode()) > HEADER_BYTES_MAX:
        raise ProvisioningError(
            f"{source}: the script has more than {HEADER_BYTES_MAX} bytes above its first command",
            hint="are these lines data? directives stand in few lines",
        )
    if found is None:
        return text, "", 0
    line, _, _ = text[begin : begin + COMMAND_CHARACTERS_MAX + 1].partition("\n")
    return text[:begin], line, text.count("\n", 0, begin) + 1


def _check_command(source: str, command: str, number: int) -> None:
    """A line that looks empty or like a comment, and is a command for sbatch, hides all lines below it."""
    first = command[:1]
    if first and unicodedata.category(first) in _INVISIBLE and first not in _BLANKS:
        raise ProvisioningError(
            f"{source}:{number}: the line begins with {first!a}, which nobody sees: for sbatch it is a command, "
            "below which it reads no options",
            hint="remove this character",
        )


def _continued(source: str, lines: list[tuple[int, str, int]]) -> Iterator[Line]:
    """Lines of directives, each with those that go on from it behind a backslash."""
    pending, first, before, joined = "", 0, 0, 0
    for number, text, component in [*lines, (0, "", 0)]:
        if pending and number != before + 1:
            raise ProvisioningError(
                f"{source}:{first}: the line ends with a backslash, and none goes on from it",
                hint=f"the next line has to begin with `{DIRECTIVE}`, or remove the backslash",
            )
        if number == 0:
            return
        first, before, joined = first if pending else number, number, len(pending)
        pending += text
        if len(pending) > LINE_CHARACTERS_MAX:
            raise ProvisioningError(
                f"{source}:{first}: with its continuations the line has more than {LINE_CHARACTERS_MAX} characters",
                hint="write each directive in a line of its own",
            )
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        yield Line(first, _checked(f"{source}:{first}", pending, joined), component)
        pending = ""


def _rest(place: str, line: str) -> str:
    """A line of directives behind its first word."""
    rest = line.removeprefix(DIRECTIVE)
    if rest and rest[0] not in _BLANKS:
        raise ProvisioningError(
            f"{place}: `{line.split()[0]:.40}` is no directive", hint=f"write `{DIRECTIVE} name=value`"
        )
    if _REPLACED in rest:
        raise ProvisioningError(f"{place}: the line is not UTF-8", hint="names of other encodings cannot be staged")
    return rest


def _checked(place: str, text: str, joined: int) -> Words:
    """The words of directives, of which nothing is dropped; the last line begins at `joined`."""
    found = split(place, text)
    if found.end < joined:
        raise ProvisioningError(
            f"{place}: a comment ends with a backslash, which would make the next line a part of it",
            hint="remove the backslash",
        )
    if found.loss:
        raise ProvisioningError(f"{place}: {found.loss}", hint='quote the value, as in `stage_out="results:/out#7"`')
    return found


def split(place: str, text: str) -> Words:
    """Split the rest of a line into words as sbatch does.

    Args:
        place: Name and line of the script, for messages.
        text: The line behind its first word.

    Raises:
        ProvisioningError: sbatch refuses the line.
    """
    words: list[str] = []
    at, loss, differs = 0, "", False
    while True:
        while at < len(text) and text[at] in _BLANKS:
            at += 1
        found = Words((), loss, differs, at)
        if at == len(text):
            return replace(found, words=tuple(words))
        if separator := _SEPARATOR.match(text, at):
            return replace(_dropping(found, text[separator.end() :], f"`{separator[0]}`"), words=tuple(words))
        if text[at] == ":":
            fault = loss or "a word begins with `:`"
            raise ProvisioningError(f"{place}: {fault}", hint="write name and value without a blank")
        word = _word(place, text, at, loss)
        loss, differs = loss or word.loss, differs or word.differs
        if not word.text:
            found = Words(tuple(words), loss, differs, at)
            return found if text[at] == "#" else _dropping(found, text[word.end :], "an empty word")
        words.append(word.text)
        at = word.end


def _dropping(found: Words, behind: str, what: str) -> Words:
    behind = behind.strip(_BLANKS)
    return replace(found, loss=found.loss or f"sbatch drops `{behind:.40}` behind {what}") if behind else found


@dataclass(frozen=True)
class _Word:
    """A word and its end."""

    text: str
    end: int
    loss: str
    differs: bool


def _word(place: str, text: str, at: int, lost: str) -> _Word:
    """The word that begins at a place, behind what was lost."""
    begin, letters, quote, loss, differs = at, [], "", "", False
    while at < len(text) and (quote or text[at] not in _BLANKS):
        if not quote and (plain := _PLAIN.match(text, at)):
            letters.append(plain[0])
            at = plain.end()
            continue
        letter = text[at]
        if letter == "\\":
            at += 1
            if at < len(text) and not quote and text[at] in _BLANKS:
                loss, differs = f"releases of sbatch read the blank behind `{text[begin:at]:.40}` differently", True
                if text[at] != " ":
                    break
            letters.append(text[at : at + 1])
        elif quote and letter == quote:
            quote = ""
        elif not quote and letter in "\"'":
            quote = letter
        elif not quote and letter == "#":
            if at > begin:
                loss = loss or f"sbatch cuts `{text[begin:].split()[0]:.80}` at `#`"
            at = len(text)
            break
        else:
            letters.append(letter)
        at += 1
    if quote:
        fault = lost or f"the quotation mark {quote} has no other one"
        raise ProvisioningError(f"{place}: {fault}", hint="write the value in a pair of quotation marks")
    return _Word("".join(letters), min(at, len(text)), loss, differs)
