"""Telling the processor early what will be read: for kernels that visit their data in random order."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

_I32 = ir.IntType(32)


def pointer_to(context, builder, array_type, array, offset=None):
    """Where an array's data begin, or its item `offset`."""
    data = context.make_array(array_type)(context, builder, array).data
    return data if offset is None else builder.gep(data, [offset])


@intrinsic
def _prefetch_item(typing_context, array, offset):
    """Tell the processor that an item will be read."""
    signature = types.void(array, types.int64)

    def codegen(context, builder, signature, arguments):
        pointer = pointer_to(context, builder, signature.args[0], arguments[0], arguments[1])
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [builder.bitcast(pointer, byte), _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return signature, codegen


def _prefetch_nothing(array, offset):
    pass


prefetch: Any = _prefetch_nothing if config.DISABLE_JIT else _prefetch_item
