"""Text such as ``"1 - exp(-2.5*x)"`` as a vectorised function: a whitelist grammar, never ``eval``.

The text is parsed by Python's ``ast`` and translated, node by node, into a *tape*: a tuple of elementary operations, each
naming the earlier operations it reads. The same tape is run on numbers (here), on intervals (``enclosures``), and read for
its structure (linear, additive). Equal subexpressions become one operation, so ``(x-.5)*(x-.5)`` is seen to be a square.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headwater.arrays import Floats
from headwater.errors import ExpressionError

MAX_LENGTH = 2_000
MAX_DEPTH = 60
MAX_OPERATIONS = 1_000

CONSTANTS = {"pi": math.pi, "e": math.e}
UNARY: dict[str, Callable[..., Floats]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "floor": np.floor,
    "neg": np.negative,
}
BINARY: dict[str, Callable[..., Floats]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "min": np.minimum,
    "max": np.maximum,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
FUNCTIONS = ("exp", "log", "sqrt", "abs", "sin", "cos", "tanh", "floor", "min", "max", "where")

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_STRANGE = re.compile(r"[^A-Za-z0-9_.+\-*/(),<>=! \t]")


@dataclass(frozen=True, slots=True)
class Operation:
    """One line of a tape: ``args`` are positions of earlier lines; ``value`` is a constant, or a variable's number."""

    code: str
    args: tuple[int, ...] = ()
    value: float = 0.0


@dataclass(frozen=True)
class Expression:
    """A parsed expression. Calling it with one array per name, in the order of ``names``, evaluates it elementwise.

    Cost: one numpy operation per line of the tape.

    >>> bump = parse("exp(-(x-.5)**2)", ["x"])
    >>> bump(np.array([0.5, 1.5]))
    array([1.        , 0.36787944])
    """

    text: str
    names: tuple[str, ...]
    tape: tuple[Operation, ...] = field(repr=False, compare=False)

    def __call__(self, *variables: Floats) -> Floats:
        shape = np.broadcast_shapes(*(np.shape(v) for v in variables))
        return np.broadcast_to(self.run(len(self.tape) - 1, variables), shape).astype(float, copy=True)

    def run(self, root: int, variables: Sequence[Floats]) -> Floats:
        """The value of the operation ``root``, skipping what it does not read. Not broadcast; not finite where undefined."""
        results: dict[int, Floats] = {}
        with np.errstate(all="ignore"):
            for i in sorted(self.reads(root)):
                op = self.tape[i]
                if op.code == "const":
                    results[i] = np.asarray(op.value)
                elif op.code == "var":
                    results[i] = np.asarray(variables[int(op.value)], dtype=float)
                elif op.code == "where":
                    test, yes, no = (results[j] for j in op.args)
                    results[i] = np.where(test != 0, yes, no)
                else:
                    function = UNARY[op.code] if len(op.args) == 1 else BINARY[op.code]
                    results[i] = np.asarray(function(*(results[j] for j in op.args)), dtype=float)
        return results[root]

    def reads(self, root: int) -> set[int]:
        """The positions of ``root`` and of all that it depends on."""
        seen: set[int] = set()
        todo = [root]
        while todo:
            i = todo.pop()
            if i not in seen:
                seen.add(i)
                todo.extend(self.tape[i].args)
        return seen

    def scope(self, root: int | None = None) -> frozenset[int]:
        """Which variables, by number, the value can depend on."""
        reads = self.reads(len(self.tape) - 1 if root is None else root)
        return frozenset(int(self.tape[i].value) for i in reads if self.tape[i].code == "var")

    @cached_property
    def linear(self) -> tuple[Floats, float] | None:
        """``(coefficients, constant)`` when the expression is linear in every variable, else ``None``.

        >>> parse("x1 + (x2 - 4)/2", ["x1", "x2"]).linear
        (array([1. , 0.5]), -2.0)
        """
        forms: list[Floats | None] = []
        with np.errstate(all="ignore"):  # a coefficient that overflows is seen below
            for op in self.tape:
                forms.append(_linear_step(op, forms, len(self.names)))
        last = forms[-1]
        if last is None or not np.all(np.isfinite(last)):
            return None
        return last[:-1], float(last[-1])

    def terms(self) -> list[tuple[float, int]]:
        """The expression as a sum of ``factor * operation``, split as far as + - and constant factors allow."""
        out: list[tuple[float, int]] = []
        todo = [(1.0, len(self.tape) - 1)]
        while todo:
            factor, i = todo.pop()
            op = self.tape[i]
            constant = [self._factor(j, factor, op.code) for j in op.args]
            if op.code == "add":
                todo += [(factor, op.args[1]), (factor, op.args[0])]
            elif op.code == "sub":
                todo += [(-factor, op.args[1]), (factor, op.args[0])]
            elif op.code == "neg":
                todo.append((-factor, op.args[0]))
            elif op.code == "mul" and constant[0] is not None:
                todo.append((constant[0], op.args[1]))
            elif op.code in ("mul", "div") and constant[1] is not None:
                todo.append((constant[1], op.args[0]))
            else:
                out.append((factor, i))
        return out

    def _factor(self, i: int, factor: float, code: str) -> float | None:
        """``factor`` times (or divided by) the constant at ``i``; ``None`` when that is none, or the result not finite."""
        op = self.tape[i]
        if op.code != "const" or (code == "div" and op.value == 0):
            return None
        result = factor / op.value if code == "div" else factor * op.value
        return result if math.isfinite(result) else None


