"""`weir fsck`: every object has its file, and every file has its objects."""

from typing import TYPE_CHECKING

import click

from weir.cli.errors import FAILED, say, warn
from weir.cli.output import output_option
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.store.checking import Checked
    from weir.store.repair import Repaired

_HEADER = ("KIND", "TARGET", "INODE", "BYTES", "OF AT LEAST", "PATH")


@click.command()
@click.option("--offline", is_flag=True, help="Check a store that is down, from its journals and its targets.")
@click.option(
    "--repair", is_flag=True, help="With --offline: move objects that belong to no file to `orphans` in their target."
)
@click.option(
    "--accept-journal-loss",
    is_flag=True,
    help="With --offline: read a journal that lost changes as far as it goes.",
)
@output_option
@click.pass_obj
def fsck(home: Home, offline: bool, repair: bool, accept_journal_loss: bool, output: str) -> int:
    """Check that every object has its file, and every file its objects, as the holder of the site's key.

    A store that is up is looked at several times, and a finding is what stays. The kinds of findings are orphan (an
    object of no file), misplaced (an object on a target that its file does not use), lost (a file without one of its
    objects) and short (an object that is shorter than its file needs). Files with holes may lack objects.

    The exit code is 1 where there are findings, and where a server could not be checked. Nothing is changed without
    --repair.
    """
    from weir.cli.elsewhere import refuse_elsewhere
    from weir.store.repair import check_stopped

    moved: list[Repaired] = []
    if offline:
        refuse_elsewhere(home, "`weir fsck --offline`")
        checked, moved, notices = check_stopped(home, repair=repair, accept_journal_loss=accept_journal_loss)
        for notice in notices:
            say(f"a start would do: {notice}")
    elif repair or accept_journal_loss:
        raise click.UsageError("--repair and --accept-journal-loss need --offline, and a store that is down")
    else:
        checked = _check_running(home)
    _print(output, checked, moved)
    for number in checked.silent:
        warn(
            f"server {number} was not checked, nor the objects of its files",
            hint="check it on its own host" if offline else f"see `weir logs {number}`",
        )
    return FAILED if checked.findings or checked.silent else 0


def _check_running(home: Home) -> "Checked":
    from weir.cli.asking import administered
    from weir.store.checking import check_running

    return check_running(administered(home, "check it"))


def _print(output: str, checked: "Checked", moved: "list[Repaired]") -> None:
    from weir.cli.output import show, size
    from weir.store.checking import MEANINGS

    document = {
        "files": checked.files,
        "objects": checked.objects,
        "findings": [finding.document() for finding in checked.findings],
        "not_checked": list(checked.silent),
        "moved": [{"ino": each.finding.ino, "target": each.finding.target, "to": str(each.path)} for each in moved],
    }
    rows = [
        (
            finding.kind,
            finding.target,
            f"{finding.ino:016x}",
            "-" if finding.bytes is None else size(finding.bytes),
            "-" if finding.bytes_min is None else size(finding.bytes_min),
            finding.path or "-",
        )
        for finding in checked.findings
    ]
    if output != "table" or rows:
        show(output, document, _HEADER, rows)
    if output == "table":
        for kind in sorted({finding.kind for finding in checked.findings}):
            say(f"{kind}: {MEANINGS[kind]}")
        for each in moved:
            finding = each.finding
            say(f"moved {finding.kind} object {finding.ino:016x} of target {finding.target} to {each.path}")
        say(f"{checked.files} files, {checked.objects} objects, {len(checked.findings)} findings")
