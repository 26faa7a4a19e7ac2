"""What reports show: looks, labels, the line of the bound, and words about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater import horizons
from headwater.report.draw import draw_long_runs, draw_overview, draw_regret, save
from headwater.report.interactive import plotly_regret
from headwater.report.limits import limits, listing, rates, sentences, too_large
from headwater.report.long_run import long_figures, long_section
from headwater.report.long_run import sentences as long_sentences
from headwater.report.page import numbers, write_report
from headwater.report.regret_data import RegretFigure, regret_figure, spread_labels
from headwater.report.style import POLICIES, look
from headwater.report.theorems import theorem_sentences

EXAMPLES = Path(__file__).parent.parent / "examples"
CASE_2 = hw.load_problem(EXAMPLES / "paper" / "discrete-2.toml")
TWO_ARMS = hw.load_problem(EXAMPLES / "paper" / "two-arms.toml")


def figure_of(problem: hw.Problem, *policies: str, horizon: int = 300) -> RegretFigure:
    run = hw.simulate(problem, policies=policies, horizon=horizon, replications=4, seed=5)
    return regret_figure(run, limits=limits(run.problem))


# labels


@given(st.lists(st.floats(0, 1e6), max_size=12), st.floats(1e-3, 1e5))
def test_labels_keep_their_order_and_distance(values: list[float], least: float) -> None:
    given_values = np.array(values)
    places = spread_labels(given_values, least)
    order = np.argsort(given_values, kind="stable")
    slack = 1e-9 * (1e6 + least * 12)
    assert np.all(np.diff(places[order]) >= least - slack) and np.all(places >= 0)
    if len(values) < 2 or np.min(np.diff(given_values[order])) >= least:
        np.testing.assert_allclose(places, given_values, atol=slack)  # nothing to push apart: nothing moves


# looks


def test_every_policy_has_its_look_and_an_unknown_one_gets_some_colour() -> None:
    assert {*hw.policies.NAMES, "auto"} == set(POLICIES)
    assert len({each.colour for each in POLICIES.values()}) == len(POLICIES)
    assert look("c-ts (beta)") == look("c-ts")
    assert len({look(title)[::2] for title in ("ts", "ts (estimated)", "ts (started)")}) == 3, "they stand in one figure"
    assert look("something else").colour.startswith("#") and look("something else").family == 3


def test_curves_stand_by_family_whatever_their_order() -> None:
    data = figure_of(TWO_ARMS, "joint-ucb", "ts", "c-ucb")
    assert [curve.policy for curve in data.curves] == ["c-ucb", "ts", "joint-ucb"]


# the bound


def test_a_bound_that_asks_for_more_pulls_than_there_are_rounds_is_only_named() -> None:
    """The paper's first vector case: 1,725 log t pulls of arm 2 do not fit in 300 rounds."""
    data = figure_of(hw.load_problem(EXAMPLES / "paper" / "vector-1.toml"), "c-ucb")
    assert data.bound is not None and not data.bound.drawn and "shows only in longer runs" in data.bound.note
    assert not any("Graves" in (trace.name or "") for trace in plotly_regret(data).data)


def test_the_line_of_the_bound_is_c_log_t() -> None:
    data = figure_of(CASE_2, "c-ucb")
    assert data.bound is not None
    assert data.bound.constant == hw.bounds(CASE_2).graves_lai
    drawn = np.isfinite(data.bound.line)
    np.testing.assert_allclose(data.bound.line[drawn], data.bound.constant * np.log(data.rounds[drawn]))
    assert data.bound.label == "Graves–Lai bound, slope 4.79 log t" and "only its slope counts" in data.bound.note
    # from the round on at which 8.08 log t pulls fit in half of the rounds
    assert 60 < data.rounds[drawn][0] < 90 and not np.any(np.diff(drawn.astype(int)) < 0)
    names = [trace.name for trace in plotly_regret(data).data]
    assert data.bound.label in names


