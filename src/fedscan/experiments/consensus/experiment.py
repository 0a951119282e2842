"""Consensus: do tokens collapse to one direction when Mamba2's layers are iterated over depth?"""

from fedscan.experiments.consensus import config, plan, run_tables, tables, theory_tables
from fedscan.pipeline.experiment import Experiment
from fedscan.pipeline.stage import Stage
from fedscan.pipeline.tables import NUMBERS

ROOM = "fedscan.experiments.consensus"
DEVICE = "consensus.device"

CONSENSUS = Experiment(
    name="consensus",
    title="Consensus over depth",
    sections={"consensus": config.Consensus},
    rules=config.rules,
    stages={
        "consensus_model": Stage(f"{ROOM}.models", device=DEVICE, resumes=True),
        "consensus_runs": Stage(f"{ROOM}.runs", device=DEVICE, resumes=True),
        "consensus_merging": Stage(f"{ROOM}.merges", device=DEVICE, resumes=True),
        "consensus_theory": Stage(f"{ROOM}.theory_study", resumes=True),
        "consensus": Stage(f"{ROOM}.summary"),
    },
    targets=("consensus",),
    tables=(
        tables.MODEL,
        *tables.MODEL_TABLES,
        tables.LAYERS,
        run_tables.RUNS,
        run_tables.MERGES,
        theory_tables.INSTANCES,
        NUMBERS._replace(places=("consensus/tables/numbers",)),
    ),
    files=plan.files,
    units=plan.units,
    results=("consensus/tables",),
    summaries=("consensus/tables/summary.txt",),
    checks=f"{ROOM}.checks",
    checked=plan.checked,
    verified=("consensus_model", "consensus_runs", "consensus_merging", "consensus_theory"),
    page=f"{ROOM}.page",
    reruns=(("consensus over depth", "consensus", "training jobs, merges"),),
)
