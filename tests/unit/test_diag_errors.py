"""The exceptions an author catches."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from diag_samples import finding, race

from pypto_pro.diag import NOWHERE, Severity, Span, errors


@pytest.mark.parametrize(
    ("cls", "constant", "code"),
    [
        (errors.ParserError, errors.UNKNOWN, "P006"),
        (errors.ParserSyntaxError, errors.INVALID_VAL, "P001"),
        (errors.ParserTypeError, errors.INVALID_TYPE, "P002"),
        (errors.FinalRejectionError, errors.INVALID_TYPE, "P007"),
        (errors.UndefinedVariableError, errors.NAME_ERROR, "P004"),
        (errors.UnsupportedFeatureError, errors.NOT_IMPLEMENTED_ERROR, "P005"),
        (errors.InvalidOperationError, errors.INVALID_OPERATION, "P006"),
        (errors.SSAViolationError, errors.INVALID_OPERATION, "P006"),
        (errors.ScopeIsolationError, errors.INVALID_OPERATION, "P006"),
        (errors.LoweringError, errors.INVALID_TYPE, "P002"),
    ],
)
def test_parser_errors(cls: type[errors.ParserError], constant: int, code: str) -> None:
    error = cls("wrong", Span("/nowhere/k.py", 3, 4, 3, 9), hint="do this", note="because")
    assert isinstance(error, errors.ParserError)
    assert error.error_code == 0xF00000 | constant
    assert (error.message, error.hint, error.note, error.diagnostic.code) == ("wrong", "do this", "because", code)
    assert error.span == {
        "filename": "/nowhere/k.py",
        "file": "/nowhere/k.py",
        "line": 3,
        "column": 4,
        "begin_line": 3,
        "begin_column": 4,
        "end_line": 3,
        "end_column": 9,
    }
    assert str(error).startswith(f"error[{code}] {cls.__name__}: wrong\n --> /nowhere/k.py:3:4\n")
    assert str(error).endswith("= note: because\n  = help: do this")


def test_bases() -> None:
    assert issubclass(errors.FinalRejectionError, errors.ParserTypeError)
    assert issubclass(errors.LoweringError, errors.ParserTypeError)
    assert issubclass(errors.LoweringError, RuntimeError)
    assert issubclass(errors.ArgumentError, TypeError)
    assert issubclass(errors.ArgumentError, ValueError)
    assert issubclass(errors.ArgumentKindError, TypeError)
    assert not issubclass(errors.ArgumentKindError, ValueError)
    assert issubclass(errors.StuckError, RuntimeError)


def test_without_a_place() -> None:
    assert errors.ParserSyntaxError("no place").span is None
    assert errors.ParserSyntaxError("no place", NOWHERE).span is None
    assert errors.ParserSyntaxError("no place").source_lines is None


def test_source_lines_are_those_of_the_file(source: str) -> None:
    lines = errors.ParserTypeError("wrong", Span(source, 3, 4)).source_lines
    assert lines is not None
    assert lines[2] == "    load(a, x)\n"


def test_labels_calls_and_another_code(source: str) -> None:
    error = errors.ParserSyntaxError(
        "misaligned", Span(source, 3, 4, 3, 8), labels=[Span(source, 2, 4, 2, 5, "made here")], code="M102",
        calls=[Span(source, 15, 4, label="grab")],
    )
    assert error.diagnostic.kind == "misaligned_slot"
    assert "- made here" in str(error)
    assert "in `grab` called at k.py:15" in str(error)


def test_ssa_violation_shows_the_first_binding(source: str) -> None:
    error = errors.SSAViolationError("`a` is bound twice", Span(source, 5, 4), previous=Span(source, 2, 4, 2, 5))
    assert error.previous == Span(source, 2, 4, 2, 5)
    assert "- first bound here" in str(error)


def test_check_error_prints_all_findings_worst_first(source: str) -> None:
    error = errors.CheckError.from_findings([finding("D107", "a NaN"), race(source), finding("S113", "twice")])
    assert [found.severity for found in error.findings] == [Severity.ERROR, Severity.WARNING, Severity.NOTE]
    assert error.diagnostic.code == "S101"
    assert str(error).startswith("1 error, 1 warning, 1 note\n\nerror[S101]: `exp` reads")
    with pytest.raises(ValueError, match="at least one"):
        errors.CheckError.from_findings([])


def test_errors_survive_pickling(source: str) -> None:
    for error in (errors.ParserTypeError("wrong", Span(source, 3, 4)), errors.CheckError.from_findings([race(source)])):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (str(again), again.diagnostic) == (str(error), error.diagnostic)


def test_importing_the_errors_loads_no_renderer(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "import sys, pypto_pro.diag.errors; print(any(m.startswith('rich') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "False"
