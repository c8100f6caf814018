"""Shares as a tree: what groups, users and jobs were owed and received, each with the sum of those below it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weir.experiments.jobs import Job
from weir.experiments.windows import Summary


@dataclass(frozen=True)
class Branch:
    """A group, a user or a job."""

    name: str
    share_owed: float | None
    """Part of the targets' time; None where nothing is owed."""
    share_device: float
    """Part that was received."""
    branches: tuple["Branch", ...] = ()


def tree(jobs: Sequence[Job], summaries: Sequence[Summary], levels: Sequence[str]) -> tuple[Branch, ...]:
    """Add shares up in the phase in which most jobs have work (ThemisIO, figure 11).

    Args:
        jobs: Jobs of one run.
        summaries: One for each phase and job.
        levels: Attributes of a job, the outermost first; the last one names jobs.
    """
    counts = [summary.phase for summary in summaries]
    phase = max(counts, key=counts.count, default=None)
    shares = {summary.job: summary for summary in summaries if summary.phase == phase}
    return _branches([job for job in jobs if job.name in shares], shares, levels)


def lines(branches: Sequence[Branch], depth: int = 0) -> Iterator[str]:
    """The tree as text, a line for each branch."""
    for branch in branches:
        owed = "" if branch.share_owed is None else f" of {100 * branch.share_owed:.1f}% owed"
        yield f"{'  ' * depth}{branch.name}: {100 * branch.share_device:.1f}%{owed}"
        yield from lines(branch.branches, depth + 1)


def _branches(jobs: Sequence[Job], shares: dict[str, Summary], levels: Sequence[str]) -> tuple[Branch, ...]:
    level, *deeper = levels
    found = []
    for name in dict.fromkeys(getattr(job, level) for job in jobs):
        members = [job for job in jobs if getattr(job, level) == name]
        owed = [shares[job.name].share_owed for job in members]
        known = [share for share in owed if share is not None]
        found.append(
            Branch(
                name=name,
                share_owed=sum(known) if len(known) == len(owed) else None,
                share_device=sum(shares[job.name].share_device for job in members),
                branches=_branches(members, shares, deeper) if deeper else (),
            )
        )
    return tuple(found)
