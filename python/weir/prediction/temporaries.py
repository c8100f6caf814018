"""The names under which the next run's files are made first, where the program renames them afterwards.

A file is predicted and placed by its last name. At its making the look-up knows the temporary name alone, whose random
parts are marked in the database. Where one such name stands for several files, the rank and the turn of the making tell
which of them is made. Turns are counted in each process, so they tell nothing where several processes of a rank make
such files: these files are left to the file system, and the user hears of them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from weir.prediction.context import Context
from weir.prediction.history import PastRun
from weir.prediction.names import parse
from weir.prediction.pattern import Unpredictable
from weir.prediction.temporary_styles import Style, learn
from weir.tracing.records import ANY, SHARED, Creation, Making, TemporaryName

_SAMPLE_MAX = 256
"""Most temporary names of a pattern and run from which a style is learned: more of them show nothing new."""
SEVERAL_MAKERS = "several processes of a rank make such files, and their names do not tell which is which"


@dataclass(frozen=True, slots=True)
class Temporaries:
    """The temporary names of a coming run."""

    names: tuple[TemporaryName, ...] = ()
    patterns: tuple[str, ...] = ()
    """The patterns of the names with random parts."""
    lost: tuple[Unpredictable, ...] = ()
    """Files that cannot be recognised when they are made."""
    lost_paths: frozenset[str] = frozenset()
    """Last names of these files."""


def temporaries_of(past: Sequence[PastRun], creations: Sequence[Creation], coming: Context) -> Temporaries:
    """Find the names under which predicted files are made.

    Args:
        past: Past runs of the program, oldest first.
        creations: The predicted files, by their last names.
        coming: The coming run.

    Returns:
        The temporary names; none for files that are made under their last names.
    """
    last = past[-1].run if past else None
    if last is None or not last.makings:
        return Temporaries()
    styles = _styles(past)
    skeletons = {creation.path: parse(creation.path, coming).skeleton for creation in creations}
    named: dict[str, list[Creation]] = {}
    used: dict[str, Style] = {}
    for creation in creations:
        style = styles.get(skeletons[creation.path])
        if style is not None:
            name = style.name(creation.path)
            named.setdefault(name, []).append(creation)
            used.setdefault(name, style)
    names: list[TemporaryName] = []
    lost: list[Unpredictable] = []
    paths = {creation.path for creation in creations}
    makings: dict[Style, dict[str, list[Making]]] = {}
    skeletons_before = _skeletons(past[-1])
    for name, files in named.items():
        if len(files) == 1:
            names += [TemporaryName(name, ANY, ANY, files[0].path)] if name not in paths else []
            continue
        style = used[name]
        if style not in makings:
            makings[style] = _by_name(past[-1], style)
        sequences = _sequences(makings[style], name, skeletons_before)
        if sequences is None:
            largest = max(file.size_bytes for file in files)
            lost.append(Unpredictable(name, SEVERAL_MAKERS, len(files), largest))
        else:
            names += _in_turn(name, files, skeletons, sequences)
    told = {one.path for one in names}
    patterns = {used[one.name].pattern for one in names}
    return Temporaries(
        names=tuple(names),
        patterns=tuple(sorted(pattern for pattern in patterns if pattern is not None)),
        lost=tuple(lost),
        lost_paths=frozenset(file.path for one in lost for file in named[one.pattern] if file.path not in told),
    )


def _styles(past: Sequence[PastRun]) -> dict[str, Style]:
    """The style of each pattern of last names whose files were made under temporary names in the last run.

    Files that are made under their last names first, and replaced afterwards (`sed -i`), have a style, too.
    """
    samples = [_sampled(one) for one in past]
    learned = learn(pair for pairs in samples for pair in pairs)
    counts: dict[str, Counter[Style]] = {}
    for pair, skeleton in samples[-1].items():
        if pair in learned:
            counts.setdefault(skeleton, Counter())[learned[pair]] += 1
    return {skeleton: count.most_common(1)[0][0] for skeleton, count in counts.items()}


def _sampled(one: PastRun) -> dict[tuple[str, str], str]:
    """Temporary and last names of a run, each with the pattern of the last name: the first ones of each pattern."""
    skeletons = _skeletons(one)
    pairs: dict[tuple[str, str], str] = {}
    counts: Counter[str] = Counter()
    for making in one.run.makings:
        skeleton = skeletons.get(making.name)
        if skeleton is not None and making.path != making.name and counts[skeleton] < _SAMPLE_MAX:
            counts[skeleton] += 1
            pairs[making.path, making.name] = skeleton
    return pairs


def _skeletons(one: PastRun) -> dict[str, str]:
    return {instance.creation.name: skeleton for skeleton, group in one.groups.items() for instance in group}


def _by_name(one: PastRun, style: Style) -> dict[str, list[Making]]:
    """The makings of one style under each temporary name."""
    makings: dict[str, list[Making]] = {}
    for making in one.run.makings:
        marked = style.marked(making.path)
        # Without random parts every path has the style's form: only those that lead to their last names count.
        if marked is not None and (style.pattern is not None or marked == style.name(making.name)):
            makings.setdefault(marked, []).append(making)
    return makings


def _sequences(
    makings: dict[str, list[Making]], name: str, skeletons: dict[str, str]
) -> dict[int, list[str | None]] | None:
    """For each rank the patterns of the files that it made under a name, in their order; None without one maker a rank.

    A file that has no last name of its own has no pattern: it takes a turn. A name that the run did not have, as that
    of an added rank, goes on as the latest name of the same style.
    """
    own = makings.get(name) or next(reversed(makings.values()), [])
    if len({(making.rank, making.process) for making in own}) > len({making.rank for making in own}):
        return None
    sequences: dict[int, list[str | None]] = {}
    for making in own:
        skeleton = skeletons.get(making.name) if making.path != making.name else None
        sequences.setdefault(making.rank, []).append(skeleton)
    return sequences or None


def _in_turn(
    name: str, files: Sequence[Creation], skeletons: dict[str, str], sequences: dict[int, list[str | None]]
) -> list[TemporaryName]:
    """The turns of each rank's files with one name: as in the last run, whose last period goes on in a longer run."""
    by_rank: dict[int, list[Creation]] = {}
    for file in sorted(files, key=lambda file: file.order):
        # A file that several ranks write is made by the rank that made such files before.
        rank = min(sequences) if file.rank == SHARED else file.rank
        by_rank.setdefault(rank, []).append(file)
    found = []
    for rank, own in by_rank.items():
        sequence = sequences.get(rank) or sequences[max(sequences)]
        paths = _played(sequence, own, skeletons)
        found += [TemporaryName(name, rank, turn, path) for turn, path in enumerate(paths)]
    return found


