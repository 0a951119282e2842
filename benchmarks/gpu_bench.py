"""What the parts of ``gpu.py`` share: sizes, problems, clocks, and a record kept row by row."""

import time
from typing import NamedTuple

import environment
import numpy as np
import torch

from fedscan.federated import cuda_graph, engine
from fedscan.federated.algorithm import LocalContext
from fedscan.federated.algorithms import ALGORITHMS
from fedscan.federated.local_phase import local_phase
from fedscan.federated.recorded_phase import RecordedPhase
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.models.symmetries import permutation_groups
from fedscan.problems.language_model import LanguageModelProblem, Schedule
from fedscan.seeds import generator

PAPER = Architecture(layout(4), 256, 128, 4, 2, 64, 1, 8, 50277, 8, 64)
SMALL = Architecture(layout(2), 64, 32, 4, 2, 16, 1, 4, 509, 8, 64)
TINY = Architecture(layout(1), 16, 8, 4, 2, 8, 1, 2, 61, 8, 16)
# The fixed values of the paper's ablations.
ORDINARY = {
    "fedavg": {},
    "fedprox": {"mu": 0.001},
    "scaffold": {
        "refresh_every": 2, "correction_scale": 0.01, "control_lr": 0.01, "control_bound": 0.1,
        "estimate": "mean_gradient",
    },
    "fedadam": {"server_lr": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 0.001},
    "fedalign": {"align_mamba2_heads": 1},
    "feddyn": {"alpha": 0.01},
    "fedsam": {"radius": 0.01},
    "fedexp": {"epsilon": 0.001},
    "diloco": {"outer_lr": 0.7, "outer_momentum": 0.9},
}  # fmt: skip


class Bench:
    """A part's record: rows are printed and written at once, failures are counted."""

    def __init__(self, part, device, tiny, folder, kernels):
        self.device, self.tiny, self.kernels = device, tiny, kernels
        self.folder = folder
        self._part, self._rows, self.failures = part, [], []
        self.facts = {"device": device_facts(device), "tiny": tiny}

    def add(self, quantity, value, unit):
        """Keep one row."""
        value = value if isinstance(value, str) else float(value)
        self._rows.append((quantity, value, unit))
        environment.show(self._rows[-1])
        name = f"gpu_{self._part}"
        environment.write(
            self.folder,
            name,
            self._rows,
            torch.get_num_threads(),
            self.facts | {"failures": self.failures},
        )

    def require(self, quantity, value, limit):
        """Keep an error that must not exceed a limit."""
        held = bool(value <= limit)  # False for NaN
        if not held:
            self.failures.append(f"{quantity}: {value:.2e} > {limit:.0e}")
        self.add(quantity, value, f"<= {limit:.0e}" if held else f"FAILED, limit {limit:.0e}")

    def attempt(self, name, function, *arguments):
        """Run one measurement; an error becomes a row, and the next measurement goes on."""
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001 - the lease is short: keep what the others measure
            text = " ".join(f"{type(error).__name__}: {error}".split())[:400]
            self.failures.append(f"{name}: {text}")
            self.add(name, text, "FAILED")
            return None


class Size(NamedTuple):
    """A training workload; units are sequences, tokens and steps."""

    shape: Architecture
    batch: int
    length: int
    local_steps: int
    eval_batch: int
    validation: int
    clients: int = 4


def paper(depth, local_steps, tiny):
    """Return the paper's workload, or a tiny one that only shows that the code runs."""
    if tiny:
        return Size(TINY._replace(mixers=layout(min(depth, 2))), 2, 24, 3, 4, 9, 2)
    return Size(PAPER._replace(mixers=layout(depth)), 8, 512, local_steps, 64, 7428)


def tokens(shape, count, length, stream):
    """Return ids with the long tail of words, (count, length) uint16."""
    rng = generator(0, "benchmark tokens", stream)
    return ((rng.zipf(1.2, (count, length)) - 1) % shape.vocab_size).astype(np.uint16)


def problem(size, precision, device, kernels="torch", double=False, sequences=512):
    """Return a problem on random ids; ``double`` makes all parameters float64."""
    model = initialise(size.shape, 0)
    train = [tokens(size.shape, sequences, size.length, k) for k in range(size.clients)]
    validation = tokens(size.shape, size.validation, size.length, "validation")
    schedule = Schedule(
        size.local_steps, size.batch, 1e-3, (0.9, 0.999), 1e-8, 0.01, 1.0, size.eval_batch
    )
    model = model.double() if double else model
    return LanguageModelProblem(model, train, validation, schedule, 0, precision, device, kernels)


def algorithm(name, shape):
    """Return an algorithm with ordinary values."""
    extra = {"permutation_groups": permutation_groups(shape)} if name == "fedalign" else {}
    return ALGORITHMS[name](**ORDINARY[name], **extra)


def phase(step, problem, algorithm, device):
    """Return a local phase; without CUDA a recorded step is simply run again."""
    if step == "eager":
        return local_phase
    capture = cuda_graph.capture if device == "cuda" else as_it_is
    return RecordedPhase(problem, algorithm, capture)


def as_it_is(step):
    """Record nothing."""
    step()
    return step


def context(problem, algorithm, round_index=1):
    """Return what the first client receives in the first round."""
    state = engine.initial_state(problem, algorithm)
    return LocalContext(
        state.params, state.server, state.clients[0], round_index, problem.local_steps,
        problem.learning_rate,
    )  # fmt: skip


def wait(device):
    """Wait until the device is idle."""
    if device == "cuda":
        torch.cuda.synchronize()


def seconds(function, device, spend=1.0, least=3):
    """Return the median time of a call after one call that does not count."""
    function()
    wait(device)
    times, end = [], time.perf_counter() + spend
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        wait(device)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def gap(ours, theirs):
    """Return ||ours - theirs|| / ||theirs|| in float64 on the CPU; NaN never passes a limit."""
    a, b = ours.detach().double().cpu(), theirs.detach().double().cpu()
    return float((a - b).norm() / b.norm())


def worst_gap(ours, theirs):
    """Return the largest relative error over named tensors."""
    gaps = [gap(ours[name], tensor) for name, tensor in theirs.items() if tensor.abs().max() > 0]
    return float(np.max(gaps))


def exact_products():
    """Use full float32 in torch's matrix products."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def device_facts(device):
    """Return name, memory and versions of a CUDA device."""
    if device != "cuda":
        return {"name": "CPU"}
    found = torch.cuda.get_device_properties(0)
    return {
        "name": found.name,
        "memory_gib": found.total_memory / 2**30,
        "multiprocessors": found.multi_processor_count,
        "capability": f"{found.major}.{found.minor}",
        "cuda": torch.version.cuda,
    }


def operations(size):
    """Return floating-point operations of a local step's model: two per multiply-add, 3 passes."""
    shape = size.shape
    inner, state = shape.expand * shape.d_model, shape.ngroups * shape.d_state
    heads = inner // shape.headdim
    projections = shape.d_model * (2 * inner + 2 * state + heads) + inner * shape.d_model
    convolution = shape.d_conv * (inner + 2 * state)
    scan = shape.chunk_size * (state + inner) + 2 * shape.d_state * inner
    per_token = shape.depth * (projections + convolution + scan)
    head = shape.d_model * shape.padded_vocab_size * (size.length - 1) / size.length
    return 3 * 2 * size.batch * size.length * (per_token + head)
