"""`weir config export`: files for Prometheus and Grafana."""

import time
from collections.abc import Callable
from pathlib import Path

import click

from weir.cli.common.errors import say, warn
from weir.cli.common.parameters import FILE, Checked, Number
from weir.store import values
from weir.store.home import Home

_TARGETS, _SCRAPE, _FINDINGS = "targets", "scrape", "findings"
_FILES = ("rules", "board-store", "board-jobs")
_TARGETS_FILE = "/etc/prometheus/weir-targets.json"


@click.command("export")
@click.argument("part", metavar="PART", type=click.Choice([_SCRAPE, _TARGETS, _FINDINGS, *_FILES]))
@click.option("--to", "file", type=FILE, help="Replace this file, which others may read, instead of printing.")
@click.option(
    "--store",
    type=Checked("name", values.store_name),
    default="weir",
    help="With targets and findings: the store's name in labels.",
)
@click.option(
    "--follow",
    "follow_seconds",
    metavar="SECONDS",
    type=Number(1, 3600),
    help="With targets or findings, and --to: write the file anew this often, if it differs, until Ctrl-C.",
)
@click.pass_obj
def export(home: Home, part: str, file: Path | None, store: str, follow_seconds: float | None) -> None:
    """Print a file for Prometheus or Grafana.

    PART is scrape (a part of prometheus.yml), targets (the addresses of the store's servers, for file_sd_configs),
    findings (the count of findings of `weir health` by code, for the collector of text files of the node exporter),
    rules (recording and alerting rules), board-store or board-jobs (boards, to be imported into Grafana).

    Prometheus reads a file of targets again whenever it changes. With --follow the file is written anew when a server
    has another address; a server keeps its series, because its label `instance` is its number. A file of findings is
    written when they differ, and every five minutes, so that Prometheus notices if the writer has ended.
    """
    from weir.monitoring import scrape_text, text_of

    if follow_seconds is not None and (part not in _MADE or file is None):
        raise click.UsageError("--follow needs the part `targets` or `findings`, and --to FILE")
    if part in _MADE:
        text = _MADE[part](home, store)
    elif part == _SCRAPE:
        text = scrape_text(_TARGETS_FILE)
    else:
        text = text_of(part)
    if file is None:
        print(text, end="")
        return
    _write(file, text)
    if follow_seconds is not None:
        _follow(part, lambda: _MADE[part](home, store), file, text, follow_seconds)


def _targets(home: Home, store: str) -> str:
    from weir.monitoring import targets_text
    from weir.store.control import servers_of
    from weir.store.home import find_cluster

    return targets_text(servers_of(find_cluster(home), None), store)


def _findings(home: Home, store: str) -> str:
    from weir.health import findings
    from weir.health.gathering import PATIENT_SECONDS
    from weir.monitoring.findings import findings_text

    return findings_text(findings(home, seconds=PATIENT_SECONDS), store)


_MADE: dict[str, Callable[[Home, str], str]] = {_TARGETS: _targets, _FINDINGS: _findings}
"""The parts that tell of a store that is up."""


def _follow(part: str, make: Callable[[], str], file: Path, text: str, follow_seconds: float) -> None:
    """Write the file anew when it differs, until Ctrl-C. It stays while no store is up."""
    from weir.store.errors import StoreError

    say(f"{file} is written anew each {follow_seconds:g} s if it differs; end it with Ctrl-C")
    told = ""
    written = time.monotonic()
    try:
        while True:
            time.sleep(follow_seconds)
            try:
                now = make()
            except StoreError as error:
                if error.message != told:
                    warn(f"{file} stays as it is: {error.message}", hint=error.hint)
                told = error.message
                continue
            told = ""
            if _is_news(part, now, text, time.monotonic() - written):
                _write(file, now)
                text, written = now, time.monotonic()
    except KeyboardInterrupt:
        pass


def _is_news(part: str, now: str, text: str, age_seconds: float) -> bool:
    """Whether a text is to be written in place of one that was written this long ago."""
    if part != _FINDINGS:
        return now != text
    from weir.monitoring.findings import HEARTBEAT_SECONDS, are_alike

    return age_seconds >= HEARTBEAT_SECONDS or not are_alike(now, text)


def _write(file: Path, text: str) -> None:
    from weir.ways import write_whole

    write_whole(file, text, mode=0o644)
