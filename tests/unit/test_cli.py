"""The command line frame, and the sub-commands ops, explain, doctor and ir."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from diag_samples import finding, race
from rich.console import Console

import pypto_pro
from pypto_pro import cli
from pypto_pro.cli import doctor, kernel_files, main, tables
from pypto_pro.cli import ops as ops_command
from pypto_pro.diag import CODES
from pypto_pro.diag.errors import CheckError, ParserTypeError
from pypto_pro.dtypes import DataType
from pypto_pro.ops.entry import OpEntry


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args, prog_name="pypto-pro")


def test_help_lists_every_command_without_importing_one() -> None:
    code = (
        "import sys; from pypto_pro.cli import main\n"
        "try: main(['--help'], prog_name='pypto-pro')\n"
        "except SystemExit: pass\n"
        "heavy = ('numpy', 'rich', 'llvmlite', 'scipy', 'torch', 'pypto_pro.ops', 'pypto_pro.runtime')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[-1] == "[]"
    for name in main.list_commands(click.Context(main)):
        assert any(line.split()[:1] == [name] for line in lines)


def test_every_command_loads_and_has_help() -> None:
    names = main.list_commands(click.Context(main))
    assert {"ops", "explain", "doctor", "ir"} <= set(names) <= set(cli.SUMMARIES)
    for name in names:
        done = run(name, "--help")
        assert done.exit_code == 0, done.output
        assert "Usage: pypto-pro" in done.output


def test_every_module_of_a_command_is_listed() -> None:
    modules = {path.stem for path in Path(cli.__file__).parent.glob("*.py")}
    commands = {name for name in modules - {"__init__"} if hasattr(sys.modules.get(f"pypto_pro.cli.{name}"), "command")}
    assert commands <= set(cli.SUMMARIES)


def test_version() -> None:
    assert run("--version").output == f"pypto-pro, version {pypto_pro.__version__}\n"


def test_an_unknown_command_is_a_usage_error_with_the_nearest_name() -> None:
    done = run("explian")
    assert done.exit_code == 2
    assert "did you mean 'explain'?" in done.output
    assert run("--nonsense").exit_code == 2


@pytest.mark.parametrize("several", [False, True])
def test_a_diagnosed_mistake_is_printed_and_ends_with_status_1(
    monkeypatch: pytest.MonkeyPatch, several: bool, source: str
) -> None:
    def fail() -> None:
        raise CheckError.from_findings([race(source), finding("S113", "b")]) if several else ParserTypeError("wrong")

    monkeypatch.setattr("pypto_pro.cli.doctor.command", click.Command("doctor", callback=fail))
    done = run("doctor")
    assert done.exit_code == 1
    expected = ["error[S101]: `exp` reads", "warning[S113]: b"] if several else ["error[P002] ParserTypeError: wrong"]
    for text in expected:
        assert text in done.stderr
    assert "Traceback" not in done.output


def test_tables_cut_the_last_column_in_a_terminal_and_nothing_when_piped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("pl.load", "[bold] " + "word " * 30)]
    tables.print_table(("name", "what"), rows)
    assert capsys.readouterr().out.splitlines()[1] == f"pl.load  {rows[0][1].rstrip()}"
    out = io.StringIO()
    monkeypatch.setattr(tables, "console", lambda: Console(file=out, width=40, force_terminal=True, no_color=True))
    tables.print_table(("name", "what"), rows)
    line = out.getvalue().splitlines()[1]
    assert line.startswith("pl.load  [bold] word")
    assert line.rstrip().endswith("…")


# --- explain ---------------------------------------------------------------------------------------------------------


def test_explain_lists_all_codes() -> None:
    done = run("explain")
    assert done.exit_code == 0
    for entry in CODES.values():
        assert any(line.startswith(entry.code) and entry.meaning in line for line in done.output.splitlines())


def test_explain_one_code() -> None:
    done = run("explain", "s101")
    assert done.exit_code == 0
    assert done.output.startswith("# S101 race (error): unordered conflicting accesses\n")
    assert "## Mended" in done.output


def test_explain_an_unknown_code() -> None:
    done = run("explain", "X9")
    assert done.exit_code == 2
    assert "unknown code 'X9'" in done.output


# --- ops -------------------------------------------------------------------------------------------------------------


def test_ops_json_has_the_promised_keys() -> None:
    done = run("ops", "--json")
    assert done.exit_code == 0
    entries = json.loads(done.output)
    by_name = {entry["name"]: entry for entry in entries}
    assert len(by_name) == len(entries) > 50
    for entry in entries:
        assert {"name", "aliases", "family", "kind", "pipe", "section", "native", "doc"} <= entry.keys()
        assert entry["kind"] in ("op", "construct", "query")
        assert entry["native"] in ("lowered", "callback", "none")
        assert entry["section"] in ("vector", "cube", "both", ops_command.DEPENDS)
    assert (by_name["pl.add"]["pipe"], by_name["pl.add"]["section"]) == ("V", "vector")
    assert by_name["pl.store"]["pipe"] == ops_command.DEPENDS


def test_ops_text_is_one_line_an_entry() -> None:
    lines = run("ops").output.splitlines()
    assert len(lines) == 1 + len(json.loads(run("ops", "--json").output))
    assert any(line.split()[:1] == ["pl.load"] for line in lines)


def test_ops_by_full_name_short_name_and_alias() -> None:
    full = run("ops", "pl.add").output
    assert full == run("ops", "add").output
    assert full.startswith("pl.add(out, lhs, rhs)\n")
    assert "  pipe     V\n" in full
    entry = next(entry for entry in json.loads(run("ops", "--json").output) if entry["aliases"])
    (same,) = json.loads(run("ops", entry["aliases"][0], "--json").output)
    assert same == entry


def test_ops_shows_keywords_with_their_defaults() -> None:
    assert run("ops", "pl.load").output.startswith("pl.load(")
    assert "order=None" in run("ops", "pl.load").output


def test_ops_unknown_name() -> None:
    done = run("ops", "pl.lod")
    assert done.exit_code == 2
    assert "did you mean 'pl.load'?" in done.output


@pytest.mark.parametrize(("typed", "near"), [("addd", "pl.add"), ("vf.addd", "vf.add"), ("lod", "pl.load")])
def test_ops_offers_the_nearest_name(typed: str, near: str) -> None:
    assert f"did you mean '{near}'?" in run("ops", typed).output


@pytest.mark.parametrize("width", [60, 80, 100, 132, 200])
def test_a_narrow_terminal_cuts_no_word(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    terminal = Console(file=printed, width=width, force_terminal=True, color_system=None, highlight=False)
    monkeypatch.setattr(tables, "console", lambda: terminal)
    assert run("ops").exit_code == 0
    heading, *lines = printed.getvalue().splitlines()
    entries = json.loads(run("ops", "--json").output)
    assert len(lines) == len(entries)
    column = heading.index("what it does")
    for line, entry in zip(lines, entries, strict=True):
        assert len(line) <= width
        shown, first = line[column:].rstrip(), (entry["doc"].splitlines() or [""])[0]
        assert shown == first or f"{first} ".startswith(shown.removesuffix("…"))
        if shown.endswith("…"):
            assert first[len(shown) - 1 :][:1] in " ,;:("  # behind a whole word


def test_pipe_and_section_rules_are_told_from_fixed_ones() -> None:
    entry = OpEntry("pl.x", (), None, lambda **operands: None, lambda **operands: None, "f")  # type: ignore[arg-type]
    facts = ops_command.to_json(entry)
    assert (facts["pipe"], facts["section"]) == (ops_command.DEPENDS, ops_command.DEPENDS)
    assert ops_command.to_json(OpEntry("pl.x", (), None, None, lambda **o: None, "f"))["pipe"] is None  # type: ignore[arg-type]


# --- doctor ----------------------------------------------------------------------------------------------------------


def test_doctor_on_a_sound_installation() -> None:
    done = run("doctor", "--json")
    facts = json.loads(done.output)
    assert (done.exit_code, facts["problems"]) == (0, [])
    assert facts["version"] == pypto_pro.__version__
    assert facts["packages"]["numpy"]
    assert facts["cache"]["writable"]
    assert facts["cpu"]["features"]
    assert facts["blas"]["name"]
    text = run("doctor").output
    assert "PYPTO_PRO_EXECUTOR" in text
    assert text.endswith("no problems found\n")


def test_doctor_names_wrong_and_misspelled_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_PRO_EXECUTOR", "nativ")
    monkeypatch.setenv("PYPTO_PRO_THREAD", "2")
    done = run("doctor")
    assert done.exit_code == 1
    assert "problem: PYPTO_PRO_EXECUTOR is 'nativ'; valid are native, interp" in done.output
    assert "problem: PYPTO_PRO_THREAD is no setting; did you mean PYPTO_PRO_THREADS?" in done.output


def test_doctor_names_a_missing_package_and_a_cache_it_cannot_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "_writable", lambda path: False)
    assert "cannot be written" in run("doctor").output
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "ml_dtypes" else "1")
    done = run("doctor")
    assert done.exit_code == 1
    assert "problem: ml_dtypes is not installed" in done.output


def test_writable_looks_at_the_nearest_directory_there_is(tmp_path: Path) -> None:
    assert doctor._writable(tmp_path / "a" / "b")
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert not doctor._writable(tmp_path / "file")


# --- ir --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("k.py:softmax", ("k.py", "softmax")), ("k.py", ("k.py", None)), ("C:\\k.py", ("C:\\k.py", None)),
     ("C:\\k.py:add", ("C:\\k.py", "add"))],
)  # fmt: skip
def test_ir_target(text: str, parsed: tuple[str, str | None]) -> None:
    assert kernel_files.parse_target(text) == parsed


def test_ir_keys_and_shapes() -> None:
    assert kernel_files.parse_key("mode=3") == ("mode", 3)
    assert kernel_files.parse_key("causal=True") == ("causal", True)
    assert kernel_files.parse_key("dt=DT_FP16") == ("dt", DataType.DT_FP16)
    assert kernel_files.parse_key("name=fast") == ("name", "fast")
    assert kernel_files.parse_shape("x=2x30") == ("x", (2, 30))
    assert kernel_files.parse_shape("x=") == ("x", ())
    for wrong in ("x", "=3", "dt=DT_FP15"):
        with pytest.raises(click.BadParameter):
            kernel_files.parse_key(wrong)
    for wrong in ("x", "x=2x0", "x=axb"):
        with pytest.raises(click.BadParameter):
            kernel_files.parse_shape(wrong)


@pytest.mark.parametrize("command", ["ir", "layout", "build"])
def test_files_that_do_not_load_are_wrong_usage(tmp_path: Path, command: str) -> None:
    file = tmp_path / "wrong.py"
    for text, said in (("import nowhere\n", "No module named 'nowhere'"), ("def f(:\n", "SyntaxError")):
        file.write_text(text, encoding="utf-8")
        done = run(command, str(file))
        assert done.exit_code == 2
        assert said in done.stderr
        assert f"{file} does not load" in done.stderr
        assert "pypto_pro" not in done.stderr.replace(str(tmp_path), "")
    file.write_text("x = 1\n", encoding="utf-8")
    done = run(command, str(file))
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, "Error: wrong has no kernels")


@pytest.mark.parametrize("command", ["ir", "layout", "build"])
def test_a_key_that_chooses_nothing_is_wrong_usage(tmp_path: Path, command: str) -> None:
    shapes = ("--shape", "x=8x64", "--shape", "y=8x64")
    for key, what in (("mode=1", "tiling key"), ("t=DT_FP16", "datatype variables")):
        done = run(command, kernel_file(tmp_path), *shapes, "--key", key)
        assert done.exit_code == 2
        assert f"`copy` has no {what}; --key {key.partition('=')[0]} chooses nothing" in done.stderr


@pytest.mark.parametrize("command", ["ir", "layout"])
def test_the_key_that_was_taken_is_told(command: str) -> None:
    kernel = str(Path(__file__).parents[1] / "kernels" / "good" / "k14_tiling_key_data.py")
    done = run(command, kernel)
    assert done.stderr == "chosen without --key: Op=0, Width=32\n"
    assert run(command, kernel, "--key", "Op=1", "--key", "Width=64").stderr == ""
    if command == "layout":
        assert done.stdout.startswith("On-chip layout of combine for Op = 0, Width = 32\n")


TYPED = """\
import pypto_pro.language as pl

