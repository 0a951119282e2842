"""Claims 1 to 8: routing kept fixed (sections 2, 4.1, 4.2; appendices C to F)."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import gammaln
from torch import Tensor

from fedscan.experiments.sessa.claim import Claim, at_most, equal, tends_to
from fedscan.experiments.sessa.constructed import blank, random_layer
from fedscan.experiments.sessa.profiles import routing
from fedscan.experiments.sessa.slopes import one_by_one
from fedscan.models.sessa import Sessa
from fedscan.seeds import generator
from fedscan.theory import feedback
from fedscan.theory.envelopes import recurrence_bound, zoh_state_bound

LENGTH = 96
SMALL = 7
INSTANCES = 4
# Lags of the fit of uniform routing's exponent, and how far it may be from -(1 - gain).
FITTED, FIT_TOLERANCE = (1_000, 1_000_000), 0.002
# Tokens of predecessor rows.
CHAIN = 400
# The same of the response to a constant: further out small gains leave nothing but rounding.
RESPONDED = (1_000, 10_000)
# Steps of a time-invariant system.
HOPS = 4096
# Of uniform attention: source, tokens, first lag of the fit, and how far the source still shows.
ATTENDED, ATTENTION_TOKENS, ATTENTION_LAG, ATTENTION_NEAR = 3, 1000, 100, 0.03


def claims(seed: int, spreads: Sequence[float], gains: Sequence[float]) -> Iterator[Claim]:
    """Yield the claims.

    Args:
        seed: root seed.
        spreads: largest differences of random logits.
        gains: largest gains.

    Yields:
        Some per combination.
    """
    for spread, gain in itertools.product(spreads, gains):
        stream = generator(seed, "fixed routing", repr(spread), repr(gain))
        logits = stream.uniform(0, spread, (LENGTH, LENGTH)) if spread else np.zeros((LENGTH,) * 2)
        drawn = stream.uniform(-gain, gain, LENGTH)
        yield from _random(logits, drawn, stream, spread=spread, gain_max=gain)
    yield without_gain(generator(seed, "fixed routing", "no gain"))
    for gain in gains:
        yield from _constant(gain)
        yield from uniform(gain)
    yield attention_slope()
    for index in range(INSTANCES):
        yield from _attention(seed, index)
        yield from _recurrences(generator(seed, "recurrences", index), index)
        yield from _block(seed, index)


def _random(
    logits: np.ndarray, gains: np.ndarray, stream: np.random.Generator, **about: float
) -> Iterator[Claim]:
    B = feedback.routing(logits, gains)
    K, rho = feedback.kernel(B), float(np.abs(gains[1:]).max())
    power, total = np.eye(len(B)), np.zeros_like(B)
    for _ in range(len(B)):
        total = total + power
        power = power @ B
    yield equal("nilpotency", "section 4", power, 0, 0.0, **about)
    yield equal("neumann_series", "section 4", total, K, 1e-10, **about)
    small = B[:SMALL, :SMALL]
    for hops in range(1, SMALL):
        yield equal(
            "paths", "I.7", np.linalg.matrix_power(small, hops), _paths(small, hops), 1e-14,
            hops=hops, **about,
        )  # fmt: skip
    yield equal("row_sums", "(25)", np.abs(B).sum(1)[1:], np.abs(gains[1:]), 1e-12, **about)
    f = stream.normal(size=(len(B), 4))
    s = K @ f
    largest = np.linalg.norm(f, axis=1).max()
    bound = feedback.solution_bound(rho) * largest
    yield at_most("solution", "Lemma 4.2", np.linalg.norm(s, axis=1).max(), bound, **about)
    yield at_most(
        "kernel_norm", "Lemma 4.2", np.abs(K).sum(1).max(), feedback.solution_bound(rho), **about
    )
    alpha = B[1:] / gains[1:, None]
    alpha = np.vstack([np.zeros(len(B)), alpha])
    spread, positions = about["spread"], np.arange(1, len(B))
    earlier = np.tril(np.ones_like(B), -1).astype(bool)[1:]
    scaled = np.where(earlier, alpha[1:] * positions[:, None], 1.0)
    yield at_most("softmax_upper", "C.1", scaled.max(), math.exp(spread), **about)
    yield at_most("softmax_lower", "C.1", (1 / scaled).max(), math.exp(spread), **about)
    lags = np.arange(len(B))[:, None] - np.arange(len(B))
    for name, c2, top in (
        ("decay", math.exp(spread), about["gain_max"]),
        ("decay_realised", feedback.realised_c2(alpha), rho),
    ):
        bounds = feedback.decay_bound(top, c2, np.maximum(lags, 1))
        ratio = np.abs(K) / bounds if bounds is not None and top else np.abs(K)
        measured = float(ratio[lags >= 1].max())
        yield at_most(
            name, "Theorem 8", measured, None if bounds is None else 1.0, eta=top * c2, **about
        )


def _paths(B: np.ndarray, hops: int) -> np.ndarray:
    """Return sums of products over increasing paths with that many edges."""
    found = np.zeros_like(B)
    size = len(B)
    for start, end in itertools.product(range(size), repeat=2):
        for inner in itertools.combinations(range(start + 1, end), hops - 1):
            nodes = (start, *inner, end)
            found[end, start] += math.prod(B[b, a] for a, b in itertools.pairwise(nodes))
    return found


def without_gain(stream: np.random.Generator) -> Claim:
    """Return Theorem 8 where eta = 0: nothing passes the loop.

    Args:
        stream: of the logits.
    """
    B = feedback.routing(stream.uniform(0, 1, (LENGTH, LENGTH)), np.zeros(LENGTH))
    passed = np.abs(np.tril(feedback.kernel(B), -1)).max()
    bound = feedback.decay_bound(0.0, math.e, np.arange(1, LENGTH))
    top = None if bound is None else float(bound.max())
    return at_most("decay_without_gain", "Theorem 8", passed, top, eta=0.0)


def _constant(gain: float) -> Iterator[Claim]:
    """Constant gains approach the bound on ||K||."""
    before = feedback.kernel(gain * np.eye(CHAIN, k=-1))
    share = np.abs(before).sum(1).max() * (1 - gain)
    # Its row sums are those of a geometric series, so that the bound is approached.
    yield equal(
        "kernel_norm_attained", "Lemma 4.2", share, 1 - gain**CHAIN, 1e-12, gain=gain,
        rows="before", tokens=CHAIN,
    )  # fmt: skip
    # Uniform rows: K applied to 1 is what a constant input gives.
    response = feedback.uniform_response(gain, 10**6)[-1] * (1 - gain)
    missing = 10.0 ** (-6 * (1 - gain))
    yield at_most("kernel_norm_uniform", "ours", 1 - response, missing, gain=gain, tokens=10**6)
    # What is missing falls as t^-(1 - gain).
    t = np.geomspace(*RESPONDED, 200)[:-1].astype(int)
    short = 1 - feedback.uniform_response(gain, RESPONDED[1])[t] * (1 - gain)
    slope = float(np.polyfit(np.log(t), np.log(short), 1)[0])
    yield tends_to("uniform_response_rate", "ours", slope, -(1 - gain), FIT_TOLERANCE, gain=gain)


def uniform(gain: float) -> Iterator[Claim]:
    """Yield claim 6: uniform routing with one gain (F.2, F.3).

    Args:
        gain: gamma in (0, 1).

    Yields:
        Identities, two-sided bounds, Gautschi's inequality, the fitted exponent.
    """
    B = feedback.routing(np.zeros((LENGTH, LENGTH)), np.full(LENGTH, gain))
    K = feedback.kernel(B)
    tau, t = np.nonzero(np.tril(np.ones((LENGTH, LENGTH)), -1).T)
    closed = feedback.uniform_kernel(gain, tau, t - tau)
    yield equal("uniform_kernel", "F.2", K[t, tau], closed, 1e-12, gain=gain)
    yield equal(
        "uniform_first_lag", "F.2", feedback.uniform_kernel(gain, tau, np.ones_like(tau)),
        gain / (tau + 1), 1e-12, gain=gain,
    )  # fmt: skip
    largest_source, lags = 8, np.unique(np.geomspace(1, 10**5, 60).astype(int))
    constants = feedback.uniform_two_sided(gain, largest_source)
    values = feedback.uniform_kernel(gain, np.arange(largest_source + 1)[:, None], lags)
    power = lags.astype(float) ** (gain - 1)
    about = {"gain": gain, "largest_source": largest_source}
    yield at_most("uniform_upper", "F.3", (values / power).max(), constants.high, **about)
    least = (constants.low * power / values).max()
    yield at_most("uniform_lower", "F.3", least, 1.0, **about)
    s = K @ np.ones(LENGTH)
    closed = feedback.uniform_response(gain, LENGTH)
    yield equal("uniform_response", "ours", (1 - gain) * (s - closed), 0, 1e-12, gain=gain)
    yield at_most("uniform_response_rises", "ours", (s[:-1] / s[1:]).max(), 1.0, gain=gain)
    # The constant falls with the source: none holds for all sources.
    sources = np.geomspace(*FITTED, 200)
    falls = np.polyfit(np.log(sources), np.log(feedback.uniform_constant(gain, sources)), 1)[0]
    yield tends_to("uniform_constant_falls", "F.3", falls, -gain, FIT_TOLERANCE, gain=gain)
    # Further out the logarithms of Gamma lose more digits than a violation could have.
    t_long = np.unique(np.geomspace(1, 10**4, 200).astype(int)).astype(float)
    ratio = np.exp(gammaln(t_long + gain) - gammaln(t_long + 1))
    upper = (ratio / t_long ** (gain - 1)).max()
    yield at_most("gautschi_upper", "(67)", upper, 1.0, gain=gain)
    lower = ((t_long + 1) ** (gain - 1) / ratio).max()
    yield at_most("gautschi_lower", "(67)", lower, 1.0, gain=gain)
    fitted = np.geomspace(*FITTED, 200)
    logs = np.log(feedback.uniform_kernel(gain, 3.0, fitted))
    slope = float(np.polyfit(np.log(fitted), logs, 1)[0])
    yield tends_to("uniform_exponent", "F.2", slope, -(1 - gain), FIT_TOLERANCE, gain=gain)
    local = feedback.uniform_exponent(gain, 3.0, np.array([1e7]))
    yield tends_to("uniform_local_exponent", "F.2", local, -(1 - gain), 1e-6, gain=gain)


def attention_slope() -> Claim:
    """Return claim 7 of attention: uniform weights on a fixed source fall as 1 / lag."""
    tokens = torch.zeros(1, ATTENTION_TOKENS, 2, dtype=torch.float64)
    weights = routing(blank(2), tokens).forward[0, 0, :, ATTENDED].numpy()
    lags = np.arange(ATTENTION_LAG, ATTENTION_TOKENS - ATTENDED)
    slope = float(np.polyfit(np.log(lags), np.log(weights[ATTENDED + lags]), 1)[0])
    about = {"position": ATTENDED, "tokens": ATTENTION_TOKENS}
    return tends_to("attention_slope", "Proposition 9i", slope, -1, ATTENTION_NEAR, **about)


def _attention(seed: int, index: int) -> Iterator[Claim]:
    """Claim 7 of attention: a value enters by its weight, which lies near 1 / (t + 1)."""
    length, width = 12, 4
    layer = random_layer(width, 1, generator(seed, "attention", index))
    x = torch.from_numpy(generator(seed, "attention input", index).normal(size=(1, length, width)))
    inner = F.gelu(layer.in_proj(x).chunk(2, dim=-1)[0])

    def attended(moved: Tensor) -> Tensor:
        hook = layer.v_proj.register_forward_hook(lambda _layer, _inputs, values: values + moved)
        f = layer.attend(inner)[0]
        hook.remove()
        return f

    # (t, channel, tau, channel).
    slopes = one_by_one(attended, torch.zeros(length, width, dtype=torch.float64))
    weights = routing(layer, x).forward[0, 0]
    wanted = torch.einsum("tu,cd->tcud", weights, torch.eye(width, dtype=torch.float64))
    yield equal("attention_values", "Proposition 9i", slopes, wanted, 1e-12, instance=index)
    t, tau = np.nonzero(np.tril(np.ones((length, length))))
    found = slopes[t, 0, tau, 0].numpy()
    log_weights = weights.log()
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    lowest = log_weights.masked_fill(~earlier, torch.inf).amin(1)
    spread = (log_weights.amax(1) - lowest).numpy()[t]
    for name, ratio in (
        ("attention_upper", found * (t + 1) / np.exp(spread)),
        ("attention_lower", np.exp(-spread) / (found * (t + 1))),
    ):
        yield at_most(name, "Proposition 9i", ratio.max(), 1.0, instance=index)


def _recurrences(stream: np.random.Generator, index: int) -> Iterator[Claim]:
    """Claims 7 and 8: selective and invariant recurrences, a zero-order-hold channel."""
    length, state = 64, 5
    a = stream.uniform(0.2, 3, state)
    steps = stream.uniform(0.01, 0.5, length)
    into, out = stream.normal(size=(2, length, state))
    total = np.concatenate([[0], np.cumsum(steps)])
    t, tau = np.nonzero(np.tril(np.ones((length, length)), -1))
    passed = total[t + 1] - total[tau + 1]
    kernels = np.abs((out[t] * np.exp(-a * passed[:, None]) * into[tau]).sum(-1))
    out_norm, in_norm = (float(np.linalg.norm(part, axis=1).max()) for part in (out, into))
    slowest = float(a.min())
    ratio = kernels / recurrence_bound(out_norm, in_norm, slowest, passed)
    yield at_most("recurrence", "Proposition 9ii", ratio.max(), 1.0, instance=index)
    freeze = (passed / (t - tau)).min()
    ratio = kernels / recurrence_bound(out_norm, in_norm, slowest, freeze * (t - tau))
    yield at_most(
        "failed_freeze", "Proposition 3", ratio.max(), 1.0, c_delta=freeze, instance=index
    )
    A = stream.normal(size=(state, state))
    A *= stream.uniform(0.5, 0.95) / np.abs(np.linalg.eigvals(A)).max()
    radius = float(np.abs(np.linalg.eigvals(A)).max())
    # Scaled, so that no power leaves the numbers; what is left of them grows at most as hops^state.
    rate = math.log(np.linalg.norm(np.linalg.matrix_power(A / radius, HOPS))) / HOPS
    yield tends_to("invariant_rate", "Proposition 5", rate, 0, 0.01, radius=radius, instance=index)
    rate_min, drive = 0.3, stream.uniform(-2, 2, 400)
    rates, h, highest = stream.uniform(rate_min, 2, 400), 0.0, 0.0
    for rate_now, b, step in zip(rates, drive, stream.uniform(0.01, 3, 400), strict=True):
        keep = math.exp(-rate_now * step)
        h = keep * h + (1 - keep) / rate_now * b
        highest = max(highest, abs(h))
    bound = zoh_state_bound(float(np.abs(drive).max()), rate_min)
    yield at_most("zoh_state", "section 4.4", highest, bound, instance=index)


def _block(seed: int, index: int) -> Iterator[Claim]:
    """Claim 3: a block's output is bounded on a ball (Proposition 25; norm = identity)."""
    for heads in (1, 2):
        layer = random_layer(8, heads, generator(seed, "block bound", index, heads))
        stream = generator(seed, "block input", index, heads)
        x = torch.from_numpy(stream.normal(size=(1, 40, 8)))
        with torch.no_grad():
            out = x + layer(x)
        measured = float(out.norm(dim=-1).max())
        radius = float(x.norm(dim=-1).max())
        yield at_most(
            "block", "Proposition 25", measured, block_bound(layer, radius), heads=heads,
            instance=index,
        )  # fmt: skip


