"""The detection section of the map."""

from catalog.sections import Count, CountOrNone, Text, VisionSection


class DetectionSection(VisionSection):
    """Boxes around objects."""

    model: Text = "models/shapes/detection"
    batch_size: Count = 8
    max_batch_delay: CountOrNone = 5