def test_no_line_where_bounded_regret_is_possible(tmp_path: Path) -> None:
    run = hw.simulate(TWO_ARMS, policies=["ucb1", "c-ucb"], horizon=100, replications=3)
    data = regret_figure(run, limits=limits(run.problem))
    assert data.bound is not None and data.bound.label == "bound: constant regret possible"
    assert not any("Graves" in (trace.name or "") for trace in plotly_regret(data).data)
    write_report([run], tmp_path / "page.html")
    assert "Bound: constant regret possible." in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_reports_do_without_a_bound_where_there_is_none(tmp_path: Path) -> None:
    curves = hw.load_problem(EXAMPLES / "paper" / "continuous-3.toml")
    assert limits(curves) is None
    large = hw.Problem(latent=hw.Discrete(range(1100)), arms={"a": "x", "b": "1099 - x"}, distribution=[1 / 1100] * 1100)
    assert limits(large) is None and too_large(large) and not too_large(curves)
    nothing = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"a": [0, 1], "b": [1, 0]})
    assert limits(nothing) is None
    run = hw.simulate(curves, policies=["ucb1"], horizon=50, replications=2)
    write_report([run], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "ratio to" not in page.split("</script>")[-1]  # nothing to compare with


def test_a_law_too_extreme_for_bounds_leaves_the_report_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(problem: hw.Problem) -> None:
        raise hw.ProblemError("distribution: its probabilities are too extreme")

    monkeypatch.setattr("headwater.report.limits.bounds", refuse)
    assert limits(CASE_2) is None


def test_what_the_solver_leaves_is_shown_as_none() -> None:
    found = hw.bounds(hw.load_problem(EXAMPLES / "ads.toml"))
    assert [arm for arm, rate in rates(found).items() if rate] == ["travel"]


def test_words_about_the_confusing_law_hold() -> None:
    """Each law named gives the rival the best arm's mean and leaves the best arm's rewards as they are."""
    found = hw.bounds(CASE_2)
    g = CASE_2.rewards
    names = list(CASE_2.names)
    best = names.index(found.best[0])
    for law in found.confusing:
        assert g[names.index(law.arm)] @ law.q == pytest.approx(hw.analyze(CASE_2).mu[best])  # type: ignore[index]
    text = sentences(CASE_2, found)
    assert len(text) == 2 + len(found.confusing) and all(sentence.endswith(".") or ")" in sentence for sentence in text)


def test_many_arms_and_laws_are_cut_short() -> None:
    arms = {f"arm {k}": np.roll([3.0, 0, 0, 0, 0, 0, 0, 0, 0], k).tolist() for k in range(9)}
    problem = hw.Problem(latent=hw.Discrete(range(9)), arms=arms, distribution=[0.2] + [0.1] * 8)
    text = " ".join(sentences(problem, hw.bounds(problem)))
    assert "fewer of 2 more arms" in text and "more such laws have a part in it" in text


def test_listing() -> None:
    assert listing(["a", "b", "c"]) == "a, b and c"


# drawing


def test_pictures_with_and_without_a_bound(tmp_path: Path) -> None:
    figures = [figure_of(CASE_2, "ucb1", "c-ucb", "joint-ucb"), figure_of(TWO_ARMS, "ucb1", "c-ucb")]
    save(draw_regret(figures[0]), tmp_path / "one.png")
    save(draw_overview(figures), tmp_path / "two.png")
    overview = draw_overview(figures)
    labels = [text.get_text() for text in overview.legends[0].get_texts()]
    assert labels == ["ucb1", "c-ucb", "joint-ucb", "Graves–Lai bound, slope C log t"]
    assert all((tmp_path / name).stat().st_size > 5_000 for name in ("one.png", "two.png"))


def test_panels_of_the_overview_fill_their_rows() -> None:
    one = figure_of(TWO_ARMS, "ucb1", horizon=50)
    for count, shown in ((3, 3), (7, 7), (8, 8), (12, 12)):
        axes = draw_overview([one] * count).axes
        assert sum(axis.get_visible() for axis in axes) == shown
        assert len(axes) == {7: 10}.get(count, count)


def test_a_policy_without_regret_can_be_drawn_on_a_log_axis() -> None:
    """Zero has no logarithm: labels and ranges stay finite."""
    same = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"a": [0, 1], "b": [0, 1]}, distribution=[0.5, 0.5])
    data = figure_of(same, "ucb1", "c-ucb")
    menu = plotly_regret(data).layout.updatemenus[0]
    for button in menu.buttons:
        values, layout, _ = button.args
        assert np.all(np.isfinite(np.array(values["y"]))) and np.all(np.isfinite(layout["yaxis.range"]))


# long runs


