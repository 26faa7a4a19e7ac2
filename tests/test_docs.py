"""Every code block in the README and the docs runs; every example file is analysed; what they state is so."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import headwater as hw
from headwater import cli, paper
from service_tools import Running

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*.toml") if path.parent.name != "sweeps")


def blocks(language: str) -> list[pytest.param]:  # type: ignore[valid-type]
    found = []
    for page in PAGES:
        if page.stem == "service":  # its blocks need a service: see below
            continue
        text = page.read_text(encoding="utf-8")
        for n, match in enumerate(re.finditer(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)):
            found.append(pytest.param(match.group(1), id=f"{page.stem}-{n}"))
    return found


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "block", "exec"), {})


@pytest.mark.parametrize("session", blocks("console"))
def test_console_blocks_run(
    session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A block is a session: lines after ``$`` are commands, what follows is what they print."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for step in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        printed = run(command, monkeypatch, capfd)
        if expected.strip():
            assert printed.strip() == expected.strip(), command


def test_whoever_follows_the_docs_in_one_folder_is_not_stopped() -> None:
    """What is there is not overwritten, so that no file may be learned twice."""
    sessions = [str(block.values[0]) for block in blocks("console")]  # type: ignore[attr-defined]
    names = re.findall(r"^\$ headwater fit .*--output (\S+)", "\n".join(sessions), flags=re.MULTILINE)
    assert len(names) > 2 and len(set(names)) == len(names)


def run(command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    words = shlex.split(command, comments=True)
    target = None
    if ">" in words:
        words, target = words[: words.index(">")], Path(words[words.index(">") + 1])
    assert words[0] == "headwater", command
    monkeypatch.setattr("sys.argv", words)
    try:
        cli.main()
    except SystemExit as end:
        assert not end.code, (command, capfd.readouterr().err)
    printed = capfd.readouterr().out
    if target is not None:
        target.write_text(printed, encoding="utf-8")
    return printed


def test_the_page_about_the_service_works_as_it_stands(tmp_path: Path) -> None:
    """Its shell and Python blocks, in order, against a real service on a port of its own."""
    text = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    found = re.findall(r"```(sh|python)\n(.*?)```", text, flags=re.DOTALL)
    assert [kind for kind, _ in found] == ["sh", "python"]
    with Running(str(tmp_path / "campaigns.db")) as service:
        for kind, block in found:
            code = block.replace("http://127.0.0.1:8000", service.url)
            if kind == "python":
                exec(compile(code, "block", "exec"), {})
            elif shutil.which("curl") is not None:
                ran = subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=tmp_path, capture_output=True, text=True)
                assert ran.returncode == 0, ran
                assert '"id":"two-ads.1","arm":"banner"' in ran.stdout
                assert '"status":"counted"' in ran.stdout
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: the shell block of docs/service.md did not run (its Python block did)")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_analyse(path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    printed = run(f"headwater analyze {shlex.quote(str(path))}", monkeypatch, capfd)
    problem = hw.load_problem(path)
    assert problem.name in printed
    assert all(name in printed for name in problem.names)


@pytest.mark.parametrize("case", paper.CASES, ids=lambda case: case.id)
def test_example_files_are_the_papers_problems(case: paper.Case) -> None:
    assert hw.load_problem(ROOT / "examples" / "paper" / f"{case.id}.toml") == case.problem


def test_the_readme_names_every_module() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "src" / "headwater").iterdir():
        name = path.name.partition(".")[0]
        if name != "py" and not name.startswith("_"):
            assert name in text, f"{name} is missing from the README's architecture"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_example_log_is_what_its_script_makes() -> None:
    made = runpy.run_path(str(ROOT / "examples" / "offers.py"))["make"]()
    assert (ROOT / "examples" / "offers.csv").read_text(encoding="utf-8") == made
