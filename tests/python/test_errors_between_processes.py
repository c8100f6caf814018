"""Errors of ours reach another process as they were raised: each class pickles."""

import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
from typing import Any, Literal, get_args, get_origin

import pytest
import weir
from failing_steps import fail
from waits import PATIENCE_SECONDS
from weir.adaptive.errors import DeadlineError, StepError
from weir.planner.errors import PlannerError


def error_classes() -> list[type[BaseException]]:
    """Every class of exceptions that a module of the package defines, those of the compiled module included."""
    found: set[type[BaseException]] = set()
    for module in pkgutil.walk_packages(weir.__path__, "weir."):
        # The preload library is no module of Python.
        if not module.name.endswith(("__main__", ".libweir_preload")):
            for value in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(value) and issubclass(value, BaseException) and value.__module__.startswith("weir"):
                    found.add(value)
    return sorted(found, key=lambda kind: f"{kind.__module__}.{kind.__qualname__}")


CLASSES = error_classes()
VALUES: dict[Any, Any] = {
    int: 7,
    str: "words",
    bytes: b"name",
    bool: True,
    OSError: OSError(28, "no room"),
    PlannerError: PlannerError("a plan", hint="another", code="busy"),
    weir.errors.WeirError: weir.errors.WeirError("a failure", hint="a remedy"),
}


def made(kind: type[BaseException]) -> BaseException:
    """An error of a class, with a value for each parameter of its constructor."""
    if "__init__" not in {name for base in kind.__mro__ if base.__module__.startswith("weir") for name in vars(base)}:
        return kind("words", 7)
    parameters = list(inspect.signature(kind, eval_str=True).parameters.values())
    values = {parameter.name: _value(parameter.annotation) for parameter in parameters}
    keyed = {each.name for each in parameters if each.kind == inspect.Parameter.KEYWORD_ONLY}
    positional = [value for name, value in values.items() if name not in keyed]
    return kind(*positional, **{name: values[name] for name in keyed})


def _value(annotation: Any) -> Any:
    if get_origin(annotation) is Literal:
        return get_args(annotation)[-1]
    return (b"one", "two") if get_origin(annotation) is tuple else VALUES[annotation]


def test_the_walk_finds_the_errors() -> None:
    assert len(CLASSES) > 50
    assert {StepError, DeadlineError} < set(CLASSES)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
def test_an_error_comes_back_from_its_pickle(kind: type[BaseException]) -> None:
    error = made(kind)
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert (str(back), repr(back.args)) == (str(error), repr(error.args))
    assert repr(sorted(vars(back).items())) == repr(sorted(vars(error).items()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_workers_gets_the_error_of_a_step(method: str) -> None:
    """The pool's thread ended at the pickle, and the caller waited for ever."""
    with multiprocessing.get_context(method).Pool(1) as pool:
        for number, kind in enumerate((DeadlineError, StepError)):
            with pytest.raises(kind, match="it is gone") as failed:
                pool.apply_async(fail, (number,)).get(timeout=PATIENCE_SECONDS)
            assert (failed.value.number, failed.value.place, failed.value.hint) == (number, "place", "write it again")
