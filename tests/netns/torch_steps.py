# SPDX-License-Identifier: BSD-3-Clause
"""One rank of bench_torch.py: trains with DistributedDataParallel, and prints what it has measured as one JSON line.

usage: torch_steps.py gloo|hook|group MODEL STEPS TRAINER [PID...]   (environment of torchrun, and of Heddle)
       torch_steps.py alone MODEL STEPS TRAINER                      one process, without a network

gloo: on Gloo; hook: Heddle's, beside a group of Gloo; group: the process group heddle. PID: of the fabric's programs,
whose processor time counts. TRAINER: librival_trainer.so, which has the digits. A model has SGD with momentum."""
import ctypes
import hashlib
import json
import pathlib
import statistics
import sys
import time
import types

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import pen

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import rival_ddp  # noqa: E402  # pylint: disable=wrong-import-position

WARM = 3  # steps before those that are measured: sessions open, and DDP makes its buckets again after the first
SEED, JOIN_S, MOMENTUM = 7, 30, 0.9
BATCH, HIDDEN = 32, "mlp:512,512"  # of digits
WIDTH, LAYERS, HEADS, VOCABULARY, SEQUENCES, TOKENS = 384, 5, 6, 2048, 2, 12


class Digits:
    """The trainer's MLP on its minibatches."""
    rate = 0.05

    def __init__(self, trainer, rank, size):
        options = types.SimpleNamespace(library=trainer, model=HIDDEN, batch=BATCH, rank=rank, world=size, seed=SEED)
        self.trainer = rival_ddp.Trainer(options)
        self.net = rival_ddp.Net(HIDDEN, self.trainer.features, 10, self.trainer.initial())

    def loss(self, net):
        x, y = self.trainer.minibatch()
        return cross_entropy(net(x), y)


class Encoder(torch.nn.Module):
    """A causal transformer of 10.5 million parameters."""

    def __init__(self):
        super().__init__()
        self.words, self.places = (torch.nn.Embedding(rows, WIDTH) for rows in (VOCABULARY, TOKENS))
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.scores = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        mask = torch.full((TOKENS, TOKENS), float("-inf")).triu(1)  # not a buffer: DDP would broadcast it
        return self.scores(self.layers(self.words(tokens) + self.places(torch.arange(TOKENS)), mask))


class Transformer:
    """It learns to count, from few tokens a step: a step is short of computing, and long of values."""
    rate = 0.01

    def __init__(self, trainer, rank, size):  # pylint: disable=unused-argument
        torch.manual_seed(SEED)
        self.net, self.generator = Encoder(), torch.Generator().manual_seed(SEED + 1 + rank)

    def loss(self, net):
        first = torch.randint(VOCABULARY, (SEQUENCES, 1), generator=self.generator)
        tokens = (first + torch.arange(TOKENS + 1)) % VOCABULARY
        return cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


MODELS = {"mlp": Digits, "transformer": Transformer}


class Ended:
    """A ticket."""

    def __init__(self, job):
        self._job = job

    def wait(self, timeout=None):
        pass


class AtOnce:
    """In the place of a Job: a sum over one worker is there when it is asked for."""

    def allreduce_start(self, data, **options):  # pylint: disable=unused-argument
        return Ended(self)


def given_back(_, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The least that a hook can do."""
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


class Training:
    def __init__(self, model, hook=None, state=None):
        self.model, self.net = model, DistributedDataParallel(model.net)
        if hook is not None:
            self.net.register_comm_hook(state, hook)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=model.rate, momentum=MOMENTUM)

    def step(self):
        """Its loss, and seconds."""
        began = time.monotonic()
        self.optimizer.zero_grad()
        loss = self.model.loss(self.net)
        loss.backward()
        self.optimizer.step()
        return loss.item(), time.monotonic() - began

    def values(self):
        return torch.cat([p.detach().reshape(-1) for p in self.net.parameters()])


def begun(mode, model):
    """A Training over the network, and what is to be closed after it."""
    dist.init_process_group("heddle" if mode == "group" else "gloo")
    model = MODELS[model]
    model = model(sys.argv[4], dist.get_rank(), dist.get_world_size())
    if mode != "hook":
        return Training(model), []
    import heddle.torch  # pylint: disable=import-outside-toplevel
    job = heddle.Job()
    job.wait_joined(JOIN_S)
    return Training(model, heddle.torch.allreduce_hook, job), [job]


def processor_s(pids):
    """Of this process, and of the fabric's."""
    return time.process_time() + sum(map(pen.used_ns, pids)) / 1e9


def measure(mode, model, steps, pids):
    if mode == "group":
        import heddle.torch  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
    training, jobs = begun(mode, model)
    for _ in range(WARM):
        training.step()
    dist.barrier()
    used, began = processor_s(pids), time.monotonic()
    done = [training.step() for _ in range(steps)]
    used, took = processor_s(pids) - used, time.monotonic() - began
    dist.barrier()  # none leaves before all have ended
    values = training.values()
    data = ctypes.string_at(values.data_ptr(), 4 * len(values))
    print(json.dumps({"losses": [loss for loss, _ in done], "seconds": [seconds for _, seconds in done],
                      "processor_s": used, "took_s": took, "bytes": 4 * len(values),
                      "bits": hashlib.sha256(data).hexdigest()}), flush=True)
    for job in jobs:
        job.close()
    dist.destroy_process_group()


def alone(model, steps):
    """Medians of steps in turns: with a hook that gives the bucket back, with Heddle's, and without one."""
    import heddle.torch  # pylint: disable=import-outside-toplevel
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    made = MODELS[model]
    trainings = {"least": Training(made(sys.argv[4], 0, 1), given_back),
                 "hook": Training(made(sys.argv[4], 0, 1), heddle.torch.allreduce_hook, AtOnce()),
                 "none": Training(made(sys.argv[4], 0, 1))}
    took = {name: [] for name in trainings}
    losses = {name: [] for name in trainings}
    for number in range(WARM + steps):
        for name, training in trainings.items():
            loss, seconds = training.step()
            losses[name].append(loss)
            took[name] += [seconds] * (number >= WARM)
    assert losses["hook"] == losses["none"] == losses["least"], losses
    print(json.dumps({f"{name}_ms": 1e3 * statistics.median(values) for name, values in took.items()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "alone":
        alone(sys.argv[2], int(sys.argv[3]))
    else:
        measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), list(map(int, sys.argv[5:])))
