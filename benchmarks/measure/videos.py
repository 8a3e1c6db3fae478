"""The benchmark video: drawn, encoded as H.264 and kept."""

from __future__ import annotations

from pathlib import Path

import av
from av.video.frame import VideoFrame

from benchmarks.instruments.keeping import keep
from models.shapes_recipe import scenes
from models.shapes_recipe.clips import draw_clip, plan_clip

_SEED = 5
_FRAMES_PER_S = 30
#: A usual file's quality and seeking, quickly encoded.
_OPTIONS = {"crf": "23", "preset": "veryfast", "g": "250"}


def find_video(cache: Path, frames: int, *, width: int, height: int) -> Path:
    """The video of this size, drawn once; every size shows the same scenes."""

    def make(part: Path) -> None:
        with av.open(part, "w") as container:
            stream = container.add_stream("libx264", _FRAMES_PER_S, options=_OPTIONS)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            for _, picture in draw_clip(_SEED, frames, width=width, height=height):
                container.mux(stream.encode(VideoFrame.from_ndarray(picture)))
            container.mux(stream.encode())

    return keep(cache / f"shapes-{frames}-{width}x{height}.mp4", make)


def list_captions(frames: int) -> list[str]:
    """The captions of the video's frames."""
    return [scenes.describe(scene) for scene in plan_clip(_SEED, frames)]
