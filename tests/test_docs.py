"""Documentation that fails when it lies."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from dshapley.cli.app import app
from dshapley.experiments import NAMES, experiment
from dshapley.learners.by_name import MODELS
from dshapley.metrics import METRICS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CLI = (ROOT / "docs" / "cli.md").read_text()
THEORY = (ROOT / "docs" / "theory.md").read_text()
DESIGN = (ROOT / "docs" / "design.md").read_text()
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_the_readme_opens_with_its_two_commands():
    first = README.split("```")[1]
    assert "make demo" in first
    assert "make test" in first


def test_the_readme_snippets_run_as_written(capsys):
    scope = {}
    snippets = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(snippets) == 2
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), scope)
    assert "stderr" in capsys.readouterr().out
    assert scope["smaller"].m == 20
    assert len(scope["draws"]) == 50


@pytest.mark.parametrize(
    "page", ["theory.md", "fast.md", "datasets.md", "report.md", "audit.md", "trust.md"]
)
def test_the_examples_of_a_page_run_as_written(page):
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), flags=re.S)
    assert examples
    for example in examples:
        exec(compile(example, page, "exec"), {})


@pytest.mark.slow
def test_the_examples_on_precision_run_in_turn(capsys):
    scope = {}
    page = (ROOT / "docs" / "precision.md").read_text()
    for example in re.findall(r"```python\n(.*?)```", page, flags=re.S):
        exec(compile(example, "precision.md", "exec"), scope)
    assert scope["fast"].predicted.any()
    assert scope["larger"].m == 200
    assert "predicted" in capsys.readouterr().out


def commands():
    return typer.main.get_command(app).commands


@pytest.mark.parametrize("name", commands())
def test_every_command_and_option_is_documented(name):
    # What plan and audit have in common with value is said there.
    names = f"(?:{name}|value)" if name in ("plan", "audit") else name
    sections = re.findall(rf"^## dshapley {names}\b.*?(?=^## |\Z)", CLI, flags=re.M | re.S)
    assert any(section.startswith(f"## dshapley {name}") for section in sections)
    for parameter in commands()[name].params:
        for option in parameter.opts if parameter.param_type_name == "option" else []:
            assert any(f"`{option}" in section for section in sections), option


def test_every_documented_option_exists():
    parameters = [p for command in commands().values() for p in command.params]
    known = {option for p in parameters for option in (*p.opts, *p.secondary_opts)}
    assert set(re.findall(r"`(--[a-z-]+)", CLI)) <= known


def test_models_and_metrics_are_documented():
    assert all(name in CLI for name in MODELS)
    assert all(f"| {name} |" in THEORY for name in METRICS)
    assert all(name in README for name in METRICS)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_files_named_in_theory_and_design_exist():
    source = ROOT / "src" / "dshapley"
    for name in set(re.findall(r"`([a-z_]+\.py)`", THEORY)) | set(
        re.findall(r"^ {4,6}([a-z_]+\.py) ", DESIGN, flags=re.M)
    ):
        assert list(source.rglob(name)), name


def test_the_reproduction_page_says_what_the_files_say():
    """Its tables are those of the JSON files, and every experiment on it has rows and a figure."""
    spec = importlib.util.spec_from_file_location("tool", ROOT / "tools" / "reproduction.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    text = (ROOT / "docs" / "reproduction.md").read_text()
    assert tool.page(text) == text
    shown = [path.stem for path in (ROOT / "docs" / "reproduction").glob("*.json")]
    assert set(re.findall(r"<!-- (\w+) -->\n", text)) - {"end"} == set(shown) <= set(NAMES)
    for name in shown:
        rows = pd.read_csv(ROOT / "docs" / "reproduction" / f"{name}.csv")
        kept = json.loads((ROOT / "docs" / "reproduction" / f"{name}.json").read_text())
        verdicts = [(claim.text, claim.verdict) for claim in experiment(name).check(rows)]
        assert verdicts == [(claim["text"], claim["verdict"]) for claim in kept["claims"]]
        assert f"](reproduction/{name}.png)" in text


NUMBER = r"-?\d+(?:\.\d+)?"


def alike(shown, printed):
    """Whether two lines have the same words, and numbers that are about the same."""
    if re.sub(NUMBER, "#", shown).split() != re.sub(NUMBER, "#", printed).split():
        return False
    for a, b in zip(*(re.findall(NUMBER, line) for line in (shown, printed)), strict=True):
        unit = 10.0 ** -len(a.partition(".")[2])  # of the last digit shown
        if abs(float(a) - float(b)) > 3 * unit + 0.05 * abs(float(b)):
            return False
    return True


def run_as_shown(block):
    """Run each command of a block, and find the lines shown below it in what it prints."""
    for part in re.split(r"^\$ dshapley ", block, flags=re.M)[1:]:
        command, *shown = part.strip().splitlines()
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == (2 if shown[0].startswith("error: ") else 0), result.output
        printed = iter(result.output.splitlines())
        for line in shown:
            assert line == "..." or any(alike(line, other) for other in printed), line


@pytest.mark.slow
def test_the_sale_runs_as_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    page, scope = (ROOT / "docs" / "market.md").read_text(), {}
    blocks = re.findall(r"```(python|console)\n(.*?)```", page, flags=re.S)
    assert [kind for kind, _ in blocks].count("console") == 11
    for kind, block in blocks:
        if kind == "console":
            run_as_shown(block)
        else:
            exec(compile(block, "market.md", "exec"), scope)
    assert scope["prices"].totals["price"].tolist() == [100, 100]
    assert "p1032" in (tmp_path / "prices" / "prices.csv").read_text()
    assert ">50K" not in "".join(
        path.read_text() for path in (tmp_path / "prices").glob("*.[cj]s*")
    )
