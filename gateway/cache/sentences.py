"""Answers sentences that were answered before. Equal sentences in flight are sent once."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import gevent
from gevent.event import AsyncResult

from catalog import Model
from gateway.backends.backend import Backend
from gateway.cache.remote import RemoteCache
from gateway.cache.table import CacheKey, make_key, share
from gateway.errors import RowProblem
from gateway.http.request import Call
from gateway.metrics import Telemetry
from gateway.settings import Settings
from gateway.threads import pause_between
from text.composition import Row
from text.options import TranslationRequest

#: A handler's answer, with the digest of the model that produced it.
Answer = dict[str, Any]
#: The outcome of a row: its answer, a fault that an equal row would also have, or None.
_Outcome = Answer | RowProblem | None

#: The digest's key in an answer.
DIGEST = "model"
#: The event that all waits for a row end with, for error messages.
_STAGE = "the model answered"
#: Seconds between two checks of a row that another process has in flight.
_PAUSE_S = 0.005
#: Statuses of faults in a row. Any other problem is due to the deadline or the model.
_FAULTS_OF_ROWS = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
#: Seconds for which the state of a model's workers is reused, and the longest wait for it.
_SEEN_S, _LOOK_S = 1.0, 0.1


class ServedModel:
    """The weights that answer under a model's name. Workers of another life may have other
    weights, which are unknown until they have answered a row."""

    def __init__(self, model: Model, backend: Backend) -> None:
        self.name, self._backend = model.name, backend
        #: The last known life of the model's workers, and when it was read.
        self._life, self._seen_at = "", 0.0
        self._looking: gevent.Greenlet | None = None
        #: The digest in the latest answer, empty before the first, and the life it is from.
        self.digest, self._told_in = "", ""

    def is_still(self, digest: str) -> bool:
        """Whether the model that answers now has this digest."""
        return digest == self.digest and self._look_again() == self._told_in

    def find_life(self) -> str:
        """Return the last known life of the workers, however old: if it is outdated, that is
        noticed as soon as its digest is used. Empty if unknown."""
        return self._life or self._look_again()

    def learn(self, digest: str, life: str) -> None:
        """Record the digest in an answer to a row that was sent in this life."""
        if life and life == self._life:
            self.digest, self._told_in = digest, life

    def _look_again(self) -> str:
        """Return the workers' current life; empty if it is not known soon enough."""
        if time.monotonic() - self._seen_at > _SEEN_S:
            looking = self._looking = self._looking or gevent.spawn(self._look)
            looking.join(_LOOK_S)
            if not looking.ready():
                return ""
        return self._life

    def _look(self) -> None:
        try:
            state = self._backend.states([self.name])[self.name]
            self._life = state.life if state and state.is_ready else ""
            self._seen_at = time.monotonic()
        finally:
            self._looking = None


class SentenceCache:
    """All models' answers, in memory and, with a URL, in Redis. A size of 0 turns it off."""

    def __init__(
        self,
        backend: Backend,
        models: Sequence[Model],
        settings: Settings,
        telemetry: Telemetry,
    ) -> None:
        url, size = settings.cache_url, settings.cache_bytes
        self.count = partial(telemetry.count, telemetry.cached)
        self.is_on = size > 0
        self.models = {model.name: ServedModel(model, backend) for model in models}
        self.flights: dict[tuple[object, ...], AsyncResult[_Outcome]] = {}
        self._table, self.claims, self.secret = share(size)
        if url:  # all machines with this Redis share its password, if it has one
            password = urlsplit(url).password or ""
            self.secret = hashlib.blake2b(password.encode()).digest()
        self._remote = RemoteCache(url) if url and size else None

    def open(self, model: str, wanted: TranslationRequest, call: Call) -> CachedRows:
        """Return the rows of one request to a model."""
        return CachedRows(self, self.models[model], wanted, call)

    def find(self, keys: Sequence[CacheKey]) -> list[Answer | None]:
        """Return the answer of each key, or None."""
        found = [self._table.get(key) for key in pause_between(keys)]
        missing = [i for i, value in enumerate(found) if value is None]
        if missing and self._remote:
            there = self._remote.get([keys[i] for i in missing])
            for i, value in zip(missing, there, strict=True):
                found[i] = value
                if value is not None:
                    self._table.put(keys[i], value)
        return [json.loads(value) if value else None for value in pause_between(found)]

    def keep(self, key: CacheKey, answer: Answer) -> None:
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        value = text.encode("utf-8", "surrogatepass")
        self._table.put(key, value)
        if self._remote:
            self._remote.put(key, value)