@pl.jit(datatype={"x": "dt", "y": "dt", "n": "other"})
def copy(x: pl.Ptr[pl.DT_UINT8], y: pl.Ptr[pl.DT_UINT8], n: pl.Ptr[pl.DT_UINT8]):
    a, b = pl.make_tensor(pl.make_ptr(x, dt), [16, 64]), pl.make_tensor(pl.make_ptr(y, dt), [16, 64])
    with pl.section_vector():
        tiles = pl.make_tile_group(type=pl.TileType(shape=[16, 64], dtype=dt), addrs=0, mutex_ids=[3])
        pl.load(tiles[0], a, [0, 0])
        pl.store(b, tiles[0], [0, 0])
"""


@pytest.mark.parametrize("command", ["ir", "layout", "build"])
def test_dtypes_that_are_left_open(tmp_path: Path, command: str) -> None:
    file = tmp_path / "typed.py"
    file.write_text(TYPED, encoding="utf-8")
    out = ("--out", str(tmp_path / "out")) if command == "build" else ()
    done = run(command, str(file), "--key", "x=DT_FP32", *out)
    assert done.exit_code == 0, done.output
    if command != "build":
        assert done.stderr == "chosen without --key: y=DT_FP32, n=DT_FP16\n"
        assert "fp32" in done.stdout.lower()
    wrong = run(command, str(file), "--key", "z=DT_FP32", *out)
    assert wrong.exit_code == 2
    assert "`z` takes no dtype; `copy` has x, y, n, chosen as --key x=DT_FP16, --key y=DT_FP16" in wrong.stderr
    wrong = run(command, str(file), "--key", "x=FP32", *out)
    assert wrong.exit_code == 2
    assert "`x` of `copy` takes a dtype: --key x=DT_FP16" in wrong.stderr


@pytest.mark.parametrize("command", ["ir", "layout", "build"])
def test_a_script_that_runs_its_kernels_on_import(tmp_path: Path, command: str) -> None:
    text = Path(kernel_file(tmp_path)).read_text(encoding="utf-8")
    shapes = ("--shape", "x=8x64", "--shape", "y=8x64")
    out = ("--out", str(tmp_path / "out")) if command == "build" else ()
    file = tmp_path / "script.py"
    for end, code in (("assert 1 + 1 == 3, 'sums'", 2), ("raise SystemExit(1)", 2), ("raise SystemExit(0)", 0)):
        file.write_text(f"{text}\n\ndef main():\n    {end}\n\n\nmain()\n", encoding="utf-8")
        done = run(command, str(file), *shapes, *out)
        assert done.exit_code == code
        assert bool(done.stdout) is (code == 0)
        if code:
            line = len(text.splitlines()) + 4
            assert f"line {line}, in main\n    {end}" in done.stderr
            assert f"{file} does not load: line {line} raised " in done.stderr


def test_what_a_file_prints_stays_out_of_the_answer(tmp_path: Path) -> None:
    file = kernel_file(tmp_path)
    Path(file).write_text(Path(file).read_text(encoding="utf-8") + "print('noise')\n", encoding="utf-8")
    shapes = ("--shape", "x=8x64", "--shape", "y=8x64")
    done = run("layout", file, *shapes, "--json")
    assert json.loads(done.stdout)["kernel"] == "copy"
    assert "noise" in done.stderr
    assert "noise" not in run("ir", file, *shapes).stdout


def test_ir_of_a_missing_file_is_a_usage_error() -> None:
    done = run("ir", "nowhere.py:k")
    assert done.exit_code == 2
    assert "no file 'nowhere.py'" in done.output


KERNEL = """\
import pypto_pro.language as pl

