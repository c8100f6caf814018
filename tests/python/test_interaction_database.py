"""The interaction database: what is written is read again, what no file could be created with is refused."""

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from weir.placement.database import END_OF_FILE, Component, DatabaseError, read, read_temporaries, write
from weir.tracing.records import TemporaryName

MIB = 1 << 20
PLAIN = Component("/mnt/ior/test.0", 1, 0, END_OF_FILE, MIB, 2, 8 * MIB, 0, ("3.1", "0.2"))
FIRST = Component("/mnt/ior/test.1", 1, 0, 128 * MIB, MIB, 1, 600 * MIB, 1, ("14",))
SECOND = Component("/mnt/ior/test.1", 2, 128 * MIB, END_OF_FILE, 4 * MIB, 3, 600 * MIB, 1, ("3", "14", "5"))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "placement.db"
    assert write(file, [SECOND, PLAIN, FIRST]) == 2
    assert read(file) == [PLAIN, FIRST, SECOND]
    assert read(file, "/mnt/ior/test.1") == [FIRST, SECOND]
    assert read(file, "/mnt/ior/test.2") == []
    assert [path.name for path in tmp_path.iterdir()] == ["placement.db"]


def test_it_has_the_schema_that_other_programs_read(tmp_path: Path) -> None:
    file = tmp_path / "placement.db"
    write(file, [PLAIN])
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("PRAGMA application_id").fetchone() == (0x57656972,)
    row = connection.execute("SELECT * FROM placement").fetchone()
    connection.close()
    assert row == ("/mnt/ior/test.0", 1, 0, -1, MIB, 2, 8 * MIB, 0, "3.1 0.2")


def test_a_new_database_is_a_new_file(tmp_path: Path) -> None:
    file = tmp_path / "placement.db"
    write(file, [PLAIN])
    with file.open("rb") as old:
        write(file, [FIRST, SECOND])
        assert os.fstat(old.fileno()).st_ino != file.stat().st_ino
        assert b"/mnt/ior/test.0" in old.read(), "whoever has it open goes on with the old one"


def test_names_that_are_no_unicode(tmp_path: Path) -> None:
    file = tmp_path / "placement.db"
    odd = replace(PLAIN, path=os.fsdecode(b"/mnt/\xff\xfe"))
    write(file, [odd])
    assert read(file, odd.path) == [odd]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([replace(PLAIN, path="relative")], "not an absolute path"),
        ([replace(PLAIN, stripe_count=0, targets=())], "no stripes"),
        ([replace(PLAIN, stripe_bytes=0)], "no stripes"),
        ([replace(PLAIN, targets=("3.1",))], "2 stripes and 1 targets"),
        ([replace(PLAIN, targets=("3.1", "3.1"))], "a target twice"),
        ([replace(PLAIN, extent_end=0)], "not after it starts"),
        ([replace(PLAIN, component=2)], "where 1 is due"),
        ([FIRST, replace(SECOND, extent_start=64 * MIB)], "the one before it ends"),
        ([FIRST, replace(SECOND, extent_start=256 * MIB)], "the one before it ends"),
        ([FIRST, replace(SECOND, component=1)], "where 2 is due"),
        ([replace(FIRST, extent_end=END_OF_FILE), SECOND], "the one before it ends"),
    ],
)
def test_what_no_file_could_be_created_with_is_refused(tmp_path: Path, parts: list[Component], words: str) -> None:
    file = tmp_path / "placement.db"
    with pytest.raises(DatabaseError, match=words) as refused:
        write(file, parts)
    assert refused.value.hint
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="cannot write"):
        write(tmp_path / "none" / "placement.db", [PLAIN])
    with pytest.raises(DatabaseError, match="there is no interaction database"):
        read(tmp_path / "placement.db")


def test_other_databases_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "placement.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE placement (path TEXT)")
    connection.commit()
    with pytest.raises(DatabaseError, match="is not an interaction database"):
        read(file)
    connection.execute(f"PRAGMA application_id = {0x57656972}")
    connection.execute("PRAGMA user_version = 7")
    connection.commit()
    with pytest.raises(DatabaseError, match="version 7"):
        read(file)
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    with pytest.raises(DatabaseError, match="no such column"):
        read(file)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example(changes=[(4089, 128)], length=4097)  # the name of a column that is no text
@given(
    changes=st.lists(st.tuples(st.integers(0, 16383), st.integers(0, 255)), max_size=20), length=st.integers(0, 16384)
)
def test_damage_is_an_error_or_still_rows(tmp_path: Path, changes: list[tuple[int, int]], length: int) -> None:
    file = tmp_path / "placement.db"
    write(file, [PLAIN, FIRST, SECOND], names=[TemporaryName("/s/tmp??????", 0, 0, "/mnt/ior/test.0")])
    data = bytearray(file.read_bytes())[:length]
    for offset, value in changes:
        if offset < len(data):
            data[offset] = value
    file.write_bytes(data)
    try:
        for component in read(file):
            assert isinstance(component.path, str)
            assert all(isinstance(target, str) for target in component.targets)
        for name in read_temporaries(file):
            assert isinstance(name.path, str)
    except DatabaseError:
        pass


def test_temporary_names_are_read_again_and_only_then_is_the_version_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "placement.db"
    names = (TemporaryName("/s/tmp????????", 0, 0, "/s/a"), TemporaryName("/s/tmp????????", 0, 1, ""))
    write(file, [PLAIN], names=names, patterns=["tmp????????"])
    assert read_temporaries(file) == [names[0]]
    assert read(file) == [PLAIN]
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("SELECT * FROM pattern").fetchall() == [("tmp????????",)]
    write(file, [PLAIN])
    assert read_temporaries(file) == []


def test_a_database_has_few_patterns(tmp_path: Path) -> None:
    names, patterns = [TemporaryName("/s/x", -1, -1, "/s/y")], [f"{number}??????" for number in range(65)]
    with pytest.raises(DatabaseError, match="65 patterns") as error:
        write(tmp_path / "placement.db", [PLAIN], names=names, patterns=patterns)
    assert error.value.hint
    assert list(tmp_path.iterdir()) == []
