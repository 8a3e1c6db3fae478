"""The state of one model's replicas, and its effect on a row."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from catalog import Catalog
from gateway.backends.backend import ModelState
from gateway.backends.ray import replicas
from gateway.backends.ray.backend import RayBackend
from gateway.backends.ray.replicas import AttemptTimeout, ModelReplicas
from gateway.errors import NotReady


def find_state(backend: RayBackend) -> ModelState:
    state = backend.states(["ko"])["ko"]
    assert state
    return state


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("not-ready", "The replica is not ready."),
        ("loading", "The replica says not-ready."),
        ("crash", r"No replica answers \(status 500\)."),
        ("other", r"No replica answers \(status 200\)."),
        ("unserved", "The cluster serves no such model."),
        ("hang", "No replica answers."),
    ],
)
def test_a_model_is_ready_where_one_replica_is_and_else_says_why_not(
    backend, ingress, monkeypatch, state, reason
):
    monkeypatch.setattr("gateway.backends.backend._STATES_S", 0.0)
    monkeypatch.setattr(replicas, "_LOOK_S", 0.2)
    ingress[0].state = state
    assert find_state(backend) == ModelState(True, batch_size=8, queued_rows=3)
    ingress[1].state = state
    found = find_state(backend)
    assert (found.is_ready, found.batch_size, found.queued_rows) == (False, 64, 0)
    assert re.fullmatch(reason, found.reason)


def test_states_are_kept_for_a_moment(backend, ingress, monkeypatch):
    monkeypatch.setattr("gateway.backends.backend._STATES_S", 60.0)
    seen = backend.states(["ko", "en"])
    ingress[0].state = "crash"
    assert backend.states(["en", "ko"]) == seen
    assert ingress[0].looks == 2


@dataclass
class Scene:
    """A model with or without replicas, at a time that a test sets."""

    has_replicas: bool = False
    now_s: float = 1000.0
    look_s: float = 2.0
    looks: int = 0
    replicas: ModelReplicas = field(init=False)

    def look(self, *_: object) -> ModelState:
        """It takes time where nobody answers."""
        self.looks += 1
        self.now_s += 0.0 if self.has_replicas else self.look_s
        return ModelState(self.has_replicas, batch_size=1, queued_rows=0)

    def wait(self) -> None:
        """A row waits until it asks how the model is."""
        probe = self.replicas.make_probe(30.0)
        assert probe
        probe.ask()

    def refuse(self, rows: int = 3) -> list[bool]:
        """Whether each of the next rows is refused."""
        return [self._refuse_next() for _ in range(rows)]

    def _refuse_next(self) -> bool:
        try:
            self.replicas.check()
        except NotReady:
            return True
        return False


@pytest.fixture
def scene(
    monkeypatch: pytest.MonkeyPatch, models: Catalog, backend: RayBackend
) -> Scene:
    scene = Scene()
    scene.replicas = ModelReplicas(
        models.route("translation", "ko"), backend._addresses
    )
    monkeypatch.setattr("time.monotonic", lambda: scene.now_s)
    monkeypatch.setattr(replicas, "_find_state", scene.look)
    return scene


def test_a_model_of_which_nothing_is_known_is_asked(scene):
    assert scene.refuse() == [False] * 3


def test_a_model_without_replicas_is_refused_and_one_row_tries_it(scene):
    with pytest.raises(NotReady, match="replicas for ko do not answer") as refusal:
        scene.wait()
    assert int(refusal.value.headers["Retry-After"]) > 0
    assert scene.refuse() == [True] * 3
    for _ in range(2):
        scene.now_s += 2.0
        assert scene.refuse() == [False, True, True]


@pytest.mark.parametrize(
    "hear",
    [
        pytest.param(lambda scene: scene.replicas.hear(), id="an answer"),
        pytest.param(lambda scene: scene.replicas.state, id="a look"),
    ],
)
def test_a_model_that_answers_again_is_there(scene, hear: Callable[[Scene], None]):
    with pytest.raises(NotReady):
        scene.wait()
    scene.now_s += 2.0
    scene.has_replicas = True
    hear(scene)
    assert scene.refuse() == [False] * 3


@pytest.mark.parametrize(("heard_ago_s", "looks"), [(1.9, 0), (2.0, 1), (1000, 1)])
def test_a_row_waits_for_a_slow_model_that_is_there(scene, heard_ago_s, looks):
    scene.has_replicas = True
    scene.replicas.hear()
    scene.now_s += heard_ago_s
    scene.wait()
    assert scene.looks == looks
    assert scene.refuse() == [False] * 3


def test_looks_that_meet_a_replica_which_has_ended_refuse_no_row(scene, monkeypatch):
    """Another one answers soon."""
    scene.look_s = 0.0
    monkeypatch.setattr("time.sleep", lambda _: scene.replicas.hear())
    scene.wait()
    assert scene.refuse() == [False] * 3


def test_all_rows_that_wait_use_one_look(scene):
    for _ in range(5):
        with pytest.raises(NotReady):
            scene.wait()
    assert scene.looks == 1


@pytest.mark.parametrize(("remaining_s", "asks"), [(7.1, True), (7.0, False)])
def test_a_row_with_little_time_does_not_spend_it_on_looks(scene, remaining_s, asks):
    assert (scene.replicas.make_probe(remaining_s) is not None) is asks


@pytest.mark.parametrize(
    ("answers", "remaining_s", "limit_s"),
    [
        pytest.param([], 30, 15, id="of a new model nothing is known"),
        pytest.param([(0.5, 50)], 30, 15, id="a quick model"),
        pytest.param([(0.5, 50)], 0.8, 0.8, id="a quick model with little time"),
        pytest.param([(20, 50)], 30, 30, id="a slow model"),
        pytest.param([(20, 50)], 60, 30, id="a slow model with much time"),
        pytest.param([(15, 1)], 30, 30, id="one that was slow at first"),
        pytest.param([(0.5, 50), (15, 1)], 30, 15, id="one silence is no slowness"),
        pytest.param([(0.5, 50), (15, 8)], 30, 30, id="many silences are"),
        pytest.param([(15, 8), (0.5, 100)], 30, 15, id="one that is quick again"),
        pytest.param([(5, 20), (12, 20)] * 3, 30, 30, id="one that varies"),
    ],
)
def test_an_attempt_gets_half_of_the_time_unless_the_model_usually_needs_more(
    answers: list[tuple[float, int]], remaining_s: float, limit_s: float
):
    timeout = AttemptTimeout()
    for seconds, count in answers:
        for _ in range(count):
            timeout.learn(seconds)
    assert timeout.limit(remaining_s) == limit_s
