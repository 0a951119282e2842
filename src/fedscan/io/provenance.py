"""What made a result: a fingerprint of the code it used and the versions of the libraries.

Snakemake sees neither package code nor the difference between two swapped values, so every rule
tracks one canonical JSON string that holds its config keys, their values and the fingerprint made
here (see workflow/rules/common.smk).
"""

import ast
import functools
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SOURCE_ROOT = Path(__file__).resolve().parents[2]
RECORDED_PACKAGES = ("fedscan", "numpy", "pandas", "pyarrow", "torch", "tiktoken", "wonderwords")
# Name of a literal that is no code: a label, a colour, an expectation.
DECLARATION = "ABOUT"
# Registry package -> the member, or members, in use.
Choices = Mapping[str, str | Sequence[str]]


def canonical_json(value: Any) -> str:
    """Return ``value`` as JSON with sorted keys and no white space.

    Args:
        value: JSON-like data.

    Returns:
        One spelling for equal values.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits that identify JSON-like ``value``.

    Args:
        value: JSON-like data.

    Returns:
        The head of the SHA-256 of its canonical JSON.
    """
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def config_hash(
    job: Mapping[str, Any],
    hyperparameters: Mapping[str, Any],
    training: Mapping[str, Any],
    model: Mapping[str, Any],
) -> str:
    """Return the hash of every configuration value that a federated run depends on.

    Args:
        job: axes of the job.
        hyperparameters: name -> value.
        training: section ``training``.
        model: section ``model``.

    Returns:
        16 hexadecimal digits, column ``config_hash`` of table ``runs``.
    """
    return digest([dict(job), dict(hyperparameters), dict(training), dict(model)])


def is_about(node: ast.stmt) -> bool:
    """Return whether a statement is what a module declares for people, see ``fedscan.declared``.

    Args:
        node: statement of a module's top level.
    """
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == DECLARATION
    )


def code_fingerprint(*entries: str, choices: Choices | None = None) -> str:
    """Hash the syntax trees of all fedscan modules that ``entries`` import, directly or not.

    Comments, formatting, docstrings and ``ABOUT`` (see ``fedscan.declared``) do not count. A
    registry package (a literal dict over its modules) would make every member depend on every
    other; ``choices`` names the members used.

    Args:
        entries: dotted module names, e.g. ``"fedscan.experiments.comparison.training"``.
        choices: registry package -> the member, or members, whose code counts.

    Returns:
        16 hexadecimal digits, the same in every version of Python.

    Raises:
        ValueError: if an entry or a choice is not a module of this package.
    """
    members = {
        registry: (found,) if isinstance(found, str) else tuple(sorted(found))
        for registry, found in (choices or {}).items()
    }
    return _fingerprint(entries, tuple(sorted(members.items())))


@functools.cache  # the Snakefile asks once per job
def _fingerprint(entries: tuple[str, ...], choices: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    chosen = dict(choices)
    seen: set[str] = set()
    todo = list(entries)
    for registry, members in chosen.items():
        todo += [f"{registry}.{member}" for member in members]
    while todo:
        module = todo.pop()
        if module in seen or module in chosen:
            continue
        if _file(module) is None:
            raise ValueError(f"code_fingerprint: no module {module!r} under {SOURCE_ROOT.name}/")
        seen.add(module)
        todo.extend(
            name
            for name in _first_party_imports(module)
            if not any(name.startswith(f"{registry}.") for registry in chosen)
            or module.rpartition(".")[0] in chosen
        )
    hasher = hashlib.sha256()
    for module in sorted(seen):
        hasher.update(module.encode())
        hasher.update(_normalised(module).encode())
    return hasher.hexdigest()[:16]


def data_fingerprint(package: str) -> str:
    """Hash the files of a package that are not Python: templates, captions, tables.

    Args:
        package: dotted name.

    Returns:
        16 hexadecimal digits.
    """
    folder = SOURCE_ROOT.joinpath(*package.split("."))
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix != ".py")
    return digest([[p.name, hashlib.sha256(p.read_bytes()).hexdigest()] for p in files])


@functools.cache
def _file(module: str) -> Path | None:
    path = SOURCE_ROOT.joinpath(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((name for name in candidates if name.is_file()), None)


@functools.cache
def _tree(module: str) -> ast.Module:
    file = _file(module)
    if file is None:
        raise ValueError(f"no source for module {module!r}")
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def _first_party_imports(module: str) -> frozenset[str]:
    """Return the fedscan modules named by absolute imports (relative ones are banned by ruff)."""
    names: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(n for n in names if n.startswith("fedscan.") and _file(n) is not None)


@functools.cache
def _normalised(module: str) -> str:
    tree = _tree(module)
    scopes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    tree.body = [node for node in tree.body if not is_about(node)]
    for node in ast.walk(tree):
        if isinstance(node, scopes) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return _canonical(tree)


def _canonical(node: object) -> str:
    """Return a syntax tree as text; ``ast.dump`` writes another one in every version of Python."""
    if isinstance(node, ast.Constant):
        # Not repr: which characters it escapes follows the version's Unicode tables.
        return ascii(node.value)
    if isinstance(node, list):
        return f"[{','.join(map(_canonical, node))}]"
    if not isinstance(node, ast.AST):
        return ascii(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.JoinedStr):
        fields["values"] = _joined(node.values)
    # Versions add fields, which are empty where the syntax they are for is not used.
    text = ",".join(f"{name}={_canonical(value)}" for name, value in fields.items() if value)
    return f"{type(node).__name__}({text})"


def _joined(parts: Sequence[ast.expr]) -> list[ast.expr]:
    """Join the neighbouring literal parts of an f-string; before 3.12 the parser did."""
    joined: list[ast.expr] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, ast.Constant) and isinstance(last, ast.Constant):
            joined[-1] = ast.Constant(str(last.value) + str(part.value))
        else:
            joined.append(part)
    return joined


def versions() -> dict[str, str]:
    """Return the versions that can change a number: Python and the main libraries.

    Returns:
        Name -> version; packages that are not installed are left out.
    """
    found = {"python": platform.python_version()}
    for name in RECORDED_PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
