"""The program `weir`.

Each command is a module that is imported when it is called, so that `weir --help` answers at once.
"""

import errno
import io
import os
import sys
from importlib import import_module

import click

from weir import distribution
from weir.cli.common.errors import FAILED, USAGE, context_of, exit_code, lacking
from weir.cli.common.errors import report as report_failure
from weir.cli.common.listing import write_section
from weir.errors import WeirError

_INTERRUPTED = 130
_NO_ARGUMENTS: tuple[type[click.UsageError], ...] = tuple(
    getattr(click.exceptions, name) for name in ("NoArgsIsHelpError",) if hasattr(click.exceptions, name)
)
"""The error whose message is the help of a group that was given no command. Click before 8.2 prints the help itself."""
_HINTS = {
    errno.EACCES: "it belongs to another user; is --home or WEIR_HOME right?",
    errno.EPERM: "it belongs to another user; is --home or WEIR_HOME right?",
    errno.ENOSPC: "the file system is full: make room, or choose another place (of a store: --home)",
    errno.EDQUOT: "your quota is used up: make room, or choose another place (of a store: --home)",
    errno.EROFS: "the file system is read-only: choose another place (of a store: --home)",
}
"""Remedies for errors of the system that no command expects."""

_SECTIONS = {
    "Run jobs": {
        "run": "weir.cli.run.run:run",
        "job": "weir.cli.job:job",
        "stage": "weir.cli.stage:stage",
        "layout": "weir.cli.layout:layout",
        "find": "weir.cli.find:find",
        "mount": "weir.cli.mount:mount",
        "umount": "weir.cli.mount:umount",
        "env": "weir.cli.env:env",
    },
    "See": {
        "health": "weir.cli.health:health",
        "status": "weir.cli.status:status",
        "jobs": "weir.cli.jobs:jobs",
        "top": "weir.cli.top.top:top",
        "report": "weir.cli.report:report",
        "room": "weir.cli.room:room",
        "record": "weir.cli.record:record",
        "targets": "weir.cli.targets:targets",
        "df": "weir.cli.df:df",
        "logs": "weir.cli.logs:logs",
        "audit": "weir.cli.audit:audit",
        "interference": "weir.cli.interference:interference",
    },
    "Administer": {
        "up": "weir.cli.up:up",
        "deploy": "weir.cli.deploy:deploy",
        "down": "weir.cli.down:down",
        "upgrade": "weir.cli.upgrade:upgrade",
        "backup": "weir.cli.backup:backup",
        "restore": "weir.cli.backup:restore",
        "uninstall": "weir.cli.uninstall:uninstall",
        "serve": "weir.cli.serve:serve",
        "policy": "weir.cli.policy:policy",
        "quota": "weir.cli.quota:quota",
        "grant": "weir.cli.grant:grant",
        "target": "weir.cli.target:target",
        "server": "weir.cli.server:server",
        "rebalance": "weir.cli.rebalance:rebalance",
        "guard": "weir.cli.guard:guard",
        "fsck": "weir.cli.fsck:fsck",
        "config": "weir.cli.config:config",
    },
    "Plan": {
        "plan": "weir.cli.plan:plan",
        "planner": "weir.cli.planner:planner",
        "deployments": "weir.cli.deployments:deployments",
        "place": "weir.cli.place.place:place",
        "sslo": "weir.cli.sslo:sslo",
        "stress": "weir.cli.stress:stress",
        "classes": "weir.cli.classes:classes",
        "stats": "weir.cli.stats:stats",
        "trace": "weir.cli.trace:trace",
    },
    "Research": {
        "adapt": "weir.cli.adapt:adapt",
        "replay": "weir.cli.replay:replay",
        "simulate": "weir.cli.simulate:simulate",
        "bench": "weir.cli.bench.bench:bench",
        "plugins": "weir.cli.plugins:plugins",
    },
}
"""The commands that people call, by purpose: each with its module and its name there."""
_OTHERS = {"help": "weir.cli.help:show_help", "agent": "weir.cli.agent:agent"}
"""The command about commands, and the one that programs call and people do not."""
_COMMANDS = {name: place for section in _SECTIONS.values() for name, place in section.items()} | _OTHERS
_INTERNAL = {"agent"}
"""Commands that no list has."""


class _LazyGroup(click.Group):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in _COMMANDS if name not in _INTERNAL]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, attribute = place.split(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{place} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"there is no command {args[0]!r}{_nearest(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list for each purpose."""
        for title, names in _SECTIONS.items():
            write_section(self, ctx, formatter, title, names)


def _nearest(mistyped: str) -> str:
    """The commands that are spelled nearly so, in words."""
    from difflib import get_close_matches

    near = [f"`weir {name}`" for name in get_close_matches(mistyped, _COMMANDS.keys() - _INTERNAL, n=2)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--home",
    envvar="WEIR_HOME",
    type=click.Path(file_okay=False),
    help="State directory of the store.  [default: $XDG_STATE_HOME/weir]  [env: WEIR_HOME]",
)
@click.version_option(package_name=distribution.NAME, message="weir %(version)s")
@click.pass_context
def weir(context: click.Context, home: str | None) -> None:
    """Weir: a burst buffer that divides its I/O time among jobs by policy.

    Start a store with `weir up`, run a program on it with `weir run -- CMD`, and end it with `weir down`. `weir help
    COMMAND` shows the help of a command, such as `weir help layout set`.
    """
    from click.core import ParameterSource

    from weir.store.environment import forget_store
    from weir.store.home import Home
    from weir.store.settings import check_names, check_values

    check_names(os.environ)
    check_values(os.environ)
    if context.get_parameter_source("home") is ParameterSource.COMMANDLINE:
        forget_store(os.environ)
    context.obj = Home.at(home)


def main() -> None:
    """Run the program and end it with its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file's name may have characters that the encoding lacks; standard error escapes them by itself.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(_run())


def _run() -> int:
    try:
        code = weir.main(prog_name="weir", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except WeirError as error:
        report_failure(error.message, error.hint, context_of(error.__traceback__))
        return exit_code(error)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "weir":
            raise
        found = lacking(error)
        report_failure(found.message, found.hint)
        return FAILED
    except _NO_ARGUMENTS as error:
        error.show()
        return USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "weir"
        report_failure(error.format_message(), f"see `{command} --help`")
        return USAGE
    except click.ClickException as error:
        report_failure(error.format_message(), "")
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        report_failure("interrupted", "")
        return _INTERRUPTED
    except BrokenPipeError:
        return _close_broken_pipe()
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        report_failure(
            f"{place}{error.strerror or error}", _HINTS.get(error.errno or 0, "" if place else "see `weir status`")
        )
        return FAILED


def _close_broken_pipe() -> int:
    """End quietly when the reader of the output went away, as with `weir jobs | head`."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    return FAILED
