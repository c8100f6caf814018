"""Service-level objectives: the built-in table, stress tests and the tables that are built from them."""

import csv
from pathlib import Path

import pytest
import weir.provisioning
from weir.provisioning.sslo_tables import built_in, measured

TABLES = Path(weir.provisioning.__file__).parent / "tables"


def test_the_built_in_table_has_measurements_alone() -> None:
    """The public data have rows that are others by a factor, and columns that are zero."""
    assert len(measured().sslos) == 288
    assert {each.system.device for each in measured().sslos} == {"nvme", "memory"}
    for each in measured().sslos:
        assert each.guarantees.metadata_operations_per_second is None
        assert each.sensitivities.small is None
        assert each.sensitivities.concurrency is None
        assert (each.sensitivities.mixed is None) == (each.system.servers == 4), each.name
        assert 0.3 < (each.sensitivities.random or 0.0) <= 1.0, each.name
    table = built_in()
    assert len({each.name for each in table.sslos}) == len(table.sslos) == 6
    for each in table.sslos:
        assert any(each == other or each.guarantees == other.guarantees for other in measured().sslos), each.name


def test_rates_of_the_built_in_table_are_bytes_a_second() -> None:
    """The paper's objectives of the same deployments: 1.8 and 2.9 GB/s on four devices (table 9d, SSLO1)."""
    with (TABLES / "orangefs-deployments.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["device"] != "ssd"]
    (smallest,) = (each for each in built_in().sslos if each.system.device == "memory" and each.system.servers == 4)
    assert smallest.guarantees.write_bytes_per_second == pytest.approx(1.8e9, rel=0.05)
    assert smallest.guarantees.read_bytes_per_second == pytest.approx(2.9e9, rel=0.05)
    assert smallest.guarantees.capacity_bytes == 128 * 10**9
    assert smallest.system.network_bytes_per_second == 5e9
    assert sum(float(row["sequential_read_bw_large"]) for row in rows) * 1e6 == pytest.approx(
        sum(each.guarantees.read_bytes_per_second or 0.0 for each in measured().sslos)
    )
