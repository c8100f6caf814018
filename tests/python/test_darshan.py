"""Darshan logs as runs; whatever is no log, or a damaged one, ends in one error that names it."""

import contextlib
import itertools
import os
import struct
import zlib
from pathlib import Path

import pytest
from seeds import seeded
from weir.tracing import darshan
from weir.tracing.darshan import DarshanError, DarshanLog, read_log, read_logs
from weir.tracing.records import SHARED

LOGS = Path(__file__).resolve().parents[1] / "data" / "darshan"


def log_of(name: str) -> Path:
    (path,) = LOGS.glob(f"{name}*.darshan")
    return path


def test_a_file_for_each_process_on_lustre() -> None:
    log = read_log(log_of("sample-goodost"))
    run = log.run
    assert (run.program, run.ranks, run.source, log.incomplete) == ("ior", 48, "darshan", ())
    assert run.arguments[:4] == ("-t", "8m", "-b", "256m")
    assert 0 < run.ended - run.started < 60
    by_rank = {creation.rank: creation for creation in run.creations}
    assert sorted(by_rank) == list(range(48)) and len(run.creations) == 48
    for rank, creation in by_rank.items():
        assert creation.path == f"/scratch1/scratchdirs/glock/testFile.{rank:08d}"
        assert (creation.size_bytes, creation.written_bytes) == (1 << 30, 1 << 30)
        assert (creation.order, creation.writers, creation.layout) == (0, 1, "-c 1 -S 1048576")
    assert {file.components[0].targets for file in log.files} <= {(target,) for target in range(24)}


def test_a_shared_file_with_its_targets() -> None:
    log = read_log(log_of("example"))
    (creation,) = log.run.creations
    assert (creation.rank, creation.writers, log.run.ranks) == (SHARED, 2048, 2048)
    assert creation.size_bytes == 2199023261832
    assert creation.layout == "-c 24 -S 1048576"
    (file,) = log.files
    assert sorted(file.components[0].targets) == list(range(24))
    assert file.seconds > 10 and file.transfer_bytes > 1 << 20


def test_what_was_traced_tells_who_wrote() -> None:
    """The log's counters have a record a rank; DXT says that one rank alone wrote the file."""
    log = read_log(log_of("sample-dxt-simple"))
    (written,) = (creation for creation in log.run.creations if creation.path.endswith("/test.out"))
    assert "DXT_POSIX" in log.modules
    assert (written.rank, written.writers, written.size_bytes) == (SHARED, 1, 4000)


def test_files_that_were_only_read_are_no_creations() -> None:
    log = read_log(log_of("noposix"))
    assert len(log.files) > 0 and log.run.creations == ()


def test_several_logs_come_in_their_order(tmp_path: Path) -> None:
    bad = tmp_path / "bad.darshan"
    bad.write_bytes(log_of("sample-goodost").read_bytes()[:3000])
    paths = [log_of("pq_app_write_id71296"), bad, log_of("pq_app_write_id71303")]
    answers = dict(read_logs(paths))
    assert list(answers) == paths
    assert isinstance(answers[bad], DarshanError)
    good = [answer for answer in answers.values() if isinstance(answer, DarshanLog)]
    assert [log.run.creations[0].path.rsplit("/", 1)[-1] for log in good] == ["A", "B"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b" + bytes(100), "Darshan 1 or 2"),
        (b"BZh9" + bytes(100), "Darshan 1 or 2"),
        (b"3.21\0\0\0\0", "not a Darshan log"),
        (b"no log at all, but a text", "not a Darshan log"),
        (b"9.99\0\0\0\0" + (6567223).to_bytes(8, "little") + bytes(2000), "library"),
    ],
)
def test_what_is_no_log_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "some.darshan"
    path.write_bytes(content)
    with pytest.raises(DarshanError, match=words) as caught:
        read_log(path)
    assert str(path) in str(caught.value)


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DarshanError, match="No such file"):
        read_log(tmp_path / "none.darshan")


