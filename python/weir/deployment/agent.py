"""What `weir agent` runs: one operation on this host, for the host that a store is deployed from."""

from collections.abc import Callable
from typing import Any

from weir.deployment import member, operations
from weir.deployment.operations import Operation
from weir.errors import WeirError
from weir.store.decoding import DecodingError, decode, encode

_DONE_BY: tuple[tuple[Operation[Any, Any], Callable[[Any], Any]], ...] = (
    (operations.PROBE, member.probe),
    (operations.INSTALL, member.install),
    (operations.START, member.start),
    (operations.PUBLISH, member.publish),
    (operations.END, member.end),
    (operations.RESTART, member.restart),
    (operations.STATE, member.state),
    (operations.REMOVE, member.remove),
)

NAMES = tuple(operation.name for operation, _ in _DONE_BY)
"""Names of the operations."""


def do(name: str, document: object) -> dict[str, Any]:
    """Do one operation.

    Args:
        name: Name of the operation.
        document: The operation's request, as a JSON document.

    Returns:
        `{"answer": …}`, or `{"error": …, "hint": …}` where it failed.
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
