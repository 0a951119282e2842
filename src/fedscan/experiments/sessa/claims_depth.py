"""Claims 4, 12 and 13: depth, and a zero-order-hold layer end to end (appendices G and H)."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from fedscan.experiments.sessa.claim import Claim, at_most, equal, tends_to
from fedscan.experiments.sessa.constructed import identity_block, random_layer
from fedscan.experiments.sessa.profiles import jacobian_norms
from fedscan.experiments.sessa.slopes import batched
from fedscan.models import gated_mamba2, mamba2
from fedscan.models.sequence_shape import D_CONV, EXPAND, NGROUPS
from fedscan.models.sessa import Sessa, construct
from fedscan.seeds import generator
from fedscan.theory.envelopes import (
    attention_stack_bound,
    attention_stack_envelope,
    loop_envelope,
    loop_stack_bound,
    loop_stack_envelope,
    recurrence_stack_constant,
    recurrence_stack_envelope,
    stack_bound,
    zoh_jacobian_bound,
)
from fedscan.theory.feedback import harmonic_power_bound, power_convolution_limit

WIDTH, LENGTH, DEPTH = 8, 16, 3
KINDS = {
    "sessa": ("sessa",) * DEPTH,
    "attention": ("attention",) * DEPTH,
    "mamba2": ("mamba2",) * DEPTH,
    "mixed": ("sessa", "attention", "mamba2"),
}
# Stacks of kernels: layers, tokens, largest source, decay exponents of loops, decay per token.
DEPTHS, STACKED, SOURCES, BETAS, RATE = (2, 3), 400, 8, (0.25, 0.5, 0.8), 0.1
# Decay exponents and layers of envelopes that vanish, stay but for logarithms, and grow.
ENVELOPES = ((0.75, 3), (0.9, 5), (0.5, 2), (0.25, 2))
# Lags between which an envelope is seen to fall or rise: logarithms fall behind there.
FAR = (1e50, 1e250)
# Tokens of a Mamba2 layer whose decay is fitted, and the first lag of the fit.
FITTED, FIRST_LAG = 48, 8
# Lag of a convolution whose ratio is compared with its limit.
CONVOLVED = 100_000


def claims(seed: int) -> Iterator[Claim]:
    """Yield the claims.

    Args:
        seed: root seed.

    Yields:
        Residual calculus, kernels' powers, stacks of each mixer, convolutions, the
        zero-order-hold layer.
    """
    for name, kinds in KINDS.items():
        yield calculus(name, kinds, seed)
    yield mamba2_decay(seed)
    yield from harmonic()
    for depth in DEPTHS:
        yield from attention_stack(depth)
        yield recurrence_stack(depth)
        for beta in BETAS:
            yield loop_stack(beta, depth)
    for beta, depth in ENVELOPES:
        yield loop_envelope_vanishes(beta, depth)
    for hops in (1, 2, 4):
        yield exponential(hops, 12)
    for beta, hops in itertools.product((0.5, 2 / 3, 0.25), (2, 3)):
        yield power(beta, hops)
    for index in range(3):
        yield zoh(generator(seed, "zero-order hold", index), index)


def layer(kind: str, stream: np.random.Generator) -> nn.Module:
    """Return a random layer in float64.

    Args:
        kind: 'sessa', 'attention' or 'mamba2'.
        stream: source of randomness.
    """
    if kind == "sessa":
        return random_layer(WIDTH, 2, stream)
    torch_stream = torch.Generator().manual_seed(int(stream.integers(2**31)))
    if kind == "attention":
        made: nn.Module = Sessa(WIDTH, 2, loop=False)
        draw = construct
    else:
        mixer = mamba2.Mamba2(WIDTH, 8, D_CONV, EXPAND, 8, NGROUPS, 16)
        made, draw = gated_mamba2.GatedMamba2(WIDTH, mixer), gated_mamba2.construct
    with torch.no_grad():
        draw(made, torch_stream)
    return made.double().requires_grad_(False)


def calculus(name: str, kinds: tuple[str, ...], seed: int) -> Claim:
    """Return claim 12: a stack's Jacobian norms are at most its blocks' product (Theorem 11).

    Args:
        name: of the stack.
        kinds: of its layers.
        seed: root seed.
    """
    stream = generator(seed, "residual calculus", name)
    layers = [layer(kind, stream) for kind in kinds]
    x = torch.from_numpy(stream.normal(size=(1, LENGTH, WIDTH)))
    norms, entering = [], x
    for one in layers:
        norms.append(_norms(functools.partial(identity_block, one), entering))
        entering = identity_block(one, entering)

    def stack(u: Tensor) -> Tensor:
        for one in layers:
            u = identity_block(one, u)
        return u

    found, bound = _norms(stack, x), stack_bound(norms)
    earlier = np.tril(np.ones((LENGTH, LENGTH), bool))
    ratio = float((found[earlier] / bound[earlier]).max())
    return at_most("residual_calculus", "Theorem 11", ratio, 1.0, stack=name)


def _norms(run: Callable[[Tensor], Tensor], x: Tensor) -> np.ndarray:
    """Return ||d y_t / d x_tau|| for all t and tau, (length, length)."""
    found = np.zeros((x.shape[1], x.shape[1]))
    for t in range(x.shape[1]):
        # Causal: what follows position t has no part in it.
        by_lag = jacobian_norms(run, x[:, : t + 1])[0].numpy()
        found[t, : t + 1] = by_lag[::-1]
    return found


def mamba2_decay(seed: int) -> Claim:
    """Return how fast a Mamba2 layer forgets: of its convolution and gate nothing is claimed.

    Args:
        seed: root seed.

    Returns:
        Not applicable; measured is the fitted decay of ||d y_t / d x_tau|| per token.
    """
    stream = generator(seed, "mamba2 decay")
    one, x = layer("mamba2", stream), torch.from_numpy(stream.normal(size=(1, FITTED, WIDTH)))
    norms = jacobian_norms(one, x)[0].numpy()
    lags = np.arange(FIRST_LAG, FITTED)
    rate = -np.polyfit(lags, np.log(norms[FIRST_LAG:]), 1)[0]
    return at_most("mamba2_decay", "Proposition 4", rate, None, tokens=FITTED)


def _stack(kernel: np.ndarray, depth: int) -> np.ndarray:
    """Return what residual blocks with that kernel pass on beyond the identity."""
    one = np.eye(len(kernel))
    return np.asarray(np.linalg.matrix_power(one + kernel, depth) - one)


def _lags(length: int) -> np.ndarray:
    return np.arange(length)[:, None] - np.arange(length)


def attention_stack(depth: int) -> Iterator[Claim]:
    """Yield claim 13 of attention: a bound by (77), and the envelope on bounded sources.

    Args:
        depth: residual blocks with uniform weights.

    Yields:
        The bound for every source; for early ones, that no later lag needs a larger constant.
    """
    H = np.tril(np.ones((STACKED, STACKED)), -1) / np.arange(1, STACKED + 1)[:, None]
    found, bound = _stack(H, depth), attention_stack_bound(depth, STACKED)
    ratio = (found[1:] / bound[1:, None]).max()
    yield at_most("attention_stack", "Theorem 30", ratio, 1.0, layers=depth)
    lags = _lags(STACKED)[:, : SOURCES + 1]
    scaled = found[:, : SOURCES + 1] / attention_stack_envelope(np.maximum(lags, 1), depth)
    late = lags >= STACKED // 2
    near, far = (scaled[chosen & (lags >= 1)].max() for chosen in (~late, late))
    about = {"layers": depth, "largest_source": SOURCES}
    yield at_most("attention_stack_order", "Theorem 30", far, near, **about)


def recurrence_stack(depth: int) -> Claim:
    """Return claim 13 of Mamba: blocks that forget, with an explicit constant (ours).

    Args:
        depth: residual blocks, each passing exp(-rate lag).
    """
    lags = _lags(STACKED)
    found = _stack(np.tril(np.exp(-RATE * np.maximum(lags, 0)), -1), depth)[lags >= 1]
    envelope = recurrence_stack_envelope(lags[lags >= 1], depth, RATE)
    measured = (found / envelope).max()
    bound = recurrence_stack_constant(depth)
    return at_most("recurrence_stack", "Proposition 33", measured, bound, layers=depth, rate=RATE)


def loop_stack(beta: float, depth: int) -> Claim:
    """Return claim 13 of Sessa: blocks that each pass the envelope of Theorem 23.

    Args:
        beta: decay exponent.
        depth: residual blocks.
    """
    lags = _lags(STACKED)
    kernel = np.where(lags >= 1, loop_envelope(np.maximum(lags, 1), beta), 0.0)
    found = _stack(kernel, depth)[1:, 0]
    bound = loop_stack_bound(np.arange(1, STACKED), depth, beta)
    about = {"beta": beta, "layers": depth}
    return at_most("loop_stack", "Theorem 30, constants ours", (found / bound).max(), 1.0, **about)


def loop_envelope_vanishes(beta: float, depth: int) -> Claim:
    """Return when Sessa's envelope vanishes: if and only if layers (1 - beta) < 1.

    Args:
        beta: decay exponent.
        depth: layers.

    Returns:
        That it falls between two far lags, or where it does not vanish that it rises.
    """
    near, far = loop_stack_envelope(np.array(FAR), depth, beta)
    vanishes = depth * (1 - beta) < 1
    ratio = far / near if vanishes else near / far
    about = {"beta": beta, "layers": depth, "vanishes": vanishes}
    return at_most("loop_envelope_vanishes", "Theorem 30", ratio, 1.0, **about)


def harmonic() -> Iterator[Claim]:
    """Yield (77): powers of the harmonic kernel."""
    length = 60
    H = np.tril(np.ones((length, length)), -1) / np.arange(1, length + 1)[:, None]
    for hops in (1, 2, 3, 5):
        bound = np.maximum(harmonic_power_bound(hops, length)[:, None], 1e-300)
        ratio = (np.linalg.matrix_power(H, hops) / bound).max()
        yield at_most("harmonic_kernel", "(77)", ratio, 1.0, hops=hops)


def exponential(hops: int, lag: int) -> Claim:
    """Return claim 13: paths of k hops over a lag weigh C(lag - 1, k - 1) e^(-c lag).

    Args:
        hops: k.
        lag: tokens.
    """
    rate = 0.37
    kernel = np.exp(-rate * (np.arange(lag + 1)[:, None] - np.arange(lag + 1)))
    found = np.linalg.matrix_power(np.tril(kernel, -1), hops)[lag, 0]
    wanted = math.comb(lag - 1, hops - 1) * math.exp(-rate * lag)
    return equal(
        "exponential_paths", "Proposition 33", found / wanted, 1, 1e-12, hops=hops, lag=lag
    )


def power(beta: float, hops: int) -> Claim:
    """Return ours of Theorem 30: the limit of a convolution of powers over its order.

    Args:
        beta: in (0, 1).
        hops: factors k.
    """
    lags = np.arange(1, CONVOLVED + 1, dtype=float)
    single = np.concatenate([[0.0], lags**-beta])
    size = 1 << int(np.ceil(np.log2(hops * len(single))))
    spectrum = np.fft.rfft(single, size) ** hops
    found = np.fft.irfft(spectrum, size)[CONVOLVED]
    ratio = found / CONVOLVED ** (hops * (1 - beta) - 1) / power_convolution_limit(beta, hops)
    # The ratio is off by a multiple of lag^-(1 - beta), the next term of the sum.
    near = 2 * hops * CONVOLVED ** (beta - 1)
    return tends_to(
        "power_convolution", "Theorem 30, limit ours", ratio, 1, near, beta=beta, hops=hops
    )


def zoh(stream: np.random.Generator, index: int) -> Claim:
    """Return Proposition 4: a zero-order-hold layer end to end.

    Args:
        stream: source of randomness.
        index: of the instance.
    """
    width, state, length = 3, 4, 12
    a = torch.from_numpy(stream.uniform(0.3, 2, state))
    w_step, w_in = (torch.from_numpy(stream.normal(size=width)) for _ in range(2))
    w_map, w_out = (torch.from_numpy(stream.normal(size=(state, width))) for _ in range(2))
    x = torch.from_numpy(stream.normal(size=(length, width)))
    # Softplus and tanh have slopes up to 1.
    step = torch.nn.functional.softplus(x @ w_step)

    def run(u: Tensor) -> Tensor:
        steps = torch.nn.functional.softplus(u @ w_step)
        drive, maps, outs = (u @ w_in).tanh(), (u @ w_map.T).tanh(), x @ w_out.T
        h, found = torch.zeros(state, dtype=u.dtype), []
        for t in range(length):
            keep = (-a * steps[t]).exp()
            h = keep * h + (1 - keep) / a * maps[t] * drive[t]
            # The readout is kept fixed: tau < t never enters it.
            found.append(outs[t] @ h)
        return torch.stack(found)

    slopes = batched(run, x).norm(dim=-1).numpy()
    outs = (x @ w_out.T).norm(dim=-1).max()
    maps, drive = (x @ w_map.T).tanh(), (x @ w_in).tanh()
    bound = float(outs) * zoh_jacobian_bound(
        float(a.min()), float(a.max()), float(w_step.norm()), float(drive.abs().max()),
        float(maps.norm(dim=-1).max()), float(w_in.norm()), float(torch.linalg.norm(w_map, ord=2)),
        state,
    )  # fmt: skip
    total = np.concatenate([[0.0], np.cumsum(step.numpy())])
    t, tau = np.nonzero(np.tril(np.ones((length, length)), -1))
    decay = np.exp(-float(a.min()) * (total[t + 1] - total[tau + 1]))
    ratio = (slopes[t, tau] / (bound * decay)).max()
    return at_most("zoh_jacobian", "Proposition 4", ratio, 1.0, instance=index)
