"""The part of MessagePack in which polars writes expressions: unlike JSON it has NaN and infinities."""

from __future__ import annotations

import struct
from typing import Any


class Wide(int):
    """An integer that is packed into 128 bits."""


def unpacked(data: bytes) -> Any:
    """Return the value of these bytes, made of dicts, lists, texts, bytes, numbers, Booleans and None.

    >>> unpacked(packed({"a": [1, -7, 2.5, None, True, "b", b"c"]}))
    {'a': [1, -7, 2.5, None, True, 'b', b'c']}
    """
    value, end = _value(data, 0)
    if end != len(data):
        raise ValueError("there are more bytes after the value")
    return value


_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_SIZED = {
    0xC4: ("bytes", 1), 0xC5: ("bytes", 2), 0xC6: ("bytes", 4), 0xD9: ("text", 1), 0xDA: ("text", 2), 0xDB: ("text", 4),
    0xDC: ("list", 2), 0xDD: ("list", 4), 0xDE: ("dict", 2), 0xDF: ("dict", 4),
}  # fmt: skip


def _value(data: bytes, at: int) -> tuple[Any, int]:
    """Return the value that begins at this place, and the place after it."""
    head = data[at]
    at += 1
    if head < 0x80 or head >= 0xE0:
        return head if head < 0x80 else head - 256, at
    if head < 0xC0:
        kind = "text" if head >= 0xA0 else "list" if head >= 0x90 else "dict"
        return _sized(data, at, kind, head & (0x1F if kind == "text" else 0x0F))
    if head in _CONSTANTS:
        return _CONSTANTS[head], at
    if head in _NUMBERS:
        form = _NUMBERS[head]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if head not in _SIZED:
        raise ValueError(f"0x{head:x} begins no value")
    kind, width = _SIZED[head]
    return _sized(data, at + width, kind, int.from_bytes(data[at : at + width], "big"))


def _sized(data: bytes, at: int, kind: str, size: int) -> tuple[Any, int]:
    if kind in ("bytes", "text"):
        content = data[at : at + size]
        return (content if kind == "bytes" else content.decode()), at + size
    values = []
    for _ in range(size if kind == "list" else 2 * size):
        value, at = _value(data, at)
        values.append(value)
    return (values if kind == "list" else dict(zip(values[::2], values[1::2], strict=True))), at


def packed(value: Any) -> bytes:
    """Return the bytes of a value."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case Wide():
            return struct.pack(">BB", 0xC4, 16) + value.to_bytes(16, "big", signed=True)
        case int():
            return (
                b"\xd3" + value.to_bytes(8, "big", signed=True)
                if value < 2**63
                else struct.pack(">BQ", 0xCF, value)
            )
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case str():
            text = value.encode()
            return struct.pack(">BI", 0xDB, len(text)) + text
        case bytes():
            return struct.pack(">BI", 0xC6, len(value)) + value
        case list():
            return struct.pack(">BI", 0xDD, len(value)) + b"".join(map(packed, value))
        case dict():
            parts = (packed(name) + packed(body) for name, body in value.items())
            return struct.pack(">BI", 0xDF, len(value)) + b"".join(parts)
        case _:
            raise TypeError(f"{type(value).__name__} cannot be packed")
