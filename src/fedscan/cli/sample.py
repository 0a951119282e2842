"""Writing on from a prompt with a model of Sessa's comparison."""

from pathlib import Path

import torch

from fedscan.data.stories.sequences import BYTES_END, END
from fedscan.experiments.sessa.example import VOCABULARY
from fedscan.experiments.sessa.inputs import read_vocabulary
from fedscan.experiments.sessa.model_files import read_model
from fedscan.io import checkpoints
from fedscan.models.generate import sample
from fedscan.models.sequence_model import SequenceModel
from fedscan.models.sequence_shape import SequenceShape


def written(model: Path, prompt: str, count: int, temperature: float, seed: int) -> str:
    """Return a prompt with what a model of stories writes on.

    Args:
        model: file below results/sessa/training/task=stories/.
        prompt: how the story begins.
        count: tokens to write.
        temperature: of the softmax; 0 takes the most probable token.
        seed: of the draws.

    Returns:
        Text; what is no UTF-8 is replaced, ends of stories are line ends.

    Raises:
        ValueError: if the file is no model of this room, its data are not there, or the prompt is
            empty.
    """
    _, facts = checkpoints.load(model)
    try:
        shape = SequenceShape(**facts["shape"])
    except (KeyError, TypeError):
        raise ValueError(f"{model}: no model of Sessa's comparison") from None
    task = next((part for part in model.resolve().parts if part.startswith("task=")), None)
    if task != "task=stories":
        raise ValueError(
            f"{model}: a model of {task or 'no task'}; only those of stories write text"
        )
    vocabulary, _ = read_vocabulary(_room(model) / "data" / task)
    ids = _encode(vocabulary.description, prompt)
    if not ids:
        raise ValueError("the prompt is empty: give at least one character")
    network = SequenceModel(shape)
    network.load_state_dict(read_model(model, shape), strict=not shape.tied_head)
    found = sample(network.requires_grad_(False), torch.tensor(ids), count, temperature, seed)
    return _decode(vocabulary.description, [*ids, *found.tolist()])


def _room(model: Path) -> Path:
    """Return the folder that holds training/ and data/."""
    for parent in model.resolve().parents:
        if parent.name == "training":
            return parent.parent
    raise ValueError(f"{model}: not below a folder training/, beside whose data/ {VOCABULARY} is")


def _encode(description: str, text: str) -> list[int]:
    if not description:
        return list(text.encode())
    from tokenizers import Tokenizer

    return list(Tokenizer.from_str(description).encode(text).ids)


def _decode(description: str, ids: list[int]) -> str:
    if not description:
        kept = [ord("\n") if i == BYTES_END else i for i in ids]
        return bytes(kept).decode("utf-8", "replace")
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(description)
    return str(tokenizer.decode(ids, skip_special_tokens=False)).replace(END, "\n")
