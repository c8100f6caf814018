"""Service-level objectives: the built-in table, stress tests and the tables that are built from them."""

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import get_args

import msgspec
import pytest
import weir.provisioning
from seeds import seeded
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.device_classes import DEVICES
from weir.provisioning.objectives.shipped import built_in
from weir.provisioning.objectives.sslo_tables import measured, simulated
from weir.provisioning.objectives.sslos import Guarantees, Purpose, Semantics, Sensitivities, Sslo, System
from weir.provisioning.stress import kernels, objectives
from weir.provisioning.stress.results import OWNER, StressFigures, StressPoint, StressResult, read_results

DURABLE = Semantics()
TABLES = Path(weir.provisioning.__file__).parent / "tables"


def test_the_table_of_orangefs_has_measurements_alone() -> None:
    """The public data have rows that are others by a factor, and columns that are zero."""
    assert len(measured().sslos) == 288
    assert {each.system.device for each in measured().sslos} == {"nvme", "memory"}
    for each in measured().sslos:
        assert each.guarantees.metadata_operations_per_second is None
        assert each.sensitivities.small is None
        assert each.sensitivities.concurrency is None
        assert (each.sensitivities.mixed is None) == (each.system.servers == 4), each.name
        assert 0.3 < (each.sensitivities.random or 0.0) <= 1.0, each.name


def test_the_built_in_table_covers_all_work_on_all_devices() -> None:
    table = built_in()
    assert len({each.name for each in table.sslos}) == len(table.sslos)
    assert {each.purpose for each in table.sslos} == set(get_args(Purpose))
    assert {each.system.device for each in table.sslos} == {*DEVICES, "memory"}
    for each in table.sslos:
        assert each.system.kind == "weir"
        assert each.semantics.durable == (each.system.device != "memory")
        assert each.name == f"{each.purpose or 'scratch'}-{each.system.device}-{each.system.servers}"
        assert None not in (each.guarantees.metadata_operations_per_second, each.sensitivities.small), each.name
        assert None not in (each.sensitivities.random, each.sensitivities.mixed, each.sensitivities.shared_file)
        rest = msgspec.structs.asdict(each) | {"name": "", "purpose": ""}
        assert any(rest == msgspec.structs.asdict(other) | {"name": ""} for other in simulated().sslos), each.name


def test_each_objective_is_the_best_configuration_for_its_work() -> None:
    """Beside the other objectives of the same store, by the figure of the work."""
    figures: Mapping[str, Callable[[Sslo], float | None]] = {
        "reads": lambda each: each.guarantees.read_bytes_per_second,
        "writes": lambda each: each.guarantees.write_bytes_per_second,
    }
    for each in built_in().sslos:
        if (figure := figures.get(each.purpose)) is not None:
            same = [one for one in simulated().sslos if _store(one) == _store(each)]
            assert figure(each) == max(value for one in same if (value := figure(one)) is not None), each.name


def _store(sslo: Sslo) -> tuple[str, int]:
    return sslo.system.device, sslo.system.servers


