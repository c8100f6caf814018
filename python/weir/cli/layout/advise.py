"""`weir layout advise`: layouts that do not fit a program's use of its files, and layouts that do."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli.common.errors import FAILED, CommandError, report, say
from weir.cli.common.output import output_option, show
from weir.cli.common.parameters import PATH, Checked
from weir.errors import WeirError
from weir.plain_text import plain
from weir.store.home import Home

if TYPE_CHECKING:
    from weir.placement.advice import Finding, Usage
    from weir.placement.slow_targets import SlowTarget
    from weir.placement.tuning import Tuned
    from weir.tracing.darshan import DarshanLog
    from weir.tracing.records import Run


@dataclass(frozen=True)
class _Source:
    """One run, from a Darshan log or from traces of our own."""

    log: str
    program: str
    ranks: int
    files: int
    """Number of files with a size, written or read."""
    sizes: list[int]
    """Sizes in bytes of the files that the run made."""
    usages: "list[Usage]"
    targets_seen: int
    """Number of different targets that the log names: numbers of targets may have gaps, and begin anywhere."""
    transfer_bytes: int
    """Size of the most common access to the largest file; 0 where it is not known."""
    slow: "list[SlowTarget]"
    incomplete: tuple[str, ...]


@dataclass(frozen=True)
class _Advice:
    """Advice on one run."""

    source: _Source
    targets: int
    findings: "list[Finding]"
    tuned: "Tuned | None"


def _speed(text: str) -> int:
    """Read a speed in bytes a second, in the spelling of benchmarks' arguments."""
    from weir.prediction.context import number

    value = number(text)
    if value is None or value < 1:
        raise ValueError(f"`{text}` is not a speed; give bytes a second, such as 512M")
    return int(value)


@click.command(name="advise")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=PATH)
@click.option("--tune", "is_tuned", is_flag=True, help="Fit a progressive layout to the sizes of the run's files.")
@click.option(
    "--targets",
    type=click.IntRange(1),
    help="Number of targets of the system. [default: the number that the log names]",
)
@click.option(
    "--target-speed",
    metavar="SIZE",
    type=Checked("speed", _speed),
    help="Speed of a target in bytes per second, for --tune.  [default: 512M]",
)
@output_option
@click.pass_obj
def advise(
    home: Home, logs: tuple[Path, ...], is_tuned: bool, targets: int | None, target_speed: str | None, output: str
) -> None:
    """Show layouts that did not fit the size and the use of files, and better ones.

    LOG is a log of Darshan 3, or a folder or file of traces of `weir run --trace`. The command also lists targets
    that were far slower than the others according to the log.
    """
    from weir.placement.tuning import TARGET_SPEED

    speed = TARGET_SPEED if target_speed is None else _speed(target_speed)
    sources, failures = _sources(logs, targets)
    told = [_advice(source, targets, is_tuned=is_tuned, speed=speed) for source in sources]
    failures += [_unfitted(advice.source) for advice in told if is_tuned and advice.source.sizes and not advice.targets]
    if output == "table":
        for number, advice in enumerate(told):
            _print(advice, is_tuned=is_tuned, is_first=number == 0)
    else:
        show(output, [_document(advice) for advice in told], (), ())
    for failure in failures:
        report(failure.message, failure.hint)
    if failures:
        raise click.exceptions.Exit(FAILED)


def _sources(logs: tuple[Path, ...], targets: int | None) -> tuple[list[_Source], list[WeirError]]:
    """Read the runs of all logs; return the runs, and the errors of unreadable logs."""
    from weir.tracing.darshan import DarshanError, read_logs
    from weir.tracing.files import SUFFIX, TraceError, read_runs

    sources: list[_Source] = []
    failures: list[WeirError] = []
    traces = [path for path in logs if path.is_dir() or path.suffix == SUFFIX]
    for path, answer in read_logs([path for path in logs if path not in traces]):
        if isinstance(answer, DarshanError):
            failures.append(answer)
        else:
            sources.append(_source_of_log(path, answer))
    try:
        runs = read_runs(traces, note=say) if traces else []
    except TraceError as error:
        failures.append(error)
        runs = []
    sources += [_source_of_run(run, targets or 1) for run in runs]
    return sources, failures


def _source_of_log(path: Path, log: "DarshanLog") -> _Source:
    from weir.placement.advice import usages_of_log
    from weir.placement.slow_targets import slow_targets

    named = {target for file in log.files for part in file.components for target in part.targets}
    largest = max(log.files, key=lambda file: max(file.size_bytes, file.size_read_bytes), default=None)
    return _Source(
        log=str(path),
        program=log.run.program,
        ranks=log.run.ranks,
        files=sum(file.size_bytes > 0 or file.size_read_bytes > 0 for file in log.files),
        sizes=[creation.size_bytes for creation in log.run.creations],
        usages=usages_of_log(log.files),
        targets_seen=len(named),
        transfer_bytes=largest.transfer_bytes if largest else 0,
        slow=slow_targets(log.files),
        incomplete=log.incomplete,
    )


