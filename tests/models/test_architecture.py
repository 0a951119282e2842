"""A layer's kind is a name: layouts, files, and the registry's entries."""

import json

import pytest
import torch

from fedscan.models.architecture import Architecture, from_facts, layout, to_facts
from fedscan.models.attention import Attention
from fedscan.models.initialise import initialise
from fedscan.models.label_scores import SharedPrompt, WholeSequences, label_scores
from fedscan.models.mamba2 import Mamba2
from fedscan.models.mixers import MIXERS

SHAPE = Architecture(layout(4, [1, 3]), 16, 8, 4, 2, 8, 1, 2, 40, 8, 8)


def test_layouts():
    assert layout(2) == ("mamba2", "mamba2")
    assert SHAPE.mixers == ("mamba2", "attention", "mamba2", "attention")
    assert SHAPE.attention_layers == (1, 3)
    assert SHAPE.depth == 4
    with pytest.raises(ValueError, match="layer 2 is attention, and layers are 0 to 1"):
        layout(2, [2])


def test_every_kind_makes_its_module():
    model = initialise(SHAPE, 0)
    kinds = [type(block.mixer) for block in model.backbone.layers]
    assert kinds == [Mamba2, Attention, Mamba2, Attention]
    hidden = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    for mixer in MIXERS.values():
        made = mixer.make(SHAPE)
        with torch.no_grad():
            mixer.construct(made, torch.Generator().manual_seed(1))
        assert made(hidden).shape == hidden.shape


def test_files_describe_known_kinds_as_they_always_did():
    facts = to_facts(SHAPE)
    # What earlier versions wrote and read, as JSON.
    assert json.loads(json.dumps(facts)) == {
        "depth": 4, "attention_layers": [1, 3], "d_model": 16, "d_state": 8, "d_conv": 4,
        "expand": 2, "headdim": 8, "ngroups": 1, "attention_heads": 2, "vocab_size": 40,
        "pad_vocab_size_multiple": 8, "chunk_size": 8,
    }  # fmt: skip
    assert from_facts(json.loads(json.dumps(facts))) == SHAPE
    with pytest.raises(KeyError, match="d_model"):
        from_facts({"depth": 4, "attention_layers": []})


def test_files_name_other_kinds():
    other = SHAPE._replace(mixers=("mamba2", "another"))
    facts = json.loads(json.dumps(to_facts(other)))
    assert facts["mixers"] == ["mamba2", "another"]
    assert from_facts(facts) == other


def test_label_scores_ask_the_kinds():
    whole = initialise(SHAPE, 0)
    plain = initialise(SHAPE._replace(mixers=layout(2)), 0)
    assert isinstance(label_scores(whole), WholeSequences)
    assert isinstance(label_scores(plain), SharedPrompt)
