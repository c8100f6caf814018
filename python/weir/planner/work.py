"""The work of the planner's helper processes: logs to identities, and identities to plans.

A helper is `python -m weir.planner.work NICENESS`. It reads one JSON object a line and answers each with one line. A
log is read in a process of its user, so that nobody reads another's file through the planner.
"""

import os
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import msgspec

from weir.errors import WeirError
from weir.planner.errors import Code
from weir.planner.tables import Tables
from weir.provisioning.behaviour.identity import Identity, identify
from weir.provisioning.deployments import Deployment
from weir.provisioning.jobs import batch_script
from weir.provisioning.jobs.directives import Directives
from weir.provisioning.jobs.job import Job, of_header, of_jobspec
from weir.provisioning.outcomes.outcome import Outcome
from weir.provisioning.resources.model import Resources

MEMORY_BYTES_MAX = 8 << 30
"""Address space of a helper."""
FILES_MAX = 256
QUICK_JOBSPEC_CHARACTERS_MAX = 8 << 10
"""A longer jobspec is read in a process of its user: YAML takes some 2 ms a kilobyte."""
LINE_BYTES_MAX = 64 << 20
"""Longest line: a resource model of 100,000 nodes takes less."""


class Read(msgspec.Struct, kw_only=True, tag="read"):
    """Find the job and the directives of a script or jobspec."""

    script: str


class Identify(msgspec.Struct, kw_only=True, tag="identify"):
    """Find the identity of a job in a log."""

    log: str
    job: Job


class Load(msgspec.Struct, kw_only=True, tag="load"):
    """Take a resource model and the site's tables, for the plans that follow."""

    digest: str
    resources: msgspec.Raw
    tables: Tables = Tables()


class MakePlan(msgspec.Struct, kw_only=True, tag="plan"):
    """Plan the storage of a job on a resource model that was loaded."""

    digest: str
    identity: Identity
    job: Job
    directives: Directives
    outcomes: tuple[Outcome, ...] = ()


AnyWork = Read | Identify | Load | MakePlan


class Done(msgspec.Struct, kw_only=True):
    """An answer: the fields that the work is for, or an error."""

    job: Job | None = None
    directives: Directives | None = None
    identity: Identity | None = None
    deployment: Deployment | None = None
    is_at_hand: bool = True
    """Whether the policy itself found the plan, and not one of its fallbacks, on storage that is free now."""
    seconds: float = 0.0
    code: Code | None = None
    message: str = ""
    hint: str = ""


def is_quick(script: str) -> bool:
    """Decide whether a text is read in some hundredths of a second at most, whatever it holds.

    Args:
        script: The text of a script or jobspec.

    Returns:
        Whether it is a script, of which only the bounded head is read, or a short jobspec.
    """
    return batch_script.is_script(script) or len(script) <= QUICK_JOBSPEC_CHARACTERS_MAX


def read_script(script: str) -> tuple[Job, Directives]:
    """Find the job and the directives of a batch script, which begins with `#!`, or of a jobspec.

    Args:
        script: The text.

    Raises:
        ProvisioningError: The text is neither, or a directive is wrong; the error names the line.
    """
    from weir.provisioning.jobs import directives

    if batch_script.is_script(script):
        header = batch_script.read_header("script", script)
        # The strict reader goes first: its errors suggest the directive that was meant.
        found = directives.of_header("script", header)
        return of_header(Path("script"), header, is_accepted=True), found
    job = of_jobspec(Path("jobspec"), script)
    return job, directives.of_attributes("jobspec", job.hints)


class Worker:
    """The state of a helper: tables, the reader of logs, and the resource model of the last plan."""

    def __init__(self) -> None:
        """Make a helper that has loaded nothing."""
        self._planner: Any = None
        self._select: Any = None
        self._tables: Tables | None = None
        """The tables of `_select`."""
        self._reader: Any = None
        self._resources: tuple[str, Resources] | None = None

    def do(self, work: AnyWork) -> Done:
        """Do one piece of work.

        Returns:
            The answer; errors of users are answers too.
        """
        begin = time.perf_counter()
        try:
            done = self._do(work)
        except WeirError as error:
            code: Code = "infeasible" if isinstance(work, MakePlan) else "invalid"
            return Done(code=code, message=error.message, hint=error.hint)
        except MemoryError:
            return Done(code="failed", message="the planner's helper ran out of memory")
        except Exception as error:
            # A fault of the planner's own fails this work alone: other users' plans go on in the process.
            traceback.print_exc()
            return Done(
                code="failed",
                message=f"the planner's helper failed: {type(error).__name__}",
                hint="the planner's log tells why",
            )
        done.seconds = time.perf_counter() - begin
        return done

    def _do(self, work: AnyWork) -> Done:
        if isinstance(work, Read):
            job, directives = read_script(work.script)
            return Done(job=job, directives=directives)
        if isinstance(work, Identify):
            return Done(identity=self._identify(work))
        if isinstance(work, Load):
            self._resources = work.digest, msgspec.json.decode(work.resources, type=Resources)
            self._prepare(work.tables)
            return Done()
        return self._plan(work)

    def _identify(self, work: Identify) -> Identity:
        from weir.provisioning.behaviour.recorded import RunReader

        if self._reader is None:
            # Nobody is there to read a note.
            self._reader = RunReader(note=lambda _: None)
        return identify(self._reader.read(Path(work.log)), work.job)

    def _plan(self, work: MakePlan) -> Done:
        if self._resources is None or self._resources[0] != work.digest:
            raise WeirError("the resources of this plan were not loaded")
        from weir.provisioning.jobs.wishes import Wishes

        wishes = Wishes(directives=work.directives)
        resources, select = self._resources[1], self._select
        if work.outcomes:
            tables = self._tables or Tables()
            select = self._planner.selecting(
                work.outcomes,
                resources,
                now=time.time(),
                price_list=tables.prices,
                factors=tables.factors,
                sharers_room=tables.sharers_room,
            )
        plan = self._planner.plan(
            work.identity, work.job, resources, wishes=wishes, select=select, outcomes=work.outcomes
        )
        found = plan.selected
        is_at_hand = found.policy == wishes.policy and found.candidate.wait_seconds <= 0
        return Done(deployment=plan.deployment, is_at_hand=is_at_hand)

    def _prepare(self, tables: Tables) -> None:
        from weir.provisioning.behaviour import classes
        from weir.provisioning.objectives import shipped, sslo_tables
        from weir.provisioning.planning.planner import Planner
        from weir.provisioning.planning.selection import by_policy

        if self._planner is None or (self._tables or tables).new_class_fitness != tables.new_class_fitness:
            known = classes.with_fitness_min(classes.built_in(), tables.new_class_fitness)
            self._planner = Planner(known, shipped.built_in(), sslo_tables.measured().sslos)
        if self._tables != tables:
            self._tables = tables
            self._select = by_policy(tables.prices, tables.factors, sharers_room=tables.sharers_room)


def main() -> None:
    """Answer work on standard input, until its end."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
    os.nice(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    # A library that prints must not write among the answers.
    os.dup2(2, 1)
    worker = Worker()
    decoder = msgspec.json.Decoder(AnyWork)
    while line := sys.stdin.buffer.readline(LINE_BYTES_MAX):
        answers.write(msgspec.json.encode(worker.do(decoder.decode(line))) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
