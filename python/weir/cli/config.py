"""`weir config`: the values of the settings, and their origins."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from weir.cli.config_export import export
from weir.cli.listing import Listing
from weir.cli.options import origin_of, store_options
from weir.cli.output import output_option
from weir.cli.output import show as show_result
from weir.cli.parameters import PATH
from weir.store.home import Home


@click.group(cls=Listing)
def config() -> None:
    """Show the settings and their origins, and print files for Prometheus and Grafana."""


config.add_command(export)


@config.command()
@click.argument("file", metavar="[CLUSTER.toml]", required=False, type=PATH)
@store_options
@click.option("--origin", is_flag=True, help="Show also the origin: flag, environment, file or default.")
@output_option
@click.pass_context
def show(context: click.Context, /, file: Path | None, origin: bool, output: str, **given: object) -> None:
    """Show the settings that `weir up` would use with the same file and flags, and those of programs that use a
    store. Without a file and flags a store that is up, or lies in the home, has its own.
    """
    from weir.cli.errors import CommandError
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


@config.command()
@click.argument("file", metavar="[CLUSTER.toml]", required=False, type=PATH)
@output_option
@click.pass_obj
def diff(home: Home, file: Path | None, output: str) -> int:
    """Show where the store that runs differs from a configuration: without a file, from the one that it was started
    with.

    What was changed while it ran (`weir policy set`, `weir targets allocator`, `weir targets set`) differs. The exit
    code is 1 where anything does, and where a server does not answer.
    """
    from weir.cli.asking import ask_store
    from weir.cli.errors import FAILED, CommandError, say
    from weir.deployment import record
    from weir.store.configuration import Configuration, is_shaped, read_toml
    from weir.store.control import Server
    from weir.store.decoding import encode
    from weir.store.differences import differences

    deployed = record.read(home) is not None
    path = file or (record.configuration_file(home) if deployed else home.configuration)
    document = read_toml(path)
    if not is_shaped(document):
        raise CommandError(f"{path} has no servers with targets", hint="compare with a file that lists them")
    asked = ask_store(home, Server.status)
    found = differences(Configuration(document), [state for _, state in asked if state is not None])
    rows = [(each.setting, each.configured, each.running) for each in found]
    show_result(output, [encode(each) for each in found], ("SETTING", "FILE", "RUNNING"), rows)
    if not found and output == "table":
        say(f"the store runs as {path} says")
    return FAILED if found or any(state is None for _, state in asked) else 0


@config.command()
def reference() -> None:
    """Print the reference page of all settings, in Markdown."""
    from weir.store import settings

    print("# Settings\n")
    print("A flag beats the environment, the environment beats `cluster.toml`, the file beats the default.")
    print("`--home` also beats `WEIR_CLUSTER`, `WEIR_CREDENTIAL` and `WEIR_MOUNT`, which name a store, too.")
    print("A variable that is nearly a setting, such as `WEIR_POLICI`, is refused.")
    print("`weir config show --origin` shows the origin of each value. `weir config reference` prints this page.")
    for title, entries in (("A store (`weir up`)", settings.STORE), ("Programs that use a store", settings.CLIENT)):
        print(f"\n## {title}\n")
        print("| setting | flag | environment | key in `cluster.toml` | default | meaning |")
        print("|---|---|---|---|---|---|")
        for setting in entries:
            places = (setting.flag, setting.environment, setting.key, setting.default)
            cells = " | ".join(f"`{place}`" if place else "" for place in places)
            print(f"| {setting.name} | {cells} | {setting.meaning} |")


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
