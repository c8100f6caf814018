"""`weir place`: targets for the files of a program's next run, before they are made."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.asking import servers_up
from weir.cli.common.errors import CommandError, say, warn
from weir.cli.common.listing import Listing
from weir.cli.common.output import output_option, print_table, show, size
from weir.cli.common.parameters import EXISTING_FILE, EXISTING_PATH, FILE, FOLDER, Checked, Number
from weir.cli.place.creations import ExpectedCreations, expected_creations
from weir.cli.place.explain import explain
from weir.store.home import Home
from weir.ways import make_folders, write_whole

if TYPE_CHECKING:
    from weir.placement.allotment import Allotment
    from weir.placement.database import Component
    from weir.placement.layouts import Choices
    from weir.placement.targets import Targets

_FILE = EXISTING_FILE
_MDTS_MAX = 4096
"""More metadata targets than a Lustre has."""
_HEADER = ("FILE", "FILE SIZE", "EXT", "START", "END", "STRIPE SIZE", "STRIPES", "RANK", "TARGETS")


def _known_allocator(text: str) -> None:
    from weir.placement.allotment import check_allocator

    check_allocator(text)


def _known_model(text: str) -> None:
    from weir.prediction.creations import check_model

    check_model(text)


def _read_rule(text: str) -> None:
    from weir.placement.layouts import rule

    rule(text)


def _stripe_bytes(text: str) -> int | None:
    from weir import _core

    return _core.parse_layout(f"-S {text}")[0]["stripe_bytes"]


@click.group(cls=Listing, invoke_without_command=True)
@click.option(
    "--from",
    "past",
    multiple=True,
    type=EXISTING_PATH,
    help="Past runs: a directory of traces, or a Darshan log. Repeat for several.",
)
@click.option(
    "--command",
    "commands",
    multiple=True,
    type=Checked("command", shlex.split),
    help="Command line of the next run; repeat for programs that run at once.  [default: that of the latest run"
    " of each --from]",
)
@click.option("--ranks", type=click.IntRange(1), help="Ranks of the next run.  [default: those of the latest run]")
@click.option(
    "--problem-size",
    type=Number(0, min_open=True),
    default=1.0,
    help="Size of the problem, as a multiple of the latest run's.",
)
@click.option(
    "--steps", type=click.IntRange(0), help=("Number of steps that write, if no argument of the command names it.")
)
@click.option(
    "--forecaster",
    "model",
    type=Checked("forecaster", _known_model),
    help="Model that predicts the files: regression, arima, last-run, markov, or a plug-in.  [default: the best for "
    "the last run]",
)
@click.option("--creations", type=_FILE, help="Place these files instead: JSON or CSV with path and size_bytes.")
@click.option(
    "--layout",
    "layouts",
    metavar="[PATTERN=]LAYOUT",
    multiple=True,
    type=Checked("layout", _read_rule),
    help="Layout of files that match PATTERN: an .ini file, or options as of `lfs setstripe`. The first pattern"
    " that matches a file counts.",
)
@click.option(
    "--stripe-count",
    type=click.IntRange(-1),
    default=1,
    help="Stripes of files without a known layout; -1 is all targets.",
)
@click.option(
    "--round-robin",
    metavar="SIZE",
    type=Checked("size", _stripe_bytes),
    help="Place stripes of this size in turn, instead of one contiguous part on each target.",
)
@click.option(
    "--lustre", type=_FILE, help="Place on Lustre: `lfs df` as text, or a document of `weir stats subscribe`."
)
@click.option(
    "--allocator",
    type=Checked("allocator", _known_allocator),
    default="balanced",
    help="Algorithm that chooses the targets, or a plug-in.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the allocators that draw random numbers.")
@click.option("--database", type=FILE, help="Write an interaction database.")
@click.option(
    "--if-needed",
    is_flag=True,
    help=("Keep the database if it had at least 90 % of the files that the last runs made."),
)
@click.option(
    "--emit",
    type=click.Choice(["lfs", "yaml", "mkdir"]),
    help="Print `lfs setstripe` commands, its YAML templates, or `lfs mkdir` commands for the files' directories.",
)
@click.option(
    "--mdts",
    type=click.IntRange(1, _MDTS_MAX),
    help="Number of metadata targets over which --emit mkdir spreads directories.",
)
@click.option("--into", type=FOLDER, help="Write the YAML templates here.")
@output_option
@click.pass_context
def place(context: click.Context, /, **options: Any) -> None:
    """Choose targets for the files of a program's next run, before they are made.

    The files are predicted --from past runs, or listed in --creations. Their stripes go where the load is lowest: on
    the store that is up, or on --lustre. `weir run --placement DATABASE` then makes the files with these targets.
    """
    if context.invoked_subcommand is not None:
        return
    from weir.store.launch import places

    home = context.obj
    database, emit = options["database"], options["emit"]
    _check_usage(options)
    if database is not None:
        if _may_stay(database, options["if_needed"], options["past"]):
            return
        options["recorded_after_seconds"] = _forgotten_seconds(database)
    programs = expected_creations(options, places=places(home))
    allotment = _allot(programs, _targets(home, options["lustre"]), options)
    if database is not None:
        _write(database, allotment, programs)
    if emit is not None:
        _emit(emit, allotment, programs, options)
    else:
        _show_summary(allotment, programs, options["output"])


place.add_command(explain)


@place.command(name="show")
@click.argument("database", type=_FILE)
@click.option("--file", "path", help="Show only this file.")
@output_option
def show_database(database: Path, path: str | None, output: str) -> None:
    """Show the rows of an interaction database."""
    components = _read(database, path)
    made_as = _names_at_making(database)
    documents = [
        {**asdict(component), "targets": list(component.targets), "made_as": made_as.get(component.path)}
        for component in components
    ]
    header = (*_HEADER, "MADE AS") if made_as else _HEADER
    rows = [
        (*_row(component), made_as.get(component.path, "-")) if made_as else _row(component) for component in components
    ]
    show(output, documents, header, rows)


def _names_at_making(database: Path) -> dict[str, str]:
    """The first temporary name of each file that is renamed, with its turn where several files have the name."""
    from weir.placement.database import read_temporaries
    from weir.tracing.records import ANY

    names: dict[str, str] = {}
    for one in read_temporaries(database):
        turn = "" if one.turn == ANY else f" (rank {one.rank}, turn {one.turn})"
        names.setdefault(one.path, f"{one.name}{turn}")
    return names


def _check_usage(options: dict[str, Any]) -> None:
    if bool(options["past"]) == (options["creations"] is not None):
        raise click.UsageError("give either --from past runs, or --creations")
    if options["database"] is None and options["emit"] is None and options["output"] == "table":
        raise click.UsageError("give --database to write one, or --emit to print commands")
    if options["if_needed"] and options["database"] is None:
        raise click.UsageError("--if-needed asks about a --database")
    if options["stripe_count"] == 0:
        raise click.UsageError("a file has at least one stripe; -1 is one on every target")
    if options["into"] is not None and options["emit"] != "yaml":
        raise click.UsageError("--into is for --emit yaml")
    if (options["mdts"] is not None) != (options["emit"] == "mkdir"):
        raise click.UsageError("--emit mkdir and --mdts, the number of metadata targets (`lfs mdts`), go together")
    if options["model"] is not None and not options["past"]:
        raise click.UsageError("--forecaster predicts from past runs: give some with --from")
    if options["emit"] is not None and options["lustre"] is None:
        raise click.UsageError("--emit prints commands for Lustre: give its targets with --lustre")


def _may_stay(database: Path, if_needed: bool, past: Sequence[Path]) -> bool:
    """Apply the paper's rules (section 5.5.1) to the report of the last runs; tell whether the database may stay."""
    from weir.placement.lookups import read_report, report_of
    from weir.prediction.upkeep import Advice, advice

    lookups = read_report(report_of(database))
    follows = advice(created=lookups.total, missed=lookups.not_found)
    if lookups.total:
        say(f"{lookups.total} creations looked up, {lookups.not_found / lookups.total:.0%} of them without success")
    is_new = not past or not database.exists() or _is_younger(past, database)
    if if_needed and not is_new and follows in (Advice.TRAIN, Advice.TRACE):
        say(f"{database} stays: what is known predicts no better, until a run is recorded (`weir run --trace DIR`)")
        return True
    if follows is Advice.TRACE and not is_new:
        raise CommandError(
            "over half of the creations were not predicted: the known runs are of another program",
            hint="record a run anew, with `weir run --trace DIR -- CMD`, and place from it",
        )
    if follows is Advice.TRAIN and not is_new:
        warn(
            "the known runs predict too few of the created files, and none of them is newer than the database",
            hint="record the next one too: `weir run --placement FILE --trace DIR -- CMD`",
        )
    if if_needed and database.exists() and follows is Advice.KEEP:
        say(f"{database} stays")
        return True
    return False


