"""The page about the GPU says what was measured: its figures are those of benchmarks/gpu.json."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
gpu_page = pytest.importorskip("gpu_page")


def test_the_page_is_written_from_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "gpu.md"
    shutil.copy(gpu_page.PAGE, copy)
    monkeypatch.setattr(gpu_page, "PAGE", copy)
    gpu_page.main()
    assert copy.read_text(encoding="utf-8") == (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")


def test_performance_has_the_summary() -> None:
    assert gpu_page.summary() in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")


def test_every_check_held() -> None:
    checks = json.loads(gpu_page.FIGURES.read_text(encoding="utf-8"))["checks"]
    assert checks and all(check["passed"] for check in checks)


def test_rates() -> None:
    assert gpu_page.rate(2.2749e11) == "2.27·10¹¹"
