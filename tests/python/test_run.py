"""`weir run` starts a program as one job, hands signals on, and lets nobody claim what was not granted."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from store import Store, program
from waits import PATIENCE_SECONDS

OTHER = 54321
"""A user without an account."""

SHOW = "import json, os, sys; print(json.dumps(dict(os.environ)))"
SHOW_CLAIMS = "import json, os; print(json.dumps(json.load(open(os.environ['WEIR_CREDENTIAL']))['claims']))"


@pytest.fixture
def up(store: Store) -> Store:
    """A store without a mount: what is tested here does not touch files."""
    store.up(mount=False)
    return store


def run(store: Store, *arguments: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    return store.weir("run", "--prefix", "/weir", *arguments, code=code)


def test_the_program_finds_the_store_in_its_environment(up: Store) -> None:
    seen = json.loads(run(up, "--", sys.executable, "-c", SHOW).stdout)
    assert seen["WEIR_CLUSTER"] == str(up.home / "cluster.json")
    assert seen["WEIR_PREFIX"] == "/weir"
    assert "WEIR_MOUNT" not in seen
    assert "libweir_preload" in seen["LD_PRELOAD"]
    assert Path(seen["WEIR_CREDENTIAL"]).parent == up.home / "credentials"
    assert not Path(seen["WEIR_CREDENTIAL"]).exists(), "it goes with the run"


def test_without_a_mount_the_program_sees_the_store_below_the_prefix(up: Store, tmp_path: Path) -> None:
    environment = {"WEIR_COUNTERS": str(tmp_path)}
    script = "echo words > /weir/file; cat /weir/file; ls /weir"
    answer = up.weir("run", "--prefix", "/weir", "--", "bash", "-c", script, environment=environment)
    assert answer.stdout == "words\nfile\n"
    assert list(tmp_path.glob("*.json")), "it was the fast path that served it"
    weir = [*program(), "layout", "get", "/weir/file", "--output", "json"]
    (component,) = json.loads(run(up, "--", *weir).stdout)["components"]
    assert component["stripe_bytes"] == 1 << 20


@pytest.mark.parametrize(
    ("name", "value"), [("WEIR_TRANSPORT", "tpc"), ("WEIR_TIMEOUT_SECONDS", "10s"), ("WEIR_PREFIX", "relative")]
)
def test_a_setting_that_the_library_cannot_use_is_refused_before_anything_runs(
    up: Store, tmp_path: Path, name: str, value: str
) -> None:
    """The program ran without the store, and its files lay on the local disk."""
    place = tmp_path / "prefix"
    words: list[str | Path] = [] if name == "WEIR_PREFIX" else ["--prefix", place]
    script = f"mkdir {place} && echo data >{place}/file"
    refused = up.weir("run", *words, "--", "bash", "-c", script, code=2, environment={name: value})
    assert value in refused.stderr
    assert not place.exists()
    assert up.weir("config", "show", code=2, environment={name: value}).stderr.count("hint:") == 1


def test_flags_say_who_the_job_is(up: Store) -> None:
    flags = ["--nodes", "4", "--user", "alice", "--group", "physics", "--job", "checkpoint", "--priority", "3"]
    claims = json.loads(run(up, *flags, "--", sys.executable, "-c", SHOW_CLAIMS).stdout)
    assert (claims["nodes"], claims["user"], claims["group"], claims["job"], claims["priority"]) == (
        4,
        "alice",
        "physics",
        "checkpoint",
        3,
    )
    assert claims["uid"] == os.getuid()
    assert claims["role"] == "user"


def test_runs_are_jobs_of_their_own(up: Store) -> None:
    one, other = (json.loads(run(up, "--", sys.executable, "-c", SHOW_CLAIMS).stdout)["job"] for _ in range(2))
    assert one != other


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_the_exit_code_is_the_programs(up: Store, script: str, code: int) -> None:
    run(up, "--", "sh", "-c", script, code=code)


def test_a_program_that_cannot_be_run(up: Store, tmp_path: Path) -> None:
    assert "no such program" in run(up, "--", "/nonexistent/program", code=127).stderr
    (tmp_path / "text").write_text("words")
    assert "Permission denied" in run(up, "--", tmp_path / "text", code=126).stderr
    assert list((up.home / "credentials").glob("run-*")) == []


def test_options_behind_the_program_are_its_own(up: Store) -> None:
    words = ["sh", "-c", 'echo "$@"', "sh", "--nodes", "--help"]
    assert run(up, "--", *words).stdout == "--nodes --help\n"
    assert run(up, *words).stdout == "--nodes --help\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_handed_on(up: Store, number: signal.Signals) -> None:
    script = f"trap 'echo got; exit 9' {number.name.removeprefix('SIG')}; echo ready; while :; do sleep 0.05; done"
    command = [*program(), "run", "--prefix", "/weir", "--", "sh", "-c", script]
    with subprocess.Popen(
        command, env=up.variables(), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            child.send_signal(number)
            assert child.communicate(timeout=PATIENCE_SECONDS)[0] == "got\n"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == 9


def test_a_run_that_was_killed_leaves_its_credential_to_the_next(up: Store) -> None:
    command = [*program(), "run", "--prefix", "/weir", "--", "sh", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen(
        command, env=up.variables(), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        os.killpg(child.pid, signal.SIGKILL)
    assert len(list((up.home / "credentials").glob("run-*"))) == 1
    run(up, "--", "true")
    assert list((up.home / "credentials").glob("run-*")) == []


@pytest.mark.usefixtures("fuse")
def test_the_mount_point_is_in_the_environment(store: Store) -> None:
    store.up()
    seen = json.loads(store.weir("run", "--", sys.executable, "-c", SHOW).stdout)
    assert seen["WEIR_MOUNT"] == str(store.mount)
    assert "WEIR_PREFIX" not in seen
    seen = json.loads(store.weir("run", "--no-preload", "--", sys.executable, "-c", SHOW).stdout)
    assert "libweir_preload" not in seen.get("LD_PRELOAD", "")
    store.weir("run", "--", "sh", "-c", 'echo words > "$WEIR_MOUNT/file"')
    assert (store.mount / "file").read_text() == "words\n"


def test_what_needs_a_mount_says_so_without_one(up: Store) -> None:
    answer = up.weir("run", "--", "true", code=1)
    assert "not mounted" in answer.stderr
    assert "--prefix" in answer.stderr
    assert "contradict" not in up.weir("run", "--prefix", "weir", "--", "true", code=2).stderr
    up.weir("run", "--prefix", "/weir", "--no-preload", "--", "true", code=2)


def test_a_run_inside_a_run_is_the_same_job(up: Store) -> None:
    inner = [*program(), "run", "--prefix", "/weir", "--", sys.executable, "-c", SHOW_CLAIMS]
    assert json.loads(run(up, "--job", "outer", "--", *inner).stdout)["job"] == "outer"


class TestGrants:
    """Other users, who cannot read the site's key."""

    pytestmark = pytest.mark.usefixtures("root_only")

    def grant(self, store: Store, *arguments: str, uid: int = OTHER) -> dict[str, str]:
        """Mint a grant and return the environment of its user."""
        environment = store.grant(uid, *arguments)
        path = Path(environment["WEIR_CREDENTIAL"])
        assert path.stat().st_uid == uid
        assert path.stat().st_mode & 0o777 == 0o600
        return environment

    def run(self, store: Store, environment: dict[str, str], *arguments: str, code: int, uid: int = OTHER) -> str:
        answer = store.weir(
            "run", "--prefix", "/weir", *arguments, "--", "cat", environment["WEIR_CREDENTIAL"],
            code=code, uid=uid, environment=environment,
        )  # fmt: skip
        return answer.stdout if code == 0 else answer.stderr

    def test_a_grant_is_used_as_it_is(self, up: Store) -> None:
        environment = self.grant(up, "--nodes", "3", "--job", "theirs", "--user", "bob")
        claims = json.loads(self.run(up, environment, code=0))["claims"]
        assert (claims["uid"], claims["nodes"], claims["job"], claims["user"]) == (OTHER, 3, "theirs", "bob")
        self.run(up, environment, "--nodes", "3", "--job", "theirs", code=0)

    def test_a_grant_is_found_in_its_usual_place(self, up: Store) -> None:
        environment = self.grant(up)
        del environment["WEIR_CREDENTIAL"]
        up.weir("run", "--prefix", "/weir", "--", "true", uid=OTHER, environment=environment)
        up.weir("status", uid=OTHER, environment=environment)

    @pytest.mark.parametrize(
        "flags", [["--nodes", "4"], ["--priority", "2"], ["--user", "root"], ["--group", "root"], ["--job", "other"]]
    )
    def test_flags_cannot_widen_it(self, up: Store, flags: list[str]) -> None:
        words = self.run(up, self.grant(up, "--nodes", "3"), *flags, code=1)
        assert words.startswith("error: permission denied: the grant says")
        assert "weir grant" in words

    def test_a_grant_of_somebody_else_is_refused(self, up: Store) -> None:
        environment = self.grant(up, uid=OTHER + 1)
        assert "cannot use the credential" in self.run(up, environment, code=1), "the file is closed to others"
        Path(environment["WEIR_CREDENTIAL"]).chmod(0o644)
        assert f"is of uid {OTHER + 1}" in self.run(up, environment, code=1)

    def test_an_expired_grant_is_refused(self, up: Store) -> None:
        from weir.store.identity import Identity

        environment = self.grant(up)
        key = (up.home / "site.key").read_text()
        expired = Identity("old", "u", "g", OTHER, OTHER, []).mint(key, -1)
        Path(environment["WEIR_CREDENTIAL"]).write_text(expired)
        assert "permission denied" in self.run(up, environment, code=1)

    def test_nobody_else_may_mint_or_change_the_policy(self, up: Store) -> None:
        environment = self.grant(up)
        assert "permission denied" in up.weir("grant", "--uid", "0", code=1, uid=OTHER, environment=environment).stderr
        assert (
            "permission denied" in up.weir("policy", "set", "fifo", code=1, uid=OTHER, environment=environment).stderr
        )
        without = {name: value for name, value in environment.items() if name != "WEIR_CREDENTIAL"}
        (up.home / "credentials" / f"uid-{OTHER}.json").unlink()
        words = up.weir("run", "--prefix", "/weir", "--", "true", code=1, uid=OTHER, environment=without).stderr
        assert "permission denied: you have no credential" in words

    def test_a_key_of_another_store_mints_nothing_here(self, up: Store) -> None:
        """A user with a store of their own is still a guest in this one."""
        home = up.root / "theirs"
        home.mkdir()
        os.chown(home, OTHER, OTHER)
        (home / "site.key").write_text("0" * 64)
        os.chown(home / "site.key", OTHER, OTHER)
        environment = {**self.grant(up, "--job", "granted"), "WEIR_HOME": str(home)}
        claims = json.loads(self.run(up, environment, code=0))["claims"]
        assert claims["job"] == "granted"
        assert "permission denied" in self.run(up, environment, "--nodes", "9", code=1)


