#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The committed outputs of the switch program are of the present sources, and have C's numbers in them."""
import json
import os
import pathlib
import sys
import tempfile

from program import ROOT, bmv2, compiler, defines, interface_of_json, interface_of_spec

problems = []


def expect(what, have, want):
    if have != want:
        problems.append(f"{what}: {have}, not {want}")


def check_origin():
    folder = compiler.COMPILED
    made = json.loads((folder / "made-from.json").read_text())
    expect("sources of p4/compiled (run p4/compile)", made["sources"], compiler.sources())
    for name in compiler.OUTPUTS:
        expect(f"p4/compiled/{name}", compiler.digest([(folder / name).read_bytes()]), made["outputs"].get(name))


def check_version():
    """It is p4c's own, by which another one's outputs are compared by tables."""
    says = {"p4c-bm2-ss": "9.8.7.6 (SHA: 0123abc BUILD: Release)", "p4c-dpdk": "0.1 (SHA: 0123abc BUILD: Release)"}
    before = os.environ["PATH"]
    with tempfile.TemporaryDirectory() as folder:
        for name, words in says.items():
            path = pathlib.Path(folder) / name
            path.write_text(f"#!/bin/sh\necho {name}\necho 'Version {words}'\n")
            path.chmod(0o755)
        os.environ["PATH"] = f"{folder}:{before}"
        expect("version() of p4/compile", compiler.version(), "9.8.7.6")
        os.environ["PATH"] = before


def check_sources(shared):
    listed = [name.removeprefix("HD_COUNTED_") for name, value in
              sorted(defines("core/telemetry.p4").items(), key=lambda pair: pair[1])
              if name.startswith("HD_COUNTED_") and name != "HD_COUNTED_NONE"]
    expect("counters of core/telemetry.p4", listed, bmv2.counter_names())
    expect("HD_COUNTERS", defines("core/telemetry.p4")["HD_COUNTERS"], len(listed))
    sizes = defines("core/headers.p4")
    expect("HD_LANES_BYTES", sizes["HD_LANES_BYTES"], 4 * shared["HD_SWITCH_LANES"])
    verdicts = (ROOT / "switch/executor/hd_switch.h").read_text().split("enum hd_switch_verdict {")[1].split("}")[0]
    for value, name in enumerate(word for word in verdicts.replace(",", " ").split() if word.startswith("HD_SWITCH_")):
        expect(name, sizes[name.replace("HD_SWITCH_", "HD_VERDICT_")], value)
    entries = defines("core/heddle.p4")
    per_lease = shared["HD_SWITCH_MEMBERS_MAX"] + shared["HD_SWITCH_RECEIVERS_MAX"]
    expect("HD_TOKENS_MAX", entries["HD_TOKENS_MAX"], shared["HD_SWITCH_LEASES_MAX"] * per_lease)
    target = defines("v1model.p4")
    expect("HD_COPIES_MAX", target["HD_COPIES_MAX"],
           shared["HD_SWITCH_LEASES_MAX"] * shared["HD_SWITCH_COPIES_PER_LEASE"])
    expect("HD_FLOOD_GROUP, in the testbed", bmv2.FLOOD_GROUP, target["HD_FLOOD_GROUP"])
    if target["HD_FLOOD_GROUP"] <= 2 * shared["HD_SWITCH_LEASES_MAX"]:
        problems.append("HD_FLOOD_GROUP: is a lease's")


def check_headers(shared):
    """Widths of the headers that bmv2 was given."""
    program = json.loads((compiler.COMPILED / "heddle.json").read_text())
    bits = {kind["name"]: sum(field[1] for field in kind["fields"]) for kind in program["header_types"]}
    for name, want in (("hd_ethernet_t", 14), ("hd_ipv4_t", 20), ("hd_udp_t", 8),
                       ("hd_lanes_t", 4 * shared["HD_SWITCH_LANES"])):
        expect(f"{name} of heddle.json", bits[name], 8 * want)
    ours = bits["hd_prefix_t"] + bits["hd_chunk_t"]
    expect("our header in heddle.json", ours, 8 * shared["HD_SWITCH_CHUNK_HEADER_BYTES"])


def check_interface(shared):
    tables, arrays = interface_of_json(compiler.COMPILED)
    spec_tables, spec_arrays = interface_of_spec(compiler.COMPILED)
    cells = ["keys", "seens", "exponents", "nexts", "flags",
             *(f"pair{i}" for i in range(shared["HD_SWITCH_LANES"] // 2))]
    want = {**{name: shared["HD_SWITCH_SLOT_CELLS"] for name in cells}, "simulator": 2,
            "counters": len(bmv2.counter_names())}
    for where, have in (("heddle.json", arrays), ("heddle.spec", spec_arrays)):
        for name, size in want.items():
            expect(f"{name} of {where}", have.get(name), size)
    expect("leases of heddle.json", tables["leases"][0], shared["HD_SWITCH_LEASES_MAX"])
    for name in ("identity", "tokens", "leases", "macs", "routes"):
        _, keys, actions = tables[name]
        size, spec_keys, spec_actions = spec_tables[name]
        expect(f"keys of {name} in heddle.spec", spec_keys, keys)
        expect(f"actions of {name} in heddle.spec", spec_actions, actions)
        if keys:
            expect(f"size of {name} in heddle.spec", size, tables[name][0])


def main():
    shared = bmv2.numbers()
    check_origin()
    check_version()
    check_sources(shared)
    check_headers(shared)
    check_interface(shared)
    sys.exit("\n".join(problems) if problems else 0)


if __name__ == "__main__":
    main()
