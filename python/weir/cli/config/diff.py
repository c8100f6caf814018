"""`weir config diff`: where the store that runs differs from a configuration."""

from pathlib import Path

import click

from weir.cli.common.output import output_option
from weir.cli.common.output import show as show_result
from weir.cli.common.parameters import PATH
from weir.store.home import Home


@click.command()
@click.argument("file", metavar="[CLUSTER.toml]", required=False, type=PATH)
@output_option
@click.pass_obj
def diff(home: Home, file: Path | None, output: str) -> int:
    """Show where the store that runs differs from a configuration: without a file, from the one that it was started
    with.

    Settings that were changed while the store ran (`weir policy set`, `weir targets allocator`, `weir targets set`)
    differ. The exit code is 1 if a setting differs or a server does not answer.
    """
    from weir.cli.common.asking import ask_store
    from weir.cli.common.errors import FAILED, CommandError, say
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
