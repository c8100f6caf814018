"""Everything that `make test` runs: all parts go on whatever fails, and the last lines count.

`python tests/everything.py TARGET...` makes each target of the Makefile in turn and lets its words through; `ONE+OTHER`
makes two at once, and holds the other's words back until its end. The exit code of a part decides whether it failed;
its words are read for the summary alone.
"""

import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CARGO = re.compile(r"test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<skipped>\d+) ignored;")
PYTEST = re.compile(r"^=* ?(?:\d+ \w+, )*\d+ \w+ in \d[\d.]*s")
OUTCOME = re.compile(r"(?P<count>\d+) (?P<outcome>passed|failed|skipped|errors?)\b")


@dataclass
class Part:
    """One target of the Makefile, and what came of it."""

    target: str
    is_held_back: bool = False
    """Whether its words are shown at its end, in one piece."""
    code: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """Makes the target, and counts while its words go by."""
        begun = time.monotonic()
        words: list[str] = []
        command = ["make", "--no-print-directory", "--keep-going", self.target]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                words.append(line)
                if not self.is_held_back:
                    show(words)
                self.counts += counted(line)
        show(words)
        self.code = process.returncode
        self.seconds = time.monotonic() - begun

    def summary(self) -> str:
        """One line: the name, the outcome, and the tests that were counted."""
        outcome = "passed" if self.code == 0 else "FAILED"
        tests = (
            ", ".join(f"{self.counts[name]:,} {name}" for name in ("passed", "failed", "skipped"))
            if self.counts
            else ""
        )
        minutes, seconds = divmod(round(self.seconds), 60)
        return f"{self.target:12} {outcome}  {minutes:2}:{seconds:02}  {tests}".rstrip()


def show(words: list[str]) -> None:
    """Shows words and empties their list; one call writes all, so that those of two parts stay whole."""
    print("".join(words), end="", flush=True)
    words.clear()


def counted(line: str) -> Counter[str]:
    """Finished tests that a line tells of: cargo has such a line for each program of tests, pytest one at its end."""
    line = COLOURS.sub("", line).strip()
    if found := CARGO.search(line):
        return Counter({name: int(count) for name, count in found.groupdict().items()})
    if not PYTEST.match(line):
        return Counter()
    counts: Counter[str] = Counter()
    for found in OUTCOME.finditer(line):
        # A test whose fixture failed is one that did not pass.
        counts["failed" if found["outcome"].startswith("error") else found["outcome"]] += int(found["count"])
    return counts


def main(targets: list[str]) -> int:
    """Runs all parts; 1 where one of them failed."""
    parts = []
    for names in (target.split("+") for target in targets):
        group = [Part(name, is_held_back=name != names[0]) for name in names]
        parts += group
        with ThreadPoolExecutor(len(group)) as threads:
            list(threads.map(Part.run, group))
    print("\n" + "\n".join(part.summary() for part in parts))
    return int(any(part.code for part in parts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
