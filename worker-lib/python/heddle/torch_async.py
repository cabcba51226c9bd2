# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous training: an optimizer that pushes gradients to the parameter server and pulls the newest model.

    parameters = initial values (equal at all workers) + the model of the server, which begins as 0

    step():  push the gradient of version v  ->  pull the newest model, while the push goes on"""
import contextlib
import math
from typing import Any, Callable, Optional

import torch

from .equal import digest
from .errors import OperationFailed
from .job import Job, Tensor
from .ticket import Status, Ticket

_NAME_CHARACTERS = 50  # of at most 64 bytes


class AsyncSGD(torch.optim.Optimizer):
    """SGD at the parameter server, from gradients that each worker computes at its own pace. A worker's update is
    dropped if it was computed from a model that is more than `tau_max` commits old (the staleness bound); `dropped`
    counts these.

    module: all its parameters that require grad are trained: float32, of any device, at most 1024 tensors. All workers
    must begin with the same values (torch.manual_seed()): others are refused when they join. Buffers, such as those of
    BatchNorm, stay each worker's own. lr, momentum, weight_decay: as for torch.optim.SGD, and equal at all workers; a
    learning rate scheduler scales the updates. payload: "fp32", "fp16" or "bf16". timeout: seconds for each wait; None:
    no limit. job_options: as for Job (name, controller, server, staleness ...).

    TypeError: a parameter of another dtype. ValueError: no parameter, lr is not positive. Error: as Job. TimedOut: the
    server does not answer. Use it in a `with` block, or call close()."""

    def __init__(self, module: torch.nn.Module, lr: float, momentum: float = 0.0, weight_decay: float = 0.0, *,
                 tau_max: int = 16, payload: str = "fp32", timeout: Optional[float] = 60.0, **job_options: Any):
        if not 0 < lr < math.inf:
            raise ValueError(f"lr: {lr} is not a positive number")
        named = [(name, value) for name, value in module.named_parameters() if value.requires_grad]
        if not named:
            raise ValueError("the module has no parameter that requires grad")
        for name, value in named:
            if value.dtype != torch.float32:
                raise TypeError(f"parameter {name} is of dtype {value.dtype}: float32 can be trained")
        super().__init__([value for _, value in named], {"lr": lr, "weight_decay": weight_decay})
        self._rate, self._payload, self._timeout = lr, payload, timeout
        self._values = [value for _, value in named]
        self._initial = self._flat(value.detach() for value in self._values)
        self._model = torch.zeros_like(self._initial)
        self._pushed: Optional[Ticket] = None
        self.dropped = 0  #: updates of this worker that were too old
        self.applied = 0  #: updates of this worker that are in the model
        tensors = [Tensor(f"{index}.{name[-_NAME_CHARACTERS:]}", tuple(value.shape) or (1,))
                   for index, (name, value) in enumerate(named)]
        # The seed is part of the description that must be equal at all workers.
        seed = int.from_bytes(digest(self._initial)[:8], "little")
        self.job = Job(tensors=tensors, seed=seed, learning_rate=lr, momentum=momentum, tau_max=tau_max, **job_options)
        try:
            self.job.wait_joined(timeout)
            self._base = self._pull()
        except BaseException:
            self.job.close(0)
            raise

    @property
    def version(self) -> int:
        """The version of the model that the parameters have now."""
        return self._base

    @staticmethod
    def _flat(values):
        return torch.cat([value.reshape(-1).to("cpu", torch.float32) for value in values])

    def _gradient(self):
        decay = self.param_groups[0]["weight_decay"]
        zeros = (torch.zeros_like(value) if value.grad is None else value.grad for value in self._values)
        gradient = self._flat(zeros)
        return gradient.add_(self._initial + self._model, alpha=decay) if decay else gradient

    def _pull(self):
        version = self.job.pull(self._model, timeout=self._timeout).version
        newest, at = self._initial + self._model, 0
        with torch.no_grad():
            for value in self._values:
                value.copy_(newest[at:at + value.numel()].view_as(value))
                at += value.numel()
        return version

    def _count(self, status: Status):
        if status.state == "dropped":
            self.dropped += 1
        else:
            self.applied += 1

    def flush(self) -> None:
        """Waits until the outcome of the last push is known. OperationFailed; TimedOut."""
        if self._pushed is None:
            return
        try:
            status = self._pushed.wait(self._timeout)
        except OperationFailed:
            self._pushed = None
            raise
        self._pushed = None
        self._count(status)

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Pushes the gradients, which were computed from the present parameters, and replaces the parameters by the
        newest model. At most one push of this worker is in flight. Returns the closure's loss. Error (EDOM): a gradient
        is NaN or Inf: nothing was pushed."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        gradient = self._gradient()
        self.flush()
        scale = self.param_groups[0]["lr"] / self._rate * (self.job.members().scale or 1.0)
        if scale > 0:
            self._pushed = self.job.push_start(gradient, self._base, payload=self._payload, scale=scale)
        self._base = self._pull()
        return loss

    def pull(self) -> int:
        """Replaces the parameters by the newest model; returns its version."""
        self.flush()
        self._base = self._pull()
        return self._base

    def add_param_group(self, param_group: "dict[str, Any]") -> None:
        """ValueError: the model of the server is fixed; there is one group."""
        if self.param_groups:
            raise ValueError("AsyncSGD has one group of parameters")
        super().add_param_group(param_group)

    def close(self) -> None:
        """Waits for the last push, and leaves the job."""
        try:
            with contextlib.suppress(OperationFailed, ValueError):
                self.flush()
        finally:
            self.job.close()

    def __enter__(self) -> "AsyncSGD":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
