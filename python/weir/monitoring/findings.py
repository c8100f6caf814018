"""Findings of `weir health` as metrics, for the collector of text files of Prometheus' node exporter."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from weir.health.codes import CODES, Finding

HEARTBEAT_SECONDS = 300.0
"""Longest time after which a file of findings is written anew though it has the same ones: the alert `WeirFindingsOld`
waits twice as long for a later moment."""
_LOOKED = "weir_findings_timestamp_seconds"


def findings_text(findings: Iterable[Finding], store: str) -> str:
    """Count findings by their codes; a code without a finding has 0, so that an alert ends.

    Args:
        findings: The findings of one look at a store.
        store: The label `store` of all metrics.

    Returns:
        The text of a file that ends in `.prom`.
    """
    registry = CollectorRegistry()
    labels = ["store", "code", "level"]
    count = Gauge("weir_findings", "Findings of weir health by their code", labels, registry=registry)
    for code in CODES.values():
        count.labels(store, code.name, code.level).set(0)
    for finding in findings:
        count.labels(store, finding.code, finding.level).inc()
    looked = Gauge(_LOOKED, "Unix time of the last look", ["store"], registry=registry)
    looked.labels(store).set_to_current_time()
    return generate_latest(registry).decode()


def are_alike(text: str, other: str) -> bool:
    """Tell whether two texts of `findings_text` have the same findings, whenever they were looked for."""
    return _without_moment(text) == _without_moment(other)


def _without_moment(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(_LOOKED)]
