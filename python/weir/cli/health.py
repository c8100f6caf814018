"""`weir health`: what is wrong with a store, and the command that mends it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import FAILED
from weir.cli.common.findings import since_words
from weir.cli.common.output import bold, output_option, print_table, show
from weir.cli.common.parameters import Number
from weir.plain_text import plain
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.health.codes import Finding

WARNED = 3
"""Exit code of a store with warnings and no errors."""
_HEADER = ("LEVEL", "CODE", "OBJECT", "SINCE", "CAUSE")


@click.command()
@click.option(
    "--within",
    "seconds",
    metavar="SECONDS",
    type=Number(0.1, 600),
    default=1.5,
    help="Longest wait for the answers of all servers and hosts.",
)
@output_option
@click.pass_obj
def health(home: Home, seconds: float, output: str) -> int:
    """Show what is wrong with the store: each finding with its cause, and the command that mends it.

    The command asks all servers, hosts and helpers at once; one that does not answer in time becomes a finding. An
    error keeps somebody from files or changes now. A warning will do so later, or makes jobs slow. A notice reports a
    state that somebody asked for.

    The exit code is 1 if there are errors or no store is up, 3 if there are warnings, else 0.
    """
    from dataclasses import asdict

    from weir.health import findings

    known = findings(home, seconds=seconds)
    if output != "table":
        show(output, [asdict(each) for each in known], (), ())
    elif known:
        _print(known)
    else:
        print("nothing is wrong")
    levels = {each.level for each in known}
    return FAILED if "error" in levels else WARNED if "warning" in levels else 0


def _print(findings: "Sequence[Finding]") -> None:
    """A line for each finding, and below them risk and command of each code with its objects."""
    rows = [(each.level, each.code, each.object, since_words(each.since), each.cause) for each in findings]
    print_table(_HEADER, rows)
    told = dict.fromkeys((each.code, each.risk, each.mend) for each in findings)
    for code, risk, mend in told:
        print(f"\n{code}: {risk}\n  {bold(plain(mend))}")
