"""Rows of D numbers, and blocks of such rows, as single LLVM vectors inside compiled functions.

LLVM cannot vectorise the recurrence's loops by itself: it must assume that the arrays overlap. A
type that is one vector in registers leaves nothing to assume. A block holds as many rows as divide
N and fit four registers: small D leaves no lanes idle, and the next operation need not wait for the
last one's result. Rows and blocks add, subtract, multiply and divide with their like and with
scalars; products and sums are fused where the machine can.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, overload, register_model

FUSED = ("contract",)
LANE = ir.IntType(32)
# Bits of a block. Measured: more registers than these and what a pass carries leaves them.
BLOCK = 4 * (512 if llvm.get_host_cpu_features().get("avx512f") else 256)
# Per width in bits: exponent bias, mantissa bits, smallest and largest argument of exp, and log 2
# in two parts of which the first has few digits (Cody and Waite), degree of the Taylor polynomial.
EXP = {
    32: (127, 23, -87.0, 88.0, 0.693359375, -2.12194440054690583e-4, 7),
    64: (1023, 52, -708.0, 709.0, 6.93145751953125e-1, 1.42860682030941723212e-6, 13),
}


class Row(types.Type):  # type: ignore[misc]
    """A vector of ``rows`` x ``length`` floats; one row, or a block of them."""

    def __init__(self, scalar: types.Float, length: int, rows: int = 1) -> None:
        """Vectors of one scalar type and shape are one type."""
        self.scalar, self.length, self.rows = scalar, length, rows
        self.width = rows * length
        super().__init__(name=f"Row({scalar}, {rows} x {length})")


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


def _rows_of_block(d: int, n: int, bits: int) -> int:
    return max(r for r in range(1, n + 1) if n % r == 0 and (r == 1 or r * d * bits <= BLOCK))


@intrinsic
def zeros(typingctx, array, d, n):  # type: ignore[no-untyped-def]
    """Return zeros in the shape of the blocks that ``n`` rows of ``d`` numbers are cut into.

    One row is a block of its own. The dtype is that of ``array``; ``d`` and ``n`` are constants.
    """
    if not (isinstance(d, types.IntegerLiteral) and isinstance(n, types.IntegerLiteral)):
        return None
    rows = _rows_of_block(d.literal_value, n.literal_value, array.dtype.bitwidth)
    block = Row(array.dtype, d.literal_value, rows)

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        vector = _vector(context, block)
        return ir.Constant(vector, [0.0] * vector.count)

    return block(array, d, n), code


@intrinsic
def rows_in(typingctx, block):  # type: ignore[no-untyped-def]
    """Return the number of rows of a block, a constant."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return context.get_constant(types.intp, block.rows)

    return types.intp(block), code


def _shuffled(builder: Any, row: Any, lanes: list[int]) -> Any:
    order = ir.Constant(ir.VectorType(LANE, len(lanes)), lanes)
    return builder.shuffle_vector(row, ir.Constant(row.type, ir.Undefined), order)


@intrinsic
def load(typingctx, array, offset, like):  # type: ignore[no-untyped-def]
    """Return the row that starts at ``offset`` of a flat array; ``like`` gives the width."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _place(context, builder, array, arguments[0], arguments[1], _vector(context, like))
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return like(array, types.intp, like), code


@intrinsic
def repeated(typingctx, row, like):  # type: ignore[no-untyped-def]
    """Return a block whose rows are all ``row``."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _shuffled(builder, arguments[0], [i % like.length for i in range(like.width)])

    return like(row, like), code


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
    (operator.truediv, "fdiv"),
):
    _operator(_symbol, _instruction)


def _tree(pair: Callable[..., Any], parts: list[Any]) -> Any:
    """Combine parts in pairs of pairs: few dependent operations, in a fixed order."""
    while len(parts) > 1:
        last = parts[len(parts) - len(parts) % 2 :]
        parts = [pair(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)] + last
    return parts[0]


@intrinsic
def sum_of_rows(typingctx, block):  # type: ignore[no-untyped-def]
    """Return the sum of a block's rows."""
    row = Row(block.scalar, block.length)

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        # Halves first: they are whole registers, which add without a shuffle.
        rest, rows, length = arguments[0], block.rows, block.length
        while rows % 2 == 0:
            rows //= 2
            halves = (range(rows * length), range(rows * length, 2 * rows * length))
            rest = builder.fadd(*(_shuffled(builder, rest, list(half)) for half in halves))
        firsts = range(0, rows * length, length)
        return _tree(
            builder.fadd, [_shuffled(builder, rest, list(range(f, f + length))) for f in firsts]
        )

    return row(block), code


@intrinsic
def total(typingctx, row):  # type: ignore[no-untyped-def]
    """Return the sum of all entries."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        rest, odd = arguments[0], row.width
        while odd % 2 == 0:
            odd //= 2
            halves = (range(odd), range(odd, 2 * odd))
            rest = builder.fadd(*(_shuffled(builder, rest, list(half)) for half in halves))
        lanes = [builder.extract_element(rest, ir.Constant(LANE, i)) for i in range(odd)]
        return _tree(builder.fadd, lanes)

    return row.scalar(row), code


def _reduction(pair: Callable[..., Any]) -> Any:
    @intrinsic
    def reduce(typingctx, block):  # type: ignore[no-untyped-def]
        def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            found, length = arguments[0], block.length
            if length & (length - 1):  # not a power of two: turn every row through all places
                starts = [i - i % length for i in range(block.width)]
                turned = [
                    _shuffled(builder, found, [s + (i + k) % length for i, s in enumerate(starts)])
                    for k in range(length)
                ]
                return _tree(functools.partial(pair, builder), turned)
            step = 1
            while step < length:
                other = _shuffled(builder, found, [i ^ step for i in range(block.width)])
                found, step = pair(builder, found, other), 2 * step
            return found

        return block(block), code

    return reduce


# Of every row, in all its entries.
row_total = _reduction(lambda builder, a, b: builder.fadd(a, b))
row_largest = _reduction(
    lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b)
)


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
