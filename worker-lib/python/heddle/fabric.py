# SPDX-License-Identifier: BSD-3-Clause
"""Where a group of processes finds its fabric. With HEDDLE_CONTROLLER it is the one of the environment; without, rank 0
starts a controller that ends with it, and tells the others its address and key through the group's store.

    rank 0    Controller (a child process)    set "heddle/fabric" in the store
    others                                    get "heddle/fabric" from the store

The key is in memory only (memfd_create()); the library reads it through /proc/self/fd."""
import contextlib
import errno
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import threading
import weakref
from typing import Optional

from .errors import Error

PROGRAM = "heddle-controller"
READY_S, END_S = 10, 2
NOWHERE = "192.0.2.1"  # RFC 5737: the route to an address of no host; nothing is sent
_lock = threading.Lock()
_known: "weakref.WeakValueDictionary[str, Fabric]" = weakref.WeakValueDictionary()


def program() -> str:
    """The path of heddle-controller: $HEDDLE_CONTROLLER_PROGRAM, the wheel's own, or the installed one. Error (ENOENT):
    there is none."""
    named = os.environ.get("HEDDLE_CONTROLLER_PROGRAM")
    inside = pathlib.Path(__file__).parent / PROGRAM
    found = named or (str(inside) if os.access(inside, os.X_OK) else shutil.which(PROGRAM))
    if found is None:
        raise Error(errno.ENOENT,
                    f"{PROGRAM} is not found: install it, or set HEDDLE_CONTROLLER to the address of a running one")
    return found


class Key:
    """A cluster's key of 64 hex digits as a file of this process only. path: for heddle_options.key_file."""

    def __init__(self, digits: str):
        self._descriptor = os.memfd_create("heddle-key")
        os.fchmod(self._descriptor, 0o600)
        os.write(self._descriptor, f"1 {digits}\n".encode())
        self.path = f"/proc/self/fd/{self._descriptor}"

    @property
    def descriptor(self) -> int:
        """For a child process that is to read the key."""
        return self._descriptor

    def __del__(self):
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._descriptor)


class Controller:
    """A heddle-controller that ends with this object, and with this process in whatever way that ends. address: for
    heddle_options.controller. host: the local address where it listens. Error: it does not start."""

    def __init__(self, key: Key, host: str = "127.0.0.1"):
        self._owner = os.getpid()
        command = [program(), "--listen", f"{host}:0", "--key-file", f"/proc/self/fd/{key.descriptor}",
                   "--end-with", str(self._owner), "--log-level", "error"]
        try:
            # A session of its own: an interrupt from the terminal is for the training processes.
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                             pass_fds=(key.descriptor,), start_new_session=True)
        except OSError as error:
            raise Error(error.errno, f"{command[0]}: {error.strerror}") from None
        self.address = self._ready(command[0])

    def _ready(self, name):
        late = threading.Timer(READY_S, self._process.kill)
        late.start()
        first = self._process.stdout.readline()
        late.cancel()
        if "listening on " not in first:
            self.close()
            raise Error(errno.EIO, f"{name} has ended with status {self._process.returncode} before it was ready")
        return first.split("listening on ")[1].split(",")[0]

    @property
    def pid(self) -> int:
        """The controller's process."""
        return self._process.pid

    def is_running(self) -> bool:
        return os.getpid() == self._owner and self._process.poll() is None

    def close(self) -> None:
        """Ends the controller; in a child of the process that started it: does nothing."""
        if os.getpid() != self._owner or self._process.stdout.closed:
            return
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __del__(self):
        if hasattr(self, "_process"):
            self.close()


