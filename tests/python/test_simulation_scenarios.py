"""Scenario files: what they make, and one error with file, line and key for what they may not have."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from weir.simulation.errors import ScenarioError
from weir.simulation.scenario import FAULT_KINDS, Scenario, parse_scenario, read_scenario
from weir.simulation.topology import parse_topology
from weir.simulation.workload import Kind
from weir.simulation.workloads.jobs import GENERATORS, generator_class

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests/data/darshan"
REFERENCE = (ROOT / "docs/reference/scenarios.md").read_text()
SMALL = """topology = "testbed-35"
policy = "size-fair"
[layout]
stripe_count = 4
[[jobs]]
generator = "ior"
processes = 4
block = "8MiB"
[[faults]]
at = "3s"
kind = "speed"
server = 1
target = 2
value = "10%"
"""


def parsed(text: str, folder: Path = LOGS) -> Scenario:
    return parse_scenario(text, origin="s.toml", folder=folder)


def refused(text: str, folder: Path = LOGS) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        parsed(text, folder)
    return caught.value


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", REFERENCE, re.DOTALL)


def test_a_scenario_has_the_shape_of_the_simulator() -> None:
    document = parsed(SMALL).document()
    assert json.loads(json.dumps(document)) == document
    assert (document["seed"], document["mode"], document["policy"], document["scheduler"]) == (
        0,
        "flow",
        "size-fair",
        None,
    )
    assert (document["stripe_count"], document["stripe_bytes"], document["lambda_seconds"]) == (4, 1 << 20, 0.1)
    assert document["faults"] == [{"at_seconds": 3.0, "kind": {"speed": 0.1}, "server": 1, "target": 2}]
    assert document["workload"]["steps"] == [] and len(document["workload"]["streams"]) == 4
    assert document["workload"]["files"][3] == {"job": 0, "bytes": 0, "placement": "usual"}
    assert document["topology"]["servers"][6]["targets"][4]["capacity_bytes"] == 10 << 30


def test_the_files_of_a_job_have_the_home_that_it_names() -> None:
    other = '[[jobs]]\ngenerator = "ior"\nprocesses = 2\nhome = 6\n[[faults]]'
    files = parsed(SMALL.replace("[[faults]]", other)).document()["workload"]["files"]
    assert [each.get("home") for each in files] == [None] * 4 + [6] * 2


def test_the_layout_of_a_scenario_is_that_of_files_without_one() -> None:
    text = SMALL.replace("[layout]\n", '[layout]\ncomponents = "-E 128M -c 1 -E -1 -c 8"\n')
    files = parsed(text).document()["workload"]["files"]
    assert [each["placement"] for each in files] == [{"layout": "-E 128M -c 1 -E -1 -c 8"}] * 4
    again = dataclasses.replace(parsed(text), layout="-c 2 -o 0.1,1.1")
    assert again.document()["workload"]["files"][0]["placement"] == {"named": "-c 2 -o 0.1,1.1"}


def test_values_are_changed_by_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(SMALL)
    changes = {"policy": "job-fair", "jobs.0.processes": 7, "layout.stripe_count": 2, "seed": 9, "faults": None}
    found = read_scenario(path, changes=changes)
    assert (found.policy, found.stripe_count, found.seed, found.faults) == ("job-fair", 2, 9, ())
    assert len(found.workload.stream_jobs) == 7
    assert read_scenario(path).policy == "size-fair"
    with pytest.raises(ScenarioError, match=r"s\.toml: there is no jobs\.1\.processes"):
        read_scenario(path, changes={"jobs.1.processes": 7})
    with pytest.raises(ScenarioError, match=r"s\.toml: there is no jobs\.9999"):
        read_scenario(path, changes={f"jobs.{'9' * 5000}.processes": 7})
    with pytest.raises(ScenarioError, match=r"s\.toml: line 5: jobs\[0\]\.processes: 'many' is not allowed"):
        read_scenario(path, changes={"jobs.0.processes": "many"})


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("policy =", "polisy =", "line 2: polisy: there is no such key"),
        ('"size-fair"', '"fast"', "line 2: policy: unknown policy `fast`"),
        ('"size-fair"', "3", "line 2: policy: 3 is not allowed"),
        ('"size-fair"', '"fifo"\nscheduler = "tbf"', "line 3: scheduler: scheduler `tbf` cannot enforce policy `fifo`"),
        ('"testbed-35"', '"testbed-36"', "line 1: topology: there is no topology testbed-36"),
        ('topology = "testbed-35"\n', "", "s.toml: topology is missing"),
        ("[layout]", 'allocator = "best"\n[layout]', "line 3: allocator: unknown allocator `best`: expected one"),
        ("[layout]", 'lambda = "0s"\n[layout]', "line 3: lambda: 0 s is not from 1 ms"),
        ("[layout]", "exchange_loss = 2\n[layout]", "line 3: exchange_loss: 2 is not allowed"),
        ("[layout]", 'until = "late"\n[layout]', 'line 3: until: "late" is not a time'),
        ("[layout]", 'mode = "fast"\n[layout]', "line 3: mode: 'fast' is not one of flow, request"),
        ("[layout]", '[[share]]\nuser = "a"\njob = "b"\n[layout]', "line 3: share[0]: it names exactly one of group"),
        ("stripe_count = 4", "stripe_count = 36", "line 4: layout.stripe_count: testbed-35 has 35 targets"),
        ("stripe_count = 4", "stripe_size = 5000", "line 4: layout.stripe_size: a stripe is a multiple of 4096"),
        ("stripe_count = 4", 'components = "-c"', "line 4: layout.components: "),
        ('"ior"', '"iorr"', "line 6: jobs[0].generator: unknown workload `iorr`: expected one of ior"),
        ('generator = "ior"\n', "", "line 5: jobs[0]: its work is missing"),
        ("processes = 4", "proceses = 4", "line 7: jobs[0].proceses: there is no such key"),
        ("processes = 4", "processes = 4\nhome = 7", "line 8: jobs[0].home: 7 is not allowed"),
        ("processes = 4", "processes = 0", "line 7: jobs[0].processes: 0 is not allowed"),
        ('"8MiB"', '"many"', 'line 8: jobs[0].block: "many" is not a size'),
        ('"8MiB"', '"8MiB"\ntransfer = "3MiB"', "line 5: jobs[0]: block (8388608) is no multiple of transfer"),
        ('"8MiB"', '"8MiB"\narrival = []', "line 9: jobs[0].arrival: [] is not allowed"),
        ('"8MiB"', '"8MiB"\narrival = ["1s", "2s"]\ncount = 3', "line 9: jobs[0].arrival: it has 2 times"),
        ('"8MiB"', '"8MiB"\npace = 2', "line 9: jobs[0].pace: there is no such key"),
        ('"8MiB"', '"1TiB"', "s.toml: the files of 1 jobs hold 4398046511104 bytes at the end"),
        ('kind = "speed"', 'kind = "burns"', "line 11: faults[0].kind: 'burns' is not one of speed"),
        ("server = 1", "server = 7", "line 12: faults[0].server: 7 is not allowed"),
        ("target = 2", "target = 5", "line 13: faults[0].target: 5 is not allowed"),
        ('kind = "speed"', 'kind = "dies"', "line 13: faults[0].target: there is no such key"),
        ("[[faults]]", "[faults]", "line 9: faults: "),
        ("[[jobs]]", "[[jobs", "s.toml is not TOML"),
    ],
)
def test_a_fault_names_the_file_the_line_and_the_key(before: str, after: str, words: str) -> None:
    assert before in SMALL
    error = refused(SMALL.replace(before, after, 1))
    assert words in error.message and error.message.startswith("s.toml")
    assert error.hint and "\n" not in error.message


def test_the_layout_is_that_of_the_topology_unless_the_scenario_has_one() -> None:
    titan = SMALL.replace("testbed-35", "titan")
    assert parsed(titan.replace("[layout]\nstripe_count = 4\n", "")).layout == "-c 4 -S 1M"
    assert (parsed(titan).layout, parsed(titan).stripe_count) == (None, 4)


def test_what_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot read"):
        read_scenario(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        read_scenario(tmp_path / "bytes.toml")
    assert "there are no jobs" in refused('topology = "2x2"').message


def test_machines_may_stand_in_the_scenario() -> None:
    machines = """
