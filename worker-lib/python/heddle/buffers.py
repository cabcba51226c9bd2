# SPDX-License-Identifier: BSD-3-Clause
"""The memory of a numpy array, a PyTorch tensor or any object with a buffer: address, number and type of the values,
and the kind of memory. Nothing is copied."""
import ctypes
import sys

from . import native

TENSOR_TYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "int8": "int8",
                "uint8": "uint8", "int32": "int32", "int64": "int64"}
# A letter of struct's formats and the bytes of a value; C's long has 4 or 8.
FORMATS = {("f", 4): "fp32", ("e", 2): "fp16", ("d", 8): "fp64", ("b", 1): "int8", ("B", 1): "uint8", ("i", 4): "int32",
           ("l", 4): "int32", ("l", 8): "int64", ("q", 8): "int64"}


NO_MEMORY = "the tensor has no memory, or not for all of its values: was its storage resized?"


class Buffer:
    """Contiguous values of a type of native.TYPES. `owner` keeps the memory alive; `device` is None for host memory."""

    __slots__ = ("address", "count", "type", "memory", "stream", "device", "owner")

    def __init__(self, address, count, kind, owner, memory=native.HOST, stream=None, device=None):
        self.address, self.count, self.type, self.owner = address, count, kind, owner
        self.memory, self.stream, self.device = memory, stream, device


def of(data, writable, types=("fp32",), empty=False):
    """empty: it may have no values; its address is None then. TypeError: not of these types, no array; ValueError: not
    contiguous, empty, read-only, not aligned, without memory, a tensor that needs autograd."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        return _of_tensor(torch, data, writable, types, empty)
    return _of_object(data, writable, types, empty)


def tensor_type(tensor):
    """Its name in native.TYPES, or None."""
    return TENSOR_TYPES.get(str(tensor.dtype).partition(".")[2])


def has_memory(tensor):
    """Whether a strided tensor has memory for all of its values. It has not where its storage was freed, as FSDP does,
    or where it only describes others, as a DTensor."""
    if tensor.numel() == 0:
        return True
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    last = tensor.storage_offset() + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr() != 0 and (last + 1) * tensor.element_size() <= storage.nbytes()


def _of_tensor(torch, data, writable, types, empty):
    kind = tensor_type(data)
    if kind not in types:
        raise TypeError(f"the tensor's dtype is {data.dtype}, not {_listed(types)}")
    if data.layout != torch.strided or not data.is_contiguous():
        raise ValueError("the tensor is not contiguous: pass tensor.contiguous()")
    if data.is_neg():
        raise ValueError("the tensor is a negative view: pass tensor.resolve_neg()")
    if writable and data.requires_grad and data.is_leaf and torch.is_grad_enabled():
        raise ValueError("the tensor requires grad: pass tensor.detach() or use torch.no_grad()")
    if data.numel() == 0 and not empty:
        raise ValueError("the tensor is empty")
    if data.device.type in ("cpu", "cuda") and not has_memory(data):
        raise ValueError(NO_MEMORY)
    if data.device.type == "cpu":
        return Buffer(data.data_ptr() or None, data.numel(), kind, data)
    if data.device.type != "cuda":
        raise TypeError(f"the tensor is on device {data.device}, not on cpu or cuda")
    stream = torch.cuda.current_stream(data.device).cuda_stream
    return Buffer(data.data_ptr(), data.numel(), kind, data, native.CUDA, stream, data.device)


def _listed(types):
    return "fp32" if len(types) == 1 else "one of " + ", ".join(types)


def _of_object(data, writable, types, empty):
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"{type(data).__name__} is neither an array nor a tensor") from None
    numpy = sys.modules.get("numpy")
    kind = FORMATS.get((view.format.lstrip("<=@"), view.itemsize))
    if kind not in types:
        raise TypeError(f"the array's values are of format {view.format!r}, not {_listed(types)}")
    if not view.c_contiguous:
        raise ValueError("the array is not contiguous: pass numpy.ascontiguousarray(array)")
    if writable and view.readonly:
        raise ValueError("the array is read-only")
    if view.nbytes == 0:
        if empty:
            return Buffer(None, 0, kind, data)
        raise ValueError("the array is empty")
    count = view.nbytes // native.TYPE_BYTES[kind]
    if not view.readonly:
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
    elif numpy is not None and isinstance(data, numpy.ndarray):
        address = data.ctypes.data
    else:  # another read-only buffer, as a numpy scalar: its address is had by a copy only
        copy = (ctypes.c_char * view.nbytes).from_buffer_copy(view)
        return Buffer(ctypes.addressof(copy), count, kind, copy)
    if address % native.TYPE_BYTES[kind] != 0:
        raise ValueError("the array is not aligned: pass numpy.require(array, requirements=\"A\")")
    return Buffer(address, count, kind, (data, view))
