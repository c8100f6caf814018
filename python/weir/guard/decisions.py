"""The decisions of the guard: a state that takes one window after the other, and says which sharing is to be in force.

Four rules keep it from oscillating. A job must be slowed for several windows in a row, and a cause must be gone for
several. The cause is the demand of the culprit and not the slowdown of the victim, which the action itself removes. Two
changes for a victim are some windows apart, and a cause that comes back is held longer. Each action reserves the change
that undoes it, so the bound on changes in an hour never leaves an action in force.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from weir.guard.bounds import Bounds, Kind
from weir.guard.crowding import crowded
from weir.guard.inaction import Inaction, without_culprit, without_room
from weir.guard.observations import ACTIVE, Observation, Owed, Share
from weir.guard.owing import Owing
from weir.store.observations import JobKey

_PRESSURE = 0.5
"""A culprit with less than this part of its earlier demand is no cause any more."""
_PRESSURE_MIN = 0.1
"""Least demand of a culprit, as a part of a device's time."""
_AT_LIMIT = 0.8
"""A culprit that receives this part of its limit still wants more."""
_HELPED = 0.95
"""An action after which the slowdown is more than this part of the earlier one was in vain."""
_SETTLED = 2
"""So many windows after a change the first whole window under it has ended. The times for which jobs have requests
under `fifo` say nothing about those under another policy."""
_MARGIN = 0.02
"""A limit lies above the owed share by this part of a device's time, so that no small change of use moves it."""
_HOLD_MAX = 8
"""Largest factor by which the hold of a cause that keeps coming back is lengthened."""
_GRAINS = 4
"""Number of weights between 1 and the bound: with few steps, a small change of use does not change a weight."""
_PAIRS_MAX = 4096
"""Pairs of jobs that are remembered; the oldest is forgotten first."""
_HOUR_SECONDS = 3600.0

_Value = float | str | tuple[str, ...]
"""A weight or limit, a policy, or targets."""
Did = Literal["acted", "relaxed", "undone", "refused", "left alone"]
_LEFT_MAX = 60
"""Most entries about jobs that are left alone in an hour: more would push the actions out of the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that the guard did, or a slowed job that it left alone, for the journal."""

    did: Did
    kind: Kind | None
    """Kind of the action; None for a job that is left alone."""
    victim: str
    victim_user: str
    """User whom the victim is accounted to."""
    victim_uid: int
    """Number of this user."""
    culprit: str | None
    """Name of the culprit; None where a job is left alone because it has none."""
    culprit_user: str | None
    """User whom the culprit is accounted to."""
    culprit_uid: int | None
    """Number of this user."""
    reason: str
    """The reason, in words."""
    value: float | str | None
    """The policy, the weight, the limit, or the targets that new files avoid, separated by commas; None for a job that
    is left alone."""
    slowdown_before: float
    slowdown_after: float | None = None
    """Mean slowdown since the action; None where nothing was seen yet."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The sharing that is to be in force: nothing of it is the site's own."""

    policy: str | None = None
    """Policy in place of the site's."""
    shares: dict[JobKey, Share] = field(default_factory=dict)

    @property
    def weights(self) -> dict[JobKey, float]:
        """The factors of weights."""
        return {job: share.weight for job, share in self.shares.items()}

    @property
    def is_nothing(self) -> bool:
        """Whether the site's own sharing is to be in force."""
        return self.policy is None and not self.shares


@dataclass
class _Action:
    """An action in force."""

    kind: Kind
    victim: JobKey
    victim_user: str
    culprit: JobKey
    culprit_user: str
    since: int
    value: float | str
    targets: tuple[str, ...]
    """Targets that the action is about; empty for one about all devices."""
    pressure: float
    """Demand of the culprit that is a cause."""
    before: float
    """Slowdown of the victim before."""
    after: "deque[float]"

    @property
    def mean(self) -> float | None:
        return sum(self.after) / len(self.after) if self.after else None

    def entry(self, did: Did, reason: str) -> Entry:
        return Entry(
            did=did,
            kind=self.kind,
            victim=self.victim.job,
            victim_user=self.victim_user,
            victim_uid=self.victim.uid,
            culprit=self.culprit.job,
            culprit_user=self.culprit_user,
            culprit_uid=self.culprit.uid,
            reason=reason,
            value=self.value,
            slowdown_before=self.before,
            slowdown_after=self.mean,
        )


