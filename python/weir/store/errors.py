"""The errors of a store's life."""

from weir.errors import WeirError


class StoreError(WeirError):
    """A store that cannot be brought up, asked or taken down."""


class SettingsError(StoreError):
    """Settings of a store that cannot be used; nothing was started."""


class SilentServerError(StoreError):
    """A server that does not answer: it is down, or cannot be reached."""


class NotYetError(StoreError):
    """A server that cannot do a request now, and may be able to later."""


class AnswerError(StoreError):
    """An answer that is not that of a server of this version."""


class UnprovenServerError(SilentServerError):
    """A program at the address of a server that does not prove to be the server: it was told nothing."""