def _forgotten_seconds(database: Path) -> float:
    """The Unix time before which runs are of another program: that of a database that missed most creations."""
    from weir.placement.lookups import read_report, report_of
    from weir.prediction.upkeep import Advice, advice

    lookups = read_report(report_of(database))
    follows = advice(created=lookups.total, missed=lookups.not_found)
    return database.stat().st_mtime if follows is Advice.TRACE and database.exists() else 0.0


def _is_younger(past: Sequence[Path], database: Path) -> bool:
    """Whether a past run was recorded after the database was written."""
    files = [file for path in past for file in (path.iterdir() if path.is_dir() else (path,))]
    return max((file.stat().st_mtime for file in files), default=0.0) > database.stat().st_mtime


def _targets(home: Home, lustre: Path | None) -> "Targets":
    from weir.placement.targets import targets_of_lustre, targets_of_store

    if lustre is not None:
        return targets_of_lustre(_lustre_view(lustre))

    return targets_of_store([server.status() for server in servers_up(home)])


def _lustre_view(file: Path) -> Any:
    import json

    from weir.lustre.view import view_of_document, view_of_lfs_df

    text = file.read_text(errors="replace")
    try:
        is_document = text.lstrip().startswith("{")
        view = view_of_document(json.loads(text), str(file)) if is_document else view_of_lfs_df(text, str(file))
    except (ValueError, RecursionError) as error:
        raise CommandError(
            f"cannot use {file}: {error}", hint="give the output of `lfs df`, or of `weir stats subscribe`"
        ) from error
    for name, why in view.left_out.items():
        warn(f"{name} is left out: {why}")
    return view


