#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Includes point down only: fails when one crosses a layer that layers.txt does not allow, when two
headers share a name, when a source lies in no layer, or when a core or common/ reaches for I/O."""
import re

from house import ROOT, finish, sources, text_of

# Cores and common/ read no clock, no file, no environment, no random number, and know no socket.
PURE = ("common/", "controller/schedule/", "controller/hd_controller", "aggregator/server/", "aggregator/replica/",
        "aggregator/reducer/", "worker-lib/core/",
        "switch/executor/", "switch/agent/")
IO_HEADERS = re.compile(r"^(sys/(socket|epoll|timerfd|mman|time|random)|netinet/|arpa/|netdb|pthread|threads"
                        r"|unistd|fcntl|time|signal|poll)\b")
IO_CALLS = re.compile(r"\b(clock_gettime|gettimeofday|time|getenv|fopen|open|socket|rand|random|getrandom"
                      r"|randombytes_buf|pthread_\w+|usleep|nanosleep)\s*\(")
IO_ALLOWED = {("common/kernels", "getenv")}  # HEDDLE_SIMD, once, at the first call


def read_layers():
    layers = {}
    for line in (ROOT / "tests/house/layers.txt").read_text().splitlines():
        fields = line.split("#")[0].split()
        if fields:
            layers[fields[0]] = fields[1:]
    return layers


def layer_of(path, layers):
    return max((d for d in layers if path.is_relative_to(d)), key=len, default=None)


def strip_comments(text):
    """Blanks comments and strings, keeps the line count."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def check_pure(path, text):
    if not str(path).startswith(PURE):
        return
    for number, line in enumerate(text.splitlines(), 1):
        include = re.match(r"\s*#\s*include\s+<([^>]+)>", line)
        if include and IO_HEADERS.match(include[1]):
            yield f"{path}:{number}: a core without I/O includes <{include[1]}>"
    for number, line in enumerate(strip_comments(text).splitlines(), 1):
        call = IO_CALLS.search(line)
        if call and not re.search(r"(\.|->|\w\s+\**)" + re.escape(call[1]) + r"\s*\($", line[:call.end()]):
            if not any(str(path).startswith(d) and call[1] == name for d, name in IO_ALLOWED):
                yield f"{path}:{number}: a core without I/O calls {call[1]}()"


def check_includes(path, text, headers, layers):
    layer = layer_of(path, layers)
    if layer is None:
        yield f"{path}: lies in no layer of tests/house/layers.txt"
        return
    allowed = [layer, *layers[layer]]
    for number, line in enumerate(text.splitlines(), 1):
        include = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        target = headers.get(include[1].split("/")[-1]) if include else None
        if target is not None and "*" not in allowed and layer_of(target, layers) not in allowed:
            yield f"{path}:{number}: {layer} must not include {target}"


def main():
    layers = read_layers()
    problems = []
    headers = {}
    for header in sources(".h"):
        if headers.setdefault(header.name, header) != header:
            problems.append(f"{header}: same name as {headers[header.name]}")
    everything = sources(".c", ".h", ".cu")
    for path in everything:
        text = text_of(path)
        problems += check_includes(path, text, headers, layers)
        problems += check_pure(path, text)
    finish("includes", problems, len(everything))


if __name__ == "__main__":
    main()
