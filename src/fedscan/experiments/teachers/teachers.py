"""Stage ``teachers``: one frozen teacher and its dataset per rho, for one (D, N)."""

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedscan.experiments.teachers.datasets import SPLITS, sha256
from fedscan.experiments.teachers.search import Attempt, Sizes, search
from fedscan.experiments.teachers.tables import CANDIDATES, TEACHER_SEQUENCES, TEACHERS
from fedscan.io import parquet
from fedscan.io.provenance import versions
from fedscan.models.selective_ssm import cpu
from fedscan.models.selective_ssm.denormals import flushed_denormals
from fedscan.models.selective_ssm.layout import Shape
from fedscan.pipeline.stage import Job


@flushed_denormals()
def run(job: Job) -> None:
    """Search every rho and write teachers, candidates and sequences.

    Args:
        job: settings: ``d_input``, ``d_state``, ``rhos``, ``train_sequences``, ``test_sequences``,
            ``burn_in``, ``sequence_length`` and the ``code`` fingerprint. Its folder receives
            teachers.parquet, candidates.parquet and teacher_sequences.parquet.

    Raises:
        ValueError: if no candidate meets every criterion; says which criteria refused how many.
    """
    settings, report = job.settings, job.report
    shape = Shape(settings["d_input"], settings["d_state"])
    sizes = Sizes(
        settings["train_sequences"],
        settings["test_sequences"],
        settings["burn_in"],
        settings["sequence_length"],
    )
    teachers, tried, sequences = [], [], []
    for rho in settings["rhos"]:
        attempts = list(search(shape, rho, sizes))
        tried += _candidate_rows(attempts)
        accepted = _accepted(attempts)
        teachers.append(_teacher_row(accepted, len(_distinct(attempts)), settings["code"]))
        sequences.append(_sequences(accepted))
        t = accepted.teacher
        report(f"rho {rho}: seed {t.seed}, gain {t.gain}, temperature {t.temperature}")
    provenance = {"settings": settings, "versions": versions()}
    for table, rows in (
        (CANDIDATES, tried),
        (TEACHER_SEQUENCES, pa.concat_tables(sequences)),
        (TEACHERS, teachers),
    ):
        parquet.write(job.folder / f"{table.name}.parquet", table, rows, provenance)


def _accepted(attempts: list[Attempt]) -> Attempt:
    last = attempts[-1]
    if last.sample == "full" and not last.refused:
        return last
    refused = Counter(name for attempt in attempts for name in attempt.refused)
    counts = ", ".join(f"{name} {count}" for name, count in refused.most_common())
    shape = last.teacher.shape
    raise ValueError(
        f"no teacher for D={shape.d_input}, N={shape.d_state}, rho={last.teacher.rho}:"
        f" {len(_distinct(attempts))} candidates refused ({counts}); more sequences make the"
        " estimates steadier, other sizes or rho other teachers"
    )


def _distinct(attempts: list[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.sample == "screen"]


def _settings(attempt: Attempt) -> dict[str, float | int]:
    t = attempt.teacher
    return {
        "rho": t.rho,
        "teacher_seed": t.seed,
        "gain": float(t.gain),
        "temperature": float(t.temperature),
    }


def _candidate_rows(attempts: list[Attempt]) -> list[dict[str, Any]]:
    position, rows = 0, []
    for attempt in attempts:
        position += attempt.sample == "screen"
        rows.append(
            _settings(attempt)
            | attempt.diagnostics._asdict()
            | {
                "candidate": position,
                "sample": attempt.sample,
                "accepted": attempt.sample == "full" and not attempt.refused,
                "refused": ",".join(attempt.refused),
            }
        )
    return rows


def _teacher_row(attempt: Attempt, candidates: int, code: str) -> dict[str, Any]:
    t = attempt.teacher
    test = cpu.predict(t.params, attempt.test, t.shape, t.temperature)
    return (
        _settings(attempt)
        | t.margins._asdict()
        | attempt.diagnostics._asdict()
        | {
            "candidates": candidates,
            "test_nll": float(test.losses.mean()),
            "parameters": t.params.tolist(),
            "parameters_sha256": hashlib.sha256(t.params.tobytes()).hexdigest(),
            "train_sha256": sha256(attempt.train),
            "test_sha256": sha256(attempt.test),
            "code_hash": code,
        }
    )


def _sequences(attempt: Attempt) -> pa.Table:
    parts = []
    for split in SPLITS:
        tokens: np.ndarray = getattr(attempt, split)
        frame = pd.DataFrame({"rho": attempt.teacher.rho, "sequence": np.arange(len(tokens))})
        table = pa.Table.from_pandas(frame.assign(split=split), preserve_index=False)
        offsets = np.arange(0, tokens.size + 1, tokens.shape[1], dtype=np.int32)
        rows = pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens.ravel()))
        parts.append(table.append_column("tokens", rows))
    return pa.concat_tables(parts)