class Guard:
    """The state of the guard. It does nothing itself."""

    def __init__(self, bounds: Bounds, owed: Owed, *, is_dry: bool = False) -> None:
        """Begin without any action.

        Args:
            bounds: Bounds of the site.
            owed: Divides a device by a policy.
            is_dry: Whether nothing that it says is done: then no action is judged, and none follows another.
        """
        self._bounds = bounds
        self._owed = owed
        self._is_dry = is_dry
        self._actions: dict[JobKey, list[_Action]] = {}
        self._slowed: dict[JobKey, deque[float]] = {}
        self._quiet: dict[JobKey, int] = {}
        self._changed: dict[JobKey, int] = {}
        self._changes: deque[tuple[int, tuple[str, str]]] = deque()
        self._holds: dict[tuple[JobKey, JobKey], int] = {}
        self._vain: dict[tuple[JobKey, JobKey, Kind], int] = {}
        self._newest: list[_Action] = []
        self._left: dict[tuple[JobKey, str], int] = {}
        self._inactions: list[Entry] = []
        self._altered = 0
        self._policy: str | None = None

    def decide(self, observation: Observation) -> list[Entry]:
        """Take a window.

        Returns:
            The things that change now.
        """
        policy = self._bounds.policy if observation.policy == "fifo" else observation.policy
        owing = Owing(policy, observation, self._owed)
        self._newest, self._inactions = [], []
        if observation.policy != self._policy:
            self._policy, self._altered = observation.policy, observation.window
        self._forget(observation)
        self._note(observation)
        entries = [entry for victim in list(self._actions) for entry in self._review(victim, owing)]
        for victim in sorted(self._slowed):
            entries += self._act(victim, owing)
        return entries + self._relax(owing)

    def left_alone(self) -> list[Entry]:
        """The slowed jobs that the guard left alone in the last window.

        Returns:
            An entry for each; each kind of reason is told once an hour for a job.
        """
        return self._inactions

    def wanted(self, policy: str) -> Wanted:
        """The sharing that is to be in force now.

        Args:
            policy: Policy that the site has decided.
        """
        shares: dict[JobKey, Share] = {}
        for action in self._all():
            job = action.culprit if action.kind == "limit" else action.victim
            before = shares.get(job, Share())
            if action.kind == "weight":
                shares[job] = replace(before, weight=float(action.value))
            elif action.kind == "limit":
                shares[job] = replace(before, limit=float(action.value))
            elif action.kind == "avoid":
                shares[job] = replace(before, avoid=action.targets)
        is_needed = policy == "fifo" and any(action.kind != "avoid" for action in self._all())
        return Wanted(self._bounds.policy if is_needed else None, shares)

    def refuse(self, reason: str) -> list[Entry]:
        """Take back the newest actions, which could not be done, or all where there is none.

        Args:
            reason: The reason, in words.
        """
        entries = []
        in_force = list(self._all())
        newest = [action for action in self._newest if any(action is each for each in in_force)]
        # Without a new action it is a change of the site's own that contradicts the old ones.
        for action in newest or in_force:
            entries.append(action.entry("refused", reason))
            self._remember_vain(action)
            self._remove(action, action.since)
        self._newest = []
        return entries

    def end(self) -> list[Entry]:
        """Undo everything, because the guard ends."""
        entries = [action.entry("undone", "the guard ended") for action in self._all()]
        self._actions.clear()
        return entries

    def _all(self) -> Iterator[_Action]:
        return (action for stack in self._actions.values() for action in stack)

    def _note(self, observation: Observation) -> None:
        """Count the windows in a row in which each job is slowed."""
        slowed = {}
        for job in observation.jobs():
            slowdown = observation.slowdown(job)
            if slowdown >= self._bounds.slowdown:
                slowed[job] = self._slowed.get(job, deque(maxlen=self._bounds.windows))
                slowed[job].append(slowdown)
        self._slowed = slowed

    def _forget(self, observation: Observation) -> None:
        """Forget changes of more than an hour ago, and the oldest pairs beyond a number."""
        hour = int(_HOUR_SECONDS / observation.window_seconds)
        while self._changes and self._changes[0][0] <= observation.window - hour:
            self._changes.popleft()
        kept = {victim: at for victim, at in self._changed.items() if at > observation.window - hour}
        self._changed = kept
        # A job that was not slowed for an hour begins anew.
        self._holds = {pair: hold for pair, hold in self._holds.items() if pair[0] in kept or pair[0] in self._actions}
        self._vain = {key: at for key, at in self._vain.items() if at > observation.window - hour}
        self._left = {of: at for of, at in self._left.items() if at > observation.window - hour}
        while len(self._holds) > _PAIRS_MAX:
            del self._holds[next(iter(self._holds))]
        while len(self._vain) > _PAIRS_MAX:
            del self._vain[next(iter(self._vain))]

    def _review(self, victim: JobKey, owing: Owing) -> list[Entry]:
        """Undo the actions for a victim if their cause is gone, and the last one if it did not help."""
        observation, stack = owing.observation, self._actions[victim]
        last = stack[-1]
        is_active = observation.activity(victim) >= ACTIVE
        if is_active:
            last.after.append(observation.slowdown(victim))
        is_cause = is_active and any(self._presses(action, observation) for action in stack)
        self._quiet[victim] = 0 if is_cause else self._quiet.get(victim, 0) + 1
        if not self._may_change(victim, observation.window):
            return []
        hold = max(self._holds.get((victim, action.culprit), 1) for action in stack)
        if self._quiet[victim] >= self._bounds.calm * hold:
            culprit = observation.words(last.culprit)
            reason = f"{culprit} asks for less" if is_active else f"{observation.words(victim)} does nothing"
            return [self._undo(action, observation.window, reason) for action in reversed(stack)]
        is_judged = not self._is_dry and is_cause and len(last.after) == last.after.maxlen
        if is_judged and (last.mean or 0.0) > _HELPED * last.before:
            self._remember_vain(last)
            return [self._undo(last, observation.window, "it did not help")]
        return []

    def _presses(self, action: _Action, observation: Observation) -> bool:
        """Whether the culprit still asks for so much that it would slow the victim."""
        if _pressure(observation, action.culprit, action.targets) >= action.pressure:
            return True
        uses = [uses[action.culprit] for uses in observation.uses.values() if action.culprit in uses]
        received = max((use.received for use in uses), default=0.0)
        return action.kind == "limit" and received >= _AT_LIMIT * float(action.value)

    def _may_change(self, victim: JobKey, window: int) -> bool:
        changed = self._changed.get(victim)
        return changed is None or window - changed >= self._bounds.dwell

    def _act(self, victim: JobKey, owing: Owing) -> list[Entry]:
        """Take the first kind of action that can help a victim."""
        observation, seen = owing.observation, self._slowed[victim]
        stack = self._actions.get(victim, [])
        if len(seen) < self._bounds.windows or not self._may_change(victim, observation.window):
            return []
        if self._is_dry and stack:
            return []
        culprit = _culprit(victim, owing)
        if culprit is None:
            self._leave(victim, None, without_culprit(victim, owing), observation)
            return []
        charged = [users for _, users in self._changes] + [_users(action) for action in self._all()]
        full = without_room(observation.user(victim), observation.user(culprit), charged, self._bounds)
        if full is not None:
            self._leave(victim, culprit, full, observation)
            return []
        for kind in self._bounds.kinds:
            if any(action.kind == kind for action in stack) or (victim, culprit, kind) in self._vain:
                continue
            value = self._value(kind, victim, culprit, owing)
            if value is not None:
                action = self._begin(kind, (victim, culprit), value, owing)
                return [action.entry("acted", _reason(action, len(seen), observation))]
        if observation.window - self._altered >= _SETTLED:
            words = f"none of the actions {', '.join(self._bounds.kinds)} can help, or the last try was in vain"
            self._leave(victim, culprit, Inaction("no action", words), observation)
        return []

    def _leave(self, victim: JobKey, culprit: JobKey | None, why: Inaction, observation: Observation) -> None:
        """Note why a slowed job is left alone, unless an action for it is in force."""
        is_told = (victim, why.kind) in self._left
        if victim in self._actions or is_told or len(self._left) >= _LEFT_MAX:
            return
        seen = self._slowed[victim]
        self._left[victim, why.kind] = observation.window
        self._inactions.append(
            Entry(
                did="left alone",
                kind=None,
                victim=victim.job,
                victim_user=observation.user(victim),
                victim_uid=victim.uid,
                culprit=None if culprit is None else culprit.job,
                culprit_user=None if culprit is None else observation.user(culprit),
                culprit_uid=None if culprit is None else culprit.uid,
                reason=f"{observation.words(victim)} was slowed {sum(seen) / len(seen):.1f} times, and {why.words}",
                value=None,
                slowdown_before=sum(seen) / len(seen),
            )
        )

    def _begin(self, kind: Kind, pair: tuple[JobKey, JobKey], value: _Value, owing: Owing) -> _Action:
        victim, culprit = pair
        window, seen = owing.observation.window, self._slowed[victim]
        targets = value if isinstance(value, tuple) else ()
        action = _Action(
            kind=kind,
            victim=victim,
            victim_user=owing.observation.user(victim),
            culprit=culprit,
            culprit_user=owing.observation.user(culprit),
            since=window,
            value=",".join(value) if isinstance(value, tuple) else value,
            targets=targets,
            pressure=max(_PRESSURE * _pressure(owing.observation, culprit, targets), _PRESSURE_MIN),
            before=sum(seen) / len(seen),
            after=deque(maxlen=self._bounds.dwell),
        )
        if victim not in self._actions and pair in self._holds:
            self._holds[pair] = min(2 * self._holds[pair], _HOLD_MAX)
        self._holds.setdefault(pair, 1)
        self._actions.setdefault(victim, []).append(action)
        self._newest.append(action)
        self._quiet[victim] = 0
        self._count(action, window)
        del self._slowed[victim]
        return action

    def _value(self, kind: Kind, victim: JobKey, culprit: JobKey, owing: Owing) -> _Value | None:
        """The policy, weight, limit or targets of an action; None where the action cannot help."""
        if kind == "avoid":
            # Shares of targets follow from the jobs there: a job that moves changes the floors of limits and weights.
            is_bound = any(action.kind in ("limit", "weight") for action in self._all())
            return None if is_bound else crowded(victim, culprit, owing.observation) or None
        policy = owing.observation.policy
        wanted = self.wanted(policy)
        owes = policy != "fifo" or wanted.policy is not None
        if kind == "share":
            return None if owes else self._bounds.policy
        if not owes or owing.observation.window - self._altered < _SETTLED:
            return None
        if kind == "weight":
            return self._weight(victim, wanted, owing)
        limit = max(self._bounds.limit_min, owing.of(culprit) + _MARGIN)
        is_felt = any(uses[culprit].received > limit for uses in owing.observation.uses.values() if culprit in uses)
        return limit if is_felt and limit < 1 else None

    def _weight(self, victim: JobKey, wanted: Wanted, owing: Owing) -> float | None:
        """The greatest weight of a victim with which all jobs keep what they are owed."""
        for grain in range(_GRAINS, 0, -1):
            weight: float = self._bounds.weight_max ** (grain / _GRAINS)
            if owing.is_kept({**wanted.weights, victim: weight}):
                return weight
        return None

    def _relax(self, owing: Owing) -> list[Entry]:
        """Relax the newest actions until each job keeps what it is owed. This waits for nothing."""
        entries = []
        window = owing.observation.window
        for action in list(self._all()):
            floor = owing.of(action.culprit)
            if action.kind == "limit" and float(action.value) < floor:
                action.value = min(floor + _MARGIN, 1.0)
                culprit = owing.observation.words(action.culprit)
                entries.append(self._relaxed(action, window, is_gone=action.value >= 1, to=culprit))
        for action in reversed(list(self._all())):
            if action.kind == "weight" and not owing.is_kept(self.wanted(owing.observation.policy).weights):
                weight = self._weight_below(action, owing)
                action.value = weight
                if weight <= 1:
                    self._remember_vain(action)
                entries.append(self._relaxed(action, window, is_gone=weight <= 1, to="others"))
        return entries

    def _weight_below(self, action: _Action, owing: Owing) -> float:
        others = self.wanted(owing.observation.policy)
        weight = self._weight(action.victim, others, owing)
        return 1.0 if weight is None else min(weight, float(action.value))

    def _relaxed(self, action: _Action, window: int, *, is_gone: bool, to: str) -> Entry:
        self._altered = window
        reason = f"{to} would be below the owed share"
        return self._undo(action, window, reason) if is_gone else action.entry("relaxed", reason)

    def _undo(self, action: _Action, window: int, reason: str) -> Entry:
        self._remove(action, window)
        return action.entry("undone", reason)

    def _remove(self, action: _Action, window: int) -> None:
        stack = self._actions[action.victim]
        stack.remove(action)
        if not stack:
            del self._actions[action.victim]
            self._quiet.pop(action.victim, None)
        self._count(action, window)

    def _remember_vain(self, action: _Action) -> None:
        self._vain[(action.victim, action.culprit, action.kind)] = action.since

    def _count(self, action: _Action, window: int) -> None:
        self._altered = window
        self._changes.append((window, _users(action)))
        self._changed[action.victim] = window


