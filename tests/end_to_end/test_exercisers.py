"""Programs made to find faults in file systems: fio, dbench, bonnie++, fs_mark and fsx."""

import os
import random
import shutil
from pathlib import Path

import pytest
from ways import MOUNTED, PREFIX, Way

DBENCH_SECONDS = ("2", "20", "120")
"""Its load ends by time, and its first rename comes late where the machine is busy."""
FSX_OPERATIONS = 4000
FSX = """
flen = 2500000
[opsize]
max = 300000
[weights]
close_open = 1.0
read = 10.0
write = 10.0
truncate = 5.0
fsync = 1.0
fdatasync = 1.0
punch_hole = 2.0
sendfile = 1.0
posix_fadvise = 1.0
copy_file_range = 3.0
"""
FSX_MAPPED = "invalidate = 1.0\nmapread = 5.0\nmapwrite = 5.0\n"


def need(program: str) -> str:
    """The path of a program that the set-up installs."""
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:target/tools/bin")
    if path is None:
        pytest.skip(f"{program} is not installed; `make setup` does it")
    return str(Path(path).absolute())


@pytest.mark.parametrize("mapped", [False, True])
def test_fsx(way: Way, tmp_path: Path, mapped: bool) -> None:
    """Thousands of operations on one file, each result compared with what the file must hold."""
    if mapped and way.name == PREFIX:
        pytest.skip("shared mappings that may be written need a mount")
    seed = random.randrange(1 << 31)
    print(f"fsx -S {seed}")
    (tmp_path / "fsx.toml").write_text(FSX + (FSX_MAPPED if mapped else "mapread = 0.0\nmapwrite = 0.0\n"))
    flags: list[str | Path] = [
        "-q",
        "-N",
        str(FSX_OPERATIONS),
        "-S",
        str(seed),
        "-f",
        tmp_path / "fsx.toml",
        "-P",
        tmp_path,
    ]
    # fsx keeps some of its mappings, and a mapped file is the kernel's: no read or write after the first one is fast.
    served = ["open"] if mapped else ["open", "read", "write"]
    way.run(need("fsx"), *flags, way.folder / "file", served=served)


def fio(way: Way, *options: str) -> list[str | Path]:
    """Write, with a checksum in each block, and read back."""
    return [
        need("fio"), "--name=job", f"--directory={way.folder}", "--size=6M", "--numjobs=2", "--group_reporting",
        "--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--verify_backlog=100", "--fallocate=none", "--thread=0",
        f"--aux-path={way.counters.parent}", *options,
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["write", "randwrite", "randrw"])
def test_fio_verifies_what_it_wrote(way: Way, pattern: str) -> None:
    way.run(*fio(way, "--ioengine=psync", "--bsrange=1k-64k", f"--rw={pattern}"), served=["read", "write"])


@pytest.mark.parametrize("way", MOUNTED, indirect=True)
def test_fio_with_asynchronous_requests(way: Way) -> None:
    """The kernel's io_submit, which no preload library sees."""
    way.run(*fio(way, "--ioengine=libaio", "--iodepth=16", "--direct=1", "--bs=8k", "--rw=randwrite"))


def test_fio_appends_and_synchronises(way: Way) -> None:
    options = ["--ioengine=sync", "--bs=5000", "--rw=write", "--fsync=50", "--file_append=1", "--unlink=1"]
    way.run(*fio(way, *options), served=["read"])


def test_dbench(way: Way) -> None:
    """A file server's load, by two clients."""
    load = Path("/usr/share/dbench/client.txt")
    if not load.is_file():
        pytest.skip(f"{load} is missing; `make setup` installs dbench")
    wanted = ["open", "write", "read", "unlink", "rename"]
    for seconds in DBENCH_SECONDS:
        flags: list[str | Path] = ["--clients-per-process=1", "-c", load, "-D", way.folder, "-t", seconds, "2"]
        answer = way.run(need("dbench"), *flags)
        assert "Throughput" in answer.stdout
        assert "ERROR" not in answer.stdout
        if not way.is_fast or all(way.served()[kind] for kind in wanted):
            break
    way.check_served(wanted)


def test_bonnie(way: Way) -> None:
    """Sizes are given: its own choice is twice the memory, and 20 MB of writes of one byte each."""
    user = ["-u", "root"] if os.geteuid() == 0 else []
    flags: list[str | Path] = [
        "-d",
        way.folder,
        "-s",
        "64M:64k",
        "-r",
        "32M",
        "-n",
        "2:2000:100:4",
        "-f",
        "-x",
        "1",
        "-q",
        "-m",
        "store",
    ]
    answer = way.run(need("bonnie++"), *flags, *user, served=["write", "read", "stat", "unlink"])
    assert ",store," in answer.stdout
    way.shell('test -z "$(find . -type f)"')


def test_fs_mark(way: Way) -> None:
    """Many small files, synchronised in each way that it knows."""
    for method in ("0", "1", "5"):
        flags = ["-n", "60", "-s", "9000", "-t", "2", "-D", "4", "-S", method, "-k", "-l", "/dev/null"]
        answer = way.shell('"$1" -d . "${@:2}"', need("fs_mark"), *flags, served=["open", "write"])
        assert "FSUse%" in answer
    way.shell("test $(find . -type f -size 9000c | wc -l) = 360")
