"""Rules between keys of the section ``merging``, and the merges it asks for."""

import pytest
import yaml

from fedscan.config import files as config_files
from fedscan.config.files import ConfigError
from fedscan.experiments.merging.grid import merges, specialist_name, subset

DEFAULT = "config/config.yaml"


def load(tmp_path, section, **others):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"merging": section, **others}))
    return config_files.load([DEFAULT, file]).merging


@pytest.mark.parametrize(
    ("section", "others", "message"),
    [
        ({"reserved_tokens": 96}, {}, "reserved_tokens = 96: must be less than .*max_tokens = 96"),
        ({"source": "local"}, {}, "needs the files of 'ag_news': add merging.local.ag_news"),
        (
            {"fine_tuning": {"checkpoint_epochs": [2, 9]}},
            {},
            "checkpoint_epochs.1 = 9: must not exceed merging.fine_tuning.epochs = 4",
        ),
        ({"fine_tuning": {"mus": [0.1]}}, {}, r"mus = \[0.1\]: must contain 0"),
        ({"bases": {"embedded": None}}, {}, "at least one base is needed"),
        (
            {},
            {"workflow": {"keep_final_model": False}},
            "embedded.checkpoint = 'federated': .*set workflow.keep_final_model: true",
        ),
        ({"tasks": ["sst2"]}, {}, "tasks.0 = 'sst2': expected one of 'ag_news', 'dbpedia_14'"),
        ({"operators": {"ties": {"densities": [0]}}}, {}, "densities.0 = 0: .*greater than 0"),
        (
            {"bases": {"mine": {"batch_size": 4}}},
            {},
            "bases.mine.*checkpoint: this key is required",
        ),
    ],
)
def test_every_mistake_is_one_line(tmp_path, section, others, message):
    with pytest.raises(ConfigError, match=message) as error:
        load(tmp_path, section, **others)
    assert all(".yaml:" in line for line in str(error.value).splitlines())


def test_a_base_can_be_taken_away(tmp_path):
    mine = {"checkpoint": "folder", "batch_size": 4, "paper_checkpoint": None}
    found = load(tmp_path, {"bases": {"embedded": None, "mine": mine}}).bases
    assert found["embedded"] is None
    assert found["mine"].checkpoint == "folder"


def test_the_papers_merges():
    paper = config_files.load([DEFAULT, "config/paper.yaml"]).merging
    operators = paper.operators.model_dump()
    tuning = paper.fine_tuning
    found = merges(tuning.mus, tuning.checkpoint_epochs, operators)
    # Three epochs; without proximal term one average, 6 scales, 16 (scale, density); five more mu.
    assert len(found) == 3 * (1 + 6 + 16) + 3 * 5
    assert len({merge.name for merge in found}) == len(found)
    assert found[0].name == "epoch=1,mu=0,operator=average,scale=1"
    assert {merge.operator for merge in found if merge.mu} == {"average"}
    bases = {base.paper_checkpoint: base.batch_size for base in paper.bases.values() if base}
    assert bases == {"Mamba2-130M": 4, "Mamba2-370M": 4, "Mamba2-780M": 8}


def test_names_are_canonical():
    assert subset(None) == "evaluation"
    assert subset(3) == "train_3"
    assert specialist_name(0, "trec", 1e-5, 4) == "epoch=4,mu=1e-05,seed=0,task=trec"
