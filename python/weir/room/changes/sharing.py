"""Another policy for all servers."""

from collections.abc import Mapping

from weir.room.changes.offers import Proposal, noting, proposal
from weir.room.errors import RoomError
from weir.room.panels import Mark, Page, Panel, Text, table_of
from weir.room.sources import Sources
from weir.store.answers import Sharing
from weir.store.configuration import check_sharing
from weir.store.control import Server, ask_all
from weir.store.errors import StoreError
from weir.store.sharing import set_everywhere


def propose(sources: Sources, query: Mapping[str, str]) -> Proposal:
    """Propose another policy.

    Args:
        query: Has the `policy`.

    Raises:
        RoomError: No server answers.
        StoreError: There is no such policy, or no store is up.
    """
    name, _ = check_sharing(query.get("policy", ""), None)
    before = _sharings(sources)
    if not before:
        raise RoomError("no server answers, so no policy can be changed", hint="`weir up` starts the servers again")
    rows: list[tuple[Text, ...]] = [
        (f"server {number}", f"{was.policy} by {was.scheduler}", Mark(name, "odd")) for number, was in before.items()
    ]
    present = sources.present()
    at_work = [] if present.interval is None else [each.job for each in present.interval.jobs if each.job.active]
    was = ", ".join(sorted({sharing.policy for sharing in before.values()}))
    return proposal(
        f"Change the policy to {name}",
        f"policy {was} -> {name}",
        rows,
        warning=f"It holds at once, for {len(at_work)} jobs at work now, and over restarts. The page What if tells "
        "what jobs of a past stretch would have had under it.",
        shown=before,
        look=lambda: _sharings(sources),
        change=lambda: _changed(sources, name),
    )


def _changed(sources: Sources, policy: str) -> Page:
    silent: list[Mark] = []
    changed = set_everywhere(sources.find(), (policy, None), noting(silent))
    rows: list[tuple[Text, ...]] = [
        (
            str(each.server.number),
            f"{each.was.policy} by {each.was.scheduler}",
            Mark(f"{each.now.policy} by {each.now.scheduler}", "good"),
        )
        for each in changed
    ]
    panel = Panel("servers", "What changed", table=table_of(("server", "was", "is"), rows), none="nothing changed")
    return Page("The policy is changed", (panel,), (), tuple(silent))


def _sharings(sources: Sources) -> dict[int, Sharing]:
    servers = sources.find()
    answers = zip(servers, ask_all(servers, Server.sharing), strict=True)
    return {server.number: answer for server, answer in answers if not isinstance(answer, StoreError)}
