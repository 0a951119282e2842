"""The whole of merging on a checkpoint of mamba2-130m's shape with random weights, on a CPU.

Two tasks, four steps of 4 x 256 tokens, every stage as the workflow calls it: seconds and the peak
memory of the process per stage, each in a process of its own. Says that the real size works and
what it takes; accuracies of random weights mean nothing.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THREADS = 2
TASKS = ["ag_news", "imdb"]
MACHINE = {"precision": "float32", "device": "cpu", "threads": THREADS}
CODE = {"rerun_on_code_change": False, "code": ""}
TUNING = {
    "epochs": 1, "checkpoint_epochs": [1], "lr": 2e-4, "adam_betas": [0.9, 0.999],
    "adam_eps": 1e-8, "weight_decay": 0.0, "clip_norm": 1.0, "warmup_share": 0.05, "mus": [0.0],
}  # fmt: skip
OPERATORS = {
    "task_arithmetic": {"scales": [0.7]},
    "ties": {"scales": [1.0], "densities": [0.1]},
}
SMALL = {"d_model": 64, "n_layer": 2}


def silent(*_):
    pass


silent.advance = silent


def run(stage, settings, root, folder, **inputs):
    """Run a stage as the workflow does; the benchmark's folder is results/merging."""
    from fedscan.pipeline.stage import Job

    stage.run(
        Job(settings, inputs, root.parent, root / folder, root / "unfinished", silent, silent)
    )


def checkpoint(folder, small):
    """config.json and pytorch_model.bin as on the hub; values from the initialiser."""
    import torch

    from fedscan.models.initialise import initialise
    from fedscan.models.names import to_mamba_ssm
    from fedscan.models.pretrained import architecture, description

    facts = {
        "d_model": 768, "n_layer": 24, "vocab_size": 50277, "pad_vocab_size_multiple": 16,
        "ssm_cfg": {"layer": "Mamba2"},
    } | (SMALL if small else {})  # fmt: skip
    shape = architecture(facts, "benchmark")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(description(shape)))
    params = dict(initialise(shape, 0).named_parameters())
    state = {name: t.detach().to(torch.bfloat16) for name, t in params.items()}
    torch.save(to_mamba_ssm(state), folder / "pytorch_model.bin")


def task_data(root, _small):
    from fedscan.experiments.merging import tasks as task_data

    for task in TASKS:
        files = {split: root / f"{task}-{split}.jsonl" for split in ("train", "evaluation")}
        word = {"ag_news": "World", "imdb": "positive"}[task]
        for split, file in files.items():
            # Texts that are cut: every sequence has the paper's 256 tokens.
            texts = [f"{split} {index} " + "word " * 400 for index in range(8)]
            rows = [{"text": text, "label": word} for text in texts]
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for subset, split, cap in (("evaluation", "evaluation", 4), ("train_0", "train", 8)):
            settings = {
                "task": task, "split": split, "seed": 0, "cap": cap, "source": "local",
                "own": {task: {split: str(file) for split, file in files.items()}},
                "max_tokens": 256, "reserved_tokens": 16,
                "tokenizer": {"name": "gpt2", "gpt2": {"folder": None}},
            }  # fmt: skip
            run(task_data, settings, root, f"tasks/task={task}/subset={subset}")


def merging_base(root, small):
    from fedscan.experiments.merging import base as merging_base

    checkpoint(root / "hub", small)
    tokenizer = {"name": "gpt2", "gpt2": {"folder": None}}
    settings = {"origin": str(root / "hub"), "precision": "float32", "tokenizer": tokenizer}
    run(merging_base, settings, root, "bases/base=x")


def specialists(root, _small):
    from fedscan.experiments.merging import specialists

    for task in TASKS:
        settings = {"task": task, "seed": 0, "batch_size": 4, "fine_tuning": TUNING}
        base = root / "bases/base=x/model.safetensors"
        examples = root / f"tasks/task={task}/subset=train_0/examples.parquet"
        folder = f"specialists/base=x/task={task}/seed=0"
        inputs = {"model": base, "examples": examples}
        run(specialists, settings | MACHINE | CODE, root, folder, **inputs)


def evaluated(**values):
    return {
        "base": "x", "tasks": TASKS, "mus": [0.0], "checkpoint_epochs": [1],
        "evaluation_batch_size": 4, **MACHINE, **CODE, **values,
    }  # fmt: skip


def specialist_accuracy(root, _small):
    from fedscan.experiments.merging import accuracy as specialist_accuracy

    settings = evaluated(seeds=[0])
    run(specialist_accuracy, settings, root, "accuracy")


def merges(root, _small):
    from fedscan.experiments.merging import merges

    settings = evaluated(seed=0, operators=OPERATORS, gradient_examples=4)
    run(merges, settings, root, "merges")


STAGES = {
    f.__name__: f for f in (task_data, merging_base, specialists, specialist_accuracy, merges)
}


def one(stage, root, small):
    """Run one stage; print wall seconds and peak resident memory in GiB."""
    start = time.perf_counter()
    STAGES[stage](root, small)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(time.perf_counter() - start, peak)


def measure(root, small):
    """All stages in order -> (quantity, value, unit)."""
    rows = []
    for stage in STAGES:
        command = [sys.executable, __file__, "--one", stage, "--root", str(root)]
        command += ["--small"] * small
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, peak = (float(part) for part in done.stdout.split())
        rows += [(f"{stage}", seconds, "s"), (f"{stage}: peak memory", peak, "GiB")]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", choices=STAGES, help="run in this process")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--small", action="store_true", help="two narrow layers: a trial")
    arguments = parser.parse_args()
    if arguments.one:
        one(arguments.one, arguments.root, arguments.small)
        return
    from environment import record

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "merging")
        root.mkdir()
        rows = measure(root, arguments.small)
        (base,) = root.glob("bases/*/model.safetensors")
        rows.append(("size of a stored model", base.stat().st_size / 2**30, "GiB"))
    if arguments.small:
        print(*rows, sep="\n")
    else:
        record("merging", rows, THREADS)


if __name__ == "__main__":
    main()
