"""Plans of storage: mapping to an objective, candidates, choice, and the commands that show them."""

import json
import random
import tomllib
from pathlib import Path

import jsonschema
import msgspec
import planned
import provisioned
import pytest
import schemas
from seeds import seed
from weir import cli
from weir.provisioning.behaviour import classes
from weir.provisioning.behaviour.classes import BehaviourClass
from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.deployments import TARGET_BYTES, Deployment, capacity_bytes, with_targets
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.job import Job
from weir.provisioning.jobs.wishes import Wishes, of_hints, of_options
from weir.provisioning.objectives import shipped
from weir.provisioning.objectives.sslos import Guarantees, Semantics, Sensitivities, Sslo, SsloTable, System
from weir.provisioning.planning.candidates import pools
from weir.provisioning.planning.explanation import explanation
from weir.provisioning.planning.mapping import (
    ALIKE,
    SATISFACTION_MIN,
    Coverages,
    Mapping,
    class_needs,
    coverage,
    default_sslo,
    usual_cost,
)
from weir.provisioning.planning.needs import IO_SECONDS_MIN, PROCESS_RATE, RATE_MIN, effective, io_seconds, left, needs
from weir.provisioning.planning.planner import Plan, Planner, plan
from weir.provisioning.planning.selection import by_policy
from weir.provisioning.resources.local import UNKNOWN, device_class, local_resources
from weir.provisioning.resources.model import Device, Node, Resources, read_resources

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "examples" / "run.darshan"


def sslo(name: str, *, read: float | None = None, write: float | None = None, servers: int = 1, **left: float) -> Sslo:
    return Sslo(
        name=name,
        system=System(device="nvme", servers=servers),
        guarantees=Guarantees(read_bytes_per_second=read, write_bytes_per_second=write),
        sensitivities=Sensitivities(**left),
    )


def any_identity(dice: random.Random) -> Identity:
    return Identity(
        name="any",
        processes=dice.choice((1, 16, 4096)),
        seconds=10 ** dice.uniform(-1, 5),
        io_fraction=dice.random(),
        read_bytes=int(10 ** dice.uniform(0, 14)) if dice.random() < 0.8 else 0,
        written_bytes=int(10 ** dice.uniform(0, 14)) if dice.random() < 0.8 else 0,
        read_operations=int(10 ** dice.uniform(0, 8)),
        write_operations=int(10 ** dice.uniform(0, 8)),
        metadata_operations=int(10 ** dice.uniform(0, 8)) if dice.random() < 0.5 else 0,
        small_fraction=dice.random(),
        sequential_fraction=dice.random(),
        shared_fraction=dice.random(),
    )


def any_sslo(dice: random.Random, name: str) -> Sslo:
    def part() -> float | None:
        return dice.random() if dice.random() < 0.7 else None

    def rate(least: float) -> float | None:
        return float(least * 10 ** dice.uniform(0, 5)) if dice.random() < 0.8 else None

    return Sslo(
        name=name,
        system=System(device=dice.choice(("nvme", "ssd")), servers=dice.choice((1, 4, 16))),
        guarantees=Guarantees(
            read_bytes_per_second=rate(1e6),
            write_bytes_per_second=rate(1e6),
            metadata_operations_per_second=rate(10),
        ),
        sensitivities=Sensitivities(small=part(), random=part(), mixed=part(), shared_file=part()),
    )


def test_needs_leave_a_twentieth_of_the_time_to_io() -> None:
    job = planned.writer(written_bytes=190 * 10**9, seconds=1900)
    found = needs(job)
    assert found.write_bytes_per_second == pytest.approx(1.9e9, rel=1e-3)
    assert found.read_bytes_per_second is None
    # At the needed rates the I/O takes a twentieth of all the time.
    rates = Guarantees(**msgspec.structs.asdict(found))
    assert io_seconds(job, rates) == pytest.approx(100, rel=1e-6)


