"""What comes from elsewhere is checked: each decoder is given many mutated samples, in bounded memory and time.

Each decoder and each command that takes a file has an entry here; one that is added without fails these tests.
"""

import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import expanding
import foreign
import foreign_streams
import msgspec
import numpy
import past_runs
import provisioned
import pytest
import simulated
import windows as synthetic
from lustre_messages import statistics, target
from resident import IDENTITY
from seeds import seed
from weir import cli
from weir.lustre.collector import Collector
from weir.lustre.message import Statistics, encode
from weir.lustre.observer import OwnLoad, Thresholds
from weir.placement import database
from weir.provisioning.objectives import shipped
from weir.provisioning.resources.model import read_resources
from weir.provisioning.sharing import interference_factors
from weir.provisioning.sharing.prices import PriceList, Tier
from weir.provisioning.stress import kernels
from weir.provisioning.stress.results import OWNER
from weir.store.backup import take
from weir.store.home import Home
from weir.store.identity import Identity

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
SECONDS_MAX = 900
"""For the rounds of one decoder, which take some seconds: a decoder that hangs meets it."""
MIB = 1 << 20
INI = "[Client]\nBuckets = 2\n[Bucket_1]\nExtent = 128M\nStripe = 1\n[Bucket_2]\nExtent = -1\nStripe = 3\n"
COLLECTION = """\
version = 1
repeats = 2
[[target]]
name = "writer"
kernel = "amrex"
rounds = 4
[[interferer]]
name = "hog"
command = ["sh", "-c", "true"]
instances = [1, 2]
"""
MATRIX = """\
{"version":1,"tasks":["amrex"],"instances":3,"seconds":4.0,"store":"version = 1","policies":[
{"policy":"fifo","quiet":{"amrex":1.0},"cells":[
{"task":"amrex","interferer":"amrex","slowdown":2.5,"runs":[2.0,3.0]}]}]}
"""
TOML = """\
version = 1
policy = "size-fair"
lambda_milliseconds = 100
[[server]]
listen = "127.0.0.1:0"
[[server.target]]
backend = "ram"
capacity = "64MiB"
speed = { write = "100MB/s", read = "100MB/s" }
[[share]]
group = "physics"
weight = 2
reservation = "20%"
"""


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    parts = []
    while number >= 128:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def trace(folder: Path) -> None:
    def text(value: str) -> bytes:
        return varint(len(value.encode())) + value.encode()

    started = varint(1_800_000_000 * 10**9)
    process = (
        b"\0" + text("run") + text("node") + b"\1\1\1" + text("/bin/model") + text("model\0in\0")
        + text("/work") + text("") + b"\0" + started
    )  # fmt: skip
    records = [process]
    for number in range(6):
        # A name that takes the terminal over where it is printed as it is.
        path = f"/mnt/out.{number}\x1b[2J\x1b]0;owned\x07"
        records.append(b"\1" + bytes([number]) + text(path) + text("") + b"\0" + b"\x80\1")
        records.append(b"\2" + bytes([number]) + b"\x80\x80\x40" + b"\x80\x80\x40" + b"\0\1" + b"\x80\2")
        records.append(b"\3" + bytes([number]) + text("-c 2 -S 1M"))
    records.append(b"\4" + text("/mnt/out.1") + text("/mnt/b\x9b31m") + b"\x80\3")
    windows = b"\7\7" + varint(1000) + text("job\x1b[2J") + varint(10**9)
    for number in range(3):
        windows += b"\x08" + varint(1_800_000_000 + number) + b"\1\1\0" + b"\3\x80\1\x80\2" * 2 + b"\1\1\1\1\5\x80\2"
    records.append(windows + b"\x09\2\3\x80\2")
    content = b"\xb7WEIRTRC" + struct.pack("<I", 2)
    for payload in records:
        head = struct.pack("<II", len(payload), zlib.crc32(payload))
        content += head + struct.pack("<I", zlib.crc32(head)) + payload
    (folder / "one.weirtrace").write_bytes(content)


