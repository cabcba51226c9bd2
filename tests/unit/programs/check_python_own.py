#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch under torchrun where no controller is given: rank 0 starts one, which ends with it; where none can be started
or none answers, all ranks say so, or use Gloo.

usage: check_python_own.py HEDDLE_CONTROLLER LIBHEDDLE PACKAGE"""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from processes import check, run, until, write_keys
from torch_ranks import free_port

CONTROLLER, LIBRARY, PACKAGE = sys.argv[1:4]
SCRIPT = pathlib.Path(__file__).parent / "python_own.py"
WORKERS, PATIENCE_S = 3, 120
# As the guide says it for PyTorch 1.13 on Python 3.11, which do not get along without these.
STREAMS = ("--redirects", "1", "--tee", "1")


ENV = {**{k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")}, "HEDDLE_LIBRARY": LIBRARY,
       "PYTHONPATH": PACKAGE, "HEDDLE_CONTROLLER_PROGRAM": CONTROLLER, "OMP_NUM_THREADS": "1",
       "GLOO_SOCKET_IFNAME": "lo"}


def launch(where, test, **env):
    # As --standalone, which has one fixed port in PyTorch 1.13.
    done = run(sys.executable, "-m", "torch.distributed.run", "--rdzv_backend", "c10d", "--rdzv_endpoint",
               f"localhost:{free_port()}", "--rdzv_id", os.urandom(8).hex(), "--nproc_per_node", WORKERS, *STREAMS,
               "--log_dir", where, SCRIPT, test, timeout=PATIENCE_S, env={**ENV, **env})
    return done.returncode, done.stdout + done.stderr


def check_all(where, test, said, **env):
    code, output = launch(where, test, **env)
    check(code == 0 and output.count(said) == WORKERS, f"{test}: {code}\n{output}")
    print(f"{test}: {said}")


def check_group(where):
    code, output = launch(where, "group")
    found = re.findall(r"rank (\d): \S+ from Gloo's, controllers \[(\d*)\]", output)
    check(code != 0 and sorted(rank for rank, _ in found) == ["0", "1", "2"], f"group: {code}\n{output}")
    pid = dict(found)["0"]
    check(all(bool(own) == (rank == "0") for rank, own in found), f"rank 0 has the controller: {found}")
    until(lambda: not os.path.exists(f"/proc/{pid}"), f"the controller {pid} ends with rank 0")
    print(f"group: controller {pid} has ended with rank 0")


def check_lost(test, said):
    """Rank 0 is killed. Without torchrun, which would end the others."""
    env = {**ENV, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(WORKERS)}
    ranks = [subprocess.Popen([sys.executable, SCRIPT, test], env={**env, "RANK": str(rank)}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
             for rank in range(WORKERS)]
    try:
        outputs = [rank.communicate(timeout=PATIENCE_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    check(ranks[0].returncode == -9, f"rank 0 was killed: {outputs}")
    for rank, output in zip(ranks[1:], outputs[1:]):
        check(rank.returncode == 0 and output.endswith(f"{said}\n"), f"{test}: {rank.returncode}\n{output}")
    print(f"{test}: the others say so")


def main():
    if importlib.util.find_spec("torch") is None:
        print("skip: PyTorch is not installed (python3-torch)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as where:
        check_group(where)
        check_lost("lost", "rank 0 is lost")
        check_lost("backward", "backward() has failed")
        check_all(where, "none", "refused, then Gloo", HEDDLE_CONTROLLER_PROGRAM="/none/heddle-controller")
        check_all(where, "mistakes", "mistakes are errors")
        check_all(where, "ended", "has left")
        check_all(where, "given", "no answer within 1 s", HEDDLE_WAIT_S="1", TEST_KEY_FILE=write_keys(where))
        check_all(where, "silent", "no answer", HEDDLE_CONTROLLER="127.0.0.1:9", HEDDLE_WAIT_S="1",
                  HEDDLE_KEY_FILE=write_keys(where))


main()
