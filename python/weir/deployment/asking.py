"""Operations that hosts are asked to do, and the answers or errors of each."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from weir.deployment import fanout, operations
from weir.deployment.fanout import Reach
from weir.deployment.operations import Operation
from weir.store.decoding import DecodingError, decode, encode
from weir.store.errors import StoreError
from weir.store.notices import Listener, Notice

_SHOWN_MAX = 5
"""Most hosts whose errors are shown in one line."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def ask(
    reach: Reach,
    operation: Operation[Request, Answer],
    requests: Mapping[str, Request],
    *,
    seconds: float | None = None,
) -> dict[str, "Answer | StoreError"]:
    """Have hosts do an operation.

    Args:
        reach: The way to the hosts.
        requests: Request for each host, by the host's name.
        seconds: Longest time until a host has answered; None is that of the operation.

    Returns:
        The answer of each host; an error in the place of an answer that did not come.

    Raises:
        StoreError: ClusterShell is missing.
    """
    documents = {host: encode(request) for host, request in requests.items()}
    told = fanout.ask(reach, operation.name, documents, seconds or operation.seconds)
    return {host: _read(operation, host, answer) for host, answer in told.items()}


def ask_all(reach: Reach, operation: Operation[Request, Answer], requests: Mapping[str, Request]) -> dict[str, Answer]:
    """Have hosts do an operation, all of them.

    Args:
        reach: The way to the hosts.
        requests: Request for each host, by the host's name.

    Returns:
        The answer of each host.

    Raises:
        StoreError: The errors of the hosts that gave no answer.
    """
    return checked(ask(reach, operation, requests))


def checked(answers: Mapping[str, "Answer | StoreError"]) -> dict[str, Answer]:
    """Take the answers, where all hosts gave one.

    Args:
        answers: Answer or error of each host.

    Raises:
        StoreError: The errors of the hosts that gave none.
    """
    errors = {host: answer for host, answer in answers.items() if isinstance(answer, StoreError)}
    if not errors:
        return {host: answer for host, answer in answers.items() if not isinstance(answer, StoreError)}
    shown = [error.message for error in list(errors.values())[:_SHOWN_MAX]]
    if len(errors) > _SHOWN_MAX:
        shown.append(f"and {len(errors) - _SHOWN_MAX} more hosts")
    raise StoreError("; ".join(shown), hint=next(iter(errors.values())).hint)


def able(answers: Mapping[str, "Answer | StoreError"], listener: Listener) -> dict[str, Answer]:
    """Take the answers of those hosts that gave one.

    Args:
        answers: Answer or error of each host.
        listener: Told of the other hosts.

    Raises:
        StoreError: No host gave one.
    """
    given = {host: answer for host, answer in answers.items() if not isinstance(answer, StoreError)}
    if not given:
        return checked(answers)
    for answer in answers.values():
        if isinstance(answer, StoreError):
            listener(Notice(answer.message, hint=answer.hint or "the store continues without it"))
    return given


def pass_on(host: str, notices: Sequence[operations.Told], listener: Listener) -> None:
    """Pass the notices of a host on.

    Args:
        host: Name of the host.
        listener: Told of them, with the host's name.
    """
    for notice in notices:
        listener(Notice(f"{host}: {notice.words}", hint=notice.hint))


def _read(operation: Operation[Any, Answer], host: str, answer: Any) -> "Answer | StoreError":
    if isinstance(answer, StoreError):
        return answer
    try:
        return decode(operation.answer, answer)
    except DecodingError as error:
        return StoreError(f"{host} is not of this version: {error}", hint="install the same version on every host")
