"""JSON Schemas of the planner's messages: `docs/reference/planner` has them as files.

python -m weir.planner.schemas FOLDER    writes them
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from weir.planner import protocol

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
"""Messages, and the results that an answer holds, by the names of their schemas' files."""


def schema(name: str) -> dict[str, Any]:
    """Make the schema of a message from its type.

    Args:
        name: A name of `MESSAGES`.

    Returns:
        The schema (JSON Schema 2020-12).
    """
    found = msgspec.json.schema(MESSAGES[name])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"weir-planner-{name}", **found}


def write(folder: Path) -> None:
    """Write all schemas.

    Args:
        folder: The folder, which is made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in MESSAGES:
        (folder / f"{name}.schema.json").write_text(json.dumps(schema(name), indent=2) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
