"""Files for Prometheus and Grafana: rules, boards, and the list of a store's servers."""

import json
from collections.abc import Iterable
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir.store.control import Server

FILES = {"rules": "rules.yml", "board-store": "board-store.json", "board-jobs": "board-jobs.json"}
"""The files that the package brings, by the name of the part."""


def text_of(part: str) -> str:
    """Read a file that the package brings.

    Args:
        part: A name in `FILES`.

    Returns:
        JSON or YAML.
    """
    return files(__name__).joinpath(FILES[part]).read_text(encoding="utf-8")


def targets_text(servers: "Iterable[Server]", store: str) -> str:
    """Describe the servers of a store for `file_sd_configs` of Prometheus.

    A server keeps its `instance` where it moves to another address, so that its series go on.

    Args:
        servers: The servers, which are not asked.
        store: The label `store` of all of them.

    Returns:
        The JSON text.
    """
    groups = [
        {"targets": [server.control], "labels": {"store": store, "instance": f"{store}/{server.number}"}}
        for server in servers
    ]
    return json.dumps(groups, indent=2) + "\n"


def scrape_text(targets_file: str) -> str:
    """Write the part of `prometheus.yml` that names the rules and the servers.

    Args:
        targets_file: Path of the file of targets.

    Returns:
        The YAML text.
    """
    return f"""\
rule_files:
  - weir-rules.yml
scrape_configs:
  - job_name: weir
    file_sd_configs:
      - files: [{json.dumps(targets_file)}]
"""
