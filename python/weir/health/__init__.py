"""The health of a store: coded findings, each with cause, object, beginning, risk, and the command that mends it.

`findings` asks a store and derives them. `gather` and `judge` are its two halves: the first asks everybody at once with
one bound, and the second decides without asking anybody.
"""

from typing import TYPE_CHECKING

from weir.exports import exporting

if TYPE_CHECKING:
    from weir.health.codes import CODES, Code, Finding
    from weir.health.facts import Facts
    from weir.health.gathering import gather
    from weir.health.judgement import findings, judge
    from weir.health.targets import of_targets
    from weir.health.use import job_words

__all__ = ["CODES", "Code", "Facts", "Finding", "findings", "gather", "job_words", "judge", "of_targets"]

__getattr__, __dir__ = exporting(
    __name__,
    {
        "CODES": "codes",
        "Code": "codes",
        "Facts": "facts",
        "Finding": "codes",
        "findings": "judgement",
        "gather": "gathering",
        "job_words": "use",
        "judge": "judgement",
        "of_targets": "targets",
    },
)
