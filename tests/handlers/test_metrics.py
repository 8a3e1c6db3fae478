"""The metrics of a batch, through TorchServe's own."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from ts.metrics.metric_cache_yaml_impl import MetricsCacheYamlImpl  # type: ignore[import-untyped]

from handlers.translation import TranslationHandler
from tests.handlers.encoding import write_image
from tests.handlers.fakes import ask, body
from tests.handlers.test_vision import start
from tests.random_vision import draw_frames

METRICS = Path(__file__).parents[2] / "torchserve_backend" / "metrics.yaml"
IMAGE = write_image(draw_frames(1)[0])


# TorchServe leaves the file open.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_every_metric_of_a_batch_is_declared_and_emitted(
    handler: TranslationHandler, resnet: Path, caplog: pytest.LogCaptureFixture
):
    """TorchServe drops what `metrics.yaml` does not declare, and reads the rest from one
    line each."""
    metrics = MetricsCacheYamlImpl(config_file_path=METRICS)
    metrics.initialize_cache()
    metrics.model_name = "ko"
    metrics.set_request_ids({0: "first", 1: "second"})
    with caplog.at_level(logging.INFO):
        ask(handler, [body("A"), body("B b")], metrics=metrics)
        ask(start("classification", resnet), [b"", IMAGE], metrics=metrics)
    lines = [line for line in caplog.messages if line.startswith("[METRICS]")]
    emitted = {line.removeprefix("[METRICS]").partition(".")[0] for line in lines}
    (counters,) = [
        set(found) for kind, found in metrics.cache.items() if kind.value == "counter"
    ]
    assert emitted == counters
    # Each once, but for those that both tasks have.
    common = {"Batches", "Rows", "DroppedRows", "QueueMs", "ComputeMs", "HalvedPacks"}
    assert len(lines) == len(emitted) + len(common)
    for line in lines:
        assert "|#ModelName:ko,Level:Model|" in line
        assert line.endswith(",first")
