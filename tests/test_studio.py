"""The studio over HTTP: the same numbers as in Python, a sentence for every refusal, one shape for errors whatever comes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.files import build_problem, parse_problem
from headwater.report.limits import as_json, limits
from headwater.service import answers, pages, studio, tasks, worker
from headwater.starters import STARTERS

ADS: dict[str, Any] = {
    "name": "two ads",
    "latent": {"kind": "discrete", "values": ["student", "worker", "retiree"], "probabilities": [0.3, 0.4, 0.3]},
    "arms": {"banner": [1, 2, 2], "video": [1.5, 0, 1.5]},
}
CURVES: dict[str, Any] = {
    "latent": {"kind": "continuous", "support": [0, 1], "distribution": {"name": "beta", "a": 2, "b": 5}},
    "arms": {"rise": "1 - exp(-2*x)", "flat": "0.5"},
}


def wide(arms: int, values: int) -> dict[str, Any]:
    latent = {"kind": "discrete", "values": list(range(values)), "probabilities": [1 / values] * values}
    return {"latent": latent, "arms": {f"a{k}": [(k * j) % 7 for j in range(values)] for k in range(arms)}}


POSTS = ("analyze", "simulate", "pseudo", "problems/toml", "problems/parse")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = FastAPI()
    answers.install(app)
    app.include_router(pages.router)
    app.include_router(studio.router)
    with TestClient(app, raise_server_exceptions=False) as made:
        yield made


def refused(answer: Any, status: int = 422) -> str:
    """The message of an error in the one shape."""
    body = answer.json()
    assert answer.status_code == status, body
    assert list(body) == ["error"] and sorted(body["error"]) == ["code", "details", "message"]
    assert isinstance(body["error"]["message"], str) and body["error"]["message"]
    return str(body["error"]["message"])


def test_analyze_is_what_the_command_line_prints(client: TestClient) -> None:
    problem = build_problem(ADS)
    found = limits(problem)
    assert found is not None
    answer = client.post("/v1/analyze", json={"problem": ADS})
    printed = json.loads(json.dumps(as_json(problem, hw.analyze(problem), found)))
    assert answer.json() == printed
    assert printed["bounds"] == json.loads(json.dumps(found.to_dict())) and printed["theorems"] == printed["bounds"]["theorems"]
    assert printed.items() >= hw.analyze(problem).to_dict().items()


def test_analyze_under_another_distribution(client: TestClient) -> None:
    answer = client.post("/v1/analyze", json={"problem": ADS, "distribution": [0.6, 0.2, 0.2]}).json()
    assert answer["competitive"] == ["video"]
    assert answer["means"] == hw.analyze(build_problem(ADS), [0.6, 0.2, 0.2]).to_dict()["means"]


def test_analyze_without_a_distribution_says_what_always_holds(client: TestClient) -> None:
    bare = {**ADS, "latent": {"kind": "discrete", "values": ["a", "b", "c"]}}
    answer = client.post("/v1/analyze", json={"problem": bare}).json()
    assert "best" not in answer and answer["undecided"] == []


def test_a_continuous_problem_is_analysed_in_its_own_process(client: TestClient) -> None:
    answer = client.post("/v1/analyze", json={"problem": CURVES}).json()
    problem = build_problem(CURVES)
    assert answer == json.loads(json.dumps(as_json(problem, hw.analyze(problem), None)))


def test_what_takes_too_long_is_ended(client: TestClient) -> None:
    slow = {**CURVES, "arms": {"a": "+".join(f"sin({i}*x)" for i in range(100)), "b": "x"}}
    message = refused(client.post("/v1/analyze", json={"problem": slow}))
    assert message.startswith("this problem takes more than the 2 s of processor time that the studio gives")
    assert client.post("/v1/analyze", json={"problem": CURVES}).status_code == 200  # and then goes on


def test_the_worker_passes_complaints_on(client: TestClient) -> None:
    broken = {**CURVES, "arms": {"a": "1 +", "b": "y"}}
    answer = client.post("/v1/analyze", json={"problem": broken})
    assert refused(answer).startswith("arms.a: ")
    assert len(answer.json()["error"]["details"]) == 2


def test_a_busy_worker_asks_to_come_back() -> None:
    one = worker.Worker("headwater.service.tasks")
    one._process = object()  # type: ignore[assignment]
    try:
        with one._lock, pytest.raises(answers.ServiceError, match="busy with another problem; try again") as raised:
            one.call("analyze", {}, worker.Allowance(0.01), wait=0.01)
    finally:
        one._process = None
    assert raised.value.status == 503 and raised.value.headers == {"Retry-After": "2"}


def test_simulate_is_what_the_command_line_prints(client: TestClient) -> None:
    how = {"horizon": 300, "replications": 12, "seed": 3}
    policies = ["ucb1", "c-ucb", "c-ts:posterior=beta", "auto"]
    answer = client.post("/v1/simulate", json={"problem": ADS, "policies": policies, **how}).json()
    specs = [hw.make_policy("c-ts", build_problem(ADS), posterior="beta").spec]
    run = hw.simulate(build_problem(ADS), policies=["ucb1", "c-ucb", *specs, "auto"], engine="step", **how).to_dict()  # type: ignore[arg-type]
    assert {**answer, "seconds": 0} == json.loads(json.dumps({**run, "seconds": 0}))
    assert list(answer["policies"]) == ["ucb1", "c-ucb", "c-ts (beta)", "joint-ucb"]


def test_simulate_a_continuous_problem(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_SECONDS", 200.0)  # however busy the machine is
    how = {"horizon": 200, "replications": 4, "seed": 1}
    answer = client.post("/v1/simulate", json={"problem": CURVES, "policies": ["c-ucb"], **how}).json()
    run = hw.simulate(build_problem(CURVES), policies=["c-ucb"], engine="step", **how).to_dict()  # type: ignore[arg-type]
    assert answer["policies"] == json.loads(json.dumps(run["policies"]))


def test_reward_range_and_distribution_reach_the_simulation(client: TestClient) -> None:
    body = {"problem": ADS, "horizon": 50, "replications": 2, "reward_range": 7.5, "distribution": [1, 0, 0]}
    assert client.post("/v1/simulate", json=body).json()["reward_range"] == 7.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policies": ["ucb2"]}, 'policy: got "ucb2"; expected one of ucb1,'),
        ({"policies": []}, "policies: got []; expected list should have at least 1 item"),
        ({"policies": ["ucb1", "ucb1"]}, "policies: got ucb1 twice; expected each policy once"),
        ({"policies": ["graves-lai"], "horizon": 100_000}, "would take about"),
        ({"horizon": 10_000_000, "replications": 10_000}, "horizon × replications: got 100,000,000,000 rounds of 2 policies"),
        ({"policies": ["graves-lai"], "problem": wide(20, 21)}, "policies: got graves-lai on 420 rewards (arms × values of X)"),
        ({"horizon": 0}, "horizon: got 0; expected greater than or equal to 1"),
        ({"horizon": 1.5}, "horizon: got 1.5; expected a valid integer"),
        ({"horizon": 10**400}, "horizon: got "),
        ({"replications": True}, "replications: got true; expected a valid integer"),
        ({"seed": -1}, "seed: got -1; expected greater than or equal to 0"),
        ({"reward_range": 0}, "reward_range: got 0; expected greater than 0"),
        ({"engine": "cuda"}, "engine: unknown key"),
        (
            {"problem": {**ADS, "latent": {"kind": "discrete", "values": [1, 2, 3]}}},
            "distribution: missing; a simulation needs",
        ),
    ],
)
def test_simulate_refuses(client: TestClient, change: dict[str, Any], words: str) -> None:
    body = {"problem": ADS, "horizon": 100, "replications": 2, **change}
    assert words in refused(client.post("/v1/simulate", content=json.dumps(body), headers={"content-type": "application/json"}))


def test_a_race_that_the_estimate_let_through_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "check_budget", lambda *_: None)
    monkeypatch.setattr(tasks, "MAX_SECONDS", 0.2)
    with pytest.raises(hw.HeadwaterError, match=r"of the rounds were played after 0\.2 s, which is all the studio gives"):
        tasks.simulate(ADS, ["graves-lai"], 1_000_000, 20)


def test_two_simulations_at_a_time(client: TestClient) -> None:
    for _ in range(studio.AT_A_TIME):
        assert studio._places.acquire(blocking=False)
    try:
        answer = client.post("/v1/simulate", json={"problem": ADS, "horizon": 10, "replications": 1})
    finally:
        for _ in range(studio.AT_A_TIME):
            studio._places.release()
    assert refused(answer, 503) == "2 simulations are running already; try again in a moment"
    assert answer.headers["retry-after"] == "2"
    assert client.post("/v1/simulate", json={"problem": ADS, "horizon": 10, "replications": 1}).status_code == 200


def test_compiling_comes_before_the_clock() -> None:
    assert tasks.kind_of(ADS) == "listed" and tasks.kind_of(CURVES) == "continuous" and tasks.kind_of(3) == "listed"
    coupon = {"outcomes": [0, 1], "probabilities": [[1, 0], [0.5, 0.5], [0, 1]]}
    assert tasks.kind_of({**ADS, "arms": {**ADS["arms"], "coupon": coupon}}) == "random"
    for kind in tasks.KINDS:
        tasks.warm(["ucb1", "auto", "latent-ts"], kind)
        assert ("latent-ts", "none", "True", kind) in tasks._warmed


def test_pseudo(client: TestClient) -> None:
    body = {"problem": ADS, "observed": "banner", "reward": 2}
    assert client.post("/v1/pseudo", json=body).json() == {"banner": 2.0, "video": 1.5}
    assert refused(client.post("/v1/pseudo", json={**body, "observed": "radio"})) == (
        'observed: got "radio"; expected one of banner, video'
    )
    assert "banner" in refused(client.post("/v1/pseudo", json={**body, "reward": 5}))
    nan = json.dumps({**body, "reward": float("nan")})
    assert "reward: got NaN" in refused(client.post("/v1/pseudo", content=nan, headers={"content-type": "application/json"}))


@pytest.mark.parametrize("text", STARTERS.values(), ids=list(STARTERS))
def test_a_problem_file_goes_round(client: TestClient, text: str) -> None:
    problem = client.post("/v1/problems/parse", json={"text": text}).json()
    assert build_problem(problem) == parse_problem(text)
    written = client.post("/v1/problems/toml", json={"problem": problem})
    assert written.headers["content-type"].startswith("text/plain")
    assert written.text == parse_problem(text).to_toml()
    assert client.post("/v1/problems/parse", json={"text": "\ufeff" + json.dumps(problem)}).json() == problem


def test_infinity_has_a_word_in_json(client: TestClient) -> None:
    text = STARTERS["continuous"].replace("[0, 1]", "[0, inf]")
    assert client.post("/v1/problems/parse", json={"text": text}).json()["latent"]["support"] == [0, "inf"]


def test_parse_lists_everything_wrong(client: TestClient) -> None:
    text = STARTERS["discrete"].replace("0.4", "0.5").replace("[1, 2, 2]", '[1, "n/a", 2]')
    answer = client.post("/v1/problems/parse", json={"text": text})
    refused(answer)
    assert sorted(answer.json()["error"]["details"]) == [
        'arms.banner[1]: got "n/a"; expected a finite number',
        "latent.probabilities: the probabilities sum to 1.1; expected 1 (within 1e-9)",
    ]
    assert refused(client.post("/v1/problems/parse", json={"text": "name = "})).startswith("this is not TOML: ")
    assert refused(client.post("/v1/problems/parse", json={"text": "{"})).startswith("this is not JSON: ")


def test_examples_can_all_be_analysed(client: TestClient) -> None:
    found = client.get("/v1/examples").json()
    assert [one["id"] for one in found[:4]] == ["discrete", "continuous", "vector", "paper-two-arms"]
    assert len({one["id"] for one in found}) == len(found) == 15
    for one in found:
        assert client.post("/v1/analyze", json={"problem": one["problem"]}).json()["best"], one["name"]


def many(**change: Any) -> dict[str, Any]:
    return {**ADS, **change}


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (many(arms={f"a{k}": [1, 2, 3] for k in range(101)}), "arms: got 101; the studio takes at most 100"),
        (
            many(latent={"kind": "discrete", "values": list(range(1001))}),
            "latent: got 1,001 values of X; the studio takes at most",
        ),
        (
            many(latent={"kind": "discrete", "values": list(range(1000))}, arms={f"a{k}": [0] * 1000 for k in range(11)}),
            "arms: got 11,000 rewards (arms × values of X × outcomes); the studio takes at most 10,000",
        ),
        (
            many(arms={"a": {"reward": [1, 2, 3], "noise": {"name": "sign", "scale": 1}, "bins": 10_000}, "b": [1, 2, 3]}),
            "arms: got 30,003 rewards",
        ),
        (
            {
                "latent": {"kind": "vector", "components": {"x": list(range(99)), "y": list(range(99))}},
                "arms": {"a": "x", "b": "y"},
            },
            "latent: got 9,801 values of X",
        ),
        ({**ADS, "arms": {"a": [1e300, -1e300, 0], "b": [1, 2, 3]}, "name": "a\nb"}, 'name: got "a\\nb"; expected printable'),
        ({}, "latent: missing; expected a table that describes X"),
    ],
)
def test_what_is_too_large_or_wrong_is_refused(client: TestClient, problem: Any, words: str) -> None:
    for path in ("analyze", "problems/toml"):
        assert words in refused(client.post(f"/v1/{path}", json={"problem": problem}))


def test_bodies_are_looked_over_first(client: TestClient) -> None:
    def send(text: str | bytes, path: str = "analyze") -> Any:
        return client.post(f"/v1/{path}", content=text, headers={"content-type": "application/json"})

    assert "the body: got more than 1,000,000 bytes" in refused(send(b" " * 1_000_001), 413)
    assert "nested too deeply" in refused(send('{"problem": ' + "[" * 20 + "]" * 20 + "}"), 400)
    assert "nested too deeply" in refused(send("[" * 200_000), 400)
    assert "a key of 201 characters" in refused(send(json.dumps({"problem": {"x" * 201: 1}})))
    assert "a text of 10,001 characters" in refused(send(json.dumps({"problem": {"name": "x" * 10_001}})))
    assert "half a surrogate pair" in refused(send('{"problem": {"name": "\\ud800"}}'))
    assert "half a surrogate pair" in refused(send('{"\\udfff": 1}'))
    assert "the body: is not JSON" in refused(send("{"))
    assert "text: got" in refused(send(json.dumps({"text": 5}), "problems/parse"))
    assert "a text of 200,001 characters" in refused(send(json.dumps({"text": "x" * 200_001}), "problems/parse"))
    refused(send(b"\xff\xfe"))
    refused(client.post("/v1/analyze", content=b""))
    refused(client.get("/v1/analyze"), 405)


def test_answers_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(hw.ProblemError, match="the rewards are too large: some of the answer is no finite number"):
        studio._answer({"means": float("inf")})


def test_rewards_beyond_all_measure_are_refused(client: TestClient) -> None:
    huge = {**ADS, "arms": {"a": [1e300, -1e300, 0], "b": [1, 2, 3]}}
    body = {"problem": huge, "horizon": 20, "replications": 2}
    assert "the rewards are too large" in refused(client.post("/v1/simulate", json=body))


def test_a_failure_in_the_worker_is_told_apart() -> None:
    def fails() -> None:
        raise KeyError("x")

    assert worker._answer(fails, {}) == {"broken": "KeyError('x')"}
    assert worker._answer(tasks.to_toml, {"problem": 1})["lines"]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["x", "inf", "ucb1", "discrete"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
keys = ["problem", "distribution", "policies", "horizon", "replications", "seed", "reward_range", "observed", "reward", "text"]
bodies = anything | st.dictionaries(st.sampled_from(keys), anything, max_size=5)


@given(path=st.sampled_from(POSTS), body=bodies)
@settings(max_examples=150)
@example(path="analyze", body={"problem": {"latent": {"kind": "discrete", "values": [1e400]}, "arms": {"a": [1], "b": [2]}}})
def test_any_json_gets_an_answer_or_the_one_error(client: TestClient, path: str, body: Any) -> None:
    check(client, path, body)


def check(client: TestClient, path: str, body: Any) -> None:
    answer = client.post(f"/v1/{path}", content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == 200 or refused(answer, answer.status_code)
    assert answer.status_code in (200, 400, 413, 422), answer.text


numbers = st.floats() | st.integers() | st.sampled_from([0, 1, 1e300, -1e300, 5e-324, 10**400, True, "1", None])
PARTS: dict[tuple[str, ...], Any] = {
    ("latent", "probabilities"): st.lists(numbers, max_size=4) | anything,
    ("latent", "values"): st.lists(numbers | st.text(max_size=3), max_size=4) | anything,
    ("latent",): anything,
    ("arms",): st.dictionaries(st.text(max_size=5), st.lists(numbers, max_size=4) | anything, max_size=4),
    ("arms", "banner"): st.lists(numbers, max_size=4) | anything,
    ("reward_range",): numbers,
    ("name",): anything,
}


@given(path=st.sampled_from(["analyze", "problems/toml", "simulate", "pseudo"]), data=st.data())
@settings(max_examples=150)
def test_mangled_problems_get_an_answer_or_the_one_error(client: TestClient, path: str, data: st.DataObject) -> None:
    problem = json.loads(json.dumps(ADS))
    place = data.draw(st.sampled_from(list(PARTS)))
    inner = problem
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = data.draw(PARTS[place])
    more: dict[str, dict[str, Any]] = {
        "simulate": {"horizon": 20, "replications": 2},
        "pseudo": {"observed": "video", "reward": 0},
    }
    check(client, path, {"problem": problem, **more.get(path, {})})


def test_pages_and_files(client: TestClient) -> None:
    page = client.get("/studio")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff" and page.headers["referrer-policy"] == "same-origin"
    assert "<script>" not in page.text and " style=" not in page.text and " onclick=" not in page.text
    for name in ("style.css", "studio.css", "lib.js", "charts.js", "studio.js", "icon.svg"):
        file = client.get(f"/static/{name}")
        assert file.status_code == 200 and file.headers["etag"], name
        assert client.get(f"/static/{name}", headers={"if-none-match": file.headers["etag"]}).status_code == 304
    assert client.get("/static/lib.js").headers["content-type"].startswith("text/javascript")
    for name in ("nothing.js", "..%2fpages.py", "%2e%2e%2fanswers.py", "base.html"):
        assert refused(client.get(f"/static/{name}"), 404)


def test_templates_escape_everything() -> None:
    made = pages.environment.from_string("<b>{{ name }}</b>{{ data | tojson }}").render(name="<script>", data="</script>")
    assert made == '<b>&lt;script&gt;</b>"\\u003c/script\\u003e"'


def test_races_in_several_threads_do_not_disturb_each_other() -> None:
    out: list[Any] = []
    ask = lambda: out.append(tasks.simulate(ADS, ["c-ucb"], 200, 5, 1)["policies"])  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert out[0] == out[1]
