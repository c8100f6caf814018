"""Programs as people use them do below the prefix, without a mount, what they do on tmpfs."""

import subprocess
import sys
from pathlib import Path

import prefix_programs
import pytest
from prefix_programs import PROGRAMS
from ways import PREFIX, Way

NAMES = [name for name, program in PROGRAMS.items() if program.is_short]


@pytest.mark.parametrize("way", [PREFIX], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_a_program_does_what_it_does_on_tmpfs(way: Way, name: str) -> None:
    if missing := PROGRAMS[name].missing():
        pytest.skip(f"this machine has no {', '.join(missing)}")
    command = ["env", *(f"{key}={value}" for key, value in way.variables().items()), *way.command]
    found = prefix_programs.difference(name, command, way.folder / "directory")
    assert not found, found


SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
FILE *fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
    FILE *(*real)(void *, const char *, cookie_io_functions_t) = dlsym(RTLD_NEXT, "fopencookie");
    FILE *made = real(cookie, mode, functions);
    made->_offset = 1;
    return made;
}
"""


@pytest.mark.parametrize("way", [PREFIX], indirect=True)
def test_a_stream_of_another_c_library_is_refused(way: Way, tmp_path: Path) -> None:
    """A C library that keeps something else in a stream would lose bytes."""
    (tmp_path / "shim.c").write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "shim.so", tmp_path / "shim.c"], check=True)
    code = (
        "import ctypes, errno, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "print(bool(libc.fopen(sys.argv[1].encode(), b'w')), ctypes.get_errno() == errno.EOPNOTSUPP)"
    )
    script = 'LD_PRELOAD="$LD_PRELOAD:$1" "$2" -c "$3" file && "$2" -c "$3" file && cat file'
    told = way.shell(script, tmp_path / "shim.so", sys.executable, code)
    assert told.split()[:3] == ["False", "True", "True"]
