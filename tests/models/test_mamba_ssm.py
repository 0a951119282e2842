"""mamba_ssm as oracle: its real kernels' numbers, its initial values, its names, its absence."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedscan.models import names
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.models.kernels import KERNELS

SHAPE = Architecture(layout(2), 32, 16, 4, 2, 16, 1, 4, 61, 8, 16)
LAYOUTS = {"mamba2": (), "hybrid": (1,)}


@pytest.fixture(scope="module")
def golden():
    return np.load(Path(__file__).parents[1] / "golden/mamba_ssm.npz")


def prefixed(golden, prefix):
    return {key[len(prefix) :]: golden[key] for key in golden.files if key.startswith(prefix)}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_initial_values_are_bit_identical_for_the_same_seed(golden, kind):
    model = initialise(SHAPE._replace(mixers=layout(SHAPE.depth, LAYOUTS[kind])), 1234)
    ours = model.state_dict()
    theirs = prefixed(golden, f"{kind}/initial/")
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert np.array_equal(ours[name].numpy(), value), name


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("chunk", [16, 64])
def test_logits_loss_and_gradients_equal_mamba_ssms_kernels(golden, kind, chunk):
    shape = SHAPE._replace(mixers=layout(SHAPE.depth, LAYOUTS[kind]), chunk_size=chunk)
    model = initialise(shape, 1234)
    ids = torch.from_numpy(golden["ids"])
    logits = model(ids)
    # float32 sums in another order; logits are of order 1.
    np.testing.assert_allclose(logits.detach().numpy(), golden[f"{kind}/logits"], rtol=0, atol=1e-5)
    loss = model.loss(ids)
    assert float(loss) == pytest.approx(float(golden[f"{kind}/loss"]), abs=1e-6)
    loss.backward()
    theirs = prefixed(golden, f"{kind}/gradient/")
    assert {name for name, _ in model.named_parameters()} == theirs.keys()
    for name, parameter in model.named_parameters():
        difference = np.linalg.norm(parameter.grad.numpy() - theirs[name])
        assert difference < 1e-4 * np.linalg.norm(theirs[name]), name


def test_the_golden_loss_is_the_cross_entropy_of_the_golden_logits(golden):
    ids = torch.from_numpy(golden["ids"])
    logits = torch.from_numpy(golden["mamba2/logits"]).double()
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert float(loss) == pytest.approx(float(golden["mamba2/loss"]), abs=1e-6)


def test_names_go_both_ways():
    params = dict(initialise(SHAPE, 0).named_parameters())
    for there, back in (
        (names.to_mamba_ssm, names.from_mamba_ssm),
        (names.to_huggingface, names.from_huggingface),
    ):
        state = there(params)
        assert len(state) == len(params) + 1
        returned = back(state)
        assert returned.keys() == params.keys()
        assert all(returned[name] is params[name] for name in params)
    fresh = initialise(SHAPE, 1)
    fresh.load_state_dict(names.to_mamba_ssm(params), strict=True)
    assert torch.equal(fresh.lm_head.weight, params[names.EMBEDDING])


def test_untied_or_foreign_state_dicts_are_refused():
    params = dict(initialise(SHAPE, 0).named_parameters())
    state = names.to_mamba_ssm(params)
    state["lm_head.weight"] = state["lm_head.weight"] + 1
    with pytest.raises(ValueError, match="fedscan's models have a tied head"):
        names.from_mamba_ssm(state)
    with pytest.raises(ValueError, match=r"no 'backbone\.embedding\.weight' in the state dict"):
        names.from_mamba_ssm({"wte.weight": torch.zeros(2)})


@pytest.mark.skipif(importlib.util.find_spec("mamba_ssm") is not None, reason="mamba_ssm is there")
def test_without_mamba_ssm_the_choice_is_an_error_that_says_what_to_install():
    with pytest.raises(ValueError, match="training.kernels: mamba_ssm does not work here") as error:
        KERNELS["mamba_ssm"](initialise(SHAPE, 0))
    assert "No module named 'mamba_ssm'" in str(error.value)
    assert "pip install --no-deps" in str(error.value)
    assert "training.kernels: torch" in str(error.value)


def test_a_broken_mamba_ssm_is_the_same_error(tmp_path, monkeypatch):
    # A broken dependency of mamba_ssm fails with AttributeError, not ImportError.
    folder = tmp_path / "mamba_ssm/models"
    folder.mkdir(parents=True)
    (tmp_path / "mamba_ssm/__init__.py").write_text("import math\nmath.no_such_thing\n")
    for name in [n for n in sys.modules if n.split(".")[0] == "mamba_ssm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="does not work here .AttributeError"):
        KERNELS["mamba_ssm"](initialise(SHAPE, 0))


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("mamba_ssm") is None, reason="needs mamba_ssm, triton and einops"
)
def test_live_comparison_under_tritons_interpreter():
    script = Path(__file__).with_name("live_mamba_ssm.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["mamba2", "hybrid"]
    for _, loss, gradient in rows:
        assert float(loss) < 1e-5
        assert float(gradient) < 1e-4