[topology]
clients = { nodes = 3, link = { rate = "1GB/s" } }
[[topology.servers]]
link = { rate = "1GB/s" }
targets = [{ count = 2, capacity = "1GiB", read = "1GB/s", write = "1GB/s" }]
"""
    found = parsed('[[jobs]]\ngenerator = "ior"\n' + machines)
    assert (found.topology.nodes, found.topology.targets) == (3, 2)
    error = refused('[[jobs]]\ngenerator = "ior"\n' + machines.replace('"1GiB"', '"x"'))
    assert error.message.startswith('s.toml: line 4: topology: capacity: "x" is not a size')


def test_copies_arrive_in_turn_or_by_a_list() -> None:
    def arrivals(keys: str) -> list[float]:
        return [job.arrival_seconds for job in parsed(SMALL.replace("processes = 4", keys)).workload.jobs]

    assert arrivals("count = 3") == [0.0, 0.0, 0.0]
    assert arrivals('count = 3\narrival = "5s"\nevery = "500ms"') == [5.0, 5.5, 6.0]
    assert arrivals('arrival = ["3s", 1, "2min"]') == [3.0, 1.0, 120.0]


def test_jobs_run_on_nodes_one_after_the_other() -> None:
    two = '[[jobs]]\ngenerator = "ior"\nblock = "1MiB"\nprocesses = 6\nprocesses_per_node = 2\ncount = 2\n'
    workload = parsed(f'topology = "1x4"\n{two}').workload
    assert workload.stream_nodes.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1]
    assert workload.stream_jobs.tolist() == [0] * 6 + [1] * 6
    steps = workload.steps
    assert set(steps.file[(steps.stream >= 6) & (steps.kind == Kind.WRITE)].tolist()) == set(range(6, 12))
    spread = parsed(f'topology = "1x4"\n{two}nodes = 3\n').workload
    assert [job.nodes for job in spread.jobs] == [3, 3]


def test_dice_follow_the_seed() -> None:
    text = 'topology = "2x2"\n[[jobs]]\ngenerator = "checkpoints"\nperiod = "1s"\nbytes = 1\njitter = 0.5\ncount = 2\n'

    def pauses(seed: int) -> list[float]:
        found: list[float] = parsed(f"seed = {seed}\n{text}").workload.steps.after_seconds.tolist()
        return found

    assert pauses(1) == pauses(1) != pauses(2)
    half = len(pauses(1)) // 2
    assert pauses(1)[:half] != pauses(1)[half:], "copies draw apart"


def test_logs_of_a_folder_arrive_as_they_did(tmp_path: Path) -> None:
    for name in ("pq_app_write_id71296", "pq_app_write_id71303", "pq_app_readAB_writeC"):
        (path,) = LOGS.glob(f"{name}*")
        (tmp_path / path.name).symlink_to(path)
    text = 'topology = "2x2"\n[[jobs]]\nlog = "."\n'
    jobs = parsed(text, tmp_path).workload.jobs
    assert [(job.name, job.user) for job in jobs] == [
        ("app_readAB_writeC", "pq"),
        ("app_write", "pq"),
        ("app_write", "pq"),
    ]
    assert min(job.arrival_seconds for job in jobs) == 0.0 < max(job.arrival_seconds for job in jobs)
    paced = parsed(f"{text}pace = 0\n", tmp_path).workload.jobs
    assert [job.arrival_seconds for job in paced] == [0.0] * 3
    error = refused('topology = "2x2"\n[[jobs]]\nlog = "none"\n', tmp_path)
    assert error.message == f"s.toml: line 3: jobs[0].log: {tmp_path / 'none'} does not exist"
    (tmp_path / "bad.darshan").write_bytes(b"no log at all, but a text")
    assert re.search(r"line 3: jobs\[0\]\.log: .*bad\.darshan is not a Darshan log", refused(text, tmp_path).message)


ACCOUNTING = """JobID|JobName|User|Account|Start|NNodes|NCPUS
71303|other|pq|physics|2026-11-23T08:00:10|2|2
99999|app_write|pq|physics|2026-11-23T08:00:20|1|1
99998|ior|carol|chemistry|2026-11-23T08:00:30|8|256
99997|lmp_gpu|carol|chemistry|2026-11-23T08:01:00|4|16
"""
RULED = """topology = "16x8"
[[accounting]]
file = "sacct.txt"
logs = "logs"
pace = 0.5
[[accounting.rules]]
name = "lmp*"
generator = "checkpoints"
processes = 8
period = "1min"
bytes = "1MiB"
"""


def test_accounted_jobs_have_their_log_or_that_of_a_like_job_or_a_rule(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(ACCOUNTING)
    (tmp_path / "logs").mkdir()
    for name in ("pq_app_write_id71296", "pq_app_write_id71303", "dbin_ior"):
        (path,) = LOGS.glob(f"{name}*")
        (tmp_path / "logs" / path.name).symlink_to(path)
    workload = parsed(RULED, tmp_path).workload
    assert [(job.name, job.user, job.group, job.nodes, job.arrival_seconds) for job in workload.jobs] == [
        ("other", "pq", "physics", 2, 0.0),
        ("app_write", "pq", "physics", 1, 5.0),
        ("ior", "carol", "chemistry", 8, 10.0),
        ("lmp_gpu", "carol", "chemistry", 4, 25.0),
    ]
    streams = [int((workload.stream_jobs == job).sum()) for job in range(4)]
    assert streams == [1, 1, 256, 8]
    error = refused(RULED.replace("lmp*", "vasp"), tmp_path)
    assert (
        "line 3: accounting[0].file" in error.message and "line 5: no log and no rule fits job 99997" in error.message
    )
    skipped = parsed(RULED.replace("lmp*", "vasp").replace("pace", 'unmatched = "skip"\npace'), tmp_path)
    assert len(skipped.workload.jobs) == 3
    error = refused(RULED.replace("bytes", "bites"), tmp_path)
    assert "accounting[0].rules[0]" in error.message and "bytes is missing" in error.message


def test_the_reference_has_scenarios_and_topologies_that_are_read(tmp_path: Path) -> None:
    scenario, accounting, topology = blocks("toml")
    found = parsed(scenario, tmp_path)
    assert len(found.workload.jobs) == 3 and len(found.faults) == 2 and found.entitlements[0].reservation == 0.2
    (tmp_path / "sacct.txt").write_text(ACCOUNTING)
    (tmp_path / "darshan-logs").mkdir()
    (path,) = LOGS.glob("pq_app_write_id71303*")
    (tmp_path / "darshan-logs" / path.name).symlink_to(path)
    jobs = parsed(f'topology = "16x8"\n{accounting}', tmp_path).workload.jobs
    assert [job.name for job in jobs] == ["other", "app_write", "lmp_gpu"]
    assert (parse_topology(topology, origin="reference").targets, parse_topology(topology, origin="").servers) == (
        32,
        8,
    )


def test_the_reference_has_every_key_and_every_parameter() -> None:
    for name in GENERATORS:
        kind: Any = generator_class(name)
        section = REFERENCE.partition(f"| `{name}` | default |")[2].partition("\n\n")[0]
        for field in kind.__dataclass_fields__:
            assert f"`{field}`" in section, f"{name}: {field}"
    for kind_of_fault in FAULT_KINDS:
        assert kind_of_fault in blocks("toml")[0]
    refusal = refused(SMALL.replace("policy =", "zzz ="))
    for key in refusal.hint.removeprefix("allowed are ").split(", "):
        assert key in REFERENCE, key


TEXTS = some.sampled_from(
    [*SMALL.splitlines(), "[[jobs]]", 'log = "."', "count = 2", "[x]", "a = [1, {b = 2}]", "every = true"]
)


@settings(max_examples=60, deadline=None)
@given(some.lists(TEXTS, max_size=14))
def test_any_mixture_of_lines_is_a_scenario_or_one_error(lines: list[str]) -> None:
    try:
        parsed("\n".join(lines), LOGS.parent / "fields")
    except ScenarioError as error:
        assert error.message.startswith("s.toml") and "\n" not in error.message


def test_only_bytes_that_stay_need_room() -> None:
    def kept(keys: str) -> int:
        return int(parsed(f'topology = "1x1"\n[[jobs]]\n{keys}\n').workload.kept_bytes().sum())

    assert kept('generator = "ior"\nprocesses = 2\nblock = "1MiB"\nrepetitions = 3') == 2 << 20
    assert kept('generator = "ior"\nprocesses = 2\nblock = "1MiB"\nremove = true') == 0
    assert kept('generator = "checkpoints"\nprocesses = 2\nperiod = 1\nbytes = "1MiB"\nkeep = 3') == 6 << 20
