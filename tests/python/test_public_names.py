"""What `dir()` and `help()` show: every public name, with one line each."""

import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import weir
from waits import PATIENCE_SECONDS

MODULES = [getattr(weir, name) for name in weir.__all__]
LINE_MAX = 120


def names() -> Iterator[tuple[ModuleType, str]]:
    for module in MODULES:
        yield from ((module, name) for name in module.__all__)


def own(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class of Weir defines, also in its own bases."""
    for base in kind.__mro__:
        if base.__module__.startswith("weir."):
            for name, value in vars(base).items():
                if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                    yield name, value


def first_line(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


@pytest.mark.parametrize("module", [weir, *MODULES], ids=lambda module: module.__name__)
def test_dir_shows_the_public_names_alone(module: ModuleType) -> None:
    assert dir(module) == sorted(module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_help_of_weir_has_a_line_for_each_module() -> None:
    text = weir.__doc__ or ""
    for module in MODULES:
        name = module.__name__.removeprefix("weir.")
        assert re.search(rf"^{name} +{re.escape(first_line(module))}$", text, re.MULTILINE), name


@pytest.mark.parametrize(("module", "name"), list(names()), ids=lambda each: getattr(each, "__name__", each))
def test_each_public_name_has_a_line_and_stands_in_help(module: ModuleType, name: str) -> None:
    value = getattr(module, name)
    line = first_line(value)
    assert line.endswith("."), f"the first line of {module.__name__}.{name} is no sentence"
    assert 10 <= len(line) <= LINE_MAX
    # pydoc makes words bold as a typewriter does.
    shown = re.sub(".\x08", "", pydoc.render_doc(module))
    assert re.search(rf"\b{name}\b", shown)
    assert line in shown


@pytest.mark.parametrize(
    "kind", sorted({getattr(*each) for each in names() if inspect.isclass(getattr(*each))}, key=str)
)
def test_each_method_and_property_has_a_line(kind: type) -> None:
    for name, value in own(kind):
        assert len(first_line(value)) >= 10, f"{kind.__name__}.{name} says nothing"


def test_weir_is_imported_at_once() -> None:
    """A program that names one module imports no other."""
    code = (
        "import sys, weir; dir(weir); weir.store.StoreError; "
        "print(sorted({'numpy', 'matplotlib', 'msgspec', 'asyncio', 'subprocess'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    assert told.stdout == "[]\n"


def test_without_the_packages_of_extras_names_are_listed_and_say_what_they_need() -> None:
    code = (
        "import pydoc, sys\n"
        "for name in ('numpy', 'msgspec', 'matplotlib', 'scipy', 'pyarrow', 'fsspec'): sys.modules[name] = None\n"
        "import weir\n"
        "for module in (weir, weir.store, weir.plots): assert pydoc.render_doc(module)\n"
        "assert 'plan' in dir(weir.provisioning)\n"
        "for module, name in (('weir', 'adaptive'), ('weir.provisioning', 'Plan'), ('weir.simulation', 'run')):\n"
        "    try: getattr(sys.modules[module] if module == 'weir' else __import__(module, fromlist=['x']), name)\n"
        "    except (AttributeError, ImportError) as error: print(error, *getattr(error, '__notes__', ()))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    lines = told.stdout.splitlines()
    assert len(lines) == 3
    assert "weir.adaptive needs numpy, which is not installed" in lines[0]
    assert all("pip install" in line for line in lines)
