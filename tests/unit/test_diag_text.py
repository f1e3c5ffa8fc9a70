"""The text form of diagnostics, character by character."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest
from diag_samples import finding, race

from pypto_pro.diag import NOWHERE, Diagnostic, Severity, Span, characters
from pypto_pro.diag.render_text import render, summary


def expect(diagnostic: Diagnostic, text: str) -> None:
    assert render([diagnostic], color=False) == textwrap.dedent(text).strip("\n")


def test_both_parties_in_line_order(source: str) -> None:
    diagnostic = race(
        source,
        notes=("UB bytes 0..2048 of `a`; AIV0 of block 3, i=1", "the schedule was `latest`"),
        count=64,
        help="set a flag on MTE2 after line 3 and wait for it on V before line 5",
    )
    expect(
        diagnostic,
        """
        error[S101]: `exp` reads `a` while the load filling it may still be running
         --> k.py:5:11
          |
        3 |     load(a, x)
          |          - written here, on MTE2
        5 |     exp(y, a)
          |            ^ read here, on V; nothing orders it after line 3
          = note: UB bytes 0..2048 of `a`; AIV0 of block 3, i=1; seen 64 times
          = note: the schedule was `latest`
          = help: set a flag on MTE2 after line 3 and wait for it on V before line 5
        """,
    )


def test_title_calls_consequences_and_whereabouts(source: str) -> None:
    diagnostic = finding(
        "P002",
        "`load` needs two offsets, found one",
        Span(source, 3, 4, 3, 14),
        title="ParserTypeError",
        kernel="softmax",
        core="AIV1 of block 0",
        call_chain=(Span(source, 15, 4, label="grab"), Span(source, 2, label="")),
        consequences=("the store at line 7 writes nothing",),
    )
    expect(
        diagnostic,
        """
        error[P002] ParserTypeError: `load` needs two offsets, found one
         --> k.py:3:4
          |
        3 |     load(a, x)
          |     ^^^^^^^^^^
          = note: in kernel `softmax`; AIV1 of block 0
          = note: in `grab` called at k.py:15
          = note: called at k.py:2
          = as a consequence: the store at line 7 writes nothing
        """,
    )


def test_the_inlined_at_chain_serves_as_call_chain(source: str) -> None:
    outer = Span(source, 2, 0, label="outer")
    inner = Span(source, 5, 4, label="inner", inlined_at=outer)
    text = render([finding("P001", "no", Span(source, 3, 4, 3, 8, inlined_at=inner))], color=False)
    assert text.index("in `inner` called at k.py:5") < text.index("in `outer` called at k.py:2")


def test_distant_lines_wide_characters_tabs_and_long_spans(source: str) -> None:
    diagnostic = finding(
        "S102",
        "nobody can move",
        Span(source, 15, 4, 15, 11, "waits here"),
        Span(source, 6, 8, 6, 12, "two wide characters"),
        Span(source, 6, 1, 6, 4, "behind a tab"),
        Span(source, 7, 4, 10, 5, "over four lines"),
    )
    expect(
        diagnostic,
        """
        error[S102]: nobody can move
          --> k.py:15:4
           |
         6 |     add(y, "宽字", a)  # a tab, two wide characters
           |     --- behind a tab
           |            ------ two wide characters
         7 |     store(
           |     ------ over four lines
        ...
        15 |     wait(3)
           |     ^^^^^^^ waits here
        """,
    )


def test_one_line_twice_keeps_both_labels_and_drops_repeats(source: str) -> None:
    mine = Span(source, 5, 4, 5, 13, "block 1 writes here")
    other = Span(source, 5, 4, 5, 13, "block 0 wrote here")
    expect(
        finding("S101", "two writers", mine, other, mine),
        """
        error[S101]: two writers
         --> k.py:5:4
          |
        5 |     exp(y, a)
          |     ^^^^^^^^^ block 1 writes here
          |     --------- block 0 wrote here
        """,
    )


def test_a_span_that_knows_only_its_line_marks_the_statement(source: str) -> None:
    expect(
        finding("S103", "polls for ever", Span(source, 5)),
        """
        error[S103]: polls for ever
         --> k.py:5:4
          |
        5 |     exp(y, a)
          |     ^^^^^^^^^
        """,
    )


def test_two_files_have_an_excerpt_each_and_an_unreadable_one_still_prints(source: str) -> None:
    expect(
        finding("S101", "far apart", Span(source, 5, 4, 5, 7, "here"), Span("/nowhere/lib.py", 120, 8, label="there")),
        """
        error[S101]: far apart
           --> k.py:5:4
            |
          5 |     exp(y, a)
            |     ^^^ here
           ::: /nowhere/lib.py:120:8
            |
        120 | <source not available>
            | ---------------------- there
        """,
    )


def test_places_past_the_line_or_without_a_line(source: str) -> None:
    assert "^" in render([finding("P001", "past", Span(source, 3, 400, 3, 500))], color=False)
    assert render([finding("P020", "no place", NOWHERE, notes=("a note",))], color=False) == (
        "error[P020]: no place\n  = note: a note"
    )


def test_several_lines_in_message_and_note_are_indented() -> None:
    text = render([finding("P008", "first\nsecond", notes=("one\ntwo",))], color=False)
    assert text == "error[P008]: first\n  second\n  = note: one\n          two"


def test_color_changes_no_character(source: str) -> None:
    diagnostics = [race(source, count=2), finding("S113", "twice")]
    colored = render(diagnostics, color=True)
    assert "\x1b[1;31m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(diagnostics, color=False)


def test_color_follows_the_terminal_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnostics = [finding("S113", "twice")]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\x1b[" in render(diagnostics)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in render(diagnostics)


def test_several_are_parted_by_a_blank_line_and_counted() -> None:
    diagnostics = [finding("S113", "twice"), finding("S101", "a"), finding("S101", "b"), finding("D107", "c")]
    assert render(diagnostics[:2], color=False) == "warning[S113]: twice\n\nerror[S101]: a"
    assert summary(diagnostics) == "2 errors, 1 warning, 1 note"
    assert summary([]) == "no findings"
    assert render([], color=False) == ""


def test_golden(source: str, golden: object) -> None:
    everything = [race(source, count=2), Diagnostic("D107", "nan_born", Severity.NOTE, "64 NaN", (Span(source, 5, 4),))]
    golden(Path("expected/diagnostics.txt"), render(everything, color=False))  # type: ignore[operator]


def test_byte_columns_become_character_columns() -> None:
    line = "f('宽字', x)"
    (call,) = ast.parse(line).body
    argument = call.value.args[1]  # type: ignore[attr-defined]
    assert argument.col_offset != line.index("x")
    assert characters(line, argument.col_offset) == line.index("x")
    assert characters("f(x)", 2) == 2
