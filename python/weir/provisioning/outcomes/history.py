"""The history of classes of behaviour, and the demand for devices, by the outcomes of deployments."""

from collections.abc import Sequence

import msgspec

from weir.provisioning.behaviour.classes import ClassTable, with_job
from weir.provisioning.outcomes.outcome import Outcome, silence
from weir.provisioning.sharing.demand import demands
from weir.provisioning.sharing.prices import PriceList

JOBS_MAX = 64
"""Most jobs that are counted in classes, the latest: each is compared with every class."""


def with_history(table: ClassTable, outcomes: Sequence[Outcome]) -> ClassTable:
    """Count jobs in a table of classes, each by the work of its latest run that says something.

    Args:
        outcomes: The outcomes, the latest last.

    Returns:
        The table; a job that is far from every class has opened one of its own.
    """
    latest: dict[str, Outcome] = {}
    for each in reversed(outcomes):
        if each.job not in latest and not silence(each):
            latest[each.job] = each
            if len(latest) == JOBS_MAX:
                break
    for each in reversed(latest.values()):
        table, _, _ = with_job(table, each.done)
    return table


def with_demand(prices: PriceList, outcomes: Sequence[Outcome], now: float) -> PriceList:
    """Weigh prices by the demand that outcomes show.

    Args:
        now: Time in seconds since 1970.

    Returns:
        The prices; a demand that the administrator set stays.
    """
    # Who joins a store asks for no devices.
    requests = ((each.begun, each.system.device) for each in outcomes if each.owned)
    return msgspec.structs.replace(prices, demands={**demands(requests, now, prices.pricing), **prices.demands})
