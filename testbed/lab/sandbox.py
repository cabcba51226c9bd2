# SPDX-License-Identifier: BSD-3-Clause
"""Runs a command in separate network, PID and mount namespaces, so that nothing outlives it.

    testbed/demo --- outer (signals)
                        \\--- unshare --- inner, PID 1 of its namespace: Mininet, the programs, tc, a tmpfs

When the inner one ends, however it ends, the kernel ends every process of its namespace and removes its links, bridges
and files. It ends with the outer one, even when that is killed.
"""
import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
PR_SET_PDEATHSIG = 1
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Our end closes its input. While a process still writes, removing the directory may fail.
KEEP = 'read _; for i in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$1" 2>/dev/null && exit; sleep 0.2; done'


def possible():
    """None, or why namespaces cannot be created here."""
    if os.geteuid() != 0:
        return "needs root (network namespaces)"
    done = subprocess.run([*UNSHARE, "ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return None if done.returncode == 0 else f"network namespaces cannot be made here: {done.stderr.strip()}"


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_by_signals():
    """From now on the signals that end a program raise SystemExit, once, so that everything it made is removed."""
    def ended(number, frame):
        for other in ENDING:
            signal.signal(other, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in ENDING:
        signal.signal(number, ended)


@contextlib.contextmanager
def scratch(prefix):
    """A temporary directory that is removed when this process ends, however it ends; needs no privileges. A process
    that writes into it must end with this one, too (die_with_parent)."""
    path = tempfile.mkdtemp(prefix=prefix)
    keeper = subprocess.Popen(["sh", "-c", KEEP, "sh", path], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield pathlib.Path(path)
    finally:
        keeper.stdin.close()
        keeper.wait()


def mount_point(used):
    """A directory over which the inner process mounts its tmpfs: it must not hide files that are needed."""
    for point in ("/dev/shm", "/mnt", "/media"):
        if os.path.isdir(point) and not any(os.path.realpath(path).startswith(point + "/") for path in used):
            return point
    raise OSError("no directory to mount a tmpfs over: /dev/shm, /mnt and /media are missing or in use")


def run(command, used=()):
    """Runs command + [directory] inside; returns its exit status, 128 + n after signal n. The directory
    is a tmpfs that the command mounts and that ends with it; `used` are paths that must stay visible."""
    child = None
    got = []

    def interrupted(number, frame):
        got.append(number)
        if child is not None:
            child.kill()  # and unshare's own end kills PID 1 inside

    for number in ENDING:
        signal.signal(number, interrupted)
    if not got:
        child = subprocess.Popen([*UNSHARE, *command, mount_point(used)], stdin=subprocess.DEVNULL,
                                 preexec_fn=die_with_parent, start_new_session=True)
        if got:
            child.kill()
        status = child.wait()
    if got:
        print("\ninterrupted: everything is removed", file=sys.stderr)
        return 128 + got[0]
    return status if status >= 0 else 128 - status
