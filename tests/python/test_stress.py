"""`weir stress`: real processes on stores and paths, runs that go on, and everything removed."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from schemas import schema
from seeds import seed
from store import Store, kill, program
from waits import PATIENCE_SECONDS, wait_until
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.stress import kernels
from weir.provisioning.stress.places import remove_left
from weir.provisioning.stress.systems import DEVICES, file_system_of, read_device, read_setting, stores
from weir.simulation.sweeps import ledger

SMALL = ("--seconds", "0.05", "--repeats", "1", "--processes", "2", "--bytes", "20MiB")
MIB = 1 << 20
PROCESSES = Path("/proc")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def of_kernel(results: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["settings"]["kernel"]: each["figures"] for each in results}


@pytest.mark.parametrize("name", [name for name, kernel in kernels.KERNELS.items() if kernel.phases != ("metadata",)])
def test_calls_of_a_kernel_neither_overlap_nor_leave_gaps(name: str) -> None:
    """A byte that two processes wrote would fail its check, and a gap would be read without having been written."""
    kernel = kernels.KERNELS[name]
    for processes in (2, 3):
        listed = [kernels.calls(kernel, process, processes, 20 * MIB) for process in range(processes)]
        files = [sorted(itertools.chain(*listed))] if kernel.is_shared else [sorted(calls) for calls in listed]
        for calls in files:
            assert calls[0][0] == 0
            assert all(place + length == then for (place, length), (then, _) in itertools.pairwise(calls))
        assert sum(place[-1][0] + place[-1][1] for place in files) <= kernels.space_bytes(kernel, processes, 20 * MIB)
    lengths = [length for calls in listed for _, length in calls]
    assert max(lengths) < 10_000 if kernel.is_small else min(lengths) >= 1_000_000


def test_only_random_kernels_are_out_of_order() -> None:
    number = seed()
    for kernel in kernels.KERNELS.values():
        order = kernels.order(kernel, 100, number)
        assert sorted(order) == list(range(100))
        assert (list(order) == list(range(100))) == (not kernel.is_random)


def test_every_kernel_runs_on_a_store_that_is_then_gone(store: Store, tmp_path: Path, scratch: Path) -> None:
    """The whole way: measurements, a run that finds nothing to do, and the objective of the system."""
    out = tmp_path / "out"
    command = ("stress", "--out", out, "--device", "memory", "--servers", "1", "--scratch", scratch, *SMALL)
    results = store.json(*command)
    figures = of_kernel(results)
    assert set(figures) == set(kernels.KERNELS)
    for kernel, found in figures.items():
        for phase in kernels.KERNELS[kernel].phases:
            unit = "metadata_operations" if phase == "metadata" else f"{phase}_bytes"
            assert found[f"{unit}_per_second"] > 0, kernel
    for each in results:
        jsonschema.validate(each, schema("stress"))
    assert list(scratch.iterdir()) == []
    assert not (out / "place.json").exists()
    assert "0 measured, 8 known" in store.weir(*command).stderr

    table = tmp_path / "objectives.json"
    built = store.json("sslo", "build", out, "--to", table)
    jsonschema.validate(built, schema("sslos"))
    assert json.loads(table.read_text()) == built
    (sslo,) = built["sslos"]
    assert sslo["system"]["settings"] == {"backend": "ram"}
    assert sslo["guarantees"]["read_bytes_per_second"] == figures["hacc"]["read_bytes_per_second"]
    assert sslo["semantics"]["durable"] is False
    assert all(0.0 < part <= 1.0 for part in sslo["sensitivities"].values())
    assert sslo["name"] in store.weir("sslo", "show", table).stdout


def test_a_store_of_slow_devices_is_measured_to_be_slow(store: Store, tmp_path: Path) -> None:
    """No store exceeds the rates of its devices: this one has two, of 40 and 20 MB/s."""
    command = ("stress", "--out", tmp_path / "out", "--device", "tape=40MB/s,20MB/s,1ms", "--backend", "ram")
    results = store.json(*command, "--servers", "1", "--targets", "2", "--kernel", "hacc", *SMALL)
    (found,) = (each["figures"] for each in results)
    assert found["read_bytes_per_second"] <= 80e6
    assert found["write_bytes_per_second"] <= 40e6
    assert results[0]["settings"]["system"]["device"] == "tape"
    assert results[0]["settings"]["system"]["settings"]["write_speed"] == "20MB/s"


def test_a_path_is_measured_beside_the_files_of_others(store: Store, tmp_path: Path) -> None:
    path, out = tmp_path / "path", tmp_path / "out"
    path.mkdir()
    (path / "hacc-0").write_text("mine")
    command = ("stress", "--out", out, "--path", path, "--name", "site.lustre", "--servers", "3", "--replicas", "2")
    figures = of_kernel(store.json(*command, *SMALL))
    assert set(figures) == set(kernels.KERNELS)
    assert all(each["capacity_bytes"] > 0 for each in figures.values())
    assert [entry.name for entry in path.iterdir()] == ["hacc-0"]
    assert (path / "hacc-0").read_text() == "mine"
    (sslo,) = store.json("sslo", "build", out)["sslos"]
    assert sslo["system"]["device"] == "site.lustre"
    assert sslo["system"]["servers"] == 3
    assert sslo["system"]["settings"] == {"path": str(path), "file_system": file_system_of(path)}
    assert sslo["semantics"]["replicas"] == 2


def lines_of(out: Path) -> int:
    points = out / "points.ndjson"
    return points.read_bytes().count(b"\n") if points.exists() else 0


def measured_in(out: Path) -> set[str]:
    """The first repeats that are measured, by their keys."""
    records = ledger.read_records(out)
    return {key for key, each in records.items() if each.refusal is None and each.settings["repeat"] == 0}


@pytest.mark.parametrize("on", ["store", "path"])
def test_a_killed_run_goes_on_and_leaves_nothing(on: str, store: Store, tmp_path: Path, scratch: Path) -> None:
    """SIGKILL leaves servers or files behind, which the next run removes; SIGTERM leaves nothing."""
    out = tmp_path / "out"
    where = ["--device", "memory", "--servers", "1"] if on == "store" else []
    place = ["--scratch" if on == "store" else "--path", str(scratch)]
    command = ["stress", "--out", str(out), *where, *place, *SMALL]
    # So many that no wait of this test sees the end of them.
    many = [*program(), *command, "--repeats", "100"]
    killed = subprocess.Popen(many, env=store.variables(), stderr=subprocess.DEVNULL)
    wait_until("two measurements are made", lambda: lines_of(out) >= 2)
    kill(killed.pid)
    killed.wait()
    assert (out / "place.json").exists()
    assert len(list(scratch.iterdir())) == 1

    begun = lines_of(out)
    ended = subprocess.Popen(many, env=store.variables(), stderr=subprocess.PIPE, text=True)
    wait_until("another measurement is made", lambda: lines_of(out) > begun)
    ended.send_signal(signal.SIGTERM)
    _, words = ended.communicate()
    assert ended.returncode == 130, words
    assert "interrupted" in words
    assert list(scratch.iterdir()) == []

    known = len(measured_in(out))
    words = store.weir(*command, code=None).stderr
    assert f"{len(measured_in(out)) - known} measured, {known} known" in words
    assert list(scratch.iterdir()) == []
    # A very busy machine refuses a measurement now and then; the next run makes it again.
    assert len(measured_in(out)) == 8 or "was not measured" in words, words


def test_processes_of_a_killed_run_end_and_remove_their_files(store: Store, tmp_path: Path) -> None:
    """They would go on beside the next run for the rest of their phases, here for minutes."""
    path = tmp_path / "path"
    path.mkdir()
    command = ("stress", "--out", str(tmp_path / "out"), "--path", str(path), *SMALL, "--kernel", "hacc")
    running = subprocess.Popen([*program(), *command, "--seconds", "600"], env=store.variables())
    wait_until("a kernel writes", lambda: any(file.stat().st_size for file in path.glob("*/hacc-*")))
    (folder,) = path.iterdir()
    kill(running.pid)
    running.wait()
    wait_until("its files are gone", lambda: not list(folder.iterdir()))
    wait_until("its processes are gone", lambda: not any(of_folder(each, folder) for each in PROCESSES.glob("[0-9]*")))


def test_only_files_of_kernels_are_removed_behind_a_killed_run(tmp_path: Path) -> None:
    left = tmp_path / "weir-stress-0123456789ab"
    (left / "mdtest-1").mkdir(parents=True)
    left.chmod(0o700)
    for name in ("hacc-0", "vpic-shared", "mdtest-1/7", "thesis.tex", "mdtest-1/results"):
        (left / name).write_text(name)
    out = tmp_path / "out"
    out.mkdir()
    (out / "place.json").write_text(json.dumps({"folder": str(left), "is_store": False}))
    with pytest.raises(ProvisioningError, match="cannot remove"):
        remove_left(out)
    names = sorted(str(path.relative_to(left)) for path in left.rglob("*"))
    assert names == ["mdtest-1", "mdtest-1/results", "thesis.tex"]


def test_a_folder_that_was_exchanged_is_left_alone(tmp_path: Path) -> None:
    """Another user of a shared folder may put a link where the run had its folder, or open it to others."""
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / "hacc-0").write_text("mine")
    out = tmp_path / "out"
    out.mkdir()
    left = tmp_path / "weir-stress-0123456789ab"
    (out / "place.json").write_text(json.dumps({"folder": str(left), "is_store": False}))
    left.symlink_to(victim)
    with pytest.raises(ProvisioningError, match="cannot remove"):
        remove_left(out)
    left.unlink()
    victim.rename(left)
    left.chmod(0o755)
    with pytest.raises(ProvisioningError, match="not as this run made it"):
        remove_left(out)
    assert (left / "hacc-0").read_text() == "mine"
    (out / "place.json").write_text(json.dumps({"folder": str(left.parent), "is_store": False}))
    with pytest.raises(ProvisioningError, match="no run made"):
        remove_left(out)


def test_a_kernel_writes_into_its_own_folder_alone(tmp_path: Path) -> None:
    """A link to a folder with other files, which another user put in place of the kernel's, takes no bytes."""
    victim, link = tmp_path / "victim", tmp_path / "weir-stress-0123456789ab"
    victim.mkdir(mode=0o755)
    (victim / "hacc-0").write_text("mine")
    link.symlink_to(victim)
    work = {"kernel": "hacc", "processes": 2, "file_bytes": 20 * MIB, "seconds": 0.05, "seed": 1}

    def words(folder: Path) -> str:
        specification = json.dumps({**work, "folder": str(folder), "is_private": True})
        command = [sys.executable, "-m", "weir.provisioning.stress.load", specification]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False).stderr

    assert "not the folder" in words(link)
    victim.chmod(0o700)
    assert "File exists" in words(link)
    assert [entry.name for entry in victim.iterdir()] == ["hacc-0"]
    assert (victim / "hacc-0").read_text() == "mine"


