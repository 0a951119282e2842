"""Writing on from a prompt, token by token, with caches where layers have them."""

from collections.abc import Iterator

import torch
from torch import Tensor

from fedscan.models.sequence_model import SequenceModel
from fedscan.models.sessa import Sessa
from fedscan.models.sessa_decode import Cache, prefill, step


@torch.no_grad()
def next_logits(model: SequenceModel, prompt: Tensor, count: int) -> Iterator[Tensor]:
    """Yield the logits after a prompt, then after every token that is sent.

    A generator: ``send`` the tokens that were chosen, (batch) int64.

    Args:
        model: all layers of attention or Sessa use caches; with others all is read again.
        prompt: (batch, length) int64.
        count: tokens that will be sent at most.

    Yields:
        (batch, vocabulary).
    """
    cached = all(isinstance(block.layer, Sessa) for block in model.blocks)
    yield from (_cached if cached else _again)(model, prompt, count)


def _cached(model: SequenceModel, prompt: Tensor, count: int) -> Iterator[Tensor]:
    capacity, caches = prompt.shape[1] + count, list[Cache]()
    residual = model.embedding(prompt)
    for block in model.blocks:
        change, cache = prefill(block.layer, block.norm(residual), capacity)
        residual = residual + change.to(residual.dtype)
        caches.append(cache)
    last = residual[:, -1]
    for _ in range(count + 1):
        token = yield model.logits(model.norm(last))
        if token is None:
            return
        last = model.embedding(token)
        for index, block in enumerate(model.blocks):
            change, caches[index] = step(block.layer, block.norm(last), caches[index])
            last = last + change.to(last.dtype)


def _again(model: SequenceModel, prompt: Tensor, count: int) -> Iterator[Tensor]:
    ids = prompt
    for _ in range(count + 1):
        token = yield model.logits(model(ids)[:, -1])
        if token is None:
            return
        ids = torch.cat([ids, token[:, None]], dim=1)


@torch.no_grad()
def sample(
    model: SequenceModel, prompt: Tensor, count: int, temperature: float, seed: int
) -> Tensor:
    """Write on from a prompt.

    Args:
        model: of any mixer.
        prompt: (length) int64, at least one token.
        count: tokens to write.
        temperature: of the softmax; 0 takes the most probable token.
        seed: of the draws.

    Returns:
        (count) int64.
    """
    generator = torch.Generator().manual_seed(seed)
    logits, chosen = next_logits(model, prompt[None], count), list[Tensor]()
    found = next(logits)
    for index in range(count):
        if temperature == 0:
            token = found.argmax(-1)
        else:
            chances = (found / temperature).softmax(-1).cpu()
            token = torch.multinomial(chances, 1, generator=generator)[:, 0].to(prompt.device)
        chosen.append(token)
        if index + 1 < count:
            found = logits.send(token)  # type: ignore[attr-defined]
    return torch.cat(chosen)
