"""Compare the two kernels in one process, mamba_ssm's under Triton's interpreter.

Run by test_mamba_ssm.py in a process of its own: the interpreter must be chosen before import, and
transformers would use mamba_ssm wherever it imports.
"""

import contextlib
import os
import types

os.environ["TRITON_INTERPRET"] = "1"

import torch

torch.cuda.device = lambda *a, **k: contextlib.nullcontext()
torch.cuda.get_device_properties = lambda *a, **k: types.SimpleNamespace(
    multi_processor_count=2, name="cpu"
)

from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.models.kernels import KERNELS

SHAPE = Architecture(layout(2), 32, 16, 4, 2, 16, 1, 4, 61, 8, 16)


def main():
    for kind, layers in (("mamba2", ()), ("hybrid", (1,))):
        model = initialise(SHAPE._replace(mixers=layout(SHAPE.depth, layers)), 3)
        ids = torch.randint(0, 61, (2, 24), generator=torch.Generator().manual_seed(0))
        losses, gradients = {}, {}
        for name in ("torch", "mamba_ssm"):
            module = KERNELS[name](model)
            names, tensors = zip(*module.named_parameters(), strict=True)
            loss = module(ids)
            losses[name] = float(loss)
            found = torch.autograd.grad(loss, tensors)
            gradients[name] = dict(zip(names, found, strict=True))
        assert gradients["torch"].keys() == gradients["mamba_ssm"].keys()
        pairs = ((gradients["torch"][n], gradients["mamba_ssm"][n]) for n in gradients["torch"])
        worst = max(float((a - b).norm() / b.norm()) for a, b in pairs)
        print(f"{kind} {abs(losses['torch'] - losses['mamba_ssm']):.1e} {worst:.1e}", flush=True)


if __name__ == "__main__":
    main()
