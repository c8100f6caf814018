"""`weir backup` and `weir restore`: the metadata of a store, in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.errors import say, tell
from weir.cli.common.output import output_option, show, size
from weir.cli.common.parameters import EXISTING_FILE, FILE
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.store.backup import Taken


@click.command()
@click.argument("file", metavar="FILE", type=FILE)
@output_option
@click.pass_obj
def backup(home: Home, file: Path, output: str) -> None:
    """Write the metadata of the servers on this host to FILE, while the store runs.

    The file holds all names, layouts and rights of files, from the journals, and the site's key and the
    configuration. The bytes of files stay on their targets. Only you may read FILE. On the host that a store was
    deployed from, a file FILE.HOST is written for each host with servers; if one fails, none is written. `weir
    restore` takes each file on its own host.
    """
    from weir.cli.common.elsewhere import refuse_elsewhere
    from weir.cli.common.progress import working
    from weir.deployment import backups, fanout, record
    from weir.store import auditing
    from weir.store.audits import ToldEntry
    from weir.store.backup import take

    file = file.absolute()
    described = record.read(home)
    if described is not None:
        with working("backup") as shown, fanout.telling(shown):
            taken_all = backups.take_all(described, file)
        _show_all(taken_all, output)
    else:
        refuse_elsewhere(home, "`weir backup`")
        with working("backup") as shown:
            taken = take(home, file, told=shown)
        _show(taken, "written", output)
    # Whoever has the file has the site's key.
    if home.cluster.is_file():
        auditing.tell(home, ToldEntry("backup", after=str(file)), tell)


@click.command()
@click.argument("file", metavar="FILE", type=EXISTING_FILE)
@click.option("--yes", is_flag=True, help="Do not ask before journals are replaced.")
@output_option
@click.pass_obj
def restore(home: Home, file: Path, yes: bool, output: str) -> None:
    """Put the metadata of a backup into the home; the next `weir up` starts from it.

    The store must be down. Files made since the backup are lost. Files removed or truncated since then have their
    names again, but not all of their bytes. The journals that are replaced are kept beside the restored ones.
    """
    from weir.cli.common.confirmation import confirm
    from weir.store.backup import holds_journals
    from weir.store.backup import restore as restore_from

    if holds_journals(home):
        confirm(f"replace the metadata of the store in {home.root} with that of {file}", yes=yes)
    _show(restore_from(home, file.absolute()), "restored", output)
    if output == "table":
        say("next: `weir up` brings the store up with it, and lists what can no longer be reached")


def _show(taken: "Taken", deed: str, output: str) -> None:
    rows = [
        ("file", taken.path),
        ("servers", ", ".join(map(str, taken.servers))),
        ("size", size(taken.size_bytes)),
        ("taken", _time(taken)),
    ]
    show(output, _document(taken), ("BACKUP", deed), rows)


def _show_all(backups: "dict[str, Taken]", output: str) -> None:
    document = {"hosts": [{"host": host, **_document(taken)} for host, taken in backups.items()]}
    rows = [
        (host, ",".join(map(str, taken.servers)), size(taken.size_bytes), _time(taken), taken.path)
        for host, taken in backups.items()
    ]
    show(output, document, ("HOST", "SERVERS", "SIZE", "TAKEN", "FILE"), rows)


def _document(taken: "Taken") -> dict[str, Any]:
    return {
        "file": str(taken.path),
        "servers": list(taken.servers),
        "size_bytes": taken.size_bytes,
        "taken_seconds": taken.taken_seconds,
    }


def _time(taken: "Taken") -> str:
    from datetime import datetime

    return datetime.fromtimestamp(taken.taken_seconds).isoformat(" ", "seconds")
