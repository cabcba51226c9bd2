#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""tests/pages.py finds each digit that differs, each command that is gone, and each mark that is none."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import pages  # noqa: E402

DOCS = "docs"
PRINTED = ["first 1.25", "second 2.50", "took 3 s", "third 3.75"]
WHOLE = "\n".join(PRINTED)


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="heddle-pages-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / DOCS).mkdir()
        for name in ("README.md", "CONTRIBUTING.md"):
            (self.root / name).write_text("# Nothing\n")
        program = self.root / "build/bench"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\nset -e\n" + "".join(f"echo '{line}'\n" for line in PRINTED)
                           + '[ "$1" != fail ]\n[ -z "$EXTRA" ] || echo "extra $EXTRA"\n')
        program.chmod(0o755)
        for name, value in (("ROOT", self.root), ("REPEATABLE", ("build/bench",))):
            self.addCleanup(setattr, pages, name, getattr(pages, name))
            setattr(pages, name, value)

    def run_on(self, text, *options):
        """(exit status, what was said) with this page beside one that is right."""
        (self.root / DOCS / "good.md").write_text(f"<!-- prints: build/bench -->\n```\n{WHOLE}\n```\n")
        (self.root / DOCS / "page.md").write_text(text)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = pages.main([str(self.root / "build"), *options])
        return status, out.getvalue()

    def block(self, lines=WHOLE, mark="<!-- prints: build/bench -->"):
        return f"Words.\n\n{mark}\n```\n{lines}\n```\n\nMore words.\n"

    def test_same(self):
        for text in (self.block(), self.block(f"$ build/bench\n{WHOLE}", "<!-- prints -->"),
                     self.block(f"$ EXTRA=7 \\\n   build/bench\n{WHOLE}\nextra 7", "<!-- prints -->"),
                     self.block("...\nsecond 2.50\ntook ...\n..."), self.block("first 1.25\n...\nthird 3.75"),
                     self.block(WHOLE.replace("took 3 s", "took ..."))):
            status, said = self.run_on(text)
            self.assertEqual(status, 0, (text, said))
            self.assertIn("2 blocks", said)

    def test_differs(self):
        for lines in (WHOLE.replace("1.25", "1.26"), WHOLE + "\nfourth 5.00", WHOLE.replace("first 1.25\n", ""),
                      "...\nsecond 2.51\n...", "second 2.50\n...", "...\nfirst 1.25",
                      "...\nthird 3.75\n...\nsecond 2.50\n...", WHOLE.replace("took 3 s", "took 4 ...")):
            status, said = self.run_on(self.block(lines))
            self.assertEqual(status, 1, lines)
            self.assertIn(f"{DOCS}/page.md:3: build/bench: prints something else", said)

    def test_no_such_command(self):
        for mark, words in (("<!-- prints: build/gone -->", "no program build/gone"),
                            ("<!-- prints in 900 s: build/gone -->", "no program build/gone"),
                            ("<!-- prints: build/bench no/such.json -->", "no file no/such.json"),
                            ("<!-- prints: build/bench fail -->", "status 1"),
                            ("<!-- prints -->", "no command"),
                            ("<!-- prints in a while: build/bench -->", "not `<!-- prints: COMMAND -->`")):
            status, said = self.run_on(self.block(mark=mark))
            self.assertEqual(status, 1, mark)
            self.assertIn(words, said)

    def test_no_block(self):
        for text, words in (("<!-- prints: build/bench -->\nwords\n", "no block begins"),
                            ("<!-- prints: build/bench -->\n```\nfirst 1.25\n", "does not end"),
                            ("<!-- prints: build/bench a -->\n```\n$ bench b\nx\n```\n", "other words")):
            status, said = self.run_on(text)
            self.assertEqual(status, 1, text)
            self.assertIn(words, said)

    def test_every_program_has_a_block(self):
        pages.REPEATABLE = ("build/bench", "build/other")
        status, said = self.run_on(self.block())
        self.assertEqual(status, 1)
        self.assertIn("build/other: no page has a block", said)

    def test_slow_ones_when_asked_for(self):
        slow = self.block(WHOLE.replace("1.25", "1.26"), "<!-- prints in 900 s: build/bench slow -->")
        self.assertEqual(self.run_on(slow)[0], 0)
        for options in (["--all"], ["docs/page"], ["bench slow"]):
            self.assertEqual(self.run_on(slow, *options)[0], 1, options)

    def test_written_anew(self):
        text = self.block(f"$ build/bench\nfirst 1.26", "<!-- prints -->") + self.block("first 7")
        status, said = self.run_on(text, "--write")
        self.assertEqual(status, 0, said)
        self.assertEqual((self.root / DOCS / "page.md").read_text(),
                         self.block(f"$ build/bench\n{WHOLE}", "<!-- prints -->") + self.block())
        self.assertEqual(self.run_on((self.root / DOCS / "page.md").read_text())[0], 0)


if __name__ == "__main__":
    unittest.main()
