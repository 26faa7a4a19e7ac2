"""Unrolling a kernel before it is compiled: loops of constant length are written out, small local arrays become variables.

NVVM unrolls such loops too, but only after it has decided which arrays live in registers; the others then go through
memory in every round. Writing them out in the source puts them all in registers.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

__all__ = ["specialised", "with_products"]


def specialised(function: Callable[..., Any], constants: dict[str, Any], *, unroll: bool) -> Callable[..., Any]:
    """``function`` with its module's names and ``constants`` for globals; written out where ``unroll``.

    Loops run over ranges, and arrays are made by ``cuda.local.array``. Whole and boolean constants are written out; where an
    array is indexed by anything else, or assigned in one piece, it cannot be.
    """
    namespace = {**function.__globals__, **constants}
    if not unroll:
        return FunctionType(function.__code__, namespace, function.__name__)
    definition = _definition(function)
    whole = {name: value for name, value in constants.items() if type(value) in (int, bool)}
    definition.body = _Unroller(whole).block(definition.body)
    return _compiled(definition, function, namespace)


def with_products(function: Callable[..., Any], product: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with ``product(a, b)`` wherever it says ``a * b``."""
    definition = _Products().visit(_definition(function))
    return _compiled(definition, function, {**function.__globals__, _Products.name: product})


def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    ast.increment_lineno(definition, function.__code__.co_firstlineno - 1)
    definition.decorator_list, definition.returns = [], None
    for argument in definition.args.args:
        argument.annotation = None
    return definition


def _compiled(definition: ast.FunctionDef, origin: Callable[..., Any], namespace: dict[str, Any]) -> Callable[..., Any]:
    tree = ast.fix_missing_locations(ast.Module([definition], []))
    exec(compile(tree, inspect.getfile(origin), "exec"), namespace)
    made = namespace[definition.name]
    assert isinstance(made, FunctionType)
    return made


class _Products(ast.NodeTransformer):
    name = "_product_of"

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name(self.name, ast.Load()), [node.left, node.right], []) if isinstance(node.op, ast.Mult) else node


class _Unroller(ast.NodeTransformer):
    """Replaces names of known value, folds what then is constant, repeats loops over constant ranges."""

    def __init__(self, known: dict[str, int]) -> None:
        self.known = known
        self.arrays: set[str] = set()

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            found = self.visit(statement)
            out += found if isinstance(found, list) else [found] if found is not None else []
        return out or [ast.Pass()]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.known[node.id]) if isinstance(node.ctx, ast.Load) and node.id in self.known else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return self._folded(self.generic_visit(node))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return self._folded(self.generic_visit(node))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return self._folded(self.generic_visit(node))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        values = [self.visit(value) for value in node.values]
        if all(isinstance(value, ast.Constant) for value in values):
            truths = [bool(value.value) for value in values]
            return ast.Constant(all(truths) if isinstance(node.op, ast.And) else any(truths))
        node.values = values
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            return self.visit(node.body if test.value else node.orelse)
        node.test = test
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> Any:
        node.test = self.visit(node.test)
        if isinstance(node.test, ast.Constant):
            return self.block(node.body if node.test.value else node.orelse)
        node.body = self.block(node.body)
        node.orelse = self.block(node.orelse) if node.orelse else []
        return node

    def visit_For(self, node: ast.For) -> Any:
        node.iter = self.visit(node.iter)
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        if not all(isinstance(bound, ast.Constant) for bound in node.iter.args):
            node.body = self.block(node.body)
            return node
        out: list[ast.stmt] = []
        for value in range(*(ast.literal_eval(bound) for bound in node.iter.args)):
            self.known[node.target.id] = value
            out += self.block(copy.deepcopy(node.body))
        self.known.pop(node.target.id, None)
        return out or [ast.Pass()]

    def visit_Assign(self, node: ast.Assign) -> Any:
        if ast.unparse(node.value).startswith("cuda.local.array("):
            self.arrays.add(ast.unparse(node.targets[0]))
            return None
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        name, place = ast.unparse(node.value), self.visit(node.slice)
        if name not in self.arrays:
            node.slice = place
            return node
        parts = place.elts if isinstance(place, ast.Tuple) else [place]
        return ast.Name("_".join([name, *(str(ast.literal_eval(part)) for part in parts)]), node.ctx)

    def _folded(self, node: ast.AST) -> ast.AST:
        """A constant, where every part is one."""
        if all(isinstance(leaf, (ast.Constant, ast.operator, ast.unaryop, ast.cmpop)) for leaf in ast.iter_child_nodes(node)):
            assert isinstance(node, ast.expr)
            return ast.Constant(eval(compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval")))
        return node
