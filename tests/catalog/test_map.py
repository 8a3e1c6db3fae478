"""The map's file: valid content, and refusals that state place, value and expectation."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import catalog
from catalog import CatalogError
from catalog.map import WHOLE_MAP, check

REFUSALS = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text("utf-8"))
KO = {"ko": "0"}
A_DEVICE = (
    'expected "cpu", a GPU number such as "0", or a list of different GPU numbers such '
    'as ["0", "1"]'
)


def refuse(content: Any) -> list[str]:
    """Return the faults for which a map is refused."""
    with pytest.raises(CatalogError) as refusal:
        check(WHOLE_MAP, content, "map.json")
    places, lines = zip(
        *(line.split(": ", 1) for line in str(refusal.value).splitlines()), strict=True
    )
    assert set(places) == {"map.json"}
    return list(lines)


def test_every_setting_can_be_written():
    section = {
        "model": "facebook/m2m100_418M",
        "engine": "transformers",
        "compute_type": "bfloat16",
        "batch_size": 1,
        "max_batch_delay": 5,
        "placement": "device",
        "workers": 2,
        "queue_size": 8,
        "response_timeout": 300,
        "idle_unload_s": 60,
        "max_batch_tokens": 0,
        "vocabulary": "all",
        "max_beam_size": 1,
        "max_alternatives": 0,
        "pivot": "no",
        "targets": {
            "no": {
                "model": "Helsinki-NLP/opus-mt-en-no",
                "engine": "ctranslate2",
                "compute_type": "int8",
                "fallback": "facebook/m2m100_418M",
                "fallback_quality": 0.5,
            }
        },
    }
    placement = {
        "replicas": (1, 4),
        "max_replicas_per_machine": 100,
        "gpus": 0.25,
        "accelerator": "H100",
    }
    content = {
        "cuda_id": {"no": "cpu"},
        "translation": section,
        "cluster": {"translation": placement},
    }
    found = check(WHOLE_MAP, content)
    assert found.translation.model_dump() == section
    assert found.find_placement("translation").model_dump() == placement


@pytest.mark.parametrize(
    ("content", "says"), REFUSALS["malformed"].values(), ids=REFUSALS["malformed"]
)
def test_a_malformed_map_is_refused(content: Any, says: str):
    assert refuse(content) == [says]


@pytest.mark.parametrize(("section", "says"), REFUSALS["values"], ids=str)
def test_a_bad_value_is_refused(section: dict[str, Any], says: str):
    (fault,) = refuse({"cuda_id": KO, "translation": section})
    assert fault.startswith(f"translation.{says}")


def test_all_faults_are_named_at_once():
    faults = refuse({"cuda_id": {"ko": 0}, "translation": {"batchsize": 8}})
    assert [fault.partition(":")[0] for fault in faults] == [
        "cuda_id.ko",
        "translation.batchsize",
    ]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [("cpu", ("cpu",)), ("00", ("0",)), (["1"], ("1",)), (["10", "9"], ("9", "10"))],
    ids=str,
)
def test_devices_are_read(devices: Any, expected: tuple[str, ...]):
    content = {"cuda_id": {"ko": devices}, "detection": {"devices": devices}}
    assert check(WHOLE_MAP, content).asked == {
        "cuda_id.ko": expected,
        "detection.devices": expected,
    }


@pytest.mark.parametrize(
    "device",
    [
        0, None, "", "gpu0", "-1", "²", "CPU", "0,1",
        pytest.param([], id="no GPU in a list"),
        pytest.param(["1", "01"], id="a GPU twice, written in two ways"),
        pytest.param(["cpu"], id="the CPU in a list"),
        pytest.param(["0", None], id="null in a list"),
    ],
)  # fmt: skip
def test_a_bad_device_is_refused(device: Any):
    says = f"cuda_id.ko: {A_DEVICE}, found {device!r}"
    assert refuse({"cuda_id": {"ko": device}}) == [says]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b'{"cuda_id": ', "Expecting value: line 1", id="not JSON"),
        pytest.param(b'{"cuda_id": {"\xff": 1}}', "0xff", id="not UTF-8"),
        pytest.param(
            b'{"cuda_id": {"ko": "0", "en": "0", "ko": "1"}}',
            "\"ko\" appears twice, as '0' and as '1'; expected each key once",
            id="a key twice",
        ),
        pytest.param(b"[" * 100_000, "recursion depth exceeded", id="brackets"),
        pytest.param(None, "No such file", id="missing"),
        pytest.param(
            b'{"detection": {}, "cluster": {"captioning": {"gpus": 1}}}',
            "cluster.captioning: expected a task of this map, one of detection",
            id="a placement of a task that is not served",
        ),
        pytest.param(
            b'{"cuda_id": {"ko": "4", "fr": ["0", "5"]}, "gpus": 2}',
            "cuda_id.fr: GPU 5 does not exist",
            id="two GPUs that do not exist",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path, content, says):
    path = tmp_path / "map.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CatalogError) as refusal:
        catalog.load(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert says in str(refusal.value)


REPLICAS = (
    '"auto", a whole number of at least 1, or the fewest and the most such as [1, 4]'
)
MOST = "a whole number from 0 to 100"
SHARE = '"auto", or a number from 0.0001 to 1'


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        *(("replicas", value, REPLICAS) for value in (0, True, 1.0, "2", None)),
        *(("replicas", value, REPLICAS) for value in ([], [2], [2, 1], [0, 1])),
        *(("gpus", value, SHARE) for value in (0, 2, True, "1", None, float("nan"))),
        ("accelerator", "", "a non-empty string"),
        *(("max_replicas_per_machine", value, MOST) for value in (-1, 101, "1")),
    ],
    ids=str,
)
def test_a_bad_placement_on_a_cluster_is_refused(key: str, value: Any, expected: str):
    content = {"detection": {}, "cluster": {"detection": {key: value}}}
    assert refuse(content) == [
        f"cluster.detection.{key}: expected {expected}, found {value!r}"
    ]


@pytest.mark.parametrize(("section", "says"), REFUSALS["contradictions"], ids=str)
def test_what_contradicts_the_rest_of_the_map_is_refused(section, says):
    content = {"cuda_id": {"ko": "0", "fr": "0"}, "translation": section}
    assert refuse(content) == [f"translation.{says}"]


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("replicas", 3, (3, 3)),
        ("replicas", [1, 4], (1, 4)),
        ("gpus", 1, 1.0),
        ("gpus", 0.33339, 0.3333),
    ],
)
def test_a_placement_on_a_cluster_is_read(key: str, value: Any, found: Any):
    content = {"cuda_id": KO, "cluster": {"translation": {key: value}}}
    placement = check(WHOLE_MAP, content).find_placement("translation")
    assert getattr(placement, key) == found
