# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions. A call of libheddle that fails raises Error, an OSError with the errno of heddle.h and its words."""
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ticket import Status


class Error(OSError):
    """A call failed: `errno` as in heddle.h, `strerror` with the details of heddle_last_error()."""

    def __init__(self, number: int, text: str = ""):
        super().__init__(number, text or os.strerror(number))


class OperationFailed(Error):
    """A push, pull or collective has ended without success. `status.reason` says why."""

    def __init__(self, number: int, text: str, status: "Status"):
        super().__init__(number, text)
        self.status = status


class TimedOut(Error, TimeoutError):
    """The operation was not over in time."""
