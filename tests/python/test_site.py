"""The documentation as one site: every page and link is in it, and its search box works without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from rooms import browser
from waits import PATIENCE_SECONDS
from weir import cli

ROOT = Path(__file__).resolve().parents[2]
_ADDRESS = re.compile(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="?(https?://[^"\s>]+)')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, of which no page draws a warning."""
    pytest.importorskip("material", reason="mkdocs-material builds the site, and `make setup` installs it")
    folder = tmp_path_factory.mktemp("site")
    command: list[str | Path] = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    built = subprocess.run(
        [*command, "--config-file", ROOT / "packaging/site/mkdocs.yml"],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return folder


def test_each_page_of_the_project_and_each_command_is_in_the_site(site: Path) -> None:
    documents = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    commands = {Path(f"commands/{name}.html") for name in cli.weir.list_commands(click.Context(cli.weir))}
    made = {path.relative_to(site) for path in site.rglob("*.html")}
    others = {"index", "architecture", "contributing", "changelog", "404"}
    assert made == documents | commands | {Path(f"{name}.html") for name in others}


def test_no_page_asks_another_machine(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert _ADDRESS.findall(path.read_text()) == [], path.name


def test_the_search_box_finds_a_page_in_files(site: Path) -> None:
    """Browsers start no worker for a page that is read from a file, so the search runs in a frame there."""
    asked: list[str] = []
    with browser() as started:
        page = started.new_page()
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.get_by_role("textbox", name="Search").press_sequentially("protection of slowed jobs")
        page.locator(".md-search-result__link[href*='guides/guard.html']").first.wait_for()
    assert [address for address in asked if not address.startswith(("file:", "data:", "about:"))] == []
