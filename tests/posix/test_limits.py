"""Each call of the table of limits answers what the reference page says, in each way into the store."""

import errno
import json
from pathlib import Path

import limits
from ways import PREFIX, Way

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"


def attempt_all(folder: Path) -> None:
    """Make each call in a process of its own, because some change their process; print the errors by name."""
    import os

    for number, refusal in enumerate(limits.TABLE):
        print(json.dumps(refusal.name), end=" ", flush=True)
        below = folder.parent / f"{folder.name}-of-{number}"
        below.mkdir()
        if (child := os.fork()) == 0:
            try:
                refusal.attempt(below)
                print(json.dumps(limits.WORKS), flush=True)
            except OSError as error:
                name = "EOPNOTSUPP" if error.errno == errno.EOPNOTSUPP else errno.errorcode[error.errno or 0]
                print(json.dumps(name), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def test_refused_calls_answer_what_is_documented(way: Way) -> None:
    lines = way.call(attempt_all).splitlines()
    decoder = json.JSONDecoder()
    found = {}
    for line in lines:
        name, end = decoder.raw_decode(line)
        found[name] = json.loads(line[end:])
    expected = {each.name: each.prefix if way.name == PREFIX else each.mount for each in limits.TABLE}
    assert found == expected


def test_the_page_shows_the_table() -> None:
    assert PAGE.read_text() == limits.page(), "print it again: python tests/limits.py > docs/reference/limits.md"
