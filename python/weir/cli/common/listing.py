"""How the help of a group lists its commands: each with the first sentence of its own help, whole."""

from collections.abc import Iterable

import click


class Listing(click.Group):
    """A group whose help cuts no sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list under one head."""
        write_section(self, ctx, formatter, "Commands", self.list_commands(ctx))


def write_section(
    group: click.Group, context: click.Context, formatter: click.HelpFormatter, title: str, names: Iterable[str]
) -> None:
    """Write the commands `names` of `group` under `title`."""
    found = ((name, group.get_command(context, name)) for name in names)
    rows = [(name, purpose(command)) for name, command in found if command is not None and not command.hidden]
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def purpose(command: click.Command) -> str:
    """The first sentence of the command's help, with its full stop."""
    first = " ".join((command.help or "").split()).partition(". ")[0]
    return first and first.rstrip(".") + "."