def test_rates_of_the_table_of_orangefs_are_bytes_a_second() -> None:
    """The paper's objectives of the same deployments: 1.8 and 2.9 GB/s on four devices (table 9d, SSLO1)."""
    with (TABLES / "orangefs-deployments.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["device"] != "ssd"]
    smallest = [each for each in measured().sslos if _store(each) == ("memory", 4)]
    assert median(each.guarantees.write_bytes_per_second or 0.0 for each in smallest) == pytest.approx(1.8e9, rel=0.05)
    assert median(each.guarantees.read_bytes_per_second or 0.0 for each in smallest) == pytest.approx(2.9e9, rel=0.05)
    assert {each.guarantees.capacity_bytes for each in smallest} == {128 * 10**9}
    assert {each.system.network_bytes_per_second for each in smallest} == {5e9}
    assert sum(float(row["sequential_read_bw_large"]) for row in rows) * 1e6 == pytest.approx(
        sum(each.guarantees.read_bytes_per_second or 0.0 for each in measured().sslos)
    )


def result(kernel: str, repeat: int = 0, processes: int = 4, servers: int = 2, **figures: float) -> StressResult:
    point = StressPoint(
        kernels=kernels.VERSION,
        system=System(device="nvme", servers=servers, settings={"backend": "ram"}),
        semantics=Semantics(durable=False),
        kernel=kernel,
        processes=processes,
        repeat=repeat,
        seconds=1.0,
        file_bytes=1 << 25,
    )
    fields = {name: f"{name}_bytes_per_second" for name in ("read", "write", "mixed")}
    fields["names"] = "metadata_operations_per_second"
    rates = {fields[name]: value for name, value in figures.items()}
    return StressResult(
        key=f"{kernel}-{repeat}-{processes}-{servers}",
        settings=point,
        figures=msgspec.convert(rates, StressFigures),
        refusal=None,
    )


def test_an_objective_has_the_paper_s_three_groups() -> None:
    """Worked by hand: each sensitivity is a part of the guaranteed rates, the mean of read and write."""
    (found,) = objectives.objectives(
        [
            result("hacc", read=1000.0, write=500.0),
            result("hacc-many", read=800.0, write=300.0),
            result("hacc-random", read=500.0, write=125.0),
            result("hacc-mixed", mixed=600.0),
            result("vpic", write=250.0),
            result("bdcats", read=900.0),
            result("enzo", read=100.0, write=100.0),
            result("mdtest", names=5000.0),
        ]
    )
    assert found.guarantees == Guarantees(
        read_bytes_per_second=1000.0, write_bytes_per_second=500.0, metadata_operations_per_second=5000.0
    )
    left = found.sensitivities
    assert left.concurrency == pytest.approx((0.8 + 0.6) / 2)
    assert left.random == pytest.approx((0.5 + 0.25) / 2)
    assert left.mixed == pytest.approx(600 / 750)
    assert left.shared_file == pytest.approx((0.9 + 0.5) / 2)
    assert left.small == pytest.approx((0.1 + 0.2) / 2)
    assert found.semantics == Semantics(durable=False)


def test_a_slow_moment_of_the_machine_is_no_sensitivity() -> None:
    """In the second of three repetitions everything is ten times slower."""
    found = []
    for repeat, speed in enumerate((1.0, 0.1, 1.0)):
        found.append(result("hacc", repeat, read=1000.0 * speed, write=500.0 * speed))
        found.append(result("hacc-random", repeat, read=900.0 * speed, write=450.0 * speed))
    (sslo,) = objectives.objectives(found)
    assert sslo.guarantees.read_bytes_per_second == 1000.0
    assert sslo.sensitivities.random == pytest.approx(0.9)
    assert sslo.sensitivities.small is None
    (without,) = objectives.objectives([*found[1:3], *found[4:]])
    assert without.sensitivities.random == pytest.approx(0.9)


def test_rates_are_those_of_the_best_number_of_processes() -> None:
    given = [result("hacc", processes=number, read=100.0 * number, write=50.0) for number in (2, 8, 4)]
    given += [result("enzo", processes=number, read=10.0, write=5.0) for number in (2, 8, 4)]
    (sslo,) = objectives.objectives(given)
    assert sslo.guarantees.read_bytes_per_second == 800.0
    assert sslo.sensitivities.small == pytest.approx((10 / 800 + 0.1) / 2)


def test_results_that_say_nothing_are_refused() -> None:
    with pytest.raises(ProvisioningError, match="no rates"):
        objectives.table([], source="none")
    with pytest.raises(ProvisioningError, match="no rates"):
        objectives.table([result("mdtest", names=1.0)], source="no kernel with a guarantee")
    with pytest.raises(ProvisioningError, match="no objective has the name lustre"):
        objectives.table([result("hacc", read=1.0, write=1.0)], source="one system", default="lustre")
    with pytest.raises(ProvisioningError, match="fewer than 3 clusters"):
        objectives.table([result("hacc", read=1.0, write=1.0)], source="one system", clusters=3)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("figures", '"read_bytes_per_second": -1e9'),
        ("figures", '"read_bytes_per_second": 1e999'),
        ("settings", '"system": {"device": "nvme", "servers": 0}'),
    ],
)
def test_figures_that_no_system_has_are_refused(place: str, value: str, tmp_path: Path) -> None:
    """A logarithm of such a figure was a traceback, and a plan by it nonsense."""
    header = {"version": 1, "file": OWNER, "digest": "", "parts": {}, "axes": {}}
    (tmp_path / "sweep.json").write_text(json.dumps(header))
    good = result("hacc", read=1e9, write=1e9)
    (tmp_path / "points.ndjson").write_bytes(msgspec.json.encode(good) + b"\n")
    assert read_results([tmp_path]) == [good]
    document = msgspec.to_builtins(good)
    document[place] |= json.loads(f"{{{value}}}")
    (tmp_path / "points.ndjson").write_text(json.dumps(document) + "\n")
    with pytest.raises(ProvisioningError, match="no result of a stress test"):
        read_results([tmp_path])


def objective(read: float, small: float, semantics: Semantics = DURABLE) -> Sslo:
    return Sslo(
        name="",
        system=System(device="nvme", servers=1, settings={"read": str(read), "small": str(small)}),
        guarantees=Guarantees(read_bytes_per_second=read, write_bytes_per_second=read / 2),
        sensitivities=Sensitivities(small=small),
        semantics=semantics,
    )


def test_clusters_are_the_groups_that_there_are() -> None:
    """Three groups of systems, twelve of each: K-means finds them, and a member is in the middle of each."""
    dice = seeded()
    centres = {"slow": (1e8, 0.1), "fast": (4e9, 0.15), "even": (1e9, 0.9)}
    members: Mapping[str, list[Sslo]] = {
        name: [objective(read * dice.uniform(0.9, 1.1), small * dice.uniform(0.9, 1.1)) for _ in range(12)]
        for name, (read, small) in centres.items()
    }
    given = [each for group in members.values() for each in group]
    dice.shuffle(given)
    for found in (objectives.clustered(given), objectives.clustered(given, 3)):
        assert len(found) == 3
        for group in members.values():
            assert sum(each in group for each in found) == 1


def test_semantics_are_never_joined() -> None:
    alike = [objective(1e9 + number, 0.5, Semantics(durable=number % 2 == 0)) for number in range(40)]
    found = objectives.clustered(alike, 2)
    assert {each.semantics.durable for each in found} == {True, False}


def test_the_deployments_of_the_paper_are_clustered_to_few() -> None:
    """The paper's authors made ten classes of 432 deployments; 288 of them are measurements."""
    found = objectives.clustered(measured().sslos)
    assert 2 <= len(found) <= 2 * objectives.CLUSTERS_MAX
    assert all(each in measured().sslos for each in found)
    assert {each.system.device for each in found} == {"nvme", "memory"}
    assert len({(each.system.device, each.system.servers) for each in found}) >= 4