@pytest.fixture(scope="module")
def long() -> list[horizons.LongRun]:
    """A hundred thousand rounds, a few runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(horizons, "RUNS", {"discrete-1": {"ucb1": 3, "c-ucb": 5}, "discrete-2": {"ucb1": 3, "c-ucb": 3}})
        told: list[float] = []
        runs = horizons.long_runs(horizons.LONG[:2], scale=1e-5, progress=lambda title, share: told.append(share))
    assert told == sorted(told) and told[-1] == 1
    return runs


def test_long_runs_are_the_discrete_cases_at_log_spaced_rounds(long: list[horizons.LongRun]) -> None:
    assert [case.id for case in horizons.LONG] == ["discrete-1", "discrete-2", "discrete-3"]
    for run in long:
        rounds = run.simulation.rounds
        assert (rounds[0], rounds[-1], run.simulation.engine) == (100, 100_000, "leap")
        np.testing.assert_allclose(np.diff(np.log10(rounds)), 1 / horizons.PER_DECADE, atol=0.01)
        assert run.bounds.graves_lai == pytest.approx(hw.bounds(run.case.problem).graves_lai, rel=1e-6)


def test_growth_is_what_regret_adds_per_logarithm_of_rounds(long: list[horizons.LongRun]) -> None:
    run = long[1]
    growth, regret = run.growth("ucb1", decades=2), run.simulation.regret("ucb1")
    start = run.simulation.rounds.tolist().index(1000)
    assert growth.since == 1000
    assert growth.slope * np.log(100) == pytest.approx(float((regret[:, -1] - regret[:, start]).mean()))
    assert run.growth("ucb1", decades=9).since == 100  # as far back as there is


def test_the_section_says_what_the_numbers_say(long: list[horizons.LongRun], tmp_path: Path) -> None:
    body = numbers([], long)["horizons"]
    assert list(body) == ["discrete-1", "discrete-2"]
    first, second, runs = long_sentences(long)
    mean = body["discrete-1"]["simulation"]["policies"]["c-ucb"]["regret_mean"][-1]
    assert f"after 100,000 rounds C-UCB's regret is {mean:.3g} ±" in first
    assert f"and like {body['discrete-2']['growth']['c-ucb']['slope']:.3g} ±" in second and "can have is 4.79 log t" in second
    assert runs == "Runs: 5 and 3 of C-UCB and 3 of UCB1."
    page = long_section(long, "picture.svg")
    assert "<h2>100,000 rounds</h2>" in page and "at 10,000</th>" in page and "src='picture.svg'" in page
    assert numbers([]) == {}


def test_the_picture_of_long_runs_has_a_bound_in_every_panel(long: list[horizons.LongRun], tmp_path: Path) -> None:
    figures = long_figures(long)
    assert [data.title for data in figures] == ["case 1\nno competitive arm", "case 2\none competitive arm"]
    drawing = draw_long_runs(figures)
    assert all(any(line.get_linestyle() == ":" for line in axis.lines) for axis in drawing.axes)
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["ucb1", "c-ucb", "Graves–Lai: least slope, C log t"]
    save(drawing, tmp_path / "long.png")
    assert 5_000 < (tmp_path / "long.png").stat().st_size < 300_000


# the theorems in words


def test_many_arms_are_not_named_one_by_one() -> None:
    arms = {f"arm {k}": np.roll([3.0, 0, 0, 0, 0, 0, 0, 0, 0], k).tolist() for k in range(9)}
    problem = hw.Problem(latent=hw.Discrete(range(9)), arms=arms, distribution=[0.2, *np.linspace(0.09, 0.11, 8)])
    text = " ".join(theorem_sentences(problem, hw.analyze(problem), limits(problem)))
    assert "C-UCB pulls each of the 8 competitive arms at most" in text and "arm 3" not in text


def test_theorem_4_may_be_right_with_more_than_two_arms() -> None:
    """Where pulls of the third arm tell nothing, its formula is the Graves-Lai constant."""
    arms = {"safe": [1, 1, 1], "risky": [0, 1, 2], "poor": [0.5, 0.5, 0.5]}
    problem = hw.Problem(latent=hw.Discrete(["a", "b", "c"]), arms=arms, distribution=[0.5, 0.25, 0.25])
    text = " ".join(theorem_sentences(problem, hw.analyze(problem), limits(problem)))
    assert "than 5.89 × log T in the long run. So it is here, but not with 3 arms as a rule" in text


def test_theorems_in_words_with_ties_without_a_law_and_for_large_problems() -> None:
    tie = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"a": [0, 1], "b": [1, 0]}, distribution=[0.5, 0.5])
    first, fourth = theorem_sentences(tie, hw.analyze(tie), limits(tie))
    assert first == "The paper's Theorems 1, 2, 3 and 5 are about problems that have one best arm."
    assert fourth.startswith("Theorem 4: its lower bound is 0")
    nothing = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"a": [0, 1], "b": [1, 0]})
    assert theorem_sentences(nothing, hw.analyze(nothing), None) == []
    large = hw.Problem(latent=hw.Discrete(range(1100)), arms={"a": "x", "b": "1099 - x/2"}, distribution=[1 / 1100] * 1100)
    assert not any("Theorem 4" in text for text in theorem_sentences(large, hw.analyze(large), limits(large)))


def test_theorem_4_with_two_arms_is_the_constant() -> None:
    problem = hw.load_problem(EXAMPLES / "paper" / "vector-1.toml")
    text = " ".join(theorem_sentences(problem, hw.analyze(problem), limits(problem)))
    assert "than 69 × log T in the long run; with two arms that is the Graves–Lai constant." in text
