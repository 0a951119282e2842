"""Checkpoints of mamba_ssm and transformers: every format in, every mistake named."""

import json

import pytest
import torch
from safetensors.torch import save_file

from fedscan.models.architecture import Architecture, layout
from fedscan.models.initialise import initialise
from fedscan.models.names import to_huggingface, to_mamba_ssm
from fedscan.models.pretrained import architecture, description, empty_model, parameters
from fedscan.pipeline.model_files import TensorFile, from_pretrained, read_base, write_base

SHAPE = Architecture(layout(2), 16, 8, 4, 2, 8, 1, 1, 37, 8, 16)
HYBRID = SHAPE._replace(mixers=layout(SHAPE.depth, (1,)), attention_heads=2)
LOOPED = SHAPE._replace(mixers=layout(SHAPE.depth, (0,), "sessa"), attention_heads=2)
PUBLIC = {  # what state-spaces/mamba2-130m's config.json says
    "d_model": 768, "d_intermediate": 0, "n_layer": 24, "vocab_size": 50277,
    "ssm_cfg": {"layer": "Mamba2"}, "attn_layer_idx": [], "attn_cfg": {}, "rms_norm": True,
    "residual_in_fp32": True, "fused_add_norm": True, "pad_vocab_size_multiple": 16,
    "tie_embeddings": True,
}  # fmt: skip


def params(shape=SHAPE):
    return {name: t.detach() for name, t in initialise(shape, 0).named_parameters()}


def folder(path, weights="model.safetensors", shape=SHAPE, state=None, facts=None):
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(facts or description(shape)))
    state = to_mamba_ssm(params(shape)) if state is None else state
    state = {name: tensor.clone() for name, tensor in state.items()}
    if weights == "pytorch_model.bin":
        torch.save(state, path / weights)
    elif weights == "model.safetensors":
        save_file(state, path / weights)
    else:
        shard(path, state)
    return str(path)


def shard(path, state):
    names = sorted(state)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, members in parts.items():
        save_file({name: state[name] for name in members}, path / file)
    where = {name: file for file, members in parts.items() for name in members}
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


def test_the_public_description_has_mamba_ssms_defaults():
    found = architecture(PUBLIC, "config.json")
    assert found == Architecture(layout(24), 768, 128, 4, 2, 64, 1, 1, 50277, 16, 256)
    assert found.padded_vocab_size == 50288


@pytest.mark.parametrize("shape", [SHAPE, HYBRID, LOOPED, SHAPE._replace(ngroups=2, chunk_size=64)])
def test_a_description_reads_back(shape):
    assert architecture(json.loads(json.dumps(description(shape))), "x") == shape


@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin", "sharded"])
@pytest.mark.parametrize("shape", [SHAPE, HYBRID])
def test_every_weight_format_loads(tmp_path, weights, shape):
    found, loaded = from_pretrained(folder(tmp_path / "m", weights, shape), "float32")
    assert found == shape
    assert list(loaded) == list(params(shape))
    assert all(torch.equal(loaded[name], tensor) for name, tensor in params(shape).items())
    _, low = from_pretrained(str(tmp_path / "m"), "bfloat16")
    assert {t.dtype for t in low.values()} == {torch.bfloat16}