def _played(sequence: Sequence[str | None], files: Sequence[Creation], skeletons: dict[str, str]) -> list[str]:
    """The last names of a rank's files with one temporary name, in the order of their making."""
    left: dict[str | None, list[str]] = {}
    for file in files:
        left.setdefault(skeletons[file.path], []).append(file.path)
    rewritten = {skeleton for skeleton, own in left.items() if len(own) == 1 and sequence.count(skeleton) > 1}
    if not rewritten and all(skeleton in left for skeleton in sequence):
        return [file.path for file in files]
    period = _period(sequence)
    paths: list[str] = []
    for turn in range(len(sequence) + (len(files) + 1) * period):
        is_done = not any(own for skeleton, own in left.items() if skeleton not in rewritten)
        if is_done and turn >= len(sequence):
            break
        at = turn if turn < len(sequence) else len(sequence) - period + (turn - len(sequence)) % period
        skeleton = sequence[at]
        own = left.get(skeleton)
        if own is None:
            paths.append("")
        elif own:
            paths.append(own[0] if skeleton in rewritten else own.pop(0))
    # Patterns that the last run did not make under this name come last.
    told = set(paths)
    return [*paths, *(file.path for file in files if file.path not in told)]


def _period(sequence: Sequence[str | None]) -> int:
    """The shortest period with which the end of a sequence goes on."""
    for period in range(1, len(sequence) // 2 + 1):
        if sequence[-period:] == sequence[-2 * period : -period]:
            return period
    return len(sequence)
