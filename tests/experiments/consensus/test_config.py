"""Keys of the section that must agree with each other: one line each, before any work."""

import re

import pytest
import yaml

from fedscan.config import files
from fedscan.experiments.consensus import plan


def problem(tmp_path, consensus, **sections):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"consensus": consensus, **sections}))
    with pytest.raises(files.ConfigError) as error:
        files.load(["config/config.yaml", file])
    (line,) = str(error.value).splitlines()
    return line


def loaded(tmp_path, consensus, **sections):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"consensus": consensus, **sections}))
    return files.load(["config/config.yaml", file]).model_dump(mode="json")


SHAPE = {
    "d_model": 16, "depth": 2, "d_state": 4, "d_conv": 4, "expand": 2, "headdim": 8, "ngroups": 1,
    "vocab_size": 40, "pad_vocab_size_multiple": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("consensus", "words"),
    [
        ({"tokens": 1}, "consensus.tokens = 1: .*greater than or equal to 2"),
        ({"depth": 0}, "consensus.depth = 0"),
        ({"draws": 0}, "consensus.draws = 0"),
        ({"variants": {"gate": {"gate": 1.5}}}, "variants.gate.gate = 1.5"),
        ({"variants": {"gate": {"tau": 0}}}, "variants.gate.tau = 0"),
        ({"random": {"mean_cosine": 1.0}}, "random.mean_cosine = 1.0"),
        (
            {"variants": {"x": {"system": "analysed", "gate": 0, "update": "sphere"}}},
            "variants.x.weights = 'cycle': system 'analysed' has drawn weights",
        ),
        (
            {"variants": {"random": {"gate": 1}}},
            "variants.random.gate = 1.0: system 'analysed' has no gate",
        ),
        (
            {"variants": {"random": {"update": "residual"}}},
            "variants.random.update = 'residual': .*sphere",
        ),
        ({"variants": {"random": {"conv": False}}}, "variants.random.conv = False"),
        ({"variants": {"x": {"weights": "repeat"}}}, "variants.x.layers = None: weights 'repeat'"),
        ({"variants": {"gate": {"layers": [0]}}}, r"variants.gate.layers = \[0\]: only weights"),
        (
            {"runs": {"variants": ["gates"]}},
            r"runs.variants.0 = 'gates': no such variant; .* gate, gate_50",
        ),
        ({"merging": {"variants": ["repeat"]}}, "merging.variants.*weights: cycle"),
        ({"runs": {"study": "mine"}}, "runs.study = 'mine': expected one of"),
        ({"runs": {"rounds": [3]}}, r"runs.rounds.0 = 3: its model is not kept: add it to"),
        ({"runs": {"rounds": [99]}}, "runs.rounds.0 = 99: must not exceed training.rounds"),
        (
            {"source": "text", "tokens": 65},
            "consensus.tokens = 65: source 'text' has partition.sequence_length = 64",
        ),
        ({"models": {"embedded": {"checkpoint": "random"}}}, "embedded.shape = None: a shape"),
        ({"models": {"embedded": {"shape": SHAPE}}}, "embedded.shape"),
        (
            {"models": {"embedded": {"vocabulary": 265}}},
            "embedded.vocabulary = 265: the embedding has 264 rows",
        ),
        ({"models": {"embedded": None}}, r"consensus.models = \['embedded'\]: at least one"),
        (
            {
                "models": {
                    "x": {
                        "checkpoint": "random", "vocabulary": None, "paper": False, "shape": SHAPE,
                    }
                },
                "variants": {"repeat": {"layers": [2]}},
            },
            "models.x.shape.*repeats layer 2; .* are 0 to 1",
        ),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(tmp_path, consensus, words):
    line = problem(tmp_path, consensus)
    assert re.search(words, line), line
    assert "mine.yaml" in line


def test_a_negative_layer(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("consensus: {variants: {repeat: {layers: [-1]}}}")
    with pytest.raises(files.ConfigError, match=r"layers.*-1.*greater than or equal to 0"):
        files.load(["config/config.yaml", file])


def test_federated_models_must_be_kept(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"workflow": {"keep_final_model": False}}))
    with pytest.raises(files.ConfigError) as error:
        files.load(["config/config.yaml", file])
    lines = str(error.value).splitlines()
    places = ("consensus.models.embedded.checkpoint", "consensus.runs.rounds.0")
    for place in places:
        assert any(place in line and "keep_final_model: true" in line for line in lines)


def test_kept_rounds_must_be_within_the_training(tmp_path):
    line = problem(tmp_path, {}, workflow={"keep_model_rounds": [13]})
    assert "workflow.keep_model_rounds.0 = 13: must not exceed training.rounds = 12" in line
    assert "appears twice" in problem(tmp_path, {}, workflow={"keep_model_rounds": [1, 1]})
    assert loaded(tmp_path, {"runs": {"rounds": [1, "last"]}}, workflow={"keep_model_rounds": [1]})


def test_parts_are_switched_off(tmp_path):
    config = loaded(tmp_path, {"runs": None, "merging": None, "variants": {"gate_50": None}})
    made = plan.files(config)
    assert not made["consensus_runs"]
    assert not made["consensus_merging"]
    assert plan.runs_of_study(config) == {}
    assert plan.merging_files(config) == []
    assert "gate_50" not in plan.variants(config)


def test_the_papers_configuration_is_counted():
    config = files.load(["config/config.yaml", "config/paper.yaml"]).model_dump(mode="json")
    units = plan.units(config)
    assert units["models"] == 1
    assert units["draws"] == 50
    assert units["random instances"] == (3 + 5) * 20
    section = config["consensus"]
    assert (section["tokens"], section["depth"]) == (50, 200)
    (model,) = plan.models(config).values()
    assert model["checkpoint"] == "state-spaces/mamba2-130m"
    assert model["vocabulary"] == 50277


def test_text_is_an_input_where_it_is_read(tmp_path):
    config = loaded(tmp_path, {"source": "text"})
    file = "results/partition/setting=1/beta=0/clients=4/validation.parquet"
    assert plan.model_files(config, "embedded")[-1] == file
    assert file in plan.runs_files(config)
    assert plan.merging_files(config)[-1] == file
    assert f"results/{plan.consensus_model(config, 'embedded')['text']}" == file
    uniform = loaded(tmp_path, {})
    assert plan.consensus_model(uniform, "embedded")["text"] is None
    assert not any("validation" in name for name in plan.runs_files(uniform))
