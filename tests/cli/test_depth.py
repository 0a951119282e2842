"""fedscan consensus: a model of one's own, without the workflow."""

import pandas as pd
import pytest
import torch

from fedscan.experiments.consensus.numbers import ends
from fedscan.experiments.consensus.summary import model_tables
from fedscan.io import checkpoints
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.pipeline.model_files import write_base
from tests.cli.test_app import call, config

__all__ = ["config"]

SHAPE = Architecture(layout(2), 16, 4, 4, 2, 8, 1, 1, 60, 4, 16)
SIZES = ["--tokens", "5", "--draws", "2", "--depth", "6"]


@pytest.fixture
def mine(tmp_path):
    params = {name: value.detach() for name, value in initialise(SHAPE, 0).named_parameters()}
    write_base(tmp_path / "mine", SHAPE, params)
    return tmp_path / "mine"


def test_curves_numbers_and_figures_of_a_checkpoint(mine, tmp_path, config):
    out = tmp_path / "out"
    command = ["consensus", str(mine), "-o", str(out), "-c", config, *SIZES]
    text = call(*command, "--variant", "gate", "--variant", "no_gate")
    assert "model (mine, not the paper's checkpoint): 2 layers, depth 6, 5 tokens, 2 draws" in text
    model = model_tables(out)
    assert set(model.curves["variant"]) == {"gate", "no_gate"}
    mean = ends(model, "no_gate")["lambda1"].mean()
    assert f"{mean:.3f}" in (out / "summary.txt").read_text()
    assert "reproduc" not in (out / "numbers.txt").read_text()
    assert (out / "figure1.png").read_bytes()[:4] == b"\x89PNG"
    assert not (out / "unfinished").exists()
    # Again: nothing is computed.
    log = (out / "consensus.log").read_text()
    call(*command, "--variant", "gate", "--variant", "no_gate")
    again = (out / "consensus.log").read_text()
    assert "already in the tables" in again.removeprefix(log)


def test_all_variants_by_default_and_the_vocabulary(mine, tmp_path, config):
    out = tmp_path / "out"
    call("consensus", str(mine), "-o", str(out), "-c", config, *SIZES, "--vocabulary", "9")
    rows = pd.read_parquet(out / "consensus_curves.parquet")
    assert {"gate", "no_gate", "repeat", "random"} <= set(rows["variant"])
    (facts,) = pd.read_parquet(out / "consensus_model.parquet").to_dict("records")
    assert facts["vocabulary"] == 9


def test_a_model_that_a_run_kept(tmp_path, config):
    arrays = {n: p.detach().numpy() for n, p in initialise(SHAPE, 0).named_parameters()}
    file = tmp_path / "none.safetensors"
    checkpoints.save(file, arrays, {**SHAPE._asdict(), "round": 3})
    out = tmp_path / "out"
    call("consensus", str(file), "-o", str(out), "-c", config, *SIZES, "--variant", "gate")
    (facts,) = pd.read_parquet(out / "consensus_model.parquet").to_dict("records")
    assert facts["source"] == "none.safetensors"
    assert torch.get_num_threads() >= 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "'nowhere' is no folder and no hub id"),
        (["x.safetensors"], "x.safetensors: no such file"),
        (
            ["MINE", "--variant", "gates"],
            "--variant gates: no such variant; there are gate, gate_50",
        ),
        (["MINE", "--vocabulary", "61"], "vocabulary: 61; the embedding has 60 rows"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_is_said_in_one_line(mine, tmp_path, config, arguments, words):
    given = [str(mine) if argument == "MINE" else argument for argument in arguments]
    text = call("consensus", *given, "-o", str(tmp_path / "out"), "-c", config, code=1)
    assert words in " ".join(text.split())
    assert not (tmp_path / "out/consensus_curves.parquet").exists()
