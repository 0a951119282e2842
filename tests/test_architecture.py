"""The design, enforced: layers, sizes, names, purity, thin scripts."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path("src/fedscan")
FILES = sorted(PACKAGE.rglob("*.py"))
# Package or top-level module -> fedscan packages it may import (design, section 2).
LAYERS = {
    "seeds": set(),
    "grid": set(),
    "io": set(),
    "params": set(),
    "theory": set(),
    "data": {"seeds", "io"},
    "models": {"params"},
    "federated": {"params"},
    "measure": {"params"},
    "merging": {"params"},
    "teachers": {"models", "seeds"},
    "problems": {"federated", "models", "data", "measure", "teachers", "params", "seeds"},
    "analysis": set(),
    "report": {"analysis"},
    "student_grid": {"grid"},
    "config_types": set(),
    "config_algorithms": {"config_types"},
    "config_synthetic": {"config_types", "config_algorithms"},
    "config_analysis": {"config_types"},
    "config_merging": {"config_types"},
    "config_merging_rules": {"config"},
    "merging_grid": {"grid"},
    "config": {
        "config_types",
        "config_algorithms",
        "config_analysis",
        "config_synthetic",
        "config_merging",
    },
    "config_rules": {"config", "config_algorithms", "config_merging_rules"},
    "config_files": {"config", "config_rules"},
    "pipeline": {"io"},
    "stages": None,
    "cli": None,
    "cli_views": None,
}
PURE = {
    "report",
    "params",
    "theory",
    "measure",
    "federated",
    "merging",
    "analysis",
    "models",
    "problems",
}
IMPURE_MODULES = {"os", "pathlib", "logging", "time", "shutil", "subprocess", "random", "sys"}
TORCH_FREE = {
    "report",
    "seeds",
    "grid",
    "student_grid",
    "io",
    "theory",
    "data",
    "analysis",
    "config",
}
TORCH_FREE |= {
    "report",
    "config_analysis",
    "config_files",
    "config_types",
    "config_algorithms",
    "config_synthetic",
}
TORCH_FREE |= {"merging_grid", "config_merging", "config_merging_rules"}
VAGUE = {"utils", "util", "helpers", "common", "misc", "tools", "core"}
CONFIG_WORDS = {"cfg", "config", "args", "opts", "kwargs", "settings", "options"}
ALLOWED_BASES = {"NamedTuple", "Protocol", "Exception", "BaseModel", "Section", "Enum"}
# Numba is extended by subclassing its types and data models.
ALLOWED_BASES |= {"Type", "PrimitiveModel"}
# A derivative of one's own is a subclass of torch.autograd.Function.
ALLOWED_BASES |= {"Function"}


def tree(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def package(file):
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return parts[0] if parts[0] != "__init__" else None


def imports(file):
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def functions(file):
    nodes = ast.walk(tree(file))
    return [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_imports_follow_the_layers(file):
    own = package(file)
    if own is None:
        return
    assert own in LAYERS, f"{own} is in no layer"
    allowed = LAYERS[own]
    for name in imports(file):
        parts = name.split(".")
        if parts[0] == "fedscan" and len(parts) > 1 and parts[1] != own and allowed is not None:
            assert parts[1] in allowed, f"{file}: {own} may not import {name}"
        if own in TORCH_FREE:
            assert parts[0] != "torch", f"{file} imports torch"


@pytest.mark.parametrize("file", FILES, ids=str)
def test_sizes(file):
    lines = file.read_text().count("\n")
    algorithm = file.parent.name == "algorithms" and file.name != "__init__.py"
    statements = [own_lines(n) for n in functions(file)]
    assert lines <= 300
    if algorithm:
        assert lines - docstring_lines(tree(file)) - sum(map(docstring_lines, functions(file))) < 80
    assert all(length <= 40 for length in statements), max(statements)


def own_lines(function):
    """Lines without docstring and without nested functions, which are counted by themselves."""
    nested = [n for n in function.body if isinstance(n, ast.FunctionDef)]
    inner = sum(n.end_lineno - n.lineno + 1 for n in nested)
    return function.end_lineno - function.lineno + 1 - docstring_lines(function) - inner


def docstring_lines(node):
    if ast.get_docstring(node) is None:
        return 0
    return node.body[0].end_lineno - node.body[0].lineno + 1


@pytest.mark.parametrize("file", FILES, ids=str)
def test_names_and_bases(file):
    assert file.stem not in VAGUE
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).split(".")[-1] for base in node.bases}
            allowed = ALLOWED_BASES | {"Module", "ValueError", "ArithmeticError"}
            assert bases <= allowed, f"{node.name} inherits {bases - allowed}"
        if isinstance(node, ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names)


# The one place that has to prepare another package's import.
IMPORTERS = {"mamba_ssm_kernels.py"}


@pytest.mark.parametrize(
    "file", [f for f in FILES if package(f) in PURE and f.name not in IMPORTERS], ids=str
)
def test_the_core_is_pure(file):
    touched = {name.split(".")[0] for name in imports(file)} & IMPURE_MODULES
    assert not touched
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input"}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) != ("torch", "manual_seed")


@pytest.mark.parametrize("file", [f for f in FILES if package(f) in PURE | {"data"}], ids=str)
def test_configuration_does_not_travel_into_the_core(file):
    for function in functions(file):
        parts = [*function.args.args, *function.args.kwonlyargs]
        named = {a.arg for a in [*parts, function.args.vararg, function.args.kwarg] if a}
        assert not named & CONFIG_WORDS, f"{file}: {function.name}"


@pytest.mark.parametrize("file", [f for f in FILES if package(f) in {"federated", "data"}], ids=str)
def test_no_branch_on_the_name_of_an_algorithm_or_domain(file):
    words = {"fedavg", "fedprox", "scaffold", "fedsam", "fedadam", "arxiv", "github", "c4"}
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Compare):
            constants = {getattr(n, "value", None) for n in ast.walk(node)}
            assert not constants & words, f"{file}:{node.lineno}"


@pytest.mark.parametrize("file", sorted(Path("workflow/scripts").glob("*.py")), ids=str)
def test_workflow_scripts_are_thin(file):
    text = file.read_text()
    assert text.count("\n") <= 25
    arithmetic = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.BinOp)]
    assert not arithmetic


def test_every_stage_has_rule_script_and_test():
    rules = "\n".join(p.read_text() for p in Path("workflow/rules").glob("*.smk"))
    for script in Path("workflow/scripts").glob("*.py"):
        assert (PACKAGE / "stages" / script.name).is_file()
        assert f"rule {script.stem}:" in rules


def test_the_snakefile_has_no_rules_but_all():
    text = Path("Snakefile").read_text()
    assert text.count("\nrule ") == 1
    assert "default_target: True" in text
    for file in Path("workflow/rules").glob("*.smk"):
        body = file.read_text()
        for block in body.split("\nrule ")[1:]:
            name = block.split(":")[0]
            for directive in ("message", "log", "benchmark", "threads", "resources", "params"):
                assert f"    {directive}:" in block, f"rule {name} has no {directive}"
            assert "    run:" not in block.splitlines(), name
