"""Commands of the documentation run as they are printed, in the order of the page, with files that are shipped."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from store import Store, program
from waits import PATIENCE_SECONDS
from ways import has_fuse

ROOT = Path(__file__).resolve().parents[2]

PAGES = ("README.md", "docs/quick-start.md")

ELSEWHERE = {
    "make demo": "the demo has a test of its own",
    "make test": "it runs this test",
    "make setup": "it was run before this test",
    "export PATH=": "the test sets it",
    "weir top": "it goes on until it is ended; it has a test of its own",
}
"""Commands that are not run, by their begin, and why."""

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """The commands of a page's console blocks, without their comments."""
    blocks = _BLOCK.findall(page.read_text())
    printed = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [re.sub(r"\s{2,}#.*", "", line) for line in printed]


def test_what_is_left_out_is_there() -> None:
    printed = [command for page in PAGES for command in commands(ROOT / page)]
    for begin in ELSEWHERE:
        assert any(command.startswith(begin) for command in printed), f"no page has `{begin}` any more"


@pytest.mark.skipif(not has_fuse(), reason="no store can be mounted here")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work(make_store: Callable[[], Store], page: str) -> None:
    store = make_store()
    run = [command for command in commands(ROOT / page) if not command.startswith(tuple(ELSEWHERE))]
    assert len(run) >= 5
    folder = Path(program()[0]).parent
    script = "\n".join(["set -eo pipefail", *(f"echo {_quoted(command)} >&2\n{command}" for command in run)])
    answer = subprocess.run(
        ["bash", "-c", script],
        env={**store.variables(), "PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, f"{page}: the last of these failed\n{answer.stderr}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
