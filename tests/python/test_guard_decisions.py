"""Decisions of the guard over a thousand random stores in virtual time, and over single windows."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import seeds
from guarded import WINDOW_SECONDS, Load, Turn, guarded_run, run_window
from weir.guard.bounds import Bounds
from weir.guard.decisions import Guard
from weir.guard.errors import GuardError
from weir.guard.observations import Observation, Owed, Predicted, Share, Traits, Use
from weir.guard.owing import Owing, owed_by
from weir.store.observations import JobKey

SCENARIOS = 1000
SEED = 7
"""The usual stores: another seed may hold one at the edge of a tolerance. WEIR_SEED takes others."""
DEVICES = {"0.0", "0.1"}
TOLERANCE = 0.05
"""Part of a window by which a share may miss: the longest request is a fiftieth of a window, and some are under way."""
SETTLED = 2
"""Windows after a change of the demand in which the guard does not know it yet."""
SHAPES = ((1, 64 << 10, 0.004), (1, 64 << 10, 0.02), (2, 256 << 10, 0.02), (4, 512 << 10, 0.0), (8, 512 << 10, 0.0))
"""Streams, bytes of a write and pause of single writers, of moderate jobs and of hogs."""
BOUNDS = Bounds(windows=3, calm=5, dwell=5, changes_per_hour=12)


@pytest.fixture(scope="module")
def owed(tmp_path_factory: pytest.TempPathFactory) -> Owed:
    """The division of a site without shares of single holders."""
    file = tmp_path_factory.mktemp("site") / "cluster.toml"
    file.write_text("version = 1\n")
    return owed_by(file)


UID = 7
"""Number of the usual user."""
VICTIM, HOG = JobKey("victim", UID), JobKey("hog", UID)


def traits(name: str, nodes: int = 1, uid: int = UID) -> Traits:
    """A job that is accounted to a user of its own."""
    return Traits(JobKey(name, uid), f"user-{name}", "group", nodes, 1)


def scenario(dice: random.Random) -> tuple[str, list[tuple[int, dict[str, tuple[Load, ...]]]]]:
    """A policy, and phases of demand: two to four jobs at one or two devices, and at last no cause."""
    policy = dice.choice(("fifo", "fifo", "fifo", "size-fair", "job-fair", "user-then-size-fair"))
    jobs = [traits(name, dice.choice((1, 1, 2))) for name in "abcd"[: dice.randint(2, 4)]]
    devices = sorted(DEVICES)[: dice.randint(1, 2)]
    phases: list[tuple[int, dict[str, tuple[Load, ...]]]] = []
    for _ in range(dice.randint(2, 3)):
        demand: dict[str, tuple[Load, ...]] = {}
        for device in devices:
            present = [job for job in jobs if dice.random() < 0.7] or jobs[:1]
            demand[device] = tuple(Load(job, *dice.choice(SHAPES)) for job in present)
        phases.append((dice.randint(12, 40), demand))
    alone = (Load(jobs[0], *SHAPES[0]),)
    # A hold is at most eight times as long as usual, and the dwell time comes on top.
    return policy, [*phases, (8 * BOUNDS.calm + BOUNDS.dwell + 2, {devices[0]: alone})]


def check_bounds(turns: list[Turn], bounds: Bounds) -> None:
    """Weights, limits, the number of changes and their distances are within the bounds."""
    changes: list[int] = []
    changed: dict[str, int] = {}
    for turn in turns:
        for share in turn.wanted.shares.values():
            assert 1 <= share.weight <= bounds.weight_max
            assert share.limit is None or bounds.limit_min <= share.limit <= 1
            assert not set(share.avoid) >= DEVICES
        for entry in turn.entries:
            if entry.did == "relaxed":
                continue
            changes.append(turn.window)
            # The end of an action that would take from an owed share waits for nothing, and all actions for a victim
            # end together.
            is_free = "would be below" in entry.reason or changed.get(entry.victim) == turn.window
            before = changed.get(entry.victim, -bounds.dwell)
            assert is_free or turn.window - before >= bounds.dwell, entry
            changed[entry.victim] = turn.window
    hour = int(3600 / WINDOW_SECONDS)
    assert all(sum(at - hour < each <= at for each in changes) <= bounds.changes_per_hour for at in changes)


def check_oscillation(turns: list[Turn]) -> None:
    """While the demand stays as it is, no action for a pair of jobs is begun again more than once."""
    begun: Counter[tuple[int, str, str | None, str | None]] = Counter()
    for turn in turns:
        for entry in turn.entries:
            if entry.did == "acted":
                begun[turn.phase, entry.victim, entry.culprit, entry.kind] += 1
    assert all(count <= 2 for count in begun.values()), begun


def check_owed(turns: list[Turn], policy: str, bounds: Bounds) -> int:
    """Each job receives what the policy would have owed it, or as much as it would have received; answers the windows
    that were looked at."""
    reference = bounds.policy if policy == "fifo" else policy
    looked = 0
    for before, turn in zip(turns, turns[SETTLED:], strict=False):
        # Where nothing but new files moves, `fifo` goes on to owe nobody anything.
        is_fifo = policy == "fifo" and turn.wanted.policy is None
        if before.phase != turn.phase or turn.wanted.is_nothing or is_fifo:
            continue
        looked += 1
        for device, loads in turn.loads.items():
            fair = run_window(reference, (), loads)
            for job, measured in turn.measured[device].items():
                least = min(fair[job].owed, fair[job].received)
                assert measured.received >= least - TOLERANCE, (job, device, turn, fair)
    return looked


def test_a_thousand_stores_are_guarded_within_bounds_and_left_as_they_were(owed: Owed) -> None:
    dice = seeds.seeded(SEED)
    done: Counter[str] = Counter()
    looked = 0
    for number in range(SCENARIOS):
        policy, phases = scenario(dice)
        turns = guarded_run(Guard(BOUNDS, owed), policy, phases, dice)
        try:
            check_bounds(turns, BOUNDS)
            check_oscillation(turns)
            looked += check_owed(turns, policy, BOUNDS)
            assert turns[-1].wanted.is_nothing, "the cause is gone, and an action is in force"
        except AssertionError:
            print(f"scenario {number}: {policy}")
            for turn in turns:
                for entry in turn.entries:
                    print(turn.window, turn.phase, entry)
            raise
        done.update(f"{entry.did} {entry.kind}" for turn in turns for entry in turn.entries)
    print(dict(done), looked)
    assert done["acted share"] > SCENARIOS / 20
    assert done["acted limit"] > SCENARIOS / 20
    assert done["acted avoid"] > SCENARIOS / 100
    assert looked > SCENARIOS


def window(number: int, received: dict[str, float], waits: dict[str, dict[str, float]], policy: str) -> Observation:
    """A window of one device."""

    def key(name: str) -> JobKey:
        return JobKey(name, UID)

    uses = {
        key(name): Use(part, {key(other): time for other, time in waits.get(name, {}).items()})
        for name, part in received.items()
    }
    return Observation(number, 1.0, policy, [traits(name) for name in received], {"0.0": uses})


def hogged(number: int, policy: str = "fifo") -> Observation:
    """A window in which a victim waits for a hog."""
    return window(number, {"victim": 0.05, "hog": 0.95}, {"victim": {"hog": 0.9}, "hog": {"victim": 0.05}}, policy)


def test_a_slowed_job_is_protected_after_some_windows_and_released_after_some_without_a_cause(owed: Owed) -> None:
    guard = Guard(BOUNDS, owed)
    assert not guard.decide(hogged(1))
    assert not guard.decide(hogged(2))
    (entry,) = guard.decide(hogged(3))
    assert (entry.did, entry.kind, entry.victim, entry.culprit) == ("acted", "share", "victim", "hog")
    assert (entry.victim_uid, entry.culprit_user, entry.culprit_uid) == (UID, "user-hog", UID)
    assert "victim (user-victim) was slowed 19.0 times for 3 windows" in entry.reason
    assert "waited for hog (user-hog) 90%" in entry.reason
    assert guard.wanted("fifo").policy == "size-fair"
    assert guard.wanted("user-fair").is_nothing, "the site has chosen a policy that owes shares meanwhile"
    alone = {"victim": 0.05, "hog": 0.0}
    done = {number: guard.decide(window(number, alone, {}, "fifo")) for number in range(4, 10)}
    assert [number for number, entries in done.items() if entries] == [3 + BOUNDS.calm]
    assert done[3 + BOUNDS.calm][0].reason == "hog (user-hog) asks for less"
    assert done[3 + BOUNDS.calm][0].slowdown_after == 1
    assert guard.wanted("fifo").is_nothing


def test_a_pause_in_the_slowdown_is_no_victim_and_a_crowd_within_its_shares_is_no_culprit(owed: Owed) -> None:
    guard = Guard(BOUNDS, owed)
    for number in range(1, 40):
        calm = window(number, {"victim": 0.05, "hog": 0.1}, {}, "fifo")
        assert not guard.decide(hogged(number) if number % 3 else calm)
    crowd = dict.fromkeys("abcdefghij", 0.1)
    waits = {name: {other: 0.1 for other in crowd if other != name} for name in crowd}
    assert not any(guard.decide(window(number, crowd, waits, "fifo")) for number in range(50, 70))


def test_a_cause_that_comes_back_is_held_longer_and_an_hour_has_its_bound(owed: Owed) -> None:
    bounds = replace(BOUNDS, changes_per_hour=16)
    guard = Guard(bounds, owed)
    acted: list[int] = []
    undone: list[int] = []
    for number in range(1, 1000):
        shares = {"victim": 0.05, "hog": 0.9 if number % 20 < 10 else 0.0}
        is_slowed = guard.wanted("fifo").is_nothing and number % 20 < 10
        for entry in guard.decide(hogged(number) if is_slowed else window(number, shares, {}, "fifo")):
            (acted if entry.did == "acted" else undone).append(number)
    assert len(acted) == len(undone) + 1, "it is held at last, because the hog comes back sooner than that"
    assert len(acted) + len(undone) <= bounds.changes_per_hour


def test_a_dry_run_says_the_first_action_alone_and_ends_with_its_cause(owed: Owed) -> None:
    guard = Guard(BOUNDS, owed, is_dry=True)
    entries = [entry for number in range(1, 60) for entry in guard.decide(hogged(number))]
    assert [(entry.did, entry.kind) for entry in entries] == [("acted", "share")]


def test_an_action_that_cannot_be_done_or_is_in_vain_is_not_tried_again_at_once(owed: Owed) -> None:
    guard = Guard(replace(BOUNDS, kinds=("share",)), owed)
    for number in range(1, 4):
        guard.decide(hogged(number))
    assert [entry.did for entry in guard.refuse("server 0: no")] == ["refused"]
    assert guard.wanted("fifo").is_nothing
    assert not any(guard.decide(hogged(number)) for number in range(4, 100))
    guard = Guard(replace(BOUNDS, kinds=("share",)), owed)
    did = [entry.reason for number in range(1, 100) for entry in guard.decide(hogged(number))]
    assert did[1:] == ["it did not help"], "the slowdown stays as it was"


def test_all_actions_are_taken_back_where_the_site_contradicts_them(owed: Owed) -> None:
    guard = Guard(BOUNDS, owed)
    for number in range(1, 5):
        guard.decide(hogged(number))
    assert [entry.reason for entry in guard.refuse("server 0: no")] == ["server 0: no"]
    assert guard.wanted("fifo").is_nothing


def test_jobs_of_one_user_are_not_protected_from_each_other(owed: Owed) -> None:
    guard = Guard(BOUNDS, owed)
    own = [replace(traits(name), user="ada") for name in ("victim", "hog")]
    left = []
    for number in range(1, 20):
        assert not guard.decide(replace(hogged(number), traits=own))
        left += guard.left_alone()
    assert [(entry.did, entry.kind, entry.victim, entry.culprit) for entry in left] == [
        ("left alone", None, "victim", None)
    ]
    assert left[0].reason == (
        "victim (ada) was slowed 19.0 times, and waited for jobs of its own user alone, most for hog (ada)"
    )


def reasons(guard: Guard, observations: Iterable[Observation]) -> list[str]:
    """Why the guard left jobs alone, a line for each."""
    found = []
    for observation in observations:
        guard.decide(observation)
        found += [entry.reason for entry in guard.left_alone()]
    return found


def test_a_job_that_is_left_alone_is_told_once_with_the_reason(owed: Owed) -> None:
    crowd = dict.fromkeys("abcd", 0.25)
    waits = {name: {other: 0.25 for other in crowd if other != name} for name in crowd}
    alike = reasons(Guard(BOUNDS, owed), (window(number, crowd, waits, "fifo") for number in range(1, 30)))
    assert len(alike) == 4
    assert all("no job of another user received more than its owed share" in reason for reason in alike)

    greedy = {"a": 0.45, "b": 0.45, "c": 0.05}
    waits = {"a": {"b": 0.9}, "b": {"a": 0.9}, "c": {}}
    (of_a, of_b) = reasons(Guard(BOUNDS, owed), (window(number, greedy, waits, "fifo") for number in range(1, 30)))
    assert of_a.endswith("received more than its owed share, as b (user-b) did")
    assert of_b.endswith("received more than its owed share, as a (user-a) did")

    no_waits = Observation(0, 1.0, "fifo", [traits("a")], {"0.0": {JobKey("a", UID): Use(0.5)}})
    predicted = {JobKey("a", UID): Predicted(5.0)}
    foreseen = (replace(no_waits, window=number, predicted=predicted) for number in range(1, 9))
    assert [reason.partition(", and ")[2] for reason in reasons(Guard(BOUNDS, owed), foreseen)] == [
        "waited for no job that is known"
    ]

    full = Guard(replace(BOUNDS, changes_per_hour=2, kinds=("limit",), calm=1000), owed)
    jobs = [traits(name) for name in ("v0", "h0", "v1", "h1")]
    pairs = [(JobKey(f"v{number}", UID), JobKey(f"h{number}", UID)) for number in range(2)]
    uses = {f"0.{number}": {v: Use(0.05, {h: 0.9}), h: Use(0.95)} for number, (v, h) in enumerate(pairs)}
    (reason,) = reasons(full, (Observation(number, 1.0, "size-fair", jobs, uses) for number in range(1, 5)))
    assert reason.startswith("v1 (user-v1) was slowed 19.0 times")
    assert "no room for a change and its end: at most 2 in an hour" in reason

    (reason,) = reasons(Guard(AVOIDING, owed), (hogged(number) for number in range(1, 9)))
    assert "none of the actions avoid can help" in reason


def test_culprits_of_one_user_leave_half_of_the_changes_to_others(owed: Owed) -> None:
    guard = Guard(replace(BOUNDS, kinds=("limit",), calm=1000), owed)
    jobs = [traits(f"v{number}") for number in range(8)]
    jobs += [replace(traits(f"h{number}"), user="bob" if number < 6 else "eve") for number in range(8)]
    pairs = [(JobKey(f"v{number}", UID), JobKey(f"h{number}", UID)) for number in range(8)]
    uses = {f"0.{number}": {v: Use(0.05, {h: 0.9}), h: Use(0.95)} for number, (v, h) in enumerate(pairs)}
    predicted = {victim: Predicted(9.0) for victim, _ in pairs}
    culprits: list[str | None] = []
    for number in range(1, 60):
        observation = Observation(number, 1.0, "size-fair", jobs, uses, predicted)
        culprits += [entry.culprit for entry in guard.decide(observation) if entry.did == "acted"]
    assert culprits[:5] == ["h0", "h1", "h2", "h6", "h7"]


def test_a_hog_that_takes_the_name_of_a_job_is_limited_and_the_job_of_that_name_is_not(owed: Owed) -> None:
    guard = Guard(replace(BOUNDS, kinds=("limit",)), owed)
    victim, innocent, hog = JobKey("victim", 1), JobKey("run", 1), JobKey("run", 2)
    jobs = [Traits(key, f"user-{key.uid}", "group", 1, 1) for key in (victim, innocent, hog)]
    uses = {victim: Use(0.05, {hog: 0.85, innocent: 0.05}), innocent: Use(0.05), hog: Use(0.9, {victim: 0.05})}
    entries = [
        entry
        for number in range(1, 5)
        for entry in guard.decide(Observation(number, 1.0, "size-fair", jobs, {"0.0": uses}))
    ]
    assert [(entry.did, entry.culprit, entry.culprit_uid) for entry in entries] == [("acted", "run", 2)]
    assert "waited for run (user-2) 85%" in entries[0].reason
    assert guard.wanted("size-fair").shares.keys() == {hog}


def test_of_two_jobs_of_one_name_the_slowed_one_is_helped(owed: Owed) -> None:
    guard = Guard(replace(BOUNDS, kinds=("avoid",)), owed)
    slowed, calm, hog = JobKey("run", 1), JobKey("run", 2), JobKey("hog", 3)
    jobs = [Traits(key, f"user-{key.uid}", "group", 1, 1) for key in (slowed, calm, hog)]
    uses = {slowed: Use(0.1, {hog: 0.6}), calm: Use(0.1), hog: Use(0.8, {slowed: 0.1})}
    predicted = {slowed: Predicted(5.0), calm: Predicted(1.0)}
    targets = frozenset({"0.0", "0.1"})
    for number in range(1, 5):
        guard.decide(Observation(number, 1.0, "size-fair", jobs, {"0.0": uses}, predicted, targets))
    assert guard.wanted("size-fair").shares == {slowed: Share(avoid=("0.0",))}


def spread(number: int, demand: float = 0.95, *, is_slowed: bool = True) -> Observation:
    """A window of a store of four targets with a hog on two of them, and a victim on one of these and another one."""
    hog, victim = Use(demand, {VICTIM: 0.02}), Use(0.05, {HOG: 0.9 if is_slowed else 0.0})
    uses = {
        "0.0": {HOG: hog, VICTIM: victim},
        "1.0": {HOG: hog},
        "1.1": {VICTIM: Use(0.02), HOG: Use(0.02)},
        "0.metadata": {HOG: Use(0.01), VICTIM: Use(0.01)},
    }
    targets = frozenset({"0.0", "0.1", "1.0", "1.1"})
    return Observation(number, 1.0, "fifo", [traits("victim"), traits("hog")], uses, targets=targets)


AVOIDING = replace(BOUNDS, kinds=("avoid",))


def test_new_files_avoid_the_targets_of_a_hog_until_it_has_left_these(owed: Owed) -> None:
    guard = Guard(AVOIDING, owed)
    (entry,) = [entry for number in range(1, 4) for entry in guard.decide(spread(number))]
    assert (entry.did, entry.kind, entry.value) == ("acted", "avoid", "0.0,1.0")
    assert entry.reason.endswith("received more than its owed share, and its demand is on 0.0, 1.0")
    wanted = guard.wanted("fifo")
    assert wanted.policy is None and wanted.shares[VICTIM].avoid == ("0.0", "1.0")
    # The hog is still there while the victim is slowed no more.
    assert not any(guard.decide(spread(number, is_slowed=False)) for number in range(4, 30))
    done = {number: guard.decide(spread(number, 0.3, is_slowed=False)) for number in range(30, 40)}
    assert [number for number, entries in done.items() if entries] == [29 + BOUNDS.calm]
    (entry,) = done[29 + BOUNDS.calm]
    assert (entry.did, entry.value, entry.reason) == ("undone", "0.0,1.0", "hog (user-hog) asks for less")
    assert entry.slowdown_after is not None and entry.slowdown_after < entry.slowdown_before
    assert guard.wanted("fifo").is_nothing


def test_a_hog_on_all_targets_or_at_the_metadata_alone_leaves_new_files_where_they_are(owed: Owed) -> None:
    everywhere = replace(spread(1), targets=frozenset({"0.0", "1.0"}))
    uses = {"0.metadata": {HOG: Use(0.95), VICTIM: Use(0.05, {HOG: 0.9})}, "0.0": {HOG: Use(0.1)}}
    for observation in (everywhere, replace(spread(1), uses=uses)):
        guard = Guard(AVOIDING, owed)
        assert not any(guard.decide(replace(observation, window=number)) for number in range(1, 10))


def test_a_target_that_drives_a_prediction_and_has_the_hog_is_avoided_too(owed: Owed) -> None:
    for driven_by, expected in ((("1.1", "0.1", "0.metadata"), "0.0,1.0,1.1"), ((), "0.0,1.0")):
        guard = Guard(AVOIDING, owed)
        predicted = {VICTIM: Predicted(5.0, driven_by)}
        found = [guard.decide(replace(spread(number), predicted=predicted)) for number in range(1, 4)]
        assert [entry.value for entries in found for entry in entries] == [expected]


def test_new_files_that_do_not_help_are_placed_as_before_and_a_dry_run_says_what_they_would_avoid(owed: Owed) -> None:
    guard = Guard(AVOIDING, owed)
    entries = [entry for number in range(1, 60) for entry in guard.decide(spread(number))]
    assert [(entry.did, entry.kind) for entry in entries] == [("acted", "avoid"), ("undone", "avoid")]
    assert entries[1].reason == "it did not help"
    dry = Guard(AVOIDING, owed, is_dry=True)
    entries = [entry for number in range(1, 60) for entry in dry.decide(spread(number))]
    assert [(entry.did, entry.value) for entry in entries] == [("acted", "0.0,1.0")]


def test_bounds_that_make_no_sense_are_refused() -> None:
    for wrong, expected in (
        ({"slowdown": 1.0}, "nobody slows"),
        ({"changes_per_hour": 1}, "two changes"),
        ({"policy": "fifo"}, "owes nobody"),
    ):
        with pytest.raises(GuardError, match=expected):
            replace(BOUNDS, **wrong)


def test_shares_of_the_site_count_and_a_job_with_pauses_leaves_its_share_to_others(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('version = 1\n[[share]]\njob = "hog"\nweight = 3\n')
    divide = owed_by(file)
    jobs = [traits("victim"), traits("hog")]
    assert divide("size-fair", jobs, {}) == {VICTIM: 0.25, HOG: 0.75}
    assert divide("size-fair", jobs, {VICTIM: 3.0}) == {VICTIM: 0.5, HOG: 0.5}
    owing = Owing("size-fair", hogged(1), divide)
    assert owing.of(HOG) == pytest.approx(1 - 0.95 * 0.25)
    assert not owing.is_kept({VICTIM: 2.0}), "the hog is owed all that the victim does not ask for"
    with pytest.raises(GuardError, match="cannot read"):
        owed_by(tmp_path / "absent")


def test_a_user_who_feigns_slowdowns_takes_nothing_that_a_neighbour_is_owed(owed: Owed) -> None:
    """Whatever a user's jobs ask for, and seem to wait for: no limit of a neighbour lies below what the policy owes
    it, nor below the part of the device that the others do not ask for. A user who asks for nothing limits nobody.
    """
    dice = seeds.seeded()
    limited = 0
    for _ in range(150):
        guard = Guard(replace(BOUNDS, kinds=("limit",), changes_per_hour=10_000), owed)
        jobs = [replace(traits(f"feint-{number}"), user="mallory") for number in range(dice.randint(1, 3))]
        neighbour = traits("neighbour")
        is_quiet = False
        for number in range(1, 120):
            is_quiet = dice.random() < 0.05 or (is_quiet and dice.random() < 0.8)
            uses = {neighbour.key: Use(dice.uniform(0.5, 1.0))}
            for job in () if is_quiet else jobs:
                waits = {neighbour.key: dice.choice((0.0, 0.02, 0.5, 1.0, 40.0))}
                uses[job.key] = Use(dice.choice((0.0, 0.001, 0.02, 0.3)), waits)
            guard.decide(Observation(number, 1.0, "size-fair", [neighbour, *jobs], {"0.0": uses}))
            share = guard.wanted("size-fair").shares.get(neighbour.key, Share())
            asked = [min(use.received + use.waited, 1.0) for job, use in uses.items() if job != neighbour.key]
            active = [each for each in asked if each >= 0.01]
            owes = 1 / (1 + len(active))
            least = max(owes, 1 - owes * sum(active))
            assert share.limit is None or share.limit >= least - 1e-9, (share, uses)
            assert active or share.limit is None
            limited += share.limit is not None
    assert limited > 500


def test_a_neighbour_of_feints_receives_its_share_on_a_store(owed: Owed) -> None:
    """The same on simulated devices: the feints last about as long as the guard needs, and come back."""
    dice = seeds.seeded(SEED)
    acted = 0
    for _ in range(60):
        policy = dice.choice(("fifo", "size-fair", "user-fair"))
        neighbour = Load(traits("neighbour"), *SHAPES[-1])
        feints = [replace(traits(f"feint-{number}"), user="mallory") for number in range(dice.randint(1, 2))]
        phases: list[tuple[int, dict[str, tuple[Load, ...]]]] = []
        for _ in range(8):
            present = [Load(job, *dice.choice(SHAPES)) for job in feints if dice.random() < 0.7]
            phases.append((dice.randint(3, 2 * BOUNDS.calm), {"0.0": (neighbour, *present)}))
        phases.append((3, {"0.0": (neighbour,)}))
        turns = guarded_run(Guard(BOUNDS, owed), policy, phases, dice)
        check_bounds(turns, BOUNDS)
        check_owed(turns, policy, BOUNDS)
        last = turns[-1]
        assert all(share.limit is None for share in last.wanted.shares.values()), "the feints are gone"
        acted += sum(entry.did == "acted" for turn in turns for entry in turn.entries)
    assert acted > 20


@pytest.mark.parametrize("culprits", [("ann", "bob", "cid", "dan", "eve", "fay"), ("ann",) * 6])
def test_victims_of_one_user_leave_changes_to_others(owed: Owed, culprits: tuple[str, ...]) -> None:
    """A user with many jobs that seem slowed used up the changes of the hour, and nobody else was protected."""
    guard = Guard(replace(BOUNDS, kinds=("limit",), calm=1000), owed)
    pairs = [(JobKey(f"feint-{number}", UID), JobKey(f"h{number}", UID)) for number in range(6)]
    true = JobKey("victim", UID), JobKey("h0", UID)
    jobs = [replace(traits(f"feint-{number}"), user="mallory") for number in range(6)] + [traits("victim")]
    jobs += [replace(traits(f"h{number}"), user=culprit) for number, culprit in enumerate(culprits)]
    uses = {f"0.{number}": {v: Use(0.05, {h: 0.9}), h: Use(0.95)} for number, (v, h) in enumerate(pairs)}
    entries = []
    for number in range(1, 60):
        if number == 30:
            uses["0.0"] |= {true[0]: Use(0.05, {true[1]: 0.9})}
        predicted = {key: Predicted(9.0) for key in (*(victim for victim, _ in pairs), true[0])}
        entries += guard.decide(Observation(number, 1.0, "size-fair", jobs, uses, predicted))
    acted = [entry.victim_user for entry in entries if entry.did == "acted"]
    assert 1 <= acted.count("mallory") <= BOUNDS.changes_per_hour // 4
    assert acted[-1] == "user-victim"
