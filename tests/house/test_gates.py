#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usage: test_gates.py BUILD
The gates catch what they are there for: each case plants one violation, in a scratch project of two rooms or in a copy
of a source of each core, and says what its check must print. A case that expects "" must pass."""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import check_commits
import check_purity
from csource import strip_comments
from house import ROOT, finish, text_of
from objects import Object, names_of, read_objects

HOUSE = pathlib.Path(__file__).resolve().parent
LAYERS = """\
common/base
controller/low      common/base
controller/high     common/base controller/low
controller/programs common/base controller/low controller/high
tests               *
"""
LOW_H = """\
#ifndef LOW_H
#define LOW_H
struct low;
struct low_table {
	int kind;
	void (*tell)(struct low *low);
};
struct low {
	unsigned count;
	const struct low_table *table;
	void (*end)(struct low *low);
};
void low_init(struct low *low, void (*end)(struct low *low));
void low_work(struct low *low);
#endif
"""
LOW_C = """\
#include "low.h"
void low_init(struct low *low, void (*end)(struct low *low)) {
	low->count = 0;
}
void low_work(struct low *low) {
	low->count++;
}
"""
HIGH_C = """\
#include "low.h"
void high_run(struct low *low);
void high_note(struct low *low);
void high_note(struct low *low) {
}
void high_run(struct low *low) {
	low_init(low, 0);
	low_work(low);
}
"""
MAIN_C = """\
#include "low.h"
unsigned long main_clock(void);
unsigned long main_clock(void) {
	return 0;
}
int main(void) {
	struct low low;
	low_init(&low, 0);
	return 0;
}
"""
FILES = {"tests/house/layers.txt": LAYERS, "controller/low/low.h": LOW_H, "controller/low/low.c": LOW_C,
         "controller/high/high.c": HIGH_C, "controller/programs/main.c": MAIN_C, "build/made.h": "",
         "README.md": "# Two rooms\n"}
LOW, HIGH, MAIN = "controller/low/low.c", "controller/high/high.c", "controller/programs/main.c"
TARGETS = {LOW: "controller/libhd_low.a.p", HIGH: "controller/libhd_high.a.p", MAIN: "controller/main.p"}
# In low: the call; in high: the function that is put there.
END_CALLED = (LOW, "low->count++;", "low->end(low);")
TABLE_CALLED = (LOW, "low->count++;", "low->table->tell(low);")
UP = "controller: upward: controller/low/low.c -> controller/high/high.c"
CASES = [
    # what, check, changes (file, old, new; old "": appended), words expected
    ("nothing", "circles", [], ""),
    ("a call upward", "circles",
     [(LOW, "", "void high_note(struct low *low);\nvoid low_tell(struct low *low);\n"
       "void low_tell(struct low *low) {\n\thigh_note(low);\n}\n")], UP),
    ("a circle of two", "circles",
     [(LOW, "", "void high_run(struct low *low);\nvoid low_tell(struct low *low);\n"
       "void low_tell(struct low *low) {\n\thigh_run(low);\n}\n")], "controller: 2 files in the largest circle"),
    ("data from above", "circles",
     [(HIGH, "", "int high_level = 1;\n"),
      (LOW, "", "extern int high_level;\nint *low_level(void);\nint *low_level(void) {\n\treturn &high_level;\n}\n")],
     UP),
    ("a table with names", "circles",
     [TABLE_CALLED,
      (HIGH, "low_work(low);", "static const struct low_table t = {.tell = high_note};\n\n\tlow->table = &t;")], UP),
    ("a table without names", "circles",
     [TABLE_CALLED,
      (HIGH, "low_work(low);",
       "static const struct low_table t[] = {\n\t\t{1, high_note},\n\t};\n\n\tlow->table = t;")], UP),
    ("a table that no lower room calls", "circles",
     [(HIGH, "", "extern const struct low_table high_table;\n"
       "const struct low_table high_table = {.tell = high_note};\n")], ""),
    ("a function that is assigned", "circles", [END_CALLED, (HIGH, "low_work(low);", "low->end = high_note;")], UP),
    ("a function that is handed in", "circles",
     [END_CALLED, (LOW, "low->count = 0;", "low->end = end;"),
      (HIGH, "low_init(low, 0);", "low_init(low, high_note);")], UP),
    ("what a program hands in", "circles",
     [END_CALLED, (LOW, "low->count = 0;", "low->end = end;"),
      (MAIN, "int main", "static void on_end(struct low *low) {\n}\nint main"), (MAIN, "&low, 0", "&low, on_end")], ""),
    ("a number that shrank", "circles",
     [("tests/house/circles.txt", "controller    1    0", "controller    2    0")], "instead of 2: lower it"),
    ("a header of 251 lines", "circles",
     [("controller/low/low.h", "#endif", "\n" * 240 + "#endif")], "lines of the largest internal header"),
    ("a component that has no row", "circles", [("tests/house/circles.txt", "controller ", "# controller ")],
     "takes no new rows"),
    ("nothing", "tidy", [], ""),
    ("a comparison with itself", "tidy", [(LOW, "low->count++;", "low->count += low->count == low->count;")],
     "controller/low/low.c:6:27: error: both sides of operator are equivalent"),
    ("a null pointer's field", "tidy", [(HIGH, "low_work(low);", "if (!low)\n\t\tlow->count = 0;")],
     "clang-analyzer-core.NullDereference"),
    ("what a tool wrote", "tidy",
     [("build/made.h", "", "static inline int made(int *x) {\n\treturn x ? 0 : *x;\n}\n"),
      (LOW, '"low.h"\n', '"low.h"\n#include "../../build/made.h"\n'),
      (LOW, "low->count++;", "low->count += (unsigned)made(0);")], ""),
    ("nothing", "lengths", [], ""),
    ("a file of 451 lines", "lengths", [(LOW, "", "\n" * 451)], "low.c: 458 lines, and"),
    ("a long file that grew", "lengths",
     [(LOW, "", "\n" * 451), ("tests/house/lengths.txt", "", "low.c 457\n")], "low.c: 458 lines; "),
    ("a long file that shrank", "lengths",
     [(LOW, "", "\n" * 451), ("tests/house/lengths.txt", "", "low.c 459\n")], "low.c: 458 lines instead of 459"),
    ("a long file that is gone", "lengths", [("tests/house/lengths.txt", "", "gone.c 458\n")], "gone.c: in "),
    ("nothing", "writers", [], ""),
    ("a second writer", "writers", [(HIGH, "low_work(low);", "low->count += 2;")], "low.count: 2 rooms write it, and"),
    ("a second writer of an element", "writers",
     [("controller/low/low.h", "unsigned count;", "unsigned of[4];"), (LOW, "low->count++", "low->of[low->of[1]]++"),
      (LOW, "low->count = 0", "low->of[0] = 0"), (HIGH, "low_work(low);", "++low->of[2];")],
     "low.of: 2 rooms write it"),
    ("a second writer, by a long declaration", "writers",
     [(HIGH, "void high_run(struct low *low) {", "void\nhigh_run(struct low *low) {\n\tlow->count += 2;")],
     "low.count: 2 rooms write it"),
    ("who makes one", "writers",
     [(HIGH, "low_work(low);", "struct low *mine = calloc(1, sizeof *mine);\n\n\tmine->count = 1;")], ""),
    ("who makes one, and writes another", "writers",
     [("controller/low/low.h", "unsigned count;", "unsigned count;\n\tstruct low *next;"),
      (HIGH, "low_work(low);", "struct low *mine = calloc(1, sizeof *mine);\n\n\tmine->next->count = 1;")],
     "low.count: 2 rooms write it"),
    ("who compares", "writers", [(HIGH, "low_work(low);", "if (low->count == 2 || low->count <= 1)\n\t\treturn;")], ""),
    ("a value of its own", "writers",
     [(HIGH, "low_work(low);", "struct low mine = {0};\n\n\tmine.count = 1;\n\tlow_work(&mine);")], ""),
    ("nothing", "words", [], ""),
    ("a word in a comment of two lines", "words", [(LOW, "", "/* Two rounds are un" "der\n * way. */\n")],
     "low.c: 1 words of words.txt in its prose, and"),
    ("a word in a message of two strings", "words",
     [(MAIN, "struct low low;", 'struct low low;\n\tputs("no"\n\t     "body");')],
     "main.c: 1 words of words.txt in its strings, and"),
    ("a word in a document", "words", [("README.md", "", "It is un" "der way.\n")],
     "README.md:2: prose: `un" "der way`"),
    ("a word in code of a document", "words", [("README.md", "", "`un" "der way`\n```\nun" "der way\n```\n")], ""),
    ("a clause without its subject", "words", [(LOW, "", "// It ends. Wh" "o waits is told.\n")],
     "low.c:8: prose: `Wh" "o`"),
    ("a question", "words", [(LOW, "", "// It ends. Wh" "o waits for it, and why?\n")], ""),
    ("a file that lost a word", "words", [("tests/house/dialect.txt", "", f"{LOW} 2 0 0\n"),
     (LOW, "", "// un" "der way\n")], "1 words of words.txt in its prose instead of 2: lower it"),
    ("a word in a function's name", "words", [(LOW, "", "void low_sa" "y(void);\n")],
     "low.c:8: name: `low_sa" "y`: send"),
    ("a word in a member", "words", [(LOW, "", "struct low_path {\n\tint life_" "count;\n};\n")],
     "low.c: 1 words of identifiers.txt in its names, and"),
    ("a word in a macro", "words", [(LOW, "", "#define LOW_WA" "YS 2\n")], "low.c:8: name: `LOW_WA" "YS`"),
    ("a part of a word in a name", "words", [(LOW, "", "int low_always, low_unsaid;\n// low_sa" "y\n")], ""),
    ("a public name", "words", [(LOW, "", "int owed_bytes;\n")], ""),
    ("nothing", "purity", [], ""),
    ("a clock, by a pointer", "purity",
     [(LOW, "", "extern long time(long *);\nlong (*low_clock)(long *);\nlong (*low_clock)(long *) = time;\n")],
     "low.c: a core without I/O uses time"),
    ("a function that does I/O", "purity",
     [(LOW, "low->count++", "extern unsigned long main_clock(void);\n\n\tlow->count = main_clock()")],
     "low.c: a core without I/O uses main_clock, of a part"),
]
# Of each core a source: its component, and what its name is like, before and after the moves into rooms.
CORES = {"server": ("aggregator", "srv_*.c", "hd_server*.c"), "replica": ("aggregator", "rep_*.c", "hd_replica*.c"),
         "aggregator": ("aggregator", "agg_*.c", "hd_aggregator*.c"),
         "controller": ("controller", "ctl_*.c", "hd_controller*.c"), "policy": ("controller", "hd_elastic*.c"),
         "planner": ("controller", "hd_plan*.c"), "executor": ("", "hd_switch_core.c"),
         "agent": ("switch", "*agent*.c"), "worker": ("worker-lib", "worker_*.c", "hd_worker*.c"),
         "filter": ("worker-lib", "*_filter.c"), "common": ("common", "hd_send.c")}
PLANTED = {"return rand();": "int planted(void);\nint planted(void) {\n\treturn rand();\n}\n",
           "a pointer to rand": "extern int (*planted)(void);\nint (*planted)(void) = rand;\n",
           "a processor's clock": "unsigned long planted(void);\nunsigned long planted(void) {\n"
                                  "\treturn __builtin_ia32_rdtsc();\n}\n",
           "a cast clock": "long planted(void);\nlong planted(void) {\n\treturn (long)time(0);\n}\n"}
DECLARED = "extern int rand(void);\nextern long time(long *);\n"
SUBJECTS = {"controller: cut the circle of slots": "", "tests, docs: Ctrl-C ends a watch": "", "docs: LEAF's data": "",
            "Fix things": "is not", "controller: Cut the circle": "capital", "controller: cut the circle.": "is not",
            "controller: " + "a" * 60: "72 characters"}


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def build(project):
    """Compiles the scratch project's three sources into objects as meson would name them."""
    entries = []
    for source, target in TARGETS.items():
        output = f"{target}/{pathlib.PurePath(source).name}.o"
        (project / "build" / target).mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-c", "-w", "-fPIC", "-Icontroller/low", source, "-o", f"build/{output}"], cwd=project,
                       check=True)
        entries.append({"directory": str(project / "build"), "file": f"../{source}", "output": output,
                        "command": f"cc -I../controller/low -o {output} -c ../{source}"})
    write(project, "build/compile_commands.json", json.dumps(entries))


