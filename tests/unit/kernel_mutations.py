"""Real kernels with random damage: syntax trees with expressions swapped or replaced, statements lost or wrapped.

`python tests/unit/kernel_mutations.py 20000` reads that many of them (some minutes) and lists wrong answers.
"""

from __future__ import annotations

import ast
import copy
import linecache
import random
import sys
import types
import warnings
from pathlib import Path
from typing import Any

from pypto_pro.diag.errors import ParserError
from pypto_pro.frontend.parse import Specialisation, parse_kernel
from pypto_pro.ir.verify import check
from pypto_pro.ops.table import lookup
from pypto_pro.runtime.jit import is_kernel

SOURCE = Path(__file__).resolve().parents[1] / "golden" / "frontend" / "sources.py"
SPARE_PARTS = (
    "0", "-1", "1.5", "None", "True", "'s'", "[]", "(1, 2)", "pl.DT_FP32", "x", "n", "pl.MemorySpace.Mat", "tile_type",
    "10**30", "{}", "lambda: 0", "pl", "sys", "range", "len", "x.shape", "x[0, 0]", "[x, x]", "pl.get_block_idx()",
    "pl.load", "1 << 40", "...", "x[0:1, 0:2]", "not x", "x is None", "x in (1, 2)", "pl.make_tuple(a=1)", "[1][0]",
    "pl.struct('S', a=1)", "x if x else 1", "max(1, 2)", "pl.TileType", "-x", "x + 1", "print(1)", "int('3')", "b'q'",
    "x.valid_shape[0]", "pl.simt.thread_idx().x", "vf.add(x, x, x)", "pl.DYNAMIC", "sum([1, 2])", "pl.range(3)", "ins",
    "ins.next()", "t", "u", "pl.const(1, pl.DT_INT8)", "pl.make_ptr(x)", "pl.system.bar_all()", "pl.min(1, x)",
    "x // 0", "1 / 0", "data.rows", "walk",
)  # fmt: skip
WRAPPERS = (
    "if x.shape[0] > pl.get_block_idx():\n    pass",
    "for t in pl.range(3):\n    pass",
    "while pl.get_block_idx() > 2:\n    pass",
    "with pl.section_vector():\n    pass",
    "with pl.section_cube():\n    pass",
)


class Damage:
    """A random generator of damaged modules."""

    def __init__(self, seed: int, text: str) -> None:
        self.random = random.Random(seed)
        self.tree = ast.parse(text)
        self.expressions: list[tuple[ast.AST, str, int | None]] = []
        self.blocks: list[list[ast.stmt]] = []
        for function in self.tree.body:
            if isinstance(function, ast.FunctionDef):
                self._collect(function)

    def _collect(self, function: ast.FunctionDef) -> None:
        self.blocks.append(function.body)
        for stmt in function.body:
            for node in ast.walk(stmt):
                for field, value in ast.iter_fields(node):
                    items = value if isinstance(value, list) else [value]
                    if isinstance(value, list) and items and isinstance(items[0], ast.stmt):
                        self.blocks.append(value)
                    for i, item in enumerate(items):
                        if isinstance(item, ast.expr) and isinstance(getattr(item, "ctx", None), ast.Load | None):
                            self.expressions.append((node, field, i if isinstance(value, list) else None))

    def text(self) -> str:
        """The module with one to three defects."""
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if self.random.random() < 0.7:
                self._expression()
            else:
                self._statement()
        return ast.unparse(ast.fix_missing_locations(self.tree))

    def _expression(self) -> None:
        owner, field, index = self.random.choice(self.expressions)
        held = getattr(owner, field)
        if self.random.random() < 0.5:
            other, name, at = self.random.choice(self.expressions)
            new = copy.deepcopy(getattr(other, name))
            new = new[min(at, len(new) - 1)] if at is not None and new else new
        else:
            new = ast.parse(self.random.choice(SPARE_PARTS), mode="eval").body
        if isinstance(new, ast.expr) and index is None:
            setattr(owner, field, new)
        elif isinstance(new, ast.expr) and index < len(held):
            held[index] = new

    def _statement(self) -> None:
        block = self.random.choice(self.blocks)
        at = self.random.randrange(len(block))
        match self.random.randrange(5):
            case 0 if len(block) > 1:
                del block[at]
            case 1:
                block.insert(at, copy.deepcopy(self.random.choice(self.random.choice(self.blocks))))
            case 2:
                block[at] = self.random.choice((ast.Return(None), ast.Pass(), ast.Return(ast.Constant(3))))
            case _:
                around: Any = ast.parse(self.random.choice(WRAPPERS)).body[0]
                around.body = [block[at]]
                block[at] = around


def outcome(seed: int, text: str) -> str | None:
    """What is wrong with the front end's answer to damage number `seed`; None when it is as it should be."""
    try:
        source = Damage(seed, text).text()
        name = f"<damaged {seed}>"
        code = compile(source, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    made = sys.modules[name] = types.ModuleType(name)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        exec(code, vars(made))
    except Exception:  # damage outside the kernels: Python's own answer
        return None
    finally:
        del sys.modules[name]
    return next((wrong for kernel in vars(made).values() if is_kernel(kernel) and (wrong := _answer(kernel))), None)


def _answer(kernel: Any) -> str | None:
    try:
        found = parse_kernel(kernel.source, Specialisation(), auto_mutex=kernel.options.auto_mutex)
    except ParserError as error:
        return _internal(error)
    complaints = check(found, lookup)
    return complaints[0].message if complaints else None


def _internal(error: ParserError) -> str | None:
    """Why an error is one of ours and not the author's."""
    cause = error.__cause__
    if error.span is None:
        return f"no place: {error.message}"
    mistakes = (AssertionError, KeyError, AttributeError, NameError, RecursionError, StopIteration)
    if isinstance(cause, mistakes) and cause.__traceback__ is not None:
        return f"{type(cause).__name__}: {error.message}"
    return None


def main() -> None:
    """The command: number of cases, the first 10 000 by default."""
    text = SOURCE.read_text(encoding="utf-8")
    warnings.simplefilter("ignore")  # Python remarks on some of the damage
    wrong = 0
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000):
        answer = outcome(seed, text)
        if answer is not None:
            wrong += 1
            print(f"{seed}: {answer}")
    print(f"{wrong} wrong answers")
    sys.exit(min(wrong, 1))


if __name__ == "__main__":
    main()
