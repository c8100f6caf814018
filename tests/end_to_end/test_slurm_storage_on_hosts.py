"""Storage of a job on three nodes under Slurm: each node has network, mounts and a host name of its own."""

from pathlib import Path

import hosts
import pytest
import slurm
import slurm_storage
from hosts import Host

pytestmark = pytest.mark.skipif(
    bool(slurm_storage.missing() or hosts.missing()), reason=slurm_storage.missing() or hosts.missing()
)

NODES = ("n1", "n2", "n3")


def machine(host: Host) -> slurm.Machine:
    return slurm.Machine(host.name, host.address, host.name, host.command)


def test_a_job_on_three_nodes_shares_a_store(tmp_path: Path) -> None:
    """The store lies on a fourth machine; every node reads what was staged in, and writes what is staged out."""
    prolog = f"TaskProlog={slurm_storage.PLUGIN}/task_prolog.sh\n"
    with hosts.hosts(["desk", *NODES], users=[slurm_storage.USER]) as machines:
        nodes = [machine(machines[name]) for name in NODES]
        with slurm_storage.site(machine(machines["desk"]), nodes, node="desk", settings=prolog) as site:
            project = site.project
            (project / "input").mkdir()
            (project / "input" / "words").write_text("the quick brown fox\n")
            number = site.submit(
                f"#WEIR size=64MiB trace={project}/past.darshan",
                f"#WEIR stage_in={project}/input:input stage_out=results:{project}/results",
                # The folder of all hosts is one of this machine, where another host's Unix socket lies, too.
                "export WEIR_TRANSPORT=tcp",
                "srun --nodes=1 --ntasks=1 sh -c 'mkdir ${WEIR_MOUNT:-$WEIR_PREFIX}/results'",
                "srun sh -c 'store=${WEIR_MOUNT:-$WEIR_PREFIX};"
                " { hostname; cat $store/input/words; } >$store/results/$(hostname)'",
                options=("--nodes=3", "--ntasks=3"),
            )
            job = site.await_state(number, "COMPLETED", "FAILED", "CANCELLED")
            assert job["JobState"] == "COMPLETED", job["text"] + site.output(number)
            found = {path.name: path.read_text() for path in (project / "results").iterdir()}
            assert found == {name: f"{name}\nthe quick brown fox\n" for name in NODES}
            site.await_planner(number, "ended")
            processes = machines["desk"].run("pgrep", "--full", f"/slurm-{number}/", code=None)
            assert processes.stdout == ""
