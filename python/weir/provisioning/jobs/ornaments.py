"""Ornaments of a Flux jobspec (RFC 14, RFC 25): the user's wishes, and the storage that was planned for the job.

`attributes.user.weir` has the user's directives. `attributes.system.weir` has the deployment, and only the planner's
side writes it: a jobspec that brings one along loses it, so that no user names storage that nobody planned.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from weir.provisioning.deployments import Deployment
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.directives import Directives, of_attributes

KEY = "weir"
"""Name of both ornaments."""
_LISTS = ("stage_in", "stage_out")
"""Directives that may stand several times."""


def wish(jobspec: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Add directives of a command line to a jobspec.

    Args:
        words: Directives, such as `size=200GB`; one that the jobspec has already is replaced, except of transfers.

    Returns:
        The jobspec with the wishes at `attributes.user.weir`.

    Raises:
        ProvisioningError: A word is no directive, or has a value that cannot be.
    """
    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ProvisioningError(
                f"{word!r:.80} has no value", hint="write `--weir NAME=VALUE`, such as `--weir policy=utilization`"
            )
        if name in _LISTS:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise ProvisioningError(f"{name!r:.80} stands twice", hint="leave one of the two")
        else:
            given[name] = value
    present = _ornament(jobspec, "user")
    for name in _LISTS:
        if name in given and name in present:
            given[name] = [*_listed(present[name]), *given[name]]
    wishes = {**present, **given}
    of_attributes("jobspec", wishes)
    return _with(jobspec, "user", wishes or None)


def wishes_of(jobspec: Mapping[str, Any]) -> Directives | None:
    """Read the user's wishes.

    Returns:
        The directives; None where the job asks Weir for nothing.

    Raises:
        ProvisioningError: A wish is no directive, or the attributes are no mappings.
    """
    found = _ornament(jobspec, "user")
    return of_attributes("attributes.user.weir", found) if found else None


def ornament(jobspec: Mapping[str, Any], deployment: Deployment) -> dict[str, Any]:
    """Write the planned storage into a jobspec.

    Args:
        jobspec: The jobspec, whose wishes are checked.

    Returns:
        The jobspec with the deployment at `attributes.system.weir`, in place of any other there.

    Raises:
        ProvisioningError: The jobspec has no version 1 or 999, or a wish is no directive.
    """
    if jobspec.get("version") not in (1, 999):
        raise ProvisioningError(
            f"version {jobspec.get('version')!r:.40} of a jobspec is not known",
            hint="1 (RFC 25) and 999 (RFC 14) are known",
        )
    wishes_of(jobspec)
    # Through JSON, which has no tuples: programs of others read the jobspec.
    return _with(jobspec, "system", msgspec.json.decode(msgspec.json.encode(deployment)))


def bare(jobspec: Mapping[str, Any]) -> dict[str, Any]:
    """Take a deployment away that the jobspec's writer brought along.

    Returns:
        The jobspec without `attributes.system.weir`.

    Raises:
        ProvisioningError: The attributes are no mappings.
    """
    return _with(jobspec, "system", None)


def deployment_of(jobspec: Mapping[str, Any]) -> Deployment | None:
    """Read the storage that was planned for a job.

    Returns:
        The deployment; None where the jobspec is not ornamented.

    Raises:
        ProvisioningError: The ornament is no deployment schema.
    """
    found = _ornament(jobspec, "system")
    if not found:
        return None
    try:
        return msgspec.convert(found, Deployment)
    except msgspec.ValidationError as error:
        raise ProvisioningError(
            f"attributes.system.weir is no deployment: {error}", hint="`weir job ornament` writes it"
        ) from error


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _mapping(place: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ProvisioningError(f"{place} is {value!r:.80}, no mapping", hint="RFC 25 describes jobspecs")
    return value


def _attributes(jobspec: Mapping[str, Any], kind: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    attributes = _mapping("attributes", jobspec.get("attributes"))
    return attributes, _mapping(f"attributes.{kind}", attributes.get(kind))


def _ornament(jobspec: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    _, of_kind = _attributes(jobspec, kind)
    return _mapping(f"attributes.{kind}.{KEY}", of_kind.get(KEY))


def _with(jobspec: Mapping[str, Any], kind: str, value: Any) -> dict[str, Any]:
    """A copy that shares what stays the same; None takes the ornament away."""
    attributes, of_kind = _attributes(jobspec, kind)
    changed = {name: each for name, each in of_kind.items() if name != KEY}
    if value is not None:
        changed[KEY] = value
    elif kind not in attributes:
        return dict(jobspec)
    return {**jobspec, "attributes": {**attributes, kind: changed}}
