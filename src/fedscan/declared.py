"""What the algorithms' files declare, read from their syntax trees: planning imports none of them.

An algorithm's file holds its factory and ``ABOUT``, a literal:

- ``label``: its name on plots; ``look``: colour and line, Okabe and Ito's colours where they last;
- ``expectation``: the signs of its perplexity's change against FedAvg that theory expects at beta 0
  and 1 (-1 lower, 0 similar, 1 higher; paper, Table 2), None if it says nothing;
- ``local_bound``, ``server_bound``: which bound holds for its local steps and for the server's
  step, by name (``experiments.students.bounds``), None if none is known.

``ABOUT`` is not code: fingerprints pass over it, and who uses it tracks it as data.
"""

import ast
import functools
import hashlib
import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple

from fedscan.io.provenance import DECLARATION, is_about

FOLDER = Path(__file__).with_name("federated") / "algorithms"
# Arguments of a factory that are facts of the model and no hyperparameters.
FACTS = {"permutation_groups"}


class Hyperparameter(NamedTuple):
    """An argument of a factory: its annotation as text, and what the docstring says of it."""

    annotation: str
    meaning: str


class Declared(NamedTuple):
    """What one algorithm declares; see the module."""

    name: str
    summary: str
    hyperparameters: dict[str, Hyperparameter]
    label: str
    look: dict[str, Any]
    expectation: tuple[int, int] | None
    local_bound: str | None
    server_bound: str | None


@functools.cache
def algorithms() -> dict[str, Declared]:
    """Read every registered algorithm's declaration.

    Returns:
        Registry name -> declaration, in the order of the registry.

    Raises:
        ValueError: if a file declares less or more; names it.
    """
    registry = ast.parse((FOLDER / "__init__.py").read_text(encoding="utf-8"))
    (table,) = (node for node in ast.walk(registry) if isinstance(node, ast.Dict))
    names = [ast.literal_eval(key) for key in table.keys if key is not None]
    return {name: _declared(name) for name in names}


def _declared(name: str) -> Declared:
    file = FOLDER / f"{name}.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    factory = next((n for n in tree.body if getattr(n, "name", None) == name), None)
    about = next((n.value for n in tree.body if is_about(n)), None)  # type: ignore[attr-defined]
    if not isinstance(factory, ast.FunctionDef) or about is None:
        raise ValueError(f"{file}: expected a function {name} and the literal {DECLARATION}")
    said = ast.literal_eval(about)
    wanted = set(Declared._fields[3:])
    if set(said) != wanted:
        raise ValueError(
            f"{file}: {DECLARATION} has keys {sorted(said)}; expected {sorted(wanted)}"
        )
    meanings = _meanings(ast.get_docstring(factory) or "")
    hyperparameters = {}
    for argument in factory.args.kwonlyargs:
        if argument.arg in FACTS:
            continue
        if argument.annotation is None or argument.arg not in meanings:
            raise ValueError(f"{file}: {argument.arg} needs an annotation and a line in Args")
        text = ast.unparse(argument.annotation)
        hyperparameters[argument.arg] = Hyperparameter(text, meanings[argument.arg])
    summary = (ast.get_docstring(tree) or "").splitlines()[0]
    return Declared(name, summary, hyperparameters, **said)


def _meanings(docstring: str) -> dict[str, str]:
    """Return what the section Args says, without the full stops."""
    _, _, rest = inspect.cleandoc(docstring).partition("Args:\n")
    body = re.split(r"\n\S", rest, maxsplit=1)[0]
    entries = re.split(r"(?m)^    (?=\w+: )", body)
    pairs = (entry.partition(": ") for entry in entries if ": " in entry)
    return {name: " ".join(text.split()).removesuffix(".") for name, _, text in pairs}


def shown() -> str:
    """Return a digest of how algorithms are shown and what is expected of them.

    Returns:
        To be tracked by stages that draw or judge them: fingerprints pass over ``ABOUT``.
    """
    found = [
        (d.name, d.label, sorted(d.look.items()), d.expectation) for d in algorithms().values()
    ]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]
