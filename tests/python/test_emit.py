"""Configuration files of storage systems: each reads back to the same values, and bad ones are refused."""

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import provisioned
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weir import cli as program
from weir import native
from weir.provisioning.deployments import Deployment, Server
from weir.provisioning.emit import beeond, lustre, orangefs, weir_store
from weir.provisioning.emit.checks import EmittedFile
from weir.provisioning.emit.targets import TARGETS, Target, emit
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.objectives.sslos import Guarantees, Semantics, System

MIB = 1 << 20
YES_NO = st.sampled_from(("yes", "no"))
COUNTS = st.integers(1, 10**6).map(str)
ORANGEFS = {
    "TroveSyncMeta": YES_NO,
    "TroveSyncData": YES_NO,
    "TroveMaxConcurrentIO": COUNTS,
    "TCPBufferReceive": COUNTS,
    "TCPBufferSend": COUNTS,
    "TCPBindSpecific": YES_NO,
    "UnexpectedRequests": COUNTS,
    "FileStuffing": YES_NO,
    "FlowBufferSizeBytes": COUNTS,
    "FlowBuffersPerFlow": COUNTS,
    "DefaultNumDFiles": COUNTS,
    "TroveMethod": st.sampled_from(("alt-aio", "directio", "null-aio", "dbpf")),
}
WEIR = {
    "policy": st.sampled_from(("size-fair", "user-then-size-fair", "job-fair")),
    "scheduler": st.sampled_from(("virtual-time", "statistical-token")),
    "allocator": st.sampled_from(("balanced", "random", "lustre-standard")),
    "read_speed": st.sampled_from(("200MB/s", "1GiB/s")),
    "write_speed": st.sampled_from(("200MB/s", "1GiB/s")),
    "fixed_time": st.sampled_from(("100us", "2ms")),
    "metadata_time": st.just("50us"),
    "stripe_size": st.sampled_from(("64KiB", "1MiB")),
    "stripe_count": st.sampled_from(("0", "1")),
    "lambda_milliseconds": st.sampled_from(("10", "1000")),
}
BEEOND = {
    "metadata_servers": st.sampled_from(("1", "2")),
    "storage.tuneNumWorkers": COUNTS,
    "meta.tuneNumWorkers": COUNTS,
    "client.connMaxInternodeNum": COUNTS,
}
LUSTRE = {"stripe_size": st.sampled_from(("64k", "1M", "16M")), "pool": st.just("flash"), "stripe_count": st.just("-1")}
LAYOUTS = st.sampled_from(("-E 64M -c 1 -E -1 -c -1 -S 4M", "-c 2", "-E 1G -c 1 -S 64k -E 8G -E -1 -S 1M"))


def read_beeond(deployment: Deployment) -> beeond.Beeond:
    return beeond.of(deployment, mount="/mnt/weir", folder="/etc/weir/beeond")


SYSTEMS: dict[Target, tuple[dict[str, st.SearchStrategy[str]], Callable[[Deployment], Any], Any, Any]] = {
    "weir": (WEIR, lambda each: weir_store.of(each, mount="/mnt/weir"), weir_store.files, weir_store.read),
    "orangefs": (ORANGEFS, orangefs.of, orangefs.files, orangefs.read),
    "beeond": (BEEOND, read_beeond, beeond.files, beeond.read),
    "lustre": (LUSTRE, lambda each: lustre.of(each, directory="/lustre/scratch"), lustre.files, lustre.read),
}
"""For each system the settings, and the three functions of its module."""


@st.composite
def deployments(draw: Any, kind: Target) -> Deployment:
    nodes = draw(st.integers(1, 6))
    per_node = draw(st.integers(1, 2)) if kind in ("weir", "orangefs") else 1
    devices = draw(st.integers(0 if kind in ("weir", "beeond") else 1, 3))
    chosen = SYSTEMS[kind][0]
    names = draw(st.lists(st.sampled_from(sorted(chosen)), unique=True, max_size=len(chosen)))
    own = {name: draw(chosen[name]) for name in names}
    if kind == "lustre" and draw(st.booleans()):
        own = {"layout": draw(LAYOUTS)}
    as_osts = kind == "lustre" and draw(st.booleans())
    servers = [
        Server(
            node=f"node{node:02}",
            devices=tuple(
                f"OST{(node * 3 + device):04x}" if as_osts else f"/mnt/{'nvme' if kind == 'beeond' else turn}{device}"
                for device in range(devices)
            ),
            target_bytes=draw(st.integers(MIB, 1 << 45)),
        )
        for turn in range(per_node)
        for node in range(nodes)
    ]
    mirrored = kind == "beeond" and nodes % 2 == 0 and own.get("metadata_servers") != "1" and draw(st.booleans())
    return Deployment(
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,20}", fullmatch=True)),
        identity="x",
        behaviour_class="y",
        sslo="z",
        policy="performance",
        system=System(kind=kind, device="nvme", servers=len(servers), targets_per_server=max(devices, 1), settings=own),
        servers=tuple(servers),
        shareable=False,
        size_bytes=MIB,
        semantics=Semantics(replicas=2 if mirrored else 1, durable=devices > 0),
        expected=Guarantees(),
    )


