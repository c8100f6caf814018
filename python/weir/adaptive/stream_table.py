"""Readers and steps of streams as tables for notebooks."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weir.amounts import Quantity, seconds, share, size
from weir.html_table import html_table

if TYPE_CHECKING:
    from weir.adaptive.fetch import TierRead
    from weir.adaptive.manifest import Stream
    from weir.adaptive.reader import Step
    from weir.adaptive.tiers import Tier

_READS = ("tier", "read", "wanted", "time", "bandwidth", "forecast")


def step_html(step: "Step") -> str:
    """Show a step as HTML: its accuracy, and its reads from each tier; no values."""
    shape = " x ".join(map(str, step.data.shape))
    title = (
        f"Step {step.number}: {shape} {step.data.dtype}, max_error {step.max_error:.3g}, "
        f"{share(step.augmentation)} of the augmentation in {seconds(step.waited_seconds)}"
    )
    notes = ["The deadline came before all planned bytes."] if step.late else []
    return html_table(title, _READS, [_read(tier) for tier in step.tiers], notes=[*notes, *step.problems])


def _read(tier: "TierRead") -> Sequence[object]:
    return (
        *(tier.url, size(tier.read_bytes), size(tier.wanted_bytes), seconds(tier.seconds)),
        *(None if rate is None else Quantity(f"{rate / 1e6:.3g} MB/s") for rate in (tier.bandwidth, tier.forecast)),
    )


def reader_html(stream: "Stream", tiers: Sequence["Tier"], steps: int, settings: Mapping[str, object]) -> str:
    """Show a reader as HTML.

    Args:
        tiers: Tiers that the reader uses, the fastest first.
        steps: Number of steps that were seen.
        settings: Settings of the reader by their names; those that are None or off are left out.
    """
    shape = " x ".join(map(str, stream.shape if stream.nodes is None else (stream.nodes,)))
    rows: list[Sequence[object]] = [
        (f"tier {number}", tier.url if tier.zone is None else f"{tier.url} ({tier.zone})")
        for number, tier in enumerate(tiers)
    ]
    rows += [(name, value) for name, value in settings.items() if value is not None and value is not False]
    if stream.tolerance is not None:
        rows.append(("tolerance of a whole step", stream.tolerance))
    title = f"Stream of {steps} steps: {shape} {stream.dtype}, {'exact' if stream.exact else stream.codec}"
    return html_table(title, ("", ""), rows)
