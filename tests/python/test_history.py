"""The checks of histories find each kind of wrong answer, and accept what concurrency allows."""

import errno
import random
import zlib

from history.checks import appends, bounded, claims, glances, holds, increments, inserts, makes, registers
from history.operations import NEVER, Operation, halves


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


def test_the_last_operation_of_a_killed_client_needs_no_answer() -> None:
    history = [done("read", "", 0, NEVER, error=-1)]
    assert bounded(history, 10.0)
    assert not bounded(history, 10.0, {"a"})
    assert bounded([done("read", "1", 0, 11)], 10.0, {"a"})


def test_both_sides_of_a_stripe_are_registers_of_their_own() -> None:
    history = [
        done("write", "1", 0, 1),
        done("write", "2", 2, 6),
        done("read", "2|1", 3, 4, client="b"),
        done("read", "1|1", 7, 8, client="b"),
    ]
    assert [operation.value for operation in halves(history)[-4:]] == ["2", "1", "1", "1"]
    problems = registers(halves(history), "0")
    assert problems
    assert all(problem.startswith("file ") for problem in problems)
    assert registers(halves(history[:3]), "0") == []


def glance(content: str, begin: float, ended: float) -> Operation:
    return done("glance", f"{len(content)} {zlib.crc32(content.encode())}", begin, ended, client="b")


def test_a_read_of_an_appended_file_sees_its_beginning_with_all_that_was_there() -> None:
    history = [done("append", "a 1", 0, 1), done("append", "a 2", 2, 4)]
    contents = {"file": "a 1\na 2\n"}
    assert glances([*history, glance("a 1\n", 3, 3.5), glance("a 1\na 2\n", 5, 6)], contents) == []
    assert "of 8 there before" in glances([*history, glance("a 1\n", 5, 6)], contents)[0]
    assert "not its first" in glances([*history, glance("a 9\n", 3, 3.5)], contents)[0]
    assert "not its first" in glances([*history, glance("a 1\na 2\na 3\n", 5, 6)], contents)[0]
    seen_before = [glance("a 1\na 2\n", 3, 3.2), glance("a 1\n", 3.3, 3.5)]
    assert "of 8 there before" in glances([*history, *seen_before], contents)[0]


def test_two_holders_of_one_lock_are_found() -> None:
    assert holds([done("hold", "a 1|a 1", 0, 1)]) == []
    assert holds([done("hold", "a 1", 0, 1, error=5)]) == []
    assert "read 'b 1'" in holds([done("hold", "a 1|b 1", 0, 1)])[0]


def claim(client: str, error: int = 0) -> Operation:
    return done("claim", f"file.{client}", 0, 1, client=client, error=error)


def test_one_rename_of_a_file_takes_effect_and_its_client_knows() -> None:
    taken = [claim("a"), claim("b", errno.ENOENT)]
    assert claims(taken, ["file.a"]) == []
    assert claims([claim("a", errno.EIO)], ["file.a"]) == []
    assert claims([claim("a", errno.EIO)], ["file"]) == []
    assert "2 clients" in claims([claim("a"), claim("b")], ["file.a"])[0]
    assert "is file.b" in claims(taken, ["file.b"])[0]
    assert "nothing" in claims(taken, [])[0]
    assert "file, file.a" in claims(taken, ["file", "file.a"])[0]
    assert "whose client was told" in claims([claim("a", errno.ENOENT)], ["file.a"])[0]
    assert "is file" in claims(taken, ["file"])[0]


def test_one_of_several_makers_of_a_name_makes_it() -> None:
    taken = [done("make", "", 0, 1), done("make", "", 0, 1, client="b", error=errno.EEXIST)]
    assert makes(taken, ["file"]) == []
    assert "lost" in makes(taken, [])[0]
    assert "2 times" in makes([*taken, done("make", "", 2, 3)], ["file"])[0]
    assert "everybody was told" in makes(taken[1:], ["file"])[0]
    assert makes([done("make", "", 0, 1, error=errno.EIO), *taken[1:]], ["file"]) == []


def test_a_transaction_is_in_the_database_once() -> None:
    history = [done("insert", "a 1", 0, 1), done("insert", "a 2", 2, 3, error=errno.EIO)]
    assert inserts(history, ["a 1"], ["ok"], -2) == []
    assert inserts(history, ["a 1", "a 2"], ["ok"], -2) == []
    assert "lost" in inserts(history, ["a 2"], ["ok"], -2)[0]
    assert "2 times" in inserts(history, ["a 1", "a 1"], ["ok"], -2)[0]
    assert "never inserted" in inserts(history, ["a 1", "b 9"], ["ok"], -2)[0]
    assert "damaged" in inserts(history, ["a 1"], ["row 3 missing from index"], -2)[0]
    assert "damaged" in inserts([*history, done("insert", "a 3", 4, 5, error=-2)], ["a 1"], ["ok"], -2)[0]
