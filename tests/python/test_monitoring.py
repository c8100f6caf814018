"""Rules and boards: their names, their expressions in Prometheus itself, and Grafana's schema."""

import http
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from ports import free_ports
from store import Store, program
from waits import PATIENCE_SECONDS, wait_until
from weir.health import CODES
from weir.monitoring import FILES, text_of
from weir.monitoring.findings import are_alike, findings_text

ROOT = Path(__file__).resolve().parents[2]
BOARDS = [part for part in FILES if part.startswith("board")]
FINDINGS = {"weir_findings", "weir_findings_timestamp_seconds"}
"""Metrics of `weir config export findings`."""
PREDICTIONS = {"weir_job_slowed_probability", "weir_job_waited_ratio"}
"""Metrics that a server has while `weir interference serve` predicts."""
SOMETIMES_EMPTY = {
    "board-store: Errors a second",
    "board-store: Time until the store is full",
    "board-store: Processors, memory and network",
    "board-jobs: Who waits for whom",
    "board-jobs: Probability to be slowed",
}
"""Panels with nothing to show of a healthy store with one job."""
NAME = re.compile(r"\bweir_[a-z0-9_]+")
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("prometheus") is None,
    reason="no prometheus: `make setup` unpacks it where apt-get can download it",
)


def documented() -> dict[str, set[str]]:
    """The labels of each metric of servers in the reference page."""
    page = (ROOT / "docs/reference/metrics.md").read_text().partition("## Windows")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `weir_")
    ]
    return {name.strip("`"): set(re.findall(r"\w+", labels)) for name, _, labels, *_ in rows}


