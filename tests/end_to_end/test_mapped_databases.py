"""Databases that read and write through shared mappings beside calls on descriptors: LMDB and RocksDB."""

import pytest
from waits import PATIENCE_SECONDS
from ways import PREFIX, Way

RECORDS = 20_000
ROCKSDB_RECORDS = 4_000


def dump() -> str:
    """What `mdb_dump -p` prints of a database, in the order of its keys."""
    head = "VERSION=3\nformat=print\ntype=btree\nmapsize=104857600\nHEADER=END\n"
    return head + "".join(f" key{n:06}\n value{n:06}{'x' * 60}\n" for n in range(RECORDS)) + "DATA=END\n"


@pytest.fixture
def shared_mappings(way: Way) -> None:
    """Skip where shared mappings that can be written are refused, as is documented."""
    if way.name == PREFIX:
        pytest.skip("there are no shared, writable mappings without a mount")


@pytest.mark.usefixtures("shared_mappings")
def test_lmdb_grows_a_mapped_file_by_writes(way: Way) -> None:
    """`mdb_load` maps the file first, writes it by descriptor, and read SIGBUS after 100 records."""
    way.run("mkdir", way.folder / "db")
    way.run("mdb_load", way.folder / "db", text=dump())
    found = way.shell(
        "mdb_stat db; mdb_dump -p db | sed '1,/HEADER=END/d' | sha256sum; sed '1,/HEADER=END/d' | sha256sum",
        text=dump(),
    )
    lines = found.splitlines()
    assert f"  Entries: {RECORDS}" in lines
    assert lines[-1] == lines[-2]
    way.shell(
        "mdb_copy -c db .copy 2>/dev/null || { mkdir copy && mdb_copy -c db copy; }; mdb_stat copy | grep -q 'Entries: 20000'"
    )


@pytest.mark.usefixtures("shared_mappings")
def test_lmdb_is_read_while_it_is_written(way: Way) -> None:
    way.run("mkdir", way.folder / "db")
    writer = way.start("mdb_load", way.folder / "db")
    assert writer.stdin
    writer.stdin.write(dump())
    writer.stdin.close()
    writer.stdin = None
    seen = way.shell(
        "for i in 1 2 3 4 5; do test -s db/data.mdb && mdb_stat db | sed -n 's/ *Entries: //p'; done || true"
    ).split()
    _, err = writer.communicate(timeout=PATIENCE_SECONDS)
    assert (writer.returncode, err) == (0, "")
    counts = [int(count) for count in seen]
    assert counts == sorted(counts)
    assert way.shell("mdb_stat db | sed -n 's/ *Entries: //p'").split() == [str(RECORDS)]


@pytest.mark.usefixtures("shared_mappings")
def test_rocksdb_reads_and_writes_through_mappings(way: Way) -> None:
    common = (
        f"--db=$PWD/db --num={ROCKSDB_RECORDS} --value_size=400 --mmap_read=1 --mmap_write=1 --write_buffer_size=262144"
    )
    out = way.shell(
        f"""
        db_bench {common} --benchmarks=fillrandom,overwrite,compact --use_existing_db=0 2>&1
        db_bench {common} --benchmarks=readrandom,readseq,readwhilewriting --use_existing_db=1 --threads=2 2>&1
        ldb --db=db checkconsistency
        ldb --db=db put a-key a-value && ldb --db=db get a-key
        ldb --db=db dump | tail -1
        """
    )
    assert "OK" in out.splitlines()
    assert "a-value" in out.splitlines()
    assert "orruption" not in out