class Fabric:
    """The address and the key by which a Job finds its controller: `controller` (ADDR:PORT) and `key_file` (a path);
    both None: as the environment says. Keeps the controller of this process, if it started one, running."""

    def __init__(self, controller: Optional[str] = None, digits: Optional[str] = None,
                 child: Optional[Controller] = None, key: Optional[Key] = None):
        self.controller, self.digits, self.child = controller, digits, child
        self._key = key or (Key(digits) if digits else None)

    @property
    def key_file(self) -> Optional[str]:
        return self._key.path if self._key else None

    @property
    def is_own(self) -> bool:
        """Whether the group has started it."""
        return self.controller is not None


def _facing(address: str) -> Optional[str]:
    """This host's address on the path to another; None: there is no path."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
            return probe.getsockname()[0]
        except OSError:
            return None


def _is_local(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _bound():
    address = os.environ.get("HEDDLE_BIND", "").split(":")[0]
    return address if address != "0.0.0.0" else ""


def own_address() -> str:
    """This process's address for rank 0: HEDDLE_BIND, else the one that faces MASTER_ADDR or the default route."""
    return _bound() or _facing(os.environ.get("MASTER_ADDR") or NOWHERE) or _facing(NOWHERE) or "127.0.0.1"


def _listen_at(store, size):
    """The address of this host, rank 0's, that the others reach; the loopback interface if all are here."""
    if _bound():
        return _bound()
    for rank in range(1, size):
        address = store.get(f"heddle/address/{rank}").decode()
        if not _is_local(address):
            return _facing(address) or own_address()
    return "127.0.0.1"


def _start(store, size):
    with _lock:
        for fabric in list(_known.values()):
            if fabric.child is not None and fabric.child.is_running() and _serves(store, fabric, size):
                return fabric
        digits = secrets.token_hex(32)
        key = Key(digits)
        child = Controller(key, _listen_at(store, size))
        fabric = Fabric(child.address, digits, child, key)
        _known[fabric.controller] = fabric
        return fabric


def _serves(store, fabric, size):
    """Whether a controller that runs already is reached by a further group, too."""
    host = fabric.controller.split(":")[0]
    return host != "127.0.0.1" or _listen_at(store, size) == host


def _decide(store, size, again):
    if os.environ.get("HEDDLE_CONTROLLER") or os.environ.get("HEDDLE_SERVER"):
        return Fabric()
    return next(iter([] if again else _joined()), None) or _start(store, size)


def _say(store, size, again):
    """Rank 0's part: decides, and tells the others in any case."""
    try:
        fabric = _decide(store, size, again)
    except Exception as error:
        store.set("heddle/fabric", json.dumps({"error": getattr(error, "strerror", None) or str(error)}))
        raise
    store.set("heddle/fabric", json.dumps({"controller": fabric.controller, "key": fabric.digits}))
    return fabric


def _joined():
    """Fabrics of other processes' controllers that this process uses: rank 0 of a subgroup has one."""
    return [fabric for fabric in list(_known.values()) if fabric.child is None]


def find(store, rank: int, size: int, again: bool = False) -> Fabric:
    """The fabric of a group of `size` processes with a common store; each of them calls this. again: rank 0 uses its
    own controller, and not another process's, which may have ended. Error: rank 0 has no fabric and cannot start one;
    the environment of this rank has no controller, and that of rank 0 has."""
    if rank == 0:
        return _say(store, size, again)
    store.set(f"heddle/address/{rank}", own_address())
    said = json.loads(store.get("heddle/fabric"))
    if "error" in said:
        raise Error(errno.ENOLINK, f"rank 0: {said['error']}")
    if said["controller"] is None:
        if not os.environ.get("HEDDLE_CONTROLLER") and not os.environ.get("HEDDLE_SERVER"):
            raise Error(errno.EDESTADDRREQ, "rank 0 has HEDDLE_CONTROLLER in its environment, and this rank has not: "
                                            "export it and HEDDLE_KEY_FILE on every machine")
        return Fabric()
    with _lock:
        fabric = _known.get(said["controller"])
        if fabric is None or fabric.digits != said["key"]:
            fabric = Fabric(said["controller"], said["key"])
            _known[fabric.controller] = fabric
        return fabric