def panels(part: str) -> list[dict[str, Any]]:
    """The panels of a board that ask something."""
    return [panel for panel in json.loads(text_of(part))["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression of the boards, with its place, as Grafana asks it for all stores and jobs."""
    values = {"$store": ".*", "$job_name": ".*", "$__rate_interval": "1m"}
    for part in BOARDS:
        for panel in panels(part):
            for target in panel["targets"]:
                expression = target["expr"]
                for variable, value in values.items():
                    expression = expression.replace(variable, value)
                assert "$" not in expression, panel["title"]
                yield f"{part}: {panel['title']}", expression


def rules() -> list[dict[str, Any]]:
    """Every rule."""
    return [rule for group in yaml.safe_load(text_of("rules"))["groups"] for rule in group["rules"]]


def base(name: str) -> str:
    """The name of the histogram that a series belongs to."""
    return re.sub(r"_(bucket|sum|count)$", "", name) if name not in documented() else name


def test_every_metric_of_a_server_is_in_the_reference_page_and_the_other_way_round(store: Store) -> None:
    store.up(mount=False, servers=1, backend="dir")
    exported = set(re.findall(r"^# TYPE (\w+)", metrics(store), re.MULTILINE))
    assert exported == set(documented()) - PREDICTIONS - FINDINGS


def test_rules_and_boards_ask_for_metrics_and_labels_that_there_are() -> None:
    known = documented()
    texts = [expression for _, expression in expressions()] + [rule["expr"] for rule in rules()]
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    assert len(texts) > 50
    labels = {label for each in known.values() for label in each} | {"user", "group", "uid", "store", "instance", "job"}
    for text in texts:
        for name in re.findall(r"[a-z]+:weir_[a-z0-9_]+:[a-z0-9_]+", text):
            assert name in recorded, text
        for name in NAME.findall(re.sub(r"[a-z]+:weir_[a-z0-9_:]+", "", text)):
            assert base(name) in known, text
        grouped = [label for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", text) for label in names.split(", ")]
        matched = [label for names in re.findall(r"\{([^}]*)\}", text) for label in re.findall(r"(\w+)=", names)]
        assert set(grouped + matched) <= labels | {"le"}, text


@pytest.mark.parametrize("part", BOARDS)
def test_a_board_is_one_by_the_schema_of_grafana(part: str) -> None:
    """Grafana's own types drop a key that their schema lacks."""
    register_default_plugins()
    board = json.loads(text_of(part))
    again = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    assert list(dropped(board, again)) == []
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["description"] and panel["title"] for panel in panels(part))


def test_a_key_that_grafana_does_not_know_is_found() -> None:
    register_default_plugins()
    board = {"title": "a", "panels": [{"type": "stat", "title": "b", "nothing": 1, "options": {"graphMod": "none"}}]}
    again = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    assert list(dropped(board, again)) == [".panels[0].nothing", ".panels[0].options.graphMod"]


def dropped(board: Any, again: Any, place: str = "") -> Iterator[str]:
    """The places in a document that differ in what Grafana's types make of it."""
    if isinstance(board, dict) and isinstance(again, dict):
        for key, value in board.items():
            if key in again:
                yield from dropped(value, again[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}"
    elif isinstance(board, list) and isinstance(again, list) and len(board) == len(again):
        for number, pair in enumerate(zip(board, again, strict=True)):
            yield from dropped(*pair, f"{place}[{number}]")
    elif board != again:
        yield place


def test_alerts_have_the_codes_of_findings() -> None:
    codes = {rule["labels"]["code"] for rule in rules() if "code" in rule.get("labels", {})}
    assert len(codes) > 8
    assert codes <= set(CODES)


def test_findings_are_counted_by_code(store: Store) -> None:
    store.up(mount=False)
    lines = store.weir("config", "export", "findings", "--store", "here").stdout.splitlines()
    counts = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}
    assert counts['weir_findings{code="keeps-nothing",level="notice",store="here"}'] == 1
    assert counts['weir_findings{code="server-down",level="error",store="here"}'] == 0
    assert sum(name.startswith("weir_findings{") for name in counts) == len(CODES)
    assert counts['weir_findings_timestamp_seconds{store="here"}'] > 1.7e9
    before = findings_text([], "here")
    assert are_alike(before, findings_text([], "here")), "a later look is no news"
    assert not are_alike(before, "".join(f"{line}\n" for line in lines))


@needs_promtool
def test_prometheus_takes_the_rules_and_their_own_tests_pass(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(text_of("rules"))
    shutil.copy(ROOT / "tests/data/monitoring/rules_test.yml", tmp_path)
    for command in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
        answer = subprocess.run(
            ["promtool", *command], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr


def test_every_alert_is_raised_in_the_tests_of_the_rules() -> None:
    text = (ROOT / "tests/data/monitoring/rules_test.yml").read_text()
    alerts = [rule["alert"] for rule in rules() if "alert" in rule]
    assert [alert for alert in alerts if not re.search(rf"\b{alert}\b", text)] == []


@needs_promtool
def test_prometheus_itself_follows_the_servers_and_answers_every_panel(store: Store, tmp_path: Path) -> None:
    """It reads the exported files as they are; a server that comes back on another port keeps its series."""
    store.up(mount=False, servers=1, backend="dir")
    targets = tmp_path / "weir-targets.json"
    store.weir("config", "export", "rules", "--to", tmp_path / "weir-rules.yml")
    scraping = store.weir("config", "export", "scrape").stdout
    assert "/etc/prometheus/weir-targets.json" in scraping
    scraping = scraping.replace("/etc/prometheus/weir-targets.json", str(targets))
    (tmp_path / "prometheus.yml").write_text("global: {scrape_interval: 1s, evaluation_interval: 1s}\n" + scraping)
    following = ["config", "export", "targets", "--to", str(targets), "--store", "here", "--follow", "1"]
    stop = tmp_path / "stop"
    working = f"until [ -e {stop} ]; do echo words > /weir/f; cat /weir/f; sleep 0.2; done"
    with running([*program(), *following], store.variables()), prometheus(tmp_path) as port:
        wait_until("Prometheus has asked the server", lambda: up(port) == {"here/0": "1"})
        job = ["run", "--prefix", "/weir", "--job", "j", "--", "sh", "-c", working]
        with running([*program(), *job], store.variables()):
            wait_until("every panel has something to show", lambda: unanswered(port) <= SOMETIMES_EMPTY)
            stop.touch()
        for group in ask(port, "rules")["groups"]:
            assert all(rule["health"] == "ok" for rule in group["rules"]), group
        before = targets.read_text()
        store.weir("down")
        wait_until("the alert of a server that is down is pending", lambda: "WeirServerDown" in alerts(port))
        held = free_ports(2)
        store.up(mount=False, servers=1, backend="dir", ports=f"{min(held)}-{max(held)}")
        wait_until("the file has the new address", lambda: targets.read_text() != before)
        wait_until("Prometheus asks at the new address", lambda: up(port) == {"here/0": "1"})


def metrics(store: Store) -> str:
    """The metrics of server 0."""
    address = store.json("status")["servers"][0]["metrics"]
    with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as answer:
        return str(answer.read().decode())


@contextmanager
def prometheus(folder: Path) -> Iterator[int]:
    """Prometheus with the configuration in a folder; its port."""
    (port,) = free_ports(1)
    options = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(["prometheus", *options, "--log.level=error"]):
        yield port


@contextmanager
def running(command: list[str], environment: dict[str, str] | None = None) -> Iterator[None]:
    """A program that is ended after the block."""
    process = subprocess.Popen(command, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def ask(port: int, path: str, **parameters: str) -> Any:
    """The data of an answer of Prometheus; None before it serves."""
    where = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(where, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.SERVICE_UNAVAILABLE:
            raise
    except OSError:
        pass
    return None


def up(port: int) -> dict[str, str]:
    """Whether each server was reached."""
    data = ask(port, "query", query='up{job="weir"}') or {"result": []}
    return {each["metric"]["instance"]: each["value"][1] for each in data["result"]}


def unanswered(port: int) -> set[str]:
    """The panels with an expression that has no value now."""
    return {place for place, expression in expressions() if not ask(port, "query", query=expression)["result"]}


def alerts(port: int) -> set[str]:
    """The alerts that are pending or firing."""
    return {alert["labels"]["alertname"] for alert in ask(port, "alerts")["alerts"]}
