"""The cost of a request in one gateway's processes: `python -m benchmarks dialects` with the
fields of other APIs and `keys` where keys are required, before a TorchServe that answers at
once; `profile` with the packages that it goes to; `cache` with kept sentences and without them,
also in whole stacks; `hostile` for texts that make a careless
reader take quadratic time, and forms, arrays and packed bodies that once held the gateway's
loop for up to a second each. `microbatching` has a classifier in the gateway, batched or not.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import requests
import yaml

from benchmarks import report
from benchmarks.driver import compare, read_numbers, say
from benchmarks.instruments import generator, load, running
from benchmarks.instruments.generator import Request, Target
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import draw, draw_requests, write_request
from catalog import checkpoint
from contract.dialects import DEEPL, FOREIGN, GOOGLE, OURS, Dialect
from contract.tasks import CLASSIFICATION
from deploy.stack import INFERENCE, ROOT, StackError
from handlers.engine.translation.engine import Sentence

CPU_MS = "gateway cpu ms"
OFF, REQUIRED = "off", "required"
_LANGUAGE, _SENTENCES = "fr", 500
#: Limits of a key that nobody reaches: each is looked at.
_GRANT = ("--characters-per-month", "1000000000000", "--requests-per-minute", "1000000")
_CPU_COLUMNS = (CPU_MS, "requests/s", "errors")
_SAMPLES_PER_S = 200
#: The time that py-spy may take beyond its recording, and that a new key may take.
_WRITE_S = 60
_SIZES = {"in batches": 64, "alone": 1}
_IMAGES, _SIDE_PIXELS, _WARM_S = 200, 32, 2.0
_BATCH_COLUMNS = (*_CPU_COLUMNS, "mean ms", "p99 ms", "gateway memory mb")


def compare_dialects(*, clients: int, seconds: float, rounds: int) -> report.Findings:
    """The gateway's CPU per request in each API, in turns."""
    with TemporaryDirectory() as name, start(Path(name), {}) as stack:
        ask = partial(load.measure_closed, clients=clients, seconds=seconds)
        ways = {
            dialect.title: partial(ask, stack.aim(write_requests(dialect)))
            for dialect in (OURS, *FOREIGN)
        }
        return compare(ways, rounds, _CPU_COLUMNS, is_added=True)


def compare_keys(*, clients: int, seconds: float, rounds: int) -> report.Findings:
    """The gateway's CPU per request with keys and without, in turns, with the database and
    the limits of the environment's BABELGATE_DATABASE_URL and BABELGATE_LIMITS_URL."""
    ask = partial(load.measure_closed, clients=clients, seconds=seconds)
    with TemporaryDirectory() as name, ExitStack() as gateways:
        ways = {}
        for keys in (OFF, REQUIRED):
            settings = {"BABELGATE_KEYS": keys}
            stack = gateways.enter_context(start(Path(name) / keys, settings))
            ways[keys] = partial(ask, stack.aim(write_requests(OURS)))
        return compare(ways, rounds, _CPU_COLUMNS, is_added=True)


def write_requests(dialect: Dialect) -> list[Request]:
    """Write the same sentences for each API."""
    more = {"format": "text"} if dialect is GOOGLE else {}
    bodies = (
        {
            dialect.source_field: sentence.source,
            dialect.text_field: [sentence.text] if dialect is DEEPL else sentence.text,
            dialect.target_field: sentence.target,
            **more,
        }
        for sentence in draw(_SENTENCES, (_LANGUAGE,))
    )
    path = dialect.translating[-1]
    return [Request(json.dumps(b, ensure_ascii=False).encode(), path) for b in bodies]


