"""Configuration: the shipped files are valid, the schema is in step, every error is one line."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedscan.config import files as config_files
from fedscan.config.compose import Config
from fedscan.config.files import ConfigError

DEFAULT = "config/config.yaml"
SCHEMA = Path("workflow/schemas/config.schema.json")


@pytest.mark.parametrize("name", ["paper", "local-example"])
def test_shipped_configurations_are_valid(name):
    config_files.load([DEFAULT])
    config_files.load([DEFAULT, f"config/{name}.yaml"])


def test_schema_file_is_the_exported_one():
    # Regenerate with: fedscan schema config > workflow/schemas/config.schema.json
    assert json.loads(SCHEMA.read_text()) == Config.model_json_schema()


def test_schema_accepts_the_default_and_refuses_unknown_keys():
    schema = json.loads(SCHEMA.read_text())
    default = json.loads(json.dumps(yaml.safe_load(Path(DEFAULT).read_text())))
    jsonschema.validate(default, schema)
    default["training"]["learning_rate"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(default, schema)


def test_every_leaf_of_the_schema_says_what_it_is():
    for name, section in json.loads(SCHEMA.read_text())["$defs"].items():
        assert section["description"], name
        for key, entry in section.get("properties", {}).items():
            documented = "description" in entry or "$ref" in entry or "anyOf" in entry
            documented = documented or "allOf" in entry
            assert documented, f"{name}.{key}"


def edited(tmp_path, path, value):
    """The default with one key set (or, with value ..., deleted)."""
    config = yaml.safe_load(Path(DEFAULT).read_text())
    *folders, last = path.split(".")
    place = config
    for part in folders:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    return file


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("training.lr", "1e-3", ["training.lr = '1e-3'", "a number", "write 1.0e-3"]),
        ("training.lr", "fast", ["training.lr = 'fast'", "expected a number, found text"]),
        ("training.lr", 0, ["training.lr = 0", "greater than 0"]),
        ("training.lr", float("nan"), ["training.lr"]),
        ("training.rounds", 2.5, ["training.rounds = 2.5", "integer"]),
        ("training.rounds", True, ["training.rounds = True", "integer"]),
        ("training.rounds", "12", ["training.rounds = '12'", "whole number", "remove the quotes"]),
        ("training.epochs", 3, ["training.epochs = 3", "unknown key", "rounds"]),
        ("training.round", 3, ["training.round = 3", "did you mean 'rounds'"]),
        ("training.precision", "fp16", ["training.precision = 'fp16'", "'float32'", "'bfloat16'"]),
        ("training.precision", "float16", ["training.precision", "needs training.device 'cuda'"]),
        ("training.kernels", "mamba_ssm", ["training.kernels", "need training.device 'cuda'"]),
        ("training.step", "cuda_graph", ["training.step", "need training.device 'cuda'"]),
        ("training.rounds", ..., ["training.rounds", "this key is required"]),
        ("studies.main.betas", [0, 1.5], ["studies.main.betas.1 = 1.5", "less than or equal to 1"]),
        ("studies.main.betas", [0.7, 0.7], ["studies.main.betas", "0.7 appears twice"]),
        ("studies.main.betas", [1, 1.0], ["studies.main.betas", "appears twice"]),
        ("studies.main.seeds", [], ["studies.main.seeds = []", "at least 1 item"]),
        ("synthetic.rhos", [1.2], ["synthetic.rhos.0 = 1.2", "less than 1"]),
        ("synthetic.d_input", [1], ["synthetic.d_input.0 = 1", "greater than or equal to 2"]),
        ("synthetic.learners.batch_size", 60, ["must divide synthetic.train_sequences = 1024"]),
        ("synthetic.learners.bound_checkpoints", [0, 150], ["checkpoints.1 = 150", "multiple"]),
        ("synthetic.learners.bound_checkpoints", [0], ["bound_checkpoints = [0]", "at least two"]),
        ("synthetic.federated.evaluate_every", 21, ["must not exceed", "federated.rounds = 20"]),
        ("training.threads", 100000, ["training.threads = 100000", "less than or equal to 1024"]),
        ("training.lr", "1.0e400", ["YAML reads 1.0e400 as text; write 1.0e+400"]),
        ("synthetic.learners.updates", 450, ["checkpoint_every = 100", "must divide"]),
        ("synthetic.evaluation.sequences", 999, ["must not exceed synthetic.test_sequences"]),
        ("synthetic.stacks.rhos", [0.42], ["synthetic.stacks.rhos.0 = 0.42", "must be one of"]),
        ("synthetic.stacks.length", 65, ["must not exceed synthetic.sequence_length = 64"]),
        ("synthetic.federated.core.d_state", 5, ["must be one of synthetic.d_state = [8]"]),
        ("synthetic.federated.subset", 9999, ["must not exceed synthetic.train_sequences"]),
        ("synthetic.federated.studies.base.clients", [3], ["base.clients.0 = 3", "must divide"]),
        (
            "synthetic.federated.studies.base.algorithms",
            ["scaffold"],
            ["its values are missing: add synthetic.federated.studies.base.hyperparameters"],
        ),
        (
            "synthetic.federated.studies.base.hyperparameters.fedprox.mu",
            [30],
            ["base.hyperparameters.fedprox.mu.0 = 30", "lr * mu must not exceed 1"],
        ),
        ("studies.main.seeds", 0, ["studies.main.seeds = 0", "valid array"]),
        ("studies.main.settings", ["9"], ["studies.main.settings.0 = '9'", "known are 1, 2, 3, 4"]),
        ("studies.main.algorithms", ["fedavgm"], ["studies.main.algorithms.0", "'fedavg'"]),
        (
            "studies.main.hyperparameters.fedprox.mu",
            ["1e-3"],
            ["studies.main.hyperparameters.fedprox.mu.0 = '1e-3'", "1.0e-3"],
        ),
        (
            "studies.main.hyperparameters.fedprox.rho",
            [1],
            ["studies.main.hyperparameters.fedprox.rho", "allowed here: mu"],
        ),
        (
            "studies.main.hyperparameters.fedprox",
            ...,
            ["studies.main.algorithms", "add studies.main.hyperparameters.fedprox"],
        ),
        (
            "partition.settings.1",
            ["arxiv", "books"],
            ["partition.settings.1.1 = 'books'", "'wikipedia'", "'c4'"],
        ),
        ("model.headdim", 48, ["model.headdim = 48", "divide the inner width", "64"]),
        ("model.vocab_size", 100, ["model.vocab_size = 100", "257 tokens"]),
        ("data.source", "local", ["data.local.paths = []", "at least one file"]),
    ],
)
def test_each_error_is_one_line_with_file_key_value_and_what_is_allowed(
    tmp_path, path, value, words
):
    file = edited(tmp_path, path, value) if "settings.1" not in path else None
    if file is None:
        config = yaml.safe_load(Path(DEFAULT).read_text())
        config["partition"]["settings"][1] = value
        file = tmp_path / "mine.yaml"
        file.write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError) as error:
        config_files.load([file])
    lines = str(error.value).splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{file}:") or value is ...
    for word in words:
        assert word in lines[0], lines[0]


def test_errors_name_the_file_and_line_that_hold_the_value(tmp_path):
    override = tmp_path / "override.yaml"
    override.write_text("# mine\n\ntraining:\n  rounds: 5\n  lr: 1e-3\n")
    with pytest.raises(ConfigError, match=rf"{override}:5: training\.lr = '1e-3'"):
        config_files.load([DEFAULT, override])


def test_entries_of_the_command_line_override_files():
    entries = ['training={"rounds": 5, adam_betas: [0.5, 0.9]}', "tokenizer={name: bytes}"]
    config = config_files.load([DEFAULT], entries)
    assert config.training.rounds == 5
    assert config.training.adam_betas == [0.5, 0.9]
    assert config.training.lr == config_files.load([DEFAULT]).training.lr


@pytest.mark.parametrize("first", ["1", '"1"'])
@pytest.mark.parametrize("second", ["1", '"1"'])
def test_names_are_text_however_they_are_quoted(tmp_path, first, second):
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    files[0].write_text(f"partition:\n  settings:\n    {first}: [github, arxiv]\n")
    files[1].write_text(f"partition:\n  settings:\n    {second}: [wikipedia, arxiv]\n")
    assert config_files.load([DEFAULT, files[0]]).partition.settings["1"] == ["github", "arxiv"]
    assert config_files.load([DEFAULT, *files]).partition.settings["1"] == ["wikipedia", "arxiv"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('training={"rounds": 0}', "--config: training.rounds = 0: must be greater than"),
        ('training={"lr": "0.1"}', "--config: training.lr = '0.1': expected a number"),
        ("training={roundz: 3}", "--config: training.roundz = 3: unknown key; did you mean"),
        ("training={rounds: [3", "--config training: not valid YAML"),
        ("training=3", "--config: training = 3: must be an object"),
        ("trainig={lr: 0.1}", "--config: trainig: unknown key; did you mean 'training'"),
    ],
)
def test_errors_name_the_command_line(entry, words):
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        config_files.load([DEFAULT], [entry])
    assert len(str(caught.value).splitlines()) == 1


def test_all_errors_are_listed(tmp_path):
    override = tmp_path / "o.yaml"
    override.write_text("training: {rounds: 0, lr: -1}\nmodel: {headdims: 4}\n")
    with pytest.raises(ConfigError) as error:
        config_files.load([DEFAULT, override])
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("training: {rounds: 5", "not valid YAML"),
        ("- a\n- b\n", "expected a mapping"),
        ("", "expected a mapping"),
        ("training:\n  rounds: 5\n  rounds: 6\n", "training.rounds: this key appears twice"),
        ("training: 5\n", "training = 5"),
        ("studies: {main: {betas: {a: 1}}}\n", "studies.main.betas"),
        ("studies: {'../x': null}\n", "studies"),
    ],
)
def test_broken_files(tmp_path, text, words):
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        config_files.load([DEFAULT, file])
    assert words in str(error.value)
    assert str(file) in str(error.value)


def test_missing_file():
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such configuration file"):
        config_files.load(["nowhere.yaml"])


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    section=st.sampled_from(["data", "tokenizer", "partition", "model", "training", "studies"]),
    value=json_like,
)
def test_whatever_stands_in_a_section_gives_an_error_not_a_crash(section, value):
    merged = yaml.safe_load(Path(DEFAULT).read_text())
    merged[section] = value
    with pytest.raises(ConfigError):
        config_files.validate(merged)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tokenizer: {name: NO}", "tokenizer.name = False: .* .YAML reads NO as false; put it in"),
        ("partition: {settings: {1: [on]}}", "settings.1.0 = True: .* .YAML reads on as true"),
        ("partition: {settings: {NO: [c4]}}", "settings.NO: YAML reads NO as false; put it in"),
        ("training: {rounds: 010}", "training.rounds = 010: YAML reads it as 8; write the number"),
        ("data: {seed: 1:30}", "data.seed = 1:30: YAML reads it as 90"),
    ],
)
def test_what_yaml_reads_otherwise_than_it_is_meant_is_explained(tmp_path, text, words):
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(config_files.ConfigError, match=words):
        config_files.load([DEFAULT, file])


@pytest.mark.parametrize("word", ["no", "off", "NO", "false"])
def test_a_truth_value_may_be_spelled_as_yaml_allows(tmp_path, word):
    file = tmp_path / "own.yaml"
    file.write_text(f"workflow: {{rerun_on_code_change: {word}}}\ntraining: {{rounds: 1_0}}")
    loaded = config_files.load([DEFAULT, file])
    assert loaded.workflow.rerun_on_code_change is False
    assert loaded.training.rounds == 10
