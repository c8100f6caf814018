"""`weir stress`: kernels shaped as applications, on stores of every kind and on mounted paths."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli.common.amounts import parse_amount
from weir.cli.common.errors import FAILED, say, warn
from weir.cli.common.output import Quantity, output_option
from weir.cli.common.parameters import FOLDER, PATH, Checked, Number, each

if TYPE_CHECKING:
    from weir.provisioning.stress.execution import Finished
    from weir.provisioning.stress.plan import Planned
    from weir.provisioning.stress.results import StressResult
    from weir.provisioning.stress.systems import Candidate

_KERNELS = ("hacc", "hacc-many", "hacc-random", "hacc-mixed", "vpic", "bdcats", "enzo", "mdtest")
_BACKENDS = ("ram", "dir")
_DEVICES = ("hdd", "ssd", "nvme", "pmem", "memory", "disk")
_SERVERS_MAX = 64
_PROCESSES_MAX = 256
_SECONDS_MAX = 3600.0
_REPEATS_MAX = 100
_FILE_BYTES_MAX = 1 << 40
_FILE_BYTES_MIN = 20 << 20
_ROWS_MAX = 40
_REFUSALS_SHOWN = 5


def _number(least: int, most: int) -> Callable[[str], object]:
    """Make the reader of a number within bounds."""

    def read(text: str) -> object:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"`{text}` is no number from {least} to {most}")
        return int(text)

    return read


def _name(text: str) -> object:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", text):
        raise ValueError(f"`{text}` is no name: letters, digits, `_`, `.` and `-` make one")
    return text


def _device(text: str) -> object:
    from weir.provisioning.stress.systems import read_device

    return read_device(text)


def _setting(text: str) -> object:
    from weir.provisioning.stress.systems import read_setting

    return read_setting(text)


@click.command()
@click.option("--out", metavar="DIR", type=FOLDER, default="weir-stress", help="Folder of the results.")
@click.option("--path", metavar="DIR", type=PATH, help="Measure the file system of this folder.")
@click.option(
    "--name",
    metavar="NAME",
    type=Checked("name", _name),
    help="Name of the devices of --path. [default: the file system's type]",
)
@click.option(
    "--replicas", type=click.IntRange(1, 16), default=1, help=("Number of copies that the file system of --path keeps.")
)
@click.option("--encrypted", is_flag=True, help="The file system of --path encrypts bytes at rest.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="DEVICE",
    type=Checked("device", _device),
    help="Class of devices, or NAME=READ,WRITE,FIXED such as qlc=1GB/s,200MB/s,100us; may be given again."
    f"  [default: {', '.join(_DEVICES)}]",
)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    type=click.Choice(_BACKENDS),
    help="Backend of the targets; may be given again.  [default: both]",
)
@click.option(
    "--servers",
    metavar="N,N",
    type=Checked("numbers", each(_number(1, _SERVERS_MAX))),
    help="Numbers of servers.  [default: 1,2; of a path: 1]",
)
@click.option(
    "--targets",
    metavar="N,N",
    type=Checked("numbers", each(_number(1, _SERVERS_MAX))),
    default="1",
    help="Numbers of targets of each server.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=V,V",
    type=Checked("setting", _setting),
    help="Values of a setting: policy, scheduler, allocator, stripe_size, stripe_count or lambda_milliseconds.",
)
@click.option(
    "--kernel",
    "names",
    multiple=True,
    type=click.Choice(_KERNELS),
    help="Kernel; may be given again.  [default: all]",
)
@click.option(
    "--processes",
    metavar="N,N",
    type=Checked("numbers", each(_number(2, _PROCESSES_MAX))),
    default="4",
    help="Numbers of processes.",
)
@click.option("--seconds", type=Number(0.05, _SECONDS_MAX), default=1.0, help="Length of each phase of a kernel.")
@click.option(
    "--bytes", "file_bytes", callback=parse_amount, default="32MiB", help="Bytes of each process, at least 20MiB."
)
@click.option(
    "--repeats", type=click.IntRange(1, _REPEATS_MAX), default=3, help=("Number of times to repeat each measurement.")
)
@click.option(
    "--scratch",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Folder of the stores' files.  [default: that of temporary files]",
)
@output_option
@click.pass_context
def stress(context: click.Context, /, out: Path, output: str, file_bytes: int, **options: Any) -> int:
    """Measure storage by kernels shaped as VPIC-IO, BD-CATS, HACC-IO, Enzo and mdtest.

    Without --path, each Weir store of the given devices, backends, servers, targets and settings is brought up,
    measured and removed. With --path, the file system of a folder is measured, in a folder of its own that is removed.
    Each measurement is written at once, so the same command continues after Ctrl-C or a crash.

    `weir sslo build DIR` makes service-level objectives of the results.
    """
    import signal

    from weir.cli.common.progress import progress
    from weir.provisioning.stress import execution
    from weir.provisioning.stress.plan import plan, seconds_of

    if not _FILE_BYTES_MIN <= file_bytes <= _FILE_BYTES_MAX:
        raise click.UsageError("--bytes is at least 20MiB and at most 1TiB", context)
    planned = plan(
        _candidates(context, options),
        names=options["names"] or _KERNELS,
        processes=_numbers(options["processes"]),
        repeats=options["repeats"],
        seconds=options["seconds"],
        file_bytes=file_bytes,
    )
    say(f"{len(planned)} measurements, whose phases take about {seconds_of(planned):.0f} s")
    # SIGTERM is an interruption: the store or folder of the measurement is then removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with progress() as show:
            finished = execution.run(
                planned,
                out,
                scratch=options["scratch"],
                progress=lambda done, all_of_them: show("measurements", done, all_of_them),
            )
    except KeyboardInterrupt:
        say(f"interrupted; the finished measurements are in {out}, and the same command continues with the others")
        raise
    _show(planned, out, output)
    return _tell_end(finished, out)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _candidates(context: click.Context, options: dict[str, Any]) -> "list[Candidate]":
    from click.core import ParameterSource

    from weir.provisioning.stress import systems

    def given(names: Sequence[str]) -> list[str]:
        return [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]

    if options["path"] is not None:
        if wrong := given(("devices", "backends", "targets", "settings", "scratch")):
            raise click.UsageError(f"--{wrong[0].removesuffix('s')} is for Weir stores, and --path is none", context)
        servers = _numbers(options["servers"] or "1")
        if len(servers) != 1:
            raise click.UsageError("a path has one number of --servers", context)
        return [
            systems.mounted(
                options["path"],
                options["name"],
                servers=servers[0],
                replicas=options["replicas"],
                is_encrypted=options["encrypted"],
            )
        ]
    if wrong := given(("name", "replicas", "encrypted")):
        raise click.UsageError(f"--{wrong[0]} describes a --path, and there is none", context)
    return systems.stores(
        [systems.read_device(text) for text in options["devices"] or _DEVICES],
        backends=options["backends"] or _BACKENDS,
        servers=_numbers(options["servers"] or "1,2"),
        targets=_numbers(options["targets"]),
        settings=dict(systems.read_setting(text) for text in options["settings"]),
    )


def _show(planned: "Sequence[Planned]", out: Path, output: str) -> None:
    import msgspec

    from weir.cli.common.output import show
    from weir.provisioning.stress.results import read_results

    keys = {each.key for each in planned}
    results = [each for each in read_results([out]) if each.key in keys]
    rows = [_row(each) for each in results if each.figures is not None]
    header = ("DEVICE", "SERVERS", "TARGETS", "SETTINGS", "PROCESSES", "KERNEL", "READ", "WRITE", "MIXED", "NAMES")
    show(output, msgspec.to_builtins(results), header, rows[:_ROWS_MAX])
    if output == "table" and len(rows) > _ROWS_MAX:
        say(f"{len(rows) - _ROWS_MAX} more measurements; --output json has all")


def _row(result: "StressResult") -> tuple[object, ...]:
    point, found = result.settings, result.figures
    settings = " ".join(f"{name}={value}" for name, value in point.system.settings.items() if "speed" not in name)

    def rate(value: float | None, scale: float, unit: str) -> Quantity:
        return Quantity("-" if value is None else f"{value / scale:.1f} {unit}")

    return (
        point.system.device,
        point.system.servers,
        point.system.targets_per_server,
        settings,
        point.processes,
        point.kernel,
        *(rate(getattr(found, f"{name}_bytes_per_second", None), 1e6, "MB/s") for name in ("read", "write", "mixed")),
        rate(None if found is None else found.metadata_operations_per_second, 1.0, "/s"),
    )


def _tell_end(finished: "Finished", out: Path) -> int:
    say(f"{finished.measured} measured, {finished.known} known before; see `weir sslo build {out}`")
    for refused in finished.refused[:_REFUSALS_SHOWN]:
        point = refused.planned.point
        warn(f"{point.kernel} on {point.system.device} was not measured: {refused.reason}")
    if len(finished.refused) > _REFUSALS_SHOWN:
        warn(f"{len(finished.refused)} measurements could not be made", hint="the same command tries them again")
    return FAILED if finished.refused else 0
