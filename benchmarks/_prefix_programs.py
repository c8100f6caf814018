"""Programs as people use them, below the prefix of a store without a mount, and on tmpfs."""

import sys
from pathlib import Path

import weir
from _harness import ROOT

sys.path.insert(0, str(ROOT / "tests"))

import prefix_programs


def measure(directory: Path) -> dict[str, float]:
    """Run each program that the machine has on tmpfs and below the prefix.

    Args:
        directory: Fresh folder.

    Returns:
        `prefix_programs` that ran, and `prefix_programs_failed`: those whose output, exit code or tree was another one
        than on tmpfs.
    """
    home = directory / "home"
    names = prefix_programs.present(prefix_programs.PROGRAMS)
    with weir.store.up(home=home, mount=False) as store:
        command: list[str | Path] = [
            Path(sys.executable).with_name("weir"),
            "--home",
            home,
            "run",
            "--prefix",
            prefix_programs.PREFIX,
            "--",
        ]
        found = [prefix_programs.difference(name, command, f"{prefix_programs.PREFIX}/{name}") for name in names]
        store.down(discard=True)
    failed = [each for each in found if each]
    for each in failed:
        print(each, file=sys.stderr)
    return {"prefix_programs": float(len(names)), "prefix_programs_failed": float(len(failed))}
