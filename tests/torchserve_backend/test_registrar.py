"""The actions for differences, models that count as dead, and the watch that heals them."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from pathlib import Path

import pytest

import catalog
from tests.torchserve_backend.fakes import FakeManagement, runs, want
from torchserve_backend import archiver, registrar
from torchserve_backend.archiver import Desired
from torchserve_backend.management import ManagementError, Registered
from torchserve_backend.registrar import Action, RegistrationStep, WorkerWatch

RUNS, EMPTY = runs(), runs(ready_workers=0)
UNLOADED = runs(ready_workers=0, min_workers=0)
WANTED = want("ko")
OURS, FOREIGN = "1.0-7f411872", "1.0"

DIFFERENCES: dict[str, tuple[Registered | None, bool, str, str]] = {
    "not there": (None, False, "register", "not registered"),
    "version": (runs(version="1.0-cd"), False, "replace", "runs 1.0-cd"),
    "batch size": (runs(batch_size=8), False, "replace", "batch_size is 8"),
    "delay": (runs(max_batch_delay=5), False, "replace", "is 5, the map says 100"),
    "workers": (runs(min_workers=2), False, "scale", "2 workers, the map says 1"),
    "given up on": (runs(ready_workers=0), True, "revive", "no worker"),
    "by hand": (runs(ready_workers=0, batch_size=8), True, "revive", "no worker"),
    "to nothing": (runs(ready_workers=0, min_workers=0), True, "scale", "0 work"),
}


@pytest.mark.parametrize(
    ("found", "dead", "step", "reason"), DIFFERENCES.values(), ids=DIFFERENCES.keys()
)
def test_a_difference_is_planned(found, dead, step, reason):
    (action,) = registrar.plan([WANTED], {"ko": found}, dead={"ko"} if dead else ())
    assert (action.step, action.desired) == (step, WANTED)
    assert reason in action.reason
    assert str(action) == f"{step} ko: {action.reason}"


def test_where_nothing_differs_nothing_is_planned():
    assert registrar.plan([WANTED], {"ko": RUNS}) == []
    assert registrar.plan([WANTED], {"ko": RUNS}, dead={"ko"}) == []
    assert registrar.plan([WANTED], {"ko": runs(ready_workers=0)}) == []


def test_each_model_is_compared_with_its_own_state_in_the_maps_order():
    wanted = [want("vi"), WANTED, want("fr")]
    actual = {"fr": None, "ko": RUNS, "de": None}
    actions = registrar.plan(wanted, actual)
    assert list(map(str, actions)) == [
        "register vi: not registered",
        "register fr: not registered",
    ]


REMOVE = "remove de: the map does not name it"
UNNAMED: dict[str, tuple[Registered | None, list[str]]] = {
    "ours": (runs("de", OURS), [REMOVE]),
    "without workers": (runs("de", OURS, ready_workers=0, min_workers=0), [REMOVE]),
    "somebody else's": (runs("de", FOREIGN), []),
    "gone meanwhile": (None, []),
}


@pytest.mark.parametrize(("found", "removed"), UNNAMED.values(), ids=UNNAMED.keys())
def test_what_the_map_does_not_name_is_removed_first_where_it_is_ours(found, removed):
    actions = registrar.plan([WANTED, want("vi")], {"ko": RUNS, "de": found})
    assert list(map(str, actions)) == [*removed, "register vi: not registered"]


def share(name: str, *languages: str) -> Desired:
    """A model that several languages share."""
    model = dataclasses.replace(want(name).model, languages=languages)
    return dataclasses.replace(want(name), model=model)


@pytest.mark.parametrize(
    ("gone", "wanted", "reason"),
    [
        ("de", share("translation-cpu", "fr", "de"), "replaced by translation-cpu"),
        ("translation-0", want("fr"), "replaced by fr"),
        ("translation-0", share("translation-1", "fr"), "replaced by translation-1"),
        ("de", share("translation-cpu", "fr"), "the map does not name it"),
    ],
    ids=["by device", "by language", "another device", "gone"],
)
def test_a_model_whose_languages_others_have_is_replaced(gone, wanted, reason):
    removed, _ = registrar.plan([wanted], {gone: runs(gone, OURS)})
    assert str(removed) == f"remove {gone}: {reason}"
    running = {gone: runs(gone, OURS), wanted.name: RUNS}
    removed, *_ = registrar.plan([wanted], running)
    assert removed.reason == "the map does not name it"


def test_a_change_removes_and_healing_does_not():
    management = FakeManagement(runs("de", OURS), runs("mine", FOREIGN))
    management.store = {"ko.mar": "1.0-ab"}
    for _ in range(2):
        healing = registrar.plan_healing([WANTED], management, WorkerWatch(-1))
        registrar.apply(healing, management)
    assert management.found.keys() == {"ko", "de", "mine"}
    change = registrar.plan_change([WANTED], management)
    registrar.apply(change, management)
    assert management.found.keys() == {"ko", "mine"}
    registrar.apply(change, management)
    assert registrar.plan_change([WANTED], management) == []
    assert management.found.keys() == {"ko", "mine"}


def test_workers_are_counted_on_all_devices():
    model = dataclasses.replace(want("ko", workers=2).model, devices=("0", "1"))
    wanted = dataclasses.replace(WANTED, model=model)
    assert registrar.plan([wanted], {"ko": runs(min_workers=4)}) == []
    actions = registrar.plan([wanted], {"ko": runs(min_workers=5)})
    assert str(actions[0]) == "scale ko: 5 workers, the map says 4"
    management = FakeManagement()
    steps: tuple[RegistrationStep, ...] = ("scale", "revive")
    for step in steps:
        registrar.apply([Action(step, "ko", "", wanted)], management)
    assert [call.split()[-1] for call in management.calls] == ["4", "wait", "4"]


@pytest.mark.parametrize(
    ("step", "found", "calls"),
    [
        ("register", RUNS, ["register ko.mar"]),
        ("replace", RUNS, ["unregister ko 1.0-ab", "register ko.mar"]),
        (
            "replace",
            runs(version=OURS),
            ["register ko.mar", "default ko 1.0-ab", f"unregister ko {OURS}"],
        ),
        ("replace", None, ["register ko.mar"]),
        ("scale", RUNS, ["scale ko 1"]),
        ("revive", RUNS, ["scale ko 0 wait", "scale ko 1"]),
        ("remove", RUNS, ["unregister ko 1.0-ab"]),
        ("remove", None, []),
    ],
)
def test_an_action_is_carried_out(step, found, calls):
    management = FakeManagement(*filter(None, [found]))
    wanted = None if step == "remove" else WANTED
    registrar.apply([Action(step, "ko", "", wanted)], management)
    assert management.calls == calls


@pytest.mark.parametrize(
    "pending",
    [(7, 7, 0), (7, 7, None), (0,)],
    ids=["rows that wait", "gone meanwhile", "nothing waits"],
)
def test_a_replaced_version_ends_once_its_rows_are_answered(monkeypatch, pending):
    management = FakeManagement(RUNS)
    management.spares["ko", OURS] = runs(version=OURS)
    states = iter(pending)

    def describe(name: str, version: str) -> Registered | None:
        count = next(states)
        return None if count is None else runs(version=version, pending_requests=count)

    monkeypatch.setattr(management, "describe", describe)
    registrar.retire([WANTED], management)
    registrar.retire([WANTED], management)
    assert management.calls == [f"unregister ko {OURS}"]
    assert next(states, "all") == "all"


@pytest.mark.parametrize("step", ["remove", "replace"])
def test_what_a_killed_up_has_left_ends_before_the_default(step):
    management = FakeManagement(RUNS)
    management.spares["ko", OURS] = runs(version=OURS)
    wanted = None if step == "remove" else WANTED
    registrar.apply([Action(step, "ko", "", wanted)], management)
    assert management.calls[:2] == [f"unregister ko {OURS}", "unregister ko 1.0-ab"]


def test_the_first_refusal_ends_it():
    management = FakeManagement(refuses=("register",))
    steps: tuple[RegistrationStep, ...] = ("register", "scale")
    with pytest.raises(ManagementError, match="refused: register"):
        registrar.apply([Action(step, "ko", "", WANTED) for step in steps], management)
    assert management.calls == ["register ko.mar"]


def test_a_model_is_not_left_without_workers_where_stopping_them_takes_too_long():
    management = FakeManagement(refuses=("scale ko 0",))
    with pytest.raises(ManagementError, match="scale ko 0"):
        registrar.apply([Action("revive", "ko", "", WANTED)], management)
    assert management.calls == ["scale ko 0 wait", "scale ko 1"]


def test_an_archive_that_is_older_than_the_map_is_named():
    management = FakeManagement()
    management.store["ko.mar"] = "1.0-old"
    with pytest.raises(ManagementError, match=r"ko\.mar .* is 1\.0-old.* 1\.0-ab"):
        registrar.apply([Action("register", "ko", "", WANTED)], management)


def test_polling_ends_when_all_are_ready_or_nobody_answers_in_time():
    def look() -> Iterator[Exception | None]:
        yield ManagementError("no answer")
        yield None
        management.found["ko"] = RUNS
        yield None

    management = FakeManagement(EMPTY)
    management.looks = look()
    seen = list(registrar.poll_ready([WANTED], management, 60))
    assert seen == [set(), set(), {"ko"}]
    management.looks = look()
    with pytest.raises(ManagementError, match="no answer"):
        next(registrar.poll_ready([WANTED], management, -1))


def test_a_model_that_was_unloaded_meanwhile_is_ready():
    management = FakeManagement(UNLOADED)
    idling = want("ko", idle_unload_s=1)
    assert list(registrar.poll_ready([idling], management, -1)) == [{"ko"}]
    with pytest.raises(TimeoutError, match="ko"):
        list(registrar.poll_ready([WANTED], management, -1))


def test_polling_names_who_is_not_ready_in_time():
    wanted = [WANTED, want("vi"), want("fr")]
    poll = registrar.poll_ready(wanted, FakeManagement(RUNS), -1)
    assert next(poll) == {"ko"}
    with pytest.raises(TimeoutError, match="not ready after .* s: fr, vi"):
        next(poll)


@pytest.mark.parametrize(
    ("seen", "dead_at"),
    [
        pytest.param([(0, RUNS), (99, RUNS)], [], id="ready all the time"),
        pytest.param([(0, EMPTY), (60, EMPTY)], [], id="not for longer than that"),
        pytest.param([(61, EMPTY)], [], id="counted from the first look"),
        pytest.param([(0, EMPTY), (30, RUNS), (61, EMPTY)], [], id="ready in between"),
        pytest.param([(0, EMPTY), (30, None), (61, EMPTY)], [], id="gone in between"),
        pytest.param([(0, None), (99, None)], [], id="not registered"),
        pytest.param([(0, UNLOADED), (99, EMPTY)], [], id="wanted a moment ago"),
        pytest.param(
            [(0, EMPTY), *((at, EMPTY) for at in (61, 64, 121, 122))],
            [61, 122],
            id="named once and given the same time again",
        ),
    ],
)
def test_a_model_is_dead_after_the_patience(seen, dead_at):
    watch = WorkerWatch(60)
    # Another model is watched separately.
    dead = {now: watch.find_dead({"ko": at, "fr": RUNS}, now) for now, at in seen}
    assert {now: each for now, each in dead.items() if each} == {
        now: {"ko"} for now in dead_at
    }


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all waits: for batches, for workers, and between the checks of the watch."""
    for name, seconds in (("_BATCH_S", 0), ("_EVERY_S", 0), ("_PATIENCE_S", -1)):
        monkeypatch.setattr(registrar, name, seconds)


