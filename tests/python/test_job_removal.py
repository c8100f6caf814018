"""The end of a job's folders on devices: those that carry its token go, on each host, and nothing else does."""

import json
from pathlib import Path

import pytest
from job_runs import Job, schema
from store import Store
from weir.deployment import member, operations, record
from weir.deployment.operations import Member
from weir.planner import lifecycle as steps
from weir.provisioning.lifecycle import setup, teardown
from weir.provisioning.lifecycle.record import JobFolder, Phase
from weir.provisioning.schema_file import read_schema
from weir.store.decoding import encode
from weir.store.errors import StoreError
from weir.store.home import Home

TOKEN = "0123456789abcdef"


def part(folder: Path, *, token: str = TOKEN) -> tuple[Home, list[Path]]:
    """A host's part of a store of two servers, of which the host has the first one, with a target of each."""
    home = Home(folder / "home")
    home.create()
    home.server(0).mkdir(parents=True)
    places = [folder / f"weir-job-{number}-0-{TOKEN}" for number in (0, 1)]
    for place in places:
        place.mkdir()
        (place / "object").write_text("bytes")
    tables = "".join(f'[[server]]\n[[server.target]]\nbackend = "dir"\npath = "{place}"\n' for place in places)
    home.configuration.write_text(f'version = 1\npolicy = "job-fair"\n{tables}')
    described = Member("store", "host", "127.0.0.1", (0,), None, False, token)
    member.member_file(home).write_text(json.dumps(encode(described)))
    return home, places


@pytest.mark.parametrize("how", ["end", "remove"])
def test_a_host_removes_the_marked_folders_of_its_own_servers(tmp_path: Path, how: str) -> None:
    home, (own, others) = part(tmp_path)
    if how == "end":
        ended = member.end(operations.EndRequest(str(home.root), "store", force=True, discard=True))
    else:
        ended = member.remove(operations.Part(str(home.root), "store"))
    assert not own.exists() and others.exists()
    assert ended.left == ()
    assert not home.configuration.exists()


def test_an_end_that_keeps_files_and_a_store_without_a_mark_remove_nothing(tmp_path: Path) -> None:
    home, places = part(tmp_path, token="")
    member.end(operations.EndRequest(str(home.root), "store", force=True, discard=False))
    assert all((place / "object").exists() for place in places)
    ended = member.end(operations.EndRequest(str(home.root), "store", force=True, discard=True))
    assert ended.left == tuple(map(str, places))
    assert all((place / "object").exists() for place in places)


def test_a_folder_that_cannot_be_removed_is_told_until_it_is_gone(tmp_path: Path) -> None:
    """A removal that failed was once passed over, and the bytes stayed for ever."""
    home, (own, _) = part(tmp_path)
    aside = own.rename(tmp_path / "aside")
    own.symlink_to(aside)
    request = operations.Part(str(home.root), "store")
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot remove"):
            member.remove(request)
        assert (aside / "object").exists() and member.member_of(home) is not None
    own.unlink()
    aside.rename(own)
    member.remove(request)
    assert not own.exists() and member.member_of(home) is None


def test_parts_and_stores_of_before_have_no_mark(tmp_path: Path) -> None:
    home, _ = part(tmp_path)
    file = member.member_file(home)
    document = json.loads(file.read_text())
    del document["token"]
    file.write_text(json.dumps(document))
    found = member.member_of(home)
    assert found is not None and found.token == ""
    record.write(home, record.Record(1, "store", str(home.root), "ssh", "weir", "", {}, (found,)))
    store = record.folder_of(home).root / "store.json"
    whole = json.loads(store.read_text())
    del whole["members"][0]["token"]
    store.write_text(json.dumps(whole))
    described = record.read(home)
    assert described is not None and described.members == (found,)


def test_jobs_of_one_name_on_one_device_keep_apart(store: Store) -> None:
    """Each folder of jobs has names of its own. The end of one job once took the results of another."""
    job = Job(store, devices=1)
    job.arguments("true")
    deployment = read_schema(job.folder / "schema.json")
    folders = [JobFolder(store.root / where / "job") for where in ("a", "b")]
    for folder in folders:
        folder.create(deployment)
        setup.setup(folder, print)
    tokens = [folder.state().token for folder in folders]
    assert len(set(tokens)) == 2 and all(len(token) == 32 for token in tokens)
    device = job.devices[0]
    assert {place.name for place in device.iterdir()} == {f"weir-job-0-0-{token}" for token in tokens}
    assert teardown.teardown(folders[0]).phase is Phase.ENDED
    assert [place.name for place in device.iterdir()] == [f"weir-job-0-0-{tokens[1]}"]
    # A store that is started again has the place that it had.
    teardown.stop(folders[1].home, discard=False)
    setup.setup(folders[1], print)
    assert folders[1].state().token == tokens[1]
    assert teardown.teardown(folders[1]).phase is Phase.ENDED
    assert list(device.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        ("server 1 did not start: cannot open the target /d/weir: it is uid 7's, and the server runs as uid 1", ()),
        ("server 1 did not start: cannot open the target /d/weir: Permission denied (os error 13)", ()),
        ("server 1 did not start: cannot open the target /d/weir: Input/output error (os error 5)", ("n1",)),
    ],
)
def test_a_node_is_not_blamed_for_a_users_rights(tmp_path: Path, words: str, nodes: tuple[str, ...]) -> None:
    """Two users could once lay folders in the way of two others, and so take a node from everybody."""
    servers = [{"node": f"n{number}", "devices": ["/d"], "target_bytes": 1 << 30} for number in range(2)]
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({**schema(tmp_path), "servers": servers}))
    assert steps._at_fault(words, read_schema(file)) == nodes
