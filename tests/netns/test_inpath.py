# SPDX-License-Identifier: BSD-3-Clause
"""usage: test_inpath.py BUILD
Processes all-reduce through heddle-switch, which loses some of what comes to it: each rank checks every sum, and the
switch made them."""
import pathlib
import sys
import tempfile
import types

import bench_inpath
import pen

HOSTS, VALUES, ROUNDS, LOSS, CHUNK = 3, 100000, 6, 1.0, 1408


def main():
    pen.enter()
    options = types.SimpleNamespace(build=pathlib.Path(sys.argv[1]).resolve(), mbps=200, mtu=1500, executor="native",
                                    chunk=CHUNK)
    with tempfile.TemporaryDirectory(prefix="heddle-inpath-") as folder:
        path = bench_inpath.Path(HOSTS, options, pathlib.Path(folder), 0, LOSS)
        try:
            times = path.run(VALUES, ROUNDS)
            leases = path.rows("leases")
        finally:
            counted = path.close()
    assert len(times) == ROUNDS, times
    assert [lease["members"] for lease in leases] in ([], [HOSTS]), leases
    chunks = -(-VALUES * 4 // CHUNK)
    assert counted["completed"] >= ROUNDS * chunks, counted
    assert counted["absorbed"] >= (HOSTS - 1) * ROUNDS * chunks, counted
    # Lost packets were retransmitted, once; no member sent a packet that is outside of the lease.
    assert counted["drop_simulated"] > 0 and counted["repeated"] + counted["drop_duplicate"] > 0, counted
    assert not any(counted[f"drop_{why}"] for why in ("malformed", "lease", "slot", "exponent", "stale")), counted
    print(f"{ROUNDS} rounds of {VALUES} values, {counted['drop_simulated']} frames lost, "
          f"{counted['repeated']} sums repeated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
