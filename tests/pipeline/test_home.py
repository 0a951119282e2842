"""What lies in a home folder or its environment changes no byte that is promised."""

import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure

from fedscan.pipeline.figures import save_figure
from fedscan.pipeline.runner import job

MATPLOTLIBRC = """
font.size: 24
font.family: serif
axes.grid: True
axes.prop_cycle: cycler("color", ["r", "g"])
savefig.bbox: tight
savefig.dpi: 30
savefig.transparent: True
svg.fonttype: none
path.simplify: False
lines.linewidth: 9
"""
DRAW = """
import hashlib, sys
from pathlib import Path
from matplotlib.figure import Figure
from fedscan.pipeline.figures import save_figure

def draw():
    figure = Figure(figsize=(3, 2))
    figure.subplots().plot(range(2000), [x * 37 % 101 for x in range(2000)], label="a")
    figure.axes[0].set_title("title")
    figure.axes[0].legend()
    return figure

save_figure(draw, sys.argv[1])
files = [Path(f"{sys.argv[1]}.{ending}") for ending in ("png", "svg")]
print([hashlib.sha256(file.read_bytes()).hexdigest() for file in files])
"""


def drawn(folder, **environment):
    done = subprocess.run(
        [sys.executable, "-c", DRAW, str(folder / "figure")],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_figures_are_the_same_in_every_home(tmp_path):
    expected = drawn(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    (home / "matplotlibrc").write_text(MATPLOTLIBRC)
    assert drawn(tmp_path, MPLCONFIGDIR=str(home)) == expected
    # One in the folder of work comes before the home's.
    (tmp_path / "matplotlibrc").write_text(MATPLOTLIBRC)
    assert drawn(tmp_path) == expected


def test_a_run_started_from_jupyter_draws_figures():
    # matplotlib refuses a backend that is not installed when it is imported.
    backend = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    script = "import fedscan.cli.app, matplotlib"
    subprocess.run([sys.executable, "-c", script], env=os.environ | backend, check=True)
    # The workflow's jobs inherit the environment of the process that reads its rules.
    assert 'os.environ.pop("MPLBACKEND"' in Path("workflow/rules/common.smk").read_text()


def test_a_figure_leaves_the_callers_settings_alone(tmp_path):
    with matplotlib.rc_context({"font.size": 3.0}):
        save_figure(Figure, str(tmp_path / "a"))
        assert matplotlib.rcParams["font.size"] == 3.0


@pytest.mark.parametrize("name", ["NUMBA_CPU_NAME", "NUMBA_ENABLE_AVX", "NUMBA_DISABLE_JIT"])
@pytest.mark.parametrize("place", ["the environment", ".numba_config.yaml"])
def test_numbas_settings_that_change_results_are_refused(
    tmp_path, monkeypatch, capsys, name, place
):
    pytest.importorskip("numba")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedscan.pipeline.runner.keep_compiled_kernels", lambda: None)
    if place == "the environment":
        monkeypatch.setenv(name, "0")
    else:
        (tmp_path / place).write_text(f"{name.removeprefix('NUMBA_').lower()}: 0\n")
    with pytest.raises(SystemExit), job(tmp_path / "log"):
        pass
    assert f"error: {name} is set in {place} and changes results" in capsys.readouterr().err
