"""The path and headers of a row that the gateway sends to a handler, and of its answer.

Points in time are milliseconds of the monotonic clock, which all processes of a machine share.
A handler on another machine gets a duration instead.
"""

from functools import cache

#: The time after which the gateway no longer waits for the answer.
DEADLINE = "X-Deadline-Ms"
#: The milliseconds left until the deadline, for a handler on another machine.
REMAINING = "X-Remaining-Ms"
#: The time at which the gateway sent the row.
SENT = "X-Sent-Ms"
#: The row's number in the file that marks which rows are still wanted.
NUMBER = "X-Row"
#: A query string with the request's parameters. TorchServe 0.12 does not pass on a URL's.
PARAMETERS = "X-Parameters"
#: The row's position in a client's trace (W3C Trace Context).
TRACE = "traceparent"
#: The replica that has answered, in the answers of a cluster.
REPLICA = "X-Replica"


@cache
def prediction_path(model: str) -> str:
    """Return the path of a model's predictions, in TorchServe and in Ray Serve."""
    return f"/predictions/{model}"