def block_bound(layer: Sessa, radius: float) -> float:
    """Return the bound of Proposition 25 on ||x_t + layer(x)_t||, no norm.

    Args:
        layer: a Sessa layer in float64 whose gain depends on its token.
        radius: largest ||x_t||.

    Returns:
        R + ||W_out|| F G / (1 - rho) + ||b_out||.
    """
    d = layer.out_proj.in_features

    def norm(tensor: torch.Tensor) -> float:
        return float(torch.linalg.norm(tensor.detach(), ord=2))

    w, b = layer.in_proj.weight, layer.in_proj.bias
    a = norm(w[:d]) * radius + norm(b[:d])
    gate = norm(w[d:]) * radius + norm(b[d:])
    value, bias = layer.v_proj.weight, layer.v_proj.bias
    if layer.forward_proj is None:
        f = norm(value) * a + (0.0 if bias is None else norm(bias))
    else:
        # Every head mixes by itself.
        parts = [norm(v) * a for v in value.chunk(layer.heads)]
        if bias is not None:
            parts = [p + norm(c) for p, c in zip(parts, bias.chunk(layer.heads), strict=True)]
        f = norm(layer.forward_proj.weight) * math.hypot(*parts)
    w_gain, b_gain = layer.gain_proj.weight[0], layer.gain_bias
    rho = layer.gain_max * math.tanh(norm(w_gain) * a + float(b_gain.abs()))
    return radius + norm(layer.out_proj.weight) * f * gate / (1 - rho) + norm(layer.out_proj.bias)