def test_bytes_that_are_not_those_that_were_written_are_no_rate(tmp_path: Path) -> None:
    """A system that answers fast and wrong is refused: here another program clears the file that is read."""
    work = {"kernel": "bdcats", "processes": 2, "file_bytes": 20 * MIB, "seed": 1, "is_private": False}
    work["seconds"] = PATIENCE_SECONDS
    command = [sys.executable, "-m", "weir.provisioning.stress.load", json.dumps({**work, "folder": str(tmp_path)})]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    shared = tmp_path / "bdcats-shared"
    wait_until("the file is there", shared.exists)

    def has_ended_on_zeros() -> bool:
        with contextlib.suppress(FileNotFoundError):
            os.truncate(shared, 0)
            os.truncate(shared, 40 * MIB)
        return running.poll() is not None

    wait_until("the kernel refuses the bytes", has_ended_on_zeros)
    output, told = running.communicate()
    assert running.returncode == 1
    assert output == ""
    assert "other bytes" in told or "before bytes" in told
    assert list(tmp_path.iterdir()) == []


def test_a_system_that_does_not_come_up_is_refused_and_tried_again(store: Store, tmp_path: Path) -> None:
    """The scheduler gift has no policy fifo, so its store is refused; the other one is measured."""
    out = tmp_path / "out"
    shape = ("stress", "--out", out, "--device", "memory", "--backend", "ram", "--servers", "1", "--kernel", "mdtest")
    command = (*shape, "--set", "policy=fifo,size-fair", "--set", "scheduler=gift", *SMALL)
    answer = store.weir(*command, code=1)
    assert "1 measured, 0 known" in answer.stderr
    assert "mdtest on memory was not measured" in answer.stderr
    assert "0 measured, 1 known" in store.weir(*command, code=1).stderr
    built = store.weir("sslo", "build", out, code=1).stderr
    assert "no rates that this Weir can use" in built


