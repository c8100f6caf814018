"""The errors of the planner."""

from typing import Literal

from weir.errors import WeirError

Code = Literal["invalid", "denied", "missing", "conflict", "busy", "infeasible", "failed"]
"""Kinds of refusals, for programs.

`invalid`: the request, or a document in it, is wrong. `denied`: the right is missing. `missing`: there is no such
deployment, log or past plan. `conflict`: the deployment's state does not allow the step. `busy`: a limit is reached;
the same request may be granted later. `infeasible`: no storage fits. `failed`: the step, or the planner itself, failed.
"""


class PlannerError(WeirError):
    """A refusal of the planner, or a planner that cannot be used.

    Attributes:
        code: Kind of the refusal.
    """

    def __init__(self, message: str, *, hint: str = "", code: Code = "invalid") -> None:
        """Report a refusal.

        Args:
            message: The failure, with the thing that it concerns.
            hint: A remedy; empty where none is known.
            code: Kind of the refusal.
        """
        super().__init__(message, hint=hint)
        self.code: Code = code


class DatabaseError(PlannerError):
    """A change that the database did not take. The same request may be granted once the database is back."""

    def __init__(self, error: PlannerError) -> None:
        """Tell of the failure.

        Args:
            error: The error of the store.
        """
        super().__init__(error.message, hint=error.hint, code="busy")
