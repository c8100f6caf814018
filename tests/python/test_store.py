"""A store is brought up, shown and taken down; nothing of it is left half done."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from seeds import seeded
from store import Store, kill, program
from waits import PATIENCE_SECONDS

SERVICES = ("weir-server", "weir-mount")
OTHER = 65534
"""nobody: fusermount3 mounts for those who have an account."""


def living_services(store: Store) -> list[str]:
    """Processes that serve this home."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if Path(os.fsdecode(words[0])).name in SERVICES and os.fsencode(store.home) in b"".join(words):
            found.append(" ".join(map(os.fsdecode, words)))
    return found


def test_the_embedded_store_comes_up_and_goes(store: Store) -> None:
    up = store.json("up", "--no-mount")
    assert [server["server"] for server in up["servers"]] == [0]
    assert up["policy"] == "size-fair"
    assert up["mount"] is None
    cluster = json.loads((store.home / "cluster.json").read_text())
    assert cluster == {"version": 1, "window_seconds": 1.0, "servers": up["servers"]}

    status = store.json("status")
    assert [target["backend"] for target in status["servers"][0]["targets"]] == ["ram", "ram"]
    assert "nothing" in status["servers"][0]["targets"][0]["keeps"]
    table = store.weir("status").stdout
    assert "1 of 1 answer" in table

    down = store.json("down")
    assert down["stopped"] == 1
    assert living_services(store) == []
    assert not (store.home / "cluster.json").exists()
    assert store.json("down")["stopped"] == 0, "to take it down again changes nothing"


def test_a_dir_target_of_a_store_in_memory_keeps_nothing_and_says_so(store: Store) -> None:
    store.weir("up", "--no-mount", "--capacity", "64MiB")
    answer = store.weir("target", "add", "0", "--backend", "dir", "--capacity", "32MiB")
    assert "keeps no names" in answer.stderr and "32.0 MiB" in answer.stdout
    folder = Path(answer.stdout.split()[-1])
    assert folder.is_dir()
    assert "64.0 MiB" in store.weir("target", "add", "0", "--backend", "ram").stdout
    kept = [target["keeps"] for target in store.json("status")["servers"][0]["targets"]]
    assert set(kept) == {"nothing over a restart"}


def test_the_key_and_the_credentials_are_private(store: Store) -> None:
    store.json("up", "--no-mount")
    for path in (store.home / "site.key", *(store.home / "credentials").iterdir()):
        assert path.stat().st_mode & 0o777 == 0o600, path
    # Root's store can be passed through by name; nobody may list it, and another user's is closed.
    assert store.home.stat().st_mode & 0o777 == (0o711 if os.geteuid() == 0 else 0o700)


def test_flags_reach_the_servers(store: Store) -> None:
    store.json("up", "--no-mount", "--servers", "2", "--targets", "3", "--policy", "job-fair", "--capacity", "64MiB",
             "--read-speed", "200MB/s", "--write-speed", "100MB/s", "--fixed-time", "100us")  # fmt: skip
    servers = store.json("status")["servers"]
    assert [len(server["targets"]) for server in servers] == [3, 3]
    for server in servers:
        assert server["policy"] == "job-fair"
        for target in server["targets"]:
            assert target["capacity_bytes"] == 64 << 20
            assert target["speed"]["read_bytes_per_second"] == 200_000_000
            assert target["speed"]["write_bytes_per_second"] == 100_000_000
            assert target["speed"]["fixed_seconds"] == pytest.approx(1e-4)


def test_the_environment_beats_the_file_and_a_flag_beats_the_environment(store: Store) -> None:
    file = store.root / "cluster.toml"
    file.write_text(
        'version = 1\npolicy = "job-fair"\n[[server]]\n[[server.target]]\ncapacity = "64MiB"\nbackend = "ram"\n'
    )
    store.weir("up", file, "--no-mount", environment={"WEIR_POLICY": "fifo"})
    assert store.json("policy", "show")["policy"] == "fifo"
    store.weir("down")
    store.weir("up", file, "--no-mount", "--policy", "size-fair", environment={"WEIR_POLICY": "fifo"})
    assert store.json("policy", "show")["policy"] == "size-fair"


