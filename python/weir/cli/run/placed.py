"""`weir run --placement`: the program's variables, and a line at its end about creations that were not predicted."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from weir.cli.common.errors import say, warn
from weir.errors import WeirError

if TYPE_CHECKING:
    from weir.placement.lookups import Lookups


class Placing:
    """One run under an interaction database."""

    def __init__(self, database: str) -> None:
        """Check the database, and note where the look-ups of earlier runs end in its report.

        Args:
            database: The interaction database.

        Raises:
            DatabaseError: The file is no interaction database.
        """
        from weir.placement.database import check
        from weir.placement.lookups import report_of

        self._database = Path(database).absolute()
        check(self._database)
        self._report = Path(os.environ.get("WEIR_PLACEMENT_REPORT") or report_of(self._database))
        self._begin = self._report.stat().st_size if self._report.is_file() else 0

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which the program finds the database and the report."""
        return {"WEIR_PLACEMENT": str(self._database), "WEIR_PLACEMENT_REPORT": str(self._report)}

    def is_trace_due(self) -> bool:
        """Decide whether the next run is to be recorded: the last runs were predicted too badly for what is known.

        Returns:
            Whether 30 % of their creations or more were not predicted.

        Raises:
            ReportError: The report cannot be read.
        """
        from weir.placement.lookups import read_report
        from weir.prediction.upkeep import Advice, advice

        lookups = read_report(self._report)
        return advice(created=lookups.total, missed=lookups.not_found) in (Advice.TRAIN, Advice.TRACE)

    def end(self, program: str) -> None:
        """Tell how many creations of the run were not predicted; nothing where all were.

        Args:
            program: Name of the program.
        """
        from weir.placement.lookups import read_report

        try:
            lookups = read_report(self._report, begin=self._begin)
        except WeirError as error:
            warn(str(error), hint=error.hint)
            return
        words = _words(lookups, self._database)
        if words is not None:
            say(f"{program}: {words}")


def _words(lookups: "Lookups", database: Path) -> str | None:
    if lookups.total == 0 and lookups.present == 0:
        return f"no creation was looked up in {database}: no files were made, or by static or killed programs"
    if lookups.total == 0:
        return f"{lookups.present} predicted files were there already and keep their layouts: remove them before a run"
    if lookups.not_found == 0:
        return None
    refused = f", {lookups.refused} had layouts that were refused" if lookups.refused else ""
    example = f" (such as {lookups.names[0]})" if lookups.names else ""
    return (
        f"{lookups.placed} of {lookups.total} creations were placed as predicted, {lookups.missed} were not predicted"
        f"{refused}{example}: {_remedy(lookups, database)}"
    )


def _remedy(lookups: "Lookups", database: Path) -> str:
    from weir.prediction.upkeep import Advice, advice

    again = f"`weir place --from DIR --command CMD --database {database}`"
    match advice(created=lookups.total, missed=lookups.not_found):
        case Advice.KEEP:
            return "the store placed these, and the database still fits"
        case Advice.PREDICT:
            return f"predict this command again: {again}"
        case Advice.TRAIN | Advice.TRACE:
            return f"record a run with `weir run --trace DIR -- CMD`, then {again}"