def test_short_jobs_and_few_processes_need_less() -> None:
    short = msgspec.structs.replace(planned.writer(written_bytes=10**7, seconds=0.01), metadata_operations=0)
    assert needs(short).write_bytes_per_second == 10**7 / IO_SECONDS_MIN
    assert needs(planned.writer(processes=1, written_bytes=10**15)).write_bytes_per_second == PROCESS_RATE
    assert needs(planned.writer(written_bytes=1)).write_bytes_per_second == RATE_MIN["write"]


def test_conditions_slow_a_job_down_by_the_calls_that_meet_them() -> None:
    # A small call counts as one of 8 KiB: a quarter of the bytes and half of the calls are small.
    small = msgspec.structs.replace(planned.writer(written_bytes=4 << 20), write_operations=256, small_fraction=0.5)
    assert left(small, Sensitivities(small=0.5)) == pytest.approx(1 / 1.25)
    tiny = msgspec.structs.replace(small, small_fraction=1.0, write_operations=4096)
    assert left(tiny, Sensitivities(small=0.5)) == pytest.approx(1 / 16)
    assert left(msgspec.structs.replace(tiny, interface="stdio"), Sensitivities(small=0.5)) == pytest.approx(1 / 2)
    job = msgspec.structs.replace(
        planned.writer(written_bytes=1 << 30), write_operations=1 << 17, small_fraction=0.5, sequential_fraction=0.75
    )
    assert left(job, Sensitivities(small=0.5)) == pytest.approx(1 / 1.5)
    assert left(job, Sensitivities(small=0.5, random=0.25)) == pytest.approx(1 / (1.5 * 1.75))
    assert left(job, Sensitivities()) == 1
    both = msgspec.structs.replace(job, small_fraction=0.0, sequential_fraction=1.0, read_bytes=job.written_bytes)
    assert left(both, Sensitivities(mixed=0.5)) == pytest.approx(0.5)


def test_coverage_is_a_part_that_grows_with_the_rates() -> None:
    dice = random.Random(number := seed())
    for _ in range(400):
        job, objective = any_identity(dice), any_sslo(dice, "one")
        of = class_needs("class", job)
        covered = coverage(of, objective)
        assert 0 <= covered <= 1, number
        faster = msgspec.structs.replace(
            objective,
            guarantees=Guarantees(
                **{
                    name: None if each is None else each * 2
                    for name, each in msgspec.structs.asdict(objective.guarantees).items()
                    if name != "capacity_bytes"
                }
            ),
        )
        assert coverage(of, faster) >= covered, number
        endless = Guarantees(
            read_bytes_per_second=1e18, write_bytes_per_second=1e18, metadata_operations_per_second=1e18
        )
        assert coverage(of, msgspec.structs.replace(objective, guarantees=endless)) == 1, number


def test_the_mapping_is_that_of_algorithm_1() -> None:
    """The pair with the greatest fitness times coverage, by two plain loops."""
    dice = random.Random(number := seed())
    for _ in range(60):
        known = [
            BehaviourClass(name=f"class{place}", jobs_fraction=0.1, centre=any_identity(dice)) for place in range(5)
        ]
        table = SsloTable(source="dice", sslos=tuple(any_sslo(dice, f"sslo{place}") for place in range(6)))
        job = any_identity(dice)
        found = Coverages(known, table).map(job)
        satisfied = {}
        for each in known:
            fitness = next(one.fitness for one in found.fitnesses if one.name == each.name)
            for objective in table.sslos:
                covered = coverage(class_needs(each.name, each.centre), objective)
                satisfied[each.name, objective.name] = fitness * covered
        if found.is_new_class:
            satisfied = {}
        own = class_needs(job.name, job)
        satisfied |= {(job.name, each.name): coverage(own, each) for each in table.sslos}
        most = max(satisfied.values())
        assert most - ALIKE - 1e-9 <= found.best.satisfaction <= most, number
        chosen = satisfied[found.best.behaviour_class, found.best.sslo]
        assert chosen == found.best.satisfaction, number
        reach = {
            each.name: max(value for (_, name), value in satisfied.items() if name == each.name) for each in table.sslos
        }
        alike = [each for each in table.sslos if reach[each.name] >= most - ALIKE]
        best_own = max(coverage(own, each) for each in alike)
        alike = [each for each in alike if coverage(own, each) >= best_own - ALIKE]
        assert found.best.cost == min(map(usual_cost, alike)), number
        assert found.is_default == (found.best.satisfaction < SATISFACTION_MIN), number
        assert found.sslo.name == (default_sslo(table).name if found.is_default else found.best.sslo), number
        assert found.runner_up is not None
        assert found.runner_up.sslo != found.best.sslo, number
        others = [value for (_, name), value in satisfied.items() if name != found.best.sslo]
        assert max(others) - ALIKE - 1e-9 <= found.runner_up.satisfaction <= max(others), number


