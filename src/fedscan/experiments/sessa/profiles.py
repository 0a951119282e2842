"""What of a token reaches a later one, in one layer: with routing kept fixed, and end to end.

All are of the last position t over all sources tau, in float64.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedscan.models.attention import rotate
from fedscan.models.gated_mamba2 import GatedMamba2
from fedscan.models.mamba2 import Mamba2
from fedscan.models.sequence_model import Block
from fedscan.models.sessa import Sessa

HOPS = 8
# Of Mamba2: lags from which the smallest mean step size is taken.
FIRST_LAG = 8


class Profile(NamedTuple):
    """One profile of a layer.

    Attributes:
        kind: 'forward' (weights of the forward attention), 'feedback' (|K|), 'mixer' (the whole
            mixer), 'memory' (Mamba2's decay alone).
        head: from 0; -1 for none.
        values: |.| at lags 0, 1, ..., (sequences, length).
        bound: on ``values``, of Theorem 8 with realised constants; None where nothing is claimed.
    """

    kind: str
    head: int
    values: Tensor
    bound: Tensor | None = None


class Routing(NamedTuple):
    """A Sessa layer's routing of some sequences.

    Attributes:
        forward: weights of the forward attention, (batch, heads, length, length).
        feedback: alpha^b, strictly lower triangular, (batch, length, length).
        logits: of the feedback, those with j >= t not meant, (batch, length, length).
        gains: (batch, length).
        f: what enters the loop, (batch, length, width).
    """

    forward: Tensor
    feedback: Tensor | None
    logits: Tensor | None
    gains: Tensor | None
    f: Tensor


@torch.no_grad()
def routing(layer: Sessa, hidden: Tensor) -> Routing:
    """Return a layer's routing.

    Args:
        layer: a Sessa layer, or attention (no loop).
        hidden: normalised input, (batch, length, d_model).

    Returns:
        Weights, gains.
    """
    inner = F.gelu(layer.in_proj(hidden).chunk(2, dim=-1)[0])
    q, k = (
        p(inner).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        for p in (layer.q_proj, layer.k_proj)
    )
    scores = rotate(q) @ rotate(k).mT / q.shape[-1] ** 0.5
    length = hidden.shape[1]
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    forward = scores.masked_fill(later, -torch.inf).softmax(-1)
    f = layer.attend(inner)
    if not layer.loop:
        return Routing(forward, None, None, None, f)
    logits = layer.logits(inner)
    feedback = logits.masked_fill(later | torch.eye(length, dtype=torch.bool), -torch.inf)
    feedback = feedback.softmax(-1).nan_to_num(0.0)  # row 0 has no entry
    return Routing(forward, feedback, logits, layer.gains(inner), f)


def profiles(layer: nn.Module, hidden: Tensor) -> Iterator[Profile]:
    """Yield a layer's profiles with its routing kept fixed.

    Args:
        layer: Sessa's, attention's, or Mamba2's with or without the gate around it.
        hidden: normalised input, (batch, length, d_model).

    Yields:
        One per kind and head.
    """
    yield from KINDS[type(layer)](layer, hidden)


def _sessa(layer: Sessa, hidden: Tensor) -> Iterator[Profile]:
    found = routing(layer, hidden)
    for head in range(layer.heads):
        yield Profile("forward", head, _by_lag(found.forward[:, head, -1]))
    if found.feedback is None or found.gains is None:
        return
    B = found.gains[..., None] * found.feedback
    last = torch.zeros(len(B), B.shape[1], 1, dtype=B.dtype)
    last[:, -1] = 1
    # The last row of K = (I - B)^-1.
    row = torch.linalg.solve_triangular(-B.mT, last, upper=True, unitriangular=True)[..., 0]
    yield Profile("feedback", -1, _by_lag(row.abs()), _bound(found.feedback, found.gains))
    for head in range(layer.heads):
        mixed = (row[:, None] @ found.forward[:, head])[:, 0]
        yield Profile("mixer", head, _by_lag(mixed.abs()))


def _bound(feedback: Tensor, gains: Tensor) -> Tensor | None:
    """Return eta e^eta lag^-(1 - eta) per sequence, where eta = rho c2 is below 1 in all."""
    eta = gain_and_c2(feedback, gains)[2]
    if float(eta.max()) >= 1:
        return None
    lags = torch.arange(feedback.shape[1], dtype=eta.dtype).clamp(min=1)
    return (eta * eta.exp())[:, None] * lags ** (eta - 1)[:, None]


def gain_and_c2(feedback: Tensor, gains: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return rho = max |gamma|, c2 = max t alpha_tj and eta = rho c2 of every sequence.

    Args:
        feedback: alpha^b, (batch, length, length).
        gains: (batch, length).

    Returns:
        Three of (batch).
    """
    rho = gains[:, 1:].abs().amax(-1) if gains.shape[1] > 1 else 0 * gains[:, 0]
    positions = torch.arange(feedback.shape[1], dtype=gains.dtype)
    c2 = (positions[:, None] * feedback).amax((-1, -2))
    return rho, c2, rho * c2


def _gated_mamba2(layer: GatedMamba2, hidden: Tensor) -> Iterator[Profile]:
    yield from _mamba2(layer.mixer, F.gelu(layer.in_proj(hidden).chunk(2, dim=-1)[0]))


def _mamba2(layer: Mamba2, hidden: Tensor) -> Iterator[Profile]:
    _, _, B, C, dt = layer.projections(hidden)
    decay = (dt * layer.decay_rates()).double()
    total = decay.cumsum(1)
    memory = (total[:, -1:] - total).exp()
    heads = layer.nheads // layer.ngroups
    meeting = torch.einsum("bgn,blgn->blg", C[:, -1], B).repeat_interleave(heads, dim=-1)
    whole = meeting.abs() * dt * memory
    for head in range(layer.nheads):
        yield Profile("memory", head, _by_lag(memory[..., head]))
        yield Profile("mixer", head, _by_lag(whole[..., head]))


KINDS: dict[type[nn.Module], Callable[..., Iterator[Profile]]] = {
    Sessa: _sessa,
    GatedMamba2: _gated_mamba2,
    Mamba2: _mamba2,
}


def _by_lag(values: Tensor) -> Tensor:
    """Turn (batch, source) into (batch, lag)."""
    return values.flip(-1)


def jacobian_norms(run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return the spectral norms of d y_t / d x_tau for the last t.

    Args:
        run: (batch, length, width) -> the same.
        x: input.

    Returns:
        By lag, (batch, length); one reverse pass per output channel.
    """
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        last = run(leaf)[:, -1].sum(0)
    rows = [torch.autograd.grad(channel, leaf, retain_graph=True)[0] for channel in last.unbind()]
    return _by_lag(torch.linalg.matrix_norm(torch.stack(rows, dim=2), ord=2))


def inputs(blocks: nn.ModuleList, embedded: Tensor) -> list[Tensor]:
    """Return what enters every block.

    Args:
        blocks: of a model.
        embedded: (batch, length, d_model).

    Returns:
        The residual stream before each.
    """
    found = [embedded]
    with torch.no_grad():
        for block in blocks[:-1]:
            found.append(block(found[-1]))
    return found


@torch.no_grad()
def regime(block: Block, residual: Tensor) -> Iterator[tuple[str, float]]:
    """Yield a layer's regime.

    Args:
        block: of a model.
        residual: what enters it, (batch, length, d_model).

    Yields:
        Name and value of every quantity, over all sequences.
    """
    layer, hidden = block.layer, block.norm(residual)
    if isinstance(layer, Sessa):
        yield from _sessa_regime(routing(layer, hidden))
    elif isinstance(layer, GatedMamba2):
        inner = F.gelu(layer.in_proj(hidden).chunk(2, dim=-1)[0])
        yield from _mamba2_regime(layer.mixer, inner)
    else:
        yield from _mamba2_regime(layer, hidden)


def _sessa_regime(found: Routing) -> Iterator[tuple[str, float]]:
    yield from _weights("forward", found.forward[:, :, 1:], 2)
    if found.feedback is None or found.gains is None or found.logits is None:
        return
    yield from _weights("feedback", found.feedback[:, None, 2:], 2)
    earlier = torch.ones_like(found.feedback, dtype=torch.bool).tril(-1)
    high = found.logits.masked_fill(~earlier, -torch.inf).amax(-1)
    low = found.logits.masked_fill(~earlier, torch.inf).amin(-1)
    yield "logit_spread", float((high - low)[:, 1:].max())
    gains = found.gains
    yield "gain_min", float(gains.min())
    yield "gain_median", float(gains.median())
    yield "gain_max", float(gains.max())
    rho, c2, eta = (float(part.max()) for part in gain_and_c2(found.feedback, gains))
    yield "rho", rho
    yield "c2", c2
    yield "eta", eta
    yield "implied_beta", 1 - eta
    B = gains[..., None] * found.feedback
    whole = torch.linalg.solve_triangular(-B, found.f, upper=False, unitriangular=True)
    term, total = found.f, found.f
    for hops in range(HOPS + 1):
        yield f"hops_{hops}", float(total.norm() / whole.norm())
        term = B @ term
        total = total + term


def _weights(name: str, rows: Tensor, first: int) -> Iterator[tuple[str, float]]:
    """Yield mean entropy, over that of uniform weights, and mean effective support, as a share."""
    counts = torch.arange(rows.shape[-2], dtype=rows.dtype) + first
    entropy = -torch.special.xlogy(rows, rows).sum(-1) / counts.log()
    yield f"entropy_{name}", float(entropy.mean())
    yield f"support_{name}", float((1 / rows.square().sum(-1) / counts).mean())


def _mamba2_regime(layer: Mamba2, hidden: Tensor) -> Iterator[tuple[str, float]]:
    dt = layer.projections(hidden)[-1].double()
    length = dt.shape[1]
    sums = F.pad(dt.cumsum(1), (0, 0, 1, 0))
    slowest = torch.full(dt.shape[::2], torch.inf, dtype=dt.dtype)
    for lag in range(min(FIRST_LAG, length), length + 1):
        slowest = torch.minimum(slowest, ((sums[:, lag:] - sums[:, :-lag]) / lag).amin(1))
    smallest, rates = slowest.amin(0), -layer.decay_rates().double()
    yield "step_mean_min", float(smallest.min())
    yield "step_mean_median", float(smallest.median())
    yield "rate_min", float(rates.min())
    yield "rate_max", float(rates.max())
    # Memory of the first token is below 1/e at the last one, whatever the tokens.
    yield "heads_that_forget", float((smallest * rates * (length - 1) >= 1).double().mean())