def test_the_policy_changes_live_and_stays_changed(store: Store) -> None:
    store.json("up", "--no-mount", "--servers", "2")
    answer = store.json("policy", "set", "fifo")
    assert [server["was"] for server in answer["servers"]] == ["size-fair", "size-fair"]
    assert {server["policy"] for server in store.json("policy", "show")["servers"]} == {"fifo"}

    kill(store.server_pids()[1])
    store.weir("up", "--no-mount")
    assert {server["policy"] for server in store.json("policy", "show")["servers"]} == {"fifo"}


def test_a_server_that_died_is_shown_and_started_again_at_its_address(store: Store) -> None:
    before = store.json("up", "--no-mount", "--servers", "2")["servers"]
    pids = store.server_pids()
    kill(pids[1])

    answer = store.weir("status", code=1)
    assert "server 1" in answer.stderr
    assert "1 of 2 answer" in answer.stdout

    for option in (["--backend", "dir"], ["--targets", "3"], ["--capacity", "1GiB"]):
        refused = store.weir("up", *option, code=1)
        assert f"is already up, and does not take `{option[0]}` {' '.join(option[1:])}" in refused.stderr, refused
    again = store.json("up")["servers"]
    assert [server["tcp"] for server in again] == [server["tcp"] for server in before]
    assert store.server_pids()[0] == pids[0], "the server that lived goes on"
    assert store.server_pids()[1] != pids[1]
    store.weir("status")


def test_servers_that_all_died_are_started_again_at_their_addresses(store: Store) -> None:
    """Their clients and the mount still know these, also where the store has one server only."""
    before = store.json("up", "--no-mount")["servers"]
    kill(store.server_pids()[0])
    again = store.json("up", "--no-mount")["servers"]
    assert [(server["tcp"], server["unix"]) for server in again] == [
        (server["tcp"], server["unix"]) for server in before
    ]


def test_a_store_on_directories_goes_on_where_it_was(store: Store) -> None:
    store.json("up", "--no-mount", "--backend", "dir", "--targets", "1")
    first = store.json("status")["servers"][0]["targets"][0]
    assert first["backend"] == "dir"
    store.weir("down")
    assert store.json("up", "--no-mount")["policy"] == "size-fair"
    assert store.json("status")["servers"][0]["targets"][0]["backend"] == "dir"
    store.weir("down")

    refused = store.weir("up", "--no-mount", "--backend", "ram", code=1)
    assert "holds a store of other servers and targets" in refused.stderr
    assert living_services(store) == []

    store.weir("down", "--discard", "--yes")
    store.weir("up", "--no-mount", "--backend", "ram")


