"""Agreement of the paper's labels with the truth of the store, on own windows without and with sharing."""

from pathlib import Path

from _interference_collect import POLICIES, data_set
from weir.interference.agreement import described
from weir.interference.collection import quality


def measure(_directory: Path) -> dict[str, float | None]:
    """Compare labels with truths."""
    figures: dict[str, float | None] = {}
    for policy in POLICIES:
        found, quiet = quality(*data_set(policy))
        print(f"\n{policy}")
        print("\n".join(described(found, quiet)), flush=True)
        ending = "" if policy == "fifo" else "_shared"
        figures |= {
            f"label_truth_correlation{ending}": found.correlation if found else None,
            f"label_truth_median_ratio{ending}": found.median_ratio if found else None,
            f"label_truth_same_class{ending}": found.same_class() if found else None,
        }
    return figures
