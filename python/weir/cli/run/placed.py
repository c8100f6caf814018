"""`weir run --placement`: the program's variables, and at its end a line about creations that were not predicted, and a
note of all of them for the control room.
"""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from weir.cli.common.errors import say, warn
from weir.errors import WeirError
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.placement.lookups import Lookups


class Placing:
    """One run under an interaction database."""

    def __init__(self, home: Home, database: str) -> None:
        """Check the database, and note where the look-ups of earlier runs end in its report.

        Args:
            home: The home in which its owner's runs are noted.
            database: The interaction database.

        Raises:
            DatabaseError: The file is no interaction database.
        """
        from weir.placement.database import check
        from weir.placement.lookups import report_of

        self._home = home
        self._job = ""
        self._user = ""
        self._database = Path(database).absolute()
        check(self._database)
        self._report = Path(os.environ.get("WEIR_PLACEMENT_REPORT") or report_of(self._database))
        self._begin = self._report.stat().st_size if self._report.is_file() else 0

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which the program finds the database and the report."""
        return {"WEIR_PLACEMENT": str(self._database), "WEIR_PLACEMENT_REPORT": str(self._report)}

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Note as which job the program runs.

        Args:
            environment: Variables of the program, among them its credential where it uses a store.
        """
        from weir.store.identity import read_claims

        if "WEIR_CREDENTIAL" in environment:
            # A credential that does not hold is refused by the servers.
            with suppress(WeirError):
                claims = read_claims(Path(environment["WEIR_CREDENTIAL"]))
                self._job, self._user = claims["job"], claims["user"]

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
        """Tell how many creations of the run were not predicted, nothing where all were, and note it in the home.

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
        self._note(program, lookups)

    def _note(self, program: str, lookups: "Lookups") -> None:
        """Note the run for the control room."""
        from weir.store.placement_journal import NAMES_MAX, PLACED_RUNS, PlacedRun, note, shortened
        from weir.ways import user_name

        entry = PlacedRun(
            at=time.time(),
            host=socket.gethostname(),
            pid=os.getpid(),
            job=self._job,
            user=self._user or user_name(os.geteuid()),
            program=shortened(program),
            database=shortened(str(self._database)),
            placed=lookups.placed,
            present=lookups.present,
            refused=lookups.refused,
            missed=lookups.missed,
            names=tuple(map(shortened, lookups.names[:NAMES_MAX])),
        )
        note(self._home, PLACED_RUNS, entry)


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
