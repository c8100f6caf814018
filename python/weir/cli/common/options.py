"""Settings as flags of commands."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from weir.cli.common.parameters import Checked
from weir.store.settings import STORE, Setting

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from weir.cli.common.parameters import Type

Command = TypeVar("Command", bound=Callable[..., Any])


def option(setting: Setting) -> Callable[[Command], Command]:
    """Make the flag of a setting; its value is None where neither flag nor environment gives it.

    Args:
        setting: A setting that has a flag.

    Returns:
        A decorator of commands.

    Raises:
        ValueError: The setting has no flag.
    """
    if setting.flag is None:
        raise ValueError(f"the setting {setting.name} has no flag")
    default = f"  [default: {setting.default}]" if setting.default else ""
    return click.option(
        setting.flag,
        setting.name,
        envvar=setting.environment,
        type=_type(setting),
        help=f"{setting.meaning}{default}  [env: {setting.environment}]",
    )


def store_options(command: Command) -> Command:
    """Add the flags of every setting of a store to a command.

    Args:
        command: Function of the command.

    Returns:
        The function with its flags.
    """
    for setting in reversed(STORE):
        command = option(setting)(command)
    return command


def complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Leave the completion of a word to the shell, which knows the files.

    Args:
        context: Click's context.
        incomplete: The begin of the word.

    Returns:
        The word itself, as the begin of a path.
    """
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def origin_of(context: click.Context, name: str) -> str:
    """Tell where a setting was given.

    Args:
        context: The context of a command.
        name: Name of one of its parameters, which was given.

    Returns:
        `flag` for the command line, or `environment`.
    """
    from click.core import ParameterSource

    return "flag" if context.get_parameter_source(name) is ParameterSource.COMMANDLINE else "environment"


def _type(setting: Setting) -> "Type | None":
    if setting.bounds is not None:
        return click.IntRange(*setting.bounds)
    if setting.choices:
        return click.Choice(setting.choices)
    if setting.read is not None:
        return Checked(setting.name, setting.read)
    return click.Path(exists=True, dir_okay=False) if setting.is_file else None