def test_up_can_be_killed_at_any_moment_and_run_again(store: Store) -> None:
    chance = seeded()
    command = [*program(), "up", "--no-mount", "--servers", "2"]
    for _ in range(5):
        with subprocess.Popen(
            command, env=store.variables(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as up:
            time.sleep(chance.uniform(0.05, 0.6))
            up.kill()
        answer = store.weir("up", "--no-mount", "--servers", "2", code=None)
        assert answer.returncode == 0 or "already up" in answer.stderr, answer.stderr
        store.weir("status")
        assert len(living_services(store)) == 2
    store.weir("down")
    assert living_services(store) == []


def test_two_commands_at_once_do_not_start_it_twice(store: Store) -> None:
    command = [*program(), "up", "--no-mount"]
    both = [subprocess.Popen(command, env=store.variables(), stderr=subprocess.PIPE, text=True) for _ in range(2)]
    words = [each.communicate(timeout=PATIENCE_SECONDS)[1] for each in both]
    assert sorted(each.returncode for each in both) == [0, 1]
    assert sum("already up" in text for text in words) == 1
    assert len(living_services(store)) == 1


@pytest.mark.usefixtures("fuse")
def test_the_store_is_mounted_and_unmounted(store: Store) -> None:
    assert store.json("up")["mount"] == str(store.mount)
    (store.mount / "file").write_text("words")
    assert store.json("status")["mounts"] == [{"point": str(store.mount), "served": True}]

    again = store.weir("mount", code=1)
    assert "already mounted" in again.stderr
    other = store.root / "elsewhere"
    store.weir("mount", other)
    assert (other / "file").read_text() == "words"
    store.weir("umount", other)
    assert not os.path.ismount(other)

    with (store.mount / "file").open():
        busy = store.weir("umount", code=1)
        assert "in use" in busy.stderr
        assert (store.mount / "file").read_text() == "words", "the mount goes on"
    store.weir("umount")
    assert not os.path.ismount(store.mount)
    assert "not mounted" in store.weir("umount", code=1).stderr
    assert len(living_services(store)) == 1


@pytest.mark.usefixtures("fuse")
def test_a_mount_whose_program_died_is_cleared_away(store: Store) -> None:
    store.json("up")
    record = next((store.home / "mounts").glob("*.pid"))
    kill(int(record.read_text().split()[0]))
    assert store.json("status", code=1)["mounts"][0]["served"] is False
    store.weir("mount")
    (store.mount / "file").write_text("words")
    store.weir("down")
    assert living_services(store) == []
    assert not os.path.ismount(store.mount)


@pytest.mark.usefixtures("fuse")
def test_what_goes_with_ram_targets_is_said(store: Store) -> None:
    store.json("up")
    (store.mount / "file").write_bytes(bytes(3 << 20))
    down = store.weir("down")
    assert "3.0 MiB; that data is lost" in down.stderr


@pytest.mark.usefixtures("fuse")
def test_layouts_are_shown_and_set(store: Store) -> None:
    store.json("up", "--servers", "2")
    folder = store.mount / "striped"
    folder.mkdir()
    store.weir("layout", "set", "-c", "2", "-S", "64k", folder)
    whole: dict[str, object] = {"start": 0, "end": None, "stripe_bytes": 65536, "stripes": 2, "targets": []}
    assert store.json("layout", "get", folder) == {
        "path": str(folder),
        "layout": "-c 2 -S 64k",
        "components": [whole],
        "spread": False,
    }
    (folder / "file").write_bytes(bytes(200_000))
    (component,) = store.json("layout", "get", folder / "file")["components"]
    assert component["stripe_bytes"] == 65536
    assert len(component["targets"]) == 2

    store.weir("layout", "set", folder, "--stripe-size=128k", "--spread")
    layout = store.json("layout", "get", folder)
    assert (layout["layout"], layout["spread"]) == ("-c -1 -S 128k", True)

    assert "multiples of 4 KiB" in store.weir("layout", "set", folder, "-S", "5000", code=1).stderr
    assert "there are 4 targets" in store.weir("layout", "set", folder, "-c", "5", code=1).stderr
    store.weir("layout", "set", "-o", "1.1,0.0", store.mount / "laid-out")
    (component,) = store.json("layout", "get", store.mount / "laid-out")["components"]
    assert component["targets"] == ["1.1", "0.0"]
    assert "names a target" in store.weir("layout", "set", store.mount / "new", "-o", "7.7", code=1).stderr
    assert not (store.mount / "new").exists(), "no file is half made"
    for directory in (folder, store.mount):
        assert "names a target" in store.weir("layout", "set", directory, "-o", "0.99", code=1).stderr
    for name in ("new/", "new/."):
        assert "is no directory" in store.weir("layout", "set", f"{store.mount}/{name}", "-c", "1", code=1).stderr
    assert not (store.mount / "new").exists(), "the slash asked for a directory"
    store.weir("layout", "set", f"{folder}/", "-c", "2")
    assert "not on a Weir store" in store.weir("layout", "get", store.root, code=1).stderr
    assert "nothing to set" in store.weir("layout", "set", folder, code=2).stderr


@pytest.mark.usefixtures("fuse")
def test_progressive_layouts_hold_files(store: Store, tmp_path: Path) -> None:
    store.json("up", "--servers", "2", "--targets", "3")
    folder = store.mount / "progressive"
    folder.mkdir()
    ini = tmp_path / "layout.ini"
    ini.write_text(
        "[Client]\nBuckets = 3 # here: 3\n[Bucket_1]\nExtent = 64k\nStripe = 1\nSize = 64k\n"
        "[Bucket_2]\nExtent = 256k\nStripe = 3\nSize = 64k\n[Bucket_3]\nExtent = -1\nStripe = -1\n"
    )
    store.weir("layout", "set", "--ini", ini, folder)
    assert store.json("layout", "get", folder)["layout"] == "-E 64k -c 1 -S 64k -E 256k -c 3 -S 64k -E -1 -c -1 -S 1M"
    data = os.urandom(3 << 20)
    (folder / "file").write_bytes(data)
    assert (folder / "file").read_bytes() == data
    components = store.json("layout", "get", folder / "file")["components"]
    assert [len(component["targets"]) for component in components] == [1, 3, 6]
    with (folder / "file").open("r+b") as file:
        file.truncate(100_000)
        file.seek(300_000)
        file.write(b"end")
    assert (folder / "file").read_bytes() == data[:100_000] + bytes(200_000) + b"end"

    warned = store.weir("layout", "set", folder, "-E", "1M", "-c", "4", "-E", "-1", "-c", "5").stderr
    assert "more than the 6 targets" in warned
    for wrong, said in {
        "-c 0 -E 1M": "before the first -E",
        "-E 1M -c 1 -E 512k -c 2 -E -1": "extents overlap",
        "-E 1M -c 1": "the end -1",
    }.items():
        assert said in store.weir("layout", "set", *wrong.split(), folder, code=2).stderr


@pytest.mark.usefixtures("fuse", "root_only")
class TestOtherUsers:
    """Users who are not root: with a store of their own, and as guests of root's."""

    def own(self, store: Store) -> dict[str, str]:
        home = store.root / "own"
        home.mkdir()
        os.chown(home, OTHER, OTHER)
        return {"WEIR_HOME": str(home / "weir")}

    @pytest.mark.usefixtures("user_fuse")
    def test_a_user_has_a_store_of_their_own(self, store: Store) -> None:
        environment = self.own(store)
        store.weir("up", uid=OTHER, environment=environment)
        try:
            home = Path(environment["WEIR_HOME"])
            assert home.stat().st_mode & 0o777 == 0o700
            script = 'echo words > "$WEIR_MOUNT/file" && cat "$WEIR_MOUNT/file" && stat -c %u "$WEIR_MOUNT/file"'
            answer = store.weir("run", "--no-preload", "--", "sh", "-c", script, uid=OTHER, environment=environment)
            assert answer.stdout == f"words\n{OTHER}\n"
            store.weir("policy", "set", "fifo", uid=OTHER, environment=environment)
        finally:
            store.weir("down", "--force", uid=OTHER, environment=environment)
        assert not (home / "cluster.json").exists()

    def test_a_user_works_in_the_store_of_root(self, store: Store) -> None:
        store.json("up")
        shared = store.mount / "shared"
        shared.mkdir()
        shared.chmod(0o1777)
        private = store.mount / "private"
        private.mkdir(mode=0o700)
        environment = store.grant(OTHER)
        script = (
            'echo words > "$WEIR_MOUNT/shared/file" && stat -c %u "$WEIR_MOUNT/shared/file"; ls "$WEIR_MOUNT/private"'
        )
        answer = store.weir("run", "--no-preload", "--", "sh", "-c", script, code=2, uid=OTHER, environment=environment)
        assert answer.stdout == f"{OTHER}\n"
        assert "Permission denied" in answer.stderr
        jobs = store.json("jobs", "--all")
        assert {job["job"] for job in jobs if job["uid"] == OTHER} == {f"uid-{OTHER}"}

    def test_a_store_in_a_private_folder_is_announced_to_users(self, store: Store) -> None:
        """Root's own home is closed to others, and so is what lies below it."""
        store.root.chmod(0o700)
        point = Path(tempfile.mkdtemp(prefix="weir-test-"))
        try:
            cluster = Path(store.json("up", "--mount", point)["cluster"])
            assert cluster.is_relative_to("/run/weir")
            grant = store.json("grant", "--uid", str(OTHER), "--gid", str(OTHER))
            assert Path(grant["credential"]).is_relative_to(cluster.parent)
            environment = {"WEIR_CLUSTER": str(cluster), "WEIR_HOME": str(point / "none")}
            script = 'stat -f -c %T "$WEIR_MOUNT" && echo "$WEIR_CREDENTIAL"'
            answer = store.weir("run", "--no-preload", "--", "sh", "-c", script, uid=OTHER, environment=environment)
            assert answer.stdout.splitlines() == ["fuseblk", grant["credential"]], "coreutils' name of the magic number"
            store.weir("down", "--discard", "--yes")
            assert not cluster.parent.exists()
        finally:
            store.weir("down", "--force", "--discard", "--yes", code=None)
            point.rmdir()

    @pytest.mark.usefixtures("user_fuse")
    def test_a_user_mounts_the_store_of_root_with_a_grant(self, store: Store) -> None:
        store.json("up", "--no-mount")
        environment = {**store.grant(OTHER), **self.own(store)}
        point = Path(environment["WEIR_HOME"]).parent / "point"
        store.weir("mount", point, uid=OTHER, environment=environment)
        try:
            script = f"echo words > {point}/file; cat {point}/file"
            answer = store.weir("run", "--no-preload", "--", "sh", "-c", script, uid=OTHER, environment=environment)
            # The root of the store is root's: a guest may not write there.
            assert "Permission denied" in answer.stderr or answer.stdout == "words\n"
        finally:
            store.weir("umount", "--force", uid=OTHER, environment=environment)
        assert not os.path.ismount(point)


@pytest.mark.usefixtures("user_fuse")
@pytest.mark.parametrize("uid", [None, OTHER])
def test_nobody_writes_below_a_mount_that_is_gone(store: Store, uid: int | None) -> None:
    """A program that found no mount once filled the disk below the mount point."""
    own = store.root / "own"
    own.mkdir(mode=0o755)
    os.chown(own, uid or 0, uid or 0)
    environment = {"WEIR_HOME": str(own / "home")}
    point = own / "scratch" / "weir"

    def weir(*words: str | Path) -> None:
        store.weir(*words, uid=uid, environment=environment)

    def write(name: str) -> bool:
        """Whether the user of the store can make a file on the mount point."""
        command = ["sh", "-c", 'echo words >"$1"', "sh", str(point / name)]
        answer = subprocess.run(
            command, user=uid, group=uid, stderr=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=False
        )
        return answer.returncode == 0

    def is_guarded() -> bool:
        """Whether root is stopped, too, which needs a file system with attributes."""
        listed = subprocess.run(
            ["lsattr", "-d", point], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        return uid is not None or "i" in listed.stdout.partition(" ")[0]

    try:
        weir("up", "--mount", point)
        assert write("kept")
        weir("umount", point)
        assert point.stat().st_mode & 0o777 == 0
        assert not (is_guarded() and write("kept"))
        weir("mount", point)
        assert write("new")
        weir("down")
        assert not (is_guarded() and write("kept"))
        weir("down", "--discard", "--yes")
        assert not point.exists()
    finally:
        store.weir("down", "--force", "--discard", "--yes", uid=uid, environment=environment, code=None)


def test_a_mount_point_that_was_there_is_left_as_it_was(store: Store) -> None:
    point = store.root / "present"
    point.mkdir(mode=0o750)
    store.weir("up", "--mount", point)
    store.weir("down", "--discard", "--yes")
    assert point.stat().st_mode & 0o777 == 0o750
    (point / "file").touch()
