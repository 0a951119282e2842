"""Sources of short stories: name -> function of (split, own configuration keys)."""

from collections.abc import Callable, Iterator

from fedscan.data.stories import huggingface, local, synthetic
from fedscan.data.stories.story import Story

STORY_SOURCES: dict[str, Callable[..., Iterator[Story]]] = {
    "synthetic": synthetic.stories,
    "local": local.stories,
    "huggingface": huggingface.stories,
}