def test_a_transformers_checkpoint_gives_transformers_logits(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.Mamba2Config(
        num_heads=4, head_dim=8, vocab_size=40, hidden_size=16, state_size=8, num_hidden_layers=2,
        expand=2, conv_kernel=4, n_groups=1, use_bias=False, use_conv_bias=True, chunk_size=16,
        tie_word_embeddings=True, pad_token_id=0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    theirs = transformers.Mamba2ForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path / "hf")
    shape, loaded = from_pretrained(str(tmp_path / "hf"), "float32")
    ids = torch.randint(0, 40, (2, 9), generator=torch.Generator().manual_seed(0))
    model = empty_model(shape)
    with torch.no_grad():
        ours = torch.func.functional_call(model, loaded, (ids,))
        torch.testing.assert_close(ours, theirs(ids).logits, rtol=1e-4, atol=1e-5)


def test_transformers_names_load_too(tmp_path):
    source = folder(tmp_path / "m", state=to_huggingface(params()))
    assert list(from_pretrained(source, "float32")[1]) == list(params())


def test_our_own_base_reads_back_tensor_by_tensor(tmp_path):
    write_base(tmp_path, SHAPE, params())
    shape, loaded = read_base(tmp_path)
    assert shape == SHAPE
    file = TensorFile(tmp_path / "model.safetensors")
    for name, tensor in params().items():
        assert torch.equal(loaded[name], tensor)
        assert torch.equal(file[name], tensor)
    with pytest.raises(ValueError, match=r"model.safetensors: no tensor 'x'"):
        file["x"]


def changed(**values):
    return {**description(SHAPE), **values}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (changed(ssm_cfg={"layer": "Mamba1"}), "ssm_cfg.layer is 'Mamba1', expected 'Mamba2'"),
        (changed(ssm_cfg={"layer": "Mamba2", "bias": True}), "ssm_cfg.bias is True"),
        (changed(ssm_cfg={"layer": "Mamba2", "novel": 1}), "ssm_cfg.novel is not known"),
        (changed(tie_embeddings=False), "tie_embeddings is False"),
        (changed(d_intermediate=64), "d_intermediate is 64"),
        ({"model": "gpt2"}, "no key 'ssm_cfg'|ssm_cfg.layer is None"),
        ({k: v for k, v in changed().items() if k != "n_layer"}, "no key 'n_layer'"),
        ({"hidden_size": 16, "use_bias": True}, "use_bias is True"),
    ],
)
def test_a_description_of_something_else_is_refused(tmp_path, facts, message):
    with pytest.raises(ValueError, match=message) as error:
        from_pretrained(folder(tmp_path / "m", facts=facts), "float32")
    assert "config.json" in str(error.value)


def test_wrong_tensors_are_named_with_what_was_expected():
    name = "backbone.layers.1.mixer.in_proj.weight"
    good = to_mamba_ssm(params())
    short = {**good, name: good[name][:-1]}
    with pytest.raises(
        ValueError, match=rf"file: tensor '{name}' has shape \(83, 16\), expected \(84, 16\)"
    ):
        parameters(short, SHAPE, torch.float32, "file")
    missing = {n: t for n, t in good.items() if n != name}
    with pytest.raises(ValueError, match=rf"missing tensors: {name}; unexpected tensors: none"):
        parameters(missing, SHAPE, torch.float32, "file")
    with pytest.raises(ValueError, match=r"unexpected tensors: extra \(0 and 1 in all\)"):
        parameters({**good, "extra": good[name]}, SHAPE, torch.float32, "file")
    untied = {**good, "lm_head.weight": good["lm_head.weight"] + 1}
    with pytest.raises(ValueError, match="file: .*differs from.*tied head"):
        parameters(untied, SHAPE, torch.float32, "file")


