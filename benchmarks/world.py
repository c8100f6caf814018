"""The worlds: how fast they are, which rules they miss, and the lines and minutes that they cost and save.

make bench-world        the last line is one JSON object; ARGUMENTS=worlds runs one part alone

| part | figures |
|---|---|
| worlds | `seeds` worlds within five minutes, their `violations`, `virtual_hours_per_minute`, `replays_identical` |
| mutants | `mutants` rules that were taken out, `mutants_found` |
| lines | `source_lines` without tests and worlds, beside `source_lines_before` worlds |
| tests | `test_minutes` of `make test` |
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from _harness import ROOT, announce, measure_parts

sys.path.insert(0, str(ROOT / "tests"))
from rust_sources import blanked, end_of_item, without_tests

SECONDS = 300
LINES_BEFORE = 166_282
"""Lines that this file counted in commit 44067bc5, the last one before the core was made apart."""
APART = {"world", "testing"}
"""Crates that are tests as a whole."""
WORLD_ITEM = re.compile(r"#\[cfg\((?:any\(test, +)?feature = +\)+\]")
"""The mark of what is built for worlds alone, or for tests and worlds; `world` is the one feature that sources name."""
FIGURES = {
    "worlds": ("seeds", "violations", "virtual_hours_per_minute", "replays_identical"),
    "mutants": ("mutants", "mutants_found"),
    "lines": ("source_lines_before", "source_lines"),
    "tests": ("test_minutes",),
}


def run_worlds(*arguments: str) -> dict[str, float]:
    """The figures of the worlds' program, whatever it found; its other lines are shown."""
    command = ["cargo", "run", "--quiet", "--release", "--locked", "--package=weir-world", "--"]
    ran = subprocess.run(
        [*command, "--log", "target/world.log", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    *lines, last = ran.stdout.splitlines()
    print("\n".join(lines))
    return {name: float(value) for name, value in json.loads(last).items()}


def of_product(path: Path) -> tuple[str, set[Path]]:
    """The Rust of a file without comments, tests and items that are built for worlds, and the files of such modules."""
    code, apart = without_tests(blanked(path.read_text())), set()
    folder = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.with_suffix("")
    while found := WORLD_ITEM.search(code):
        end = end_of_item(code, found.end())
        item = code[found.start() : end]
        apart |= {folder / f"{name}.rs" for name in re.findall(r"\bmod (\w+);", item)}
        code = code[: found.start()] + code[end:]
    return code, apart


def source_lines(root: Path) -> int:
    """Lines of the product in a checkout: Rust without comments, empty lines, tests and worlds' own, and Python."""
    files: dict[Path, str] = {}
    apart: set[Path] = set()
    for path in root.glob("crates/*/src/**/*.rs"):
        crate, parts = path.relative_to(root).parts[1], path.relative_to(root).parts
        if crate not in APART and "tests" not in parts and not path.name.endswith("tests.rs"):
            files[path], modules = of_product(path)
            apart |= modules
    product = (code for path, code in files.items() if path not in apart)
    rust = sum(bool(line.strip()) for code in product for line in code.splitlines())
    python = sum(len(path.read_text().splitlines()) for path in (root / "python").rglob("*.py"))
    return rust + python


def measure(part: str) -> Mapping[str, float | None]:
    """The figures of one part."""
    if part == "worlds":
        figures = run_worlds("--seconds", str(SECONDS))
        hours = figures["virtual_hours_per_minute"]
        announce("worlds", f"{hours:.1f} h a minute", "the time of this machine", hours * 60)
        return figures
    if part == "mutants":
        figures = run_worlds("--mutants")
        found, taken_out = figures["mutants_found"], figures["mutants"]
        announce("mutants", f"{found:.0f} found", f"{taken_out:.0f} rules taken out", found / taken_out)
        return figures
    if part == "lines":
        lines = source_lines(ROOT)
        announce("lines", f"{lines:,}", f"{LINES_BEFORE:,} before", lines / LINES_BEFORE)
        return {"source_lines_before": LINES_BEFORE, "source_lines": lines}
    begin = time.monotonic()
    subprocess.run(["make", "test"], cwd=ROOT, check=True)
    minutes = (time.monotonic() - begin) / 60
    announce("make test", f"{minutes:.1f} min", "15 min that were asked", minutes / 15)
    return {"test_minutes": minutes}


def main() -> None:
    parts: dict[str, tuple[str, Sequence[str]]] = {part: ("world.py", owed) for part, owed in FIGURES.items()}
    measure_parts("world", parts, measure)


if __name__ == "__main__":
    main()
