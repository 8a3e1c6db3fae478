"""The captioning section of the map."""

from __future__ import annotations

from catalog.sections import Count, CountOrNone, Text, VisionSection


class CaptioningSection(VisionSection):
    """Its keys and defaults."""

    model: Text = "models/shapes/captioning"
    #: A request brings a batch of frames of its own.
    batch_size: Count = 1
    max_batch_delay: CountOrNone = 0
    response_timeout: Count = 120
    #: Frames that the model reads at once.
    max_batch_frames: Count = 32
    #: Tokens of a caption.
    max_tokens: Count = 30
