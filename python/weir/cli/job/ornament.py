"""`weir job ornament`: the storage that was planned for a job, written into its jobspec."""

from pathlib import Path
from typing import Any

import click

from weir.cli.common.output import json_text
from weir.cli.common.parameters import FILE


@click.command()
@click.argument("jobspec", type=FILE)
@click.option(
    "--weir", "words", metavar="NAME=VALUE", multiple=True, help="Add a directive, such as size=200GB; repeatable."
)
@click.option("--deployment", "deployment_file", type=FILE, help="Write this deployment schema into the jobspec.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    help="Format of the output.  [default: that of JOBSPEC]",
)
def ornament(jobspec: Path, words: tuple[str, ...], deployment_file: Path | None, form: str | None) -> None:
    """Print JOBSPEC, a jobspec of Flux, with its storage.

    Directives stand at attributes.user.weir, and the deployment at attributes.system.weir (RFC 14, RFC 25). Both are
    checked.
    """
    from weir.provisioning.jobs import ornaments
    from weir.provisioning.jobs.job import read_jobspec
    from weir.provisioning.schema_file import read_schema

    document: dict[str, Any] = ornaments.wish(read_jobspec(jobspec), words)
    if deployment_file is not None:
        document = ornaments.ornament(document, read_schema(deployment_file))
    click.echo(_printed(document, form or ("json" if _is_json(jobspec) else "yaml")), nl=False)


def _is_json(path: Path) -> bool:
    return path.read_text().lstrip().startswith("{")


def _printed(document: dict[str, Any], form: str) -> str:
    if form == "json":
        return json_text(document, indent=2) + "\n"
    import yaml

    return yaml.safe_dump(document, sort_keys=False)