def test_what_satisfies_equally_is_chosen_by_the_jobs_own_needs() -> None:
    table = SsloTable(
        source="test",
        sslos=(
            sslo("huge", write=9e12, servers=64),
            sslo("small", write=2e9, servers=1),
            sslo("large", write=20e9, servers=16),
        ),
    )
    (near,) = [each for each in classes.built_in().classes if each.name == "small-write-light-sequential-mpiio"]
    coverages = Coverages([near], table)
    # Few bytes in a long run: the smallest objective gives all.
    assert coverages.map(near.centre).sslo.name == "small"
    # The same class needs little, and this job of the class much.
    eager = msgspec.structs.replace(near.centre, written_bytes=10**12, processes=64, seconds=1000.0, io_fraction=0.0)
    found = coverages.map(eager)
    assert not found.is_new_class
    assert found.sslo.name == "large"
    assert found.own_coverage == 1


def test_far_jobs_are_classes_of_their_own() -> None:
    far = msgspec.structs.replace(planned.writer(), name="far", written_bytes=10**15, processes=10**6)
    found = planned.planner().plan(far, None, planned.cluster(4, capacity_bytes=10**15)).mapping
    assert found.is_new_class
    assert found.best.behaviour_class == "far"
    assert found.best.fitness == 1
    assert found.fitnesses[0].fitness < 0.75


def test_the_default_serves_where_nothing_is_near() -> None:
    job = msgspec.structs.replace(planned.writer(), written_bytes=0, write_operations=0, metadata_operations=10**9)
    table = SsloTable(source="test", sslos=(sslo("a", write=1e9), sslo("b", write=2e9)), default="b")
    made = Planner(classes.built_in(), table).plan(job, None, planned.cluster(2))
    assert made.mapping.is_default
    assert (made.deployment.sslo, made.deployment.behaviour_class) == ("b", "")
    with pytest.raises(ProvisioningError, match="'moon' is no objective"):
        Planner(classes.built_in(), msgspec.structs.replace(table, default="moon"))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"servers": 0}, "servers is 0"),
        ({"network_bytes_per_second": -1.0}, "network_bytes_per_second is -1"),
        ({"settings": {str(name): "" for name in range(300)}}, "300 settings"),
    ],
)
def test_objectives_that_cannot_be_are_refused(change: dict[str, object], fault: str) -> None:
    one = sslo("one", write=1e9)
    broken = msgspec.structs.replace(one, system=msgspec.structs.replace(one.system, **change))
    with pytest.raises(ProvisioningError, match=fault):
        Planner(classes.built_in(), SsloTable(source="test", sslos=(broken,)))


