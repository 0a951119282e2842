"""Rules between keys of the section ``sessa``: one line per mistake, with key, value, allowed."""

import pytest
import yaml

from fedscan.config import files as config_files
from fedscan.config.files import ConfigError
from fedscan.experiments.sessa import grid, plan

DEFAULT = "config/config.yaml"


def load(tmp_path, section, **others):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"sessa": section, **others}))
    return config_files.load([DEFAULT, file]).sessa


def soup(**keys):
    return {"tasks": {"soup": keys}}


def mqar(**keys):
    return {"tasks": {"mqar": keys}}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"models": {"heads": 3}}, r"models.heads = 3: must divide d_model = 32 into heads"),
        ({"models": {"gain_max": 1.5}}, r"gain_max = 1.5: .*less than or equal to 1"),
        ({"models": {"gain_max": 1}}, r"gain_max = 1.*form 'paper' alone"),
        ({"models": {"mixers": ["lstm"]}}, r"mixers.0 = 'lstm': expected one of 'sessa'"),
        ({"models": {"match_tolerance": 0.00001}}, r"match_tolerance = .*no mamba2 has within"),
        ({"models": {"match": "none", "headdim": 7}}, r"headdim = 7: mamba2 of width 32"),
        (soup(min_tokens=201), "min_tokens = 201: must not exceed max_tokens = 141"),
        (soup(min_tokens=19, max_tokens=141), "min_tokens = 19: fewer than 5 letters"),
        (soup(min_tokens=140, max_tokens=140), "max_tokens = 140: no number of letters"),
        (soup(train=3001), "soup.train = 3001: must be a multiple of the 4 classes"),
        (soup(left_styles=1, right_styles=1), "left_styles = 1: .*one class"),
        (soup(min_block_share=0.6), "min_block_share = 0.6"),
        (mqar(queries=4), "queries = 4: must not exceed pairs = 3"),
        (mqar(key_tokens=1), "key_tokens = 1: .*greater than or equal to 2"),
        (mqar(keys=2), r"keys = 2: 2\^2 keys; at least 2 pairs = 6"),
        (mqar(lag=[4, 64]), r"lag.0 = 4: the nearest possible lag .* = 6"),
        (mqar(lag=[32, 40]), r"lag.1 = 40: .*span 20 positions; at least 52"),
        ({"tasks": {"recall": {"pairs": [32]}}}, r"pairs.0 = 32: .*need 128 of 16 tokens"),
        ({"tasks": {"recall": {"vocabulary": 6}}}, r"pairs.1 = 3: vocabulary 6 has 2 keys"),
        ({"tasks": {"recall": {"widths": [18]}}}, r"widths.0 = 18: must be a multiple of 2 heads"),
        ({"tasks": {"stories": {"source": "local"}}}, r"source = 'local': .*tasks.stories.local"),
        ({"tasks": dict.fromkeys(("soup", "mqar", "stories", "recall")), "federated": None},
         "at least one task must not be null"),
        ({"training": {"lrs": []}}, r"lrs = \[\]"),
        ({"federated": {"tasks": ["stories"]}, "tasks": {"stories": None}},
         r"federated.tasks.0 = 'stories': sessa.tasks.stories is null"),
        ({"federated": {"algorithms": ["fedprox"]}}, r"federated.hyperparameters.fedprox"),
        ({"federated": {"clients": 5000}}, r"clients = 5000: sessa.tasks.soup has 3000"),
        ({"diagnostics": {"tasks": ["mqar", "recall"]}, "tasks": {"recall": None}},
         r"diagnostics.tasks.1 = 'recall': sessa.tasks.recall is null"),
        ({"theory": {"retrieval": [[1.5, 2]]}}, r"retrieval.0 = .*must be below 1"),
        ({"theory": {"retrieval": [[0.5, 1.5]]}}, r"retrieval.0 = .*must be whole"),
    ],
)  # fmt: skip
def test_every_mistake_is_one_line(tmp_path, section, message):
    with pytest.raises(ConfigError, match=message) as error:
        load(tmp_path, section)
    assert all(".yaml:" in line for line in str(error.value).splitlines())


def test_the_papers_form_may_have_gains_up_to_one(tmp_path):
    found = load(tmp_path, {"models": {"gain_max": 1, "form": "paper"}})
    assert found.models.gain_max == 1


@pytest.mark.parametrize("name", ["sessa-paper", "sessa-paper-stories", "sessa-hour"])
def test_other_scales_are_valid_and_match(name):
    whole = config_files.load([DEFAULT, f"config/{name}.yaml"])
    section = whole.sessa.model_dump(mode="json")
    assert grid.tasks(section)
    for task in grid.tasks(section):
        width = grid.widths(section, task)[-1]
        shapes = {m: grid.shape(section, task, m, width) for m in section["models"]["mixers"]}
        assert shapes["sessa"].d_model == width
    assert plan.units(whole.model_dump(mode="json"))["central runs"] > 0


def test_tasks_that_are_off_have_no_jobs(tmp_path):
    off = {"tasks": {"stories": None, "recall": None}, "federated": None}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"sessa": off}))
    whole = config_files.load([DEFAULT, file]).model_dump(mode="json")
    files = plan.files(whole)
    assert {job.split("task=")[1] for job in files["sessa_data"]} == {"soup", "mqar"}
    assert files["sessa_federated"] == {}
    assert len(files["sessa_training"]) == 8


def test_equal_widths_in_recall(tmp_path):
    section = load(tmp_path, {}).model_dump(mode="json")
    for mixer in section["models"]["mixers"]:
        assert grid.shape(section, "recall", mixer, 16).d_model == 16
    assert grid.shape(section, "mqar", "mha", 32).d_model != 32


@pytest.mark.parametrize("backbone", ["sessa", "hybrid50sessa"])
def test_mamba_ssm_has_no_kernels_for_sessa(tmp_path, backbone):
    training = {"device": "cuda", "kernels": "mamba_ssm"}
    studies = {"main": {"backbones": ["mamba2", backbone], "depths": [4]}}
    message = "studies.main.backbones.1 = .*mamba_ssm has no kernels for Sessa's layer"
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, {}, training=training, studies=studies)


def test_sessa_of_any_depth(tmp_path):
    load(tmp_path, {}, studies={"main": {"backbones": ["sessa"], "depths": [3]}})
    message = "depths.0 = 3: hybrid backbones place layers by quarters"
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, {}, studies={"main": {"backbones": ["hybrid50sessa"], "depths": [3]}})
