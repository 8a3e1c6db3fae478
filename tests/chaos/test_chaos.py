"""Random faults on a real stack under load, and the promises that must hold nevertheless: the
stack is measured, disrupted, and measured again once it is ready."""

import os
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import SubprocessError

import psutil
import pytest

from benchmarks.instruments.generator import GRACE_S, Target, ask_again, ask_within
from benchmarks.instruments.load import find_leaders, measure_memory
from deploy.stack import Stack
from tests.chaos.faults import FAULTS, flood, send_texts, write_flood
from tests.chaos.load import (
    BROKEN,
    CUT,
    HUNG,
    PROBLEM,
    RIGHT,
    WRONG,
    Exchange,
    Question,
    ask,
    keep_asking,
    learn,
    write_questions,
)
from tests.chaos.scene import Scene, Window, repeat, watch_nginx
from tests.e2e.real_stack import is_ready, processes, start_stack
from tests.test_docs import PROBLEMS

#: One worker for two languages, so that it restarts quickly.
MAP = {
    "cuda_id": {"fr": "cpu", "de": "cpu"},
    "translation": {
        "model": "models/phrasebook",
        "placement": "device",
        "max_batch_delay": 20,
    },
}
#: The clients, seconds and time limit of the measurement of the capacity.
PEAK_CLIENTS, PEAK_S, PEAK_LIMIT_MS = 32, 2.0, 5000
LOAD_S, CALM_S = 1.5, 1.0
#: The seconds between two faults: some happen before the stack has recovered.
PAUSE_S = (0.1, 0.6)
#: The seconds between two checks of open files, and the largest file that is read.
LOOK_S, LARGEST_BYTES = 0.5, 50_000_000
#: The seconds before and after a window in which accepted connections may break too.
SLACK_S = 0.5
#: The statuses that a well-formed request may get instead of its answer.
TEMPORARY = {429, 503, 504}
#: Kinds of requests without a right answer.
NO_REQUEST = ("junk", "text")
#: The permitted growth of memory: a share, and what the allocators of four processes keep after
#: a flood. Java fills its heap before it collects garbage, so its size varies with time.
GROWTH, SLACK_MB, JAVA_SLACK_MB = 0.05, 50.0, 50.0
JAVA = "torchserve"


@pytest.fixture(scope="module")
def scene(tmp_path_factory, pytestconfig) -> Scene:
    """A stack after the faults of `CHAOS_SEED`, or of a random seed that is printed."""
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10**6))
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        pytestconfig.get_terminal_writer().line(f"\nCHAOS_SEED={seed}")
    cache = tmp_path_factory.mktemp("cache")
    run = tmp_path_factory.mktemp("run")
    began = time.monotonic()
    with start_stack(run, cache, content=MAP) as stack:
        scene = Scene(stack, cache, seed, time.monotonic() - began)
        questions = learn(stack.url, write_questions(scene.marker))
        look = repeat(lambda: scene.traces.update(find_open_traces(scene)), LOOK_S)
        with look, watch_nginx(scene):
            scene.capacity = find_capacity(scene)
            # Warm up: batches of every length allocate buffers; long texts start readers.
            measure_under_load(scene, questions)
            send_texts(scene, random.Random(seed))
            before = measure_under_load(scene, questions)
            children = count_children(stack)
            harm(scene, questions)
            wait_until_ready(scene, questions, children)
            scene.memory_mb = (before, measure_under_load(scene, questions))
        files = (path for path in stack.run.rglob("*") if path.is_file())
        scene.traces.update(str(path) for path in files if has(path, scene.marker))
        return scene


def find_capacity(scene: Scene) -> float:
    target = Target(scene.stack.url, write_flood(scene.marker))
    ask_at_peak = partial(ask_again, target, ask_within(PEAK_LIMIT_MS))
    replies = ask_at_peak(clients=PEAK_CLIENTS, seconds=PEAK_S, pause_s=0.1)
    return sum(reply.status == "200" for reply in replies) / PEAK_S


def measure_under_load(scene: Scene, questions: list[Question]) -> dict[str, float]:
    """Return the megabytes of each program after some seconds of load and one flood."""
    with keep_asking(scene.stack.url, questions, scene.seed) as exchanges:
        flood(scene, random.Random(scene.seed))
        time.sleep(LOAD_S)
    scene.exchanges += exchanges
    time.sleep(CALM_S)
    return scene.read(
        "every program", lambda: measure_memory(find_leaders(scene.stack)), default={}
    )


def harm(scene: Scene, questions: list[Question]) -> None:
    """Cause every fault once, in random order, while clients ask."""
    began, rng = time.monotonic(), random.Random(scene.seed)
    with keep_asking(scene.stack.url, questions, scene.seed) as exchanges:
        for fault in rng.sample(list(FAULTS), len(FAULTS)):
            time.sleep(rng.uniform(*PAUSE_S))
            at_s = time.monotonic() - began
            try:
                FAULTS[fault](scene, random.Random(rng.randrange(2**32)))
            except (psutil.Error, OSError, ValueError, SubprocessError) as error:
                # The victim may have ended already; the remaining faults still follow.
                scene.violations.append(f"{fault}: {type(error).__name__} {error}")
            lasted_s = time.monotonic() - began - at_s
            scene.schedule.append(f"{at_s:6.1f} {fault}, {lasted_s:.1f} s")
    scene.outcomes = Counter(
        e.outcome if e.outcome == RIGHT else f"{e.outcome} {e.status} {e.slug}".strip()
        for e in exchanges
    )
    scene.exchanges += exchanges


