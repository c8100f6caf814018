"""Prices and interference factors that the administrator gives the planner."""

import os
from pathlib import Path

import msgspec
import pytest
from resident import IDENTITY, Planner, planner, script
from weir.planner import protocol
from weir.planner.errors import PlannerError
from weir.planner.protocol import Planned, Summary, Variables
from weir.provisioning.behaviour.classes import built_in
from weir.provisioning.sharing.interference_factors import Factor, FactorTable
from weir.provisioning.sharing.prices import PriceList, Tier


@pytest.fixture
def folder() -> Path:
    """A short place for a planner."""
    return Path(f"/tmp/weir-t{os.getpid()}")


def give(made: Planner, cost: float, slowdown: float) -> None:
    """Write the tables: the price of an SSD, and the slowdown of all jobs beside each other."""
    prices = PriceList(tiers=(Tier(device="ssd", cost=cost, total=0, free=0),))
    (made.folder / "prices.json").write_bytes(msgspec.json.encode(prices))
    factor = Factor(one="any", other="any", same_node=True, processes=1, slowdown=slowdown)
    table = FactorTable(source="test", conditions="none", factors=(factor,))
    (made.folder / "factors.json").write_bytes(msgspec.json.encode(table))


def refusal(made: Planner, request: protocol.Plan) -> PlannerError:
    with pytest.raises(PlannerError) as caught:
        made.ask(request, Planned)
    return caught.value


def test_plans_weigh_the_prices_and_factors_of_the_administrator(folder: Path) -> None:
    tables = ("--prices", str(folder / "prices.json"), "--factors", str(folder / "factors.json"))
    with planner(folder, "--steps", "planner_steps", *tables) as made:
        give(made, cost=3.0, slowdown=4.0)
        made.start()
        low = made.plan("owner", " policy=interference lease=1h").deployment.price
        assert low > 0
        made.ask(protocol.GetEnvironment(name="owner", wait_seconds=600), Variables)
        made.ask(protocol.Teardown(name="owner", wait_seconds=600), Summary)
        made.until("owner", "kept")
        assert made.plan("first", " policy=interference size=100MiB").deployment.joins == "owner"
        # Beside the first one a job would take four times as long, which no user allowed.
        assert not made.plan("wary", " policy=interference size=100MiB").deployment.joins
        request = protocol.Plan(script=script(" policy=performance"), identity=IDENTITY)
        first = made.ask(request, Planned).deployment
        made.stop()
        give(made, cost=6.0, slowdown=1.0)
        made.start()
        # Nothing changed but the tables: the plan that the planner has of this job does not hold any more.
        again = made.ask(msgspec.structs.replace(request, identity=None), Planned)
        assert again.known and again.deployment.servers == first.servers
        assert again.deployment.price == pytest.approx(2 * first.price) and first.price > low
        assert made.plan("guest", " policy=interference size=100MiB").deployment.joins == "owner"
        costly = protocol.Plan(script=script(f" budget={low} policy=performance"), identity=IDENTITY)
        assert "budget" in refusal(made, costly).message


@pytest.mark.parametrize("fitness", ["0", "1"])
def test_the_fitness_of_a_new_class_is_the_administrator_s(folder: Path, fitness: str) -> None:
    with planner(folder, "--steps", "planner_steps", "--new-class", fitness) as made:
        made.start()
        own = made.plan("job").deployment.behaviour_class
        is_known = own in {each.name for each in built_in().classes}
        assert is_known == (fitness == "0")
        assert is_known or own == IDENTITY.name


def test_tables_that_cannot_be_used_are_refused_at_the_start(folder: Path) -> None:
    with planner(folder) as made:
        for option, words in (("--prices", "list of prices"), ("--factors", "table of interference factors")):
            file = folder / "table.json"
            asked = Planner(folder, ("--steps", "planner_steps", option, str(file)))
            missing = asked.refused()
            assert str(file) in missing and "hint:" in missing
            file.write_text('{"tiers": 3}')
            wrong = asked.refused()
            assert f"is no {words}" in wrong and "hint:" in wrong and "Traceback" not in wrong
            file.unlink()
            # Nothing was made.
            assert not (folder / "state").exists() and not made.socket.exists()