def _linear_step(op: Operation, forms: Sequence[Floats | None], variables: int) -> Floats | None:
    """The linear form (coefficients, then the constant) of one operation, from those of its arguments."""
    form = np.zeros(variables + 1)
    if op.code == "const":
        form[-1] = op.value
        return form
    if op.code == "var":
        form[int(op.value)] = 1.0
        return form
    args = [forms[i] for i in op.args]
    if any(a is None for a in args):
        return None
    a, *rest = (x for x in args if x is not None)
    if op.code == "neg":
        return -a
    if op.code in ("add", "sub"):
        return a + rest[0] if op.code == "add" else a - rest[0]
    if op.code == "mul" and not a[:-1].any():
        return np.asarray(rest[0] * a[-1])
    if op.code in ("mul", "div") and not rest[0][:-1].any():
        if op.code == "mul":
            return np.asarray(a * rest[0][-1])
        return np.asarray(a / rest[0][-1]) if rest[0][-1] else None
    return None


def check_name(name: str) -> str | None:
    """Why ``name`` cannot name a variable in an expression, or ``None`` when it can."""
    if not _NAME.fullmatch(name) or "__" in name or len(name) > 100:
        return "expected a letter, then letters, digits and single underscores"
    if name in FUNCTIONS or name in CONSTANTS:
        return "that is the name of a function or constant of the expression language"
    return "that word is reserved" if keyword.iskeyword(name) else None


