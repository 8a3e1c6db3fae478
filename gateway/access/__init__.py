"""Decides who may use the service, how much, and how often. Keys are off by default: then
nothing here costs a request anything, and the libraries for databases are not loaded.
"""

from collections.abc import Sequence

from gateway.access.usage import Usage
from gateway.http.bodies import Bodies
from gateway.http.middleware import Before
from gateway.http.request import Fields, GatewayRequest
from gateway.settings import Settings

__all__ = ["Access", "Usage", "open_access"]


class Access:
    """The interface of access for routes; here while keys are off. `control.py` has the
    other."""

    #: Whether requests without a key are refused.
    is_required = False
    #: The layer that checks keys.
    before: Sequence[Before] = ()

    def read_usage(self, request: GatewayRequest) -> Usage:
        """Return the usage of a request's key this month, and its limit."""
        return Usage(0, None)

    def admit_form(self, request: GatewayRequest, fields: Fields) -> None:
        """Lets a request in whose form may have the key among its fields."""

    def close(self) -> None:
        """Writes what was used."""


def open_access(settings: Settings, bodies: Bodies) -> Access:
    """The keys of this stack, if its settings ask for them."""
    if settings.keys == "off":
        return Access()
    from gateway.access.control import Guard

    return Guard(settings, bodies)