def test_a_user_that_is_not_there_gets_no_grant(up: Store) -> None:
    assert "there is no user" in up.weir("grant", "--uid", "no-such-user", code=2).stderr
    assert "say its group" in up.weir("grant", "--uid", str(OTHER), code=2).stderr
    assert "no number of a group" in up.weir("grant", "--uid", "0", "--groups", "a,b", code=2).stderr


def test_a_grant_can_be_printed(up: Store) -> None:
    text = up.weir("grant", "--uid", str(OTHER), "--gid", "1", "--hours", "1", "--to", "-").stdout
    claims = json.loads(text)["claims"]
    assert claims["expires_seconds"] - claims["issued_seconds"] == 3600 + 300


def test_the_environment_can_be_put_into_a_shell(up: Store) -> None:
    script = f'eval "$({program()[0]} env)"; echo "$WEIR_CLUSTER $WEIR_CREDENTIAL"'
    answer = subprocess.run(
        ["sh", "-c", script], env=up.variables(), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert answer.stdout.split() == [
        str(up.home / "cluster.json"),
        str(up.home / "credentials" / f"uid-{os.getuid()}.json"),
    ]


def test_a_home_on_the_command_line_wins_over_the_environment(up: Store, make_store: Callable[[], Store]) -> None:
    other = make_store()
    other.up(mount=False)
    lines = up.weir("env").stdout.splitlines()
    of_first = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    assert of_first["WEIR_ADAPTIVE_JOURNAL"] == str(up.home / "adaptive")

    def cluster_of(*words: str | Path) -> str:
        return str(json.loads(other.weir(*words, "--output", "json", environment=of_first).stdout)["cluster"])

    assert cluster_of("status") == of_first["WEIR_CLUSTER"]
    assert cluster_of("--home", other.home, "status") == str(other.home / "cluster.json")
    words = ("run", "--prefix", "/weir", "--", "sh", "-c", "echo $WEIR_CLUSTER")
    ran = other.weir("--home", other.home, *words, environment=of_first)
    assert ran.stdout.strip() == str(other.home / "cluster.json")
