"""Keeps the event loop free: calls functions in threads, and lets other greenlets run."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, ParamSpec, TypeVar

from gevent import get_hub, sleep
from gevent.threadpool import ThreadPool

Given = ParamSpec("Given")
Out = TypeVar("Out")

#: The most threads for each use that may hang. The loop's own threads, which also look up the
#: addresses of models, must not wait for it.
_THREADS = {"disk": 10, "keys": 4, "glossaries": 4, "terms": 1}
#: For gevent, 0 means no timer.
_MOMENT_S = 1e-12
#: The number of sentences on which work takes a few milliseconds.
MANY = 64


@cache
def _find_pool(hub: Any, use: str) -> ThreadPool:
    return ThreadPool(_THREADS[use], hub)


def call_in_thread(
    use: str, function: Callable[Given, Out], *args: Given.args, **kwargs: Given.kwargs
) -> Out:
    """Call `function` in a thread for this `use`; return its result or raise its error."""
    return _call(_find_pool(get_hub(), use), function, args, kwargs)


def run_beside(
    function: Callable[Given, Out], *args: Given.args, **kwargs: Given.kwargs
) -> Out:
    """Call `function` in a thread of the loop itself, like `call_in_thread`."""
    return _call(get_hub().threadpool, function, args, kwargs)


def _call(
    pool: ThreadPool, function: Callable[..., Out], args: Any, kwargs: Any
) -> Out:
    """Let the thread return an error: gevent would log one that leaves it, and most are only a
    client's mistake."""
    result, error = pool.apply(_settle, (function, args, kwargs))
    try:
        if error is not None:
            raise error
    finally:
        del error  # its traceback refers to this frame
    return result  # type: ignore[no-any-return]


def _settle(
    function: Callable[..., Any], args: Any, kwargs: Any
) -> tuple[Any, Exception | None]:
    try:
        return function(*args, **kwargs), None
    except Exception as error:  # the caller raises it
        return None, error


def let_others_run() -> None:
    """Let every other ready greenlet run once. With `sleep(0)`, gevent would check its sockets
    only after dozens of callbacks."""
    sleep(_MOMENT_S)


def pause_between(items: Iterable[Out]) -> Iterator[Out]:
    """Yield items, and let others run in between after many."""
    for number, item in enumerate(items, 1):
        yield item
        if number % MANY == 0:
            let_others_run()
