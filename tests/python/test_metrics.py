"""The metrics in both formats of Prometheus, their number, and what its own checker says of them."""

import gzip
import http.client
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable

import pytest
from store import Store
from waits import PATIENCE_SECONDS, wait_until


@pytest.fixture
def fetch(store: Store) -> Callable[..., tuple[str, str]]:
    """The metrics of a server on which a job worked, and their content type."""
    store.up(mount=False)
    store.weir("run", "--prefix", "/weir", "--job", "writer", "--", "sh", "-c", "echo words > /weir/file")
    address = store.json("status")["servers"][0]["metrics"]

    def fetch_as(accept: str | None = None) -> tuple[str, str]:
        request = urllib.request.Request(address, headers={} if accept is None else {"Accept": accept})
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    return fetch_as


def test_prometheus_is_given_openmetrics_and_others_the_text_format(fetch: Callable[..., tuple[str, str]]) -> None:
    kind, text = fetch()
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert "# TYPE weir_user_operations_total counter\n" in text
    assert "\nweir_user_operations_total{user=" in text
    assert "# EOF" not in text
    kind, text = fetch("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1")
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert "# TYPE weir_user_operations counter\n" in text
    assert text.endswith("# EOF\n")


def test_every_metric_has_help_and_no_label_is_that_of_prometheus(fetch: Callable[..., tuple[str, str]]) -> None:
    _, text = fetch()
    lines = text.splitlines()
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert typed == {line.split()[2] for line in lines if line.startswith("# HELP ")}
    assert len(typed) > 30
    assert not any(label in line for line in lines for label in ('{job="', ',job="', 'instance="'))


def test_short_jobs_add_no_series_and_their_work_is_counted(store: Store) -> None:
    """Each `weir run` added 21 series, for its job's name holds the number of its process."""
    store.up(mount=False)
    address = store.json("status")["servers"][0]["metrics"]

    def samples() -> dict[str, float]:
        with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        split = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in split}

    def write() -> None:
        store.weir("run", "--prefix", "/weir", "--", "sh", "-c", "echo words > /weir/file")

    def of_jobs() -> list[str]:
        return [name for name in samples() if name.startswith("weir_job_")]

    write()
    wait_until("the first job has ended for its server, too", lambda: not of_jobs())
    before = samples()
    runs = 8
    for _ in range(runs):
        write()
    wait_until("the last job has ended for its server, too", lambda: not of_jobs())
    after = samples()
    assert len(after) - len(before) < runs, "the store itself has a few more, of its costs and placements"
    [name] = [name for name in after if name.startswith("weir_user_written") and f'uid="{os.getuid()}"' in name]
    assert after[name] - before[name] == runs * len("words\n")


def test_scrapers_may_ask_for_heads_and_packed_answers_and_are_told_the_methods(store: Store) -> None:
    store.up(mount=False)
    where = urllib.parse.urlsplit(store.json("status")["servers"][0]["metrics"])

    def ask(method: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(where.netloc, timeout=PATIENCE_SECONDS)
        connection.request(method, where.path, headers={name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    plain, text = ask("GET")
    head, nothing = ask("HEAD")
    assert (plain.status, head.status, nothing) == (200, 200, b"")
    assert head.headers["Content-Type"] == plain.headers["Content-Type"]
    assert int(head.headers["Content-Length"]) > len(text) // 2
    for accepted, is_packed in (("gzip", True), ("deflate, gzip;q=0.5", True), ("gzip;q=0", False), ("br", False)):
        answer, body = ask("GET", Accept_Encoding=accepted)
        assert (answer.headers["Content-Encoding"] == "gzip") == is_packed, accepted
        lines = (gzip.decompress(body) if is_packed else body).splitlines()
        assert b"# TYPE weir_connections gauge" in lines
        assert len(body) < len(text) // 3 or not is_packed
    for method in ("POST", "DELETE", "PUT"):
        answer, _ = ask(method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD"), method


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: Debian's package prometheus has it")
def test_the_checker_of_prometheus_finds_nothing(fetch: Callable[..., tuple[str, str]]) -> None:
    command = ["promtool", "check", "metrics"]
    _, text = fetch()
    answer = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