def test_bad_input_has_one_error_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter").write_text("dear")
    out = tmp_path / "out"
    for command, words in (
        (("--out", other), "holds other files"),
        (("--out", out, "--path", tmp_path / "none"), "cannot measure"),
        (("--out", out, "--path", other / "letter"), "no folder that you may write to"),
        (("--out", out, "--device", "memory", "--backend", "dir"), "none of the devices"),
    ):
        answer = store.weir("stress", *command, code=1)
        errors = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, answer.stderr
        assert words in errors[0]
    assert not out.exists()
    assert [entry.name for entry in other.iterdir()] == ["letter"]
    assert "no folder of a sweep" in store.weir("sslo", "build", other, code=1).stderr
    assert "is no table" in store.weir("sslo", "show", other / "letter", code=1).stderr


def test_a_full_path_is_refused_before_anything_is_written(store: Store, tmp_path: Path) -> None:
    out, path = tmp_path / "out", tmp_path / "path"
    path.mkdir()
    answer = store.weir(
        *("stress", "--out", out, "--path", path, "--kernel", "hacc"), *SMALL, "--bytes", "1TiB", code=1
    )
    assert "bytes free" in answer.stderr
    assert list(path.iterdir()) == []


def test_two_runs_never_share_a_folder(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    path = tmp_path / "path"
    path.mkdir()
    command = ["stress", "--out", str(out), "--path", str(path), *SMALL, "--seconds", "30", "--kernel", "mdtest"]
    running = subprocess.Popen([*program(), *command], env=store.variables(), stderr=subprocess.DEVNULL)
    try:
        wait_until("the first run has begun", (out / "place.json").exists)
        assert "is in use" in store.weir(*command, code=1).stderr
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait()
    assert list(path.iterdir()) == []


def test_a_measurement_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of a network file system that is gone holds its clients: no run waits for it for ever."""
    from weir.provisioning.stress import execution, plan, systems

    monkeypatch.setattr(execution, "_PATIENCE_SECONDS", -0.5)
    (tmp_path / "path").mkdir()
    candidate = systems.mounted(tmp_path / "path", None, servers=1, replicas=1, is_encrypted=False)
    planned = plan.plan([candidate], names=["mdtest"], processes=[2], repeats=1, seconds=1.0, file_bytes=20 * MIB)
    finished = execution.run(planned, tmp_path / "out", progress=lambda done, of: None)
    assert [each.reason for each in finished.refused] == ["mdtest did not end within 0 s"]
    assert list((tmp_path / "path").iterdir()) == []
    assert not any(of_folder(process, tmp_path) for process in PROCESSES.glob("[0-9]*"))


def of_folder(process: Path, folder: Path) -> bool:
    """Whether a process is one of a kernel in a folder."""
    try:
        return str(folder).encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


def test_systems_are_every_combination() -> None:
    settings = dict([read_setting("stripe_size=64KiB,1MiB")])
    devices = [read_device("hdd"), DEVICES["memory"], DEVICES["disk"]]
    found = stores(devices, backends=("ram", "dir"), servers=[1, 2], targets=[1], settings=settings)
    shapes = {(each.system.device, each.system.settings["backend"]) for each in found}
    assert shapes == {("hdd", "ram"), ("hdd", "dir"), ("memory", "ram"), ("disk", "dir")}
    assert len(found) == 4 * 2 * 2
    assert all(each.semantics.durable == (each.system.settings["backend"] == "dir") for each in found)
    with pytest.raises(ProvisioningError, match="more than"):
        stores(devices, backends=("ram",), servers=[1] * 200, targets=[1] * 200, settings={})
