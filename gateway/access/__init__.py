"""Decides which clients may use the service, how much, and how often. Keys are off by default;
then this package adds no work to a request and loads no libraries for databases.
"""

from collections.abc import Sequence

from gateway.access.usage import Usage
from gateway.http.bodies import Bodies
from gateway.http.middleware import Before
from gateway.http.request import Fields, GatewayRequest
from gateway.settings import Settings

__all__ = ["Access", "Usage", "open_access"]


class Access:
    """Access for routes while keys are off, and the interface of `control.Guard`."""

    #: Whether requests without a key are refused.
    is_required = False
    #: Middleware that checks keys.
    before: Sequence[Before] = ()

    def read_usage(self, request: GatewayRequest) -> Usage:
        """Return the usage of a request's key this month, and its limit."""
        return Usage(0, None)

    def admit_form(self, request: GatewayRequest, fields: Fields) -> None:
        """Admit a request whose form may contain the key."""

    def close(self) -> None:
        """Save the usage."""


def open_access(settings: Settings, bodies: Bodies) -> Access:
    """Return the access control that the settings ask for."""
    if settings.keys == "off":
        return Access()
    from gateway.access.control import Guard

    return Guard(settings, bodies)