def begin(folder):
    """The scratch project, with ledgers that fit it."""
    for path in HOUSE.glob("*.*"):
        if path.suffix in (".py", ".txt"):
            write(folder, f"tests/house/{path.name}", path.read_text())
    write(folder, ".clang-tidy", (ROOT / ".clang-tidy").read_text())
    for name, text in FILES.items():
        write(folder, name, text)
    build(folder)
    subprocess.run([sys.executable, "tests/house/ledger.py", "begin", "build"], cwd=folder, check=True,
                   capture_output=True)


def run_case(folder, what, check, changes, expected):
    before = {name: (folder / name).read_text() for name, _, _ in changes}
    for name, old, new in changes:
        text = (folder / name).read_text()
        assert old in text, f"{what}: {old} is not in {name}"
        write(folder, name, text.replace(old, new, 1) if old else text + new)
    if check in ("circles", "purity"):
        build(folder)
    done = subprocess.run([sys.executable, f"tests/house/check_{check}.py", "build"], cwd=folder, capture_output=True,
                          text=True)
    for name, text in before.items():
        write(folder, name, text)
    if (done.returncode != 0) != bool(expected) or expected not in done.stdout:
        yield f"{check}: {what}: expected {expected!r}, got {done.returncode} {done.stdout}{done.stderr}"


