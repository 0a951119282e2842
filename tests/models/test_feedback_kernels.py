"""The Triton kernels: in the interpreter against the token loop, and compiled ahead of time."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")

INTERPRETED = """
import torch
from fedscan.models import feedback_kernels
from tests.models.test_triangular import drawn, loop, outcome

for length in (1, 2, 63, 64, 65, 100, 129):
    for keys, width in ((3, 5), (40, 70)) if length in (65,) else ((3, 5),):
        parts = drawn(length, width, keys)
        wanted, expected = outcome(loop, parts)
        narrow = [p.detach().float().requires_grad_() for p in parts]
        found, slopes = outcome(feedback_kernels.triton_feedback, narrow)
        for ours, theirs in zip([found, *slopes], [wanted, *expected], strict=True):
            assert ours.dtype == torch.float32
            gap = float((ours - theirs).norm())
            assert gap <= 1e-4 * float(theirs.norm()) + 1e-5, (length, gap, float(theirs.norm()))
parts = [p.detach().float().requires_grad_() for p in drawn(40, scale=80.0)]
wanted, expected = outcome(loop, [p.detach().double().requires_grad_() for p in parts])
found, slopes = outcome(feedback_kernels.triton_feedback, parts)
for ours, theirs in zip([found, *slopes], [wanted, *expected], strict=True):
    assert float((ours - theirs).norm()) <= 1e-4 * float(theirs.norm()) + 1e-5
turned = [p.detach().mT.contiguous().mT.requires_grad_() if p.ndim == 3 else p for p in parts]
again, _ = outcome(feedback_kernels.triton_feedback, turned)
assert torch.equal(again, found)
try:
    feedback_kernels.triton_feedback(*drawn(4))
except ValueError as error:
    assert "float32" in str(error)
else:
    raise AssertionError("float64 was taken")
print("equal")
"""

COMPILED = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from fedscan.models import feedback_kernels as module

POINTERS = {"q", "k", "other", "gains", "of_gains", "norms", "s", "mixed", "f", "slope", "of_f",
            "out"}
SIZES = {"ROWS": module.ROWS, "SLICE": module.SLICE, "SQUARINGS": module.SQUARINGS}
for capability in (80, 90):
    for name, extra in (("_norms", {}), ("_down", {}), ("_up", {}), ("_slopes", {"OF_KEYS": False}),
                        ("_slopes", {"OF_KEYS": True})):
        kernel = getattr(module, name)
        constants = {k: v for k, v in {**SIZES, **extra}.items() if k in kernel.arg_names}
        signature = {
            arg: "constexpr" if arg in constants else "*fp32" if arg in POINTERS else "i32"
            for arg in kernel.arg_names
        }
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
        made = triton.compile(
            source, target=GPUTarget("cuda", capability, 32), options={"num_warps": module.WARPS}
        )
        assert made.metadata.shared <= 96 * 1024, (name, made.metadata.shared)
        ptx = made.asm["ptx"]
        # Full float32: no product is of tf32.
        assert "tf32" not in ptx, name
        if name in ("_down", "_up"):
            # What a block of rows stores is read by the next one's threads: a barrier between.
            stores = [i for i, line in enumerate(ptx.splitlines()) if "st.global" in line]
            after = ptx.splitlines()[stores[-1]:]
            back = next(i for i, line in enumerate(after) if "bra" in line)
            assert any("bar.sync" in line for line in after[:back + 1]), (name, capability)
        print(capability, name, made.metadata.shared)
print("compiled")
"""


def run(script, **variables):
    # Processes of their own: the interpreter is chosen when triton is imported.
    return subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_kernels_in_the_interpreter():
    done = run(INTERPRETED, TRITON_INTERPRET="1", OMP_NUM_THREADS="1")
    assert done.stdout == "equal\n", done.stdout + done.stderr


def test_kernels_compile_for_two_generations_of_gpus(tmp_path):
    done = run(COMPILED, TRITON_CACHE_DIR=str(tmp_path))
    assert done.stdout.endswith("compiled\n"), done.stdout + done.stderr[-3000:]
