"""Agreement of labels with the truth of the store and with plain means, on own windows without and with sharing."""

from pathlib import Path

from _interference_collect import POLICIES, data_set
from weir.interference.agreement import described
from weir.interference.collection import quality


def measure(_directory: Path) -> dict[str, float | None]:
    """Compare labels with truths, and the two kinds of label with each other."""
    figures: dict[str, float | None] = {}
    for policy in POLICIES:
        of_set = quality(*data_set(policy))
        found, weighting = of_set.truth, of_set.weighting
        print(f"\n{policy}")
        print("\n".join(described(of_set)), flush=True)
        ending = "" if policy == "fifo" else "_shared"
        figures |= {
            f"label_truth_correlation{ending}": found.correlation if found else None,
            f"label_truth_median_ratio{ending}": found.median_ratio if found else None,
            f"label_truth_same_class{ending}": found.same_class() if found else None,
            f"label_mean_crossing{ending}": sum(weighting.crossing()) / weighting.windows if weighting else None,
        }
    return figures
