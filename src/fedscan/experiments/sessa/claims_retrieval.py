"""Claims 17 and 18: flexible selective retrieval, in kernels and in layers (section 4.2.8; K)."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from fedscan.experiments.sessa.claim import Claim, at_most, equal, tends_to
from fedscan.experiments.sessa.claims_depth import LENGTH, WIDTH, layer
from fedscan.experiments.sessa.constructed import (
    identity_block,
    retrieval_scores,
    retrieval_stack,
)
from fedscan.experiments.sessa.profiles import jacobian_norms
from fedscan.seeds import generator
from fedscan.theory.envelopes import attention_stack_envelope, recurrence_stack_envelope
from fedscan.theory.retrieval import (
    Margins,
    exponent_error,
    macro_applied,
    macro_kernel,
    margins,
    profile_exponent,
    selective_kernel,
)

SOURCE, LEAK, HORIZONS = 3, 0.02, (100, 400, 900)
TOKENS = 24
# Lags of a horizon that are kept as rows, at most.
KEPT = 60
# Tokens of scores whose exponent is fitted, and how far it may be beyond its slowest correction.
FAR, EXPONENT_NEAR = 200_000, 0.005
# By how much a constant may vary with the horizon.
VARIES = 3.0
WEIGHTS_NEAR = 1e-6
# Decay per token of recurrences whose envelope is seen to fall.
FORGETS = 0.02


def claims(seed: int, asked: Sequence[Sequence[float]]) -> Iterator[Claim]:
    """Yield the claims.

    Args:
        seed: root seed.
        asked: pairs of beta and k.

    Yields:
        Per pair in kernels and in layers; then what other mixers' margins are below.
    """
    for beta in sorted({float(beta) for beta, _ in asked}):
        yield from macro(beta)
    for beta, layers in asked:
        yield from profile(float(beta), int(layers))
        yield from weights(float(beta), int(layers))
    for kind in ("attention", "mamba2"):
        yield comparison(kind, seed)
    lags = np.geomspace(10, 1e6, 50)
    for depth in (2, 4):
        values = attention_stack_envelope(lags, depth)
        falls = float((values[1:] / values[:-1])[lags[:-1] > math.exp(depth)].max())
        yield at_most("attention_envelope_falls", "Theorem 30", falls, 1.0, layers=depth)
        # From lag (layers - 1) / rate on; so far that nothing is left, there is nothing to compare.
        late = np.linspace(depth / FORGETS, 100 / FORGETS, 50)
        values = recurrence_stack_envelope(late, depth, FORGETS)
        falls = float((values[1:] / values[:-1]).max())
        yield at_most("recurrence_envelope_falls", "Proposition 33", falls, 1.0, layers=depth)


def macro(beta: float) -> Iterator[Claim]:
    """Yield Lemma K.22: a macro-layer's entries, with constants that do not depend on length.

    Args:
        beta: decay exponent.
    """
    found = {}
    for length in (100, 900):
        M, t = macro_kernel(beta, length), np.arange(length, dtype=float)
        wanted = 1 + (t + 1) ** (1 - beta) / (t + 1)
        yield equal("macro_diagonal", "Lemma K.22", np.diag(M), wanted, 1e-12, beta=beta,
                    tokens=length)  # fmt: skip
        i, j = np.nonzero(np.tril(np.ones((length, length)), -1))
        scaled = M[i, j] * (i + 1.0) ** beta
        found[length] = (scaled.min(), scaled.max())
    (low, high), (low_long, high_long) = found[100], found[900]
    yield at_most("macro_lower", "Lemma K.22", low / low_long, VARIES, beta=beta)
    yield at_most("macro_upper", "Lemma K.22", high_long / high, VARIES, beta=beta)


def profile(beta: float, layers: int) -> Iterator[Claim]:
    """Yield Theorem 12 in kernels: margins follow (1 + lag)^nu at every horizon.

    Args:
        beta: decay exponent.
        layers: k.
    """
    nu, about = profile_exponent(beta, layers), {"beta": beta, "layers": layers}
    constants, leaks, first = [], [], []
    for horizon in HORIZONS:
        found = margins(selective_kernel(beta, layers, SOURCE, horizon, LEAK), SOURCE)
        lags = np.arange(1, horizon + 1, dtype=float)
        worst = _worst(found)
        yield at_most("margins_positive", "Theorem 12", worst, 1.0, horizon=horizon, **about)
        constants.append(float((found.margin / (1 + lags) ** nu).min()))
        growth = (1 + lags) ** (layers * (1 - beta))
        leaks.append(float((found.competitors / (LEAK / (horizon + 1)) / growth).max()))
        first.append(float(found.margin[0]))
    yield exponent(beta, layers)
    for name, values in (
        ("profile_constant", constants),
        ("competitors", leaks),
        ("first_margin", first),
    ):
        varies = max(values) / min(values) if min(values) > 0 else math.inf
        source = "K.26" if name == "competitors" else "Theorem 12"
        yield at_most(name, source, varies, VARIES, **about)


def exponent(beta: float, layers: int) -> Claim:
    """Return Theorem 12's exponent, of scores at lags where it can be seen.

    Up to a lag of 900 a fit is off by up to 0.3 for some exponents, of a theorem that holds.

    Args:
        beta: decay exponent.
        layers: k.
    """
    scores = np.zeros(FAR)
    scores[SOURCE] = 1.0
    for _ in range(layers):
        scores = macro_applied(beta, scores)
    first = FAR // 10
    lags = np.unique(np.geomspace(first, FAR - SOURCE - 1, 200).astype(int))
    slope = float(np.polyfit(np.log1p(lags), np.log(scores[SOURCE + lags]), 1)[0])
    near = EXPONENT_NEAR + exponent_error(beta, layers, SOURCE, first)
    wanted = profile_exponent(beta, layers)
    about = {"beta": beta, "layers": layers, "tokens": FAR}
    return tends_to("profile_exponent", "Theorem 12", slope, wanted, near, **about)


def weights(beta: float, layers: int) -> Iterator[Claim]:
    """Yield Theorem 12 in layers: autograd's scores are the kernel's.

    Args:
        beta: decay exponent.
        layers: k.
    """
    horizon = TOKENS - SOURCE - 1
    wanted, found = _both(beta, layers)
    about = {"beta": beta, "layers": layers, "tokens": TOKENS}
    yield equal("weights_are_kernels", "Theorem 12, K", found, wanted, WEIGHTS_NEAR, **about)
    worst = _worst(margins(found, SOURCE))
    yield at_most("weights_margins_positive", "Theorem 12, K", worst, 1.0, horizon=horizon, **about)


def _worst(found: Margins) -> float:
    """Return the largest competitors / score: below 1 where all margins are positive."""
    share = np.where(found.score > 0, found.competitors / found.score, np.inf)
    return float(share.max())


def _both(beta: float, layers: int) -> tuple[np.ndarray, np.ndarray]:
    horizon = TOKENS - SOURCE - 1
    wanted = selective_kernel(beta, layers, SOURCE, horizon, LEAK)
    stack = retrieval_stack(beta, layers, SOURCE, TOKENS, LEAK / (horizon + 1))
    return wanted, retrieval_scores(stack, beta, TOKENS)


def comparison(kind: str, seed: int) -> Claim:
    """Return Proposition 13: a margin is at most the Jacobian's norm, which falls.

    Args:
        kind: of the layers.
        seed: root seed.
    """
    stream = generator(seed, "comparison class", kind)
    layers = [layer(kind, stream) for _ in range(2)]
    x = torch.from_numpy(stream.normal(size=(1, LENGTH, WIDTH)))

    def run(u: torch.Tensor) -> torch.Tensor:
        for one in layers:
            u = identity_block(one, u)
        return u

    norms = jacobian_norms(run, x)[0].numpy()[::-1]
    readout, content = (v / np.linalg.norm(v) for v in stream.normal(size=(2, WIDTH)))
    leaf = x.clone().requires_grad_()
    with torch.enable_grad():
        out = run(leaf)[0, -1] @ torch.from_numpy(readout)
    scores = torch.autograd.grad(out, leaf)[0][0].numpy() @ content
    earlier = np.abs(scores[:-1])
    ratio = (scores[:-1] - (earlier.sum() - earlier)) / norms[:-1]
    return at_most("margin_below_norm", "Proposition 13", float(ratio.max()), 1.0, mixer=kind)


def retrieval_rows(asked: Sequence[Sequence[float]]) -> Iterator[dict[str, Any]]:
    """Yield rows of table ``sessa_retrieval``, without group.

    Args:
        asked: pairs of beta and k.

    Yields:
        Of every horizon some lags, logarithmically; of layers all.
    """
    for beta, layers in asked:
        about = {"beta": float(beta), "layers": int(layers), "source": SOURCE}
        for horizon in HORIZONS:
            kernel = selective_kernel(float(beta), int(layers), SOURCE, horizon, LEAK)
            lags = np.unique(np.geomspace(1, horizon, KEPT).astype(int))
            yield from _rows(kernel, lags, {"level": "kernel", "horizon": horizon, **about})
        _, found = _both(float(beta), int(layers))
        horizon = TOKENS - SOURCE - 1
        lags = np.arange(1, horizon + 1)
        yield from _rows(found, lags, {"level": "weights", "horizon": horizon, **about})


def _rows(kernel: np.ndarray, lags: np.ndarray, about: dict[str, Any]) -> Iterator[dict[str, Any]]:
    found = margins(kernel, SOURCE)
    for lag in lags.tolist():
        yield {
            **about,
            "lag": lag,
            "score": float(found.score[lag - 1]),
            "competitors": float(found.competitors[lag - 1]),
            "margin": float(found.margin[lag - 1]),
        }
