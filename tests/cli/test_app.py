"""The command line as a newcomer uses it."""

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from fedscan.cli.app import app
from fedscan.config.compose import Config
from fedscan.experiments.registry import tables
from fedscan.io import parquet
from tests.workflow.conftest import ROOT, TINY, merge

TABLES = tables()

runner = CliRunner()


@pytest.fixture
def config(tmp_path):
    whole = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    merge(whole, TINY)
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(whole, sort_keys=False))
    return str(file)


def call(*arguments, code=0):
    done = runner.invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize(
    "command", [[], ["run"], ["grid"], ["schema"], ["data"], ["data", "inspect"]]
)
def test_every_command_has_help(command):
    text = call(*command, "--help")
    assert "Usage" in text


def test_grid_counts_the_papers_runs():
    text = call("grid", "-c", "config/paper.yaml")
    # 216 + 36 + 15 jobs: main grid, three more client counts, five more backbones
    row = next(line for line in text.splitlines() if "fedprox" in line)
    assert re.findall(r"\d+", row) == ["267", "5", str(216 * 5 + 36 + 15)]
    listed = call("grid", "-c", "config/paper.yaml", "--runs").splitlines()
    assert sum("main" in line.split("\t")[2].split(",") for line in listed) == 7992
    assert sum(line.startswith("students/") for line in listed) == 1200
    for counts in (
        "72 teachers", "216 learners", "1200 federated learners, 72 datasets", "216 specialists",
    ):  # fmt: skip
        assert counts in text


def test_schema_of_configuration_and_tables():
    assert json.loads(call("schema", "config")) == Config.model_json_schema()
    text = call("schema", "rounds")
    assert "val_loss" in text
    assert all(name in call("schema") for name in TABLES)
    assert "no table 'nothing'" in call("schema", "nothing", code=1)


def test_inspect_shows_drops_and_tokens(config, tmp_path):
    rows = [
        {"text": "word " * 200, "meta": {"redpajama_set_name": name}}
        for name in ("RedPajamaArXiv", "RedPajamaGithub", "RedPajamaBook")
    ]
    rows[1]["text"] += " more"
    file = tmp_path / "x.jsonl"
    file.write_text("\n".join(map(json.dumps, [*rows, rows[0], rows[0]])))
    (tmp_path / "_x.jsonl").write_bytes(file.read_bytes())
    mine = yaml.safe_load(Path(config).read_text())
    mine["data"]["source"] = "local"
    mine["data"]["local"]["paths"] = [str(tmp_path)]
    mine["partition"]["settings"] = TINY["partition"]["settings"]
    other = tmp_path / "local.yaml"
    other.write_text(yaml.safe_dump(mine))
    text = call("data", "inspect", "-c", str(other))
    assert "RedPajamaBook" in text
    assert "1,000" in text
    assert "copies of documents, white space apart: dropped" in " ".join(text.split())
    assert re.search(r"arxiv\W+2\W+0", text)
    assert "data files left out, their names begin with . or _: 1" in text


def test_one_run_end_to_end_and_again(config, tmp_path):
    out = tmp_path / "out"
    arguments = ("run", "fedprox", "-c", config, "-o", str(out), "--set", "mu=0.5", "--seed", "3")
    text = call(*arguments)
    assert "fedprox mu=0.5: train ppl" in text
    assert "synthetic text" in text
    (row,) = parquet.read(out / "run/runs.parquet", TABLES["runs"]).to_pylist()
    assert json.loads(row["hyperparameters"]) == {"mu": 0.5}
    assert json.loads(parquet.read_provenance(out / "run/runs.parquet"))["job"]["seed"] == 3
    assert "already in the tables" in call(*arguments) + (out / "run.log").read_text()
    # Settings as the workflow makes them: synthetic text comes from no dataset of the hub.
    assert json.loads((out / "tokens/manifest.json").read_text())["dataset"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fedother",), "algorithms.0 = 'fedother'"),
        (("fedprox", "--set", "rho=1"), "rho = [1]: unknown key"),
        (("fedprox", "--set", "mu=-1"), "mu.0 = -1"),
        (("fedavg", "--beta", "2"), "betas.0 = 2.0"),
        (("fedavg", "--setting", "x"), "settings.0 = 'x'"),
    ],
)
def test_wrong_arguments_are_one_line(config, tmp_path, arguments, words):
    text = call("run", *arguments, "-c", config, "-o", str(tmp_path / "out"), code=1)
    assert words in text
    assert "Traceback" not in text
