"""What `weir agent` runs: one operation on this host, for the host that a store is deployed from."""

from collections.abc import Callable
from typing import Any

from weir.deployment import keeper, member, operations, upkeep
from weir.deployment.operations import Operation
from weir.errors import WeirError
from weir.store.decoding import DecodingError, decode, encode
from weir.store.errors import StoreError
from weir.store.home import Home

_DONE_BY: tuple[tuple[Operation[Any, Any], Callable[[Any], Any]], ...] = (
    (operations.PROBE, member.probe),
    (operations.INSTALL, member.install),
    (operations.START, member.start),
    (operations.PUBLISH, member.publish),
    (operations.END, member.end),
    (operations.RESTART, member.restart),
    (operations.STATE, member.state),
    (operations.LOGS, upkeep.logs),
    (operations.BACKUP, upkeep.backup),
    (operations.DROP, member.drop),
    (operations.FETCH, member.fetch),
    (operations.STORE, member.store),
    (operations.FORGET, member.forget),
    (operations.REMOVE, member.remove),
)

_STARTING = {
    operation.name
    for operation in (operations.START, operations.PUBLISH, operations.RESTART, operations.DROP, operations.FETCH)
}
"""Operations that start or stop single programs, which a kept host leaves to its keeper."""
_ENDING = {operation.name for operation in (operations.END, operations.REMOVE)}

NAMES = tuple(operation.name for operation, _ in _DONE_BY)
"""Names of the operations."""


def keep(home: Home) -> None:
    """Do operations for other processes until the store on this host ends.

    Raises:
        OSError: The home cannot be written.
    """
    keeper.keep(home, do_here, last=operations.END.name)


def do(name: str, document: object) -> dict[str, Any]:
    """Do one operation: by the host's keeper where that starts or ends what it keeps, else in this process.

    Args:
        document: The operation's request, as a JSON document.

    Returns:
        `{"answer": …}`, or `{"error": …, "hint": …}` where it failed.
    """
    home = Home.at(str(document.get("home", ""))) if isinstance(document, dict) else None
    if home is None or name not in _STARTING | _ENDING:
        return do_here(name, document)
    try:
        part = member.member_of(home)
        if part is None or not part.kept:
            return do_here(name, document)
        told = keeper.ask(home, *_kept(name, document), patiently=name in _STARTING)
    except StoreError as error:
        return {"error": error.message, "hint": error.hint}
    return do_here(name, document) if told is None or name == operations.REMOVE.name else told


def do_here(name: str, document: object) -> dict[str, Any]:
    """Do one operation in this process.

    Args:
        document: The operation's request, as a JSON document.

    Returns:
        As `do`.
    """
    operation, function = next(pair for pair in _DONE_BY if pair[0].name == name)
    try:
        return {"answer": encode(function(decode(operation.request, document, is_exact=True, place="the request")))}
    except DecodingError as error:
        return {"error": f"it does not understand the request: {error}", "hint": "is the same version installed there?"}
    except WeirError as error:
        return {"error": error.message, "hint": error.hint}
    except OSError as error:
        return {"error": f"{error.strerror or error}: {error.filename}" if error.filename else str(error), "hint": ""}


def _kept(name: str, document: Any) -> tuple[str, object]:
    """The operation and request that a keeper gets: a part that is to be removed ends first."""
    if name != operations.REMOVE.name:
        return name, document
    request = operations.EndRequest(document["home"], document["deployment"], force=True, discard=False)
    return operations.END.name, encode(request)
