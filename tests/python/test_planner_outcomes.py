"""The resident planner keeps what runs had of their storage, and plans by it."""

import os
from pathlib import Path

import msgspec
import pytest
from resident import IDENTITY, planner
from weir.planner import protocol
from weir.planner.protocol import Summary, Variables
from weir.planner.stores import open_store
from weir.provisioning.objectives.sslos import Guarantees
from weir.provisioning.outcomes.outcome import Calls, Outcome


@pytest.fixture
def folder() -> Path:
    return Path("/tmp") / f"weir-planner-{os.getpid()}-outcomes"


def test_what_a_run_had_is_kept_and_the_next_plan_knows(folder: Path) -> None:
    """The step tells the measurement alone: what the planner knows itself no user's process can claim."""
    with planner(folder) as made:
        made.start()
        first = made.plan("run-1").deployment
        system = msgspec.structs.replace(first.system, device="claimed")
        slow = Outcome(
            begun=1.0,
            job="claimed",
            behaviour_class="claimed",
            sslo="claimed",
            system=system,
            planned=msgspec.structs.replace(IDENTITY, written_bytes=1),
            done=IDENTITY,
            predicted=Guarantees(),
            calls={"write": Calls(operations=10**6, bytes=IDENTITY.written_bytes, seconds=1e6)},
            covered=1.0,
            exit_code=None,
        )
        (made.control / "measured").write_bytes(msgspec.json.encode(slow))
        made.ask(protocol.GetEnvironment(name="run-1", wait_seconds=600), Variables)
        made.ask(protocol.StageOut(name="run-1", wait_seconds=600), Summary)
        second = made.plan("run-2").deployment
        rates = [each.expected.write_bytes_per_second or 0.0 for each in (first, second)]
        assert rates[1] < rates[0] / 2
        made.stop()
        store = open_store(f"sqlite:///{folder}/state/planner.db")
        (kept,) = store.outcomes(os.geteuid())
        store.close()
    assert kept.calls == slow.calls and kept.planned == IDENTITY and kept.system == first.system
    assert (kept.behaviour_class, kept.sslo) == (first.behaviour_class, first.sslo) and kept.job != "claimed"
