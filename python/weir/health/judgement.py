"""The findings that follow from facts, and the way of a program to both."""

from typing import TYPE_CHECKING

from weir.health import use
from weir.health.codes import Finding, in_order
from weir.health.facts import Facts
from weir.health.gathering import ANSWER_SECONDS, gather
from weir.health.servers import of_servers
from weir.health.targets import of_targets
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.store.instance import Store

_RULES = (
    of_servers,
    use.of_quotas,
    use.of_jobs,
    use.of_mounts,
    use.of_leases,
    use.of_credentials,
    use.of_planner,
)


def judge(facts: Facts) -> list[Finding]:
    """Derive all findings from facts.

    Returns:
        The findings, the gravest first.
    """
    found = [finding for rule in _RULES for finding in rule(facts)]
    return in_order([*found, *of_targets(facts.answering())])


def findings(store: "Store | Home", *, seconds: float = ANSWER_SECONDS) -> list[Finding]:
    """Ask a store, and derive its findings.

    Args:
        store: A store that is up, or the home of one.
        seconds: Longest wait for all answers together; what is not known by then is a finding.

    Returns:
        The findings, the gravest first; none where nothing is wrong.

    Raises:
        StoreError: No store is up.
    """
    home = store if isinstance(store, Home) else Home(store.home)
    return judge(gather(home, seconds))
