"""`weir help`: the help of a command, as `--help` prints it."""

import click


@click.command("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def show_help(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command, such as `weir help layout set`."""
    place = context.find_root()
    for word in words:
        group = place.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"`{place.command_path}` has no command {word!r}", place)
        # The group itself refuses a word that is none of its commands.
        name, command, _ = group.resolve_command(place, [word])
        assert command is not None, "a group that is not completing answers a command"
        place = click.Context(command, parent=place, info_name=name)
    print(place.get_help())
