"""One plug-in: where it is from, how it is loaded, and how its methods are called."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from weir.plugins.errors import PluginError, failure
from weir.plugins.kinds import Kind


@dataclass(frozen=True, slots=True)
class Plugin:
    """An algorithm that is none of Weir's.

    It pickles by its name: another process, or another machine, loads it again.
    """

    kind: Kind
    name: str
    """Its name, as the user gives it."""
    target: str
    """`module:attribute`."""
    package: str = ""
    """The distribution that declares it, with its version; empty where the user named `module:attribute`."""
    given: Any = field(default=None, compare=False)
    """The plug-in itself, where a program gave it instead of a name."""

    @property
    def words(self) -> str:
        """The plug-in in the words of an error."""
        place = f"{self.package}, {self.target}" if self.package else self.target
        return f"{self.kind.name} `{self.name}` ({place})" if place != self.name else f"{self.kind.name} `{self.name}`"

    def load(self) -> Callable[..., Any]:
        """Import the plug-in.

        Returns:
            The maker of its objects: a class, or a function.

        Raises:
            PluginError: The import fails, there is no such attribute, or it is no plug-in of its kind.
        """
        maker = self.given
        if maker is None:
            module, _, attribute = self.target.partition(":")
            maker = self.call("its import", import_module, module)
            for part in attribute.split("."):
                if not hasattr(maker, part):
                    raise PluginError(self.name, f"the {self.words} is not there: {module} has no {attribute}")
                maker = getattr(maker, part)
        if not callable(maker):
            raise PluginError(
                self.name,
                f"the {self.words} is no class, and no function that makes one",
                hint=f"see {self.kind.page}",
            )
        if isinstance(maker, type):
            self._check_methods(maker)
        found: Callable[..., Any] = maker
        return found

    def make(self, seed: int = 0) -> Any:
        """Make an object of the plug-in, without a past.

        Args:
            seed: Start of all its dice, for kinds that have some.

        Raises:
            PluginError: The plug-in cannot be loaded, or its object cannot be made.
        """
        maker = self.load()
        made = self.call("its making", partial(maker, seed=seed) if self.kind.is_seeded else maker)
        self._check_methods(made)
        return made

    def call(self, where: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call code of the plug-in.

        Args:
            where: Name of the method, for the error.

        Raises:
            PluginError: The code raised an exception, which is the error's cause.
        """
        try:
            return function(*arguments)
        except PluginError:
            raise
        except (Exception, SystemExit) as error:
            # A plug-in that ends the interpreter would end the run without a word about itself.
            raise failure(self, where, error) from error

    def summary(self) -> str:
        """Tell the first line of the plug-in's docstring; empty where it has none.

        Raises:
            PluginError: The plug-in cannot be loaded.
        """
        return (self.load().__doc__ or "").strip().partition("\n")[0]

    def identity(self) -> str:
        """Tell builds of the plug-in apart: by its package, its name, and the source of its module.

        Raises:
            PluginError: The plug-in cannot be loaded.
        """
        import hashlib
        import inspect
        import sys

        module = sys.modules.get(getattr(self.load(), "__module__", ""))
        try:
            source = "" if module is None else inspect.getsource(module)
        except (OSError, TypeError):
            source = ""
        digest = hashlib.sha256(source.encode()).hexdigest()
        return f"{self.kind.group} {self.package} {self.target} {digest}"

    def _check_methods(self, made: object) -> None:
        missing = [name for name in self.kind.methods if not callable(getattr(made, name, None))]
        if missing:
            raise PluginError(self.name, f"the {self.words} has no method `{missing[0]}`", hint=f"see {self.kind.page}")