def tried(work: Callable[[], Any]) -> Any:
    """The result of the work, or its one clear error."""
    try:
        return work()
    except ProvisioningError as error:
        assert str(error) and "\n" not in error.message
        return error


@pytest.mark.parametrize("kind", TARGETS)
@given(data=st.data())
def test_what_is_emitted_reads_back_to_the_same(kind: Target, data: st.DataObject) -> None:
    deployment = data.draw(deployments(kind))
    _, of, files, read = SYSTEMS[kind]
    values = tried(lambda: of(deployment))
    if isinstance(values, ProvisioningError):
        # The only things that these deployments may lack.
        assert any(words in values.message for words in ("stripes need as many OSTs", "metadata_servers is '2'"))
        return
    emitted = files(values)
    assert read(emitted) == values
    assert emit(deployment, kind, mount=mount_of(kind), folder="/etc/weir/beeond") == emitted


def mount_of(kind: Target) -> str:
    return "/lustre/scratch" if kind == "lustre" else "/mnt/weir"


@pytest.mark.parametrize("kind", TARGETS)
@given(data=st.data())
def test_changed_files_are_refused_or_read_as_they_are(kind: Target, data: st.DataObject) -> None:
    """A reader that ignored a part of a file would take two different files for the same values."""
    deployment = data.draw(deployments(kind))
    _, of, files, read = SYSTEMS[kind]
    values = tried(lambda: of(deployment))
    if isinstance(values, ProvisioningError):
        return
    emitted = list(files(values))
    place = data.draw(st.integers(0, len(emitted) - 1))
    text = emitted[place].text
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 12, len(text))))
    insertion = data.draw(st.text(max_size=6) | st.sampled_from(("\n", "<", "</Defaults>", " -r", "=", "'", "-1", "0")))
    changed = text[:start] + insertion + text[end:]
    emitted[place] = EmittedFile(name=emitted[place].name, text=changed)
    found = tried(lambda: read(emitted))
    if isinstance(found, ProvisioningError):
        return
    again = {file.name: file.text for file in files(found)}
    if found == values:
        assert significant(changed) == significant(text)
    else:
        assert significant(again[emitted[place].name]) == significant(changed)


def significant(text: str) -> list[str]:
    """The words of a file in their lines, without comments; TOML may write one value in several ways."""
    try:
        return [repr(tomllib.loads(text))]
    except ValueError:
        lines = (" ".join(line.split()) for line in text.split("\n"))
        return [line for line in lines if line and not (line.startswith("#") and not line.startswith("#!"))]


@pytest.mark.parametrize("kind", TARGETS)
@given(data=st.data())
@settings(max_examples=50)
def test_files_from_elsewhere_are_refused(kind: Target, data: st.DataObject) -> None:
    names = ("cluster.toml", "start.sh", "stop.sh", "orangefs.conf", "nodefile", "setstripe.sh", "moon")
    made = data.draw(
        st.lists(st.builds(EmittedFile, name=st.sampled_from(names), text=st.text(max_size=200)), max_size=4)
    )
    assert isinstance(tried(lambda: SYSTEMS[kind][3](made)), ProvisioningError)


def plan(kind: Target, *devices: str, nodes: Sequence[str] = ("a", "b"), **changes: Any) -> Deployment:
    servers = tuple(Server(node=node, devices=devices, target_bytes=64 * MIB) for node in nodes)
    system = System(kind=kind, device="nvme", servers=len(servers), settings=changes.pop("settings", {}))
    made = Deployment(
        name="run-7",
        identity="x",
        behaviour_class="y",
        sslo="z",
        policy="performance",
        system=system,
        servers=servers,
        shareable=False,
        size_bytes=MIB,
        expected=Guarantees(),
    )
    return msgspec.structs.replace(made, **changes)


def text_of(kind: Target, deployment: Deployment) -> str:
    emitted = emit(deployment, kind, mount="/mnt/weir", folder="/etc/weir/run-7")
    return "".join(f"== {file.name}\n{file.text}" for file in emitted)


