# SPDX-License-Identifier: BSD-3-Clause
"""All-reduces of PyTorch tensors."""
import math

from . import buffers
from .torch_future import complete


def _values(tensor, payload):
    """Contiguous values that the library can read and write: the tensor's own, or a copy; and the payload."""
    kind = buffers.tensor_type(tensor)
    if kind is None:
        raise TypeError(f"a tensor of dtype {tensor.dtype} can't be all-reduced: not one of "
                        + ", ".join(buffers.TENSOR_TYPES))
    half = kind in ("fp16", "bf16")
    if half and payload not in ("fp32", kind):
        return tensor.float().contiguous(), kind if payload == "fp32" else payload
    return tensor.contiguous(), payload if kind == "fp32" else "fp32"


def begin_allreduce(job, tensor, *, op, payload="fp32", exact=0):
    """Starts an all-reduce of a tensor in place; returns the Ticket and what is to be called when it has been applied.
    Values travel in the tensor's type; floats of 32 and 16 bits as `payload`, if it is one of 16 bits. exact: as for
    Job.allreduce(). Waits for all registered workers, as torch does. TypeError: no type for all-reduces."""
    values, payload = _values(tensor.detach().resolve_neg(), payload)

    def finish():
        if values.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(values)

    wait = None if exact else math.inf
    return job.allreduce_start(values, op=op, payload=payload, exact=exact, wait=wait), finish


def start_allreduce(job, tensor, *, op, payload="fp32"):
    """As begin_allreduce(); returns a torch.futures.Future of the tensor."""
    ticket, finish = begin_allreduce(job, tensor, op=op, payload=payload)

    def result():
        finish()
        return tensor

    return complete(ticket, result, devices=[tensor.device] if tensor.is_cuda else None)
