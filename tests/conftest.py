"""One thread per test process (the suite itself runs in parallel), and no hub."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

torch.set_num_threads(1)
