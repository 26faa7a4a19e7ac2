"""Named tuples of many arrays, handed from one compiled function to the next by their address.

A learner is some sixty arrays. numba passes a tuple by value, array by array and word by word: five hundred words a call,
which took longer than most of what is done with them in a round. A class marked ``by_address`` is read from memory instead,
field by field. Nothing can be assigned to its fields, in compiled code as in Python, so a field may be kept in a register for
as long as one likes.
"""

from __future__ import annotations

from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox

__all__ = ["by_address"]

_C = TypeVar("_C", bound=type)


class Address(types.Type):
    """Where a named tuple lies, by its type."""

    def __init__(self, content: Any) -> None:
        self.content = content
        super().__init__(name=f"address({content})")

    @property
    def key(self) -> Any:
        """What tells types apart: the content, not its name, which says nothing of the order of its fields."""
        return self.content.key


def by_address(kind: _C) -> _C:
    """Mark a class of named tuples. From Python, or in a field of another such tuple, nothing changes."""

    @typeof_impl.register(kind)
    def _(value: Any, c: Any) -> Address:
        return Address(types.NamedTuple([typeof_impl(field, c) for field in value], kind))

    return kind


@register_model(Address)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Address) -> None:
        super().__init__(manager, kind, manager.lookup(kind.content).get_value_type().as_pointer())


@unbox(Address)
def _unbox(kind: Address, value: Any, c: Any) -> NativeValue:
    """Lay the tuple down in the frame of the wrapper, which outlives the call."""
    inside = c.unbox(kind.content, value)
    place = cgutils.alloca_once_value(c.builder, inside.value)
    # what is read through the address is called invariant: so let no compiler know that it has just been written here
    hidden = c.builder.asm(ir.FunctionType(place.type, [place.type]), "", "=r,0,~{memory}", [place], side_effect=True)

    def forget() -> None:
        if inside.cleanup is not None:
            inside.cleanup()
        if c.context.enable_nrt:
            c.context.nrt.decref(c.builder, kind.content, inside.value)

    return NativeValue(hidden, is_error=inside.is_error, cleanup=forget)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Address

    def generic_resolve(self, kind: Address, name: str) -> Any:  # type: ignore[override]
        fields = kind.content.fields
        return kind.content[fields.index(name)] if name in fields else None


@lower_getattr_generic(Address)
def _read(context: Any, builder: Any, kind: Address, value: Any, name: str) -> Any:
    at = kind.content.fields.index(name)
    field = _load(builder, cgutils.gep_inbounds(builder, value, 0, at))
    return impl_ret_borrowed(context, builder, kind.content[at], field)


def _load(builder: Any, place: Any) -> Any:
    """A value word by word: one load of them all would lose the mark that lets it move out of a loop."""
    kind = place.type.pointee
    if isinstance(kind, (ir.LiteralStructType, ir.ArrayType)):
        out = ir.Constant(kind, ir.Undefined)
        for i in range(len(kind.elements) if isinstance(kind, ir.LiteralStructType) else kind.count):
            out = builder.insert_value(out, _load(builder, cgutils.gep_inbounds(builder, place, 0, i)), i)
        return out
    out = builder.load(place)
    out.set_metadata("invariant.load", builder.module.add_metadata([]))
    return out