def test_orangefs_by_hand() -> None:
    """The paper's configuration C1 on two nodes with two devices each."""
    chosen = {"TroveSyncMeta": "no", "TroveSyncData": "yes", "TroveMaxConcurrentIO": "8", "TCPBufferReceive": "212992"}
    text = text_of("orangefs", plan("orangefs", "/nvme0", "/nvme1", settings=chosen))
    for line in (
        "    TroveMaxConcurrentIO 8\n    TCPBufferReceive 212992\n</Defaults>",
        "    Alias b-1 tcp://b:3335",
        "    Server b-1\n    DataStorageSpace /nvme1/run-7/data\n",
        "        Range a-0 3-1152921504606846977\n        Range a-1 1152921504606846978-2305843009213693952\n",
        "        TroveSyncMeta no\n        TroveSyncData yes\n    </StorageHints>",
    ):
        assert line in text, text


def test_beeond_by_hand() -> None:
    plain = text_of("beeond", plan("beeond", "/nvme"))
    assert "beeond start -n nodefile -d /nvme/run-7 -c /mnt/weir -m 1 -s 2 -F\n" in plain
    assert "== nodefile\na\nb\n" in plain
    assert "beeond stop -n nodefile -L -d\n" in plain
    chosen = {"storage.tuneNumWorkers": "8", "metadata_servers": "2"}
    whole = text_of("beeond", plan("beeond", "/n0", "/n1", settings=chosen, semantics=Semantics(replicas=2)))
    assert "-m 2 -s 2 -F -k -j -t targetfile -T -f /etc/weir/run-7\n" in whole
    assert "== targetfile\nweir:/n0/run-7,/n1/run-7\n" in whole
    assert "== beegfs-storage.conf\ntuneNumWorkers = 8\n" in whole


@pytest.mark.parametrize(
    ("devices", "chosen", "line"),
    [
        (("/a", "/b"), {}, "lfs setstripe -c 4 -S 1M /mnt/weir"),
        (("/a",), {"stripe_size": "16M", "pool": "flash"}, "lfs setstripe -c 2 -S 16M -p flash /mnt/weir"),
        (("/a",), {"layout": "-E 64M -c 1 -E -1"}, "lfs setstripe -E 67108864 -c 1 -S 1M -E -1 -c 2 -S 1M /mnt/weir"),
        (("lustre-OST001a",), {}, None),
    ],
)
def test_lustre_by_hand(devices: tuple[str, ...], chosen: dict[str, str], line: str | None) -> None:
    deployment = plan("lustre", *devices, settings=chosen)
    if line is None:
        # Both servers name the same OST.
        with pytest.raises(ProvisioningError, match="an OST is there twice"):
            text_of("lustre", deployment)
    else:
        assert line in text_of("lustre", deployment)


def test_osts_are_chosen_by_their_names() -> None:
    servers = (
        Server(node="oss1", devices=("lustre-OST0001",), target_bytes=MIB),
        Server(node="oss2", devices=("lustre-OST001a",), target_bytes=MIB),
    )
    assert "lfs setstripe -c 2 -S 1M -o 1,26 /mnt/weir" in text_of("lustre", plan("lustre", servers=servers))


def test_servers_of_weir_keep_to_their_hosts() -> None:
    """`weir deploy` gives the server `i` to the host `i` modulo their number."""
    servers = tuple(
        Server(node=node, devices=(f"/{node}{turn}",), target_bytes=MIB) for node in ("a", "b") for turn in range(2)
    )
    values = weir_store.of(plan("weir", servers=servers), mount="/mnt/weir")
    for place, server in enumerate(values.cluster.server):
        assert server.target[0].path.startswith(f"/{values.hosts[place % 2]}")