def count_children(stack: Stack) -> Mapping[str, int]:
    """Count the processes of each program, except its main one."""
    leaders = find_leaders(stack)
    return {program: len(leader.children()) for program, leader in leaders.items()}


def wait_until_ready(
    scene: Scene, questions: list[Question], children: Mapping[str, int]
) -> None:
    """Wait until all processes are back: those of a killed master still answer for a while."""
    began = time.monotonic()

    def is_whole() -> bool:
        found = count_children(scene.stack)
        answers = [ask(scene.stack.url, each, scene.back_s) for each in questions]
        return (
            all(found[program] >= count for program, count in children.items())
            and all(answer.outcome == RIGHT for answer in answers)
            and is_ready(scene.stack.url)
        )

    if not scene.wait("ready again after the last fault", is_whole):
        scene.wait("ready again at all", is_whole)
    scene.ready_after_s = time.monotonic() - began


def find_open_traces(scene: Scene) -> Iterator[str]:
    """Search open files too: nginx deletes a body's file as soon as it is open."""
    for process in processes(scene.stack):
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            name = os.path.realpath(link)
            if name.startswith(str(scene.stack.run)) and has(link, scene.marker):
                yield f"{process.name()}: {name}"


def has(path: Path, word: str) -> bool:
    with suppress(OSError):
        if path.stat().st_size <= LARGEST_BYTES:
            return word.encode() in path.read_bytes()
    return False


def find_fault(exchange: Exchange, scene: Scene) -> str:
    """Describe the fault of an answer; empty if there is none."""
    is_shut = touches(exchange, scene.shut)
    is_cut = exchange.detail == CUT and touches(exchange, scene.cut)
    late_s = exchange.lasted_s - exchange.limit_s - GRACE_S
    if late_s > 0:
        late_s -= sum(window.overlap(exchange) for window in scene.frozen)
    if exchange.outcome == BROKEN and not (is_shut or is_cut):
        return f"connection {exchange.detail}"
    if exchange.outcome == WRONG:
        return f"wrong answer, status {exchange.status} {exchange.detail}".rstrip()
    if (exchange.outcome == HUNG or late_s > 0) and not is_shut:
        return f"no answer in time, {late_s:.1f} s late"
    return find_unfit_problem(exchange) if exchange.outcome == PROBLEM else ""


def touches(exchange: Exchange, windows: list[Window]) -> bool:
    return any(
        exchange.began <= window.ended + SLACK_S
        and exchange.ended >= window.began - SLACK_S
        for window in windows
    )


def find_unfit_problem(exchange: Exchange) -> str:
    shown = f"{exchange.status} {exchange.slug}".strip()
    if exchange.slug and (exchange.slug, exchange.status) not in PROBLEMS:
        return f"{shown} is not documented"
    is_request = not exchange.kind.startswith(NO_REQUEST)
    if exchange.status == 500 or (is_request and exchange.status not in TEMPORARY):
        return f"{shown} is no answer to this"
    return ""


def explain(scene: Scene, *found: str) -> str:
    rounded = [{name: round(mb) for name, mb in mbs.items()} for mbs in scene.memory_mb]
    return "\n".join(
        [
            *found,
            f"Repeat with CHAOS_SEED={scene.seed}. The faults, in seconds:",
            *scene.schedule,
            f"answers: {dict(scene.outcomes)}",
            f"ready after {scene.ready_after_s:.1f} s",
            *(f"MB: {megabytes}" for megabytes in rounded),
        ]
    )


def test_every_request_gets_one_right_answer_or_a_problem_in_time(scene: Scene):
    found = Counter(
        f"{exchange.kind}: {fault}"
        for exchange in scene.exchanges
        if (fault := find_fault(exchange, scene))
    )
    faults = [f"{count} x {fault}" for fault, count in found.most_common()]
    assert not faults, explain(scene, *faults)


def test_while_the_stack_is_up_most_requests_are_answered(scene: Scene):
    """Downtime after a kill does not count, since it depends on the machine."""
    up = {
        outcome: count
        for outcome, count in scene.outcomes.items()
        if not outcome.startswith((BROKEN, f"{PROBLEM} 503"))
    }
    share = up.get(RIGHT, 0) / sum(up.values())
    assert share > 0.5, explain(scene, f"{share:.0%} of the answers are right")


def test_whatever_was_hit_is_back(scene: Scene):
    assert not scene.violations, explain(scene, *scene.violations)


def test_memory_is_what_it_was(scene: Scene):
    """Java is measured alone, and all other programs together."""
    for is_java, slack_mb in ((True, JAVA_SLACK_MB), (False, SLACK_MB)):
        before, after = (
            sum(mb for name, mb in mbs.items() if (name == JAVA) == is_java)
            for mbs in scene.memory_mb
        )
        assert after <= before * (1 + GROWTH) + slack_mb, explain(scene)


def test_nothing_that_people_sent_is_on_disk(scene: Scene):
    assert not scene.traces, explain(scene, *sorted(scene.traces))
