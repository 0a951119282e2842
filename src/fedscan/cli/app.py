"""The command line: one run without Snakemake, the run table, schemas, and a look at the data."""

import itertools
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedscan.cli import terminal
from fedscan.config import files as config_files
from fedscan.config.compose import Config
from fedscan.experiments.comparison import grid
from fedscan.experiments.registry import EXPERIMENTS, tables

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Federated learning of selective state-space models. The whole study is run by Snakemake"
    " ('snakemake --cores all'); these commands look at its parts.",
)
data_app = typer.Typer(no_args_is_help=True, help="Look at the text before training on it.")
app.add_typer(data_app, name="data")

# As in the workflow: Jupyter's backend, which what it starts inherits, is not installed here.
os.environ.pop("MPLBACKEND", None)

DEFAULT = Path("config/config.yaml")
Configs = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        help="Configuration file that overrides config/config.yaml; may be given several times.",
    ),
]


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Print bad input as one line each and exit with 1."""
    try:
        yield
    except (ValueError, OSError) as error:
        print(f"fedscan: error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


def _load(files: list[Path] | None) -> dict[str, Any]:
    base = [DEFAULT] if DEFAULT.exists() else []
    if not base and not files:
        raise ValueError(f"{DEFAULT} not found: run in the project's folder or give --config")
    return config_files.load([*base, *(files or [])]).model_dump(mode="json")


@app.command("grid")
def show_grid(
    config: Configs = None,
    runs: Annotated[bool, typer.Option("--runs", help="List every run, one line each.")] = False,
) -> None:
    """Show the runs a configuration asks for: jobs, values and seeds per algorithm."""
    with _one_line_errors():
        loaded = _load(config)
    if runs:
        for experiment in EXPERIMENTS:
            for row in experiment.listing(loaded):
                print("\t".join(row))
        return
    for experiment in EXPERIMENTS:
        if experiment.breakdown is not None:
            head, *rows = experiment.breakdown(loaded)
            view = Table(*head, title=experiment.title)
            for row in rows:
                view.add_row(*row)
            Console().print(view)
    for experiment in EXPERIMENTS:
        if units := experiment.units(loaded):
            counts = ", ".join(f"{count} {what}" for what, count in units.items())
            print(f"{experiment.name}: {counts}")


@app.command("schema")
def show_schema(
    name: Annotated[
        str, typer.Argument(help="'config' for the configuration's JSON schema, or a table's name.")
    ] = "",
) -> None:
    """Describe the configuration or a result table: columns, types, units, meanings."""
    if name == "config":
        print(json.dumps(Config.model_json_schema(), indent=2))
        return
    declared = tables()
    if name not in declared:
        names = ", ".join(declared)
        print(f"Tables: {names}. Use 'fedscan schema TABLE' or 'fedscan schema config'.")
        if name:
            print(f"fedscan: error: no table {name!r}", file=sys.stderr)
            raise typer.Exit(1)
        return
    view = Table("column", "type", "unit", "meaning", title=name)
    for column in declared[name].columns:
        dtype = f"{column.dtype}{' or null' if column.nullable else ''}"
        view.add_row(column.name, dtype, column.unit, column.meaning)
    Console().print(view)


@data_app.command("inspect")
def inspect_data(config: Configs = None) -> None:
    """Read the configured source once and show records, drops and token statistics per domain.

    Reads as much as a run would: until every domain has enough tokens. Nothing is written.
    """
    # Imported here: reading the data needs more than the other commands.
    from fedscan.experiments.corpus.inspection import inspect

    with _one_line_errors():
        found = inspect(_load(config))
    view = Table("domain", "outcome", "records", title=f"records of source {found.source!r}")
    for (domain, outcome), count in found.outcomes.items():
        view.add_row(domain or "-", outcome, f"{count:,}")
    Console().print(view)
    titles = ("domain", "documents", "tokens", "median", "95%", "longest", "distinct", "pool")
    view = Table(*titles, title=f"tokens ({found.tokenizer}); pool: sequences a domain offers")
    for domain, row in found.domains.items():
        view.add_row(domain, *(f"{value:,}" for value in row))
    Console().print(view)
    rule = {"drop": "dropped", "keep": "kept"}[found.duplicates]
    titles = ("domain", "within the domain", "of another domain's")
    view = Table(*titles, title=f"copies of documents, white space apart: {rule}")
    for domain, copies in found.copies.items():
        view.add_row(domain, *(f"{value:,}" for value in copies))
    Console().print(view)
    print(f"data files left out, their names begin with . or _: {found.files_left_out:,}")


@app.command("run")
def run_one(
    algorithm: Annotated[str, typer.Argument(help="Algorithm, e.g. fedprox.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for everything made.")],
    config: Configs = None,
    value: Annotated[
        list[str] | None,
        typer.Option("--set", help="Hyperparameter, e.g. mu=0.001; default: the grid's first."),
    ] = None,
    setting: Annotated[str | None, typer.Option(help="Domain assignment; default: first.")] = None,
    beta: Annotated[float | None, typer.Option(help="Heterogeneity; default: first.")] = None,
    seed: Annotated[int | None, typer.Option(help="Root seed; default: first.")] = None,
) -> None:
    """Train one federated run without Snakemake; what is not given comes from the configuration.

    Everything is written below OUTPUT. The same command continues an interrupted run.
    """
    # Imported here: torch takes seconds to load.
    from fedscan.cli.single_run import single_run
    from fedscan.pipeline.runner import job

    with _one_line_errors():
        settings = _load(config)
        chosen = _one_run(settings, algorithm, value or [], setting, beta, seed)
    with job(output / "run.log", echo=True) as report:
        text = single_run(settings, chosen, output, report)
    print(text)


@app.command("consensus")
def show_consensus(
    checkpoint: Annotated[
        str,
        typer.Argument(
            help="Mamba2 checkpoint: a folder, a hub id, or a model file below results/federated."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for everything made.")],
    config: Configs = None,
    variant: Annotated[
        list[str] | None,
        typer.Option("--variant", help="Name from consensus.variants; default: all of them."),
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=2, help="Tokens per draw.")] = None,
    draws: Annotated[int | None, typer.Option(min=1, help="Independent draws of tokens.")] = None,
    depth: Annotated[int | None, typer.Option(min=1, help="Layers applied.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of tokens and redrawn weights.")] = None,
    vocabulary: Annotated[
        int | None, typer.Option(min=1, help="Ids are drawn below it; default: the checkpoint's.")
    ] = None,
) -> None:
    """Iterate a model's layers over depth: do its tokens collapse to one direction?

    What is not given comes from the configuration. The same command continues after a kill.
    """
    # Imported here: torch takes seconds to load.
    from fedscan.cli import depth as cli_depth
    from fedscan.pipeline.runner import job

    sizes = {"tokens": tokens, "draws": draws, "depth": depth, "seed": seed}
    with _one_line_errors():
        chosen = cli_depth.chosen(_load(config), checkpoint, variant or [], sizes, vocabulary)
    with job(output / "consensus.log", echo=True) as report:
        text = cli_depth.iterate(chosen, output, report)
    print(text)


@app.command("sample")
def show_sample(
    model: Annotated[
        Path, typer.Argument(help="Model file below results/sessa/training/task=stories/.")
    ],
    prompt: Annotated[str, typer.Option(help="How the story begins.")] = "One day",
    tokens: Annotated[int, typer.Option(min=1, help="Tokens to write.")] = 200,
    temperature: Annotated[
        float, typer.Option(min=0, help="Of the softmax; 0 takes the most probable token.")
    ] = 0.8,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
) -> None:
    """Let a model of stories write on from a prompt."""
    # Imported here: torch takes seconds to load.
    from fedscan.cli.sample import written

    with _one_line_errors():
        print(written(model, prompt, tokens, temperature, seed))


RESULTS = Path("results")
Results = Annotated[Path, typer.Option("--results", help="Folder of the results.")]


@app.command("plan")
def show_plan(
    config: Configs = None,
    cores: Annotated[int | None, typer.Option(min=1, help="CPU cores; default: all.")] = None,
    measure: Annotated[
        bool, typer.Option(help="Measure step times here (seconds to minutes) and add them up.")
    ] = True,
) -> None:
    """Show what a run here would do and why, and what it would cost in hours and disk space."""
    # Imported here: torch takes seconds to load.
    from fedscan.cli import views as cli_views

    with _one_line_errors():
        loaded = _load(config)
        text = cli_views.plan(loaded, [str(f) for f in config or []], cores, measure)
    Console().print(text)


@app.command("status")
def show_status(config: Configs = None, results: Results = RESULTS) -> None:
    """Show what is done, running, failed and missing, the time left and the last error."""
    from fedscan.cli import views as cli_views

    with _one_line_errors():
        _require_folder(results)
        text = cli_views.status(_load(config), results)
    Console().print(text)


@app.command("preview")
def preview(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for tables and page.")],
    config: Configs = None,
    results: Results = RESULTS,
) -> None:
    """Make tables, figures and the page from the runs that are there, while others still run.

    Runs made under another configuration are left out; what is missing is named.
    """
    from fedscan.pipeline.runner import job
    from fedscan.views.preview import preview as make
    from fedscan.views.preview import refuse_own_folder

    with _one_line_errors():
        loaded = _load(config)
        _require_folder(results)
        refuse_own_folder(results, output)
    with job(output / "preview.log", echo=True) as report:
        make(loaded, results, output, report)


def _one_run(
    settings: dict[str, Any],
    algorithm: str,
    values: list[str],
    setting: str | None,
    beta: float | None,
    seed: int | None,
) -> grid.Run:
    """Return the configuration's first run of the algorithm, changed as asked, validated again."""
    name, study = next(iter(settings["studies"].items()))
    axes = {"settings": setting, "betas": beta, "seeds": seed}
    study = {key: entry[:1] if isinstance(entry, list) else entry for key, entry in study.items()}
    study |= {key: [entry] for key, entry in axes.items() if entry is not None}
    lists = dict(study["hyperparameters"].get(algorithm) or {})
    lists = {key: entries[:1] for key, entries in lists.items()}
    given: set[str] = set()
    for text in values:
        key, _, number = text.partition("=")
        if key in given:
            raise ValueError(f"--set {key}: given twice; one run has one value")
        given.add(key)
        lists[key] = [_number(number)]
    study |= {"algorithms": [algorithm], "hyperparameters": {algorithm: lists}}
    roles = settings["analysis"] | {"grid": name, "client_count": None, "backbone": None}
    valid = config_files.validate({**settings, "studies": {name: study}, "analysis": roles})
    return next(itertools.chain(grid.runs(valid.model_dump(mode="json")["studies"])))


def _require_folder(results: Path) -> None:
    # The default's folder is made by the first run; another one that is not there is a mistake.
    if not results.is_dir() and (results != RESULTS or results.exists()):
        raise ValueError(f"--results {results}: no such folder")


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def main() -> None:
    """Run the command that the arguments name."""
    terminal.run(app)


if __name__ == "__main__":
    main()
