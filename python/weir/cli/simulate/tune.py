"""`weir simulate tune`: a layout and parameters of the policy, found by simulated runs and judged on others."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.cluster_options import chosen_pool, cluster_options
from weir.cli.common.errors import FAILED, CommandError, say, warn
from weir.cli.common.output import Quantity, output_option
from weir.cli.common.parameters import EXISTING_FOLDER, FILE, FOLDER, Checked
from weir.cli.simulate.names import OBJECTIVE, PART, TOPOLOGY
from weir.cli.simulate.present import now_of_store
from weir.cli.simulate.words import skip_unreadable_option, skipped_document, tell_skipped
from weir.store import values
from weir.ways import make_work_folder, write_whole

if TYPE_CHECKING:
    from weir.simulation.documents import Document
    from weir.simulation.tuning.application import Application
    from weir.simulation.tuning.cases import Cases
    from weir.simulation.tuning.judgement import Judgement
    from weir.simulation.tuning.tuner import Tuned
    from weir.simulation.workload import SkippedLog
    from weir.store.home import Home

_INTERRUPTED = 130
_ROWS_MAX = 20
_COMMAND_SECONDS = 120


@click.command()
@click.argument("scenario", metavar="[SCENARIO]", required=False, type=FILE)
@click.option(
    "--logs",
    type=EXISTING_FOLDER,
    help="Folder of Darshan logs: the workloads are mixes of them, in place of the scenario's jobs.",
)
@skip_unreadable_option
@click.option(
    "--skip-too-large", is_flag=True, help="Leave out logs whose files the targets cannot hold, and name them."
)
@click.option(
    "--topology", type=TOPOLOGY, help="Machines, without a SCENARIO: a preset, numbers such as 16x8, or a file."
)
@click.option("--from-store", is_flag=True, help="Take the machines and the default settings of the running store.")
@click.option(
    "--mode", type=click.Choice(["flow", "request"]), help="The model, in place of the scenario's.  [default: flow]"
)
@click.option("--objective", type=OBJECTIVE, default="io_slowdown_mean", help="Figure to improve.")
@click.option(
    "--search",
    "parts",
    multiple=True,
    type=PART,
    help="Part of the settings to search: layout, scheduler, lambda, policy, weights or allocator. May be given again."
    "  [default: layout]",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=Checked("policy", values.policy),
    help="Policy to choose from, with --search policy.",
)
@click.option("--trials", type=click.IntRange(1, 100_000), default=60, help="Settings to try.")
@click.option("--training", type=click.IntRange(1, 1000), default=4, help="Number of workloads to search with.")
@click.option("--held-out", type=click.IntRange(1, 1000), default=8, help="Number of workloads to judge by.")
@click.option("--at-once", type=click.IntRange(1, 1000), default=3, help="Number of logs in a workload.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the search.")
@click.option(
    "--out",
    metavar="DIR",
    type=FOLDER,
    default="weir-tune",
    help="Folder of the trials and the result, in which the same command continues.",
)
@click.option(
    "--apply",
    "folder",
    metavar="FOLDER",
    type=FOLDER,
    help="If the found setting is better, set it on the store that is up; a layout is set for new files of this"
    " folder.",
)
@cluster_options
@output_option
@click.pass_obj
def tune(home: "Home", /, scenario: Path | None, logs: Path | None, output: str, **options: Any) -> int:
    """Search for a progressive layout, and for parameters of the policy, by simulated runs.

    The workloads are those of SCENARIO with different seeds, or mixes of the Darshan logs in --logs. The search uses
    some of the workloads, and the found setting is compared with the default on the others: the exit code is 1 if it
    is not shown to be better.
    """
    from weir.cli.common.progress import progress
    from weir.cli.simulate.sweep import checked_objectives
    from weir.simulation.tuning.application import application_of
    from weir.simulation.tuning.tuner import DOCUMENT, Options, tune

    checked_objectives([options["objective"]], has_slowdowns=True)
    base = _base(home, scenario, logs, options)
    if options["mode"] is not None:
        base = base.changed({"mode": options["mode"]})
    skipped: list[SkippedLog] = []
    cases = _cases(base, logs, skipped, options)
    tell_skipped(skipped)
    chosen = Options(
        objective=options["objective"],
        parts=tuple(options["parts"]) or ("layout",),
        policies=options["policies"],
        trials=options["trials"],
        seed=options["seed"],
    )
    out: Path = options["out"]
    make_work_folder(out)
    try:
        with progress() as show, chosen_pool(options, out) as pool:
            tuned = tune(
                base, cases, chosen, out, pool=pool, progress=lambda done, trials: show("trials", done, trials)
            )
    except KeyboardInterrupt:
        say(f"interrupted: the trials that ended are in {out}; the same command continues")
        return _INTERRUPTED
    application = application_of(tuned.changes, tuned.default["policy"], str(options["folder"] or "FOLDER"))
    document = {**tuned.document(), **_application_document(application), "skipped_logs": skipped_document(skipped)}
    _write(out / DOCUMENT, document)
    _show(tuned, application, chosen.objective, document, output)
    is_better = tuned.judgement is not None and tuned.judgement.is_better
    if options["folder"] is not None:
        _apply(home, application, is_better=is_better)
    return 0 if is_better else FAILED


def _base(home: "Home", scenario: Path | None, logs: Path | None, options: dict[str, Any]) -> "Document":
    from weir.simulation.documents import Document, parse_document, read_document

    topology, from_store = options["topology"], options["from_store"]
    if topology is not None and from_store:
        raise click.UsageError("give --from-store or --topology, not both")
    for name in ("skip_unreadable", "skip_too_large"):
        if options[name] and logs is None:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --logs")
    if scenario is not None:
        if topology is not None or from_store:
            name = "--topology" if topology is not None else "--from-store"
            raise click.UsageError(f"{name} is for tuning without a SCENARIO, which names its own machines")
        read = read_document(scenario)
        # The mixes of logs take the place of all the scenario's jobs.
        return read.changed({"accounting": None}) if logs is not None and read.table().has("accounting") else read
    if logs is None or (topology is None and not from_store):
        raise click.UsageError("give a SCENARIO, or --logs and --topology or --from-store")
    if topology is None:
        return Document(now_of_store(home), {}, origin="the running store", folder=Path.cwd())
    text = f"topology = {_toml_text(topology)}\n"
    return parse_document(text, origin="the scenario of --topology", folder=Path.cwd())


def _toml_text(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=True)


def _cases(base: "Document", logs: Path | None, skipped: "list[SkippedLog]", options: dict[str, Any]) -> "Cases":
    """The workloads; the logs that cannot be used are added to `skipped`."""
    from weir.simulation.scenario import topology_of
    from weir.simulation.tuning.cases import Mixes, cases_of_logs, cases_of_seeds, find_logs

    training, held_out = options["training"], options["held_out"]
    if logs is None:
        return cases_of_seeds(base.table().whole("seed", 0), training, held_out)
    topology = topology_of(base)
    mixes = Mixes(training, held_out, topology.free_bytes, at_once=options["at_once"])
    found = find_logs(
        logs,
        topology,
        skip_unreadable=skipped.append if options["skip_unreadable"] else None,
        skip_too_large=skipped.append if options["skip_too_large"] else None,
    )
    return cases_of_logs(found, options["seed"], mixes)


def _write(path: Path, document: dict[str, Any]) -> None:
    import json

    write_whole(path, json.dumps(document, indent=1) + "\n", mode=0o644)


def _application_document(application: "Application") -> dict[str, Any]:
    return {
        "commands": [["weir", *command] for command in application.commands],
        "cluster_toml": list(application.lines),
    }


def _show(tuned: "Tuned", application: "Application", objective: str, document: dict[str, Any], output: str) -> None:
    from weir.cli.common.output import show
    from weir.simulation.tuning.tuner import objective_words

    judgement = tuned.judgement
    compared = [] if judgement is None else judgement.comparisons
    rows = [(each.case, _cost(each.default), _cost(each.found), _ratio(each.ratio)) for each in compared[:_ROWS_MAX]]
    show(
        output, {"objective": objective, **document}, ("HELD-OUT WORKLOAD", "DEFAULT COST", "FOUND COST", "RATIO"), rows
    )
    if judgement is None:
        warn("no tried setting works for every workload", hint="try more --trials, or search fewer parts")
        return
    say(f"objective {objective}: {objective_words(objective)}; a cost is its value, or 1 by it where more is better")
    say(f"found: {', '.join(f'{key} = {value}' for key, value in tuned.changes.items())}")
    say(f"default: {', '.join(f'{key} = {_default(key, tuned.default)}' for key in tuned.changes)}")
    say(f"on the training: {tuned.training_ratio:.3f} times the default's cost")
    say(f"held out: {_interval(judgement)}")
    if tuned.advised is not None:
        say(f"held out, the layout of `weir layout advise` ({tuned.advised[0]}): {_interval(tuned.advised[1])}")
    if tuned.are_seeds_alike:
        warn("the seeds make no difference to this scenario, so the interval has no meaning", hint="tune from --logs")
    _tell_losses(judgement)
    for command in application.commands:
        say(f"weir {shlex.join(command)}")
    if application.lines:
        say("in cluster.toml, before the store comes up:")
        for line in application.lines:
            say(f"    {line}")


def _default(key: str, default: dict[str, Any]) -> Any:
    """The default's value of a key that was searched, in the spelling of the scenario's file."""
    if key == "layout.components":
        return default["layout"] or f"-c {default['stripe_count'] or -1} -S {default['stripe_bytes']}"
    values = {
        "layout.stripe_size": default["stripe_bytes"],
        "lambda": f"{1000 * default['lambda_seconds']:g}ms",
        "scheduler": default["scheduler"] or "the policy's own",
        "share": default["entitlements"],
    }
    return values.get(key, default.get(key))


def _tell_losses(judgement: "Judgement") -> None:
    if not judgement.is_better:
        warn("the setting is not shown to be better than the default", hint="keep the default, or try more --trials")
    for each in judgement.failures[:3]:
        warn(f"{each.case} fails under it: {each.found.reason}")
    worse = judgement.worse
    if worse:
        worst = worse[0]
        say(
            f"worse on {len(worse)} of {len(judgement.ratios)} held-out workloads; the worst is {worst.case}: "
            f"{worst.ratio:.3f} times the default's cost"
        )
    if judgement.worst_job is not None:
        loss = judgement.worst_job
        say(f"the job that loses most is {loss.job} of {loss.case}: {loss.ratio:.3f} times its time in I/O")


def _interval(judgement: "Judgement") -> str:
    mean = judgement.mean
    if mean is None:
        return "no workload was carried"
    bounds = "" if mean.low is None else f" (95 %: {mean.low:.3f} to {mean.high:.3f})"
    return f"{mean.mean:.3f} times the default's cost{bounds} over {len(judgement.ratios)} workloads"


def _cost(run: Any) -> Any:
    return Quantity("-" if run.cost is None else f"{run.cost:.4g}")


def _ratio(ratio: float | None) -> Any:
    return Quantity("-" if ratio is None else f"{ratio:.3f}")


def _apply(home: "Home", application: "Application", *, is_better: bool) -> None:
    """Set the setting by the commands that are printed."""
    import subprocess

    if not is_better:
        raise CommandError("nothing is applied: the setting is not shown to be better than the default")
    for command in application.commands:
        words = [sys.executable, "-m", "weir.cli", "--home", str(home.root), *command]
        answer = subprocess.run(words, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
        if answer.returncode != 0:
            raise CommandError(f"`weir {shlex.join(command)}` failed: {answer.stderr.strip()}")
        say(f"applied: weir {shlex.join(command)}")
    if application.lines:
        warn("the lines for cluster.toml are not applied", hint="write them there, then `weir down` and `weir up`")
