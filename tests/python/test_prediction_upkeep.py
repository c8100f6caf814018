"""The paper's rules: predict again at 10 % misses, train anew at 30 %, trace anew above 50 %."""

from weir.prediction.upkeep import Advice, Upkeep


def advices(upkeep: Upkeep, pattern: str) -> list[Advice]:
    """What follows each look-up: `.` a hit, `x` a miss."""
    return [upkeep.hit() if look_up == "." else upkeep.miss() for look_up in pattern]


def test_hits_keep_the_prediction() -> None:
    upkeep = Upkeep()
    assert set(advices(upkeep, "." * 1000)) == {Advice.KEEP}
    assert upkeep.end() is Advice.KEEP


def test_a_tenth_of_misses_asks_for_a_prediction() -> None:
    upkeep = Upkeep()
    assert advices(upkeep, "." * 18 + "x")[-1] is Advice.KEEP
    assert upkeep.miss() is Advice.PREDICT
    assert advices(upkeep, "." * 18 + "x")[-1] is Advice.KEEP, "a new prediction begins with a clean sheet"


def test_nine_in_a_hundred_are_borne() -> None:
    assert Advice.PREDICT not in advices(Upkeep(), ("." * 11 + "x") * 100)


def test_the_fourth_prediction_is_a_training() -> None:
    upkeep = Upkeep()
    asked = [advice for advice in advices(upkeep, ("." * 9 + "x") * 8) if advice is not Advice.KEEP]
    assert asked == [Advice.PREDICT, Advice.PREDICT, Advice.PREDICT, Advice.TRAIN] * 2


def test_a_single_early_miss_is_no_tenth() -> None:
    assert advices(Upkeep(), "x........") == [Advice.KEEP] * 9


def test_a_run_that_was_mostly_not_found_is_traced_anew() -> None:
    half = Upkeep()
    advices(half, "x." * 50)
    assert half.end() is Advice.KEEP
    more = Upkeep()
    advices(more, "x." * 50 + "x")
    assert more.end() is Advice.TRACE
    assert Upkeep().end() is Advice.KEEP, "a run that created nothing says nothing"
