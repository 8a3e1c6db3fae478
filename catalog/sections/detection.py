"""The detection section of the map."""

from __future__ import annotations

from catalog.sections import Count, CountOrNone, Text, VisionSection


class DetectionSection(VisionSection):
    """Its keys and defaults."""

    model: Text = "models/shapes/detection"
    batch_size: Count = 8
    max_batch_delay: CountOrNone = 5
