"""One thread per process (the suite runs in parallel), no hub, kernels compiled once."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

torch.set_num_threads(1)

from fedscan.pipeline.runner import keep_compiled_kernels

keep_compiled_kernels()
