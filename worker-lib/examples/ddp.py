# SPDX-License-Identifier: BSD-3-Clause
"""DistributedDataParallel over Heddle (docs/pytorch.md). The lines with (1) and (2) are what differs from DDP on Gloo.
usage: torchrun --nproc_per_node 2 ddp.py [STEPS]"""
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import heddle.torch  # (1)

dist.init_process_group("heddle")  # (2)
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))
model = DistributedDataParallel(net)

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
target = torch.randn(32, 4)
generator = torch.Generator().manual_seed(100 + dist.get_rank())  # each worker has samples of its own
for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
    x = torch.randn(64, 32, generator=generator)
    loss = torch.nn.functional.cross_entropy(model(x), (x @ target).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"rank {dist.get_rank()}: loss {loss.item():.3f}")
dist.destroy_process_group()
