"""Read configuration files, merge them, validate, and word every error in one line.

Files are merged key by key, later ones win; lists are replaced. An error names file, line, key,
value and what is allowed.
"""

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from fedscan.config.compose import Config, broken_rules
from fedscan.config.types import Section

Location = tuple[str | int, ...]


class ConfigError(ValueError):
    """The configuration is not valid; one line per problem."""


def load(files: Sequence[str | os.PathLike[str]], entries: Iterable[str] = ()) -> Section:
    """Read, merge and validate configuration files.

    Args:
        files: YAML files, later ones override earlier ones.
        entries: "key=value" of Snakemake's ``--config``, which override all files.

    Returns:
        The validated configuration.

    Raises:
        ConfigError: one line per problem.
    """
    merged: dict[str, Any] = {}
    for file in files:
        _merge(merged, _read(Path(file)))
    sources: list[Source | CommandLine] = [Source(Path(file)) for file in files]
    for entry in entries:
        key, _, value = entry.partition("=")
        override = {key: _parsed(value.strip("'\""), f"--config {key}")}
        _merge(merged, override)
        sources.append(CommandLine(override))
    return validate(merged, sources)


def validate(merged: Mapping[str, Any], sources: "Sequence[Source | CommandLine]" = ()) -> Section:
    """Validate a merged configuration.

    Args:
        merged: the configuration, as YAML gives it.
        sources: where it came from, in merge order: they place errors and know repeated keys.

    Returns:
        The validated configuration.

    Raises:
        ConfigError: one line per problem.
    """
    repeated = [line for source in sources for line in source.repeated]
    if repeated:
        raise ConfigError("\n".join(repeated))
    try:
        config = Config.model_validate_json(_as_json(merged, "configuration"))
    except ValidationError as error:
        problems = [(tuple(e["loc"]), e["input"], _message(dict(e))) for e in error.errors()]
    else:
        problems = broken_rules(config)
        if not problems:
            return config
    raise ConfigError("\n".join(_line(sources, *problem) for problem in problems))


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such configuration file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read ({error})") from None
    content = _parsed(text, file)
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: expected a mapping of sections, found {content!r}")
    return content


def _parsed(text: str, where: object) -> Any:
    try:
        content = yaml.safe_load(text)
    except RecursionError:
        raise ConfigError(f"{where}: not usable YAML: nested too deeply") from None
    # Not only YAMLError: PyYAML lets through what int(), date() and its tables raise.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
        message = " ".join(str(error).split())
        raise ConfigError(f"{where}: not valid YAML: {message}") from None
    # Names are text: 1 and "1" are one key, in whatever file it stands.
    return json.loads(_as_json(content, where))