@given(deployments("weir"))
@settings(max_examples=12)
def test_the_server_accepts_what_is_emitted(deployment: Deployment) -> None:
    (file, _, _) = emit(deployment, "weir", mount="/mnt/weir", folder="/etc")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file.name
        path.write_text(file.text)
        command = [str(native.server_program()), "--config", str(path), "--check"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr + file.text


@pytest.mark.parametrize(
    ("kind", "deployment", "words"),
    [
        ("weir", plan("weir", "/a", semantics=Semantics(replicas=2)), "weir does not keep 2 copies of each byte"),
        ("weir", plan("weir", semantics=Semantics()), "does not keep bytes that outlive"),
        ("weir", plan("weir", "/dev/nvme0n1"), "is a block device"),
        ("weir", plan("weir", "/a", nodes=("a", "a", "b")), "gives each host as many servers"),
        ("weir", plan("weir", "/a", nodes=("a", "a")), "two targets on a host have one path"),
        ("weir", plan("weir", "/a", settings={"polcy": "size-fair"}), "did you mean policy?"),
        ("weir", plan("weir", "/a", settings={"policy": "unfair"}), "unfair"),
        ("weir", plan("weir", "/a", settings={"backend": "ram"}), "the servers' devices make it dir"),
        ("weir", plan("weir", "/a", settings={"stripe_count": "3"}), "stripe_count is 3, and there are 2 targets"),
        ("weir", plan("weir", "/a", settings={"stripe_size": "5k"}), "no multiple of 4096"),
        ("weir", plan("weir", "/a", joins="other", servers=()), "it joins other"),
        ("weir", plan("weir", "/a", name="a b"), "is no word"),
        ("orangefs", plan("orangefs", "/a", settings={"TroveSyncMeta": "maybe"}), "TroveSyncMeta is 'maybe'"),
        ("orangefs", plan("orangefs", "/a", settings={"TroveMaxConcurrentIO": "0"}), "TroveMaxConcurrentIO is '0'"),
        ("orangefs", plan("orangefs"), "has targets in memory"),
        ("orangefs", plan("orangefs", "/a", nodes=("a\nb",)), "is no name of a host"),
        ("orangefs", plan("orangefs", "/a b"), "is no plain absolute path"),
        ("orangefs", plan("orangefs", "/a/../etc"), "is no plain absolute path"),
        ("orangefs", plan("orangefs", "/a", semantics=Semantics(encrypted=True)), "encryption at rest"),
        ("beeond", plan("beeond", "/a", nodes=("a", "a")), "two on one node"),
        ("beeond", plan("beeond", "/a", nodes=("a", "b", "c"), semantics=Semantics(replicas=2)), "2 copies"),
        ("beeond", plan("beeond", "/a", settings={"metadata_servers": "3"}), "metadata_servers is '3'"),
        ("beeond", plan("beeond", "/a", settings={"storage.x": "1; rm -rf /"}), "no setting 'storage.x'"),
        ("lustre", plan("lustre", "/a", settings={"layout": "-c many"}), "the layout '-c many' is none"),
        ("lustre", plan("lustre", "/a", settings={"layout": "-c 1", "stripe_count": "1"}), "has its own stripes"),
        ("lustre", plan("lustre", "/a", settings={"pool": "flash; reboot"}), "no name of a pool"),
        ("lustre", plan("lustre", "/a", settings={"stripe_size": "10k"}), "a stripe of 10240 bytes cannot be"),
    ],
)
def test_a_deployment_that_cannot_be_is_refused(kind: Target, deployment: Deployment, words: str) -> None:
    with pytest.raises(ProvisioningError) as error:
        text_of(kind, deployment)
    assert words.lower() in f"{error.value.message} {error.value.hint}".lower()
    assert "\n" not in error.value.message


def emitted(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["weir", "plan", "emit", *words])
    return program._run()


def test_the_command_writes_all_files_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    schema, folder = tmp_path / "schema.json", tmp_path / "made"
    schema.write_text(provisioned.SCHEMA % "beeond")
    assert emitted(monkeypatch, str(schema), "--into", str(folder)) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["nodefile", "start.sh", "stop.sh"]
    assert (folder / "start.sh").stat().st_mode & 0o111
    for path in folder.iterdir():
        if path.name != "stop.sh":
            path.unlink()
    assert emitted(monkeypatch, str(schema), "--into", str(folder)) == 1
    assert [path.name for path in folder.iterdir()] == ["stop.sh"]
    assert "nothing was written" in capsys.readouterr().err
    assert emitted(monkeypatch, str(schema), "--to", "orangefs", "--mount", "/mnt/fast") == 0
    printed = capsys.readouterr()
    assert "<FileSystem>" in printed.out and "==>" not in printed.out
    assert "was planned for beeond" in printed.err
    assert emitted(monkeypatch, str(schema), "--output", "json") == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["nodefile", "start.sh", "stop.sh"]


def test_the_command_refuses_what_is_no_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    schema = tmp_path / "schema.json"
    for text in ("", "[]", '{"name": 7}', provisioned.SCHEMA % "path", "[" * 100_000):
        schema.write_text(text)
        assert emitted(monkeypatch, str(schema)) == 1
        told = capsys.readouterr()
        assert told.out == "" and told.err.startswith("error: ") and "hint: " in told.err
