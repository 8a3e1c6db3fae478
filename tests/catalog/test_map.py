"""The map's file: valid content, and refusals that state place, value and expectation."""

from typing import Any

import pytest

import catalog
from catalog import CatalogError
from catalog.map import WHOLE_MAP, check

KO = {"ko": "0"}
AN_OBJECT = 'expected an object such as {"ko": "0"}'
A_DEVICE = (
    'expected "cpu", a GPU number such as "0", or a list of different GPU numbers such '
    'as ["0", "1"]'
)
ENGINES = '"ctranslate2" or "transformers" or "echo"'
COUNT = "a whole number of at least"
FLOATS = "auto, float32, float16, bfloat16"


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


KEYS = "cuda_id, translation, gpus, cluster, captioning, classification, detection"
MALFORMED: dict[str, tuple[Any, str]] = {
    "a list": ([1], "expected an object, found [1]"),
    "no languages": (
        {"translation": {}, "detection": {}},
        f"cuda_id: {AN_OBJECT}, found None",
    ),
    "empty": ({"cuda_id": {}}, f"cuda_id: {AN_OBJECT}, found {{}}"),
    "a section": (
        {"cuda_id": KO, "translation": None},
        "translation: expected an object, found None",
    ),
    "unknown key": (
        {"cuda_id": KO, "devices": {}},
        f"devices: unknown key, expected one of {KEYS}",
    ),
    "unknown language": (
        {"cuda_id": {"kor": "0"}},
        "cuda_id.kor: expected a language of contract/languages.tsv such as ko, "
        "found 'kor'",
    ),
    "a misspelt language": (
        {"cuda_id": {"zh-Hnat": "0"}},
        "cuda_id.zh-Hnat: expected a language of contract/languages.tsv such as zh-Hant "
        "or zh-Latn or zh-HK, found 'zh-Hnat'",
    ),
    "devices of a task": (
        {"captioning": {"devices": "tpu"}},
        f"captioning.devices: {A_DEVICE}, found 'tpu'",
    ),
    "a task of the cluster": (
        {"cuda_id": KO, "cluster": {"replicas": 2}},
        "cluster.replicas: unknown key, expected one of translation, captioning, "
        "classification, detection",
    ),
    "a key of the cluster where it was once": (
        {"cuda_id": KO, "translation": {"replicas": 2}},
        'translation.replicas: unknown key, expected it in "cluster": {"translation": '
        '{"replicas": …}}',
    ),
    "GPUs": (
        {"detection": {}, "gpus": None},
        "gpus: expected a whole number of at least 0, found None",
    ),
}


@pytest.mark.parametrize(("content", "says"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_map_is_refused(content: Any, says: str):
    assert refuse(content) == [says]


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"model": ""}, "model: expected a non-empty string, found ''"),
        ({"engine": "onnx"}, f"engine: expected {ENGINES}, found 'onnx'"),
        ({"batch_size": 6.0}, f"batch_size: expected {COUNT} 1, found 6.0"),
        ({"workers": True}, f"workers: expected {COUNT} 1, found True"),
        ({"max_batch_delay": -1}, f"max_batch_delay: expected {COUNT} 0, found -1"),
        (
            {"max_beam_size": 9},
            "max_beam_size: expected a whole number from 1 to 8, found 9",
        ),
        ({"compute_type": "int7"}, "compute_type: expected one of auto, "),
        (
            {"engine": "transformers", "compute_type": "int8"},
            f"compute_type: expected one of {FLOATS} with the engine ",
        ),
        ({"engine": "onnx", "compute_type": "int8"}, "engine: expected "),
        (
            {"engine": "transformers", "vocabulary": "language"},
            "vocabulary: expected all with the engine transformers",
        ),
    ],
    ids=str,
)
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
        *(0, None, "", "gpu0", "-1", "²", "CPU", "0,1"),
        pytest.param([], id="no GPU in a list"),
        pytest.param(["1", "01"], id="a GPU twice, written in two ways"),
        pytest.param(["cpu"], id="the CPU in a list"),
        pytest.param(["0", None], id="null in a list"),
    ],
)
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
        pytest.param(None, "No such file", id="missing"),
        pytest.param(
            b'{"detection": {}, "cluster": {"captioning": {"gpus": 1}}}',
            "cluster.captioning: expected a task of this map, one of detection",
            id="a placement of a task that is not served",
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


SERVED = "a language of cuda_id, one of ko, fr"
OWN = {"fr": {"model": "opus"}}


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"pivot": "en"}, f"pivot: expected {SERVED}, found 'en'"),
        ({"targets": {"en": {}}}, f"targets.en: expected {SERVED}, found 'en'"),
        ({"targets": []}, "targets: expected an object, found []"),
        ({"targets": {"fr": None}}, "targets.fr: expected an object, found None"),
        (
            {"targets": {"fr": {"batch_size": 8}}},
            "targets.fr.batch_size: unknown key, expected one of model, engine, "
            "compute_type, fallback, fallback_quality",
        ),
        (
            {"targets": {"fr": {"fallback_quality": 2}}},
            "targets.fr.fallback_quality: expected a number from 0 to 1, found 2",
        ),
        (
            {"targets": {"fr": {"fallback_quality": 0.5}}},
            "targets.fr.fallback_quality: expected a fallback beside it, found 0.5",
        ),
        (
            {"targets": {"fr": {"fallback": "models/phrasebook"}}},
            "targets.fr.fallback: expected another model of this map: it has none, "
            "found 'models/phrasebook'",
        ),
        (
            {"targets": OWN | {"ko": {"model": "m", "fallback": "nllb"}}},
            "targets.ko.fallback: expected another model of this map: "
            "models/phrasebook, opus, found 'nllb'",
        ),
        (
            {"targets": {"fr": {"engine": "transformers", "compute_type": "int8"}}},
            f"targets.fr.compute_type: expected one of {FLOATS} with the engine "
            "transformers, found 'int8'",
        ),
        (
            {"vocabulary": "language", "targets": {"fr": {"engine": "echo"}}},
            "targets.fr.vocabulary: expected all with the engine echo, found 'language'",
        ),
    ],
    ids=str,
)
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
