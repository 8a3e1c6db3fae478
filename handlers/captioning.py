"""The captioning task: a caption for an image, or for each frame of an array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice

from handlers.base import ModelConfig, Outcome, Result, Row, TaskHandler
from handlers.engine.errors import OutOfMemory, run_in_halves
from handlers.engine.vision.captioner import CaptioningEngine
from handlers.engine.vision.engine import Image
from handlers.images import BLACK, no_memory, place_engine, read_frames


class CaptioningHandler(TaskHandler[list[Image]]):
    """Serves one BLIP-2. The frames of all rows of a batch are captioned together."""

    def load_model(self, config: ModelConfig) -> None:
        options = config.options
        self.max_pixels: int = options["max_pixels"]
        self.max_batch_frames: int = options["max_batch_frames"]
        self.engine = place_engine(
            CaptioningEngine, config, max_tokens=options["max_tokens"]
        )
        self.engine.caption([self.engine.preprocess(BLACK)])

    def preprocess(self, row: Row) -> list[Image]:
        return [*map(self.engine.preprocess, read_frames(row, self.max_pixels))]

    def infer(self, items: Sequence[list[Image]], deadline: float) -> Outcome:
        images = list(chain(*items))
        packs = [
            run_in_halves(
                self.engine.caption, images[start : start + self.max_batch_frames]
            )
            for start in range(0, len(images), self.max_batch_frames)
        ]
        dealt = chain.from_iterable(captions for captions, _ in packs)
        results = [_answer(list(islice(dealt, len(item)))) for item in items]
        halved = sum(halved for _, halved in packs)
        return Outcome(
            results, {"BabelgateFrames": len(images), "BabelgateHalvedPacks": halved}
        )


def _answer(captions: list[str | OutOfMemory]) -> Result:
    if any(isinstance(caption, OutOfMemory) for caption in captions):
        return no_memory()
    return {"captions": captions}
