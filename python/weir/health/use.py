"""Findings about the use of a store: quotas, jobs, mounts, leases, credentials, the planner and the guard."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weir.amounts import seconds, size_text
from weir.health.codes import Finding, found
from weir.health.facts import Facts
from weir.store import quotas
from weir.store.accounts import merge
from weir.store.errors import StoreError

if TYPE_CHECKING:
    from weir.store.answers import Job

QUOTA_NEAR = 0.9
"""Part of a limit from which on it is near."""
CREDENTIAL_SECONDS = 3 * 3600.0
"""Time before its end in which a credential is told."""
_ENDED_SECONDS = 86400.0
"""Time after its end in which a credential is told: later its job is over."""
_GUARD_SECONDS = 3600.0
"""Time in which the death of a guard is told."""


def of_quotas(facts: Facts) -> Iterator[Finding]:
    """Derive the findings about owners with limits of their own or of all."""
    known = quotas.merge(each.quotas for each in facts.servers if each.quotas is not None)
    for owner in known:
        if owner.id is None:
            continue
        for what, used, most in (
            ("bytes", owner.bytes, owner.bytes_max),
            ("inodes", owner.inodes, owner.inodes_max),
        ):
            if not most or used < QUOTA_NEAR * most:
                continue
            words = f"{size_text(used)} of {size_text(most)}" if what == "bytes" else f"{used} of {most} inodes"
            code = "quota-reached" if used >= most else "quota-near"
            subject, more = f"{owner.kind} {owner.name}", 2 * most
            yield found(code, subject, f"it has {words}", kind=owner.kind, owner=owner.id, what=what, more=more)


def job_words(job: "Job") -> str:
    """Name a job as the object of a finding: another user's job of its name is another one."""
    return f"job {job.job} of {job.user}"


def of_jobs(facts: Facts) -> Iterator[Finding]:
    """Derive the jobs that stand still while a server does not answer."""
    silent = [each for each in facts.servers if each.is_silent]
    if not silent:
        return
    names = " and ".join(each.name for each in silent)
    for job in merge(each.jobs for each in facts.servers if each.jobs is not None):
        if job.connections and not job.active:
            answers = "does" if len(silent) == 1 else "do"
            words = f"it is connected, has no request at the servers that answer, and {names} {answers} not answer"
            yield found("job-blocked", job_words(job), words, start=facts.start_command(silent[0]))


def of_mounts(facts: Facts) -> Iterator[Finding]:
    """Derive the mounts that ended, and the hosts whose mounts are not known."""
    for mount in facts.mounts:
        if not mount.is_served:
            place = mount.point if mount.host is None else f"{mount.host}:{mount.point}"
            yield found("mount-lost", f"mount {place}", "its program ended", start=facts.start_command())
    for host, state in facts.hosts.items():
        if isinstance(state, StoreError):
            yield found("host-silent", f"host {host}", state.message, host=host)


def of_leases(facts: Facts) -> Iterator[Finding]:
    """Derive the leases in force, and a guard that died."""
    for each in facts.servers:
        lease = each.lease
        if lease is not None and lease.is_leased:
            jobs = f", with terms of {len(lease.jobs)} jobs" if lease.jobs else ""
            words = f"{lease.policy} by {lease.scheduler} for {lease.seconds:.0f} s{jobs}"
            yield found("lease-in-force", each.name, words)
    if facts.guard is not None and facts.now - facts.guard.at < _GUARD_SECONDS:
        words = f"no guard runs, and this is not undone: {facts.guard.words}"
        yield found("guard-died", "guard", words, since=facts.guard.at)


def of_credentials(facts: Facts) -> Iterator[Finding]:
    """Derive the credentials that end soon, or ended lately."""
    for each in facts.credentials:
        left = each.expires - facts.now
        if -_ENDED_SECONDS < left < CREDENTIAL_SECONDS:
            words = f"{each.path} " + (f"ends in {seconds(left)}" if left > 0 else "has ended")
            since = each.expires if left <= 0 else None
            subject = f"credential {each.path.name}"
            yield found("credential-ending", subject, words, since=since, uid=each.uid, job=each.job)


def of_planner(facts: Facts) -> Iterator[Finding]:
    """Derive the findings about the planner of this machine."""
    planner = facts.planner
    if planner is None:
        return
    if planner.silence is not None:
        yield found("planner-silent", "planner", f"{planner.socket}: {planner.silence}")
    for name, error, at in planner.failed:
        yield found("deployment-failed", f"deployment {name}", error, since=at, name=name)
