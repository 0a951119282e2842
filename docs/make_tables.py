"""Write docs/tables.md from the declared tables: python docs/make_tables.py."""

from pathlib import Path

from fedscan.io.all_tables import TABLES

JOB = "federated/backbone=*/clients=*/setting=*/depth=*/E=*/beta=*/algorithm=*/seed=*"
PARTITION, SHAPE, CELL = "partition/setting=*/beta=*/clients=*", "D=*/N=*", "D=*/N=*/rho=*"
# Table -> the files that hold it, below results/.
PLACES = {
    "documents": ["tokens/documents"],
    "tokens": ["tokens/domain=*/train", "tokens/domain=*/validation"],
    "partition": [f"{PARTITION}/partition"],
    "sequences": [f"{PARTITION}/train", f"{PARTITION}/validation"],
    **{name: [f"{JOB}/{name}"] for name in ("runs", "rounds", "clients", "mixers", "heads")},
    **{name: [f"compare/{name}"] for name in ("comparison", "all_runs", "all_rounds")},
    "quantities": ["practice/quantities"],
    **{
        name: [f"teachers/{SHAPE}/{name}"]
        for name in ("teachers", "candidates", "teacher_sequences")
    },
    **{name: [f"learners/{SHAPE}/{name}"] for name in ("learners", "checkpoints")},
    **{
        name: [f"evaluation/{SHAPE}/{name}"]
        for name in ("points", "gradients", "curvature", "trajectories")
    },
    "stacks": ["stacks/stacks"],
    **{name: [f"students/{CELL}/{name}"] for name in ("student_runs", "student_rounds")},
    "all_student_runs": ["student_tables/all_student_runs"],
    "task_examples": ["merging/tasks/task=*/subset=*/examples"],
    "task_labels": ["merging/tasks/task=*/subset=*/labels"],
    "merging_base": ["merging/bases/base=*/base"],
    "specialists": ["merging/specialists/base=*/task=*/seed=*/specialists"],
    "specialist_accuracy": ["merging/accuracy/base=*/specialist_accuracy"],
    **{
        name: [f"merging/merges/base=*/seed=*/{name}"]
        for name in ("merges", "displacements", "task_vectors")
    },
    **{
        f"all_{name}": [f"merging/tables/all_{name}"]
        for name in ("specialist_accuracy", "merges", "displacements", "task_vectors")
    },
    "numbers": [
        f"{folder}/numbers"
        for folder in ("bounds", "compare", "practice", "student_tables", "merging/tables")
    ],
    "violations": [
        f"evaluation/{SHAPE}/violations",
        f"students/{CELL}/violations",
        "stacks/violations",
    ],
    "checks": ["check/checks"],
}
HEAD = """# Every table

Written by `python docs/make_tables.py`; a test keeps it in step with the code, and another compares
the places with a finished run. `fedscan schema TABLE` prints one table.

All are Parquet files below `results/`. Keys of a folder (`beta=0.7/…`) are not columns too.
A file's metadata key `fedscan` holds versions, configuration and the code's fingerprint as JSON.
"""


def text():
    """The whole document."""
    parts = [HEAD]
    for table, places in PLACES.items():
        where = ", ".join(f"`{place}.parquet`" for place in places).replace("*", "…")
        parts.append(f"\n## {table}\n\n{where}\n\n| column | type | unit | meaning |")
        parts.append("\n| --- | --- | --- | --- |\n")
        for column in TABLES[table]:
            dtype = f"`{column.dtype}`{' or null' if column.nullable else ''}"
            cells = (f"`{column.name}`", dtype, column.unit, column.meaning)
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return "".join(parts)


if __name__ == "__main__":
    Path(__file__).with_name("tables.md").write_text(text(), encoding="utf-8")
