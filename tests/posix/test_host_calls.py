"""The library never changes what a call outside the store answers: results, errno, bytes, offsets, ends of processes."""

import host_calls
import pytest
from store import Store
from ways import PRELOAD, has_fuse


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> host_calls.Program:
    return host_calls.build(tmp_path_factory.mktemp("host-calls"))


def check(program: host_calls.Program, found: host_calls.Outcomes) -> None:
    differences = program.differences(found)
    assert not differences, f"{len(differences)} of {len(found)} calls differ\n" + "\n".join(differences[:50])


def test_every_symbol_has_cases(program: host_calls.Program) -> None:
    """A symbol that is added to the library without cases here fails."""
    assert program.symbols() == host_calls.defined()
    made = {case.split()[0] for case in program.plain}
    assert made == program.symbols()


def test_the_cases_are_the_same_each_time(program: host_calls.Program) -> None:
    check(program, program.again())


@pytest.mark.parametrize("name", host_calls.STORELESS)
def test_host_calls_without_a_store(program: host_calls.Program, name: str) -> None:
    check(program, program.storeless(name))


@pytest.mark.parametrize("name", host_calls.WITH_STORE)
def test_host_calls_beside_a_store(program: host_calls.Program, shared_store: Store, name: str) -> None:
    """The process has a file of the store open, so its tables are in use and its client is connected."""
    if name == PRELOAD and not has_fuse():
        pytest.skip("there is no /dev/fuse")
    check(program, program.beside(shared_store, name))
