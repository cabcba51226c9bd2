# SPDX-License-Identifier: BSD-3-Clause
"""The rules of OpenMetrics 1.0 for histograms, on families from prometheus_client's parser."""
import math

from processes import check


def labels_of(sample):
    return tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))


def histograms(family):
    """{labels without le: ([(le, cumulative count), ...], count, sum)} of a family that obeys the rules."""
    found, order = {}, []
    check(family.type == "histogram", f"{family.name}: {family.type}")
    check((family.unit == "seconds") == family.name.endswith("_seconds"), f"{family.name}: unit {family.unit!r}")
    for sample in family.samples:
        key, what = labels_of(sample), sample.name.removeprefix(family.name)
        check(what in ("_bucket", "_count", "_sum"), f"{family.name}: {sample.name}")
        check((what == "_bucket") == ("le" in sample.labels), f"{sample.name}: {sample.labels}")
        if not order or order[-1] != key:
            order.append(key)
        buckets, values = found.setdefault(key, ([], {}))
        if what == "_bucket":
            buckets.append((float(sample.labels["le"]), sample.value))
        else:
            check(what not in values, f"{sample.name}: twice")
            values[what] = sample.value
    check(len(order) == len(found), f"{family.name}: samples of one set of labels stand apart: {order}")
    for key, (buckets, values) in found.items():
        bounds, counts = zip(*buckets)
        check(all(one < other for one, other in zip(bounds, bounds[1:])), f"{family.name} {key}: {bounds}")
        check(all(one <= other for one, other in zip(counts, counts[1:])), f"{family.name} {key}: {counts}")
        check(bounds[-1] == math.inf and counts[-1] == values["_count"], f"{family.name} {key}: {buckets[-1]} {values}")
        check(all(count == int(count) >= 0 for count in counts), f"{family.name} {key}: {counts}")
        check(values["_sum"] >= 0 and (values["_count"] > 0 or values["_sum"] == 0), f"{family.name} {key}: {values}")
    return {key: (buckets, values["_count"], values["_sum"]) for key, (buckets, values) in found.items()}
