"""JSON Schemas of the documents of provisioning: `docs/reference/schemas` has them as files.

python -m weir.provisioning.schemas FOLDER    writes them
"""

import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from weir.provisioning.behaviour.classes import ClassTable
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.behaviour.traits import Traits
from weir.provisioning.deployments import Deployment
from weir.provisioning.jobs.job import Job
from weir.provisioning.learning.report import Report
from weir.provisioning.objectives.sslos import SsloTable
from weir.provisioning.planning.planner import Plan
from weir.provisioning.resources.model import Resources
from weir.provisioning.sharing.interference_factors import FactorTable
from weir.provisioning.sharing.prices import PriceList
from weir.provisioning.stress.results import StressResult

DOCUMENTS: Mapping[str, type[msgspec.Struct]] = {
    "traits": Traits,
    "job": Job,
    "identity": Identity,
    "classes": ClassTable,
    "class-report": Report,
    "sslos": SsloTable,
    "stress": StressResult,
    "deployment": Deployment,
    "resources": Resources,
    "plan": Plan,
    "interference": FactorTable,
    "prices": PriceList,
}
"""Documents by the names of their schemas' files."""


def schema(name: str) -> dict[str, Any]:
    """Make the schema of a document from its type.

    Args:
        name: A name of `DOCUMENTS`.

    Returns:
        The schema (JSON Schema 2020-12).
    """
    return schema_of(DOCUMENTS[name], f"weir-{name}")


def schema_of(kind: Any, title: str) -> dict[str, Any]:
    """Make the schema of a type.

    Args:
        kind: A type that msgspec decodes.
        title: The schema's title.

    Returns:
        The schema (JSON Schema 2020-12).
    """
    described = _tidied(msgspec.json.schema(kind))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **described}


def _tidied(part: Any) -> Any:
    """Take from descriptions the indentation of the source, which some versions of msgspec leave in them."""
    if isinstance(part, dict):
        tidied = {key: _tidied(each) for key, each in part.items()}
        description = part.get("description")
        return {**tidied, "description": inspect.cleandoc(description)} if isinstance(description, str) else tidied
    return [_tidied(each) for each in part] if isinstance(part, list) else part


def write(folder: Path) -> None:
    """Write all schemas.

    Args:
        folder: The folder, which is made.
    """
    write_files(folder, {name: schema(name) for name in DOCUMENTS})


def write_files(folder: Path, schemas: Mapping[str, Mapping[str, Any]]) -> None:
    """Write schemas, each in a file of its name.

    Args:
        folder: The folder, which is made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, each in schemas.items():
        (folder / f"{name}.schema.json").write_text(json.dumps(each, indent=2) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
