"""The captioning section of the map."""

from pydantic import Field

from catalog.sections import Count, CountOrNone, Text, VisionSection


class CaptioningSection(VisionSection):
    """Captions for frames and images."""

    model: Text = "models/shapes/captioning"
    #: Each request contains a batch of frames.
    batch_size: Count = 1
    max_batch_delay: CountOrNone = 0
    response_timeout: Count = 120
    max_batch_frames: Count = Field(
        32, description="The most frames that the model processes at once."
    )
    max_tokens: Count = Field(30, description="The longest caption, in tokens.")