def _users(action: _Action) -> tuple[str, str]:
    """The users of the victim and of the culprit, to whom a change is charged."""
    return action.victim_user, action.culprit_user


def _pressure(observation: Observation, job: JobKey, targets: tuple[str, ...]) -> float:
    """The demand of a job on the device on which it is greatest, among some targets or, without any, all devices."""
    demands = observation.demands(job)
    return max((demand for device, demand in demands.items() if not targets or device in targets), default=0.0)


def _reason(action: _Action, windows: int, observation: Observation) -> str:
    """The reason of an action after a number of slowed windows, in words."""
    victim, culprit = observation.words(action.victim), observation.words(action.culprit)
    waits = observation.waits(action.victim).get(action.culprit, 0.0)
    where = f", and its demand is on {', '.join(action.targets)}" if action.targets else ""
    return (
        f"{victim} was slowed {action.before:.1f} times for {windows} windows, and waited for {culprit} {waits:.0%} of "
        f"the last one; {culprit} received more than its owed share{where}"
    )


def _culprit(victim: JobKey, owing: Owing) -> JobKey | None:
    """The job that a victim waited for most among those of others that received more than they are owed."""
    observation = owing.observation
    user = observation.user(victim)
    for job in observation.waits(victim):
        devices = observation.shared_devices(victim, job)
        if observation.user(job) == user:
            continue
        # A job that has more than its own share waits because it asks for still more.
        if job != victim and owing.is_beyond(job, devices) and not owing.is_beyond(victim, devices):
            return job
    return None
