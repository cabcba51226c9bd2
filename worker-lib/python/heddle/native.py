# SPDX-License-Identifier: BSD-3-Clause
"""libheddle.so by ctypes: where it is found, its structs and its functions (heddle.h). ctypes releases the
interpreter's lock during every call."""
import ctypes
import ctypes.util
import errno
import operator
import os
import pathlib

from .errors import Error, TimedOut

WORKERS_MAX = 4096
VERSION = "0.2."  # the versions of the library that this package knows
SONAME = "libheddle.so.0.2"
HOST, CUDA = 0, 1

STATES = ("queued", "requested", "granted", "sending", "held", "applied", "durable", "dropped", "failed")
ENDED = ("applied", "durable", "dropped", "failed")
PAYLOADS = {"fp32": 0, "fp16": 1, "bf16": 2, "fixed32": 3}
OPERATIONS = {"sum": 0, "average": 1, "min": 2, "max": 3, "product": 4}
# The values' types in the caller's memory, and their bytes.
TYPES = {"fp32": 0, "fp16": 1, "bf16": 2, "fp64": 3, "int8": 4, "uint8": 5, "int32": 6, "int64": 7}
TYPE_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp64": 8, "int8": 1, "uint8": 1, "int32": 4, "int64": 8}
INITS = {"zero": 0, "uniform": 1}
SYNCS = {"async": 0, "sync": 1, "n-sync": 2, "n-batch-sync": 3}
STALENESS = {"constant": 0, "inv-sqrt": 1, "adadelay": 2}
WAITS = {"held": 0, "outcome": 1, "released": 2, "durable": 3}
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
THEN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def integer(what, value, kind=ctypes.c_int):
    """It as an int. ctypes takes the lower bits of one that `kind` has not: ValueError. TypeError: it is none."""
    number = operator.index(value)
    if kind(number).value != number:
        raise ValueError(f"{what}: {number} is out of range")
    return number


_INTEGERS = (ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t)


class Sized(ctypes.Structure):
    """A struct whose first member is its size; everything else begins as 0. ValueError: an integer is out of range."""

    def __init__(self, **values):
        for name, kind in self._fields_:
            if name in values and kind in _INTEGERS:
                values[name] = integer(name, values[name], kind)
        super().__init__(size=ctypes.sizeof(self), **values)


class Options(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("controller", ctypes.c_char_p), ("server", ctypes.c_char_p),
                ("key_file", ctypes.c_char_p), ("host", ctypes.c_char_p), ("bind", ctypes.c_char_p),
                ("events", ctypes.c_char_p), ("rank", ctypes.c_int), ("manual", ctypes.c_int),
                ("keep_bytes", ctypes.c_uint64), ("chunk_bytes", ctypes.c_uint32), ("fallback_ms", ctypes.c_uint32),
                ("job_weight", ctypes.c_float), ("log", LOG), ("log_arg", ctypes.c_void_p), ("observe", ctypes.c_int),
                ("aggregator_mb", ctypes.c_int), ("world_size", ctypes.c_int)]


class PushOptions(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("memory", ctypes.c_int), ("stream", ctypes.c_void_p),
                ("borrow", ctypes.c_int), ("payload", ctypes.c_int), ("scale", ctypes.c_float)]


class PullOptions(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("memory", ctypes.c_int), ("stream", ctypes.c_void_p),
                ("conditional", ctypes.c_int), ("have", ctypes.c_uint64), ("payload", ctypes.c_int)]


WAIT_FOREVER = 2**32 - 1  # HEDDLE_WAIT_FOREVER


class CollectiveOptions(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("memory", ctypes.c_int), ("stream", ctypes.c_void_p),
                ("borrow", ctypes.c_int), ("payload", ctypes.c_int), ("reduce_op", ctypes.c_int),
                ("ranked", ctypes.c_int), ("type", ctypes.c_int), ("exact", ctypes.c_uint), ("tag", ctypes.c_char_p),
                ("out_count", ctypes.c_uint64), ("ranks", ctypes.c_void_p), ("rank_capacity", ctypes.c_size_t),
                ("wait_ms", ctypes.c_uint32), ("least", ctypes.c_uint)]


