"""The audit of a store: every door through which it is changed leaves an entry, also where the change is refused."""

import ast
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import audited
import click
import control_api
import job_runs
import pytest
import weir
from waits import PATIENCE_SECONDS
from weir import cli
from weir.store import StoreError
from weir.store.access import by_credential
from weir.store.answers import LeasedJob, QuotaLimits
from weir.store.audits import AuditEntry, ToldEntry
from weir.store.claims import acting_for
from weir.store.connections import Connection
from weir.store.control import REQUESTS, Request, Server
from weir.store.identity import Identity

ROOT = Path(__file__).resolve().parents[2]
CHANGES = [(request, path, body) for request, path, body in control_api.examples() if request.method == "PUT"]


@pytest.fixture(scope="module")
def store() -> Iterator[weir.store.Store]:
    with weir.store.up(servers=2, backend="dir", mount=False) as store:
        yield store
        store.down(discard=True)


@pytest.fixture(scope="module")
def server(store: weir.store.Store) -> Server:
    return store.servers[0]


def audit(store: weir.store.Store, *options: str) -> list[dict[str, Any]]:
    """The entries of `weir audit`."""
    command = [sys.executable, "-m", "weir.cli", "--home", str(store.home), "audit", "--output", "json", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    entries: list[dict[str, Any]] = json.loads(ended.stdout)["entries"]
    return entries


def last(server: Server) -> AuditEntry:
    return server.audit()[-1]


def values(entry: AuditEntry) -> tuple[Any, Any]:
    """The values before and after, as JSON."""
    return json.loads(entry.before or "null"), json.loads(entry.after or "null")


def test_every_request_that_changes_something_is_in_the_table() -> None:
    found = {f"{request.method} {request.path}" for request in REQUESTS if request.method != "GET"}
    assert found == {*audited.REQUESTS, *audited.LEFT}
    assert all(audited.LEFT.values())


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Each command that does something."""
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    if command.invoke_without_command:
        yield " ".join(path)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from commands(below, (*path, name))


def told_in_sources() -> dict[str, set[str]]:
    """The kinds of changes that functions tell the servers of, each with these functions."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "python/weir").rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                for call in ast.walk(function):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) == "ToldEntry":
                        kind = ast.literal_eval(call.args[0])
                        found.setdefault(kind, set()).add(f"{path.relative_to(ROOT / 'python/weir')} {function.name}")
    return found


def test_every_command_that_changes_a_store_is_in_the_table() -> None:
    assert set(commands(cli.weir)) == {*audited.COMMANDS, *audited.COMMANDS_LEFT}
    assert not audited.COMMANDS.keys() & audited.COMMANDS_LEFT.keys()
    assert set(audited.COMMANDS.values()) <= {*audited.REQUESTS.values(), *audited.TOLD}
    assert told_in_sources() == {kind: set(places.split(", ")) for kind, places in audited.TOLD.items()}


def test_requests_that_change_something_go_through_one_door() -> None:
    """One place sends them, with what the command is; one place of the server takes them."""
    sending = [path for path in (ROOT / "python/weir").rglob("*.py") if re.search(r'"(PUT|POST)"', path.read_text())]
    assert [path.name for path in sending] == ["control.py"]
    routes = (ROOT / "crates/server/src/control/mod.rs").read_text()
    assert 'Some(handler) if method == "PUT" => audit::change(request, desk, handler),' in routes
    assert set(re.findall(r'^        \("([A-Z]+)", ', routes, re.MULTILINE)) == {"GET", "PUT"}


@pytest.mark.parametrize(("request_", "path", "body"), CHANGES, ids=[request.path for request, _, _ in CHANGES])
def test_every_door_leaves_an_entry_also_where_it_is_shut(
    store: weir.store.Store, server: Server, request_: Request[Any], path: str, body: object
) -> None:
    kind = audited.REQUESTS.get(f"PUT {request_.path}")
    key = (store.home / "site.key").read_text()
    user = by_credential(Identity("one", "somebody", "group", 4711, 4711, [4711]).mint(key, 3600))
    before = len(server.audit())
    content = None if body is None else json.dumps(body)
    with closing(Connection(0, server.control, PATIENCE_SECONDS, user)) as connection:
        connection.request("PUT", path, content)
        assert connection.getresponse().status == 403
    (refused,) = server.audit()[before:]
    assert (refused.outcome, refused.role, refused.uid, refused.user) == ("refused", "user", 4711, "somebody")
    if path == "/v1/lease":
        server.set_lease(None, (LeasedJob("one", 0, weight=2.0),), 60)
    headers = {"Weir-Command": "weir \u00e9 set".encode("ascii", "replace").decode(), "Weir-Host": "login-1"}
    with closing(Connection(0, server.control, PATIENCE_SECONDS, server.access)) as connection:
        connection.request("PUT", path, content, headers)
        assert connection.getresponse().status == 200
    if kind is None:
        assert len(server.audit()) == before + 1
        return
    entry = last(server)
    assert (entry.kind, entry.outcome, entry.role, entry.uid) == (kind, "done", "administrator", os.getuid())
    assert (entry.claimed_command, entry.claimed_host) == ("weir ? set", "login-1")
    assert entry.address is not None
    assert entry.is_told == (path == "/v1/audit")


def test_an_entry_has_the_value_before_and_after(server: Server) -> None:
    server.set_sharing("job-fair", "virtual-time")
    server.set_sharing("user-fair", None)
    entry = last(server)
    assert values(entry) == ({"policy": "job-fair", "scheduler": "virtual-time"}, {"policy": "user-fair"})
    server.set_quota("user", 4712, QuotaLimits(1 << 30, None))
    server.set_quota("user", 4712, None)
    entry = last(server)
    assert entry.object == "user 4712"
    before, after = values(entry)
    assert before == {"bytes_max": 1 << 30, "inodes_max": None}
    assert after == {"kind": "user", "id": 4712}
    server.set_target_state("0.0", "open")
    assert values(last(server)) == ({"state": "open"}, {"state": "open"})
    with pytest.raises(StoreError):
        server.set_sharing("szie-fair", None)
    entry = last(server)
    assert entry.outcome == "failed"
    assert "szie-fair" in (entry.reason or "")


def test_a_renewal_of_a_lease_is_no_entry_and_its_end_is(server: Server) -> None:
    before = len(server.audit())
    for _ in range(5):
        server.set_lease(None, (LeasedJob("one", 0, weight=2.0),), 60)
    assert len(server.audit()) == before + 1
    server.set_lease(None, (LeasedJob("one", 0, weight=3.0),), 60)
    server.set_lease(None, (), 0)
    assert [entry.kind for entry in server.audit()[before:]] == ["lease"] * 3


def test_refusals_of_one_caller_are_counted(store: weir.store.Store, server: Server) -> None:
    key = (store.home / "site.key").read_text()
    user = replace(server, access=by_credential(Identity("one", "n", "g", 4713, 4713, [4713]).mint(key, 3600)))
    for _ in range(20):
        with pytest.raises(StoreError, match="not authorised"):
            user.set_sharing("fifo", None)
    (entry,) = [entry for entry in server.audit() if entry.uid == 4713]
    assert entry.times == 20
    with pytest.raises(StoreError, match="not authorised"):
        user.audit()


def test_a_refusal_of_a_service_is_told_as_one(server: Server) -> None:
    with acting_for("weir room", "ada"):
        server.tell_audit(ToldEntry("room refusal", "drain", refused="a viewer may not change this"))
    entry = last(server)
    assert (entry.kind, entry.object, entry.outcome) == ("room refusal", "drain", "refused")
    assert (entry.reason, entry.is_told) == ("a viewer may not change this", True)
    assert (entry.claimed_command, entry.claimed_request_of) == ("weir room", "ada")


def test_the_command_shows_who_did_what_once_for_all_servers(store: weir.store.Store) -> None:
    command = [sys.executable, "-m", "weir.cli", "--home", str(store.home), "policy", "set", "size-fair"]
    environment = {**os.environ, "WEIR_REQUEST_OF": "alice"}
    subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    entry = audit(store, "--kind", "policy")[-1]
    assert entry["servers"] == [0, 1]
    assert entry["claimed_host"] == socket.gethostname()
    assert entry["claimed_command"] == f"weir --home {store.home} policy set size-fair"
    assert entry["claimed_request_of"] == "alice"
    assert audit(store, "--user", "alice") == [entry]
    assert all(each["outcome"] == "refused" for each in audit(store, "--refused"))
    table = subprocess.run(
        [sys.executable, "-m", "weir.cli", "--home", str(store.home), "audit", "--since", "1h"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert "policy" in table.stdout
    assert "0,1" in table.stdout


def test_the_life_of_a_store_is_told(tmp_path: Path) -> None:
    with weir.store.up(servers=1, backend="dir", mount=False, home=tmp_path / "home") as store:
        (begun,) = audit(store, "--kind", "deployment")
        assert (begun["object"], begun["after"], begun["is_told"]) == (str(tmp_path / "home"), "up: 1 servers", True)
        command = [sys.executable, "-m", "weir.cli", "--home", str(store.home)]
        for words in (("backup", str(tmp_path / "backup")), ("grant", "--uid", "4711", "--gid", "4711", "--to", "-")):
            subprocess.run([*command, *words], capture_output=True, timeout=PATIENCE_SECONDS, check=True)
        (granted,) = audit(store, "--kind", "grant")
        assert granted["object"] == "uid 4711"
        assert audit(store, "--kind", "backup")[0]["after"] == str(tmp_path / "backup")
        store.down()
    with weir.store.up(home=tmp_path / "home", mount=False) as store:
        lives = [entry["after"] for entry in audit(store, "--kind", "deployment")]
        assert lives == ["up: 1 servers", "down", "up: 1 servers"]
        store.down(discard=True)


def test_a_deployment_of_the_planner_says_on_whose_request_it_was_made(tmp_path: Path) -> None:
    import msgspec
    from weir.planner.step import Context, Order
    from weir.provisioning.schema_file import read_schema
    from weir.store.identity import user_name

    file, folder = tmp_path / "schema.json", tmp_path / "job"
    file.write_text(json.dumps({**job_runs.schema(tmp_path), "stage_in": [], "stage_out": []}))
    order = Order(deployment=read_schema(file), context=Context(job="slurm 17", reach="local"))

    def step(name: str) -> str:
        """The failure of a step, which ends with its group once nobody holds its input."""
        command = [sys.executable, "-m", "weir.planner.step", "weir.planner.lifecycle", name, str(folder)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            process.stdin.flush()
            return str(json.loads(process.stdout.readline()).get("message", ""))

    assert step("setup") == ""
    (cluster,) = folder.rglob("cluster.json")
    command = [sys.executable, "-m", "weir.cli", "--home", str(cluster.parent), "audit", "--output", "json"]
    shown = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=True).stdout
    (entry,) = json.loads(shown)["entries"]
    assert (entry["kind"], entry["claimed_request_of"]) == ("deployment", user_name(os.getuid()))
    assert entry["claimed_command"] == "weir planner: setup of job, job slurm 17"
    assert step("teardown") == ""


def test_entries_outlive_a_restart(tmp_path: Path) -> None:
    with weir.store.up(servers=1, backend="dir", mount=False, home=tmp_path) as store:
        store.servers[0].set_allocator("random")
        store.servers[0].set_allocator("balanced")
        entries = store.servers[0].audit()
        store.down()
    with weir.store.up(home=tmp_path, mount=False) as store:
        again = store.servers[0].audit()
        assert again[: len(entries)] == entries
        store.servers[0].set_allocator("random")
        assert last(store.servers[0]).number > entries[-1].number
        store.down(discard=True)