def test_watching_heals_what_it_can_and_leaves_what_was_changed_by_hand():
    wanted = list(map(want, ("ko", "fr", "vi", "de", "it")))
    management = FakeManagement(
        runs("vi", batch_size=8),
        runs("de", ready_workers=0),
        runs("it", min_workers=0, ready_workers=0),
        runs("pt", OURS),
        refuses=("register ko.mar",),
    )
    management.looks = chain(repeat(None, 2 * len(wanted)), [KeyboardInterrupt()])
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        registrar.heal_forever(wanted, management, said.append)
    again = ["register ko.mar", "scale de 0 wait", "scale de 1"]
    assert management.calls == [again[0], "register fr.mar", *again[1:], *again]
    assert said[:2] == ["register ko: not registered", "refused: register ko.mar"]


def test_watching_survives_a_torchserve_that_is_down_and_a_full_disk():
    def say(text: str) -> None:
        assert text == "down"
        raise OSError("the disk is full")

    management = FakeManagement()
    looks = [*repeat(ManagementError("down"), 3), KeyboardInterrupt()]
    management.looks = iter(looks)
    with pytest.raises(KeyboardInterrupt):
        registrar.heal_forever([WANTED], management, say)


CHANGED: dict[str, tuple[str, dict[str, object], list[str]]] = {
    "by language": ("language", {"model": "new"}, ["replace fr"]),
    "by device": (
        "device",
        {"model": "new"},
        ["remove translation-cpu-own", "register translation-cpu-new"],
    ),
    "precision": ("language", {"compute_type": "float32"}, ["replace fr"]),
    "what the gateway does": ("language", {"fallback_quality": 0.5}, []),
}


@pytest.mark.parametrize(
    ("placement", "change", "steps"), CHANGED.values(), ids=CHANGED.keys()
)
def test_a_change_of_one_target_leaves_all_others_running(
    tmp_path, placement, change, steps
):
    def list_desired(own: Mapping[str, object]) -> list[Desired]:
        section = {"placement": placement, "targets": {"fr": own}, "pivot": "en"}
        content = {"cuda_id": dict.fromkeys(("en", "fr", "de"), "cpu")}
        path = tmp_path / "map.json"
        path.write_text(json.dumps(content | {"translation": section}))
        return [
            Desired(each, archiver.version(each, Path(each.settings.model)))
            for each in catalog.load(path).models
        ]

    own = {"model": "own", "fallback": "models/phrasebook"}
    running = {one.name: runs(one.name, one.version) for one in list_desired(own)}
    actions = registrar.plan(list_desired(own | change), running)
    assert [f"{action.step} {action.name}" for action in actions] == steps
