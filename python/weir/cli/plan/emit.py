"""`weir plan emit`: the configuration of a storage system from a deployment schema."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import CommandError, say, warn
from weir.cli.common.output import output_option, show
from weir.cli.common.parameters import FILE, FOLDER, Checked
from weir.store import values
from weir.ways import make_folders, write_whole

if TYPE_CHECKING:
    from weir.provisioning.emit.checks import EmittedFile

_SYSTEMS = ("weir", "orangefs", "beeond", "lustre")


@click.command(name="emit")
@click.argument("schema", metavar="SCHEMA.json", type=FILE)
@click.option("--to", "target", type=click.Choice(_SYSTEMS), help="The storage system.  [default: that of the schema]")
@click.option(
    "--mount",
    type=Checked("path", values.prefix),
    help="Mount point on every node; on Lustre the directory that is striped.  [default: /mnt/NAME]",
)
@click.option("--into", type=FOLDER, help="Folder for the files; none of them may exist. Without it they are printed.")
@output_option
def emit(schema: Path, target: str | None, mount: str | None, into: Path | None, output: str) -> None:
    """Write the configuration of a storage system for a deployment schema.

    weir: cluster.toml for `weir deploy`. orangefs: the file of all servers. beeond: node file, start and stop.
    lustre: `lfs setstripe` for a directory. Nothing is started. Every file is read back and compared with the schema
    before it is written.
    """
    from weir.provisioning.emit import targets
    from weir.provisioning.schema_file import read_schema

    deployment = read_schema(schema)
    kind = target or deployment.system.kind
    chosen = next((each for each in targets.TARGETS if each == kind), None)
    if chosen is None:
        raise CommandError(f"{schema} uses a file system that is there already", hint="nothing needs to be configured")
    # BeeOND reads further files on every node, so that their folder has to be known.
    folder = str(into.absolute()) if into is not None else f"/etc/beegfs/{deployment.name}"
    files = targets.emit(deployment, chosen, mount=mount or f"/mnt/{deployment.name}", folder=folder)
    if chosen != deployment.system.kind:
        warn(
            f"{schema} was planned for {deployment.system.kind}",
            hint=f"its expected rates do not hold for {chosen}; plan with the objectives of {chosen}",
        )
    if into is not None:
        _write(files, into)
    if output != "table":
        show(output, [{"name": file.name, "text": file.text} for file in files], (), ())
    elif into is None:
        print_files(files)


def print_files(files: "tuple[EmittedFile, ...]") -> None:
    """Print files; the names of several stand above each."""
    for file in files:
        if len(files) > 1:
            print(f"==> {file.name} <==")
        print(file.text, end="")


def _write(files: "tuple[EmittedFile, ...]", folder: Path) -> None:
    """Write the files, or none of them where one is there or cannot be written."""
    import contextlib
    import errno

    is_new = not folder.exists()
    make_folders(folder)
    made: list[Path] = []
    try:
        for file in files:
            path = folder / file.name
            mode = 0o755 if file.name.endswith(".sh") else 0o644
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            write_whole(path, file.text, mode=mode)
            made.append(path)
    except OSError as error:
        for path in made:
            with contextlib.suppress(OSError):
                path.unlink()
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        place = error.filename or folder
        raise CommandError(f"{place}: {error.strerror}", hint="nothing was written; name a new folder") from error
    for path in made:
        say(f"wrote {path}")
