"""SQLite keeps databases on the store, from two processes at once, with a rollback journal and with a write-ahead log."""

import pytest
from waits import PATIENCE_SECONDS
from ways import PREFIX, Way

ROWS = 150
WRITERS = 2


def writer(number: int, mode: str) -> str:
    """A session that makes transactions of two statements each, which belong together."""
    one = f"BEGIN IMMEDIATE; INSERT INTO log VALUES({number}, hex(randomblob(300))); UPDATE total SET n = n + 1; COMMIT;\n"
    return f".timeout 60000\nPRAGMA journal_mode={mode};\n{one * ROWS}"


@pytest.mark.parametrize("mode", ["delete", "truncate", "wal"])
def test_two_processes_write_one_database(way: Way, mode: str) -> None:
    if mode == "wal" and way.name == PREFIX:
        pytest.skip("a write-ahead log is shared through a mapping, which there is none of without a mount")
    way.shell(
        f"""
        sqlite3 data.db 'PRAGMA journal_mode={mode}; CREATE TABLE log(writer, text); CREATE TABLE total(n); INSERT INTO total VALUES(0);'
        """,
        served=["open", "write", "read", "lock"],
    )
    writers = [way.start("sqlite3", "-bail", way.folder / "data.db") for _ in range(WRITERS)]
    for number, each in enumerate(writers):
        assert each.stdin
        each.stdin.write(writer(number, mode))
        each.stdin.close()
        each.stdin = None
    for each in writers:
        out, err = each.communicate(timeout=PATIENCE_SECONDS)
        assert (each.returncode, err) == (0, ""), out
    found = way.shell(
        """sqlite3 data.db 'PRAGMA integrity_check; SELECT n FROM total; SELECT count(*), count(DISTINCT writer) FROM log;'"""
    )
    assert found.split() == ["ok", str(WRITERS * ROWS), f"{WRITERS * ROWS}|{WRITERS}"]
    way.shell(
        """sqlite3 data.db 'CREATE INDEX i ON log(text); DELETE FROM log WHERE rowid % 2; VACUUM; PRAGMA integrity_check' | grep -qx ok
        sqlite3 data.db '.backup copy.db' && sqlite3 copy.db 'SELECT count(*) FROM log' | grep -qx 150 && ! test -e data.db-journal"""
    )


def test_a_killed_writer_leaves_a_whole_database(way: Way) -> None:
    """The rollback journal of a process that died in the middle is played back by the next."""
    way.shell("sqlite3 data.db 'CREATE TABLE t(n); INSERT INTO t VALUES(1);'")
    script = "PRAGMA cache_size=5; BEGIN; " + "INSERT INTO t SELECT randomblob(2000);" * 60 + "\n.shell kill -9 $PPID\n"
    way.run("sqlite3", way.folder / "data.db", text=script, code=None)
    # Without a mount the locks of a killed process go when its server sees that it is gone.
    way.shell(
        "sqlite3 -cmd '.timeout 60000' data.db 'PRAGMA integrity_check; SELECT count(*) FROM t' | tr '\\n' ' ' | grep -qx 'ok 1 '"
    )


def test_an_exclusive_log_needs_no_shared_memory(way: Way) -> None:
    way.shell(
        """
        sqlite3 data.db 'PRAGMA locking_mode=exclusive; PRAGMA journal_mode=wal; CREATE TABLE t(n); INSERT INTO t VALUES(7);'
        test "$(sqlite3 data.db 'PRAGMA locking_mode=exclusive; SELECT n FROM t' | tail -1)" = 7
        """,
        served=["write", "read"],
    )
