"""A complete job in miniature: seconds on one core."""

from pathlib import Path

from fedscan.experiments.comparison import training as federated
from fedscan.experiments.comparison.tables import JOB_TABLES
from fedscan.experiments.corpus import partition, tokens
from tests import jobs
from tests.jobs import silent

DATA = {
    "source": "synthetic", "seed": 0, "max_tokens_per_document": 500, "duplicates": "drop",
    "local": {"paths": []},
}  # fmt: skip
TOKENS = {
    "data": DATA,
    "tokenizer": {"name": "bytes", "gpt2": {"folder": None}},
    "partition": {"sequence_length": 32, "sequences_per_client": 40, "train_val_split": 0.8},
    "domains": ["arxiv", "github"],
}
PARTITION = {
    "domains": ["arxiv", "github"],
    "clients": 2,
    "beta": 0.7,
    "train_val_split": 0.8,
}
MODEL = {
    "d_model": 16, "d_state": 8, "d_conv": 4, "expand": 2, "headdim": 8, "ngroups": 1,
    "attention_heads": 2, "vocab_size": 257, "pad_vocab_size_multiple": 8, "chunk_size": 16,
}  # fmt: skip
TRAINING = {
    "rounds": 4, "batch_size": 4, "lr": 0.01, "adam_betas": [0.9, 0.999], "adam_eps": 1e-8,
    "weight_decay": 0.01, "clip_norm": 1.0, "precision": "float32", "eval_batch_size": 8,
    "kernels": "torch", "device": "cpu", "step": "eager", "threads": 1,
}  # fmt: skip
SCAFFOLD = {
    "refresh_every": 2,
    "correction_scale": 0.01,
    "control_lr": 0.5,
    "control_bound": 0.1,
    "estimate": "mean_gradient",
}


def settings(algorithm="fedavg", values=({},), **training):
    return {
        "job": {
            "backbone": "mamba2", "clients": 2, "setting": "1", "depth": 1, "local_steps": 3,
            "beta": 0.7, "algorithm": algorithm, "seed": 0,
        },
        "values": [dict(value) for value in values],
        "training": TRAINING | training,
        "model": MODEL,
        "data_source": "synthetic",
        "tokenizer": "bytes",
        "rerun_on_code_change": True,
        "keep_final_model": False,
        "keep_model_rounds": [],
        "code": "0123456789abcdef",
    }  # fmt: skip


def prepare(folder):
    """Tokens and partition; returns the partition's folder."""
    jobs.run(tokens, TOKENS, f"{folder}/tokens")
    jobs.run(partition, PARTITION, f"{folder}/partition", tokens=f"{folder}/tokens")
    return f"{folder}/partition"


def train(job_settings, prepared, folder, report=silent):
    """Run the job; returns its tables' bytes."""
    scratch = f"{folder}/checkpoints"
    jobs.run(
        federated, job_settings, f"{folder}/job", scratch=scratch, report=report, partition=prepared
    )
    return {t.name: Path(folder, "job", f"{t.name}.parquet").read_bytes() for t in JOB_TABLES}
