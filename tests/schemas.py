"""JSON Schemas of the documents of provisioning and of the planner's messages, from their types.

Run as a program it writes docs/reference/schemas and docs/reference/planner.
"""

import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from weir.planner import protocol
from weir.provisioning.behaviour.classes import ClassTable
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.behaviour.traits import Traits
from weir.provisioning.deployments import Deployment
from weir.provisioning.jobs.job import Job
from weir.provisioning.learning.report import Report
from weir.provisioning.objectives.sslos import SsloTable
from weir.provisioning.outcomes.outcome import Outcome
from weir.provisioning.planning.planner import Plan
from weir.provisioning.resources.model import Resources
from weir.provisioning.sharing.interference_factors import FactorTable
from weir.provisioning.sharing.prices import PriceList
from weir.provisioning.stress.results import StressResult

REFERENCE = Path(__file__).resolve().parents[1] / "docs/reference"
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
    "outcome": Outcome,
    "interference": FactorTable,
    "prices": PriceList,
}
MESSAGES: Mapping[str, Any] = {
    "request": protocol.AnyRequest,
    "answer": protocol.Answer,
    "planned": protocol.Planned,
    "valid": protocol.Valid,
    "summary": protocol.Summary,
    "shown": protocol.Shown,
    "variables": protocol.Variables,
    "listed": protocol.Listed,
    "pools": protocol.PoolList,
    "hello": protocol.Hello,
}
"""Messages, and the results that an answer holds."""


def schema(name: str) -> dict[str, Any]:
    """The schema (JSON Schema 2020-12) of a document or a message."""
    kind, title = (DOCUMENTS[name], name) if name in DOCUMENTS else (MESSAGES[name], f"planner-{name}")
    described = _tidied(msgspec.json.schema(kind))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"weir-{title}", **described}


def files() -> Iterator[tuple[Path, str]]:
    """Each published schema: its place and its text."""
    for folder, kinds in (("schemas", DOCUMENTS), ("planner", MESSAGES)):
        for name in kinds:
            yield REFERENCE / folder / f"{name}.schema.json", json.dumps(schema(name), indent=2) + "\n"


def _tidied(part: Any) -> Any:
    """Take from descriptions the indentation of the source, which some versions of msgspec leave in them."""
    if isinstance(part, dict):
        tidied = {key: _tidied(each) for key, each in part.items()}
        description = part.get("description")
        return {**tidied, "description": inspect.cleandoc(description)} if isinstance(description, str) else tidied
    return [_tidied(each) for each in part] if isinstance(part, list) else part


if __name__ == "__main__":
    for path, text in files():
        path.write_text(text)
