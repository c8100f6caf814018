"""Findings of `weir health` as metrics, for the collector of text files of Prometheus' node exporter."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from weir.health.codes import CODES, Finding


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
    looked = Gauge("weir_findings_timestamp_seconds", "Unix time of the last look", ["store"], registry=registry)
    looked.labels(store).set_to_current_time()
    return generate_latest(registry).decode()
