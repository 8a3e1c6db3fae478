"""Array headers are written as by NumPy; those that do not describe frames are refused."""

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.npy import START_BYTES, HeaderError, measure, read_shape, write_header

SIDES = st.integers(1, 10_000)


def describe(fields: str, version: int = 1) -> bytes:
    length = len(fields).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + fields.encode()


def save(array: Any, version: tuple[int, int] | None = None) -> bytes:
    """The header that NumPy writes for an array, without the data."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), version=version)
    size = file.tell() - np.asanyarray(array).nbytes
    return file.getvalue()[:size]


@given(shape=st.one_of(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES, SIDES)))
def test_it_is_written_as_numpy_writes_it(shape: tuple[int, ...]):
    shape = (*shape, 3)
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    header = write_header(shape)
    assert header == file.getvalue()
    assert measure(header[:START_BYTES]) == len(header)
    assert read_shape(header) == shape


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_is_read(version: tuple[int, int]):
    header = save(np.zeros((4, 5, 3), np.uint8), version)
    assert measure(header[:START_BYTES]) == len(header)
    assert read_shape(header) == (4, 5, 3)


def test_other_programs_write_it_in_other_ways():
    text = '{"shape":(3,8,6,3),"fortran_order":False,"descr":"u1"}'
    assert read_shape(describe(text.replace('"', "'"))) == (3, 8, 6, 3)


def zeros(*shape: int, dtype: Any = np.uint8) -> bytes:
    return save(np.zeros(shape, dtype))


UINT8 = "{'descr': '|u1', 'fortran_order': False, 'shape': "
DAMAGED = "the array's header is damaged, expected that of numpy.save"


@pytest.mark.parametrize(
    ("header", "says"),
    [
        pytest.param(zeros(2, 2, 3, dtype="<f4"), "of float32, expected", id="float"),
        pytest.param(zeros(2, 2, 3, dtype=bool), "an array of bool", id="bool"),
        pytest.param(
            save(np.zeros((4, 2, 3), np.uint8, order="F")), "Fortran's", id="Fortran"
        ),
        pytest.param(zeros(2, 2), "of shape (2, 2), expected (height,", id="2 axes"),
        pytest.param(zeros(0, 2, 2, 3), "of shape (0, 2, 2, 3)", id="no frames"),
        pytest.param(describe(UINT8 + "(-1, 2, 3)}"), DAMAGED, id="below 0"),
        pytest.param(describe("{'descr': '|u1', " * 3), DAMAGED, id="a field thrice"),
        pytest.param(describe("__import__('os').abort()"), DAMAGED, id="code"),
        pytest.param(zeros(2, 2, 3)[:60], DAMAGED, id="cut off"),
        pytest.param(b"\x93NUMPY\1", DAMAGED, id="no length"),
    ],
)
def test_what_is_not_frames_is_refused(header: bytes, says: str):
    with pytest.raises(HeaderError) as refusal:
        read_shape(header)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("start", "says"),
    [
        pytest.param(b"\x93NUMPY", "version 0 of .npy, expected 1, 2", id="none"),
        pytest.param(b"\x93NUMPY\4\0", "version 4", id="unknown"),
        pytest.param(b"\x93NUMPY\1\0\xff\xff", "has 65535 bytes", id="long"),
        pytest.param(b"\x93NUMPY\2\0\xff\xff\xff\x7f", "it may have", id="longer"),
    ],
)
def test_what_begins_otherwise_is_refused(start: bytes, says: str):
    with pytest.raises(HeaderError) as refusal:
        measure(start)
    assert says in str(refusal.value)