def _allot(programs: Sequence[ExpectedCreations], targets: "Targets", options: dict[str, Any]) -> "Allotment":
    from weir.placement.allotment import allot
    from weir.placement.arrangement import beginnings
    from weir.placement.layouts import lay_out

    creations = [creation for program in programs for creation in program.creations]
    components = lay_out(creations, _choices(options), targets=len(targets.each))
    begun = beginnings(program.creations for program in programs)
    return allot(components, targets, allocator=options["allocator"], seed=options["seed"], begun=begun)


def _choices(options: dict[str, Any]) -> "Choices":
    from weir.placement.layouts import LUSTRE_STRIPE_BYTES_MAX, Choices, rule

    round_robin = options["round_robin"]
    return Choices(
        rules=tuple(rule(text) for text in options["layouts"]),
        stripe_count=options["stripe_count"],
        stripe_bytes=None if round_robin is None else _stripe_bytes(round_robin),
        stripe_bytes_max=None if options["lustre"] is None else LUSTRE_STRIPE_BYTES_MAX,
    )


def _write(database: Path, allotment: "Allotment", programs: Sequence[ExpectedCreations]) -> None:
    from weir.placement.database import write
    from weir.placement.lookups import report_of

    temporaries = [program.prediction.temporaries for program in programs if program.prediction]
    count = write(
        database,
        allotment.components,
        names=[name for one in temporaries for name in one.names],
        patterns=[pattern for one in temporaries for pattern in one.patterns],
    )
    report_of(database).unlink(missing_ok=True)
    say(f"{count} files in {database}: run the program with `weir run --placement {database} -- CMD`")


def _emit(how: str, allotment: "Allotment", programs: Sequence[ExpectedCreations], options: dict[str, Any]) -> None:
    from weir.placement.directories import lfs_mkdir, spread
    from weir.placement.emit import files, lfs_command, yaml_template

    into: Path | None = options["into"]
    if how == "mkdir":
        paths = {creation.path for program in programs for creation in program.creations}
        for directory in spread(paths, options["mdts"]):
            print(lfs_mkdir(directory))
        return
    if how == "lfs":
        for path, parts in files(allotment.components):
            print(lfs_command(path, parts))
        return
    if into is not None:
        make_folders(into)
    for number, (path, parts) in enumerate(files(allotment.components)):
        _emit_template(number, path, yaml_template(parts), into)


def _emit_template(number: int, path: str, template: str, into: Path | None) -> None:
    import shlex

    from weir.placement.emit import shell_word

    if into is None:
        print(
            f"{'---' + chr(10) if number else ''}# lfs setstripe --yaml TEMPLATE {shell_word(path)}\n{template}",
            end="",
        )
        return
    file = into / f"{number:06}.yaml"
    write_whole(file, template, mode=None)
    print(f"lfs setstripe --yaml {shlex.quote(str(file))} {shell_word(path)}")


def _show_summary(allotment: "Allotment", programs: Sequence[ExpectedCreations], output: str) -> None:
    from weir.placement.emit import files, layout_of

    predictions = [program.prediction for program in programs if program.prediction]
    document = {
        "files": [
            {"path": path, "size_bytes": parts[0].size_bytes, "rank": parts[0].rank, "layout": layout_of(parts)}
            for path, parts in files(allotment.components)
        ],
        "targets": allotment.loads_bytes,
        "imbalance": allotment.imbalance,
        "programs": [{"program": one.program, "model": one.model, "runs": one.runs} for one in predictions],
    }
    if output != "table":
        show(output, document, (), ())
        return
    print_table(("TARGET", "BYTES"), [(name, size(count)) for name, count in allotment.loads_bytes.items()])
    for one in predictions:
        runs = "run" if one.runs == 1 else "runs"
        say(f"files of {one.title}: predicted by {one.model} from {one.runs} past {runs}")
    if allotment.imbalance is not None:
        say(f"the fullest target gets {allotment.imbalance:.2f} times the mean")


def _read(database: Path, path: str | None) -> "list[Component]":
    from weir.placement.database import read

    return read(database, path)


def _row(component: "Component") -> tuple[object, ...]:
    from weir.placement.database import END_OF_FILE

    end = component.extent_end
    return (
        component.path,
        size(component.size_bytes),
        component.component,
        size(component.extent_start),
        "EOF" if end == END_OF_FILE else size(end),
        size(component.stripe_bytes),
        component.stripe_count,
        component.rank,
        " ".join(component.targets) or "-",
    )