def test_a_library_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(darshan, "_START_SECONDS_MAX", 0.0)
    with pytest.raises(DarshanError, match="did not read it within"):
        read_log(log_of("sample-goodost"), seconds_max=0.0)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe would be waited for without end."""
    pipe = tmp_path / "pipe.darshan"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(DarshanError, match="is not a file"):
            read_log(path)


def test_damaged_logs_never_pass_for_whole_ones(tmp_path: Path) -> None:
    """Cut short or with bytes changed: an error, or all that the log says; the library may crash on any of them."""
    dice = seeded()
    source = log_of("ior_hdf5_example")
    whole, content = read_log(source), source.read_bytes()
    paths = []
    for number in range(24):
        damaged = bytearray(content)
        if number % 2:
            del damaged[dice.randrange(16, len(content)) :]
        else:
            damaged[dice.randrange(16, len(content))] ^= 1 << dice.randrange(8)
        paths.append(tmp_path / f"{number}.darshan")
        paths[-1].write_bytes(damaged)
    for path, answer in read_logs(paths, seconds_max=10):
        if isinstance(answer, DarshanError):
            assert str(path) in str(answer)
        elif int(path.stem) % 2:
            assert answer.files == whole.files


def packed_to(size: int, plain: bytes) -> bytes:
    """The bytes as a stream of a size, because Darshan's library crashes on bytes behind a stream."""
    for level, strategy, cut in itertools.product(range(9, 0, -1), range(5), range(0, len(plain), 8)):
        packer = zlib.compressobj(level, zlib.DEFLATED, 15, 9, strategy)
        packed = packer.compress(plain[:cut]) + (packer.flush(zlib.Z_SYNC_FLUSH) if cut else b"")
        packed += packer.compress(plain[cut:]) + packer.flush()
        if len(packed) == size:
            return packed
    raise AssertionError(f"no stream of {size} bytes has these")


def renamed(log: bytes, old: bytes, new: bytes) -> bytes:
    """A log in whose compressed regions of the job and of names one text is another of the same length."""
    names, length = struct.unpack_from("<QQ", log, 24)
    changed, found = bytearray(log), 0
    for start in (*(place for place in range(40, names) if log[place] == 0x78), names):
        end = names if start < names else names + length
        unpacker, plain = zlib.decompressobj(), b""
        with contextlib.suppress(zlib.error):
            plain = unpacker.decompress(log[start:end])
        if not unpacker.eof or old not in plain:
            continue
        changed[start:end] = packed_to(end - start, plain.replace(old, new))
        found += 1
    assert found, f"the log has no {old!r}"
    return bytes(changed)


def test_names_that_are_no_utf8_are_read_and_shown_escaped(tmp_path: Path) -> None:
    """One byte of Latin-1 in a file's name, the command or a mount point made the whole log damaged."""
    log = log_of("pq_app_write_id71296")
    (tmp_path / "latin.darshan").write_bytes(renamed(log.read_bytes(), b"home", b"h\xf6me"))
    paths = [file.path for file in read_log(tmp_path / "latin.darshan").files]
    assert paths == [file.path.replace("/home/", "/h\\xf6me/") for file in read_log(log).files]
    assert any("/h\\xf6me/" in path for path in paths)


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        (b"./app_write A", b"./app_wr\xeete A", ("app_wr\\xeete", ("A",))),
        (b"./app_write A", b"./app_write \xe9", ("app_write", ("\\xe9",))),
        (b"ext4\t/home", b"ext4\t/h\xf6me", ("app_write", ("A",))),
    ],
)
def test_a_command_or_a_mount_point_may_have_any_bytes(
    tmp_path: Path, old: bytes, new: bytes, shown: tuple[str, tuple[str, ...]]
) -> None:
    whole = log_of("pq_app_write_id71296")
    (tmp_path / "latin.darshan").write_bytes(renamed(whole.read_bytes(), old, new))
    log = read_log(tmp_path / "latin.darshan")
    assert (log.run.program, log.run.arguments) == shown
    assert [file.path for file in log.files] == [file.path for file in read_log(whole).files]


@pytest.mark.parametrize("start", [2**60, -(2**60), 2**63 - 1, 253_402_300_800])
def test_a_start_that_is_no_date_is_named(tmp_path: Path, start: int) -> None:
    """A table of runs ended in a traceback, because no calendar has the year 36 thousand millions."""
    whole = log_of("pq_app_write_id71296")
    log = renamed(whole.read_bytes(), struct.pack("<q", 1596152057), struct.pack("<q", start))
    (tmp_path / "late.darshan").write_bytes(log)
    with pytest.raises(DarshanError, match=rf"late\.darshan .*starts at second {start} of Unix time") as refused:
        read_log(tmp_path / "late.darshan")
    assert "damaged" in refused.value.hint
