"""`weir plan identity`: the I/O identity of a job."""

from pathlib import Path

import click

from weir.cli.common.job_identity import document
from weir.cli.common.output import Quantity, output_option, print_table, show, size
from weir.cli.plan.logs import JOB, LOGS, identities_of


@click.command(name="identity")
@LOGS
@JOB
@output_option
def show_identity(logs: tuple[Path, ...], job_file: Path | None, output: str) -> None:
    """Show the I/O identity of a job: its name and the features behind it.

    The name is `[scale]-[operation]-[metadata]-[pattern]-[interface]`.
    """
    found = identities_of(logs, job_file)
    if output != "table":
        show(output, [{"log": str(path), **document(identity)} for path, identity in found], (), ())
        return
    print_table(
        (
            "IDENTITY",
            "PROCESSES",
            "READ",
            "WRITTEN",
            "READS",
            "WRITES",
            "METADATA",
            "SMALL",
            "LARGE",
            "SEQUENTIAL",
            "I/O",
        ),
        [
            (
                each.name,
                each.processes,
                size(each.read_bytes),
                size(each.written_bytes),
                each.read_operations,
                each.write_operations,
                each.metadata_operations,
                *(
                    Quantity(f"{part:.0%}")
                    for part in (each.small_fraction, each.large_fraction, each.sequential_fraction, each.io_fraction)
                ),
            )
            for _, each in found
        ],
    )
