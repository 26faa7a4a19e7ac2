"""The page about a fit, and what stands on it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwater as hw
from fit_logs import make_log
from headwater.report import fit_data
from headwater.report.fit_data import Outlook, foresee, tell_apart
from headwater.report.fit_page import write_fit_page
from test_fit_refusals import LINE, folder, run

__all__ = ["folder"]  # a fixture

LONG: dict[str, Any] = {"arm": "arm", "reward": "reward"}


@pytest.fixture(scope="module", autouse=True)
def short() -> Any:
    patch = pytest.MonkeyPatch()
    patch.setattr(fit_data, "HORIZON", 200)
    patch.setattr(fit_data, "_WORK", 0)  # few runs under few mixes
    yield
    patch.undo()


def words(page: Path) -> str:
    """The page's own words, without scripts, styles and tags."""
    text = re.sub(r"<(script|style).*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_what_one_reward_tells_is_the_information() -> None:
    """Against sums written out, and the distance of two segments against Bhattacharyya's by hand."""
    fit = hw.fit(make_log(1).rows, **LONG, segment="kind")
    telling = tell_apart(fit)
    p = fit.shares
    for k, channel in enumerate(fit.channels):
        a = channel.probabilities
        joint = p[:, None] * a
        information = sum(
            joint[j, m] * np.log2(joint[j, m] / (p[j] * joint[:, m].sum())) for j in range(3) for m in range(a.shape[1])
        )
        assert telling.bits[k] == pytest.approx(information)
    needed = [np.log(20) / -np.log(np.sqrt(c.probabilities[0] * c.probabilities[2]).sum()) for c in fit.channels]
    assert telling.rewards[0, 2] == pytest.approx(min(needed)) and telling.by[0, 2] == int(np.argmin(needed))
    assert telling.of == pytest.approx(-np.sum(p * np.log2(p)))


def test_the_outlook_is_what_simulations_say() -> None:
    fit = hw.fit(make_log(1).rows, **LONG, segment="kind")
    outlook = foresee(fit, seed=3)
    assert outlook.markets[0].mix is fit.shares
    again = hw.simulate(fit.problem, fit.shares.tolist(), policies=["ucb1", "auto"], horizon=200,
                        replications=outlook.run.replications, seed=3)  # fmt: skip
    assert outlook.markets[0].regret["ucb1"][0] == pytest.approx(again.regret("ucb1")[:, -1].mean())
    assert outlook.markets[0].regret["auto"][0] == pytest.approx(again.regret(outlook.chosen)[:, -1].mean())
    assert outlook.markets[2].best == hw.analyze(fit.problem, outlook.markets[2].mix.tolist()).best
    assert foresee(fit, seed=3).to_dict() == outlook.to_dict()
    json.dumps(outlook.to_dict(), allow_nan=False)


def test_the_page_says_it_in_words(tmp_path: Path) -> None:
    log = make_log(1, units=600)
    fit = hw.fit(log.rows, **LONG, features=["age"], segments=3, name="<b>shop</b>")
    write_fit_page(fit, foresee(fit), tmp_path / "p.html")
    text = words(tmp_path / "p.html")
    for expected in (
        "&lt;b&gt;shop&lt;/b&gt;", "3 segments of units found", "Who likes what", "What tells segments apart", "What is shaky",
        "What to expect in new markets", "How it was made", "tells most about who is there", "of UCB1's regret over", "age ",
        "as in the control group", "Rewards take few values", "features (gaussian)",
    ):  # fmt: skip
        assert expected in text or expected.replace("'", "&#x27;") in text, expected
    raw = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "<b>shop" not in raw and all(f'id="{name}"' in raw for name in ("heat", "bits", "pairs", "saving", "regret"))
    assert "http" not in re.sub(r"<script>.*?</script>", "", raw, flags=re.DOTALL)


def test_the_page_of_hidden_kinds_shows_the_choice_and_levels(tmp_path: Path) -> None:
    fit = hw.fit(make_log(5, units=600, arms=8, seen=0.9, noise=1.0).rows, **LONG, unit="unit")
    write_fit_page(fit, foresee(fit), tmp_path / "p.html")
    text = words(tmp_path / "p.html")
    assert "the fewest that explain held-out units" in text and "found again" in text.lower()
    assert f"Rewards were cut into {fit.levels.size} levels, at " in text
    assert 0 < fit.mean_loss.max() < 0.2


def test_one_segment_and_a_pair_that_no_arm_tells_apart(tmp_path: Path) -> None:
    alone = {"arm": ["a", "b"] * 40, "reward": [0, 1, 1, 1] * 20, "kind": ["x"] * 80}
    fit = hw.fit(alone, **LONG, segment="kind")
    write_fit_page(fit, foresee(fit), tmp_path / "one.html")
    assert "1 segment of units given" in words(tmp_path / "one.html")
    twins = {"arm": ["a", "a", "b", "b"] * 40, "reward": ([0] * 4 + [1] * 4) * 20, "kind": ["x", "y"] * 80}
    fit = hw.fit(twins, **LONG, segment="kind")
    write_fit_page(fit, foresee(fit), tmp_path / "two.html")
    text = words(tmp_path / "two.html")
    assert "x and y cannot be told apart by any arm" in text and "is the best arm for every one of them" in text


def test_regret_of_nothing_saves_nothing() -> None:
    market = fit_data.Market("m", np.ones(1), "a", [], {"ucb1": (0.0, 0.0), "auto": (0.0, 0.0)})
    assert Outlook([market], None, "auto").saving.tolist() == [1.0]  # type: ignore[arg-type]


def test_the_command_writes_a_page(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*LINE, "--page", "p.html", "--json"], monkeypatch) == 0
    printed = capsys.readouterr()
    said = json.loads(printed.out)
    assert said["outlook"]["markets"][0]["best"] in ("a", "b")
    assert "the page is p.html: open it in a browser" in printed.err
    assert run([*LINE, "--page", "p.txt"], monkeypatch) == 2
    assert "--page: got p.txt; expected a name that ends in .html" in capsys.readouterr().err
