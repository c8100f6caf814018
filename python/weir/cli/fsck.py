"""`weir fsck`: names lead to inodes, inodes have their names, objects have their files, and files their objects."""

from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import FAILED, say, warn
from weir.cli.common.output import output_option, show, size
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.store.checking import Checked, Finding
    from weir.store.folder_check import FolderFinding
    from weir.store.repair import Repaired
    from weir.store.tree_check import TreeFinding
    from weir.store.tree_repair import MendedFault
    from weir.store.tree_servers import CheckedTree

_HEADER = ("KIND", "WHERE", "INODE", "FOUND", "WANTED", "PATH")


@click.command()
@click.option("--offline", is_flag=True, help="Check a store that is down, from its journals and its targets.")
@click.option(
    "--repair",
    is_flag=True,
    help="Mend the tree of a store that is up. With --offline: move objects that belong to no file to `orphans` in "
    "their target.",
)
@click.option(
    "--accept-journal-loss",
    is_flag=True,
    help="With --offline: read a journal that lost changes up to the first lost change.",
)
@output_option
@click.pass_obj
def fsck(home: Home, offline: bool, repair: bool, accept_journal_loss: bool, output: str) -> int:
    """Check names, inodes, sums of use and objects of a store, as the holder of the site's key.

    The kinds of findings of the tree are unreachable (an inode that no name leads to), dangling (a name that leads to
    no inode), mistyped (a name of another kind), links (a wrong number of names), parent (a directory with its name in
    another place than it says), doubled (a second name of a directory), cycle (a directory above itself), leftover (an
    inode without a name that nobody has open) and sums (a user's or group's use that is not that of its inodes).

    The kinds of findings of objects are orphan (an object of no file), misplaced (an object on a target that its file
    does not use), lost (a file without one of its objects) and short (an object that is shorter than its file needs).
    Files with holes may lack objects. The kind of findings of folders is identity (a home, journal or target that is
    not the store's, or is gone).

    With --repair an inode without a name gets its number as a name in /lost+found, a name without an inode is
    removed, and counts, places and sums are corrected.

    The exit code is 1 if there are findings or a server could not be checked; after a repair, if findings are left.
    Nothing is changed without --repair.
    """
    from weir.cli.common.elsewhere import refuse_elsewhere
    from weir.cli.common.progress import working
    from weir.store.repair import check_stopped

    moved: list[Repaired] = []
    mended: tuple[MendedFault, ...] = ()
    left: tuple[MendedFault, ...] = ()
    if offline:
        refuse_elsewhere(home, "`weir fsck --offline`")
        with working("check"):
            checked, tree, folders, moved, notices = check_stopped(
                home, repair=repair, accept_journal_loss=accept_journal_loss
            )
        for notice in notices:
            say(f"a start would change: {notice}")
    elif accept_journal_loss:
        raise click.UsageError("--accept-journal-loss needs --offline, and a store that is down")
    else:
        from weir.cli.common.asking import administered
        from weir.store.checking import check_running
        from weir.store.folder_check import check_running_folders
        from weir.store.tree_repair import repair_tree
        from weir.store.tree_servers import check_running_tree

        servers = administered(home, "check it")
        with working("check") as shown:
            shown("tree", 0, 0)
            if repair:
                repaired = repair_tree(servers)
                tree, mended, left = repaired.checked, repaired.mended, repaired.left
            else:
                tree = check_running_tree(servers)
            checked = check_running(servers, told=shown)
            shown("folders", 0, 0)
            folders = check_running_folders(servers)
    _print(output, (checked, tree, folders), moved, (*mended, *left))
    silent = sorted({*checked.silent, *tree.silent})
    for number in silent:
        warn(
            f"server {number} was not checked, nor the objects of its files",
            hint="check it on its own host" if offline else f"see `weir logs {number}`",
        )
    return FAILED if checked.findings or tree.findings or folders or silent else 0


def _print(
    output: str,
    results: "tuple[Checked, CheckedTree, tuple[FolderFinding, ...]]",
    moved: "list[Repaired]",
    mended: "tuple[MendedFault, ...]",
) -> None:
    from weir.store import checking, folder_check, tree_check

    checked, tree, folders = results
    document = {
        "files": checked.files,
        "objects": checked.objects,
        "inodes": tree.inodes,
        "findings": [finding.document() for finding in checked.findings],
        "tree": [finding.document() for finding in tree.findings],
        "folders": [finding.document() for finding in folders],
        "not_checked": sorted({*checked.silent, *tree.silent}),
        "moved": [{"ino": each.finding.ino, "target": each.finding.target, "to": str(each.path)} for each in moved],
        "mended": [{**each.finding.document(), "done": each.done} for each in mended if each.done is not None],
        "left": [{**each.finding.document(), "why": each.why} for each in mended if each.done is None],
    }
    rows = [*map(_tree_row, tree.findings), *map(_object_row, checked.findings)]
    rows += [(folder_check.IDENTITY, f"server {each.server}", "-", each.place, each.found, "-") for each in folders]
    if output != "table" or rows:
        show(output, document, _HEADER, rows)
    if output != "table":
        return
    meanings = {**checking.MEANINGS, **tree_check.MEANINGS}
    for each_folder in folders:
        say(f"{folder_check.IDENTITY}: {each_folder.place} of server {each_folder.server}: {each_folder.way_out}")
    kinds = {*(each.kind for each in tree.findings), *(each.kind for each in checked.findings)}
    for kind in sorted(kinds):
        say(f"{kind}: {meanings[kind]}")
    for moved_object in moved:
        finding = moved_object.finding
        say(f"moved {finding.kind} object {finding.ino:016x} of target {finding.target} to {moved_object.path}")
    for each in mended:
        named = f"{each.finding.kind} {each.finding.ino:016x} {each.finding.path or ''}".rstrip()
        say(f"mended {named}: {each.done}" if each.done is not None else f"left {named}: {each.why}")
    found = len(tree.findings) + len(checked.findings) + len(folders)
    say(f"{tree.inodes} inodes, {checked.files} files, {checked.objects} objects, {found} findings")


def _object_row(finding: "Finding") -> tuple[str, ...]:
    found, wanted = (("-" if each is None else size(each)) for each in (finding.bytes, finding.bytes_min))
    return finding.kind, finding.target, f"{finding.ino:016x}", found, wanted, finding.path or "-"


def _tree_row(finding: "TreeFinding") -> tuple[str, ...]:
    from weir.store.tree_check import SUMS

    found, wanted = (("-" if each is None else str(each)) for each in (finding.found, finding.wanted))
    if finding.kind == SUMS:
        return finding.kind, f"{finding.name} {finding.ino} at {finding.server}", "-", found, wanted, "-"
    return finding.kind, f"server {finding.server}", f"{finding.ino:016x}", found, wanted, finding.path or "-"
