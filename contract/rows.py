"""The path and the headers of a row on its way from the gateway to a handler, and of its
answer.

Points in time are milliseconds of the machine's monotonic clock, which all its processes
share. A handler on another machine gets a span instead.
"""

from functools import cache

#: After which nobody waits for the answer.
DEADLINE = "X-Deadline-Ms"
#: The milliseconds that are left until then, for a handler on another machine.
REMAINING = "X-Remaining-Ms"
#: At which the gateway sent the row.
SENT = "X-Sent-Ms"
#: The row's number in the file that says which rows are still wanted.
NUMBER = "X-Row"
#: A query string with the request's parameters. TorchServe 0.12 does not pass on a URL's.
PARAMETERS = "X-Parameters"
#: The place of the row in a client's trace (W3C's Trace Context).
TRACE = "traceparent"
#: On the way back from a cluster: which replica has answered.
REPLICA = "X-Replica"


@cache
def prediction_path(model: str) -> str:
    """Return the path of a model's predictions: TorchServe's, which Ray Serve has as well."""
    return f"/predictions/{model}"
