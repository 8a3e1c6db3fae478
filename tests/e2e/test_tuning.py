"""The tuner on real stacks, with an engine that takes no time: the right result is known."""

import csv
import json
import os
import sys

import catalog
from tests.programs import run

PLAN = """\
models:
  - languages: [fr]
    engine: echo
    max_batch_delay: [5, 2000]
load:
  clients: [1, 2]
  seconds: 2
  warm_up_seconds: 1
sla:
  p99_ms: 1500  # within a window of 2 s nothing is answered, whatever the machine
"""


def test_the_winner_is_what_the_figures_say_and_is_written_as_a_map(
    tmp_path_factory, cache
):
    # The path of a worker's socket has at most 107 bytes.
    folder = tmp_path_factory.mktemp("tune")
    (folder / "plan.yaml").write_text(PLAN, "utf-8")
    out = folder / "out"
    command = (sys.executable, "-m", "benchmarks", "tune", folder / "plan.yaml")
    env = os.environ | {"BABELGATE_CACHE": str(cache), "COLUMNS": "160"}
    run(*command, "--out", out, env=env, limit_s=500)
    with (out / "results.csv").open() as file:
        rows = {
            (row["configuration"].rpartition("=")[2], float(row["level"])): row
            for row in csv.DictReader(file)
            if row["rung"] == "0"
        }
    # A request waits for the window, and requests within a window are one batch.
    short, long = (float(rows[delay, 2]["queue ms"]) for delay in ("5", "2000"))
    assert long > 5 * short
    assert float(rows["2000", 1]["p99 ms"]) > 2000
    assert [float(rows["2000", clients]["batch fill"]) for clients in (1, 2)] == [1, 2]
    # No configuration meets an SLA that is shorter than its window.
    kept = {delay for (delay, _), row in rows.items() if row["is kept"] == "True"}
    assert kept - {"as it ships"} == {"5"}
    path = out / "setup_config.json"
    (model,) = catalog.load(path, gpus=0).models
    assert (model.settings.engine, model.settings.max_batch_delay) == ("echo", 5)
    report = (out / "report.md").read_text()
    assert "Confirmed: engine=echo max_batch_delay=5: " in report
    assert json.loads(path.read_text())["cuda_id"].keys() == {"fr"}
    assert not list((out / "stack").rglob("*.sock")), "something is left running"
