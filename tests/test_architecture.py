"""The design, enforced: layers, rooms, closures, names, purity, one script."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedscan.experiments.registry import EXPERIMENTS, STAGES
from fedscan.io import provenance

PACKAGE = Path("src/fedscan")
FILES = sorted(PACKAGE.rglob("*.py"))
LIBRARY = {
    "seeds", "labels", "ranges", "declared", "io", "params", "theory", "data", "models",
    "federated", "measure", "operators", "analysis", "problems",
}  # fmt: skip
# What planning and people read of an experiment: no stage may depend on it.
SHELL = {
    "pipeline.runner", "pipeline.preemption", "pipeline.gpu_lease", "pipeline.gpus",
    "pipeline.experiment", "pipeline.cost", "experiments.registry", "experiments.whole",
}  # fmt: skip
# Package, or module where a package has several layers -> what it may import of fedscan.
LAYERS = {
    "seeds": set(),
    "labels": set(),
    "ranges": set(),
    "io": set(),
    "declared": {"io"},
    "config.types": {"ranges"},
    "config.workflow": {"config.types"},
    "config.algorithms": {"config.types", "ranges", "declared"},
    "params": set(),
    "theory": set(),
    "data": {"seeds", "io"},
    "models": {"params"},
    "federated": {"params", "ranges"},
    "measure": {"params"},
    "operators": {"params"},
    "analysis": {"declared"},
    "problems": {"federated", "models", "data", "measure", "params", "seeds"},
    "pipeline": {"analysis", "io", "params", "federated", "config.types"},
    "pipeline.model_files": {"models", "params", "io"},
    "report": {"analysis", "io", "pipeline"},
    "experiments": LIBRARY | {"pipeline", "report", "config.types", "config.algorithms"},
    "experiments.registry": {"experiments", "io", "pipeline"},
    "experiments.whole": {"experiments", "io", "pipeline"},
    "config.compose": {"config", "experiments"},
    "config.files": {"config"},
    "views": {"experiments", "pipeline", "config", "report"},
    "cli": LIBRARY | {"experiments", "pipeline", "config", "report", "views"},
}
# Room -> modules of other rooms it may import: what those publish. Results are read through them.
READS = {
    "comparison": {"corpus.sequences", "corpus.tables", "corpus.grid", "corpus.plan"},
    "bounds": {"teachers.datasets", "teachers.tables", "teachers.grid", "teachers.plan"},
    "students": {"teachers.datasets", "teachers.tables", "teachers.grid"},
    "merging": {"comparison.models", "comparison.tables", "comparison.grid"},
    "consensus": {
        "comparison.grid",
        "comparison.models",
        "comparison.tables",
        "corpus.grid",
        "corpus.plan",
        "corpus.sequences",
        "corpus.tables",
        "merging.grid",
        "merging.merge_tables",
        "merging.numbers",
        "merging.plan",
        "merging.tables",
    },
}
ROOMS = [experiment.name for experiment in EXPERIMENTS]
PURE = {"params", "theory", "measure", "federated", "operators", "analysis", "models", "problems"}
PURE |= {"report"}
IMPURE_MODULES = {"os", "pathlib", "logging", "time", "shutil", "subprocess", "random", "sys"}
# They read and write files: the page itself, and the data of the package.
AT_THE_EDGE = {"report/build.py", "models/mamba_ssm_kernels.py"}
VAGUE = {"utils", "util", "helpers", "common", "misc", "tools", "core"}
CONFIG_WORDS = {"cfg", "config", "args", "opts", "kwargs", "settings", "options"}
ALLOWED_BASES = {"NamedTuple", "Protocol", "Exception", "BaseModel", "Section", "Enum"}
# Numba is extended by subclassing its types and data models.
ALLOWED_BASES |= {"Type", "PrimitiveModel"}
# A derivative of one's own is a subclass of torch.autograd.Function.
ALLOWED_BASES |= {"Function"}
# torch shows what it makes to a subclass of its mode.
ALLOWED_BASES |= {"TorchDispatchMode"}


def tree(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def dotted(file):
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(file):
    """Modules of fedscan, without its name, and of others."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in names if provenance._file(name) is not None]
            yield from modules or [node.module]


