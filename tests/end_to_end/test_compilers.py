"""A C compiler builds a project on the store and the result runs there; static and Go programs go through the mount."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from waits import PATIENCE_SECONDS
from ways import MOUNTED, PREFIX, Way

PROGRAMS = Path(__file__).parent / "programs"

PROJECT = {
    "Makefile": """
CFLAGS = -O1 -fPIC -Wall -Werror -MMD
all: program libshared.so
program: main.o sum.o libstatic.a
\t$(CC) -o $@ main.o sum.o -L. -lstatic
libstatic.a: product.o
\t$(AR) rcs $@ $^
libshared.so: sum.o product.o
\t$(CC) -shared -o $@ $^
clean:
\trm -f *.o *.d *.a *.so program
-include *.d
""",
    "numbers.h": "int sum(int, int);\nint product(int, int);\n",
    "sum.c": '#include "numbers.h"\nint sum(int a, int b) { return a + b; }\n',
    "product.c": '#include "numbers.h"\nint product(int a, int b) { return a * b; }\n',
    "main.c": '#include <stdio.h>\n#include "numbers.h"\nint main(void) { printf("%d\\n", product(sum(1, 2), 4)); return 0; }\n',
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_make_builds_a_project_and_runs_it(way: Way, project: Path) -> None:
    way.shell(
        """
        cp $1/* . && make -s -j2 && test "$(./program)" = 12 && make -q
        nm -D libshared.so | grep -q product && sleep 0.01 && touch numbers.h && refused make -q && make -s -j2
        test "$(./program)" = 12 && make -s clean && ! ls | grep -q '\\.o$'
        """,
        project,
        served=["open", "read", "write", "stat"],
    )


def outside(command: list[str], **environment: str) -> None:
    """Build something on the machine's own disk."""
    answer = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert answer.returncode == 0, f"{answer.stdout}{answer.stderr}"


@pytest.mark.parametrize("way", MOUNTED, indirect=True)
def test_a_static_program(way: Way, tmp_path: Path) -> None:
    """It knows no LD_PRELOAD; what goes into it goes through the kernel."""
    outside(["gcc", "-static", "-O1", "-o", str(tmp_path / "files"), str(PROGRAMS / "files.c")])
    assert way.run(tmp_path / "files", way.folder).stdout == "done\n"
    way.shell("cp $1/files . && ./files .", tmp_path)


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("go")
    if shutil.which("go") is None:
        pytest.skip("there is no Go compiler")
    cache = {"GOCACHE": str(folder / "cache"), "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    outside(["go", "build", "-o", str(folder / "files"), str(PROGRAMS / "files.go")], **cache)
    return folder / "files"


@pytest.mark.parametrize("way", MOUNTED, indirect=True)
def test_a_go_program(way: Way, go_program: Path) -> None:
    """Go makes its system calls itself, from many threads."""
    assert way.run(go_program, way.folder).stdout == "done\n"


def test_a_program_with_the_same_calls_through_libc(way: Way, tmp_path: Path) -> None:
    """What the static program does, where the fast path sees it."""
    defines = ["-DWITHOUT_MAPPING"] if way.name == PREFIX else []
    outside(["gcc", "-O1", *defines, "-o", str(tmp_path / "files"), str(PROGRAMS / "files.c")])
    served = ["open", "write", "read", "rename", "list", "truncate", "lock"]
    assert way.run(tmp_path / "files", way.folder, served=served).stdout == "done\n"