def test_the_fewest_servers_are_those_of_a_plain_search() -> None:
    dice = random.Random(number := seed())
    planner = planned.planner()
    for _ in range(40):
        kind = dice.choice(("nvme", "ssd", "hdd"))
        found = Resources(
            nodes=tuple(
                Node(
                    name=f"n{place}",
                    devices=tuple(
                        Device(path=f"/{kind}{device}", kind=kind, capacity_bytes=dice.choice((10**11, 10**12)))
                        for device in range(dice.choice((1, 1, 2)))
                    ),
                )
                for place in range(dice.randrange(1, 24))
            )
        )
        job = planned.writer(written_bytes=int(10 ** dice.uniform(9, 12.5)), seconds=10 ** dice.uniform(1, 4))
        try:
            made = planner.plan(job, None, found)
        except ProvisioningError:
            continue
        system = made.deployment.system
        chosen = made.selected.candidate
        assert len({each.node for each in made.deployment.servers}) == system.servers, number
        for server in made.deployment.servers:
            node = next(each for each in found.nodes if each.name == server.node)
            assert all(
                next(one for one in node.devices if one.path == path).room >= server.target_bytes
                for path in server.devices
            ), number
        assert made.deployment.servers[0].target_bytes * system.servers * system.targets_per_server >= (
            made.deployment.size_bytes
        )
        if chosen.reached < 1 or system.targets_per_server > 1:
            continue
        for fewer in range(1, system.servers):
            tried = [
                planner.model.expect(msgspec.structs.replace(system, servers=fewer, settings=dict(settings)))
                for settings in planner.model.configurations("weir", kind, fewer)
            ]
            rates = max(
                effective(job, each.guarantees, each.sensitivities).write_bytes_per_second or 0
                for each in tried
                if each is not None
            )
            needed = chosen.needs.write_bytes_per_second
            assert needed is not None
            room = sorted(each.devices[0].room for each in found.nodes)[-fewer]
            enough = room * fewer >= made.deployment.size_bytes
            assert not enough or rates < needed, number


def test_documents_of_a_plan_keep_to_their_schemas() -> None:
    made = planned.planner().plan(planned.writer(), None, planned.cluster(8))
    for name, each in (
        ("plan", made),
        ("deployment", made.deployment),
        ("resources", planned.cluster(2)),
        ("sslos", shipped.built_in()),
    ):
        jsonschema.validate(json.loads(msgspec.json.encode(each)), schemas.schema(name))
        assert msgspec.json.decode(msgspec.json.encode(each), type=schemas.DOCUMENTS[name]) == each
    again = plan(planned.writer(), None, planned.cluster(8), classes=classes.built_in(), sslos=shipped.built_in())
    assert again.name == made.deployment.name


def test_policies_choose_among_the_candidates() -> None:
    mixed = Resources(nodes=(*planned.cluster(8, kind="nvme").nodes, *renamed(planned.cluster(12, kind="ssd"), "s")))
    usual = planned.planner().plan(planned.writer(), None, mixed).deployment
    assert (usual.policy, usual.shareable) == ("cost", False)
    fast = planned.planner().plan(planned.writer(), None, mixed, wishes=hints(policy="performance")).deployment
    assert (fast.policy, fast.shareable) == ("performance", False)
    assert usual.price <= fast.price
    cheap = planned.planner().plan(planned.writer(), None, mixed, wishes=hints(policy="utilization")).deployment
    assert cheap.shareable
    assert cheap.price < fast.price
    assert cheap.semantics.durable
    with pytest.raises(ProvisioningError, match="below the least price"):
        planned.planner().plan(planned.writer(), None, mixed, wishes=hints(budget="0.000001"))


def test_memory_serves_only_those_who_say_that_bytes_may_be_lost() -> None:
    only = Resources(nodes=(Node(name="n", devices=(Device(kind="memory", capacity_bytes=10**13),)),))
    job = planned.writer(written_bytes=10**9)
    with pytest.raises(ProvisioningError, match="outlive a server's process"):
        planned.planner().plan(job, None, only)
    found = planned.planner().plan(job, None, only, wishes=hints(durable="no")).deployment
    assert (found.system.device, found.servers[0].devices, found.semantics.durable) == ("memory", (), False)