def own_imports(file):
    found = {name.removeprefix("fedscan.") for name in imports(file) if name.startswith("fedscan.")}
    return sorted(found)


def functions(file):
    nodes = ast.walk(tree(file))
    return [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def within(name, packages):
    """Whether a module is one of, or lies in one of, the packages."""
    return any(name == p or name.startswith(f"{p}.") for p in packages)


def layer(name):
    """The longest entry of LAYERS that holds a module."""
    found = [entry for entry in LAYERS if within(name, {entry})]
    return max(found, key=len, default=None)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_imports_follow_the_layers(file):
    name = dotted(file)
    if not name or name in ("config", "experiments"):
        assert not own_imports(file)
        return
    own = layer(name)
    assert own is not None, f"{name} is in no layer"
    package = name.split(".")[0]
    same = {package} if package not in ("config", "experiments") else {own}
    for imported in own_imports(file):
        allowed = LAYERS[own] | same
        assert within(imported, allowed), f"{file}: {own} may not import {imported}"
        if own == "experiments":
            assert imported not in ("experiments.registry", "experiments.whole"), file


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_reads_only_what_another_publishes(room):
    for file in (PACKAGE / "experiments" / room).rglob("*.py"):
        for imported in own_imports(file):
            parts = imported.split(".")
            if parts[0] == "experiments" and parts[1] != room:
                published = READS.get(room, set())
                assert ".".join(parts[1:]) in published, f"{file}: {imported} is not published"


def test_rooms_are_entered_through_the_registry_alone():
    for file in FILES:
        name = dotted(file)
        entered = [i for i in own_imports(file) if i.endswith(".experiment") and "experiments" in i]
        assert not entered or name == "experiments.registry", f"{file}: {entered}"
    for name in ("", *ROOMS):
        body = tree(PACKAGE / "experiments" / name / "__init__.py").body
        assert len(body) == 1, f"experiments/{name}/__init__.py is more than a docstring"


def closure(module):
    """All fedscan modules that a module imports, directly or not, without the package's name."""
    seen, todo = set(), [module]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += provenance._first_party_imports(one)
    return {name.removeprefix("fedscan.") for name in seen}


def room_of(module):
    return module.split(".")[2] if module.startswith("fedscan.experiments.") else None


@pytest.mark.parametrize("rule", STAGES)
def test_a_stage_holds_nothing_it_does_not_use(rule):
    module = STAGES[rule].module
    found = closure(module)
    assert not found & SHELL, rule
    assert not {n for n in found if within(n, {"views", "cli"}) or n.endswith(".experiment")}
    room = room_of(module)
    others = {n for n in found if n.startswith("experiments.") and n.split(".")[1] != room}
    published = {f"experiments.{name}" for name in READS.get(room, set())}
    assert others <= published, f"{rule}: {sorted(others - published)}"
    assert not {n for n in found if n.endswith(".plan")}, rule
    if rule in ("learners", "students"):
        assert "models.mamba2" not in found


@pytest.mark.parametrize(
    "module", [m for e in EXPERIMENTS for m in (e.checks, e.page, e.progress, e.cost) if m]
)
def test_what_is_named_by_text_is_there_and_holds_no_shell(module):
    found = closure(module)
    assert not found & (SHELL - {"pipeline.cost"})
    assert not {n for n in found if n.endswith(".experiment")}


def test_planning_loads_neither_torch_nor_pandas():
    rooms = [f"fedscan.experiments.{room}" for room in ROOMS]
    parts = ("plan", "grid", "tables", "config", "experiment", "summary_tables", "merge_tables")
    there = [f"{r}.{part}" for r in rooms for part in parts if provenance._file(f"{r}.{part}")]
    modules = ["fedscan.config.files", "fedscan.experiments.whole", *there]
    script = f"import sys, {', '.join(modules)}\n"
    script += (
        "print(sorted({'torch', 'pandas', 'numba', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


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


def is_pure(file):
    inside = file.relative_to(PACKAGE)
    return inside.parts[0] in PURE and str(inside) not in AT_THE_EDGE


@pytest.mark.parametrize("file", [f for f in FILES if is_pure(f)], ids=str)
def test_the_core_is_pure(file):
    touched = {name.split(".")[0] for name in imports(file)} & IMPURE_MODULES
    assert not touched
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input"}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) != ("torch", "manual_seed")


CORE = [f for f in FILES if f.relative_to(PACKAGE).parts[0] in (PURE - {"report"}) | {"data"}]


@pytest.mark.parametrize("file", CORE, ids=str)
def test_configuration_does_not_travel_into_the_core(file):
    for function in functions(file):
        parts = [*function.args.args, *function.args.kwonlyargs]
        named = {a.arg for a in [*parts, function.args.vararg, function.args.kwarg] if a}
        assert not named & CONFIG_WORDS, f"{file}: {function.name}"


@pytest.mark.parametrize("file", FILES, ids=str)
def test_no_branch_on_the_name_of_an_algorithm_or_domain(file):
    words = set(provenance_names()) | {"arxiv", "github", "stackexchange", "wikipedia", "c4"}
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Compare):
            constants = {getattr(n, "value", None) for n in ast.walk(node)}
            assert not {c for c in constants if isinstance(c, str)} & words, f"{file}:{node.lineno}"


def provenance_names():
    from fedscan.declared import algorithms

    return algorithms()


def test_one_script_runs_every_stage():
    (script,) = Path("workflow/scripts").glob("*.py")
    code = [line for line in script.read_text().splitlines() if line and not line.startswith('"""')]
    assert len(code) == 3


def rules():
    found = {}
    for file in Path("workflow/rules").glob("*.smk"):
        for block in file.read_text().split("\nrule ")[1:] + _first_rule(file):
            found[block.split(":")[0]] = (file.stem, block)
    return found


def _first_rule(file):
    text = file.read_text()
    return [text.removeprefix("rule ")] if text.startswith("rule ") else []


def test_every_rule_is_a_stage_of_one_room_in_its_file():
    found = rules()
    assert set(found) == set(STAGES)
    owners = {rule: e.name for e in EXPERIMENTS for rule in e.stages}
    assert sum(len(e.stages) for e in EXPERIMENTS) == len(owners)
    for rule, (file, block) in found.items():
        assert file == owners.get(rule, {"check": "check", "html_report": "page"}.get(rule))
        for directive in ("message", "log", "benchmark", "threads", "resources", "params"):
            assert f"    {directive}:" in block, f"rule {rule} has no {directive}"
        assert "    run:" not in block.splitlines(), rule
        assert "scripts/run_stage.py" in block


@pytest.mark.parametrize("rule", STAGES)
def test_every_stage_has_a_test_file_of_its_name(rule):
    module = STAGES[rule].module.removeprefix("fedscan.").split(".")
    file = Path("tests", *module[:-1], f"test_{module[-1]}.py")
    assert file.is_file(), f"{rule}: no {file}"


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
def test_every_experiment_has_its_places(experiment):
    assert Path("workflow/rules", f"{experiment.name}.smk").is_file()
    written = yaml.safe_load(Path("config/config.yaml").read_text())
    for place in experiment.sections:
        section = written
        for key in place.split("."):
            assert key in section, f"config.yaml has no section {place}"
            section = section[key]
    folders = {place.split("/")[0] for table in experiment.tables for place in table.places}
    for folder in folders:
        assert f"results/{folder}" in Path("README.md").read_text(), folder


def test_the_snakefile_has_no_rules_but_all():
    text = Path("Snakefile").read_text()
    assert text.count("\nrule ") == 1
    assert "default_target: True" in text
