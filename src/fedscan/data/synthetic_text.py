"""Synthetic documents in six styles: made-up text with the structure of the real domains.

A document has a latent topic, a handful of nouns that recur, so that context helps a model. The
styles differ in layout (LaTeX, source code, questions and answers, encyclopedia, web prose, web
pages with menus) and share most of their words, so that the domains are near or far from each
other roughly as the real ones are.
"""

from collections.abc import Callable

from fedscan.data.lexicon import Stream, lexicon

TOPIC_NOUNS = 10
TOPIC_PERCENT = 45
LINKS = ("and", "but", "while", "because", "so that", "although", "which means that")
PREPOSITIONS = ("of", "in", "with", "for", "from", "under", "near", "without")
DETERMINERS = ("the", "a", "this", "every", "their", "one")


class Writer:
    """Draws words and sentences of one document."""

    def __init__(self, domain: str, key: str) -> None:
        """Start the document ``key`` of ``domain``."""
        self.stream = Stream(key)
        self.words = lexicon(domain)
        self.topic = [self.words.nouns.draw(self.stream) for _ in range(TOPIC_NOUNS)]

    def below(self, bound: int) -> int:
        """Return an integer in [0, bound)."""
        return self.stream.below(bound)

    def between(self, low: int, high: int) -> int:
        """Return an integer in [low, high]."""
        return low + self.stream.below(high - low + 1)

    def pick(self, choices: tuple[str, ...] | list[str]) -> str:
        """Return one of the choices."""
        return choices[self.stream.below(len(choices))]

    def noun(self) -> str:
        """Return a noun, often one of the document's topic."""
        if self.below(100) < TOPIC_PERCENT:
            # The smaller of two draws: the topic has a most important word.
            return self.topic[min(self.below(TOPIC_NOUNS), self.below(TOPIC_NOUNS))]
        return self.words.nouns.draw(self.stream)

    def verb(self) -> str:
        """Return a verb in its base form."""
        return self.words.verbs.draw(self.stream)

    def adjective(self) -> str:
        """Return an adjective."""
        return self.words.adjectives.draw(self.stream)

    def phrase(self) -> str:
        """Return a noun phrase."""
        adjective = f"{self.adjective()} " if self.below(3) == 0 else ""
        tail = f" {self.pick(PREPOSITIONS)} the {self.noun()}" if self.below(4) == 0 else ""
        return f"{self.pick(DETERMINERS)} {adjective}{self.noun()}{tail}"

    def clause(self) -> str:
        """Return subject, verb and object."""
        modal = self.pick(("can", "will", "may", "did", "must", "would"))
        return f"{self.phrase()} {modal} {self.verb()} {self.phrase()}"

    def sentence(self) -> str:
        """Return a sentence."""
        text = self.clause()
        if self.below(3) == 0:
            text += f", {self.pick(LINKS)} {self.clause()}"
        return text[0].upper() + text[1:] + self.pick((".", ".", ".", ".", "?"))

    def paragraph(self, low: int, high: int) -> str:
        """Return between ``low`` and ``high`` sentences."""
        return " ".join(self.sentence() for _ in range(self.between(low, high)))

    def identifier(self) -> str:
        """Return a name as source code has them."""
        return self.noun() if self.below(3) == 0 else f"{self.verb()}_{self.noun()}"

    def title(self) -> str:
        """Return a capitalised heading."""
        return f"{self.adjective()} {self.noun()}".title()


def _arxiv(w: Writer) -> str:
    parts = [f"\\begin{{abstract}}\n{w.paragraph(4, 7)}\n\\end{{abstract}}"]
    for _ in range(w.between(3, 7)):
        parts.append(f"\\section{{{w.title()}}}\n\\label{{sec:{w.noun()}}}")
        for _ in range(w.between(2, 4)):
            cite = f"~\\cite{{{w.noun()}{w.between(1990, 2023)}}}"
            parts.append(f"{w.paragraph(2, 4)} See{cite} and Section~\\ref{{sec:{w.noun()}}}.")
            parts.append(_equation(w))
    return "\n\n".join(parts)


def _equation(w: Writer) -> str:
    left, right = w.noun()[0], w.noun()[0]
    index = w.pick(("i", "j", "k", "n"))
    form = w.pick(
        (
            f"{left}_{{{index}}} = \\sum_{{{index}=1}}^{{{w.between(2, 9)}}} \\alpha_{{{index}}}"
            f" {right}_{{{index}}}",
            f"\\|{left} - {right}\\|^2 \\leq \\frac{{{w.between(1, 9)}}}{{{left}}}",
            f"\\nabla {left}({right}) = \\lambda {right} + O({right}^{w.between(2, 4)})",
        )
    )
    return f"\\begin{{equation}}\n  {form}\n\\end{{equation}}"


