"""Forked processes of a job that begin each of its phases together, as ranks of MPI do behind a barrier.

The first process makes `Ranks`, and for each phase calls `begin` and `all_done`; `end` comes last. Each rank calls
`Phases.next` and `Phases.done` in turn.
"""

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable

_MESSAGE_BYTES = 32
"""Length of the word to each rank. A pipe keeps 64 KiB, so 2,048 of them, before the first one is read."""
_DONE, _FAILED = b"d", b"f"


class Phases:
    """The phases of one rank."""

    def __init__(self, here: tuple[int, int], there: int) -> None:
        """Take the ends of the pipes.

        Args:
            here: The pipes from the first process, which phases take in turn.
            there: The pipe to it.
        """
        self._here, self._after = here
        self._there = there

    def next(self) -> str | None:
        """Wait for the next phase.

        Returns:
            The word of the first process; None where there is no further phase, also because that process is gone.
        """
        message = os.read(self._here, _MESSAGE_BYTES)
        self._here, self._after = self._after, self._here
        return message.decode().strip() if message else None

    def done(self) -> None:
        """Tell that this rank is through the phase, or ready for the first one."""
        os.write(self._there, _DONE)

    def failed(self) -> None:
        """Tell that this rank ends in vain."""
        os.write(self._there, _FAILED)


class Ranks:
    """The ranks, as the first process sees them."""

    def __init__(self, count: int, work: Callable[[int, Phases], None]) -> None:
        """Fork the ranks.

        Args:
            count: Number of ranks.
            work: The work of a rank, called with its number. An exception ends the job as failed, with words about it
                on standard error.
        """
        self._ready, ready_there = os.pipe()
        # With one pipe, a rank that is through a phase early could take the word of a rank that has not begun. All
        # words of a phase are read before the next phase begins, so two pipes are enough.
        (first_here, self._go), (second_here, self._go_after) = os.pipe(), os.pipe()
        here = (first_here, second_here)
        self._children: list[int] = []
        for number in range(count):
            child = os.fork()
            if child == 0:
                os.close(self._ready)
                # The end of a pipe is the end of the phases, so no rank may hold it open.
                os.close(self._go)
                os.close(self._go_after)
                os._exit(_serve(number, work, Phases(here, ready_there)))
            self._children.append(child)
        os.close(ready_there)
        for each in here:
            os.close(each)

    def begin(self, word: str = "g") -> None:
        """Let all ranks begin a phase, which all are waiting for.

        Args:
            word: A word for each of them, of at most 32 bytes.
        """
        message = word.encode().ljust(_MESSAGE_BYTES)
        try:
            os.write(self._go, message * len(self._children))
            self._go, self._go_after = self._go_after, self._go
        except BrokenPipeError:
            # All ranks are gone, as `all_done` finds.
            return

    def all_done(self, lifeline: int = -1) -> bool:
        """Wait until all ranks are through the phase.

        Args:
            lifeline: A descriptor that becomes readable when nobody wants the answer any more; -1 for none.

        Returns:
            False where a rank failed, or the lifeline ended.
        """
        watched = [self._ready, *([lifeline] if lifeline >= 0 else [])]
        done = 0
        while done < len(self._children):
            # Whoever started the job ends ranks that hang.
            if lifeline in select.select(watched, [], [])[0]:
                return False
            some = os.read(self._ready, len(self._children))
            if not some or _FAILED in some:
                return False
            done += len(some)
        return True

    def end(self, *, is_killed: bool = False) -> int:
        """Wait for the end of all ranks.

        Args:
            is_killed: Whether to end them in the middle of a phase, because nobody wants its figures.

        Returns:
            The number of ranks that failed.
        """
        os.close(self._go)
        os.close(self._go_after)
        if is_killed:
            for child in self._children:
                os.kill(child, signal.SIGKILL)
        failed = sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in self._children)
        os.close(self._ready)
        if failed:
            print(f"error: {failed} of {len(self._children)} processes failed", file=sys.stderr)
        return failed


def _serve(number: int, work: Callable[[int, Phases], None], phases: Phases) -> int:
    """Run one rank from its fork to its exit code."""
    try:
        work(number, phases)
    except BaseException as error:
        if isinstance(error, OSError):
            print(f"error: process {number}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        else:
            traceback.print_exc()
        # The words come first: this rank is ended once it is known that it failed.
        phases.failed()
        return 1
    return 0
