"""A command as a user types it: launchers, wrappers, interpreters and scripts before and around the program."""

import pytest
from weir.prediction.command_line import understand
from weir.tracing.records import Run


def recorded(program: str, arguments: str = "", *, ranks: int = 1, started: float = 0.0) -> Run:
    return Run(program, tuple(arguments.split()), ranks, started, started + 1, (), "weir")


RUNS = [
    recorded("model", "-n 3", ranks=4),
    recorded("python3.11", "/old/one.py 3", ranks=2, started=1),
    recorded("python3.11", "other.py", started=2),
    recorded("sim.x", "in.nml", ranks=16, started=3),
]


@pytest.mark.parametrize(
    ("command", "program", "arguments", "ranks", "like"),
    [
        ("./model -n 5", "model", "-n 5", None, 0),
        ("mpiexec -n 8 ./model -n 5", "model", "-n 5", 8, 0),
        ("mpiexec.mpich -np 8 -ppn 4 /opt/bin/model -n 5", "model", "-n 5", 8, 0),
        ("mpirun --np=12 --bind-to core ./sim.x in.nml", "sim.x", "in.nml", 12, 3),
        ("srun -N 2 --ntasks=32 env OMP_NUM_THREADS=1 ./sim.x in.nml", "sim.x", "in.nml", 32, 3),
        ("srun -n64 ./sim.x in.nml", "sim.x", "in.nml", 64, 3),
        ("flux run -N 2 -n 6 ./model", "model", "", 6, 0),
        ("numactl -N 0 ./model", "model", "", None, 0),
        ("mpiexec -n 3 python3 one.py 7", "python3.11", "one.py 7", 3, 1),
        ("python3 -u other.py", "python3.11", "-u other.py", None, 2),
        ("./one.py 9", "python3.11", "./one.py 9", None, 1),
        ("python3 new.py", "python3.11", "new.py", None, None),
        ("mpiexec -n 4 ./unknown", "mpiexec", "-n 4 ./unknown", None, None),
        ("", "", "", None, None),
    ],
)
def test_the_program_in_a_command(
    command: str, program: str, arguments: str, ranks: int | None, like: int | None
) -> None:
    found = understand(command.split(), RUNS)
    assert (found.program, " ".join(found.arguments), found.ranks) == (program, arguments, ranks)
    assert found.like == (None if like is None else RUNS[like])
