"""Steps of a stream, as the commands of `weir adapt` show them."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir.cli.common.errors import warn
from weir.cli.common.output import size

if TYPE_CHECKING:
    from weir.adaptive.manifest import Manifest


@contextlib.contextmanager
def warnings_said() -> Iterator[None]:
    """Have the warnings of a block said as warnings of the command."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warn(str(warning.message))


def document(manifest: "Manifest", nodes: int | None) -> dict[str, Any]:
    """The JSON of a step, whose array has `nodes` nodes of a mesh."""
    return {
        "step": manifest.number,
        "dtype": manifest.dtype,
        "shape": list(manifest.shape) if nodes is None else [nodes],
        "nodes": nodes,
        "codec": manifest.codec,
        "base_bytes": manifest.base_end,
        "total_bytes": manifest.total_bytes,
        "tier_bytes": [part.length for part in manifest.parts],
    }


def steps_table(manifests: "list[Manifest]", nodes: int | None) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """The header and the rows of a table of steps."""
    from weir.adaptive.manifest import spelled

    tiers = max((len(manifest.parts) for manifest in manifests), default=0)
    header = ("STEP", "ARRAY", "CODEC", "BASE", "TOTAL", *(f"TIER {tier}" for tier in range(tiers)))
    rows: list[tuple[object, ...]] = [
        (
            manifest.number,
            spelled(manifest.dtype, manifest.shape, nodes),
            manifest.codec,
            size(manifest.base_end),
            size(manifest.total_bytes),
            *(size(part.length) for part in manifest.parts),
        )
        for manifest in manifests
    ]
    return header, rows
