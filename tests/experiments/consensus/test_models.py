"""Stage consensus_model: rows, identities, kept draws, text, bad input."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from fedscan.experiments.consensus import loading, models, variants
from fedscan.experiments.consensus.tables import MODEL_TABLES
from fedscan.experiments.consensus.variants import ALL_LAYERS
from fedscan.io import parquet
from fedscan.measure.consensus import agreement, norms, t_star, window_minima
from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.pipeline.model_files import write_base
from fedscan.seeds import derive, generator
from tests.experiments.consensus import made
from tests.experiments.consensus.made import SHAPE, VARIANTS, iterate, tables, variant
from tests.oracles import depth_iteration as oracle

PLAIN = {name: value for name, value in SHAPE.items() if name != "depth"}
FULL = Architecture(layout(2), **PLAIN, attention_heads=1, chunk_size=256)
CURVES = 3 + 2 + 1  # three models' own, two repeated layers count as two


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return iterate(tmp_path_factory.mktemp("results"))


def initial():
    return initialise(FULL, derive(0, "initial model"))


def test_every_variant_layer_draw_and_depth_has_a_row(done):
    rows = made.curves(done)
    counted = rows.groupby(["variant", "layer", "draw"]).size()
    assert (counted == 13).all()
    found = rows.groupby("variant")["layer"].unique().map(sorted).to_dict()
    assert found == {name: [ALL_LAYERS] for name in VARIANTS} | {"repeat": [0, 1]}
    assert set(rows["draw"]) == {0, 1, 2}
    windows = pd.read_parquet(done / "consensus_windows.parquet")
    assert len(windows) == CURVES * 3 * 6 * 2
    assert (rows["status"] == "completed").all()


def test_a_curve_by_the_oracle(done):
    """Tokens of the stage's own stream, layers in plain NumPy, measures from their definition."""
    ids = generator(0, "consensus tokens", 1).integers(40, size=6)
    model = initial().double()
    x = model.backbone.embedding.weight.detach()[torch.as_tensor(ids)].numpy()
    rows = made.curves(done)
    rows = rows[(rows["variant"] == "no_gate") & (rows["draw"] == 1)].sort_values("depth")
    q, steps = [], []
    for depth, row in enumerate(rows.to_dict("records")):
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        values = np.linalg.eigvalsh(unit @ unit.T) / 6
        assert row["lambda1"] == pytest.approx(values[-1], abs=1e-5)
        assert row["participation"] == pytest.approx(1 / (values**2).sum(), rel=1e-4)
        assert row["norm"] == pytest.approx(np.linalg.norm(x, axis=1).mean(), rel=1e-5)
        if depth:
            assert row["q_token_first"] == pytest.approx(q[-1][0], rel=1e-4, abs=1e-6)
            assert row["q_token_mean"] == pytest.approx(q[-1].mean(), rel=1e-4, abs=1e-6)
            assert row["step"] == pytest.approx(steps[-1], rel=1e-4)
        block = model.backbone.layers[depth % 2].state_dict()
        output, _, own, _ = oracle.layer(x, block, (4, 8, 1, 4, 4), gate=0.0)
        steps.append((np.linalg.norm(output, axis=1) / np.linalg.norm(x, axis=1)).mean())
        q.append(own)
        x = x + output
    windows = pd.read_parquet(done / "consensus_windows.parquet")
    part = windows[(windows["variant"] == "no_gate") & (windows["draw"] == 1)]
    part = part[part["quantity"] == "q_token"].sort_values("token")
    shortest = t_star(window_minima(np.stack(q[:12])))
    assert part["t_star"].fillna(0).astype(int).tolist() == shortest.tolist()
    minima = pd.read_parquet(done / "consensus_minima.parquet")
    (row,) = minima[
        (minima["variant"] == "no_gate") & (minima["draw"] == 1) & (minima["quantity"] == "q_token")
    ].to_dict("records")
    lowest = window_minima(np.stack(q[:12]))
    np.testing.assert_allclose(row["first_token"], lowest[:, 0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(row["worst"], lowest.min(1), rtol=1e-4, atol=1e-6)


def test_measures_obey_their_bounds_and_variants_share_their_start(done):
    rows = made.curves(done)
    largest, spread = rows["lambda1"], rows["participation"]
    assert (1 / largest <= spread + 1e-9).all()
    assert (spread <= 1 / largest**2 + 1e-9).all()
    first = rows[rows["depth"] == 0].set_index(["variant", "layer", "draw"])["lambda1"]
    for draw in range(3):
        own = {first[name, ALL_LAYERS, draw] for name in ("gate", "no_gate")}
        assert own == {first["repeat", 0, draw], first["repeat", 1, draw]}
        assert len(own) == 1
        assert first["random", -1, draw] == first["random_no_silu", -1, draw]


def test_drawn_tokens_have_the_mean_cosine_that_is_asked_for():
    from fedscan.experiments.consensus.starts import alike

    tokens = alike(0, range(4), 30, 4000, 0.4)
    assert agreement(tokens, norms(tokens)).mean_cosine == pytest.approx(np.full(4, 0.4), abs=0.03)
    tokens = alike(0, range(4), 30, 4000, 0.0)
    assert agreement(tokens, norms(tokens)).mean_cosine == pytest.approx(np.zeros(4), abs=0.03)


def test_same_bytes_whatever_the_batch_and_the_other_variants(done, tmp_path):
    for size in (1, 3):
        again = iterate(tmp_path / str(size), draws_per_batch=size)
        assert tables(again) == tables(done)
    alone = iterate(tmp_path / "alone", variants={"no_gate": VARIANTS["no_gate"]})
    for table in MODEL_TABLES:
        whole = pd.read_parquet(done / f"{table.name}.parquet")
        own = pd.read_parquet(alone / f"{table.name}.parquet")
        part = whole[whole["variant"] == "no_gate"].reset_index(drop=True)
        pd.testing.assert_frame_equal(part, own)


def counted(monkeypatch):
    """What is computed: (variant, layer, draws)."""
    calls, real = [], models.followed

    def followed(one, subject, ids, draws):
        calls.append((one.name, one.layer, list(draws)))
        return real(one, subject, ids, draws)

    monkeypatch.setattr(models, "followed", followed)
    return calls


def test_a_new_draw_or_variant_computes_only_itself(tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    own = {"variants": {"gate": VARIANTS["gate"]}}
    folder = iterate(tmp_path / "a", **own)
    assert calls == [("gate", -1, [0, 1]), ("gate", -1, [2])]
    calls.clear()
    iterate(tmp_path / "a", **own)
    assert not calls
    iterate(tmp_path / "a", **own, draws=5)
    assert calls == [("gate", -1, [3, 4])]
    calls.clear()
    wider = {"variants": {"gate": VARIANTS["gate"], "no_gate": VARIANTS["no_gate"]}, "draws": 5}
    iterate(tmp_path / "a", **wider)
    assert calls == [("no_gate", -1, [0, 1]), ("no_gate", -1, [2, 3]), ("no_gate", -1, [4])]
    assert tables(folder) == tables(iterate(tmp_path / "b", **wider))


@pytest.mark.parametrize(
    "change",
    [
        {"depth": 11}, {"tokens": 5}, {"seed": 1}, {"precision": "float64"}, {"threads": 2},
        {"model": made.model(vocabulary=30)}, {"code": "f" * 16},
        {"random": made.RANDOM | {"mean_cosine": 0.3}},
    ],
    ids=str,
)  # fmt: skip
def test_what_makes_rows_invalid(tmp_path, monkeypatch, change):
    own = {"variants": {"gate": VARIANTS["gate"], "random": VARIANTS["random"]}, "draws": 1}
    iterate(tmp_path, **own)
    calls = counted(monkeypatch)
    iterate(tmp_path, **own | change)
    # A redrawn variant reads neither the model's vocabulary nor, if tokens are drawn, its ids; the
    # others read nothing of section random.
    wanted = {"gate", "random"}
    wanted -= {"gate"} if "random" in change else set()
    wanted -= {"random"} if "model" in change else set()
    assert {name for name, *_ in calls} == wanted


def test_the_model_and_its_layers_are_described(done):
    (facts,) = pd.read_parquet(done / "consensus_model.parquet").to_dict("records")
    assert (facts["source"], facts["layers"], facts["heads"], facts["headdim"]) == (
        "random",
        2,
        4,
        8,
    )
    assert facts["parameters"] == sum(p.numel() for p in initial().parameters())
    rows = pd.read_parquet(done / "consensus_layers.parquet")
    block = initial().backbone.layers[1]
    weight = (
        block.mixer.in_proj.weight.detach().double().numpy() * block.norm.weight.detach().numpy()
    )
    S_B, S_C = weight[64:68], weight[68:72]
    values = np.linalg.eigvalsh((S_C.T @ S_B + S_B.T @ S_C) / 2)
    row = rows.iloc[1]
    assert row["trace"] == pytest.approx(np.trace(S_C.T @ S_B), abs=1e-12)
    assert row["smallest"] == pytest.approx(values[0])
    assert row["largest"] == pytest.approx(values[-1])
    assert row["positive_share"] == (values > 1e-10).mean()
    assert "gamma = 0: 8 channels" in row["undefined"]
    assert "c_star" in row["undefined"]


def test_text_takes_sequences_without_replacement(tmp_path):
    from fedscan.experiments.corpus.sequences import sequence_table
    from fedscan.experiments.corpus.tables import SEQUENCES

    sequences = np.arange(5 * 8).reshape(5, 8).astype(np.uint16)
    facts = {
        "client": np.zeros(5, np.int64), "sequence": np.arange(5),
        "domain": np.array(["arxiv"] * 5),
    }  # fmt: skip
    columns = {c.name: facts[c.name] for c in SEQUENCES.columns if c.name != "input_ids"}
    path = tmp_path / "partition/x/validation.parquet"
    parquet.write(path, SEQUENCES, sequence_table(sequences, columns), {})
    text = {"source": "text", "text": "partition/x/validation.parquet"}
    own = {"variants": {"gate": VARIANTS["gate"]}}
    rows = made.curves(iterate(tmp_path, **text, **own, draws=5))
    embedding = initial().backbone.embedding.weight.detach().numpy()
    firsts = sorted(rows[rows["depth"] == 0]["lambda1"])
    taken = embedding[sequences[:, :6]]
    wanted = sorted(agreement(taken, norms(taken)).lambda1)
    np.testing.assert_allclose(firsts, wanted, rtol=1e-12)
    with pytest.raises(ValueError, match=r"6 draws of 6 tokens .* has 5 of 8 tokens"):
        iterate(tmp_path, **text, **own, draws=6)


def test_a_checkpoint_of_ones_own(tmp_path, done):
    params = {name: value.detach() for name, value in initial().named_parameters()}
    write_base(tmp_path / "mine", FULL, params)
    found = iterate(tmp_path, model=made.model(str(tmp_path / "mine")))
    pd.testing.assert_frame_equal(made.curves(found), made.curves(done))
    (facts,) = pd.read_parquet(found / "consensus_model.parquet").to_dict("records")
    assert facts["source"] == "mine"


def test_attention_layers_are_refused(tmp_path):
    shape = FULL._replace(mixers=layout(FULL.depth, (1,)), attention_heads=2)
    params = {name: value.detach() for name, value in initialise(shape, 0).named_parameters()}
    write_base(tmp_path / "mixed", shape, params)
    message = r"consensus.models.tiny.checkpoint .*layers \[1\] are attention"
    with pytest.raises(ValueError, match=message):
        iterate(tmp_path, model=made.model(str(tmp_path / "mixed")))
    assert not (tmp_path / "consensus").exists()


def test_damaged_checkpoints_are_named(tmp_path):
    params = {name: value.detach() for name, value in initial().named_parameters()}
    write_base(tmp_path / "mine", FULL, params)
    weights = tmp_path / "mine/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(ValueError, match="mine/model.safetensors: not a whole"):
        iterate(tmp_path, model=made.model(str(tmp_path / "mine")))
    del params["backbone.layers.1.mixer.D"]
    write_base(tmp_path / "mine", FULL, params)
    with pytest.raises(ValueError, match="missing tensors: backbone.layers.1.mixer.D"):
        iterate(tmp_path, model=made.model(str(tmp_path / "mine")))


def test_a_layer_that_is_not_there_and_a_vocabulary_that_is_too_large(tmp_path):
    with pytest.raises(ValueError, match=r"variants.repeat.layers: 2; .* are 0 to 1"):
        iterate(tmp_path, variants={"repeat": variant(weights="repeat", layers=[0, 2], gate=0)})
    with pytest.raises(ValueError, match=r"models.tiny.vocabulary: 41; the embedding has 40 rows"):
        iterate(tmp_path, model=made.model(vocabulary=41))
    assert not (tmp_path / "consensus").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"consensus.device is cuda"):
        iterate(tmp_path, device="cuda")


def test_a_draw_that_becomes_non_finite_fails_and_the_others_go_on(tmp_path, monkeypatch):
    """One id's embedding is not finite: the draws that have it fail, at depth 0."""
    real = loading.subject
    ids = np.stack([generator(0, "consensus tokens", d).integers(40, size=6) for d in range(3)])
    # An id that draw 1 alone has.
    (bad,) = [i for i in ids[1] if i not in ids[[0, 2]]][:1]

    def broken(*arguments):
        found = real(*arguments)
        found.embedding[bad] = float("nan")
        return found

    monkeypatch.setattr(loading, "subject", broken)
    own = {k: VARIANTS[k] for k in ("gate", "random")}
    folder = iterate(tmp_path, variants=own)
    rows = made.curves(folder)
    failed = rows[rows["status"] == "failed"]
    assert set(zip(failed["variant"], failed["draw"], strict=True)) == {("gate", 1)}
    assert failed["lambda1"].isna().all()
    token = list(ids[1]).index(bad)
    assert set(failed["failure"]) == {f"depth 0, draw's token {token} is not finite"}
    windows = pd.read_parquet(folder / "consensus_windows.parquet")
    assert (windows["status"] == "failed").sum() == 6 * 2
    whole = made.curves(iterate(tmp_path / "whole", variants=own))
    for draw in (0, 2):
        np.testing.assert_allclose(
            rows[(rows["variant"] == "gate") & (rows["draw"] == draw)]["lambda1"],
            whole[(whole["variant"] == "gate") & (whole["draw"] == draw)]["lambda1"],
        )


def test_a_zero_token_on_the_sphere_fails_too(tmp_path, monkeypatch):
    real = loading.subject

    def broken(*arguments):
        found = real(*arguments)
        found.embedding[:] = 0
        return found

    monkeypatch.setattr(loading, "subject", broken)
    for update, word in (("residual", "is zero"), ("sphere", "is not finite")):
        folder = iterate(tmp_path / update, variants={"v": variant(update=update)}, draws=1)
        rows = made.curves(folder)
        assert (rows["status"] == "failed").all()
        assert word in rows["failure"].iloc[0]


def test_weights_per_draw(tmp_path):
    own = {"random": VARIANTS["random"], "mixer": variant(weights="redraw", conv=False)}
    random = made.RANDOM | {"per": "layer_and_draw"}
    rows = made.curves(iterate(tmp_path / "a", variants=own, random=random))
    alone = made.curves(iterate(tmp_path / "b", variants=own, random=random, draws_per_batch=3))
    pd.testing.assert_frame_equal(rows, alone)
    shared = made.curves(iterate(tmp_path / "c", variants=own))
    last = [frame[frame["depth"] == 12]["lambda1"].to_numpy() for frame in (rows, shared)]
    assert not np.allclose(*last)


@pytest.mark.parametrize("law", ["mamba_ssm", "gaussian"])
def test_redrawn_mixers_share_their_weights_between_variants(tmp_path, law, monkeypatch):
    drawn = []
    real = variants.redrawn_mixer

    def redrawn(*arguments):
        drawn.append(real(*arguments).out)
        return real(*arguments)

    monkeypatch.setattr(variants, "redrawn_mixer", redrawn)
    own = {
        "on": variant(weights="redraw", conv=False),
        "off": variant(weights="redraw", conv=False, silu=False),
    }
    iterate(tmp_path, variants=own, random=made.RANDOM | {"law": law}, draws=1, depth=3)
    assert len(drawn) == 6


def test_provenance_is_in_the_tables(done):
    import pyarrow.parquet as pq

    metadata = json.loads(pq.read_metadata(done / "consensus_curves.parquet").metadata[b"fedscan"])
    assert metadata["settings"]["variants"]["no_gate"]["gate"] == 0
    assert "draws_per_batch" not in metadata["settings"]
