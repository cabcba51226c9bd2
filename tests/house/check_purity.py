#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: check_purity.py [BUILD]
Cores have no I/O. Reads the sources (headers that they include, functions that they name) and, where there is a build,
the object files: a core takes from other libraries only what PURE names, and nothing from a part of the project that
does I/O. pure.txt says which parts are which."""
import re
import sys

from csource import KEYWORDS, strip_comments
from house import finish, sources, text_of
from objects import read_objects

IO_HEADERS = re.compile(r"^(sys/(socket|epoll|eventfd|timerfd|mman|time|random|stat|file|select)|netinet/|arpa/|netdb"
                        r"|pthread|threads|unistd|fcntl|time|signal|poll|dirent)\b")
INCLUDE = re.compile(r"\s*#\s*include\s+<([^>]+)>")
# Words that mean nothing else: naming one is enough, a pointer to it included.
IO_NAMES = r"clock_gettime|gettimeofday|getenv|secure_getenv|fopen|rand|rand_r|[dlm]rand48|getrandom|getentropy" \
    r"|arc4random\w*|randombytes_\w+|pthread_\w+|usleep|nanosleep|setsockopt|epoll_\w+" \
    r"|__rdtscp?|_rdrand\w+|_rdseed\w+|__builtin_ia32_rd(?:tsc|rand|seed)\w*|__builtin_readcyclecounter"
# Words that a field or a variable has as well: a call, or a value that is handed on.
IO_WORDS = r"time|clock|open|creat|read|write|socket|random|srand|srandom|poll|select|sleep|kill|fork|exit|connect" \
    r"|recv\w*|send|sendto|sendm?msg"
IO_CALL = re.compile(rf"(?<![\w.])(?<!->)(?:({IO_NAMES})\b|({IO_WORDS})\s*\()")
DECLARED = re.compile(r"(\w+)[\s*]+$")

# The functions of libc, libm, jansson and libsodium that a core may use. Compilers' helpers begin with __.
PURE = re.compile(
    r"(mem|str)(?!error_r|fd_create|fry|ftime|ptime)\w+|bcmp|v?snprintf|v?sscanf|(c|m|re)alloc|aligned_alloc"
    r"|reallocarray|free|qsort(_r)?|bsearch|l?labs|abs|ffs(l|ll)?|_GLOBAL_OFFSET_TABLE_|errno"
    r"|(cbrt|ceil|copysign|cos|erfc?|exp(2|10|m1)?|fabs|floor|fma|fmax|fmin|fmod|frexp|hypot|ilogb|ldexp|l?lround"
    r"|l?lrint|log(2|10|1p|b)?|modf|nearbyint|pow|remainder|rint|round|scalbn|sin|sincos|sqrt|tan|tanh|atan2?|trunc"
    r"|nan)[fl]?"
    r"|json_(?!dump_file|dumpfd?$|load_file|loadfd?$|load_callback|object_seed)\w+"
    r"|crypto_(?!\w*keygen)\w+|sodium_(bin2hex|hex2bin|init|memcmp|memzero|is_zero|compare|increment)")


def read_places():
    """[(beginning of a path, does I/O, names that it may have all the same)], the longest first."""
    places = []
    for line in text_of("tests/house/pure.txt").splitlines():
        fields = line.split("#")[0].split()
        if fields:
            places.append((fields[1], fields[0] == "io", set(fields[2:])))
    return sorted(places, key=lambda place: -len(place[0]))


def place_of(path, places):
    """(does I/O, names that it may have) of a file."""
    return next(((io, names) for start, io, names in places if str(path).startswith(start)), (False, set()))


def check_source(path, text, allowed):
    for number, line in enumerate(text.splitlines(), 1):
        include = INCLUDE.match(line)
        if include and IO_HEADERS.match(include[1]):
            yield f"{path}:{number}: a core without I/O includes <{include[1]}>"
    for number, line in enumerate(strip_comments(text).splitlines(), 1):
        for found in IO_CALL.finditer(line):
            name = found[1] or found[2]
            before = DECLARED.search(line[:found.start()])
            if name not in allowed and not (before and before[1] not in KEYWORDS):
                yield f"{path}:{number}: a core without I/O names {name}"


def plain(name):
    """A symbol as the sources write it: without 64-bit, C99 and fortified variants."""
    name = re.sub(r"^__isoc\d+_", "", name.split("@")[0])
    name = re.sub(r"^__(\w+)_chk$", r"\1", name)
    return re.sub(r"64(_2)?$", "", re.sub(r"^__(open|read|pread|time|poll)(64)?_2$", r"\1", name))


def check_objects(objects, places):
    defined, doing_io = set(), set()
    for path, parts in objects.items():
        for part in parts:
            (doing_io if place_of(path, places)[0] else defined).update(part.defined)
    for path, parts in sorted(objects.items()):
        io, allowed = place_of(path, places)
        for name in sorted({name for part in parts for name in part.undefined} - defined) if not io else ():
            if name in doing_io:
                yield f"{path}: a core without I/O uses {name}, of a part of the project that does I/O"
            elif plain(name) not in allowed and not PURE.fullmatch(plain(name)) \
                    and not (name.startswith("__") and plain(name) == name):
                yield f"{path}: a core without I/O uses {name}"


def main():
    places = read_places()
    files = [path for path in sources(".c", ".h", ".cu") if not place_of(path, places)[0]]
    problems = [problem for path in files for problem in check_source(path, text_of(path), place_of(path, places)[1])]
    if len(sys.argv) > 1:
        problems += check_objects(read_objects(sys.argv[1]), places)
    finish("purity", problems, len(files))


if __name__ == "__main__":
    main()