def darshan(folder: Path) -> None:
    for name in ("sample-goodost", "sample-dxt-simple", "noposix"):
        (log,) = (DATA / "darshan").glob(f"{name}*.darshan")
        shutil.copy(log, folder / f"{name}.darshan")


def lustre_text(folder: Path) -> None:
    for name in ("lfs-df", "lctl-dl-t"):
        content = gzip.decompress((DATA / "lustre" / f"{name}.txt.gz").read_bytes())
        (folder / f"{name.removesuffix('-t')}.txt").write_bytes(content)
    creations(folder)


def lustre_server() -> Statistics:
    room = {"total_bytes": 10**12, "free_bytes": 6 * 10**11, "available_bytes": 5 * 10**11}
    return statistics(targets=tuple(target(f"fs-OST000{index}", **room) for index in range(3)))


def lustre_document(folder: Path) -> None:
    collector = Collector()
    collector.accept(lustre_server(), 1.0)
    own = OwnLoad(0.1, 0.1, 0.5, None)
    document = collector.document(2.0, time_seconds=time.time(), own=own, thresholds=Thresholds())
    (folder / "statistics.json").write_text(json.dumps(document))
    creations(folder)


def lustre_tree(folder: Path) -> None:
    shutil.copytree(DATA / "lustre" / "2.15" / "first", folder, dirs_exist_ok=True)
    shutil.copytree(DATA / "lustre" / "2.15" / "mds", folder, dirs_exist_ok=True)
    (folder / "proc" / "diskstats").write_text("   8  0 sda 11 12 13 14 21 22 23 24 31 32 33 41 42 43 44 51 52\n" * 3)


def messages(folder: Path) -> None:
    (folder / "statistics").write_bytes(encode(lustre_server()))


def placement(folder: Path) -> None:
    parts = [
        database.Component("/mnt/ior/test.0", 1, 0, database.END_OF_FILE, MIB, 2, 8 * MIB, 0, ("3.1", "0.2")),
        database.Component("/mnt/ior/test.1", 1, 0, 128 * MIB, MIB, 1, 600 * MIB, 1, ("14",)),
        database.Component(
            "/mnt/ior/test.1", 2, 128 * MIB, database.END_OF_FILE, 4 * MIB, 3, 600 * MIB, 1, ("3", "14", "5")
        ),
    ]
    database.write(folder / "placement.db", parts)


def creations(folder: Path) -> None:
    entries = [{"path": f"/mnt/out.{number}", "size_bytes": number << 20, "rank": number} for number in range(8)]
    (folder / "creations.json").write_text(json.dumps(entries))
    lines = ["path,size_bytes,rank,layout", *(f"/mnt/out.{number},{number << 20},{number}," for number in range(8))]
    (folder / "creations.csv").write_text("\n".join(lines))
    (folder / "layout.ini").write_text(INI)
    rows = [f"lustre-OST{index:04x}_UUID 10000000 1000000 9000000 10% /mnt/lustre[OST:{index}]" for index in range(35)]
    if not (folder / "lfs-df.txt").exists():
        (folder / "lfs-df.txt").write_text("\n".join(["UUID 1K-blocks Used Available Use% Mounted on", *rows, ""]))


def backup(folder: Path) -> None:
    """A backup of a home whose journals have any content: restoring does not read them."""
    home = Home(folder.parent / "home-of-backup")
    home.create()
    home.site_key.write_text("07" * 32 + "\n")
    home.configuration.write_text(TOML)
    journal = home.server(0) / "journal"
    journal.mkdir(parents=True)
    (journal / "durable").write_bytes(bytes(4096))
    (journal / "log-0000000000000001-0123abcd").write_bytes(bytes(range(256)) * 20)
    take(home, folder / "backup.tar")


def report(folder: Path) -> None:
    entry = {"version": 1, "placed": 5, "present": 1, "refused": 0, "missed": 2, "names": ["/a", "/b"]}
    (folder / "placement.db.report").write_text(f"{json.dumps(entry)}\n{json.dumps(entry)}\n")


def configuration(folder: Path) -> None:
    (folder / "cluster.toml").write_text(TOML)