@pl.jit
def copy(x: pl.Tensor[[pl.STATIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.STATIC, 64], pl.DT_FP32]):
    with pl.section_vector():
        tiles = pl.make_tile_group(type=pl.TileType(shape=[x.shape[0], 64], dtype=pl.DT_FP32), addrs=0, mutex_ids=[3])
        pl.load(tiles[0], x, [0, 0])
        pl.store(y, tiles[0], [0, {offset}])
"""


def kernel_file(tmp_path: Path, offset: str = "0") -> str:
    file = tmp_path / "copy_kernel.py"
    file.write_text(KERNEL.replace("{offset}", offset), encoding="utf-8")
    return str(file)


def test_ir_prints_a_variant_before_and_after_a_pass(tmp_path: Path) -> None:
    file = kernel_file(tmp_path)
    shapes = ("--shape", "x=8x64", "--shape", "y=8x64")
    done = run("ir", f"{file}:copy", *shapes)
    assert done.exit_code == 0, done.output
    assert "TileType([8, 64]" in done.output
    assert "mutex_lock(MTE2" in done.output
    plain = run("ir", file, *shapes, "--after", "frontend", "--core", "vector").output
    assert "pl.load" in plain
    assert "mutex_lock" not in plain


def test_ir_of_a_wrong_kernel_is_a_finding_at_its_line(tmp_path: Path) -> None:
    done = run("ir", kernel_file(tmp_path, "offst"), "--shape", "x=8x64", "--shape", "y=8x64")
    assert done.exit_code == 1
    assert "error[P004] UndefinedVariableError: `offst` is not defined" in done.stderr
    assert "copy_kernel.py:8:34" in done.stderr


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (":cpoy", (), "no kernel `cpoy`; did you mean `copy`?"),
        ("", ("--after", "nothing"), "unknown pass `nothing`"),
        ("", ("--shape", "z=8x64"), "`z` is no tensor parameter"),
        ("", ("--core", "scalar"), "'scalar' is not one of"),
    ],
)
def test_ir_wrong_usage(tmp_path: Path, target: str, options: tuple[str, ...], message: str) -> None:
    shapes = ("--shape", "x=8x64", "--shape", "y=8x64")
    done = run("ir", kernel_file(tmp_path) + target, *shapes, *options)
    assert done.exit_code == 2
    assert message in done.output