def test_encrypted_devices_serve_those_who_need_them() -> None:
    nodes = [
        Node(name=f"n{place}", devices=(Device(path="/d", kind="ssd", capacity_bytes=10**13, encrypted=place > 3),))
        for place in range(6)
    ]
    found = planned.planner().plan(planned.writer(), None, Resources(nodes=tuple(nodes)), wishes=hints(encrypted="yes"))
    assert found.deployment.semantics.encrypted
    assert {each.node for each in found.deployment.servers} <= {"n4", "n5"}


def test_a_shareable_deployment_is_joined_within_its_slowdown(tmp_path: Path) -> None:
    (tmp_path / "resources.toml").write_text(provisioned.RESOURCES)
    found = read_resources(tmp_path / "resources.toml")
    job = planned.writer(written_bytes=10**9)
    joined = planned.planner().plan(job, None, found, wishes=hints(policy="interference")).deployment
    assert (joined.joins, joined.servers, joined.slowdown) == ("shared", (), 1.0)
    alone = planned.planner().plan(job, None, found, wishes=hints(policy="performance")).deployment
    assert (alone.joins, alone.shareable) == ("", False)
    full = Resources(
        nodes=found.nodes,
        deployments=tuple(
            msgspec.structs.replace(each, deployment=with_targets(each.deployment, TARGET_BYTES))
            for each in found.deployments
        ),
    )
    made = planned.planner().plan(job, None, full, wishes=hints(policy="interference"))
    assert (made.deployment.joins, made.deployment.shareable, made.selected.policy) == ("", True, "performance")
    assert "shared has room for" in made.selected.passed_over[0]
    assert any("The policy interference found nothing" in line for line in explanation(made))


def test_a_store_that_may_be_shared_has_room_for_another_job_like_its_own() -> None:
    found, job = planned.cluster(8), planned.writer(written_bytes=10**11)

    def made(policy: str, part: float) -> Deployment:
        select = by_policy(sharers_room=part)
        return planned.planner().plan(job, None, found, wishes=hints(policy=policy), select=select).deployment

    exact = made("interference", 0.0)
    for part in (0.25, 1.0):
        roomy = made("interference", part)
        assert capacity_bytes(roomy) == pytest.approx(roomy.size_bytes * (1 + part), rel=1e-3)
        assert roomy.expected.capacity_bytes == capacity_bytes(roomy)
        # Nothing else of the plan differs.
        assert with_targets(roomy, exact.servers[0].target_bytes) == exact
    assert capacity_bytes(made("performance", 1.0)) == capacity_bytes(exact)
    own = exact.servers[0].target_bytes
    (most,) = {each.target_bytes for each in made("interference", 1e6).servers}
    assert own + (10**12 - own) // 2 - TARGET_BYTES < most <= own + (10**12 - own) // 2


def test_waiting_is_offered_where_it_brings_more() -> None:
    cluster = planned.cluster(16, kind="hdd").nodes
    found = Resources(
        nodes=(*cluster[:2], *(msgspec.structs.replace(each, free_in_seconds=900.0) for each in cluster[2:]))
    )
    job = planned.writer(written_bytes=10**12, seconds=100)
    made = planned.planner().plan(job, None, found, wishes=hints(policy="performance"))
    assert made.selected.candidate.wait_seconds == 900
    assert set(made.selected.candidate.waits.values()) == {900}
    assert any("The job waits 900 s for it: other jobs hold" in line for line in explanation(made))
    now = planned.planner().plan(job, None, found)
    assert now.selected.candidate.wait_seconds == 0
    assert any("In 900 s there would be" in line for line in explanation(now))
    soon = planned.planner().plan(job, None, found, wishes=hints(policy="utilization"))
    assert soon.selected.candidate.wait_seconds == 0
    assert soon.deployment.system.servers <= 2
    patient = planned.planner().plan(job, None, found, wishes=hints(policy="utilization", window="1h"))
    assert patient.selected.candidate.io_seconds <= made.selected.candidate.io_seconds * 1.05