def parse(text: str, names: Sequence[str]) -> Expression:
    """Parse ``text`` over the variables ``names``; anything outside the grammar is refused with its position.

    >>> parse("x.__class__", ["x"])
    Traceback (most recent call last):
    ...
    headwater.errors.ExpressionError: an attribute ('.') is not part of the expression language (at character 1)
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the expression has {len(text)} characters; at most {MAX_LENGTH} are read", MAX_LENGTH + 1)
    if strange := _STRANGE.search(text):
        raise ExpressionError(f"{strange.group()!r} is not part of the expression language", strange.start() + 1)
    offset = len(text) - len(text.lstrip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ExpressionError(f"this does not read as an expression: {error.msg}", offset + (error.offset or 1)) from None
    except (MemoryError, RecursionError, ValueError, OverflowError):
        raise ExpressionError("this is nested too deeply to read", 1) from None
    builder = _Builder({name: i for i, name in enumerate(names)}, offset)
    root = builder.add(tree.body, 0)
    # a constant that was folded may stand on the tape already, before its parts: the last line must be the result
    return Expression(text, tuple(names), tuple(builder.tape[: root + 1]))


class _Builder:
    """Translates whitelisted ``ast`` nodes into a tape, one shared line per distinct subexpression."""

    def __init__(self, variables: Mapping[str, int], offset: int) -> None:
        self.variables = variables
        self.offset = offset
        self.tape: list[Operation] = []
        self.seen: dict[Operation, int] = {}

    def refuse(self, node: ast.AST, message: str) -> ExpressionError:
        return ExpressionError(message, self.offset + getattr(node, "col_offset", 0) + 1)

    def emit(self, node: ast.AST, code: str, args: tuple[int, ...] = (), value: float = 0.0) -> int:
        op = Operation(code, args, value)
        if args and all(self.tape[i].code == "const" for i in args):
            op = Operation("const", value=self.fold(node, op))
        if op not in self.seen:
            if len(self.tape) >= MAX_OPERATIONS:
                raise self.refuse(node, f"the expression has more than {MAX_OPERATIONS} operations")
            self.seen[op] = len(self.tape)
            self.tape.append(op)
        return self.seen[op]

    def fold(self, node: ast.AST, op: Operation) -> float:
        """The value of an operation on constants: decided once, exactly as the arrays would be."""
        constants = tuple(Operation("const", value=self.tape[i].value) for i in op.args)
        tape = (*constants, Operation(op.code, tuple(range(len(constants)))))
        value = float(Expression("", (), tape).run(len(constants), ()))
        if not math.isfinite(value):
            raise self.refuse(node, f"this part has no finite value ({value})")
        return value

    def add(self, node: ast.expr, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise self.refuse(node, f"this is nested more than {MAX_DEPTH} deep")
        match node:
            case ast.Constant(value=bool()) | ast.Constant(value=None):
                raise self.refuse(node, f"{node.value!r} is not part of the expression language; write 1 or 0")
            case ast.Constant(value=int() | float() as number):
                return self.constant(node, number)
            case ast.Name(id=name):
                return self.name(node, name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.emit(node, "neg", (self.add(operand, depth + 1),))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.add(operand, depth + 1)
            case ast.BinOp(op=op) if type(op) in _OPERATORS:
                return self.chain(node, depth)
            case ast.Compare():
                return self.compare(node, depth)
            case ast.Call():
                return self.call(node, depth)
            case _:
                raise self.refuse(*_unknown(node))

    def chain(self, node: ast.BinOp, depth: int) -> int:
        """A run such as a + b - c counts as one level, however long: it is walked down its left side."""
        run: list[ast.BinOp] = []
        first: ast.expr = node
        while isinstance(first, ast.BinOp) and type(first.op) in _OPERATORS:
            run.append(first)
            first = first.left
        result = self.add(first, depth + 1)
        for step in reversed(run):
            result = self.emit(step, _OPERATORS[type(step.op)], (result, self.add(step.right, depth + 1)))
        return result

    def constant(self, node: ast.expr, number: int | float) -> int:
        try:
            value = float(number)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self.refuse(node, "this number is too large")
        return self.emit(node, "const", value=value)

    def name(self, node: ast.expr, name: str) -> int:
        if name in self.variables:
            return self.emit(node, "var", value=float(self.variables[name]))
        if name in CONSTANTS:
            return self.emit(node, "const", value=CONSTANTS[name])
        if name in FUNCTIONS:
            raise self.refuse(node, f"{name} is a function: write {name}(…)")
        known = ", ".join([*self.variables, *CONSTANTS])
        raise self.refuse(node, f"unknown name '{name}'; expected one of {known}")

    def compare(self, node: ast.Compare, depth: int) -> int:
        operands = [self.add(x, depth + 1) for x in (node.left, *node.comparators)]
        tests = []
        for i, op in enumerate(node.ops):
            if type(op) not in _OPERATORS:
                raise self.refuse(node, "'in' and 'is' are not part of the expression language")
            tests.append(self.emit(node, _OPERATORS[type(op)], (operands[i], operands[i + 1])))
        result = tests[0]
        for test in tests[1:]:  # 0 < x < 1 holds where both do: the product of two 0/1 values
            result = self.emit(node, "mul", (result, test))
        return result

    def call(self, node: ast.Call, depth: int) -> int:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            shown = node.func.id if isinstance(node.func, ast.Name) else "this"
            raise self.refuse(node, f"{shown} is not a function here; expected one of {', '.join(FUNCTIONS)}")
        name = node.func.id
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self.refuse(node, f"{name} takes plain arguments only")
        wanted, fits = _arity(name, len(node.args))
        if not fits:
            raise self.refuse(node, f"{name} takes {wanted}, got {len(node.args)}")
        args = [self.add(a, depth + 1) for a in node.args]
        if name in ("min", "max"):
            result = args[0]
            for other in args[1:]:
                result = self.emit(node, name, (result, other))
            return result
        return self.emit(node, name, tuple(args))


def _arity(name: str, given: int) -> tuple[str, bool]:
    if name in ("min", "max"):
        return "two or more arguments", given >= 2
    if name == "where":
        return "three arguments (condition, value if true, value if false)", given == 3
    return "one argument", given == 1


def _unknown(node: ast.expr) -> tuple[ast.AST, str]:
    """The node to point at, and what to call it in the refusal."""
    names: dict[type[ast.AST], str] = {
        ast.Attribute: "an attribute ('.')",
        ast.Subscript: "an index ('[')",
        ast.BoolOp: "'and' / 'or'",
        ast.Lambda: "'lambda'",
        ast.IfExp: "'if … else'",
        ast.Tuple: "a comma outside a function's parentheses",
    }
    what = names.get(type(node), "this")
    if isinstance(node, ast.BoolOp):
        what += " (write a product of comparisons, or nested where)"
    elif isinstance(node, ast.BinOp):
        what = f"the operator {type(node.op).__name__}"
    return node, f"{what} is not part of the expression language"