def _source_of_run(run: "Run", targets: int) -> _Source:
    from weir.placement.advice import usages_of_creations

    usages = usages_of_creations(run.creations, targets=targets)
    return _Source(
        log=f"{run.program} of {run.started:.0f}",
        program=run.program,
        ranks=run.ranks,
        files=len(run.creations),
        sizes=[creation.size_bytes for creation in run.creations],
        usages=usages,
        targets_seen=max(len(_named(run)), max((usage.stripes for usage in usages), default=0)),
        transfer_bytes=0,
        slow=[],
        incomplete=(),
    )


def _named(run: "Run") -> set[str]:
    """The targets in the layouts of a run's files."""
    from weir import _core

    layouts = {creation.layout for creation in run.creations if creation.layout is not None}
    return {target for layout in layouts for part in _core.parse_layout(layout) for target in part["targets"]}


def _unfitted(source: _Source) -> CommandError:
    return CommandError(f"{source.log} names no targets, so no layout can be fitted", hint="give --targets")


def _advice(source: _Source, targets: int | None, *, is_tuned: bool, speed: int) -> _Advice:
    from weir.placement.advice import advise as advise_on
    from weir.placement.tuning import tune

    count = targets or source.targets_seen
    tuned = None
    if is_tuned and source.sizes and count:
        tuned = tune(source.sizes, targets=count, target_speed=speed, transfer_bytes=source.transfer_bytes)
    return _Advice(source, count, advise_on(source.usages, targets=count) if count else [], tuned)


def _print(advice: _Advice, *, is_tuned: bool, is_first: bool) -> None:
    from weir.cli.common.output import bold, print_table, size

    source = advice.source
    if not is_first:
        print()
    print(
        bold(plain(source.log)) + f"\n{plain(source.program)}, {source.ranks} ranks, {source.files} files, "
        f"{len(source.usages)} with a known layout, "
        f"{_targets(advice)}"
    )
    if source.incomplete:
        say(f"{source.log} is incomplete: {', '.join(source.incomplete)} ran out of memory; files may be missing")
    if advice.findings:
        header = ("FAULT", "FILES", "LARGEST", "LAYOUT", "BETTER", "WHERE")
        rows = [
            (one.kind, one.files, size(one.bytes_max), one.present, one.layout or "-", one.place)
            for one in advice.findings
        ]
        print_table(header, rows)
        for one in advice.findings:
            print(f"\n{one.kind}: {plain(one.reason)}\n  {plain(one.lfs)}")
            if one.layout is not None:
                print(f"  {plain(one.weir)}")
    elif source.usages:
        print("every layout fits")
    else:
        print("no layout is known: the files lie on no Lustre file system and on no store")
    for slow in source.slow:
        print(f"\nslow target {plain(str(slow.target))}: {_of(slow)}\n  {_avoid(slow)}")
    if advice.tuned is not None:
        _print_tuned(advice.tuned)
    elif is_tuned and not advice.source.sizes:
        print("\nnothing to fit a layout to: the run made no files")


def _targets(advice: _Advice) -> str:
    text = "1 target" if advice.targets == 1 else f"{advice.targets} targets"
    is_given = advice.targets != advice.source.targets_seen
    return text if is_given else f"{text} named (give those of the system with --targets)"


def _print_tuned(tuned: "Tuned") -> None:
    from weir.placement.tuning import spell

    gets = ", ".join(f"{count} stripe{'s' * (count > 1)} for {spell(size)}" for size, count in tuned.stripes)
    print(f"\nfitted layout, {spell(tuned.share_bytes)} a stripe ({gets}):")
    print(f"  lfs setstripe {tuned.spelling} DIRECTORY\n  weir layout set {tuned.spelling} DIRECTORY\n")
    print(tuned.ini, end="")


def _of(slow: "SlowTarget") -> str:
    return (
        f"{slow.bytes_per_second / 1e6:.0f} MB/s over {slow.files} files where the others' median is "
        f"{slow.median_bytes_per_second / 1e6:.0f} MB/s, {slow.lost_seconds:.0f} s longer than they took"
    )


def _avoid(slow: "SlowTarget") -> str:
    """The command that keeps new objects off an OST until it is mended; it runs on the metadata servers."""
    return f"lctl set_param osp.*-OST{slow.target:04x}-osc-MDT*.max_create_count=0"


def _document(advice: _Advice) -> dict[str, object]:
    source, tuned = advice.source, advice.tuned
    return {
        "log": source.log,
        "program": source.program,
        "ranks": source.ranks,
        "files": source.files,
        "files_with_layout": len(source.usages),
        "targets": advice.targets,
        "incomplete": list(source.incomplete),
        "findings": [asdict(finding) for finding in advice.findings],
        "slow_targets": [{**asdict(slow), "lfs": _avoid(slow)} for slow in source.slow],
        "tuned": None
        if tuned is None
        else {
            "layout": tuned.spelling,
            "ini": tuned.ini,
            "share_bytes": tuned.share_bytes,
            "stripes": [{"size_bytes": size, "stripes": count} for size, count in tuned.stripes],
        },
    }
