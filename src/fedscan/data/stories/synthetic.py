"""Made-up stories: a hero, a companion and a thing that is lost come back to the end.

Small vocabulary, and names that recur far apart, so that context helps; three themes with words of
their own, so that clients can be told apart.
"""

from collections.abc import Iterator
from itertools import count

from fedscan.data.lexicon import Stream
from fedscan.data.stories.story import Story

HEROES = ("Mina", "Tom", "Ava", "Leo", "Nora", "Finn", "Ida", "Sam", "Lily", "Oskar")
ADJECTIVES = ("small", "old", "red", "kind", "quiet", "brave", "tired", "happy")
# Companions, places, things.
THEMES = {
    "farm": (
        ("goat", "hen", "horse", "duck"),
        ("barn", "field", "hill"),
        ("bell", "hat", "basket"),
    ),
    "sea": (
        ("crab", "seal", "gull", "whale"),
        ("beach", "harbour", "cave"),
        ("net", "shell", "oar"),
    ),
    "town": (
        ("cat", "dog", "pigeon", "mouse"),
        ("market", "bridge", "square"),
        ("key", "kite", "lamp"),
    ),
}
MIDDLES = (
    "They looked {where} the {place}, but the {thing} was not there.",
    'The {friend} said, "Maybe the {thing} is {where} the {place}."',
    "It began to rain, and {hero} wanted to go home.",
    "{hero} asked the {friend} to wait {where} the {place}.",
    "The {friend} was {adjective}, and {hero} was {adjective2} too.",
)
ENDS = (
    "At last {hero} found the {thing} {where} the {place}.",
    "Then the {friend} came back with the {thing}.",
)
PLACES = ("behind", "under", "near", "inside")


def stories(split: str, *, seed: int) -> Iterator[Story]:
    """Yield made-up stories without end.

    Args:
        split: 'train' or 'test': stories of their own.
        seed: root seed.

    Yields:
        A story of each theme in turn.
    """
    for number in count():
        theme = list(THEMES)[number % len(THEMES)]
        yield Story(_story(Stream(f"story/{seed}/{split}/{number}"), theme), theme)


def _story(stream: Stream, theme: str) -> str:
    animals, places, things = THEMES[theme]

    def pick(choices: tuple[str, ...]) -> str:
        return choices[stream.below(len(choices))]

    cast = {"hero": pick(HEROES), "friend": pick(animals), "thing": pick(things)}

    def said(text: str) -> str:
        drawn = {
            "where": pick(PLACES),
            "place": pick(places),
            "adjective": pick(ADJECTIVES),
            "adjective2": pick(ADJECTIVES),
        }
        return text.format(**cast, **drawn)

    parts = [
        said("{hero} lived by the {place} with a {adjective} {friend}."),
        said("One day {hero} lost a {thing} {where} the {place}."),
        *(said(pick(MIDDLES)) for _ in range(2 + stream.below(4))),
        said(pick(ENDS)),
        said("{hero} thanked the {friend} and put the {thing} away."),
    ]
    return " ".join(parts)
