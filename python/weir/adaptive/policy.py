"""The policies and accuracies of a reader, and their plan for each tier at each step."""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from weir.adaptive.budget import Budget, Solver
from weir.adaptive.errors import AdaptiveError
from weir.adaptive.plot import Plot
from weir.adaptive.tiers import Tier, Zone

if TYPE_CHECKING:
    from weir.adaptive.server_forecast import ServerForecast
    from weir.adaptive.slowdowns import Slowdowns
    from weir.prediction.bandwidth import Forecast

BARREN_STEPS_MAX = 2
"""Steps without a finished read after which a tier is left alone for a while."""
SILENT_STEPS_MAX = 4
"""Steps without a read after which the next step reads a probe: otherwise a tier that was slow once would stay so for
ever."""
_TICK_SECONDS = 1e-6
"""Least difference of two times: forecasters need growing times, and steps of several threads may end at once."""


class Fixed(StrEnum):
    """Policies without a forecast."""

    BEST_EFFORT = "best-effort"
    """Read everything from every tier, as long as it takes."""
    ISOLATION = "isolation"
    """Read the tiers of the isolation zone alone, and the base."""


Policy = Plot | Budget | Fixed


def policy_of(given: Policy | str) -> Policy:
    """Find the policy that is named.

    Args:
        given: A policy, or the name of one: `best-effort` or `isolation`.

    Raises:
        AdaptiveError: The name is no policy's.
    """
    if isinstance(given, Plot | Budget):
        return given
    try:
        return Fixed(given)
    except ValueError:
        raise AdaptiveError(
            f"no policy is called `{given}`",
            hint="there are best-effort, isolation, plot (of two bandwidths) and budget (a time or its variance)",
        ) from None


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """A sufficient accuracy: one of the attributes.

    Attributes:
        rmse: Root mean square error, in units of the data.
        max_error: Largest error of any value, in units of the data.
        psnr: Peak signal-to-noise ratio, in dB of the range of values.
        relative: Largest error, as part of the range of values.
        bytes_max: Most bytes of a step, at any accuracy. They include the base, which is read also where it has more.
    """

    rmse: float | None = None
    max_error: float | None = None
    psnr: float | None = None
    relative: float | None = None
    bytes_max: int | None = None

    def __post_init__(self) -> None:
        """Check the accuracy.

        Raises:
            AdaptiveError: None or several of the attributes are given, or a value is out of its range.
        """
        amounts = (self.rmse, self.max_error, self.psnr, self.relative, self.bytes_max)
        given = [amount for amount in amounts if amount is not None]
        if len(given) != 1 or not (math.isfinite(given[0]) and given[0] >= 0):
            raise AdaptiveError(
                "an accuracy is one of rmse, max_error, psnr, relative and bytes_max, and at least 0",
                hint="give one of them, such as a psnr of 60",
            )
        if self.bytes_max is not None and self.bytes_max != int(self.bytes_max):
            raise AdaptiveError(f"{self.bytes_max} is no number of bytes", hint="bytes_max is a whole number")


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one step's reads from one tier.

    Attributes:
        available_bytes: Useful bytes of the augmentation on the tier.
        wanted_bytes: Bytes of these that the step reads.
        forecast: Forecast of the tier's bandwidth, in bytes per second; None where nothing is known of it yet.
        seconds: Time after which no read begins, where there is a time budget.
        seconds_max: Time in seconds after which reads under way are given up.
    """

    available_bytes: int
    wanted_bytes: int
    forecast: "Forecast | None"
    seconds: float = math.inf
    seconds_max: float = math.inf


class Planner:
    """Forecasts one tier, and plans its reads. Threads may share a planner."""

    def __init__(
        self,
        tier: Tier,
        policy: Policy,
        *,
        warm_up_steps: int,
        server_forecast: "ServerForecast | None" = None,
        slowdowns: "Slowdowns | None" = None,
    ) -> None:
        """Begin without a past.

        Args:
            tier: The tier; its own plot beats a policy that is a plot or a budget.
            policy: The reader's policy.
            warm_up_steps: Number of first steps that read everything.
            server_forecast: Forecast by a store's servers, for a tier on a store; None for other tiers.
            slowdowns: Asks for the predicted slowdown of the tier; None where nobody predicts.

        Raises:
            AdaptiveError: The tier's forecaster refuses its period.
        """
        from weir.adaptive.slowdowns import Outlook
        from weir.prediction.bandwidth import THRESHOLD, Background, make

        self.tier = tier
        self._policy = tier.plot if tier.plot is not None and not isinstance(policy, Fixed) else policy
        self._solver = Solver(self._policy) if isinstance(self._policy, Budget) else None
        try:
            # Steps are learnt beside the reads: fits take milliseconds, and steps must not wait for them.
            threshold = THRESHOLD if tier.threshold is None else tier.threshold
            self._history = Background(make(tier.forecaster, period_seconds=tier.period_seconds, threshold=threshold))
        except ValueError as error:
            raise AdaptiveError(f"tier {tier.url}: {error}") from error
        # Other tiers and policies do not use their forecasts.
        self._is_forecast = tier.zone == Zone.AUGMENTATION and not isinstance(policy, Fixed)
        self._server_forecast = server_forecast
        self._outlook = None if slowdowns is None else Outlook(slowdowns)
        self._warm_up_steps = warm_up_steps
        self._latest = -math.inf
        self._silent_steps = 0
        self._barren_steps = 0
        self._lock = threading.Lock()

    @property
    def is_left_alone(self) -> bool:
        """Whether the reader's policy reads nothing of the tier, whatever its bandwidth."""
        return self._policy == Fixed.ISOLATION and self.tier.zone != Zone.ISOLATION

    def plan(self, time: float, available_bytes: int, *, accuracy_asked: bool) -> Plan:
        """Plan the reads of a step.

        Args:
            time: Time of the step, in seconds of the reader's clock.
            available_bytes: Useful bytes of the augmentation on the tier.
            accuracy_asked: Whether the reader asked for an accuracy.
        """
        with self._lock:
            forecast = self._forecast(time)
            wanted = self._amount(forecast, available_bytes, accuracy_asked)
            if self._is_forecast and self._silent_steps >= SILENT_STEPS_MAX:
                # A tier that gave nothing in its time is asked for less than before.
                is_known_slow = self._barren_steps > 0 and self._solver is not None
                wanted = max(wanted, 1 if is_known_slow else self.tier.request_bytes)
            elif self._barren_steps >= BARREN_STEPS_MAX:
                # A tier that gives nothing would make every step wait for it.
                wanted = 0
            wanted = min(max(wanted, 0), available_bytes)
            if isinstance(self._policy, Budget) and self._is_forecast and self._warm_up_steps == 0:
                return Plan(available_bytes, wanted, forecast, *self._policy.limits)
            return Plan(available_bytes, wanted, forecast)

    def record(
        self, plan: Plan, time: float, read_bytes: int, seconds: float, bandwidth: float | None, *, begun_bytes: int = 0
    ) -> None:
        """Learn from a step.

        Args:
            time: Begin of the step's reads, in seconds of the reader's clock.
            read_bytes: Bytes of the augmentation that arrived.
            seconds: Time of the reads of these bytes.
            bandwidth: Achieved bandwidth in bytes per second; None where nothing was read.
            begun_bytes: Bytes of begun reads, where none of them ended.
        """
        with self._lock:
            if not self._is_forecast:
                return
            if begun_bytes:
                self._barren_steps += 1
            elif bandwidth is not None:
                self._barren_steps = 0
            self._silent_steps = self._silent_steps + 1 if bandwidth is None and not begun_bytes else 0
            self._latest = max(time, self._latest + _TICK_SECONDS)
            self._history.observe(
                self._latest, bandwidth if bandwidth is not None else _at_most(plan, begun_bytes, seconds)
            )
            if self._server_forecast is not None and bandwidth is not None:
                self._server_forecast.observe(bandwidth)
            if self._outlook is not None and bandwidth is not None:
                self._outlook.observe(bandwidth)
            if self._warm_up_steps > 0:
                # Errors of the first forecasts, from next to no steps, tell little of later errors.
                self._warm_up_steps -= 1
            elif self._solver is not None:
                self._solver.record(plan.forecast, read_bytes, seconds)

    def learn(self) -> None:
        """Learn from the recorded steps, beside the program's next work."""
        self._history.learn()

    def _forecast(self, time: float) -> "Forecast | None":
        from weir.prediction.bandwidth import NothingObservedError

        try:
            forecast = self._history.forecast(max(time, self._latest + _TICK_SECONDS))
        except NothingObservedError:
            return None
        if not math.isfinite(forecast.value):
            return None
        if self._server_forecast is not None:
            forecast = self._server_forecast.refine(forecast)
        return forecast if self._outlook is None else self._outlook.refine(forecast)

    def _amount(self, forecast: "Forecast | None", available_bytes: int, accuracy_asked: bool) -> int:
        if self.tier.zone == Zone.ISOLATION or self._policy == Fixed.BEST_EFFORT:
            return available_bytes
        if self._policy == Fixed.ISOLATION:
            return 0
        if self.tier.zone == Zone.BEST_EFFORT:
            return available_bytes if accuracy_asked else 0
        if self._warm_up_steps > 0:
            return available_bytes
        if self._solver is not None:
            return self.tier.request_bytes if forecast is None else self._solver.amount(forecast, available_bytes)
        assert isinstance(self._policy, Plot)
        # Without any past step the paper reads everything, and so gets its first measurements.
        return available_bytes if forecast is None else int(self._policy.degree(forecast.value) * available_bytes)


def _at_most(plan: Plan, begun_bytes: int, seconds: float) -> float | None:
    """The greatest bandwidth that unfinished reads leave possible; None where it is not below the forecast."""
    if not begun_bytes:
        return None
    bandwidth = begun_bytes / seconds
    return bandwidth if plan.forecast is None or bandwidth < plan.forecast.value else None


def plan_step(
    planners: Sequence[Planner], available_bytes: Sequence[int], time: float, *, accuracy_asked: bool
) -> list[Plan]:
    """Plan one step for all tiers. Bytes behind a gap are worth little, so a tier is read only if the tier above is
    read whole.

    Args:
        planners: Planner of each tier, in order.
        available_bytes: Useful bytes of the augmentation on each tier.
        time: Time of the step, in seconds of the reader's clock.
        accuracy_asked: Whether the reader asked for an accuracy.

    Returns:
        The plan of each tier.
    """
    plans: list[Plan] = []
    whole = True
    for planner, available in zip(planners, available_bytes, strict=True):
        plan = planner.plan(time, available, accuracy_asked=accuracy_asked)
        if not whole:
            plan = Plan(plan.available_bytes, 0, plan.forecast)
        whole = whole and plan.wanted_bytes >= available
        plans.append(plan)
    return plans
