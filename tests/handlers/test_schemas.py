"""What rows may ask for."""

import pytest

from handlers.base import Row, TaskError
from handlers.schemas import ClassificationParameters, DetectionParameters


@pytest.mark.parametrize(("given", "top_k"), [({}, 5), ({"top_k": "100"}, 100)])
def test_a_row_may_say_how_many_labels_it_wants(given, top_k):
    assert Row(b"", given).read_parameters(ClassificationParameters).top_k == top_k


@pytest.mark.parametrize(("given", "least"), [({}, 0.5), ({"threshold": ".3"}, 0.3)])
def test_a_row_may_say_which_score_an_object_needs(given, least):
    assert Row(b"", given).read_parameters(DetectionParameters).threshold == least


@pytest.mark.parametrize("text", ["", "0", "101", "5.5", "five", "9" * 5000])
def test_another_number_of_labels_is_refused(text):
    with pytest.raises(TaskError) as refusal:
        Row(b"", {"top_k": text}).read_parameters(ClassificationParameters)
    assert refusal.value.slug == "invalid-request"
    assert refusal.value.detail == (
        f"top_k: found {text[:20]!r}, expected a whole number from 1 to 100"
    )


@pytest.mark.parametrize("text", ["", "-0.1", "1.01", "nan", "inf", "half"])
def test_another_threshold_is_refused(text):
    with pytest.raises(TaskError, match="expected a number from 0 to 1"):
        Row(b"", {"threshold": text}).read_parameters(DetectionParameters)