def credential(folder: Path) -> None:
    text = Identity("job", "ada", "physics", os.getuid(), 0, []).mint("07" * 32, 1 << 30)
    (folder / "credential.json").write_text(text)


def addresses(folder: Path) -> None:
    # A port on which nobody listens: what the commands make of the file is tested here, not what servers answer.
    server = {"server": 0, "tcp": "127.0.0.1:1", "unix": "/nowhere", "owner": 0, "control": "127.0.0.1:1"}
    (folder / "cluster.json").write_text(json.dumps({"version": 1, "servers": [server]}))


def sweep(folder: Path) -> None:
    (folder / "scenario.toml").write_text('topology = "2x2"\n[[jobs]]\ngenerator = "ior"\nprocesses = 2\n')
    (folder / "sweep").mkdir()
    (folder / "sweep" / "sweep.toml").write_text(
        'base = "../scenario.toml"\n[sweep]\npolicy = ["fifo", "size-fair"]\njobs.0.transfer = ["64k", "1MiB"]\n'
        'lambda = ["10ms", "1s"]\nseeds = 3\n[[sweep.leave_out]]\npolicy = "fifo"\nseed = [1, 2]\n'
    )
    axes: dict[str, list[Any]] = {"policy": ["fifo", "size-fair"], "seed": [0, 1, 2]}
    header = {"version": 1, "file": "sweep.toml", "digest": "d", "parts": {"the points": "p"}, "axes": axes}
    (folder / "sweep" / "sweep.json").write_text(json.dumps(header))
    points = [
        {
            "key": f"{policy}-{seed}",
            "settings": {"policy": policy, "seed": seed},
            "figures": {"seconds": 1.5 + seed, "events": 700, "is_complete": True, "slowdown_max": None},
            "refusal": None,
        }
        for policy in axes["policy"]
        for seed in axes["seed"]
    ]
    (folder / "sweep" / "points.ndjson").write_text("".join(json.dumps(point) + "\n" for point in points))


def simulated_run(folder: Path) -> None:
    from weir.simulation.records import write
    from weir.simulation.runs import record

    write(record("two", simulated.scenario()), folder)
    for path in folder.glob("*.parquet"):
        path.unlink()


def scenario(folder: Path) -> None:
    simulated.written(folder)


def accounting(folder: Path) -> None:
    lines = ["JobID|JobName|User|Account|Submit|Start|Elapsed|NNodes|NCPUS"]
    for number in range(6):
        begin = f"2026-03-01T1{number}:00:00"
        lines.append(f"{100 + number}|model|ada|physics|{begin}|{begin}|0{number}:10:00|4|128")
        lines.append(f"{100 + number}.batch|batch|||{begin}|{begin}|0{number}:10:00|1|32")
    (folder / "sacct.txt").write_text("\n".join([*lines, ""]))


def stress(folder: Path) -> None:
    """Two results of a system, as `weir stress` writes them."""
    header = {"version": 1, "file": OWNER, "digest": "", "parts": {}, "axes": {}}
    (folder / "sweep.json").write_text(json.dumps(header))
    lines = []
    for kernel in ("hacc", "enzo"):
        point = {
            "version": 1,
            "kernels": kernels.VERSION,
            "system": {"device": "nvme", "servers": 2, "settings": {"backend": "ram"}},
            "semantics": {"durable": False},
            **{"kernel": kernel, "processes": 4, "repeat": 0, "seconds": 1.0, "file_bytes": 1 << 25},
        }
        figures = {"read_bytes_per_second": 2e9, "write_bytes_per_second": 1e9}
        lines.append(json.dumps({"key": kernel, "settings": point, "figures": figures, "refusal": None}) + "\n")
    (folder / "points.ndjson").write_text("".join(lines))


def job(folder: Path) -> None:
    (folder / "jobspec.yaml").write_text(provisioned.JOBSPEC)
    (folder / "job.sh").write_text(provisioned.SCRIPT)


