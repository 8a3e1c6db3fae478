"""The classification section of the map."""

from catalog.sections import CountOrNone, Text, VisionSection


class ClassificationSection(VisionSection):
    """Labels for images."""

    model: Text = "models/shapes/classification"
    max_batch_delay: CountOrNone = 5
