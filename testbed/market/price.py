# SPDX-License-Identifier: BSD-3-Clause
"""Prices of a market: drawn for each slot, or from a trace.

uniform        between low and high
constant       always the same
gaussian       of mean and sd, drawn again while it is outside of low..high
trace          lines `seconds,price` that ascend; a price holds until the next line, the last one for ever"""
import math
import pathlib
import random

TRACE_BYTES_MAX = 64 << 20


def read_trace(path):
    """[(s, price)] of a CSV file; a first line of words is skipped. Raises ValueError with file and line."""
    name = pathlib.Path(path).name
    try:
        source = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"file: {name}: {getattr(error, 'strerror', None) or 'is not UTF-8 text'}") from None
    if len(source) > TRACE_BYTES_MAX:
        raise ValueError(f"file: {name}: {len(source)} bytes (limit {TRACE_BYTES_MAX})")
    trace = []
    for number, line in enumerate(source.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            at, price = (float(word) for word in line.split(","))
        except ValueError:
            if not trace and not any(c.isdigit() for c in line):
                continue
            raise ValueError(f"file: {name}: line {number}: must be `seconds,price`") from None
        if not math.isfinite(at) or not math.isfinite(price) or price <= 0:
            raise ValueError(f"file: {name}: line {number}: a price must be above 0")
        if trace and at <= trace[-1][0]:
            raise ValueError(f"file: {name}: line {number}: {at:g} s is not after the line before ({trace[-1][0]:g} s)")
        trace.append((at, price))
    if not trace:
        raise ValueError(f"file: {name}: has no prices")
    return trace


def prepare(setting, folder):
    """Checks a `price` and adds its bounds (least, most), and a trace's points. Raises ValueError."""
    if setting["kind"] == "trace":
        path = pathlib.Path(folder) / setting["file"]
        setting["points"], setting["path"] = read_trace(path), str(path)
        prices = [price for _, price in setting["points"]]
        setting["least"], setting["most"] = min(prices), max(prices)
        return
    if setting["kind"] == "constant":
        setting["least"] = setting["most"] = setting["price"]
        return
    if setting["low"] >= setting["high"]:
        raise ValueError(f"low: {setting['low']} is not below high ({setting['high']})")
    if setting["kind"] == "gaussian" and not setting["low"] <= setting["mean"] <= setting["high"]:
        raise ValueError(f"mean: {setting['mean']} is outside low..high")
    setting["least"], setting["most"] = setting["low"], setting["high"]


def draw(setting, dice):
    if setting["kind"] == "constant":
        return setting["price"]
    if setting["kind"] == "uniform":
        return dice.uniform(setting["low"], setting["high"])
    while True:
        price = dice.gauss(setting["mean"], setting["sd"])
        if setting["low"] <= price <= setting["high"]:
            return price


def slots(setting, seed, slot_s, duration_s):
    """The price of each slot: the same for every strategy of a seed."""
    count = math.ceil(duration_s / slot_s) + 1
    if setting["kind"] != "trace":
        dice = random.Random(f"price:{seed}")
        return [draw(setting, dice) for _ in range(count)]
    found, points, at = [], setting["points"], 0
    begin = points[0][0]
    for slot in range(count):
        t = begin + slot * slot_s * setting["speed"]
        while at + 1 < len(points) and points[at + 1][0] <= t:
            at += 1
        found.append(points[at][1])
    return found