@pytest.mark.parametrize(
    ("resources", "wishes", "fault"),
    [
        (Resources(), Wishes(), "no usable node with a device"),
        (Resources(nodes=(Node(name="n"),)), Wishes(), "no usable node with a device"),
        (planned.cluster(2), Wishes(devices=("pmem",)), "no usable node has a device of class pmem"),
        (planned.cluster(2), of_hints("job", {"size": "40TB"}), "no class of devices has room for 36.4 TiB: nvme has"),
        (planned.cluster(2), Wishes(read_bytes_per_second=1e15), "no deployment reads 1 PB/s: the fastest reaches"),
        (
            Resources(nodes=(Node(name="n", devices=(Device(path="/d", kind="tape", capacity_bytes=10**15),)),)),
            Wishes(),
            "nothing is known of their rates",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(resources: Resources, wishes: Wishes, fault: str) -> None:
    with pytest.raises(ProvisioningError, match=fault) as told:
        planned.planner().plan(planned.writer(), None, resources, wishes=wishes)
    assert told.value.hint


def hints(**words: str) -> Wishes:
    return of_hints("job", words)


def renamed(of: Resources, prefix: str) -> tuple[Node, ...]:
    return tuple(msgspec.structs.replace(each, name=prefix + each.name) for each in of.nodes)


def test_options_stand_above_hints() -> None:
    found = of_options("job", {"policy": "utilization", "size": "4TB", "lease": "1h"}, policy="interference")
    assert (found.policy, found.directives.size_bytes, found.directives.lease_seconds) == (
        "interference",
        4 * 10**12,
        3600,
    )
    with pytest.raises(ProvisioningError, match="options cannot be used"):
        of_options("job", {}, size_bytes=5, read_bytes_per_second=0)


def test_the_job_gives_size_policy_and_time() -> None:
    job = Job(nodes=4, processes=64, seconds=7200.0, hints={"policy": "utilization", "size": "2TB"})
    made = planned.planner().plan(planned.writer(), job, planned.cluster(8))
    assert (made.deployment.size_bytes, made.deployment.policy) == (2 * 10**12, "utilization")
    short = planned.planner().plan(planned.writer(), msgspec.structs.replace(job, seconds=3600.0), planned.cluster(8))
    assert short.deployment.price == pytest.approx(made.deployment.price / 2)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", None),
        ("version = 2", "version"),
        ("[[nodes]]\nname = 'a b'", "name"),
        ("[[nodes]]\nname = 'a'\n[[nodes]]\nname = 'a'", "two nodes are named a"),
        ("[[nodes]]\nname = 'a'\ndevices = [{kind = 'ssd', capacity_bytes = 1}]", "is of class ssd and has no path"),
        ("[[nodes]]\nname = 'a'\ndevices = [{kind = 'ssd', path = 'x', capacity_bytes = 1}]", "is not absolute"),
        ("[[nodes]]\nname = 'a'\ndevices = [{kind = 'ssd', path = '/x', capacity_bytes = -1}]", "capacity_bytes"),
        ("[[nodes]]\nname = 'a'\nfree_in_seconds = nan", "free_in_seconds"),
        ("[[node]]\nname = 'a'", "unknown field `node`"),
        ("= 5", "no resource model"),
    ],
)
def test_resource_models_are_checked(tmp_path: Path, text: str, fault: str | None) -> None:
    path = tmp_path / "resources.toml"
    path.write_text(text)
    if fault is None:
        assert read_resources(path) == Resources()
        return
    with pytest.raises(ProvisioningError, match=fault) as told:
        read_resources(path)
    assert str(path) in told.value.message
    assert told.value.hint


def test_pools_are_of_equal_devices() -> None:
    nodes = (
        Node(name="a", devices=(Device(path="/x", kind="ssd", capacity_bytes=10**12, read_bytes_per_second=5e8),)),
        Node(name="b", devices=(Device(path="/x", kind="ssd", capacity_bytes=10**12),)),
        Node(name="c", network_bytes_per_second=1e9, devices=(Device(path="/x", kind="ssd", capacity_bytes=10**12),)),
        Node(name="d", usable=False, devices=(Device(path="/x", kind="ssd", capacity_bytes=10**12),)),
        Node(name="e", devices=(Device(path="/x", kind="ssd", capacity_bytes=10**12, free_bytes=0),)),
    )
    assert [
        [node.name for node, _ in each.all.take(1, len(each.all), 1)] for each in pools(Resources(nodes=nodes))
    ] == [["b"], ["c"], ["a"]]


def test_this_machine_is_a_resource(tmp_path: Path) -> None:
    (node,) = local_resources(tmp_path).nodes
    disk, memory = node.devices
    assert disk.path == str(tmp_path.resolve())
    assert 0 < disk.room <= disk.capacity_bytes
    assert (memory.kind, memory.path) == ("memory", "")
    assert 0 < memory.room < memory.capacity_bytes
    with pytest.raises(ProvisioningError, match="No such file"):
        local_resources(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(ProvisioningError, match="no folder"):
        local_resources(tmp_path / "file")


@pytest.mark.parametrize(
    ("disk", "rotational", "kind"),
    [("nvme0n1", "0", "nvme"), ("sda", "1", "hdd"), ("sdb", "0", "ssd"), ("pmem0", "0", "pmem")],
)
@pytest.mark.parametrize("is_partition", [False, True])
def test_classes_of_devices_are_read_from_the_system(
    tmp_path: Path, disk: str, rotational: str, kind: str, is_partition: bool
) -> None:
    """The layout of /sys, where a partition lies below its disk and `dev/block` has links by number."""
    folder = tmp_path / "devices" / disk
    (folder / "queue").mkdir(parents=True)
    (folder / "queue" / "rotational").write_text(f"{rotational}\n")
    (folder / f"{disk}p1").mkdir()
    (tmp_path / "8:3").symlink_to(folder / f"{disk}p1" if is_partition else folder)
    assert device_class(8, 3, tmp_path) == kind
    assert device_class(8, 4, tmp_path) == UNKNOWN


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[str, str]:
    cli.weir.main(["plan", *(str(each) for each in words)], standalone_mode=False)
    printed = capsys.readouterr()
    return printed.out, printed.err


@pytest.fixture
def cluster_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Outcomes of this user's own jobs would move the plans.
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    path = tmp_path / "resources.toml"
    path.write_text(provisioned.RESOURCES)
    return path


def test_commands_show_the_products_of_a_plan(
    capsys: pytest.CaptureFixture[str], cluster_file: Path, tmp_path: Path
) -> None:
    options = ("--resources", cluster_file, "--output", "json")
    objective = msgspec.json.decode(run(capsys, "sslo", LOG, "--output", "json")[0], type=Mapping).sslo
    assert objective in shipped.built_in().sslos
    document = json.loads(run(capsys, "schema", LOG, *options)[0])
    jsonschema.validate(document, schemas.schema("deployment"))
    servers = [{**each, "free_in_seconds": 0.0} for each in document["servers"]]
    assert json.loads(run(capsys, "resources", LOG, *options)[0]) == servers
    whole = json.loads(run(capsys, "explain", LOG, *options)[0])
    jsonschema.validate(whole, schemas.schema("plan"))
    assert whole["selected"]["candidate"]["deployment"] == document
    assert document["sslo"] == objective.name
    job = tmp_path / "job.sh"
    job.write_text("#!/bin/sh\n#WEIR policy=utilization size=900GB\nsrun app\n")
    assert json.loads(run(capsys, "schema", LOG, "--job", job, *options)[0])["size_bytes"] == 900 * 10**9
    files = {each["name"]: each["text"] for each in json.loads(run(capsys, "config", LOG, *options)[0])}
    targets = [target for server in tomllib.loads(files["cluster.toml"])["server"] for target in server["target"]]
    assert len(targets) == document["system"]["servers"] * document["system"]["targets_per_server"]
    assert (
        tomllib.loads(files["cluster.toml"])["layout"]["stripe_size"] == document["system"]["settings"]["stripe_size"]
    )
    trove = run(capsys, "config", LOG, "--resources", cluster_file, "--system", "orangefs", "--device", "nvme")[0]
    assert "TroveMaxConcurrentIO" in trove
    table = run(capsys, "resources", LOG, "--resources", cluster_file)[0]
    assert table.splitlines()[0].split() == ["NODE", "DEVICE", "PLACES", "EACH", "FREE", "IN"]


def test_stores_in_memory_serve_with_a_word_and_are_told_of_without(
    capsys: pytest.CaptureFixture[str], cluster_file: Path, tmp_path: Path
) -> None:
    """All jobs of a site once fell on the one folder that was stressed beside stores in memory, without a word."""
    kept = sslo("kept", read=1e8, write=1e8)
    lost = msgspec.structs.replace(sslo("lost", read=1e9, write=1e9), semantics=Semantics(durable=False))
    table = SsloTable(source="a test", sslos=(kept, lost))
    (tmp_path / "sslos.json").write_bytes(msgspec.json.encode(table))
    words = ("sslo", LOG, "--sslos", tmp_path / "sslos.json")
    out, told = run(capsys, *words)
    assert "kept" in out and "lost" not in out
    assert "warning: lost is left out: the job needs bytes that outlive a server's process" in told
    assert "--no-durable" in told
    out, told = run(capsys, *words, "--no-durable")
    assert "lost" in out and not told
    assert "lost is left out" in run(capsys, "explain", *words[1:], "--resources", cluster_file)[0]


def test_the_fitness_of_a_new_class_is_an_option(capsys: pytest.CaptureFixture[str], cluster_file: Path) -> None:
    (strict,) = json.loads(run(capsys, "similar", LOG, "--new-class", "1", "--output", "json")[0])
    (loose,) = json.loads(run(capsys, "similar", LOG, "--new-class", "0", "--output", "json")[0])
    assert not strict["known"] and loose["known"]
    assert strict["classes"] == loose["classes"]
    words = ("explain", LOG, "--resources", cluster_file, "--output", "json", "--new-class")
    own, near = (msgspec.json.decode(run(capsys, *words, each)[0], type=Plan) for each in ("1", "0"))
    assert own.mapping.is_new_class and not near.mapping.is_new_class
    assert own.mapping.best.behaviour_class == own.identity.name
    assert own.deployment.behaviour_class == own.identity.name
    assert near.deployment.behaviour_class == loose["classes"][0]["name"]


def test_explain_names_class_fitness_coverage_satisfaction_and_runner_up(
    capsys: pytest.CaptureFixture[str], cluster_file: Path
) -> None:
    words = run(capsys, "explain", LOG, "--resources", cluster_file)[0]
    whole = json.loads(run(capsys, "explain", LOG, "--resources", cluster_file, "--output", "json")[0])
    mapping = whole["mapping"]
    for part in (
        whole["identity"]["name"],
        mapping["fitnesses"][0]["name"],
        f"fitness of {mapping['fitnesses'][0]['fitness']:.3f}",
        f"coverage {mapping['best']['coverage']:.3f}",
        f"satisfaction {mapping['best']['satisfaction']:.3f}",
        f"runner-up is {mapping['runner_up']['sslo']}",
        "nvme",
        "simulated",
    ):
        assert part in words, part


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--size", "90000TB"), "no class of devices has room for"),
        (("--write", "10TB/s"), "no deployment writes 10 TB/s"),
        (("--device", "pmem"), "no usable node has a device of class pmem"),
        (("--local", "/"), "contradict each other"),
    ],
)
def test_a_wish_that_cannot_be_met_is_one_error(
    capsys: pytest.CaptureFixture[str], cluster_file: Path, options: tuple[str, str], fault: str
) -> None:
    with pytest.raises(Exception, match=fault) as told:
        run(capsys, "schema", LOG, "--resources", cluster_file, *options)
    assert getattr(told.value, "hint", "")
    assert capsys.readouterr().out == ""
