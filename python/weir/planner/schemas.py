"""JSON Schemas of the planner's messages: `docs/reference/planner` has them as files.

python -m weir.planner.schemas FOLDER    writes them
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weir.planner import protocol
from weir.provisioning.schemas import schema_of, write_files

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
    return schema_of(MESSAGES[name], f"weir-planner-{name}")


def write(folder: Path) -> None:
    """Write all schemas.

    Args:
        folder: The folder, which is made.
    """
    write_files(folder, {name: schema(name) for name in MESSAGES})


if __name__ == "__main__":
    write(Path(sys.argv[1]))
