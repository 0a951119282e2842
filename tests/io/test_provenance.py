"""Fingerprints: code counts, comments do not, and a registry's other members do not."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedscan.experiments.registry import STAGES
from fedscan.io import provenance

CHOICE = {
    "fedscan.federated.algorithms": "fedprox",
    "fedscan.models.mixers": ("attention", "mamba2"),
}


def fingerprint(source, entry, choices):
    script = (
        "import sys\nfrom pathlib import Path\nfrom fedscan.io import provenance\n"
        f"provenance.SOURCE_ROOT = Path({str(source)!r})\n"
        f"print(provenance.code_fingerprint({entry!r}, choices={choices!r}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def source(tmp_path):
    shutil.copytree("src/fedscan", tmp_path / "fedscan")
    return tmp_path


def edit(source, name, old, new):
    file = source / "fedscan" / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [
        ("federated/engine.py", "round_index + 1", "round_index + 2", True),
        ("params/algebra.py", "ROW = 1024", "ROW = 2048", True),
        ("federated/algorithms/fedprox.py", "mu)", "2 * mu)", True),
        ("federated/algorithms/fedavg.py", "add(params", "add(None or params", True),
        ("federated/algorithms/scaffold.py", "bound / size", "bound", False),
        ("federated/algorithms/__init__.py", '    "fedsam": fedsam,\n', "", False),
        ("models/mamba2.py", "DT_MIN, DT_MAX", "DT_MAX, DT_MIN", True),
        ("models/sessa.py", "INITIAL_GAIN_BIAS = 1.0", "INITIAL_GAIN_BIAS = 2.0", False),
        ("models/mixers/__init__.py", "    SESSA: SESSA_MIXER,\n", "", False),
        ("federated/engine.py", '"""The round loop', '"""A round loop', False),
        ("federated/engine.py", "import torch\n", "import torch  # the library\n", False),
        ("experiments/comparison/curves.py", "alpha=0.15", "alpha=0.5", False),
        ("__init__.py", "0.1", "0.9", False),
    ],
)  # fmt: skip
def test_what_changes_the_fingerprint_of_a_training(source, name, old, new, changes):
    entry = "fedscan.experiments.comparison.training"
    before = fingerprint(source, entry, CHOICE)
    edit(source, name, old, new)
    assert (fingerprint(source, entry, CHOICE) != before) == changes


def test_a_training_of_sessa_depends_on_its_layer(source):
    entry = "fedscan.experiments.comparison.training"
    choices = {**CHOICE, "fedscan.models.mixers": "sessa"}
    before = fingerprint(source, entry, choices)
    # One member may be given as a word.
    assert fingerprint(source, entry, {**choices, "fedscan.models.mixers": ["sessa"]}) == before
    edit(source, "models/sessa.py", "INITIAL_GAIN_BIAS = 1.0", "INITIAL_GAIN_BIAS = 2.0")
    assert fingerprint(source, entry, choices) != before


@pytest.mark.parametrize("rule", STAGES)
def test_every_stage_has_a_fingerprint_that_its_own_code_changes(source, rule):
    entry = STAGES[rule].module
    before = fingerprint(source, entry, None)
    file = source.joinpath(*entry.split(".")).with_suffix(".py")
    file.write_text(file.read_text() + "\nEXTRA = 1\n")
    assert fingerprint(source, entry, None) != before


EVERY_SYNTAX = r"""
import os.path as p
from a import b
@d
async def f(x, /, y: int = 0, *z, k=None, **w) -> None:
    async with a as b: return 0, False, None, "", ..., 1j, -0.0, b"\x00", u"u", "\u0378"
class C(B, metaclass=M):
    n: int
    s = f"a{1!r:>{w}.2f}{{b}}" "c" f"{x=}" f"{x:}"
def g(*, a): yield [i for i in a if i async for j in i], {**a, 1: 2}, a[1:2, ...], (b := 1)
match x:
    case {"k": [1, *r], **q} | C(a=1): pass
    case None: del x
try: pass
except* E as e: raise X from e
"""
OTHERS = [f"python3.{minor}" for minor in range(11, 16)]


@pytest.mark.parametrize("python", OTHERS)
def test_every_python_makes_the_same_fingerprints(python):
    script = (
        "import ast, sys\nsys.path.insert(0, 'src')\nfrom fedscan.io import provenance as p\n"
        f"print(p.digest(p._canonical(ast.parse({EVERY_SYNTAX!r}))))\n"
        "print(p.code_fingerprint('fedscan.experiments.comparison.training'))"
    )
    # pyenv's commands run a version only where it is asked for.
    environment = {**os.environ, "PYENV_VERSION": python.removeprefix("python")}
    options = {"env": environment, "capture_output": True, "text": True}
    if not shutil.which(python) or subprocess.run([python, "-c", ""], **options).returncode:
        pytest.skip(f"no {python} on this machine")
    other = subprocess.run([python, "-c", script], **options)
    own = subprocess.run([sys.executable, "-c", script], **options)
    assert other.stderr == "" == own.stderr
    assert other.stdout == own.stdout


def test_the_text_of_a_tree_is_this_one():
    # Without another Python on the machine: what each version makes of this line, literally.
    tree = ast.parse("def f(x=0): return f'{x:.1f}' 'a' 'b'")
    expected = (
        "Module(body=[FunctionDef(name='f',args=arguments(args=[arg(arg='x')],defaults=[0]),"
        "body=[Return(value=JoinedStr(values=[FormattedValue(value=Name(id='x',ctx=Load()),"
        "conversion=-1,format_spec=JoinedStr(values=['.1f'])),'ab']))])])"
    )
    assert provenance._canonical(tree) == expected
    # 3.12 added type_params, 3.15 is_lazy; 3.12 to 3.13 leave neighbouring literals apart.
    (function,) = tree.body
    function.type_params, function._fields = [], (*function._fields, "type_params")
    (returned,) = function.body
    returned.value.values[1:] = [ast.Constant("a"), ast.Constant("b")]
    assert provenance._canonical(tree) == expected


def test_values_that_python_takes_for_equal_are_told_apart():
    texts = [provenance._canonical(ast.parse(t)) for t in ("0", "0.0", "False", "None", "''", "[]")]
    assert len(set(texts)) == len(texts)


def test_unknown_modules_are_named():
    with pytest.raises(ValueError, match="no module 'fedscan.nothing'"):
        provenance.code_fingerprint("fedscan.nothing")
    with pytest.raises(ValueError, match="algorithms.fedother"):
        provenance.code_fingerprint(
            "fedscan.experiments.comparison.training",
            choices={"fedscan.federated.algorithms": "fedother"},
        )


def test_digest_depends_on_every_value_and_not_on_order():
    one = provenance.digest({"rounds": 1, "local_steps": 2})
    assert one == provenance.digest({"local_steps": 2, "rounds": 1})
    assert one != provenance.digest({"rounds": 2, "local_steps": 1})


def test_the_source_is_where_it_should_be():
    assert (Path(provenance.SOURCE_ROOT) / "fedscan" / "seeds.py").is_file()
