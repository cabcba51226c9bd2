# SPDX-License-Identifier: BSD-3-Clause
"""Whether the workers of a job, or the ranks of a process group, have bit-equal tensors: each adds the bits of a hash
to one sum, as values 0 and 1. The hashes are equal when each sum is 0 or the number of those in it (heddle_agree())."""
import ctypes
import hashlib
import sys
from array import array
from typing import Any, Mapping

from . import buffers

HASH_BYTES = 32


def _bytes_of(torch: Any, data: Any) -> "tuple[str, tuple[Any, Any]]":
    """A text that describes the values; their bytes in the order of their indices, and the owner of these."""
    if torch is not None and isinstance(data, torch.Tensor):
        if data.layout == torch.strided and not buffers.has_memory(data):
            raise ValueError(buffers.NO_MEMORY)
        held = data.detach().resolve_conj().resolve_neg().cpu().contiguous()
        size = held.numel() * held.element_size()
        memory = (ctypes.c_char * size).from_address(held.data_ptr()) if size > 0 else b""
        return f"{data.dtype} {tuple(data.shape)}", (memory, held)
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"{type(data).__name__} is neither an array nor a tensor") from None
    try:
        memory = view.cast("B")
    except (TypeError, ValueError):  # not contiguous, no values, or of a format that can't be cast
        memory = view.tobytes()
    return f"{view.format} {view.shape}", (memory, data)


def digest(*data: Any) -> bytes:
    """The hash (BLAKE2b-256) of arrays, tensors of any dtype, shape and device, or mappings from names to them, such as
    a state_dict(): of their values, types, shapes, names and order. TypeError: none of these. ValueError: a tensor
    without memory."""
    torch, state = sys.modules.get("torch"), hashlib.blake2b(digest_size=HASH_BYTES)
    for item in data:
        for name, one in item.items() if isinstance(item, Mapping) else [("", item)]:
            about, (memory, held) = _bytes_of(torch, one)
            state.update(f"{name!r} {about}\n".encode())
            state.update(memory)
            del memory, held
    return state.digest()


def bits_of(value: bytes) -> array:
    """The addends of a hash."""
    return array("f", [byte >> bit & 1 for byte in value for bit in range(8)])


def all_equal(sums: Any, workers: int) -> bool:
    """Whether the sums of the addends of this many workers are those of equal hashes."""
    return all(value in (0, workers) for value in sums)
