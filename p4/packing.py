# SPDX-License-Identifier: BSD-3-Clause
"""Makes p4c's text for DPDK's pipeline fit. An instruction of DPDK 22.11 has one byte for a field's offset in its
struct, so a field of metadata beyond 256 bytes silently addresses another one. Temporaries of one width that are not in
use at the same time become one field. Every jump leads forward (checked), so a field is in use from the first to the
last line that names it, and its value is not needed for the next frame.

Writing a field reads the 8 bytes that begin with it; machine code writes a number moved to it as all 8. If fields
behind it were just written too, no single pending store has all of these bytes, so the processor waits until the stores
have reached memory. Therefore such a field gets 8 bytes of its own."""
import re

METADATA_BYTES_MAX = 256
FIELD = re.compile(r"^\tbit<(\d+)> (\w+)$", re.MULTILINE)
WORD_BITS = 64
NUMBERED = re.compile(r"\bmov m\.(\w+) 0x(?!0\b)")
NAMED = re.compile(r"\bm\.(\w+)")


def only_forward(lines):
    labels = {found[1]: i for i, line in enumerate(lines) if (found := re.match(r"\t(\w+) :", line))}
    for i, line in enumerate(lines):
        jump = re.search(r"\bjmp\w* (\w+)", line)
        assert not jump or labels[jump[1]] > i, f"jumps back: {line}"


def shared_names(spans, width):
    """{field: the field that has its place}, of those that need not be kept apart."""
    places, renamed = {}, {}  # of a width: [(last line, name)]
    for name in sorted(spans, key=lambda name: spans[name]):
        same = places.setdefault(width[name], [])
        place = next((place for place in same if place[0] < spans[name][0]), None)
        if place:
            same.remove(place)
        renamed[name] = place[1] if place else name
        same.append((spans[name][1], renamed[name]))
    return renamed


def with_rests(fields, numbered):
    """Behind each field that numbers are moved to, what is left of 8 bytes."""
    apart = []
    for bits, name in fields:
        apart.append((bits, name))
        if name in numbered and bits < WORD_BITS:
            apart.append((WORD_BITS - bits, f"rest_of_{name}"))
    return apart


def pack(text):
    head, apply = text.split("apply {\n", 1)
    lines = apply.split("\n")
    only_forward(lines)
    kept = set(NAMED.findall(head))  # of keys and actions
    spans = {}
    for i, line in enumerate(lines):
        for name in NAMED.findall(line):
            spans[name] = (spans.get(name, (i, i))[0], i)
    struct = re.search(r"metadata instanceof (\w+)", head)[1]
    body = re.search(rf"struct {struct} \{{\n(.*?)\}}", head, re.DOTALL)[1]
    width = {name: int(bits) for bits, name in FIELD.findall(body)}
    renamed = shared_names({name: span for name, span in spans.items() if name not in kept}, width)
    left = [name for name in width if name in kept or renamed.get(name) == name]
    apply = NAMED.sub(lambda found: "m." + renamed.get(found[1], found[1]), apply)
    fields = with_rests([(width[name], name) for name in left], set(NUMBERED.findall(head + apply)))
    assert sum(bits for bits, _ in fields) <= METADATA_BYTES_MAX * 8, "metadata does not fit"
    return head.replace(body, "".join(f"\tbit<{bits}> {name}\n" for bits, name in fields)) + "apply {\n" + apply