def test_damaged_or_missing_files_are_named(tmp_path):
    source = folder(tmp_path / "m")
    (tmp_path / "m/model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="model.safetensors: not a whole safetensors file"):
        from_pretrained(source, "float32")
    (tmp_path / "m/model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"no weights; expected model.safetensors, .*bin"):
        from_pretrained(source, "float32")
    (tmp_path / "m/pytorch_model.bin").write_bytes(b"not a pickle")
    with pytest.raises(ValueError, match="pytorch_model.bin: cannot be loaded as weights"):
        from_pretrained(source, "float32")
    (tmp_path / "m/config.json").write_text("{")
    with pytest.raises(ValueError, match="config.json: not JSON"):
        from_pretrained(source, "float32")
    (tmp_path / "m/config.json").unlink()
    with pytest.raises(ValueError, match="config.json: no such file"):
        from_pretrained(source, "float32")


class Dangerous:
    def __reduce__(self):
        return (print, ("executed",))


def test_a_pickle_that_would_run_code_is_refused(tmp_path, capsys):
    source = folder(tmp_path / "m", "pytorch_model.bin")
    torch.save({"a": Dangerous()}, tmp_path / "m/pytorch_model.bin")
    with pytest.raises(ValueError, match="cannot be loaded as weights"):
        from_pretrained(source, "float32")
    assert "executed" not in capsys.readouterr().out


def test_a_name_that_is_neither_folder_nor_hub_id_is_refused():
    with pytest.raises(ValueError, match="is no folder and no hub id"):
        from_pretrained("./nowhere", "float32")
    with pytest.raises(ValueError, match="cannot be fetched.*downloaded copy"):
        from_pretrained("nobody/nothing", "float32")


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 5\n"


@pytest.mark.parametrize(
    "file",
    ["config.json", "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"],
)
def test_a_pointer_of_git_lfs_is_named_by_every_reader(tmp_path, file):
    place = folder(tmp_path / "base", weights=file if file.endswith("bin") else "model.safetensors")
    if file.endswith("index.json"):
        (tmp_path / "base/model.safetensors").unlink()
    (tmp_path / "base" / file).write_text(POINTER)
    with pytest.raises(ValueError, match=rf"{file}: a Git LFS pointer.*git lfs pull"):
        from_pretrained(place, "float32")


def test_a_pointer_in_place_of_a_shard_or_a_base_is_named(tmp_path):
    place = folder(tmp_path / "base", weights="shards")
    (tmp_path / "base/model-2.safetensors").write_text(POINTER)
    with pytest.raises(ValueError, match=r"model-2.safetensors: a Git LFS pointer"):
        from_pretrained(place, "float32")
    with pytest.raises(ValueError, match=r"model-2.safetensors: a Git LFS pointer"):
        TensorFile(tmp_path / "base/model-2.safetensors")


class Code:
    def __reduce__(self):
        return print, ("code ran",)


def test_no_advice_to_load_unsafely_is_repeated(tmp_path):
    place = folder(tmp_path / "base", weights="pytorch_model.bin")
    torch.save({"a": Code()}, tmp_path / "base/pytorch_model.bin")
    with pytest.raises(ValueError, match="not a file of tensors alone") as error:
        from_pretrained(place, "float32")
    assert "weights_only" not in str(error.value)
    assert "trust" not in str(error.value)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.complex64, torch.bool])
def test_weights_of_another_kind_are_refused(tmp_path, dtype):
    state = to_mamba_ssm(params())
    state["backbone.norm_f.weight"] = state["backbone.norm_f.weight"].to(dtype)
    place = folder(tmp_path / "base", state=state)
    kind = str(dtype).removeprefix("torch.")
    with pytest.raises(ValueError, match=rf"norm_f.weight' has dtype {kind}; expected floating"):
        from_pretrained(place, "float32")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floating_point_weights_are_read(tmp_path, dtype):
    state = {name: tensor.to(dtype) for name, tensor in to_mamba_ssm(params()).items()}
    _, found = from_pretrained(folder(tmp_path / "base", state=state), "float32")
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n_layer", "two"), ("n_layer", 0), ("d_model", 1.5), ("vocab_size", None),
        ("n_layer", True), ("ssm_cfg", "Mamba2"), ("attn_layer_idx", 1), ("attn_layer_idx", ["x"]),
        ("attn_cfg", 3),
    ],
)  # fmt: skip
def test_a_description_with_values_of_the_wrong_kind_is_one_error(tmp_path, key, value):
    facts = description(HYBRID) | {key: value}
    with pytest.raises(ValueError, match=r"^config.json: "):
        architecture(facts, "config.json")


@pytest.mark.parametrize("index", [{}, {"weight_map": []}, {"weight_map": {"a": 3}}])
def test_an_index_without_files_is_one_error(tmp_path, index):
    place = folder(tmp_path / "base", weights="shards")
    (tmp_path / "base/model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="no weight_map"):
        from_pretrained(place, "float32")


@pytest.mark.parametrize("kinds", [["sessa"], ["lstm"] * SHAPE.depth, "sessa"])
def test_other_kinds_of_layers_are_named(kinds):
    facts = description(LOOPED) | {"fedscan_mixers": kinds}
    with pytest.raises(ValueError, match=r"x: fedscan_mixers is .*; expected \d+ of mamba2, att"):
        architecture(facts, "x")
