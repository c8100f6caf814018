"""On Lustre the preload library makes foreseen files through liblustreapi.

No Lustre runs here. A small library with the same functions, and a statfs(2) that answers as Lustre's, stands in for
it: `programs/lustreapi.c`. It has to lie on a file system of its own, as Lustre does: /dev/shm.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from store import Store
from waits import PATIENCE_SECONDS
from weir.native import preload_library
from weir.placement.database import END_OF_FILE, Component, write

PROGRAMS = Path(__file__).parent / "programs"
MIB = 1 << 20
SHARED_MEMORY = Path("/dev/shm")


@dataclass
class Lustre:
    """A folder that plays a Lustre file system."""

    folder: Path
    library: Path
    log: Path
    database: Path
    report: Path
    store: Store

    def foresee(self, *components: Component) -> None:
        write(self.database, components)

    def component(self, name: str, targets: str, **fields: int) -> Component:
        count = len(targets.split())
        given = {"component": 1, "extent_start": 0, "extent_end": END_OF_FILE, "stripe_bytes": MIB, "size_bytes": 5}
        values = {**given, "stripe_count": count, "rank": 0, **fields}
        return Component(str(self.folder / name), **values, targets=tuple(targets.split()))

    def run(self, *command: str | Path, osts: int = 36, library: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program with the database, as `weir run` without a store does; the stand-in lies behind ours."""
        preloaded = [str(preload_library()), str(self.library)]
        environment = self.store.variables(
            LD_PRELOAD=" ".join(preloaded),
            LUSTRE_FOLDER=str(self.folder),
            LUSTRE_LOG=str(self.log),
            LUSTRE_OSTS=str(osts),
            LD_LIBRARY_PATH=str(self.library.parent if library else self.folder),
            WEIR_PLACEMENT=str(self.database),
            WEIR_PLACEMENT_REPORT=str(self.report),
        )
        return subprocess.run(
            [str(part) for part in command],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )

    def told(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def reported(self) -> dict[str, int]:
        reports = [json.loads(line) for line in self.report.read_text().splitlines()]
        return {name: sum(report[name] for report in reports) for name in ("placed", "present", "refused", "missed")}


@pytest.fixture
def lustre(store: Store, tmp_path: Path) -> Iterator[Lustre]:
    if not os.access(SHARED_MEMORY, os.W_OK) or SHARED_MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system")
    library = tmp_path / "lib" / "liblustreapi.so.1"
    library.parent.mkdir()
    compiler = ["gcc", "-shared", "-fPIC", "-o", str(library), str(PROGRAMS / "lustreapi.c"), "-ldl"]
    subprocess.run(compiler, check=True, timeout=PATIENCE_SECONDS)
    with tempfile.TemporaryDirectory(prefix="weir-lustre-", dir=SHARED_MEMORY) as folder:
        log, database, report = (tmp_path / name for name in ("log", "placement.db", "report"))
        yield Lustre(Path(folder), library, log, database, report, store)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_plain_layout(lustre: Lustre) -> None:
    lustre.foresee(lustre.component("test.0", "14 3 20"))
    lustre.run("sh", "-c", "umask 027; echo words > test.0; cat test.0")
    assert lustre.told() == [f"{lustre.folder}/test.0 640 0--1:1048576:3:14,3,20"]
    assert (lustre.folder / "test.0").read_text() == "words\n"
    assert lustre.reported() == {"placed": 1, "present": 0, "refused": 0, "missed": 0}


def test_a_composite_layout_as_the_papers(lustre: Lustre) -> None:
    first = lustre.component("test.0", "10", extent_end=128 * MIB, stripe_bytes=128 * MIB)
    second = lustre.component(
        "test.0", "24 29 34", component=2, extent_start=128 * MIB, extent_end=512 * MIB, stripe_bytes=128 * MIB
    )
    third = lustre.component("test.0", "15 2", component=3, extent_start=512 * MIB, stripe_bytes=192 * MIB)
    lustre.foresee(first, second, third)
    lustre.run("dd", "if=/dev/zero", "of=test.0", "bs=1", "count=3")
    assert lustre.told() == [
        f"{lustre.folder}/test.0 644 composite 0-134217728:134217728:1:10 "
        "134217728-536870912:134217728:3:24,29,34 536870912--1:201326592:2:15,2"
    ]
    assert (lustre.folder / "test.0").stat().st_size == 3


def test_before_allocation_the_count_alone_is_set(lustre: Lustre) -> None:
    lustre.foresee(lustre.component("test.0", "", stripe_count=4))
    lustre.run("touch", "test.0")
    assert lustre.told() == [f"{lustre.folder}/test.0 644 0--1:1048576:4:"]


def test_every_way_to_make_a_file(lustre: Lustre) -> None:
    names = ["open", "exclusive", "readonly", "stream", "child"]
    lustre.foresee(*(lustre.component(name, "1 2") for name in names))
    lustre.run(
        *python(
            "import os, ctypes\n"
            "os.umask(0o022)\n"
            "os.close(os.open('open', os.O_CREAT | os.O_RDWR))\n"
            "os.close(os.open('exclusive', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))\n"
            "try: os.open('exclusive', os.O_CREAT | os.O_EXCL); raise SystemExit('made twice')\n"
            "except FileExistsError: pass\n"
            "f = os.open('readonly', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o400); os.write(f, b'x'); os.close(f)\n"
            "libc = ctypes.CDLL(None); libc.fopen.restype = ctypes.c_void_p\n"
            "assert libc.fopen(b'stream', b'wx')\n"
            "child = os.fork()\n"
            "if child == 0:\n os.close(os.open('child', os.O_CREAT | os.O_WRONLY)); os._exit(0)\n"
            "os.waitpid(child, 0)\n"
        )
    )
    assert [line.split()[0] for line in lustre.told()] == [str(lustre.folder / name) for name in names]
    assert (lustre.folder / "readonly").stat().st_mode & 0o777 == 0o400
    assert lustre.reported() == {"placed": 5, "present": 1, "refused": 0, "missed": 0}


def test_what_is_there_or_was_not_foreseen_is_left_alone(lustre: Lustre) -> None:
    (lustre.folder / "present").write_text("old ")
    lustre.foresee(lustre.component("present", "1"))
    lustre.run("sh", "-c", "echo new >> present; echo x > other; echo y > /dev/null")
    assert lustre.told() == []
    assert (lustre.folder / "present").read_text() == "old new\n"
    assert lustre.reported() == {"placed": 0, "present": 1, "refused": 0, "missed": 1}


def test_outside_of_lustre_nothing_is_placed(lustre: Lustre, tmp_path: Path) -> None:
    elsewhere = tmp_path / "file"
    path = lustre.component("x", "1")
    lustre.foresee(Component(str(elsewhere), *(getattr(path, name) for name in Component.__slots__[1:])))
    lustre.run("touch", elsewhere)
    assert elsewhere.exists()
    assert lustre.told() == []
    assert not lustre.report.exists()


def test_an_ost_that_is_not_there(lustre: Lustre) -> None:
    lustre.foresee(lustre.component("test.0", "3 99"))
    code = "import os; os.write(os.open('test.0', os.O_CREAT | os.O_EXCL | os.O_WRONLY), b'words')"
    lustre.run(*python(code), osts=36)
    assert (lustre.folder / "test.0").read_text() == "words"
    assert lustre.told() == []
    assert lustre.reported() == {"placed": 0, "present": 0, "refused": 1, "missed": 0}


def test_targets_of_a_weir_store_are_none_of_lustre(lustre: Lustre) -> None:
    lustre.foresee(lustre.component("test.0", "3.1"))
    lustre.run("sh", "-c", "echo words > test.0")
    assert (lustre.folder / "test.0").read_text() == "words\n"
    assert lustre.reported()["refused"] == 1


def test_a_signal_handler_goes_without_liblustreapi(lustre: Lustre, tmp_path: Path) -> None:
    source, program = tmp_path / "handler.c", tmp_path / "handler"
    source.write_text(
        "#include <fcntl.h>\n#include <signal.h>\n#include <unistd.h>\n"
        'static void handler(int n) { (void)n; close(open("handled", O_CREAT | O_WRONLY, 0644)); }\n'
        "int main(void) { signal(SIGUSR1, handler); raise(SIGUSR1);\n"
        'return close(open("after", O_CREAT | O_WRONLY, 0644)); }\n'
    )
    subprocess.run(["gcc", "-o", program, source], check=True, timeout=PATIENCE_SECONDS)
    lustre.foresee(lustre.component("handled", "1"), lustre.component("after", "2"))
    lustre.run(program)
    assert (lustre.folder / "handled").exists()
    assert [line.split()[0] for line in lustre.told()] == [f"{lustre.folder}/after"]
    assert lustre.reported() == {"placed": 1, "present": 0, "refused": 1, "missed": 0}


def test_without_liblustreapi_there_is_one_warning(lustre: Lustre, tmp_path: Path) -> None:
    # The stand-in under another name: its statfs is there, its liblustreapi is not to be found.
    renamed = tmp_path / "other" / "libother.so"
    renamed.parent.mkdir()
    lustre.library.rename(renamed)
    lustre.library = renamed
    lustre.foresee(lustre.component("a", "1"), lustre.component("b", "2"))
    code = "open('a', 'w').write('words'); open('b', 'w').write('words')"
    answer = lustre.run(*python(code))
    assert answer.stderr.count("weir:") == 1
    assert "liblustreapi.so.1" in answer.stderr
    assert "weir place --emit lfs" in answer.stderr
    assert [(lustre.folder / name).read_text() for name in "ab"] == ["words", "words"]
    assert lustre.reported()["refused"] == 2


def test_weir_run_needs_no_store_for_it(lustre: Lustre) -> None:
    lustre.foresee(lustre.component("test.0", "7 8"))
    answer = lustre.store.weir(
        "run",
        "--placement",
        lustre.database,
        "--",
        "sh",
        "-c",
        f"echo words > {lustre.folder}/test.0",
        environment={
            "LD_PRELOAD": str(lustre.library),
            "LD_LIBRARY_PATH": str(lustre.library.parent),
            "LUSTRE_FOLDER": str(lustre.folder),
            "LUSTRE_LOG": str(lustre.log),
            "LUSTRE_OSTS": "36",
        },
    )
    assert answer.stderr == ""
    assert lustre.told() == [f"{lustre.folder}/test.0 644 0--1:1048576:2:7,8"]
    assert json.loads(Path(f"{lustre.database}.report").read_text())["placed"] == 1


def test_weir_run_refuses_what_is_no_database(lustre: Lustre) -> None:
    lustre.database.write_text("words")
    answer = lustre.store.weir("run", "--placement", lustre.database, "--", "true", code=1)
    assert "interaction database" in answer.stderr
    assert "hint: " in answer.stderr
