"""The checks of histories find each kind of wrong answer, and accept what concurrency allows."""

import random

from history.checks import appends, bounded, increments, registers
from history.operations import NEVER, Operation


def done(kind: str, value: str, begin: float, ended: float, *, client: str = "a", error: int = 0) -> Operation:
    return Operation(client, kind, "file", value, begin, ended, error)


def test_reads_beside_a_write_may_see_either_value() -> None:
    history = [
        done("write", "1", 0, 1),
        done("write", "2", 2, 6),
        done("read", "1", 3, 4, client="b"),
        done("read", "2", 3, 5, client="c"),
        done("read", "2", 7, 8, client="b"),
    ]
    assert registers(history, "0") == []


def test_a_lost_write_and_a_stale_read_are_found() -> None:
    history = [done("write", "1", 0, 1), done("read", "0", 2, 3, client="b")]
    assert registers(history, "0")
    history = [done("write", "1", 0, 1), done("write", "2", 2, 3), done("read", "1", 4, 5, client="b")]
    assert registers(history, "0")


def test_a_value_that_comes_back_is_found() -> None:
    history = [
        done("write", "1", 0, 1),
        done("write", "2", 2, 9),
        done("read", "2", 3, 4, client="b"),
        done("read", "1", 5, 6, client="c"),
    ]
    assert registers(history, "0")


def test_a_failed_write_may_take_effect_late_or_never_but_once() -> None:
    failed = done("write", "2", 2, 3, error=5)
    first = done("write", "1", 0, 1)
    assert registers([first, failed, done("read", "1", 4, 5)], "0") == []
    assert registers([first, failed, done("read", "2", 90, 91)], "0") == []
    assert registers([first, failed, done("read", "2", 4, 5), done("read", "1", 6, 7)], "0")


def test_a_value_that_nobody_wrote_is_found() -> None:
    assert "nobody wrote" in registers([done("read", "9", 0, 1)], "0")[0]


def test_a_value_read_before_its_write_is_found() -> None:
    assert registers([done("read", "1", 0, 1, client="b"), done("write", "1", 2, 3)], "0")


def test_random_histories_of_a_real_register_are_accepted() -> None:
    dice = random.Random(7)
    for _ in range(200):
        value, history = "0", []
        for number in range(60):
            moment = number + dice.random() * 0.5
            begin, ended = moment - dice.random() * 5, moment + dice.random() * 5
            if dice.random() < 0.4:
                value = f"{number}"
                history.append(done("write", value, begin, ended, error=0 if dice.random() < 0.8 else 5))
            else:
                history.append(done("read", value, begin, ended, client=str(number)))
        assert registers(history, "0") == []


def test_appends_are_there_once_and_in_the_order_of_their_client() -> None:
    history = [
        done("append", "a 1", 0, 1),
        done("append", "a 2", 2, 3),
        done("append", "b 1", 0, 9, client="b", error=5),
    ]
    assert appends(history, {"file": "a 1\na 2\n"}) == []
    assert appends(history, {"file": "b 1\na 1\na 2\n"}) == []
    assert "lost" in appends(history, {"file": "a 1\n"})[0]
    assert "2 times" in appends(history, {"file": "a 1\na 2\na 2\n"})[0]
    assert "before an earlier" in appends(history, {"file": "a 2\na 1\n"})[0]
    assert "never appended" in appends(history, {"file": "a 1\na 2\na\n"})[0]


def test_increments_exclude_each_other() -> None:
    history = [
        done("increment", "1", 0, 1),
        done("increment", "2", 0, 2, client="b"),
        done("increment", "", 0, 3, client="c", error=5),
    ]
    assert increments(history, {"file": 2}) == []
    assert increments(history, {"file": 3}) == []
    assert increments(history, {"file": 4})
    assert increments([*history, done("increment", "2", 3, 4)], {"file": 3})


def test_an_operation_without_an_answer_is_found() -> None:
    assert bounded([done("read", "1", 0, NEVER)], 10.0)
    assert bounded([done("read", "1", 0, 11, error=5)], 10.0)
    assert not bounded([done("read", "1", 0, 9)], 10.0)