def profile(*, clients: int, seconds: float, flame: Path | None) -> report.Findings:
    """The packages that the gateway's CPU goes to, by samples of py-spy."""
    with TemporaryDirectory() as name, start(Path(name), {}) as stack:
        target = stack.aim(write_requests(OURS))
        load.measure_closed(target, clients=clients, seconds=_WARM_S)
        worker = stack.leaders["gateway"].children()[0].pid
        stacks = Path(name) / "stacks"
        ways = {"raw": stacks, "flamegraph": flame} if flame else {"raw": stacks}
        for kind, out in ways.items():
            with _record(worker, kind, out, seconds):
                figures = load.measure_closed(target, clients=clients, seconds=seconds)
        samples = count_samples(stacks.read_text("utf-8").splitlines())
    cpu_ms = figures.cpu_ms["gateway"] / samples.total()
    parts = [
        {
            "package": package,
            "percent": 100 * count / samples.total(),
            "cpu ms": cpu_ms * count,
        }
        for package, count in samples.most_common()
    ]
    return report.Findings(report.tabulate(parts), {"load": figures, "packages": parts})


@contextmanager
def _record(worker: int, kind: str, out: Path, seconds: float) -> Iterator[None]:
    """Write the stacks of a process that hold Python's lock. Raises StackError."""
    options = f"--gil --full-filenames --rate {_SAMPLES_PER_S} --format {kind}".split()
    place = ("--pid", str(worker), "--duration", str(round(seconds)), "--output", out)
    spy = Path(sys.executable).with_name("py-spy")
    with subprocess.Popen(
        [spy, "record", *options, *place],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as recorder:
        assert recorder.stdout
        # It has begun, or failed, when it says something.
        said = recorder.stdout.readline()
        yield
        said += recorder.communicate(timeout=_WRITE_S)[0]
    if recorder.returncode:
        raise StackError(f"py-spy cannot look into the gateway: {said.strip()}")


def count_samples(lines: Iterable[str]) -> Counter[str]:
    """Count the samples of each package from lines such as `run (a.py:3);call (b.py:7) 12`,
    which end with the number of samples. Python's own modules, and gevent as their
    replacement, count for the package that calls them."""
    counts: Counter[str] = Counter()
    for line in lines:
        frames, _, count = line.rpartition(" ")
        files = (frame.rpartition("(")[2] for frame in reversed(frames.split(";")))
        packages = filter(None, map(_find_package, files))
        counts[next(packages, "Python")] += int(count)
    return counts


def _find_package(file: str) -> str:
    _, is_library, library = file.partition("/site-packages/")
    if is_library:
        name = library.partition("/")[0]
        return "" if name == "gevent" else name
    own = Path(file).parent
    return ".".join(own.relative_to(ROOT).parts) if own.is_relative_to(ROOT) else ""


@contextmanager
def start(run: Path, more: Mapping[str, str]) -> Iterator[Running]:
    """A gateway with one process before a fake TorchServe, with `more` settings, and a key
    where it requires one. Raises StackError."""
    map_path = running.write_map(run / "map.json", {}, [_LANGUAGE], device="cpu")
    key_file, port = run / "keys.json", INFERENCE + running.claim_port_offset()
    keys = dict.fromkeys(("inference", "management"), {"key": "any"})
    key_file.write_text(json.dumps(keys), "utf-8")
    settings = {
        "BABELGATE_RUN_DIR": str(run),
        "BABELGATE_MAP": str(map_path),
        "BABELGATE_INFERENCE_URL": f"http://127.0.0.1:{port}",
        "BABELGATE_MANAGEMENT_URL": f"http://127.0.0.1:{port}",
        "BABELGATE_KEY_FILE": str(key_file),
        "WEB_CONCURRENCY": "1",
        **more,
    }
    python, headers = (sys.executable, "-m"), {}
    if settings.get("BABELGATE_KEYS") == REQUIRED:
        name = f"benchmark {os.getpid()}"
        add = (*python, "gateway", "keys", "add", "--name", name, *_GRANT)
        key = running.run_command(add, _WRITE_S, settings).strip()
        headers = {"Authorization": f"Bearer {key}"}
    fake, log = [*python, "benchmarks.instruments.instant", str(port)], run / "fake.log"
    with (
        running.run_program(fake, log, folder=ROOT, environment={}),
        running.start_gunicorn(run, settings) as stack,
    ):
        yield replace(stack, headers=headers)


def compare_batching(*, clients: str, rounds: int, seconds: float) -> report.Findings:
    """A classifier of ViT-B/16's size in the gateway's process, with batches and without."""
    # PyTorch takes seconds to import, and no other command needs it here.
    from benchmarks.instruments import random_model

    cache = checkpoint.default_cache() / "benchmarks"
    model = random_model.find_classifier(cache, _SIDE_PIXELS)
    levels = read_numbers(clients)

    def measure(size: int) -> dict[str, load.LoadFigures]:
        settings = {"model": str(model), "batch_size": size, "queue_size": 4096}
        with TemporaryDirectory() as name:
            path, run = Path(name) / "map.json", Path(name) / "run"
            running.write_map(path, settings, device="cpu", task=CLASSIFICATION)
            with running.start_embedded(run, path) as stack:
                target = stack.aim(draw_requests(CLASSIFICATION, _IMAGES))
                return load.measure_levels(
                    target, levels, seconds=seconds, warm_s=_WARM_S
                )

    ways = {way: partial(measure, size) for way, size in _SIZES.items()}
    return compare(ways, rounds, _BATCH_COLUMNS, case="clients")


#: Requests that no load gets through.
_REQUESTS = 60_000
_WARM_CLIENTS = 64
_CACHE_COLUMNS = ("requests/s", "p50 ms", "p95 ms", "errors", CPU_MS)


def compare_caches(
    *, clients: int, seconds: float, rounds: int, distinct: int, model: Path
) -> Iterator[report.Findings]:
    """The gateway's CPU before a backend that answers at once; then a whole stack's requests
    per second: sentences as often as Zipf's law has them, all different, and one for a single
    client."""
    yield replace(_compare_gateways(clients, seconds, rounds), part="gateway")
    loads = {
        "Zipf": (_write(_draw_by_zipf(distinct), "zipf"), clients),
        "all different": (_write_new(0), clients),
        "one, one client": (_write([0], "one"), 1),
    }
    ask = partial(_ask_stack, loads, seconds=seconds, model=model)
    ways = {
        "kept": partial(ask, running.CACHE_ON),
        "not kept": partial(ask, running.CACHE_OFF),
    }
    yield compare(ways, rounds, _CACHE_COLUMNS, case="sentences")


def _compare_gateways(clients: int, seconds: float, rounds: int) -> report.Findings:
    with TemporaryDirectory() as name, ExitStack() as gateways:
        kept = gateways.enter_context(start(Path(name) / "on", running.CACHE_ON))
        plain = gateways.enter_context(start(Path(name) / "off", {}))
        ask = partial(load.measure_closed, clients=clients, seconds=seconds)
        turns = itertools.count()
        same = kept.aim(_write(range(_SENTENCES), "same"))
        load.measure_closed(same, clients=clients, seconds=_WARM_S)
        ways = {
            "not kept": lambda: ask(plain.aim(_write_new(next(turns)))),
            "all different": lambda: ask(kept.aim(_write_new(next(turns)))),
            "all kept": lambda: ask(same),
        }
        return compare(ways, rounds, _CACHE_COLUMNS)


def _ask_stack(
    loads: Mapping[str, tuple[Sequence[Request], int]],
    cache: Mapping[str, str],
    *,
    seconds: float,
    model: Path,
) -> dict[str, load.LoadFigures]:
    with TemporaryDirectory() as name:
        run = Path(name) / "run"
        path = running.write_map(Path(name) / "map.json", {}, [_LANGUAGE])
        with running.start(run, path, model, cache) as stack:
            warm = stack.aim(_write_new(1))
            load.measure_closed(warm, clients=_WARM_CLIENTS, seconds=_WARM_S)
            return {
                case: load.measure_closed(
                    stack.aim(requests), clients=asking, seconds=seconds
                )
                for case, (requests, asking) in loads.items()
            }


def _draw_by_zipf(distinct: int) -> list[int]:
    """Numbers of sentences, of which the second is half as frequent as the first, and so on."""
    weights = list(itertools.accumulate(1 / rank for rank in range(1, distinct + 1)))
    return random.Random(0).choices(range(distinct), cum_weights=weights, k=_REQUESTS)


def _write_new(turn: int) -> list[Request]:
    """Requests whose sentences no other turn has."""
    return _write(range(_REQUESTS), f"turn {turn}")


def _write(numbers: Sequence[int], mark: str) -> list[Request]:
    """Requests for sentences of these numbers."""
    sentences = draw(_SENTENCES, (_LANGUAGE,))
    found = []
    for number in numbers:
        one = sentences[number % len(sentences)]
        stem = one.text.rstrip(".!?")  # behind a mark would stand another sentence
        text = f"{stem} ({mark}, {number}){one.text[len(stem) :]}"
        found.append(write_request(replace(one, text=text)))
    return found


#: Slow texts that are sent at once, and clients that send forms, and for how long.
_AT_ONCE, FORM_CLIENTS, FORMS_S = 10, 20, 30.0
#: The cheapest of the rounds counts.
_ROUNDS = 2
#: Less CPU than that is no measure of a ratio: the system counts hundredths of a second.
NOISE_S = 0.25
_PAUSE_S = 0.01
_SENTENCE = {"src_lang": "en", "src_text": "Good morning.", "tgt_lang": _LANGUAGE}

_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_MULTIPART = "multipart/form-data; boundary=x"
_PART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n'
ROUTES = ("/translate", "/v2/translate", "/language/translate/v2", "/identify")
#: Content types and bodies.
FORMS = (
    (_FORM, b"key&" + b"%41&" * ((1 << 18) - 2)),
    (_FORM, b"q=" + b"%41" * 349_000),
    (_FORM, b"q=a&" * 1000 + b"%41" * 300_000),
    (_JSON, b'{"q": [' + b"[]," * 340_000 + b"[]]}"),
    (_JSON, b'{"q": "a", "source": "auto"' + b" " * 1_000_000),
    (_MULTIPART, _PART * 2000 + b"--x--"),
    (_MULTIPART, _PART + b"\r\n--" * 200_000 + b"--x--"),
)
#: Sends some hostile requests.
SentLoad = Callable[[], list[generator.LoadReply]]


@dataclass(frozen=True)
class TextShape:
    """A unit that is repeated, between a head and a tail."""

    name: str
    unit: str
    #: `text` or `html`.
    format: str = "text"
    head: str = ""
    tail: str = ""

    def write(self, size_bytes: int) -> str:
        """Write a text that takes about `size` bytes in a request's body."""
        times = (size_bytes - _measure(self.head + self.tail)) // _measure(self.unit)
        return self.head + self.unit * times + self.tail


def _measure(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - len('""')


_LISTED = yaml.safe_load(Path(__file__).with_name("hostile.yaml").read_text("utf-8"))
SHAPES = tuple(
    TextShape(name, **(it if isinstance(it, dict) else {"unit": it}), format=kind)
    for kind, shapes in _LISTED.items()
    for name, it in shapes.items()
)


def aim(url: str) -> list[Target]:
    """Return every form on every route, plain and packed; a target per kind of headers."""
    asked: dict[tuple[str, str], list[Request]] = defaultdict(list)
    for kind, body in FORMS:
        packed = gzip.compress(body)
        for route in ROUTES:
            asked[kind, "identity"].append(Request(body, route))
            asked[kind, "gzip"].append(Request(packed, route))
    return [
        Target(url, some, headers={"Content-Type": kind, "Content-Encoding": encoding})
        for (kind, encoding), some in asked.items()
    ]


@dataclass(frozen=True)
class HostileCost:
    """CPU seconds of the gateway and its readers for half of a text and for all of it."""

    shape: str
    format: str
    #: HTTP's statuses.
    status: str
    half_s: float
    whole_s: float
    #: The whole text's cost divided by that of half; 1 if it costs almost nothing.
    ratio: float


@dataclass(frozen=True)
class Waits:
    """The waits of others beside hostile requests, in seconds."""

    hostile: int
    health_s: Sequence[float]
    sentence_s: Sequence[float]


def measure_hostile(*, kilobytes: int) -> report.Findings:
    """The gateway's CPU for hostile texts, and how long others wait meanwhile."""
    size_bytes = kilobytes * 1000
    with TemporaryDirectory() as name, start(Path(name), {}) as stack:
        generator.ask_once(_aim(stack, SHAPES[0], size_bytes))  # starts the readers
        measured = []
        for shape in SHAPES:
            say(shape.name)
            measured.append((measure(stack, shape, size_bytes), shape))
        measured.sort(key=lambda pair: -pair[0].whole_s)
        slowest = [shape for _, shape in measured[:_AT_ONCE]]
        texts = wait_beside(stack.url, send_texts(stack, slowest, size_bytes))
        sent = send_forms(stack.url, FORM_CLIENTS, FORMS_S)
        forms = wait_beside(stack.url, sent)
    return describe([cost for cost, _ in measured], texts, forms)


def measure(stack: Running, shape: TextShape, size_bytes: int) -> HostileCost:
    """Requests with half of the text, and with all of it."""
    statuses: set[str] = set()

    def spend(size: int) -> float:
        target = _aim(stack, shape, size)
        reply, spent = load.measure_cpu(
            stack.leaders, lambda: generator.ask_once(target)
        )
        statuses.add(reply.status)
        return spent["gateway"]

    half_s, whole_s = (
        min(spend(size) for _ in range(_ROUNDS))
        for size in (size_bytes // 2, size_bytes)
    )
    ratio = whole_s / half_s if whole_s > NOISE_S else 1.0
    said = " ".join(sorted(statuses))
    return HostileCost(shape.name, shape.format, said, half_s, whole_s, ratio)


def send_texts(
    stack: Running, shapes: Sequence[TextShape], size_bytes: int
) -> list[SentLoad]:
    """Return loads of one text each."""
    targets = (_aim(stack, shape, size_bytes) for shape in shapes)
    return [
        partial(generator.ask_at, target, [0.0], generator.Manner())
        for target in targets
    ]


def send_forms(url: str, clients: int, seconds: float) -> list[SentLoad]:
    """Return loads of clients that send hostile forms and packed bodies for so long."""
    targets = aim(url)
    each, more = divmod(clients, len(targets))
    send = partial(generator.ask_again, manner=generator.Manner(), seconds=seconds)
    return [
        partial(send, target, clients=each + (number < more))
        for number, target in enumerate(targets)
    ]


def wait_beside(url: str, loads: Sequence[SentLoad]) -> Waits:
    """Asks for the gateway's health and a sentence until all loads are done."""
    health: list[float] = []
    sentence: list[float] = []
    with ThreadPoolExecutor(len(loads)) as pool, requests.Session() as session:
        under_way = [pool.submit(send) for send in loads]
        while not all(sent.done() for sent in under_way):
            replies = session.get(f"{url}/healthz"), session.post(url, json=_SENTENCE)
            for waits, reply in zip((health, sentence), replies, strict=True):
                reply.raise_for_status()
                waits.append(reply.elapsed.total_seconds())
            time.sleep(_PAUSE_S)
    return Waits(sum(len(sent.result()) for sent in under_way), health, sentence)


def describe(
    costs: Sequence[HostileCost], texts: Waits, forms: Waits
) -> report.Findings:
    """A row per shape, the costliest first, and the waits of others."""
    remarks = []
    for kind, waits in (("texts", texts), ("forms", forms)):
        health = report.summarize_latencies(waits.health_s)
        slowest = [max(s, default=0) * 1000 for s in (waits.health_s, waits.sentence_s)]
        remarks.append(
            f"beside {waits.hostile} {kind}: health after at most {slowest[0]:.0f} ms "
            f"(p99 {report.show(health.p99_ms)}), a sentence after {slowest[1]:.0f}"
        )
    return report.Findings(
        report.tabulate(costs),
        {"costs": costs, "beside_texts": texts, "beside_forms": forms},
        remarks,
    )


def _aim(stack: Running, shape: TextShape, size_bytes: int) -> Target:
    sentence = Sentence(shape.write(size_bytes), "en", _LANGUAGE)
    return Target(stack.url, [write_request(sentence, format=shape.format)])
