"""`weir audit`: who changed what of a store, and when."""

from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.asking import administered, warn_of_silence
from weir.cli.common.errors import FAILED, CommandError
from weir.cli.common.history_options import MOMENT, clock
from weir.cli.common.output import output_option, show
from weir.store.errors import StoreError
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.store.auditing import StoreEntry
    from weir.store.audits import AuditEntry

_HEADER = ("TIME", "USER", "CLAIMS", "CHANGE", "FROM", "TO", "OUTCOME", "SERVERS")
_VALUE_LETTERS_MAX = 48
"""Letters of a value in the table; JSON has all."""


@click.command()
@click.option("--since", type=MOMENT, help="First moment, such as 14:00, yesterday or 2d.  [default: all that is kept]")
@click.option("--kind", help="Show only changes of this kind, such as policy, quota or target.")
@click.option("--user", metavar="NAME|UID", help="Show only changes by this user, or on this user's request.")
@click.option("--refused", is_flag=True, help="Show only requests that were refused for want of rights.")
@output_option
@click.pass_obj
def audit(home: Home, since: str | None, kind: str | None, user: str | None, refused: bool, output: str) -> int:
    """Show who changed the store: what was changed, from which value to which, and when.

    The servers keep the last changes and refused requests. A server verified USER, ROLE and ADDRESS. It could not
    verify CLAIMS: the command and the host that the caller named, and the user on whose request the caller acted. A
    service such as the planner changes a store on the request of users. The exit code is 1 where a server does not
    answer.
    """
    import time

    from weir.history.moments import read_moment
    from weir.store.auditing import merged
    from weir.store.control import Server, ask_all

    servers = administered(home, "see who changed the store")
    asked: list[tuple[int, tuple[AuditEntry, ...]]] = []
    for server, answer in zip(servers, ask_all(servers, Server.audit), strict=True):
        if isinstance(answer, StoreError):
            warn_of_silence(home, server, answer)
        else:
            asked.append((server.number, answer))
    if not asked:
        raise CommandError("no server of the store answers", hint="see `weir status`")
    begin = None if since is None else read_moment(since, time.time())
    found = [
        line
        for line in merged(asked)
        if (begin is None or line.entry.at >= begin)
        and (kind is None or line.entry.kind == kind or line.entry.kind.startswith(f"{kind} "))
        and (user is None or user in _users(line.entry))
        and (not refused or line.entry.outcome == "refused")
    ]
    document = {"entries": [_document(line) for line in found]}
    show(output, document, _HEADER, [_row(line) for line in found])
    return FAILED if len(asked) < len(servers) else 0


def _users(entry: "AuditEntry") -> set[str]:
    users = (entry.user, None if entry.uid is None else str(entry.uid), entry.claimed_request_of)
    return {name for name in users if name is not None}


def _document(line: "StoreEntry") -> dict[str, Any]:
    from weir.store.decoding import encode

    # A number counts at one server alone.
    return {key: value for key, value in encode(line.entry).items() if key != "number"} | {
        "servers": list(line.servers)
    }


def _row(line: "StoreEntry") -> tuple[str, ...]:
    entry = line.entry
    who = entry.user or (entry.role if entry.uid is None else str(entry.uid))
    host = entry.claimed_host and f"on {entry.claimed_host}"
    requested = entry.claimed_request_of and f"for {entry.claimed_request_of}"
    claims = " ".join(word for word in (entry.claimed_command, host, requested) if word)
    outcome = entry.outcome if entry.times == 1 else f"{entry.outcome} {entry.times} times"
    return (
        clock(round(entry.at * 1000)),
        who if entry.role == "administrator" or entry.uid is None else f"{who} ({entry.role})",
        _short(claims),
        entry.kind if entry.object is None else f"{entry.kind} {entry.object}",
        _short(entry.before or "-"),
        _short(entry.after or "-"),
        outcome if entry.reason is None or entry.outcome == "refused" else f"{outcome}: {_short(entry.reason)}",
        ",".join(map(str, line.servers)),
    )


def _short(text: str) -> str:
    return text if len(text) <= _VALUE_LETTERS_MAX else f"{text[: _VALUE_LETTERS_MAX - 3]}..."