def _as_json(content: Any, where: object) -> str:
    """Return JSON: strict mode then still takes lists for tuples and 1: as a name in a mapping."""
    try:
        return json.dumps(content, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        text = f"{where}: {error}; keys are names, and nothing may contain itself"
        raise ConfigError(text) from None


def _merge(base: dict[str, Any], override: Mapping[str, Any]) -> None:
    for key, value in override.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = dict(value) if isinstance(value, Mapping) else value


ODD_NUMBER = r"[-+]?(0[0-7_]*[0-7]|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)"


class Source:
    """Where each key of one file stands."""

    def __init__(self, file: Path) -> None:
        """Index the lines of ``file``; a missing or broken file has none (reading reports it)."""
        self.file = file
        self.lines: dict[Location, int] = {}
        self.repeated: list[str] = []
        self._words: dict[Location, str] = {}
        try:
            root = yaml.compose(file.read_text(encoding="utf-8"))
            if root is not None:
                self._index(root, ())
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            return

    def place(self, location: Location) -> str | None:
        """Return where ``location`` stands, None if it does not."""
        return f"{self.file}:{self.lines[location]}" if location in self.lines else None

    def word(self, location: Location) -> str | None:
        """Return how a truth value at ``location`` is spelled, if as another word."""
        return self._words.get(location)

    def _index(self, node: yaml.Node, location: Location) -> None:
        if isinstance(node, yaml.ScalarNode):
            if _is_word(node):
                self._words[location] = node.value
            self._refuse_odd_number(node, location)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*location, key.value)
                line = key.start_mark.line + 1
                if _is_word(key):
                    self.repeated.append(
                        f"{self.file}:{line}: {'.'.join(map(str, inner))}:"
                        f" {_truth(key.value)}; put it in quotes"
                    )
                self._refuse_odd_number(key, inner)
                if inner in self.lines:
                    self.repeated.append(
                        f"{self.file}:{line}: {'.'.join(map(str, inner))}: this key appears twice"
                        f" (first on line {self.lines[inner]}); keep one"
                    )
                self.lines[inner] = line
                self._index(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[(*location, index)] = item.start_mark.line + 1
                self._index(item, (*location, index))

    def _refuse_odd_number(self, node: yaml.Node, location: Location) -> None:
        """Refuse 010, which YAML 1.1 reads as 8, and 1:30, which it reads as 90."""
        if node.tag.endswith((":int", ":float")) and re.fullmatch(ODD_NUMBER, node.value):
            self.repeated.append(
                f"{self.file}:{node.start_mark.line + 1}: {'.'.join(map(str, location))} ="
                f" {node.value}: YAML reads it as {yaml.safe_load(node.value)}; write the number"
                " plainly, or a name in quotes"
            )


def _is_word(node: yaml.Node) -> bool:
    return node.tag.endswith(":bool") and node.value.lower() not in ("true", "false")


def _truth(word: str) -> str:
    return f"YAML reads {word} as {str(yaml.safe_load(word)).lower()}"


class CommandLine:
    """Where each key of Snakemake's ``--config`` stands."""

    def __init__(self, override: Mapping[str, Any]) -> None:
        """Index the keys of one entry."""
        self.repeated: list[str] = []
        self.keys: set[Location] = set()
        self._index(override, ())

    def _index(self, content: Any, location: Location) -> None:
        self.keys.add(location)
        if isinstance(content, Mapping | list):
            pairs = content.items() if isinstance(content, Mapping) else enumerate(content)
            for key, value in pairs:
                self._index(value, (*location, key))

    def place(self, location: Location) -> str | None:
        """Return where ``location`` stands, None if it does not."""
        return "--config" if location in self.keys else None

    def word(self, _location: Location) -> str | None:
        """Return None: the spelling is not kept."""
        return None


def _line(
    sources: Sequence[Source | CommandLine], location: Location, value: Any, message: str
) -> str:
    # One line, whatever characters a key has.
    spelt = (c if c.isprintable() else ascii(c)[1:-1] for c in ".".join(map(str, location)))
    key = "".join(spelt) or "(whole file)"
    shown = "" if isinstance(value, dict) else f" = {value!r}"
    # The file that is merged last and has the key, as in _where.
    source = next((s for s in reversed(sources) if s.place(location)), None)
    word = source.word(location) if source and isinstance(value, bool) else None
    hint = f" ({_truth(word)}; put it in quotes)" if word else ""
    return f"{_where(sources, location)}: {key}{shown}: {message}{hint}"


def _where(sources: Sequence[Source | CommandLine], location: Location) -> str:
    """Name the file and line of ``location`` or, if it is missing, of the section it belongs in."""
    for length in range(len(location), 0, -1):
        for source in reversed(sources):
            if place := source.place(location[:length]):
                return place
    files = [source.file for source in sources if isinstance(source, Source)]
    return str(files[-1]) if files else "command line"


def _message(error: dict[str, Any]) -> str:
    kind, value = error["type"], error["input"]
    if kind == "extra_forbidden":
        allowed = _allowed_keys(error["loc"][:-1])
        near = difflib.get_close_matches(str(error["loc"][-1]), allowed, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"unknown key; {hint}allowed here: {', '.join(allowed)}"
    if kind == "missing":
        return "this key is required"
    if kind in ("float_type", "int_type") and isinstance(value, str):
        wanted = "a number" if kind == "float_type" else "a whole number"
        return f"expected {wanted}, found text{_number_hint(value)}"
    if kind == "literal_error":
        return f"expected one of {error['ctx']['expected']}"
    text: str = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return text.replace("should be", "must be").replace(" after validation", "")


def _number_hint(value: str) -> str:
    """Explain numbers that YAML 1.1 takes for text, such as 1e-3."""
    try:
        number = float(value)
    except ValueError:
        return ""
    mantissa, mark, exponent = value.lower().partition("e")
    signed = exponent.startswith(("+", "-"))
    if mark and not ("." in mantissa and signed):
        point, sign = "" if "." in mantissa else ".0", "" if signed else "+"
        return f" (YAML reads {value} as text; write {mantissa}{point}e{sign}{exponent})"
    return f" (remove the quotes: {number:g})"


def _allowed_keys(location: Location) -> list[str]:
    model: Any = Config
    for part in location:
        fields = getattr(model, "model_fields", {})
        model = fields[part].annotation if part in fields else _member(model)
        model = _section(model)
    return sorted(getattr(model, "model_fields", {}))


def _member(annotation: Any) -> Any:
    """Return the value type of a dict annotation."""
    return getattr(annotation, "__args__", (None,))[-1]


def _section(annotation: Any) -> Any:
    """Return the section class inside ``X | None`` or ``Annotated[dict[...]]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = [a for a in getattr(annotation, "__args__", ()) if isinstance(a, type)]
    sections = [a for a in inner if issubclass(a, BaseModel)]
    return (
        sections[0]
        if len(sections) == 1 and len(inner) <= 2 and type(None) in inner
        else annotation
    )
