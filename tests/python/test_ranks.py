"""Ranks of a job: each of them takes part in each phase once."""

import subprocess
import sys
from pathlib import Path

from waits import PATIENCE_SECONDS

PHASES, RANKS = 200, 16
PROGRAM = """
import sys
from pathlib import Path
from weir.experiments.ranks import Phases, Ranks

folder, count, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


def work(number: int, phases: Phases) -> None:
    phases.done()
    with (folder / str(number)).open("a") as file:
        while (word := phases.next()) is not None:
            print(word, file=file)
            phases.done()


ranks = Ranks(count, work)
assert ranks.all_done()
for number in range(rounds):
    ranks.begin(str(number))
    assert ranks.all_done()
sys.exit(ranks.end())
"""


def test_each_rank_runs_each_phase_once(tmp_path: Path) -> None:
    """A rank that was through a short phase took the word of one that had not begun, and ran the phase twice."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(RANKS), str(PHASES)]
    subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)
    expected = [str(number) for number in range(PHASES)]
    for number in range(RANKS):
        assert (tmp_path / str(number)).read_text().split() == expected, number