def scratch_cases():
    with tempfile.TemporaryDirectory(prefix="gates-") as name:
        folder = pathlib.Path(name)
        begin(folder)
        for case in CASES:
            yield from run_case(folder, *case)


def compiled(entry, source, text):
    """Object file of a source with other text."""
    words = shlex.split(entry["command"])
    for option, width in (("-MD", 1), ("-MQ", 2), ("-MF", 2), ("-o", 2), ("-c", 2)):
        at = words.index(option)
        del words[at:at + width]
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        subprocess.run([*words, "-w", "-O0", f"-iquote{(ROOT / source).parent}", "-xc", "-c", "-", "-o", file.name],
                       cwd=entry["directory"], input=text, text=True, check=True)
        return names_of(file.read())


def core_cases(folder):
    """Plants each violation in a copy of a source of each core: the source check and the objects' both see it."""
    places, objects = check_purity.read_places(), read_objects(folder)
    entries = {os.path.relpath(os.path.join(e["directory"], e["file"]), ROOT): e
               for e in json.loads((folder / "compile_commands.json").read_text())}
    for core, (component, *names) in CORES.items():
        found = [path for path in sorted(objects) if component in ("", path.parts[0])
                 and any(path.match(name) for name in names) and not check_purity.place_of(path, places)[0]]
        if not found:
            yield f"{core}: none of {names} in {component}/ is a core without I/O"
            continue
        text = text_of(found[0])
        last = len(text.splitlines())
        for what, planted in PLANTED.items():
            problems = list(check_purity.check_source(found[0], f"{text}{DECLARED}{planted}", set()))
            if not problems or any(int(line.split(":")[1]) <= last + 2 for line in problems):
                yield f"{core}: {what} in {found[0]}: not seen in the source: {problems}"
        symbols = compiled(entries[str(found[0])], found[0], f"{text}{DECLARED}{PLANTED['return rand();']}")
        planted_objects = {**objects, found[0]: [Object(objects[found[0]][0].target, *symbols)]}
        if f"{found[0]}: a core without I/O uses rand" not in check_purity.check_objects(planted_objects, places):
            yield f"{core}: rand in {found[0]}: not seen in its object file"


def subject_cases():
    for subject, expected in SUBJECTS.items():
        problems = " ".join(check_commits.problems_of(subject))
        if bool(problems) != bool(expected) or expected not in problems:
            yield f"{subject}: expected {expected!r}, got {problems!r}"


def main():
    problems = [*scratch_cases(), *core_cases(pathlib.Path(sys.argv[1])), *subject_cases()]
    if strip_comments('a /* \n */ "b" c') != 'a    \n        c':
        problems.append("comments and strings are not blanked in place")
    finish("gates", problems, len(CASES) + len(CORES) * (len(PLANTED) + 1) + len(SUBJECTS))


if __name__ == "__main__":
    main()
