# SPDX-License-Identifier: BSD-3-Clause
"""Runs a command in network, PID and mount namespaces of its own, so that nothing outlives it.

    testbed/demo --- outer (signals)
                        \\--- unshare --- inner, PID 1 of its namespace: Mininet, the programs, tc, a tmpfs

When the inner one ends, however it ends, the kernel ends every process of its namespace and removes
its links, bridges and files. It ends with the outer one, even when that is killed.
"""
import ctypes
import os
import signal
import subprocess
import sys

UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
PR_SET_PDEATHSIG = 1


def possible():
    """None, or why namespaces cannot be made here."""
    if os.geteuid() != 0:
        return "needs root (network namespaces)"
    done = subprocess.run([*UNSHARE, "ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return None if done.returncode == 0 else f"network namespaces cannot be made here: {done.stderr.strip()}"


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def mount_point(used):
    """A directory over which the inner one mounts its tmpfs: nothing of ours may lie in it."""
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

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
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
