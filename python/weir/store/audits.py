"""The audit in the control API: who asked a server for which change, and what came of it.

These are types of `crates/core` and `crates/server`, as those of `weir.store.answers` are.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A request for a change. Claims are what the caller said of itself: the server cannot check them."""

    number: int
    """Number of the entry at its server."""
    at: float
    """Unix time of the request, in seconds."""
    role: str
    """Right that the caller proved: `administrator`, `user`, `nobody`, or `expired` for a credential outside of its
    time."""
    uid: int | None
    """User of the credential; null where none was shown."""
    user: str | None
    """Name of that user in the credential."""
    address: str | None
    """Address of the caller's connection."""
    claimed_command: str | None
    """Claim: the caller's command."""
    claimed_host: str | None
    """Claim: the caller's host."""
    claimed_request_of: str | None
    """Claim: the user on whose request the caller acted."""
    kind: str
    """Kind of the setting or object, such as `policy` or `target state`."""
    object: str | None
    """Object, where the kind has several."""
    before: str | None
    """Value before, as JSON; null where the server knows none."""
    after: str | None
    """Value that was asked for, as JSON."""
    is_told: bool
    """Whether an administrator's command told the whole entry, about a change that no server makes."""
    outcome: str
    """`done`; `refused`: the caller had no right; `failed`: the store did not take it; or `unknown`: the server
    ended, or did not answer in time."""
    reason: str | None
    """Reason where it was not done."""
    times: int
    """Requests that the entry stands for: refusals of one caller that follow each other are one entry."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The entries that a server keeps."""

    entries: tuple[AuditEntry, ...]
    """The entries above the number that was asked for, oldest first."""


@dataclass(frozen=True, slots=True)
class ToldEntry:
    """A change that no server makes, such as the deployment of a store."""

    kind: str
    """Kind of the change, in small letters."""
    object: str | None = None
    """Object of the change."""
    before: str | None = None
    """Value before."""
    after: str | None = None
    """Value after."""
    refused: str | None = None
    """Reason for which the change was refused; absent where it was made."""
