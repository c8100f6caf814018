"""The metrics in both formats of Prometheus, and what its own checker says of them."""

import shutil
import subprocess
import urllib.request
from collections.abc import Callable

import pytest
from store import Store
from waits import PATIENCE_SECONDS


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
    assert "# TYPE weir_job_operations_total counter\n" in text
    assert '\nweir_job_operations_total{job_name="writer",' in text
    assert "# EOF" not in text
    kind, text = fetch("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1")
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert "# TYPE weir_job_operations counter\n" in text
    assert text.endswith("# EOF\n")


def test_every_metric_has_help_and_no_label_is_that_of_prometheus(fetch: Callable[..., tuple[str, str]]) -> None:
    _, text = fetch()
    lines = text.splitlines()
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert typed == {line.split()[2] for line in lines if line.startswith("# HELP ")}
    assert len(typed) > 30
    assert not any(label in line for line in lines for label in ('{job="', ',job="', 'instance="'))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: Debian's package prometheus has it")
def test_the_checker_of_prometheus_finds_nothing(fetch: Callable[..., tuple[str, str]]) -> None:
    command = ["promtool", "check", "metrics"]
    _, text = fetch()
    answer = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
