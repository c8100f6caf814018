"""Changes of the policy of all servers of a store."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weir.store.answers import Sharing
from weir.store.control import Server, ask_all
from weir.store.errors import SilentServerError, StoreError


@dataclass(frozen=True)
class SharingChange:
    """A server's policy and scheduler before and after a change."""

    server: Server
    was: Sharing
    now: Sharing


def set_everywhere(
    servers: Sequence[Server], wanted: tuple[str, str | None], silent: Callable[[Server, SilentServerError], None]
) -> list[SharingChange]:
    """Change every server that answers, or none if one refuses.

    Args:
        servers: All servers of the store.
        wanted: The policy, and its scheduler; None is the present one if that can enforce the policy, else its own.
        silent: Takes each server that does not answer, which follows when it is back.

    Raises:
        StoreError: A server refuses; those that had changed are as before.
    """
    changed: list[SharingChange] = []
    # All are asked before one is told, because servers tell each other.
    for server, was in zip(servers, ask_all(servers, Server.sharing), strict=True):
        try:
            if isinstance(was, StoreError):
                raise was
            now = server.set_sharing(*wanted)
        except SilentServerError as error:
            silent(server, error)
            continue
        except StoreError:
            for before in changed:
                with contextlib.suppress(StoreError):
                    before.server.set_sharing(before.was.policy, before.was.scheduler)
            raise
        changed.append(SharingChange(server, was, now))
    return changed
