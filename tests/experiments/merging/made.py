"""Specialists, evaluations and merges in miniature."""

from pathlib import Path

from fedscan.experiments.merging import accuracy as specialist_accuracy
from fedscan.experiments.merging import merges, specialists
from fedscan.experiments.merging import summary as merging
from fedscan.experiments.merging.checks import checks as merging_checks
from fedscan.experiments.registry import tables
from fedscan.io import parquet
from tests import jobs
from tests.experiments.merging import tiny
from tests.jobs import silent

TABLES = tables()


EVALUATION = "tasks/task={}/subset=evaluation"


def evaluate(root, report=silent, **changes):
    folder = f"{root}/accuracy/base=tiny"
    settings = tiny.accuracy_settings(**changes)
    places = {"results": Path(root).parent, "scratch": f"{root}/checkpoints/accuracy"}
    jobs.run(specialist_accuracy, settings, folder, report=report, **places)
    return parquet.read_frame(
        f"{folder}/specialist_accuracy.parquet", TABLES["specialist_accuracy"]
    )


def merge(root, report=silent, **changes):
    folder = f"{root}/merges/base=tiny/seed=0"
    settings = tiny.merge_settings(**changes)
    places = {"results": Path(root).parent, "scratch": f"{root}/checkpoints/merges"}
    jobs.run(merges, settings, folder, report=report, **places)
    return {t.name: parquet.read_frame(f"{folder}/{t.name}.parquet", t) for t in merges.TABLES}


class Lines(list):
    """A log that keeps its lines."""

    def __call__(self, text):
        self.append(text)

    def advance(self, *_):
        pass


def trees(root):
    return {p.relative_to(root): p.read_bytes() for p in Path(root).rglob("*") if p.is_file()}


class Killed(BaseException):
    """What a kill looks like from inside."""


def epochs_run(monkeypatch):
    done = []
    real = specialists.train_epoch

    def counted(*arguments):
        done.append(arguments[3].mu)
        return real(*arguments)

    monkeypatch.setattr(specialists, "train_epoch", counted)
    return done


def report(root):
    settings = {"bases": {"tiny": "Mamba2-130M"}, "seeds": [0], "source": "synthetic"}
    facts = {
        "source": "x", "selected": "", "val_ppl_last10": None, "parameters": 1000,
        "precision": "float32", "tokenizer": "bytes", "vocab_size": 264, "sha256": "",
    }  # fmt: skip
    parquet.write(root / "bases/base=tiny/base.parquet", TABLES["merging_base"], [facts], {})
    jobs.run(merging, settings, root / "tables", results=root.parent)


def checked(root, code="code", **changes):
    """Name of check -> (all passed, details)."""
    used = tiny.merge_settings()
    settings = {
        "bases": ["tiny"],
        "seeds": [0],
        "codes": {"specialists": code, "merges": code},
        "rerun_on_code_change": True,
        **{k: used[k] for k in ("tasks", "mus", "checkpoint_epochs", "operators")},
        **changes,
    }
    found = {}
    for check in merging_checks(settings, root.parent):
        passed, details = found.get(check.check, (True, []))
        found[check.check] = (passed and check.passed, [*details, check.detail])
    return found