class Status(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("state", ctypes.c_int), ("reason", ctypes.c_int),
                ("direction", ctypes.c_int), ("released", ctypes.c_int), ("granted", ctypes.c_int),
                ("round", ctypes.c_uint32), ("delay", ctypes.c_uint32), ("workers", ctypes.c_uint32),
                ("base", ctypes.c_uint64),
                ("version", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("started_ns", ctypes.c_uint64),
                ("ended_ns", ctypes.c_uint64), ("scale", ctypes.c_float), ("waiting", ctypes.c_uint32)]


class StateOptions(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("part_bytes", ctypes.c_uint64), ("exact", ctypes.c_uint)]


class StateItem(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


class Members(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("change", ctypes.c_uint64), ("count", ctypes.c_uint32),
                ("index", ctypes.c_int), ("target", ctypes.c_uint32), ("sync_count", ctypes.c_uint32),
                ("tau_max", ctypes.c_uint32), ("scale", ctypes.c_float), ("step_scale", ctypes.c_float)]


class Stats(Sized):
    _fields_ = [("size", ctypes.c_size_t), *((name, ctypes.c_uint64) for name in (
        "pushed", "applied", "dropped", "failed", "pulled", "delivered", "granted_bytes", "direct_bytes",
        "asked_again", "fallbacks")), ("joined", ctypes.c_int), ("direct", ctypes.c_int),
                ("push_round", ctypes.c_uint32), ("aggregated_bytes", ctypes.c_uint64)]


class Range(ctypes.Structure):
    _fields_ = [("first", ctypes.c_uint64), ("count", ctypes.c_uint64)]


class Part(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("count", ctypes.c_uint64)]


# By the name in heddle.h; tests compare size and offsets with the compiler's.
STRUCTS = {"heddle_options": Options, "heddle_push_options": PushOptions, "heddle_pull_options": PullOptions,
           "heddle_collective_options": CollectiveOptions, "heddle_status": Status, "heddle_members": Members,
           "heddle_stats": Stats, "heddle_range": Range, "heddle_state_options": StateOptions,
           "heddle_state_item": StateItem, "heddle_part": Part}

_p, _i, _f, _s = ctypes.c_void_p, ctypes.c_int, ctypes.c_float, ctypes.c_char_p
_u32, _u64, _size = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t
_to = ctypes.POINTER

# name: (result, arguments). A result of int is an errno when it is negative.
FUNCTIONS = {
    "heddle_spec_create": (_i, [_s, _s, _to(_p)]),
    "heddle_spec_destroy": (None, [_p]),
    "heddle_spec_add_tensor": (_i, [_p, _s, _to(_u64), _size, _i, _f]),
    "heddle_spec_set_seed": (None, [_p, _u64]),
    "heddle_spec_set_sgd": (None, [_p, _f, _f, _f]),
    "heddle_spec_set_tau_max": (None, [_p, _u32]),
    "heddle_spec_set_sync": (None, [_p, _i, _u32]),
    "heddle_spec_set_staleness": (None, [_p, _i, _f]),
    "heddle_spec_set_div_max": (None, [_p, _f]),
    "heddle_spec_allow_not_finite": (None, [_p]),
    "heddle_spec_set_integrity": (None, [_p, _i]),
    "heddle_spec_value_count": (_u64, [_p]),
    "heddle_open": (_i, [_p, _to(Options), _to(_p)]),
    "heddle_group_open": (_i, [_p, _s, ctypes.POINTER(_i), _size, _to(_p)]),
    "heddle_wait_joined": (_i, [_p, _i, _to(_u64), _to(_u32)]),
    "heddle_close": (_i, [_p, _i]),
    "heddle_rank": (_i, [_p]),
    "heddle_world_size": (_i, [_p]),
    "heddle_push_start": (_i, [_p, _p, _u64, _to(PushOptions), _to(_p)]),
    "heddle_pull_start": (_i, [_p, _p, _to(PullOptions), _to(_p)]),
    "heddle_is_superseded": (_i, [_p, _u64]),
    "heddle_agree": (_i, [_p, _p, _size, _i, _to(Status)]),
    "heddle_allreduce_start": (_i, [_p, _p, _p, _u64, _to(CollectiveOptions), _to(_p)]),
    "heddle_barrier_start": (_i, [_p, _to(CollectiveOptions), _to(_p)]),
    "heddle_broadcast_start": (_i, [_p, _p, _u64, _i, _to(CollectiveOptions), _to(_p)]),
    "heddle_reduce_start": (_i, [_p, _p, _p, _u64, _i, _to(CollectiveOptions), _to(_p)]),
    "heddle_allreduce_list_start": (_i, [_p, _to(Part), _size, _to(CollectiveOptions), _to(_p)]),
    "heddle_broadcast_list_start": (_i, [_p, _to(Part), _size, _i, _to(CollectiveOptions), _to(_p)]),
    "heddle_reduce_list_start": (_i, [_p, _to(Part), _size, _i, _to(CollectiveOptions), _to(_p)]),
    "heddle_allgather_start": (_i, [_p, _p, _p, _u64, _to(CollectiveOptions), _to(_p)]),
    "heddle_reduce_scatter_start": (_i, [_p, _p, _p, _u64, _to(CollectiveOptions), _to(_p)]),
    "heddle_alltoall_start": (_i, [_p, _p, _p, _u64, _to(CollectiveOptions), _to(_p)]),
    "heddle_gather_start": (_i, [_p, _p, _p, _u64, _i, _to(CollectiveOptions), _to(_p)]),
    "heddle_scatter_start": (_i, [_p, _p, _p, _u64, _i, _to(CollectiveOptions), _to(_p)]),
    "heddle_send_start": (_i, [_p, _p, _u64, _i, _to(CollectiveOptions), _to(_p)]),
    "heddle_recv_start": (_i, [_p, _p, _u64, _i, _to(CollectiveOptions), _to(_p)]),
    "heddle_share_state": (_i, [_p, _to(StateItem), _size, _to(_u64), _to(StateOptions), _i, _to(Status)]),
    "heddle_block": (_i, [_u64, ctypes.c_uint, ctypes.c_uint, _to(_u64), _to(_u64)]),
    "heddle_ticket_members": (ctypes.c_long, [_p, _to(_i), _size]),
    "heddle_ticket_error": (_s, [_p]),
    "heddle_ticket_test": (_i, [_p, _to(Status)]),
    "heddle_ticket_wait": (_i, [_p, _i, _i, _to(Status)]),
    "heddle_ticket_then": (_i, [_p, _i, THEN, _p]),
    "heddle_ticket_cancel": (_i, [_p]),
    "heddle_ticket_free": (None, [_p]),
    "heddle_get_members": (_i, [_p, _to(Members), _to(_i), _size]),
    "heddle_members_change": (_u64, [_p]),
    "heddle_shard": (ctypes.c_long, [_to(_i), _size, _u64, _i, _to(Range), _size]),
    "heddle_notify_preemption": (_i, [_p, ctypes.c_double]),
    "heddle_time_left_ms": (_i, [_p]),
    "heddle_fd": (_i, [_p]),
    "heddle_progress": (_i, [_p, _i]),
    "heddle_get_stats": (_i, [_p, _to(Stats)]),
    "heddle_reason_name": (_s, [_i]),
    "heddle_strerror": (_s, [_i]),
    "heddle_last_error": (_s, []),
    "heddle_version_text": (_s, []),
}


def candidates():
    """Where libheddle.so may be, in the order in which it is looked for."""
    if os.environ.get("HEDDLE_LIBRARY"):
        return [os.environ["HEDDLE_LIBRARY"]]
    inside = pathlib.Path(__file__).parent / SONAME
    return [*([str(inside)] if inside.exists() else []), SONAME]


def load():
    """The library, with the types of its functions. ImportError: it is not found, or it has another version."""
    failures = []
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
            break
        except OSError as error:
            failures.append(str(error))
    else:
        raise ImportError(f"libheddle is not found: {'; '.join(failures)}; install it, or set HEDDLE_LIBRARY to the "
                          "path of libheddle.so")
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise ImportError(f"{path} has no {name}(): another version of Heddle?")
        function.restype, function.argtypes = result, arguments
    version = library.heddle_version_text().decode()
    if not version.startswith(VERSION):
        raise ImportError(f"{path} is version {version}, and this package knows {VERSION}x")
    return library


C = load()


def checked(result, words=""):
    """The result of a call, or its error as an exception. words: of the error, if another thread made the call."""
    if result >= 0:
        return result
    text = words or C.heddle_last_error().decode() or C.heddle_strerror(result).decode()
    if result == -errno.ETIMEDOUT:
        raise TimedOut(-result, text)
    raise Error(-result, text)


def text(what, value):
    """It as UTF-8. TypeError: it is none. ValueError: C would take what comes before a 0."""
    if not isinstance(value, str):
        raise TypeError(f"{what}: {value!r} is not a str")
    if "\0" in value:
        raise ValueError(f"{what}: {value!r} has a NUL character")
    return value.encode()


def choice(what, table, word):
    """The number of a word. ValueError names the words that there are."""
    try:
        return table[word]
    except (KeyError, TypeError):
        raise ValueError(f"{what}: {word!r} is not one of {', '.join(table)}") from None
