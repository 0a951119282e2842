"""Rows of D numbers as single LLVM vectors inside compiled functions.

LLVM cannot vectorise the recurrence's loops by itself: it must assume that the arrays overlap. A
row type that is one vector in a register leaves nothing to assume. Rows add, subtract and multiply
with rows and with scalars; products and sums are fused where the machine can.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, overload, register_model

FUSED = ("contract",)
LANE = ir.IntType(32)
# Per width in bits: exponent bias, mantissa bits, smallest and largest argument of exp, and log 2
# in two parts of which the first has few digits (Cody and Waite), degree of the Taylor polynomial.
EXP = {
    32: (127, 23, -87.0, 88.0, 0.693359375, -2.12194440054690583e-4, 7),
    64: (1023, 52, -708.0, 709.0, 6.93145751953125e-1, 1.42860682030941723212e-6, 13),
}


class Row(types.Type):  # type: ignore[misc]
    """A vector of ``width`` floats."""

    def __init__(self, scalar: types.Float, width: int) -> None:
        """Rows of one scalar type and width are one type."""
        self.scalar, self.width = scalar, width
        super().__init__(name=f"Row({scalar}, {width})")


@register_model(Row)
class _RowModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, row: Row) -> None:
        element = manager[row.scalar].get_value_type()
        super().__init__(manager, row, ir.VectorType(element, row.width))


def _vector(context: Any, row: Row) -> ir.VectorType:
    return context.data_model_manager[row].get_value_type()


def _place(
    context: Any, builder: Any, array_type: Any, array: Any, offset: Any, vector: Any
) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())


def _splat(builder: Any, value: Any, vector: ir.VectorType) -> Any:
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(LANE, 0))
    lanes = ir.Constant(ir.VectorType(LANE, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, nothing, lanes)


@intrinsic
def zeros(typingctx, array, width):  # type: ignore[no-untyped-def]
    """Return a row of zeros with the dtype of ``array`` and a constant ``width``."""
    if not isinstance(width, types.IntegerLiteral):
        return None
    row = Row(array.dtype, width.literal_value)

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        vector = _vector(context, row)
        return ir.Constant(vector, [0.0] * vector.count)

    return row(array, width), code


@intrinsic
def load(typingctx, array, offset, like):  # type: ignore[no-untyped-def]
    """Return the row that starts at ``offset`` of a flat array; ``like`` gives the width."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, array, arguments[0], arguments[1], _vector(context, like))
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return like(array, types.intp, like), code


@intrinsic
def store(typingctx, array, offset, row):  # type: ignore[no-untyped-def]
    """Write ``row`` at ``offset`` of a flat array."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, array, arguments[0], arguments[1], _vector(context, row))
        builder.store(arguments[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, row), code


def _binary(instruction: str) -> Any:
    @intrinsic
    def combine(typingctx, left, right):  # type: ignore[no-untyped-def]
        scalar = not isinstance(right, Row)

        def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            row, other = arguments
            if scalar:
                other = _splat(builder, other, row.type)
            return getattr(builder, instruction)(row, other, flags=FUSED)

        return left(left, left.scalar if scalar else left), code

    return combine


def _operator(symbol: Callable[..., Any], instruction: str) -> None:
    combine = _binary(instruction)

    @overload(symbol)
    def _typed(left, right):  # type: ignore[no-untyped-def]
        if isinstance(left, Row):
            return lambda left, right: combine(left, right)
        return None


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
):
    _operator(_symbol, _instruction)


def _halves(builder: Any, row: Any) -> tuple[Any, Any]:
    """Split a vector of even length in two."""
    half = row.type.count // 2
    nothing = ir.Constant(row.type, ir.Undefined)
    lanes = ir.VectorType(LANE, half)
    low = builder.shuffle_vector(row, nothing, ir.Constant(lanes, list(range(half))))
    high = builder.shuffle_vector(row, nothing, ir.Constant(lanes, list(range(half, 2 * half))))
    return low, high


def _reduction(pair: Callable[..., Any]) -> Any:
    @intrinsic
    def reduce(typingctx, row):  # type: ignore[no-untyped-def]
        def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            # Halves upon halves: few dependent operations, in a fixed order.
            rest = arguments[0]
            while rest.type.count % 2 == 0:
                rest = pair(builder, *_halves(builder, rest))
            lanes = [
                builder.extract_element(rest, ir.Constant(LANE, i)) for i in range(rest.type.count)
            ]
            return functools.reduce(lambda a, b: pair(builder, a, b), lanes)

        return row.scalar(row), code

    return reduce


total = _reduction(lambda builder, a, b: builder.fadd(a, b))
largest = _reduction(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


@intrinsic
def exp(typingctx, row):  # type: ignore[no-untyped-def]
    """Return exp of every entry: 2^k times a polynomial; to 2 units in the last place."""
    bits = row.scalar.bitwidth
    bias, mantissa, low, high, log2_head, log2_tail, degree = EXP[bits]

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        vector = arguments[0].type
        integers = ir.VectorType(ir.IntType(bits), vector.count)

        def number(value):  # type: ignore[no-untyped-def]
            return ir.Constant(vector, [value] * vector.count)

        def whole(value):  # type: ignore[no-untyped-def]
            return ir.Constant(integers, [value] * vector.count)

        rint = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector]),
            f"llvm.rint.v{vector.count}f{bits}",
        )
        x = arguments[0]
        overflow = builder.fcmp_ordered(">", x, number(high))
        x = builder.select(builder.fcmp_ordered("<", x, number(low)), number(low), x)
        k = builder.call(rint, [builder.fmul(x, number(1 / math.log(2)))])
        rest = builder.fsub(x, builder.fmul(k, number(log2_head), flags=FUSED), flags=FUSED)
        rest = builder.fsub(rest, builder.fmul(k, number(log2_tail), flags=FUSED), flags=FUSED)
        sum_ = number(1 / math.factorial(degree))
        for power in range(degree - 1, -1, -1):
            product = builder.fmul(sum_, rest, flags=FUSED)
            sum_ = builder.fadd(product, number(1 / math.factorial(power)), flags=FUSED)
        exponent = builder.add(builder.fptosi(k, integers), whole(bias))
        power_of_two = builder.bitcast(builder.shl(exponent, whole(mantissa)), vector)
        return builder.select(overflow, number(math.inf), builder.fmul(sum_, power_of_two))

    return row(row), code
