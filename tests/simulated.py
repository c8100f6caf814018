"""Small scenarios whose outcome can be worked out by hand."""

from pathlib import Path

from weir.simulation.scenario import Scenario, parse_scenario

MACHINES = """
[topology]
name = "pair"
clients = { nodes = 8, link = { rate = "10GB/s" } }
[[topology.servers]]
count = 2
link = { rate = "10GB/s" }
[[topology.servers.targets]]
count = 2
capacity = "1TiB"
read = "100MB/s"
write = "100MB/s"
"""
"""Two servers of two targets of 100 MB/s, with links that bound nothing."""

TWO_WRITERS = """
policy = "size-fair"
seed = 3
layout = { stripe_count = 4, stripe_size = "1MiB" }
[[jobs]]
generator = "ior"
name = "large"
user = "ada"
nodes = 3
processes = 3
processes_per_node = 1
depth = 16
block = "400MiB"
[[jobs]]
generator = "ior"
name = "small"
user = "bob"
nodes = 1
processes = 1
processes_per_node = 1
depth = 16
block = "400MiB"
"""
"""A job of three nodes and a job of one write to all targets at once."""


def scenario_text(jobs: str = TWO_WRITERS) -> str:
    """Make a scenario of the machines above.

    Args:
        jobs: Its settings and jobs.

    Returns:
        The text of a scenario.toml.
    """
    return jobs + MACHINES


def scenario(jobs: str = TWO_WRITERS) -> Scenario:
    """Read a scenario of the machines above.

    Args:
        jobs: Its settings and jobs.

    Returns:
        The scenario.
    """
    return parse_scenario(scenario_text(jobs), origin="scenario.toml", folder=Path())


def written(folder: Path, jobs: str = TWO_WRITERS, name: str = "scenario.toml") -> Path:
    """Write a scenario's file.

    Args:
        folder: Its folder.
        jobs: Its settings and jobs.
        name: Name of the file.

    Returns:
        Its path.
    """
    path = folder / name
    path.write_text(scenario_text(jobs))
    return path
