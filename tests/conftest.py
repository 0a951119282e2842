"""One thread per process (the suite runs in parallel), no hub, kernels compiled once."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

torch.set_num_threads(1)

from fedscan.pipeline.runner import keep_compiled_kernels

keep_compiled_kernels()


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """Tokens and a partition, small."""
    from tests.experiments import tiny

    return tiny.prepare(tmp_path_factory.mktemp("tiny"))
