# SPDX-License-Identifier: BSD-3-Clause
"""heddle-plan against its golden files: NAME.json gives exactly NAME.plan; bad/NAME.json is refused with exactly
bad/NAME.error and EX_DATAERR. `check_plan.py PROGRAM FOLDER --write` rewrites them."""
import difflib
import pathlib
import subprocess
import sys

EX_USAGE, EX_DATAERR, EX_NOINPUT = 64, 65, 66


def run(program, *args, stdin=None):
    return subprocess.run([program, *args], input=stdin, capture_output=True, text=True, timeout=20)


def compare(found, golden, write):
    if write:
        golden.write_text(found)
        return True
    expected = golden.read_text() if golden.exists() else ''
    lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), str(golden), 'found', lineterm='')
    text = '\n'.join(lines)
    if found != expected:
        print(text or f'{golden}: differs in white space')
    return found == expected


def check(condition, what):
    if not condition:
        print(what)
    return condition


def check_case(program, case, write):
    done = run(program, case)
    piped = run(program, stdin=case.read_text())
    table = run(program, '--table', case)
    good = check(done.returncode == 0 and done.stderr == '', f'{case}: {done.stderr}')
    good &= check(piped.stdout == done.stdout, f'{case}: standard input gives another plan')
    good &= check(table.returncode == 0 and 'POSITION' in table.stdout, f'{case}: no table')
    return good & compare(done.stdout, case.with_suffix('.plan'), write)


def check_bad(program, case, write):
    done = run(program, case)
    good = check(done.returncode == EX_DATAERR, f'{case}: status {done.returncode}, not {EX_DATAERR}')
    good &= check(done.stdout == '', f'{case}: printed a plan')
    return good & compare(done.stderr.replace(str(case), 'FILE'), case.with_suffix('.error'), write)


def check_words(program, case):
    """The command line: short names are long ones, and what is wrong is said by name."""
    results = [check(run(program, name, case).stdout == run(program, '--table', case).stdout, f'{name}: another table')
               for name in ('-t', '--tab')]
    for name in ('-h', '--help', '-th'):
        done = run(program, name)
        results.append(check(done.returncode == 0 and done.stdout.startswith('usage: heddle-plan ') and not done.stderr,
                             f'{name}: {done}'))
        results += [check(f'\n  {row}' in done.stdout, f'{name}: no {row} in:\n{done.stdout}')
                    for row in ('-t, --table  print tables', '-h, --help   print this')]
    for words, said in ((['--nonsense'], '--nonsense'), (['-x'], "'x'"), (['--table=1'], '--table'),
                        ([case, 'more'], "'more': takes one FILE")):
        done = run(program, *words)
        results.append(check(done.returncode == EX_USAGE and said in done.stderr and not done.stdout,
                             f'{words}: {done}'))
    return results


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    write = '--write' in sys.argv[3:]
    cases, bad = sorted(folder.glob('*.json')), sorted((folder / 'bad').glob('*.json'))
    results = [check_case(program, case, write) for case in cases]
    results += [check_bad(program, case, write) for case in bad]
    results += check_words(program, cases[0])
    results.append(check(run(program, folder / 'absent').returncode == EX_NOINPUT, 'a missing file passes'))
    print(f'{len(cases)} plans, {len(bad)} errors, {results.count(False)} differ')
    return 0 if cases and bad and all(results) else 1


sys.exit(main())
