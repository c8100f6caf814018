"""`weir config show`: the settings that `weir up` would use, and those of programs."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from weir.cli.common.options import origin_of, store_options
from weir.cli.common.output import output_option
from weir.cli.common.output import show as show_result
from weir.cli.common.parameters import PATH
from weir.store.home import Home


@click.command()
@click.argument("file", metavar="[CLUSTER.toml]", required=False, type=PATH)
@store_options
@click.option(
    "--origin", is_flag=True, help=("Also show the origin of each setting: flag, environment, file or default.")
)
@output_option
@click.pass_context
def show(context: click.Context, /, file: Path | None, origin: bool, output: str, **given: object) -> None:
    """Show the settings that `weir up` would use with the same file and flags, and those of programs that use a
    store. Without a file and flags, the settings are those of the store in the home, if there is one.
    """
    from weir.cli.common.errors import CommandError
    from weir.store.configuration import is_shaped, resolve
    from weir.store.lifecycle import configured_by
    from weir.store.settings import check_values

    check_values(os.environ, with_flags=True)
    home: Home = context.obj

    file = configured_by(home, file, given)
    resolved = resolve(file, given, partial(origin_of, context))
    if given["policy"] is not None or given["scheduler"] is not None:
        _check_sharing(resolved.document)
    if not is_shaped(resolved.document):
        raise CommandError(
            f"{file} has no servers with targets",
            hint="each server is a table [[server]], and each of its targets a table [[server.target]]",
        )
    entries = [*_store_entries(resolved.document, resolved.origins, file), *_client_entries(home)]
    header = ("SETTING", "VALUE", "ORIGIN") if origin else ("SETTING", "VALUE")
    rows = [[entry["name"], entry["value"], entry["origin"]][: len(header)] for entry in entries]
    document = entries if origin else {entry["name"]: entry["value"] for entry in entries}
    show_result(output, document, header, rows)


def _check_sharing(document: dict[str, Any]) -> None:
    """Refuse a given policy and scheduler that do not go together."""
    from weir.store.configuration import check_sharing

    scheduler = document.get("scheduler")
    check_sharing(str(document.get("policy")), None if scheduler is None else str(scheduler))


def _store_entries(document: dict[str, Any], origins: dict[str, str], file: Path | None) -> list[dict[str, Any]]:
    """The settings of a store; where servers or targets differ, each value once."""
    from weir.store import settings

    entries = []
    values: list[Any]
    for setting in settings.STORE:
        if setting is settings.SERVERS:
            values = [len(document["server"])]
        elif setting is settings.TARGETS:
            values = [len(server["target"]) for server in document["server"]]
        else:
            values = _values(document, (setting.key or "").split("."))
            if setting is settings.SCHEDULER and not values:
                values = _default_scheduler(document)
        value = ", ".join(dict.fromkeys(str(value) for value in values))
        entries.append({"name": setting.name, "value": value, "origin": origins.get(setting.name, "default")})
    return entries + _share_entries(document, str(file or "file"))


def _default_scheduler(document: dict[str, Any]) -> list[str]:
    """The scheduler of a policy that names none; nothing where there is no such policy, which `weir up` refuses."""
    from weir.store.configuration import check_sharing
    from weir.store.errors import SettingsError

    try:
        return [check_sharing(str(document["policy"]), None)[1]]
    except (SettingsError, KeyError):
        return []


def _share_entries(document: dict[str, Any], origin: str) -> list[dict[str, Any]]:
    """The `[[share]]` tables, which only a file can give."""
    tables = document.get("share", [])
    entries = []
    for table in [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []:
        holders = [f"{kind} {table[kind]}" for kind in ("group", "user", "job") if kind in table]
        grants = [f"{key} {value}" for key, value in table.items() if key not in ("group", "user", "job")]
        entries.append({"name": " ".join(["share", *holders]), "value": ", ".join(grants), "origin": origin})
    return entries


def _values(table: Any, keys: list[str]) -> list[Any]:
    """Every value at a path of keys, through arrays of tables."""
    if isinstance(table, list):
        return [value for item in table for value in _values(item, keys)]
    if not keys:
        return [table]
    return _values(table[keys[0]], keys[1:]) if isinstance(table, dict) and keys[0] in table else []


def _client_entries(home: Home) -> list[dict[str, Any]]:
    from weir.store import settings

    entries = []
    for setting in settings.CLIENT:
        value = os.environ.get(setting.environment)
        if setting is settings.HOME:
            flagged = click.get_current_context().find_root().get_parameter_source("home")
            by_flag = flagged is click.core.ParameterSource.COMMANDLINE
            given = "flag" if by_flag else "environment" if value else "default"
            entries.append({"name": setting.name, "value": str(home.root), "origin": given})
        else:
            given = "environment" if value else "default"
            entries.append({"name": setting.name, "value": value or setting.default, "origin": given})
    return entries
