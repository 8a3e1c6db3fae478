"""The header of a `.npy` file of frames, in NumPy's format versions 1 to 3. Clients write it,
the gateway cuts arrays by it, and handlers read it."""

import re

MAGIC = b"\x93NUMPY"
#: The bytes that `measure` needs.
START_BYTES = 12
#: The largest header; NumPy writes 128 bytes.
MOST_BYTES = 4096
#: The size of the length field, by version.
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_UINT8 = {"|u1", "<u1", ">u1", "=u1", "u1"}
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
_ALIGNMENT = 64
#: Replaces NumPy's reader, which evaluates the header as a Python literal, so that hostile
#: input causes warnings. Repetitions are possessive: no header is slow.
_FIELDS = re.compile(
    r"""\{\s*+
    (?:(?:'descr'\s*+:\s*+'(?P<descr>[^'\s]{1,16})'
         |'fortran_order'\s*+:\s*+(?P<fortran>True|False)
         |'shape'\s*+:\s*+\((?P<shape>(?:\s*+\d{1,18}\s*+,?+)*+\s*+)\)
       )\s*+,?+\s*+){3}
    \}\s*+""",
    re.VERBOSE,
)


class HeaderError(ValueError):
    """A fault of a header. Its message is a sentence without capital and full stop."""


def measure(start: bytes) -> int:
    """Return the number of bytes before the frames, from a file's first bytes. Raises
    HeaderError if they do not belong to a header."""
    version = start[6] if len(start) > 6 else 0
    length_bytes = _LENGTH_BYTES.get(version)
    if length_bytes is None:
        raise HeaderError(f"found version {version} of .npy, expected 1, 2 or 3")
    begin = 8 + length_bytes
    length = int.from_bytes(start[8:begin], "little")
    if length > MOST_BYTES:
        raise HeaderError(
            f"the array's header has {length} bytes, it may have {MOST_BYTES}"
        )
    return begin + length


def read_shape(header: bytes) -> tuple[int, ...]:
    """Return `(height, width, 3)` or `(frames, height, width, 3)` from all bytes before the
    frames. Raises HeaderError for other shapes, and for arrays other than uint8 in C order."""
    is_whole = len(header) >= START_BYTES and len(header) >= measure(header)
    text = header[8 + _LENGTH_BYTES.get(header[6], 0) :] if is_whole else b""
    found = _FIELDS.fullmatch(text.decode("latin-1"))
    fields = found.groupdict() if found else {}
    if not fields or None in fields.values():
        raise HeaderError("the array's header is damaged, expected that of numpy.save")
    if fields["descr"] not in _UINT8:
        raise HeaderError(
            f"found an array of {_name_type(fields['descr'])}, expected one of uint8"
        )
    if fields["fortran"] == "True":
        raise HeaderError("found an array in Fortran's order, expected one in C's")
    shape = tuple(map(int, re.findall(r"\d+", fields["shape"])))
    if len(shape) not in (3, 4) or shape[-1] != 3 or 0 in shape:
        raise HeaderError(
            f"found an array of shape {str(shape)[:100]}, expected (height, width, 3) or "
            "(frames, height, width, 3), no 0 in it"
        )
    return shape


def write_header(shape: tuple[int, ...]) -> bytes:
    """Return all bytes before frames of uint8 in C order."""
    fields = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
    size = len(MAGIC) + 4 + len(fields) + 1
    text = fields.encode() + b" " * (-size % _ALIGNMENT) + b"\n"
    return MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text


def _name_type(descr: str) -> str:
    """Return NumPy's name of a type: `float32` for `<f4`."""
    found = re.fullmatch(r"[|<>=]?([fiuc])(\d{1,2})", descr)
    if found:
        return f"{_KINDS[found[1]]}{8 * int(found[2])}"
    return {"|b1": "bool", "|O": "object"}.get(descr, descr)
