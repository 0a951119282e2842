"""Made-up tasks with the labels and templates of the real ones: a class is a taste in words.

A class has a few favourite words with a first letter of their own, which models of a few thousand
parameters can learn to see in minutes. A text mixes them with favourites of the task's other
classes and with words of no class, so that it speaks for its class without settling it. Records
are sorted by class, as IMDB's are: whoever cuts before shuffling gets one class.
"""

import functools
import hashlib
from typing import NamedTuple

from fedscan.data.lexicon import Stream, lexicon
from fedscan.data.tasks.definition import Example, Pool, Task

FAVOURITES = 4
FILLERS = 30
# Per cent of words that are favourites of the own class, and of another class of the task.
OWN_PERCENT, OTHER_PERCENT = 70, 10
FEWEST_WORDS, MORE_WORDS = 4, 3
LETTERS = range(3, 7)


def pool(task: Task, split: str, *, train_pool: int, evaluation_pool: int) -> Pool:
    """Return the records of a split.

    Args:
        task: gives fields and labels.
        split: 'train' or 'evaluation'; their texts are drawn apart.
        train_pool: records of the training split.
        evaluation_pool: records of the evaluation split.

    Returns:
        Records sorted by class, as many of each as of any other, give or take one.
    """
    size = {"train": train_pool, "evaluation": evaluation_pool}[split]

    def get(index: int) -> Example:
        label = index * len(task.labels) // size
        stream = Stream(f"{task.name}/{split}/{index}")
        fields = {field: _text(task, label, stream) for field in task.fields}
        return Example(fields, label)

    return Pool(size, get, f"synthetic {task.name}")


def _text(task: Task, label: int, stream: Stream) -> str:
    # Several fields share the words of one: prompts of all tasks are then about equally long.
    fewest = max(FEWEST_WORDS // len(task.fields), 1)
    count = fewest + stream.below(MORE_WORDS)
    return " ".join(_word(task, label, stream) for _ in range(count))


def _word(task: Task, label: int, stream: Stream) -> str:
    words, drawn, classes = _words(task.name, len(task.labels)), stream.below(100), len(task.labels)
    if drawn < OWN_PERCENT:
        return words.favourites[label][stream.below(FAVOURITES)]
    if drawn < OWN_PERCENT + OTHER_PERCENT:
        other = (label + 1 + stream.below(classes - 1)) % classes
        return words.favourites[other][stream.below(FAVOURITES)]
    # The smaller of two draws: some fillers are frequent, most are rare.
    return words.fillers[min(stream.below(FILLERS), stream.below(FILLERS))]


class _Words(NamedTuple):
    favourites: tuple[tuple[str, ...], ...]
    fillers: tuple[str, ...]


@functools.cache
def _words(task: str, classes: int) -> _Words:
    """Share out short nouns, in the task's own order of letters and words."""

    def key(text: str) -> bytes:
        return hashlib.blake2b(f"{task}/{text}".encode()).digest()

    short = sorted((w for w in lexicon(task).nouns.shared if len(w) in LETTERS), key=key)
    by_letter: dict[str, list[str]] = {}
    for word in short:
        by_letter.setdefault(word[0], []).append(word)
    letters = sorted((x for x, found in by_letter.items() if len(found) >= FAVOURITES), key=key)
    favourites = tuple(tuple(by_letter[letter][:FAVOURITES]) for letter in letters[:classes])
    taken = set(letters[:classes])
    fillers = tuple(word for word in short if word[0] not in taken)[:FILLERS]
    return _Words(favourites, fillers)