def planner_requests(folder: Path) -> None:
    lines = [
        {"request": "plan", "id": 1, "script": provisioned.SCRIPT, "name": "job-1", "nodes": 4, "log": "/x.darshan"},
        {"request": "plan", "id": "two", "script": provisioned.JOBSPEC, "policy": "utilization"},
        {"request": "plan", "identity": msgspec.to_builtins(IDENTITY)},
        {"request": "validate", "script": provisioned.SCRIPT},
        {"request": "setup", "name": "job-1", "uid": 1000, "nodes": ["n1", "n2"], "wait_seconds": 1.5},
        {"request": "end", "name": "job-1", "discard": True},
        {"request": "list", "all_users": True, "after": "1000/job-1", "limit": 10},
        {"request": "quarantine", "node": "n1", "seconds": 60, "reason": "its fan"},
    ]
    (folder / "requests.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))


def resources(folder: Path) -> None:
    (folder / "resources.toml").write_text(provisioned.RESOURCES)
    found = read_resources(folder / "resources.toml")
    (folder / "resources.json").write_bytes(msgspec.json.encode(found))


def deployment(folder: Path) -> None:
    from job_runs import schema
    from weir.provisioning.lifecycle.record import State

    (folder / "deployment.json").write_text(json.dumps(schema(folder)))
    (folder / "state.json").write_bytes(msgspec.json.encode(State(kept={"0": "/kept"}, command=("true",))))


def copy_record(folder: Path) -> None:
    from weir.staging.record import Parts, Record

    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    record = Record(opened, b"copy", "/source")
    record.begin((b"large",), Parts((5, 6, 7, 8), record.prefix + b"1"))
    for number in range(3):
        record.part((b"large",), number, bytes(32))
    record.begin((b"done",), Parts((5, 6, 7, 8), b"other"))
    record.end((b"done",))
    record.close(done=False)
    os.close(opened)


def sslos(folder: Path) -> None:
    (folder / "sslos.json").write_bytes(msgspec.json.encode(shipped.built_in()))


def slurm(folder: Path) -> None:
    for name in ("nodes", "jobs"):
        shutil.copy(DATA / "slurm" / f"22.05-busy-{name}.json", folder / f"{name}.json")


def tables(folder: Path) -> None:
    prices = PriceList(tiers=(Tier(device="nvme", cost=0.1, total=4, free=2),))
    (folder / "prices.json").write_bytes(msgspec.json.encode(prices))
    factors = msgspec.structs.replace(
        interference_factors.built_in(), factors=interference_factors.built_in().factors[:5]
    )
    (folder / "factors.json").write_bytes(msgspec.json.encode(factors))


def windows(folder: Path) -> None:
    from weir.interference import predictor
    from weir.interference.windows import write

    made = synthetic.made(1)
    write(made.take(numpy.arange(6)), folder / "windows.parquet")
    predictor.save(predictor.train(made), folder / "model.json")
    (folder / "plan.toml").write_text(COLLECTION)
    (folder / "matrix.json").write_text(MATRIX)
    (folder / "operations.csv").write_text("write,file@0,1795534244.1,0.01\n" * 8)
    (folder / "enzo_2_time_data.json").write_text(json.dumps(synthetic.of_the_authors(1)))


def schema(folder: Path) -> None:
    (folder / "schema.json").write_text(provisioned.SCHEMA % "weir")


def emitted(folder: Path) -> None:
    from weir.provisioning.deployments import Deployment
    from weir.provisioning.emit.targets import TARGETS, emit

    modules = {"weir": "weir_store"}
    for system in TARGETS:
        deployment = msgspec.json.decode(provisioned.SCHEMA % system, type=Deployment)
        own = folder / modules.get(system, system)
        own.mkdir()
        for file in emit(deployment, system, mount="/mnt/weir", folder="/etc/weir"):
            (own / file.name).write_text(file.text)


def classes(folder: Path) -> None:
    from weir.provisioning.behaviour.classes import built_in
    from weir.provisioning.documents import write

    write(folder / "classes.json", built_in())


def summaries(folder: Path) -> None:
    packed = (DATA / "tokio" / "cori.csv.gz").read_bytes()
    (folder / "packed.csv.gz").write_bytes(packed)
    (folder / "plain.csv").write_bytes(b"".join(gzip.decompress(packed).splitlines(keepends=True)[:20]))


SAMPLES: dict[str, tuple[Callable[[Path], None], int]] = {
    "stream": (foreign_streams.stream, 40),
    "named-stream": (foreign_streams.named_stream, 40),
    "containers": (foreign_streams.stream, 40),
    "arrays": (foreign_streams.arrays, 30),
    "own-containers": (foreign.own_containers, 330),
    "traces": (trace, 100),
    "darshan": (darshan, 10),
    "recorded": (past_runs.recorded, 100),
    "lustre-text": (lustre_text, 50),
    "lustre-document": (lustre_document, 100),
    "lustre-tree": (lustre_tree, 20),
    "messages": (messages, 1000),
    "database": (placement, 100),
    "backup": (backup, 70),
    "creations": (creations, 30),
    "look-ups": (report, 670),
    "configuration": (configuration, 50),
    "credential": (credential, 670),
    "addresses": (addresses, 50),
    "sweep": (sweep, 130),
    "simulated-run": (simulated_run, 50),
    "scenario": (scenario, 50),
    "job": (job, 330),
    "stress": (stress, 130),
    "planner-requests": (planner_requests, 270),
    "resources": (resources, 130),
    "deployment": (deployment, 130),
    "copy-record": (copy_record, 70),
    "sslos": (sslos, 130),
    "slurm": (slurm, 670),
    "windows": (windows, 50),
    "tables": (tables, 330),
    "schema": (schema, 100),
    "emitted": (emitted, 100),
    "accounting": (accounting, 330),
    "classes": (classes, 100),
    "summaries": (summaries, 50),
    "step-journals": (foreign.step_journals, 300),
    "placement-journals": (foreign.placement_journals, 200),
}
"""How the samples of each decoder are made, and how many rounds they go: other ones in each run of the tests."""

RUST = {
    "the look-up of the preload library in an interaction database": ("crates/preload/src/placement", "proptest!"),
    "the layout of a file on Lustre": ("crates/preload/src/observation/layout", "an_attribute_that_is_cut_or_changed"),
    "a model of slowdown": ("crates/interference/tests/model.rs", "proptest!"),
    "the trees of a model of slowdown": ("crates/interference/src/trees.rs", "proptest!"),
    "predictions that are told to a server": ("crates/server/src/control/interference.rs", "are_refused"),
    "a trace": ("crates/trace/tests/format.rs", "proptest!"),
    "a file of windows": ("crates/windows/tests/all/files.rs", "numbers_of_a_damaged_file_are_bounded"),
    "a container of a refactored array": ("crates/refactor/tests/container.rs", "proptest!"),
    "a message of the protocol": ("crates/wire/tests/laws.rs", "any_message"),
    "a frame, before and after the handshake": ("crates/server/tests/all/malformed.rs", "any_frame"),
    "a journal": ("crates/core/src/journal/tests.rs", "proptest!"),
    "an .ini layout": ("crates/placement/src/ini.rs", "proptest!"),
    "the spelling of a layout": ("crates/placement/src/spelling.rs", "proptest!"),
}
"""Decoders in Rust, and where each is given what it should refuse."""

OWN = "a file that the command writes, or a place that is no file's content"
COMMANDS = {
    "up file": "configuration",
    "backup file": OWN,
    "restore file": "backup",
    "up point": OWN,
    "run placement": "database",
    "run observe": OWN,
    "run windows": OWN,
    "stats windows target": OWN,
    "stats windows root": "lustre-tree",
    "stats windows token_file": OWN,
    "interference join data": "windows",
    "interference join servers": "windows",
    "interference join target": OWN,
    "interference record token_file": OWN,
    "mount point": OWN,
    "serve mount point": OWN,
    "umount point": OWN,
    "grant path": OWN,
    "layout advise logs": "traces",
    "layout get path": OWN,
    "layout set ini": "creations",
    "stats publish root": "lustre-tree",
    "stats show path": "lustre-document",
    "stats show lfs_df": "lustre-text",
    "stats show lctl_dl": "lustre-text",
    "stats subscribe path": OWN,
    "stats subscribe root": "lustre-tree",
    "trace export paths": "traces",
    "trace export target": OWN,
    "trace show paths": "traces",
    "trace windows paths": "traces",
    "place past": "traces",
    "plan identity logs": "darshan",
    "plan identity job_file": "job",
    "plan similar logs": "darshan",
    "plan emit schema": "schema",
    "plan emit into": OWN,
    "plan factors into": OWN,
    "plan factors path": OWN,
    "plan factors matrix_file": "windows",
    "plan similar job_file": "job",
    "job ornament jobspec": "job",
    "job ornament deployment_file": "deployment",
    "stage in source": OWN,
    "stage in destination": OWN,
    "stage out source": OWN,
    "stage out destination": OWN,
    "job run jobspec": "job",
    "job run log": "darshan",
    "job run schema_file": "deployment",
    "job run resources_file": "resources",
    "job run sslos_file": "sslos",
    "job run local_folder": OWN,
    "plan learned sslos_file": "sslos",
    "plan sslo log": "darshan",
    "plan sslo history": "recorded",
    "plan run observe": OWN,
    "plan run kept": OWN,
    **{
        f"plan run {name}": decoder
        for name, decoder in (
            ("job_file", "job"),
            ("resources_file", "resources"),
            ("local_folder", OWN),
            ("sslos_file", "sslos"),
            ("classes_file", "classes"),
            ("prices_file", "tables"),
            ("factors_file", "tables"),
        )
    },
    "plan sslo job_file": "job",
    "plan sslo sslos_file": "sslos",
    "plan sslo classes_file": "classes",
    **{
        f"plan {product} {name}": decoder
        for product in ("resources", "config", "schema", "explain")
        for name, decoder in (
            ("log", "darshan"),
            ("history", "recorded"),
            ("job_file", "job"),
            ("resources_file", "resources"),
            ("local_folder", OWN),
            ("sslos_file", "sslos"),
            ("classes_file", "classes"),
            ("prices_file", "tables"),
            ("factors_file", "tables"),
        )
    },
    "guard model": "windows",
    **dict.fromkeys(("record history", "jobs history", "replay history", "report history", "report html"), OWN),
    **dict.fromkeys(("room history", "room unix", "top history", "df history"), OWN),
    **{"report traces": "traces", "report darshan": "darshan", "report windows": "windows"},
    **{f"interference {each}": OWN for each in ("import target", "evaluate plots", "train target", "collect target")},
    "interference import files": "windows",
    "interference evaluate data": "windows",
    "interference evaluate additional": "windows",
    "interference train data": "windows",
    "interference collect plan": "windows",
    "interference matrix store": "configuration",
    "interference matrix target": OWN,
    "interference record target": OWN,
    "interference predict model": "windows",
    "interference predict data": "windows",
    "interference serve model": "windows",
    "interference watch model": "windows",
    "plan similar classes_table": "classes",
    "classes build logs": "summaries",
    "classes build folder": OWN,
    "classes add table_file": "classes",
    "classes add logs": "darshan",
    "classes add target": OWN,
    "place creations": "creations",
    "place lustre": "lustre-document",
    "place database": "database",
    "place into": OWN,
    "place explain file": OWN,
    "place show database": "database",
    "rebalance paths": OWN,
    "adapt info tiers": "named-stream",
    "adapt reconstruct tiers": "stream",
    "adapt reconstruct target": OWN,
    "adapt refactor inputs": "arrays",
    "adapt refactor tiers": "stream",
    "adapt steps tiers": "stream",
    "config diff file": "configuration",
    "config export file": OWN,
    "config show file": "configuration",
    "deploy file": "configuration",
    "find paths": OWN,
    "planner socket": OWN,
    "job release socket": OWN,
    "planner state": OWN,
    "planner resources": "resources",
    "planner prices": "tables",
    "planner factors": "tables",
    "deployments socket": OWN,
    "quota show place": OWN,
    "simulate sweep file": "sweep",
    "simulate sweep folder": OWN,
    "simulate tune scenario": "sweep",
    "simulate tune logs": "darshan",
    "simulate tune out": OWN,
    "simulate tune folder": OWN,
    "bench * field": "arrays",
    "bench * out": OWN,
    "bench * table": OWN,
    "simulate run scenario": "scenario",
    "simulate run out": OWN,
    "simulate report runs": "simulated-run",
    "simulate report html": OWN,
    "simulate what-if logs": "darshan",
    "simulate what-if arrivals": "accounting",
    "stress out": OWN,
    "stress path": OWN,
    "stress scratch": OWN,
    "sslo build folders": "stress",
    "sslo build target": OWN,
    "sslo show file": "sslos",
}
"""Every parameter of a command that names a file, and the decoder that reads it."""


@pytest.mark.slow
@pytest.mark.parametrize("name", foreign.DECODERS)
def test_a_decoder_of_foreign_files_ends_with_a_result_or_its_own_error(name: str, tmp_path: Path) -> None:
    """45 bytes of a stream's end once made 2.4 GB of memory, a number of 5,000 digits a traceback."""
    make, rounds = SAMPLES[name]
    samples = tmp_path / "samples"
    samples.mkdir()
    make(samples)
    number = seed()
    # No store and no setting of the one who runs the tests: the samples alone.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    # Each thread would reserve address space of its own, for its arena or its share of a product.
    environment |= {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment |= {"WEIR_HOME": str(tmp_path / "home"), "COLUMNS": "200"}
    program = [sys.executable, str(ROOT / "tests" / "foreign.py"), name, str(samples), str(number), str(rounds)]
    answer = subprocess.run(
        program, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, env=environment, cwd=tmp_path
    )
    assert answer.returncode == 0, f"WEIR_SEED={number}\n{answer.stdout[-2000:]}\n{answer.stderr[-6000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("bomb", expanding.BOMBS)
def test_a_small_file_that_expands_without_end_is_refused_within_bounds(bomb: str, tmp_path: Path) -> None:
    """A Darshan log of 10 MB took minutes and gigabytes, a data set of some kilobytes all memory."""
    name = expanding.BOMBS[bomb].decoder
    make, _ = SAMPLES[name]
    samples = tmp_path / "mutated"
    samples.mkdir()
    make(samples)
    environment = {each: value for each, value in os.environ.items() if not each.startswith("WEIR_")}
    environment |= {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "WEIR_HOME": str(tmp_path / "home")}
    program = [sys.executable, str(ROOT / "tests" / "expanding.py"), name, str(samples), bomb]
    answer = subprocess.run(
        program, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, env=environment, cwd=tmp_path
    )
    assert answer.returncode == 0, f"{answer.stdout[-2000:]}\n{answer.stderr[-6000:]}"


def test_each_decoder_has_a_file_that_expands_or_a_reason_why_it_has_none() -> None:
    packed = {each.decoder for each in expanding.BOMBS.values()}
    assert packed | set(expanding.PLAIN) == set(foreign.DECODERS) and not packed & set(expanding.PLAIN)


def parameters(command: click.Command, path: list[str], context: click.Context) -> Iterator[str]:
    """Every parameter of a command, and of those below it, that names a file."""
    named = {"tiers", "inputs"}
    for parameter in command.params:
        if isinstance(parameter.type, click.Path | click.File) or parameter.name in named:
            yield " ".join([*path, parameter.name or ""])
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from parameters(below, [*path, name], context)


def test_each_parameter_that_names_a_file_has_a_decoder() -> None:
    found = {
        re.sub(r"^bench \S+ ", "bench * ", each)
        for each in parameters(cli.weir, [], click.Context(cli.weir))
        if each != "home"
    }
    assert found == set(COMMANDS)
    assert {decoder for decoder in COMMANDS.values() if decoder != OWN} <= set(foreign.DECODERS)
    assert set(SAMPLES) == set(foreign.DECODERS)


@pytest.mark.parametrize("what", RUST)
def test_decoders_in_rust_are_given_what_they_should_refuse(what: str) -> None:
    place, mark = RUST[what]
    path = ROOT / place
    files = [path] if path.is_file() else sorted(path.rglob("*.rs"))
    assert any(mark in file.read_text() for file in files), f"{what}: nothing of `{mark}` in {place}"
