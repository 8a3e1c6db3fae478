"""Measures the cost of a request in a gateway in front of a TorchServe that answers at once:
`python -m benchmarks dialects` with the fields of other APIs, `keys` with required keys,
`profile` by package, and `cache` with cached sentences and without them.
"""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import report
from benchmarks.driver import compare
from benchmarks.instruments import load, running
from benchmarks.instruments.generator import Request
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import draw, write_request
from contract.dialects import DEEPL, FOREIGN, GOOGLE, OURS, Dialect
from deploy.stack import INFERENCE, ROOT, StackError

CPU_MS = "gateway cpu ms"
OFF, REQUIRED = "off", "required"
_LANGUAGE, _SENTENCES = "fr", 500
#: Limits of a key that no load reaches, but the gateway checks for every request.
_GRANT = ("--characters-per-month", "1000000000000", "--requests-per-minute", "1000000")
_CPU_COLUMNS = (CPU_MS, "requests/s", "errors")
_SAMPLES_PER_S = 200
#: The time limit of py-spy after its recording, and of adding a key.
_WRITE_S = 60
_WARM_S = 2.0


def compare_dialects(*, clients: int, seconds: float, rounds: int) -> report.Findings:
    """Compare the gateway's CPU per request in each API, in alternating rounds."""
    with TemporaryDirectory() as name, start(Path(name), {}) as stack:
        ask = partial(load.measure_closed, clients=clients, seconds=seconds)
        ways = {
            dialect.title: partial(ask, stack.aim(write_requests(dialect)))
            for dialect in (OURS, *FOREIGN)
        }
        return compare(ways, rounds, _CPU_COLUMNS, is_added=True)


def compare_keys(*, clients: int, seconds: float, rounds: int) -> report.Findings:
    """Compare the gateway's CPU per request with and without keys, in alternating rounds. Uses
    the environment's BABELGATE_DATABASE_URL and BABELGATE_LIMITS_URL."""
    ask = partial(load.measure_closed, clients=clients, seconds=seconds)
    with TemporaryDirectory() as name, ExitStack() as gateways:
        ways = {}
        for keys in (OFF, REQUIRED):
            settings = {"BABELGATE_KEYS": keys}
            stack = gateways.enter_context(start(Path(name) / keys, settings))
            ways[keys] = partial(ask, stack.aim(write_requests(OURS)))
        return compare(ways, rounds, _CPU_COLUMNS, is_added=True)


def write_requests(dialect: Dialect) -> list[Request]:
    """Return requests of an API, with the same sentences for every API."""
    more = {"format": "text"} if dialect is GOOGLE else {}
    bodies = (
        {
            dialect.fields.source: sentence.source,
            dialect.fields.text: [sentence.text] if dialect is DEEPL else sentence.text,
            dialect.fields.target: sentence.target,
            **more,
        }
        for sentence in draw(_SENTENCES, (_LANGUAGE,))
    )
    path = dialect.translating[-1]
    return [Request(json.dumps(b, ensure_ascii=False).encode(), path) for b in bodies]


def profile(*, clients: int, seconds: float, flame: Path | None) -> report.Findings:
    """Show which packages use the gateway's CPU, by samples of py-spy."""
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
    """Record the stacks of a process's threads that hold the GIL. Raises StackError."""
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
        # Its first line shows that it has begun or failed.
        said = recorder.stdout.readline()
        yield
        said += recorder.communicate(timeout=_WRITE_S)[0]
    if recorder.returncode:
        raise StackError(f"py-spy cannot inspect the gateway: {said.strip()}")


def count_samples(lines: Iterable[str]) -> Counter[str]:
    """Count the samples of each package from lines such as `run (a.py:3);call (b.py:7) 12`,
    which end with the number of samples. Python's own modules, and gevent as their
    replacement, count towards the package that calls them."""
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
    """Run a gateway with one process and a fake TorchServe, with `more` settings, and a key if
    it requires one. Raises StackError."""
    map_path = running.write_map(run / "map.json", {}, [_LANGUAGE], device="cpu")
    key_file = run / "keys.json"
    port = INFERENCE + running.claim_port_offset()
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
    python = (sys.executable, "-m")
    headers = {}
    if settings.get("BABELGATE_KEYS") == REQUIRED:
        name = f"benchmark {os.getpid()}"
        add = (*python, "gateway", "keys", "add", "--name", name, *_GRANT)
        key = running.run_command(add, _WRITE_S, settings).strip()
        headers = {"Authorization": f"Bearer {key}"}
    fake = [*python, "benchmarks.instruments.instant", str(port)]
    log = run / "fake.log"
    with (
        running.run_program(fake, log, folder=ROOT, environment={}),
        running.start_gunicorn(run, settings) as stack,
    ):
        yield replace(stack, headers=headers)


#: More requests than any load sends.
_REQUESTS = 60_000
_CACHE_COLUMNS = ("requests/s", "p50 ms", "p95 ms", "errors", CPU_MS)


def compare_caches(*, clients: int, seconds: float, rounds: int) -> report.Findings:
    """Compare the gateway's CPU without a cache, with new sentences and with cached ones. Its
    backend answers at once."""
    with TemporaryDirectory() as name, ExitStack() as gateways:
        kept = gateways.enter_context(start(Path(name) / "on", running.CACHE_ON))
        plain = gateways.enter_context(start(Path(name) / "off", {}))
        ask = partial(load.measure_closed, clients=clients, seconds=seconds)
        turns = itertools.count()
        same = kept.aim(_write(_SENTENCES, "same"))
        load.measure_closed(same, clients=clients, seconds=_WARM_S)
        ways = {
            "not kept": lambda: ask(plain.aim(_write(_REQUESTS, next(turns)))),
            "all different": lambda: ask(kept.aim(_write(_REQUESTS, next(turns)))),
            "all kept": lambda: ask(same),
        }
        return compare(ways, rounds, _CACHE_COLUMNS)


def _write(count: int, mark: object) -> list[Request]:
    """Return requests for sentences that differ from those of any other mark."""
    sentences = draw(_SENTENCES, (_LANGUAGE,))
    found = []
    for number in range(count):
        one = sentences[number % len(sentences)]
        stem = one.text.rstrip(".!?")  # text after the mark would be another sentence
        text = f"{stem} ({mark}, {number}){one.text[len(stem) :]}"
        found.append(write_request(replace(one, text=text)))
    return found
