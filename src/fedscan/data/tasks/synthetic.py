"""Made-up tasks with the labels and templates of the real ones: a class is a taste in words.

A class has a few favourite words; a text mixes them with favourites of the task's other classes
and with words of no class, so that a text speaks for its class without settling it. Records are
sorted by class, as IMDB's are: whoever cuts before shuffling gets one class.
"""

import functools
import hashlib

from fedscan.data.lexicon import Stream, lexicon
from fedscan.data.tasks.definition import Example, Pool, Task

FAVOURITES = 3
FILLERS = 30
# Per cent of words that are favourites of the own class, and of another class of the task.
OWN_PERCENT, OTHER_PERCENT = 55, 10
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
    words, drawn, classes = _words(task.name), stream.below(100), len(task.labels)
    if drawn < OWN_PERCENT:
        return words[FILLERS + label * FAVOURITES + stream.below(FAVOURITES)]
    if drawn < OWN_PERCENT + OTHER_PERCENT:
        other = (label + 1 + stream.below(classes - 1)) % classes
        return words[FILLERS + other * FAVOURITES + stream.below(FAVOURITES)]
    # The smaller of two draws: some fillers are frequent, most are rare.
    return words[min(stream.below(FILLERS), stream.below(FILLERS))]


@functools.cache
def _words(task: str) -> tuple[str, ...]:
    """Return short nouns in the task's own order: fillers first, then favourites by class."""
    short = [word for word in lexicon(task).nouns.shared if len(word) in LETTERS]
    return tuple(
        sorted(short, key=lambda word: hashlib.blake2b(f"{task}/{word}".encode()).digest())
    )