class CachedRows:
    """The rows of one request, by their sources and texts."""

    def __init__(
        self,
        cache: SentenceCache,
        model: ServedModel,
        wanted: TranslationRequest,
        call: Call,
    ) -> None:
        self._cache, self._model, self._call = cache, model, call
        self._digest = model.digest
        self._keys: dict[Row, CacheKey] = {}
        search = wanted.model_target, wanted.beam_size, wanted.alternatives
        self._shared = (call.cache_space, *search)
        self._flight = (model.name, *self._shared)

    def find(self, rows: Iterable[Row]) -> dict[Row, Answer]:
        """Return the stored answers, by row."""
        if not self._cache.is_on or not self._digest:
            return {}
        asked = list(rows)
        keys = [self._find_key(row) for row in pause_between(asked)]
        answers = self._cache.find(keys)
        found = {row: it for row, it in zip(asked, answers, strict=True) if it}
        if not found or not self._model.is_still(self._digest):
            return {}
        self._cache.count("hit", amount=len(found))
        self._call.timing.kept += len(found)
        return found

    def is_coming(self, row: Row) -> bool:
        """Whether an equal row is in flight."""
        return (*self._flight, row) in self._cache.flights

    def ask(self, row: Row, predict: Callable[[], Answer]) -> Answer:
        """Return the answer to a row, from `predict` or from an equal row in flight. If that
        one fails, the next waiting request calls `predict`, unless the row itself is at fault.
        Raises ClientGone, DeadlineExceeded, and the errors of `predict`."""
        if not self._cache.is_on:
            return predict()
        name = (*self._flight, row)
        flights = self._cache.flights
        while flight := flights.get(name):
            if answer := self._join(flight, row):
                return answer
        flight = flights[name] = AsyncResult()
        outcome: _Outcome = None
        claim = self._find_key(row)
        try:
            outcome = self._wait_for_others(claim, row) or self._ask(row, predict)
            return outcome
        except RowProblem as problem:
            if problem.status in _FAULTS_OF_ROWS:
                outcome = RowProblem(problem.to_document())
            raise
        finally:
            self._cache.claims.give_back(claim)
            del flights[name]
            flight.set(outcome)

    def _join(self, flight: AsyncResult[_Outcome], row: Row) -> Answer | None:
        """Wait for an equal row of another request, and return its answer. None if that failed,
        unless another answer has been stored since."""
        began = time.monotonic()
        # gevent 26.9 may not wake a greenlet that begins to wait just after an event was set.
        while not flight.ready():
            flight.wait(self._call.check(_STAGE))
        outcome: _Outcome = flight.value
        if isinstance(outcome, RowProblem):
            raise RowProblem(outcome.to_document())
        if outcome is None:
            return self.find([row]).get(row)
        self._call.timing.note(0.0, time.monotonic() - began, 0.0)
        self._cache.count("shared")
        return outcome

    def _wait_for_others(self, claim: CacheKey, row: Row) -> Answer | None:
        """Wait for another process's answer to an equal row. None if it has none, or failed."""
        claims, has_waited = self._cache.claims, False
        # Without a digest, the answer could not be found.
        while self._digest and claims.is_taken(claim):
            gevent.sleep(min(_PAUSE_S, self._call.check(_STAGE)))
            has_waited = True
        claims.take(claim, self._call.deadline)
        # An answer is stored before its claim ends: Redis need not be asked meanwhile.
        return self.find([row]).get(row) if has_waited else None

    def _ask(self, row: Row, predict: Callable[[], Answer]) -> Answer:
        life = self._model.find_life()
        answer = predict()
        self._cache.count("miss")
        if digest := answer.get(DIGEST):
            self._model.learn(digest, life)
            is_known = digest == self._digest
            key = self._find_key(row) if is_known else self._make_key(digest, row)
            self._cache.keep(key, answer)
        return answer

    def _find_key(self, row: Row) -> CacheKey:
        if (key := self._keys.get(row)) is None:
            key = self._keys[row] = self._make_key(self._digest, row)
        return key

    def _make_key(self, digest: str, row: Row) -> CacheKey:
        parts = map(str, (digest, *self._shared, *row))
        return make_key(self._cache.secret, "\0".join(parts))
