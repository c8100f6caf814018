"""Leases of the sharing: what `weir guard` has put in force for some seconds in place of what the site has decided."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from weir.cli.common.errors import say, warn
from weir.cli.common.output import sharing_name
from weir.store.errors import StoreError

if TYPE_CHECKING:
    from weir.store.answers import Job, Lease, LeasedJob
    from weir.store.control import Server


def leases_of(servers: "Iterable[Server]") -> "dict[int, Lease]":
    """Ask servers for the leases that are in force. A lease names jobs, so only an administrator is shown one.

    Args:
        servers: Servers that have answered a question just now.

    Returns:
        The leases by the number of the server; none of a server without a lease, or that the caller may not ask.
    """
    from weir.store.control import Server, ask_all

    asked = [server for server in servers if server.access is not None and server.access.is_administrator]
    found: dict[int, Lease] = {}
    for server, answer in zip(asked, ask_all(asked, Server.lease), strict=True):
        if isinstance(answer, StoreError):
            warn(f"whether server {server.number} has a lease is not known: {answer.message}", hint=answer.hint)
        elif answer.is_leased:
            found[server.number] = answer
    return found


def lease_document(lease: "Lease | None") -> dict[str, Any] | None:
    """Describe a lease for JSON.

    Returns:
        Policy, scheduler, seconds and jobs; None without a lease.
    """
    from weir.store.decoding import encode

    if lease is None:
        return None
    return {key: value for key, value in encode(lease).items() if key != "is_leased"}


def lease_words(lease: "Lease") -> str:
    """Describe a lease in a few words.

    Returns:
        The sharing in force, the time until it ends, and the number of jobs with terms of their own.
    """
    jobs = f", {len(lease.jobs)} job{'s' if len(lease.jobs) > 1 else ''} with terms" if lease.jobs else ""
    return f"{sharing_name(lease.policy, lease.scheduler)} for {lease.seconds:.0f} s{jobs}"


def tell_leases(leases: "Mapping[int, Lease]") -> None:
    """Say on standard error which leases are in force, a line for those that are alike."""
    of_words: dict[str, list[int]] = {}
    for server, lease in leases.items():
        of_words.setdefault(lease_words(lease), []).append(server)
    for words, servers in of_words.items():
        many = "s" if len(servers) > 1 else ""
        say(f"a lease is in force on server{many} {', '.join(map(str, servers))}: {words}; see `weir guard log`")


def terms_of(job: "Job", leases: "Mapping[int, Lease]") -> "LeasedJob | None":
    """Find the terms of a job under the leases of all servers.

    Returns:
        The terms on the first server that has some; None for a job without any.
    """
    every = (leased for lease in leases.values() for leased in lease.jobs)
    return next((leased for leased in every if (leased.job, leased.uid) == (job.job, job.uid)), None)


def terms_words(terms: "LeasedJob | None") -> str:
    """Describe the terms of a job.

    Returns:
        Such as `weight 2, limit 30%, avoids 0.1`; a dash without terms.
    """
    if terms is None:
        return "-"
    parts = [
        "" if terms.weight is None else f"weight {terms.weight:.3g}",
        "" if terms.limit is None else f"limit {terms.limit:.0%}",
        f"avoids {' '.join(terms.avoid)}" if terms.avoid else "",
    ]
    return ", ".join(part for part in parts if part) or "-"