def _github(w: Writer) -> str:
    module = w.identifier()
    parts = [
        f'"""{w.sentence()}\n\n{w.paragraph(1, 3)}\n"""\n\nimport {w.noun()}\nimport {module}\n'
    ]
    for _ in range(w.between(5, 14)):
        parts.append(_function(w))
    return "\n\n".join(parts) + "\n"


def _function(w: Writer) -> str:
    name, first, second = w.identifier(), w.noun(), w.noun()
    lines = [f"def {name}({first}, {second}={w.below(100)}):", f'    """{w.sentence()}"""']
    for _ in range(w.between(2, 6)):
        lines.append(
            w.pick(
                (
                    f"    {w.noun()} = {w.identifier()}({first}, {w.noun()})",
                    f"    if {first} > {w.below(64)}:\n        return {w.identifier()}({second})",
                    f"    for {w.noun()} in range({w.below(256)}):\n"
                    f"        {first}.append({w.identifier()}[{w.below(8)}])",
                    f"    # {w.clause()}",
                    f'    assert {first} is not None, "{w.noun()} must {w.verb()}"',
                )
            )
        )
    return "\n".join([*lines, f"    return {w.pick((first, second))}"])


def _stackexchange(w: Writer) -> str:
    parts = [f"Q: How can I {w.verb()} {w.phrase()}?\n\n{w.paragraph(2, 5)}"]
    if w.below(2):
        parts.append(f"I tried this:\n\n    {w.identifier()}({w.noun()}, {w.below(100)})\n")
    for _ in range(w.between(1, 3)):
        parts.append(f"A: {w.paragraph(3, 7)}")
        if w.below(3) == 0:
            parts.append(f"    {w.noun()} = {w.identifier()}({w.noun()})\n    print({w.noun()})")
    return "\n\n".join(parts)


def _wikipedia(w: Writer) -> str:
    name = w.title()
    born = w.between(1700, 1990)
    parts = [f"{name} ({born} - {born + w.between(20, 80)}) was {w.phrase()}. {w.paragraph(3, 6)}"]
    for heading in ("History", "Description", "Reception", "Legacy")[: w.between(1, 4)]:
        year = born + w.between(10, 60)
        parts.append(f"{heading}\n\nIn {year}, {name} did {w.verb()} {w.phrase()}.")
        parts.append(w.paragraph(3, 7))
    return "\n\n".join(parts)


def _c4(w: Writer) -> str:
    opening = f"Are you looking for {w.phrase()}? We {w.verb()} {w.phrase()} for you."
    parts = [f"{w.title()}", f"{opening} {w.paragraph(3, 6)}"]
    for _ in range(w.between(1, 4)):
        parts.append(w.paragraph(3, 7))
    parts.append(f"Contact us today and {w.verb()} your {w.noun()}!")
    return "\n".join(parts)


def _common_crawl(w: Writer) -> str:
    menu = " | ".join(["Home", w.noun().title(), w.noun().title(), "Archive", "Contact"])
    date = f"{w.between(1, 28)} {w.pick(('March', 'June', 'October'))} {w.between(2005, 2022)}"
    parts = [menu, f"{w.title()}", f"Posted on {date} by {w.noun().title()}"]
    for _ in range(w.between(2, 4)):
        parts.append(w.paragraph(2, 6))
        if w.below(2):
            parts.append("\n".join(f"- {w.phrase()}" for _ in range(w.between(2, 5))))
    parts.append(f"{w.between(0, 99)} comments\nShare this: {w.noun()} {w.noun()}\n{menu}")
    return "\n\n".join(parts)


STYLES: dict[str, Callable[[Writer], str]] = {
    "arxiv": _arxiv,
    "github": _github,
    "stackexchange": _stackexchange,
    "wikipedia": _wikipedia,
    "c4": _c4,
    "common_crawl": _common_crawl,
}


def document(domain: str, seed: int, index: int) -> str:
    """Return one synthetic document; the same text on every Python and platform.

    Args:
        domain: style and word order.
        seed: root seed of the data.
        index: document index within the domain.

    Returns:
        The text.
    """
    return STYLES[domain](Writer(domain, f"fedscan/{seed}/{domain}/{index}"))
