# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the ranks that check collectives of PyTorch: values of each dtype and shape, and the calls that went to
Gloo."""
import torch

from heddle import torch_group

ADDED = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64)
COPIED = (*ADDED, torch.bool, torch.int16, torch.complex64, torch.complex128)
SHAPES = ((), (1,), (7,), (3, 1001), (2, 3, 5))
handed = []  # names of calls that went to Gloo


def count_gloo():
    """In handed."""
    hand_over = torch_group._Group._hand_over

    def counted(self, name, arguments, more):
        handed.append(name)
        return hand_over(self, name, arguments, more)

    torch_group._Group._hand_over = counted


def sample(rank, dtype, shape, step=0):
    """Values that differ by rank and place; small, so that sums and products of three are exact in each dtype."""
    count = torch.Size(shape).numel()
    numbers = (torch.arange(count) * 7 + 3 * rank + step) % 5 + 1
    if dtype == torch.bool:
        numbers = numbers % 2
    found = numbers.to(dtype)
    return (found * (1 + 2j) if dtype.is_complex else found).reshape(shape)


def laid(tensor, contiguous):
    """The same values, with gaps between them."""
    if contiguous or tensor.dim() == 0:
        return tensor.clone()
    wide = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
    wide[..., 1] = tensor
    assert not wide[..., 1].is_contiguous() or tensor.numel() <= 1
    return wide[..., 1]


def ended(call, *arguments, wait_for=True, **more):
    """Calls it, and waits for it in one of two ways."""
    work = call(*arguments, async_op=wait_for, **more)
    if wait_for:
        assert work.wait() and work.get_future().done()


def equal(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found, wanted)
    assert torch.equal(found, wanted), (found, wanted)


def cases(dtypes):
    for dtype in dtypes:
        for index, shape in enumerate(SHAPES):
            yield dtype, shape, index % 2 == 0
