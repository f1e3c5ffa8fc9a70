"""Control flow and names: kernels that run on both executors and, as the same text, in Python, with equal results."""

from __future__ import annotations

import contextlib
import random

import pytest
from kernel_text import agree, read, run

from pypto_pro.diag import errors

N2 = "n: pl.DT_INT64, m: pl.DT_INT64"

PROGRAMS = {
    "sum": "s = 0\nfor i in pl.range(n):\n    s += i\nout[0, 0] = s",
    "start stop step": "s = 0\nfor i in pl.range(2, n, 3):\n    s = s * 10 + i\nout[0, 0] = s",
    "negative step": "s = 0\nfor i in pl.range(n, 0, -2):\n    s = s * 10 + i\nout[0, 0] = s",
    "zero trips keep names": "s = 7\ni = 3\nfor i in pl.range(0, 0):\n    s = i\nout[0, 0] = s\nout[0, 1] = i",
    "loop variable afterwards": "for i in pl.range(n):\n    pass\nout[0, 0] = i",
    "loop variable reassigned": "s = 0\nfor i in pl.range(n):\n    i = i * 2\n    s += i\nout[0, 0] = s\nout[0, 1] = i",
    "nested, one variable": (
        "s = 0\nfor i in pl.range(n):\n    for i in pl.range(m):\n        s += i\n    s = s * 3 + i\nout[0, 0] = s"
    ),
    "while": "s = n\nc = 0\nwhile s > 1:\n    s = s // 2\n    c += 1\nout[0, 0] = c\nout[0, 1] = s",
    "while true": "c = 0\nwhile True:\n    c += 1\n    if c >= n:\n        break\nout[0, 0] = c",
    "while and": "c = 0\nwhile c < n and c * c < m:\n    c += 1\nout[0, 0] = c",
    "while false": "c = 5\nwhile False:\n    c = 6\nout[0, 0] = c",
    "continue": "s = 0\nfor i in pl.range(n):\n    if i % 3 == 0:\n        continue\n    s = s * 2 + i\nout[0, 0] = s",
    "break inner only": (
        "s = 0\nfor i in pl.range(n):\n    for j in pl.range(m):\n        "
        "if j > i:\n            break\n        s += j\n"
        "    s += 100\nout[0, 0] = s"
    ),
    "if merges": "if n > 3:\n    a = 1\nelse:\n    a = 2\nout[0, 0] = a",
    "if over a constant": "a = 1\nif n > 3:\n    a = a + 5\nout[0, 0] = a\na = a * 2\nout[0, 1] = a",
    "elif": "a = 0\nif n > 7:\n    a = 1\nelif n > 5:\n    a = 2\nelif n > 3:\n    a = 3\nout[0, 0] = a",
    "elif behind two rows": "a = 9\nif n > 100:\n    a = 1\nelif m > 100:\n    a = 2\nelse:\n    a = n\nout[0, 0] = a",
    "const if": "if 3 > 2:\n    a = n\nelse:\n    a = undefined_name\nout[0, 0] = a",
    "swap": "a = n\nb = m\na, b = b, a\nout[0, 0] = a\nout[0, 1] = b",
    "rotate in a loop": (
        "a, b, c = 1, 2, 3\nfor i in pl.range(n):\n    a, b, c = c, a, b\nout[0, 0] = a * 100 + b * 10 + c"
    ),
    "fibonacci": "a = 0\nb = 1\nfor i in pl.range(n):\n    a, b = b, a + b\nout[0, 0] = a",
    "carried tuple": "t = (n, 1)\nfor i in pl.range(m):\n    t = (t[1], t[0] + i)\nout[0, 0] = t[0]\nout[0, 1] = t[1]",
    "previous tuple": (
        "t = (0, 0)\nfor i in pl.range(n):\n    p = t\n    t = (i, i * i)\n    if i > 2:\n        break\n"
        "out[0, 0] = p[0] * 1000 + p[1] * 100 + t[0] * 10 + t[1]"
    ),
    "tuple held over a break": (
        "t = (0, 0)\nu = t\nfor i in pl.range(n):\n    t = (i + 1, n - i)\n    if i == 3:\n        break\n    u = t\n"
        "out[0, 0] = u[0]\nout[0, 1] = u[1]\nout[0, 2] = t[0]"
    ),
    "named tuple": "t = pl.make_tuple(a=n, b=m)\nn = 0\nout[0, 0] = t.a + t.b",
    "snapshot": "a = n\nt = (a, a)\na = a + 1\nout[0, 0] = t[0]\nout[0, 1] = a",
    "alias of a scalar": "a = n\nb = a\na += 1\nout[0, 0] = a * 10 + b",
    "defined in the loop": "for i in pl.range(n):\n    last = i * 3\nout[0, 0] = last",
    "defined in a branch of a loop": (
        "for i in pl.range(n):\n    if i % 2 == 0:\n        v = i\n    "
        "else:\n        v = -i\n    out[0, 0] = v\nout[0, 1] = v"
    ),
    "ternary": "out[0, 0] = n if n > m else m\nout[0, 1] = (1 if n > 3 else 2) if m > 3 else 3",
    "ternary guards a division": "d = n - 5\nout[0, 0] = 100 // d if d != 0 else -1",
    "runtime tuple": "t = (10, 20, 30)\nfor i in pl.range(3):\n    out[0, i] = t[i]",
    "runtime tuple of tuples": "t = ((1, 2), (3, 4))\nfor i in pl.range(2):\n    out[0, i] = t[i][0] * 10 + t[i][1]",
    "in": (
        "for i in pl.range(5):\n    if i in (1, 3, n - 1):\n        "
        "out[0, i] = 1\n    if i not in [0, 1]:\n        out[0, 0] = i"
    ),
    "in range": "out[0, 0] = 1 if n in pl.range(2, 20) else 0\nout[0, 1] = 1 if n in pl.range(1, 20, 3) else 0",
    "in nothing": "out[0, 0] = 1 if n in () else 0\nout[0, 1] = 1 if n not in [] else 0",
    "min max": "out[0, 0] = min(n, m)\nout[0, 1] = max(n, m)\nout[0, 2] = min(n, 3)",
    "not": "out[0, 0] = 1 if not n > 3 else 0\nout[0, 1] = 1 if not (n - n) else 0",
    "boolean operators": "a = n > 3\nb = m > 3\nif a and b or not a:\n    out[0, 0] = 1\nelse:\n    out[0, 0] = 0",
    "bits": "out[0, 0] = n & 3 | m << 2 ^ n >> 1\nout[0, 1] = ~n\nout[0, 2] = -n",
    "augmented": "a = n\na -= 1\na *= 3\na //= 2\na <<= 1\na |= 1\na ^= 6\na &= 255\na %= 7\nout[0, 0] = a",
    "augmented element": "out[0, 0] = 5\nout[0, 0] += n\nout[0, 1] = out[0, 0]",
    "annotation is no cast": "a: pl.DT_INT8 = 300\nout[0, 0] = a",
    "struct": (
        "s = pl.struct('S', a=0, b=[1, 2, 3])\ns.a += n\ns.b[1] = s.a\nfor i in pl.range(3):\n    out[0, i] = s.b[i]"
    ),
    "struct alias": "s = pl.struct('S', a=1)\nt = s\nt.a = n\nout[0, 0] = s.a",
    "struct in a loop": ("for i in pl.range(3):\n    s = pl.struct('S', a=5)\n    s.a += i\n    out[0, i] = s.a"),
    "nested struct": (
        "a = pl.struct('A', v=n)\nb = pl.struct('B', inner=a, w=2)\nb.inner.v += 1\nout[0, 0] = b.inner.v * b.w"
    ),
    "struct array": (
        "q = pl.struct_array(4, 'Q', v=1)\nfor i in pl.range(n):\n    q[i % 4].v += i\nfor i in pl.range(4):\n"
        "    c = q[i]\n    out[0, i] = c.v"
    ),
    "slot of a moving index": (
        "q = pl.struct_array(4, 'Q', v=0)\nk = n % 2\nc = q[k]\nk = k + 1\nd = q[k]\nk = 0\nc.v = 5\nd.v = 7\n"
        "for i in pl.range(4):\n    out[0, i] = q[i].v"
    ),
    "slot out of a helper": (
        "q = pl.struct_array(4, 'Q', v=0)\nk = n % 3\nc = slot(q, k)\nk = 3\nc.v = 5\n"
        "for i in pl.range(4):\n    out[0, i] = q[i].v"
    ),
    "field read before a call": "s = pl.struct('S', a=n)\nout[0, 0] = s.a + bump(s) + s.a",
    "string statement": "'a comment'\nout[0, 0] = n",
    "early return": "for i in pl.range(4):\n    out[0, i] = kind(i + n)",
    "return in a loop": "for i in pl.range(4):\n    out[0, i] = first_multiple(i + 2, n)",
    "return in nested loops": "out[0, 0] = pair(n)\nout[0, 1] = pair(3)",
    "partly returning branch": "for i in pl.range(5):\n    out[0, i] = partly(i, n)",
    "void helper": "s = pl.struct('S', a=n)\nfor i in pl.range(3):\n    limited(s, 12)\nout[0, 0] = s.a",
    "default": "out[0, 0] = scaled(n) + scaled(n, 5)",
    "reassigned parameter": "a = n\nout[0, 0] = halves(a)\nout[0, 1] = a",
    "helper in a condition": "c = 0\nwhile kind(c) < 2:\n    c += 1\nout[0, 0] = c",
    "tuple from a helper": "q, r = split(n * m, 7)\nout[0, 0] = q\nout[0, 1] = r",
    "constant helper": "out[0, 0] = table('b')",
    "helper over helpers": "out[0, 0] = outer(n)",
}
HELPERS = '''
def bump(s):
    s.a = s.a + 10
    return 1

def slot(q, k):
    return q[k]

def kind(t):
    """Three ways out."""
    if t % 5 == 3:
        return 2
    if t >= 7:
        return 1
    return 0

def first_multiple(d, start):
    for i in pl.range(start, start + 50):
        if i % d == 0:
            return i
    return -1

def pair(limit):
    for a in pl.range(1, 20):
        for b in pl.range(1, a):
            if a * a + b * b > limit * 10:
                return a * 100 + b
    return 0

def partly(i, n):
    r = 1
    if i > 1:
        if i > 3:
            return 99
        r = 5
    r += n
    if r > 12:
        return r
    return -r

def limited(s, most):
    if s.a >= most:
        return
    s.a += 3

def scaled(x, by=2):
    return x * by

def halves(a):
    c = 0
    while a > 0:
        a = a // 2
        c += 1
    return c

def split(a, b):
    return a // b, a % b

def table(key):
    return {"a": 4, "b": 9}[key]

def outer(x):
    y = scaled(x, 3)
    return kind(y) + y
'''
GIVEN = [(9, 4), (6, 6), (1, 2)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_python(name: str) -> None:
    for args in GIVEN:
        agree(PROGRAMS[name], *args, params=N2, before=HELPERS)


def test_device_division_truncates_and_constants_floor() -> None:
    body = "c = -3\nout[0, 0] = c // 2\nout[0, 1] = c % 2\nout[0, 2] = n // 2\nout[0, 3] = n % 2"
    assert list(run(body, -3, params="n: pl.DT_INT64")[:4]) == [-2, 1, -1, -1]


def test_names_assigned_in_a_loop_are_run_time_numbers() -> None:
    body = "c = -3\nfor i in pl.range(n):\n    c = -3\n    out[0, 0] = c // 2"
    assert run(body, 1, params="n: pl.DT_INT64")[0] == -1


def test_widening_in_a_loop_reads_it_again() -> None:
    body = "s = k\nfor i in pl.range(n):\n    s = s * 65536\nout[0, 0] = s"
    assert run(body, 2, 3, params="n: pl.DT_INT64, k: pl.DT_INT32")[0] == 3 * 65536**2


@pytest.mark.parametrize("depth", [30, 90])
def test_deep_nesting_is_read_or_answered(depth: int) -> None:
    body = "".join("  " * i + f"if n > {i}:\n" for i in range(depth)) + "  " * depth + "a = 1"
    with contextlib.suppress(errors.ParserSyntaxError):  # never a RecursionError
        read(body)


def test_return_ends_the_core() -> None:
    body = "out[0, 0] = 1\nif n > 3:\n    return\nout[0, 1] = 2"
    assert list(run(body, 9, params="n: pl.DT_INT64")[:2]) == [1, -99]
    assert list(run(body, 1, params="n: pl.DT_INT64")[:2]) == [1, 2]


UNUSABLE = [
    ("if n > 3:\n    a = 1\nout = a", errors.UndefinedVariableError, "not defined on every path"),
    ("if n > 3:\n    a = 1\nelse:\n    a = 1.0\nb = a", errors.ParserTypeError, "on one path"),
    ("a = 1\nfor i in pl.range(n):\n    a = a + 1.5\nb = a", errors.ParserTypeError, "on one path"),
    ("a = (1, 2)\nif n > 3:\n    a = (1, 2, 3)\nb = a", errors.ParserTypeError, "on one path"),
    ("a = pl.DT_FP32\nif n > 3:\n    a = pl.DT_FP16\nb = a", errors.ParserTypeError, "on one path"),
    (
        "if n > 3:\n    s = pl.struct('S', a=1)\nelse:\n    s = pl.struct('T', a=1)\nb = s.a",
        errors.ParserTypeError,
        "on one",
    ),
    ("def_ = f(n)", errors.ParserTypeError, "gives no value"),
    ("a = rec(n)", errors.ParserSyntaxError, "recursion"),
    ("a = ping(n)", errors.ParserSyntaxError, "recursion"),
    ("a = g2(n, scale=2)", errors.ParserSyntaxError, "keyword"),
    ("a = g2(*(n, n))", errors.ParserSyntaxError, "starred"),
    ("a = g2(n)", errors.ParserTypeError, "takes 2"),
    ("a = only_keywords(n)", errors.ParserSyntaxError, "keyword-only"),
    ("a = sees_caller(n)", errors.UndefinedVariableError, "`hidden` is not defined"),
    ("a = typed(x[0, 0])", errors.ParserTypeError, "annotated int32"),
    ("a = load(n)", errors.UnsupportedFeatureError, "bare name"),
    ("k(n)", errors.ParserTypeError, "is a kernel"),
]
BAD_HELPERS = """
from pypto_pro.language import load
def f(n):
    n += 1
def rec(n):
    return rec(n)
def ping(n):
    return pong(n)
def pong(n):
    return ping(n)
def g2(a, b):
    return a + b
def only_keywords(a, *, b=1):
    return a
def sees_caller(n):
    return hidden
def typed(n: pl.DT_INT32):
    return n
"""


@pytest.mark.parametrize(("body", "kind", "text"), UNUSABLE, ids=[row[0] for row in UNUSABLE])
def test_unusable(body: str, kind: type[errors.ParserError], text: str) -> None:
    with pytest.raises(errors.ParserError) as caught:
        read("hidden = 5\n" + body, before=BAD_HELPERS)
    assert type(caught.value) is kind, caught.value
    assert text in caught.value.message


def test_a_reused_name_of_another_kind_is_fine_until_it_is_read() -> None:
    read("if n > 3:\n    a = 1\nelse:\n    a = 1.0\na = 5\nb = a")
    read("for i in pl.range(n):\n    v = 1\nfor i in pl.range(n):\n    v = 2.5\n    w = v")


def test_errors_in_a_helper_show_the_call() -> None:
    with pytest.raises(errors.ParserError) as caught:
        read("a = broken(n)", before="def broken(n):\n    return n + nowhere\n")
    span = caught.value.diagnostic.spans[0]
    assert span.line == 5
    assert span.inlined_at is not None
    assert span.inlined_at.label == "broken"


# --- generated programs ----------------------------------------------------------------------------------------------


class Writer:
    """Random structured programs over a few integer names."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = ["a", "b", "c", "d"]

    def expr(self, depth: int = 0) -> str:
        pick = self.random.random()
        if depth > 2 or pick < 0.3:
            return self.random.choice([*self.names, "n", "i", str(self.random.randrange(6))])
        if pick < 0.4:
            return f"({self.expr(depth + 1)} if {self.test(depth + 1)} else {self.expr(depth + 1)})"
        if pick < 0.5:
            return f"(7, {self.expr(depth + 1)}, 3)[abs_mod({self.expr(depth + 1)})]"
        if pick < 0.6:
            return f"pick({self.expr(depth + 1)}, {self.expr(depth + 1)})"
        op = self.random.choice(["+", "-", "*", "&", "|", "^"])
        return f"({self.expr(depth + 1)} {op} {self.expr(depth + 1)})"

    def test(self, depth: int = 0) -> str:
        op = self.random.choice(["<", "<=", "==", "!=", ">", ">="])
        test = f"{self.expr(depth + 1)} {op} {self.expr(depth + 1)}"
        return (
            test if self.random.random() < 0.7 else f"({test} {self.random.choice(['and', 'or'])} {self.expr(2)} > 1)"
        )

    def block(self, depth: int, in_loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randrange(1, 4)):
            lines += self.statement(depth, in_loop)
        return lines

    def statement(self, depth: int, in_loop: bool) -> list[str]:
        pick = self.random.random()
        if depth < 3 and pick < 0.25:
            found = [f"if {self.test()}:", *indent(self.block(depth + 1, in_loop))]
            if self.random.random() < 0.6:
                found += ["else:", *indent(self.block(depth + 1, in_loop))]
            return found
        if depth < 3 and pick < 0.4:
            return [f"for i in pl.range({self.random.randrange(4)}):", *indent(self.block(depth + 1, True))]
        if in_loop and pick < 0.48:
            return [f"if {self.test()}:", f"    {self.random.choice(['break', 'continue'])}"]
        if pick < 0.55:
            x, y = self.random.sample(self.names, 2)
            return [f"{x}, {y} = {self.expr()}, {x}"]
        if pick < 0.65:
            return [f"t = ({self.expr()}, t[0])"]
        if pick < 0.72:
            return [f"s.v = {self.expr()} & 1023"]
        if pick < 0.78:
            return [f"{self.random.choice(self.names)} = s.v + t[1]"]
        return [f"{self.random.choice(self.names)} = {self.expr()} & 4095"]

    def program(self) -> str:
        start = [f"{name} = {self.random.randrange(5)}" for name in self.names]
        start += ["i = 0", "t = (1, n)", "s = pl.struct('S', v=2)"]
        end = [f"out[0, {k}] = {name}" for k, name in enumerate([*self.names, "t[0]", "t[1]", "s.v", "i"])]
        return "\n".join([*start, *self.block(0, False), *self.block(0, False), *end])


def indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


RANDOM_HELPERS = """
def abs_mod(x):
    if x < 0:
        x = -x
    return x & 1

def pick(x, y):
    for k in pl.range(3):
        if x + k > y:
            return k
        if y > 40:
            return y & 15
    return 5
"""


@pytest.mark.parametrize("seed", range(40))
def test_generated_programs(seed: int) -> None:
    program = Writer(seed).program()
    for n in (0, 3):
        agree(program, n, params="n: pl.DT_INT64", before=RANDOM_HELPERS)
