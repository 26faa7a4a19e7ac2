"""The command line: results on standard output, messages on standard error, status 2 and a sentence for bad input."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headwater
from command_line import Outcome, Run
from headwater import cli
from headwater.starters import STARTERS

ROOT = Path(__file__).parent.parent


@pytest.fixture(params=list(STARTERS))
def starter(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"{request.param}.toml"
    path.write_text(STARTERS[request.param], encoding="utf-8")
    return path


@pytest.fixture
def ads(tmp_path: Path) -> Path:
    path = tmp_path / "ads.toml"
    path.write_text(STARTERS["discrete"], encoding="utf-8")
    return path


def check_refusal(got: Outcome, *expected: str) -> None:
    assert got.status == 2
    assert got.out == ""
    assert "Traceback" not in got.err
    for text in expected:
        assert text in got.err, (text, got.err)


# new, schema, version, help


@pytest.mark.parametrize("kind", STARTERS)
def test_new_prints_a_problem_that_can_be_analysed(kind: str, run: Run, tmp_path: Path) -> None:
    new = run("new", kind)
    assert new == Outcome(0, STARTERS[kind], "")
    path = tmp_path / "problem.toml"
    path.write_text(new.out, encoding="utf-8")
    assert run("analyze", path).status == 0


def test_schema(run: Run) -> None:
    got = run("schema")
    assert got.status == 0 and got.err == ""
    assert json.loads(got.out) == headwater.files.schema()


def test_version(run: Run) -> None:
    assert run("--version") == Outcome(0, headwater.__version__ + "\n", "")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_command(flag: str, run: Run) -> None:
    got = run(flag)
    assert got.status == 0 and got.err == ""
    commands = [command.name or getattr(command.callback, "__name__", "") for command in cli.app.registered_commands]
    assert {"analyze", "pseudo", "new", "schema", "reproduce"} <= set(commands)
    for command in commands:
        assert re.search(rf"^\s+{command}\s", got.out, re.MULTILINE), command
        own = run(command, flag)
        assert own.status == 0 and "Usage: headwater " + command in own.out


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["analyze"], ["new"], ["new", "cube"], ["analyze", "a", "b"], ["--nonsense"], ["pseudo", "x.toml"]],
)
def test_wrong_usage(arguments: list[str], run: Run) -> None:
    check_refusal(run(*arguments), "error: ", "(see --help)")


# analyze


def test_analyze_prints_a_table_and_advice(run: Run, starter: Path) -> None:
    got = run("analyze", starter)
    assert got.status == 0 and got.err == ""
    problem = headwater.load_problem(starter)
    assert problem.name in got.out and all(name in got.out for name in problem.names)
    assert headwater.analyze(problem).advice in " ".join(got.out.split())


@pytest.mark.parametrize("more", [[], ["--full"]])
def test_analyze_json_is_one_object(run: Run, starter: Path, more: list[str]) -> None:
    got = run("analyze", starter, "--json", *more)
    assert got.status == 0 and got.err == ""
    data = json.loads(got.out)
    problem = headwater.load_problem(starter)
    assert data["arms"] == list(problem.names)
    keys = ["best", "means", "gaps", "pseudo_gaps", "expected_pseudo_rewards", "competitive", "non_competitive", "C", "advice"]
    assert all(key in data for key in keys)
    assert data["C"] == len(data["competitive"])
    if more:
        assert all(len(row) == len(problem.arms) for row in data["expected_pseudo_rewards"].values())


def test_analyze_without_a_distribution(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('[latent]\nkind = "discrete"\nvalues = [1, 2]\n[arms]\nhigh = [3, 4]\nlow = "x"\n')
    data = json.loads(run("analyze", path, "--json").out)
    assert "means" not in data and data["always_best"] == ["high"]
    assert "always best" in run("analyze", path).out


def test_numbers_of_the_first_example(run: Run, ads: Path) -> None:
    data = json.loads(run("analyze", ads, "--json").out)
    assert data["means"] == pytest.approx({"banner": 1.7, "video": 0.9})
    assert data["pseudo_gaps"]["video"] == pytest.approx(0.2) and data["non_competitive"] == ["video"]


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_plots_are_written(run: Run, starter: Path, tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"picture.{suffix}"
    got = run("analyze", starter, "--json", "--plot", picture)
    assert got.status == 0 and str(picture) in got.err
    assert json.loads(got.out)
    data = picture.read_bytes()
    assert data.startswith({"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!"}[suffix]) and len(data) > 5000


HOSTILE = """
name = "<script>alert(0)</script> & [bold]co[/bold]"
[latent]
kind = "discrete"
values = ["<img src=x onerror=alert(1)>", "[link=x]b[/link]"]
probabilities = [0.5, 0.5]
[arms]
"[red]x[/red]" = [1, 0]
"<script>alert(2)</script>" = [0, 1]
"$x^{$ \\\\ :smile: %s {0}" = [0, 0]
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    path = tmp_path / "hostile.toml"
    path.write_text(HOSTILE, encoding="utf-8")
    return path


def test_the_page_is_self_contained_and_escapes_names(run: Run, hostile: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("analyze", hostile, "--plot", page).status == 0
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"<script[^>]*\bsrc\s*=", text) and not re.search(r"<(link|img|iframe)\b[^>]*https?://", text)
    assert "<script>alert" not in text and "<img src=x" not in text
    assert "&lt;script&gt;alert(0)" in text


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures_of_hostile_names(run: Run, hostile: Path, tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"p.{suffix}"
    assert run("analyze", hostile, "--plot", picture).status == 0
    assert suffix == "png" or "<script>alert" not in picture.read_text(encoding="utf-8")


def test_markup_in_names_is_printed_as_it_stands(run: Run, hostile: Path) -> None:
    for got in (run("analyze", hostile), run("pseudo", hostile, "--observed", "[red]x[/red]", "--reward", 1)):
        assert got.status == 0
        assert "[red]x[/red]" in got.out and ":smile: %s {0}" in got.out and "<script>alert(2)</script>" in got.out
    assert "[bold]co[/bold]" in run("analyze", hostile).out


# bad input


def test_plots_that_cannot_be_written(run: Run, ads: Path, tmp_path: Path) -> None:
    for name in ("picture.pdf", "picture", "picture.png.txt", ".png"):
        check_refusal(
            run("analyze", ads, "--plot", tmp_path / name), f"error: --plot: got {name}; expected a name that ends in"
        )
    folder = tmp_path / "folder.png"
    folder.mkdir()
    check_refusal(run("analyze", ads, "--plot", folder), "error: --plot: ", "is a folder; expected the name of a file")
    for name in ("x.png", "x.svg", "x.html"):
        check_refusal(run("analyze", ads, "--plot", ads / name), "error: ")
        check_refusal(
            run("analyze", ads, "--plot", Path("/proc/nowhere") / name),
            "error: --plot: the folder /proc/nowhere does not exist; make it first",
        )


@pytest.mark.parametrize("command", [["analyze"], ["analyze", "--json"], ["pseudo", "--observed", "a", "--reward", "1"]])
def test_files_that_are_no_problems(command: list[str], run: Run, tmp_path: Path) -> None:
    binary, empty, broken = tmp_path / "binary.toml", tmp_path / "empty.toml", tmp_path / "broken.toml"
    binary.write_bytes(bytes(range(256)))
    empty.write_text("")
    broken.write_text("[latent\n")
    check_refusal(run(*command, tmp_path / "absent.toml"), "absent.toml: cannot be read: No such file or directory")
    check_refusal(run(*command, tmp_path), "cannot be read: Is a directory")
    check_refusal(run(*command, binary), "is not UTF-8 text (byte 128)")
    check_refusal(run(*command, empty), "error: latent: missing", "error: arms: missing")
    check_refusal(run(*command, broken), "broken.toml: this is not TOML")


def test_every_complaint_has_its_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(
        'x = 1\n[latent]\nkind = "discrete"\nvalues = [1, 2]\nprobabilities = [1, 1]\n[arms]\na = [1]\nb = "1/(x-1)"'
    )
    got = run("analyze", path)
    check_refusal(got, "error: x: unknown key", "error: latent.probabilities: the probabilities sum to 2", "error: arms.b: the")
    assert len(got.err.splitlines()) == 4 and all(line.startswith("error: ") for line in got.err.splitlines())


def test_random_rewards_are_analysed(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(
        STARTERS["discrete"].replace("# [arms", "[arms").replace("# outcomes", "outcomes").replace("# prob", "prob")
    )
    got = run("analyze", path, "--plot", tmp_path / "p.png")
    assert got.status == 0 and "coupon" in got.out and (tmp_path / "p.png").stat().st_size > 1000
    found = json.loads(run("analyze", path, "--json").out)
    assert found["bounds"]["theorems"] == {"pulls": {}, "regret": None, "worst_case": None}
    assert found["bounds"]["graves_lai"] >= 0
    assert "Theorems 1, 2, 3 and 5 are about problems that have no random rewards." in " ".join(
        run("analyze", path).out.split()
    )


def test_analyze_says_what_regret_is_possible(run: Run, tmp_path: Path) -> None:
    """In the table, in words and on the page; the paper's second discrete case has C > 0, and one law to rule out."""
    file = ROOT / "examples" / "paper" / "discrete-2.toml"
    out = " ".join(run("analyze", file).out.split())
    for words in ("cheapest exploration", "below 4.79 × log T", "4.99 × log T pulls of arm 2 and 3.1 × log T pulls of arm 1"):
        assert words in out
    assert "x4 0.17 → 0.046" in out and "under it arm 2 draws level with arm 3, whose own rewards" in out
    page = tmp_path / "page.html"
    assert run("analyze", file, "--plot", page).status == 0
    text = page.read_text(encoding="utf-8")
    assert "What regret is possible" in text and "x4 0.17 → 0.046" in text


def test_analyze_says_what_the_theorems_say(run: Run) -> None:
    """Theorems 1 to 5 in words; Theorem 4's 8.62 beside what is right. For continuous X, too, but for Theorem 4."""
    out = " ".join(run("analyze", ROOT / "examples" / "paper" / "discrete-2.toml").out.split())
    for words in (
        "Theorem 1: C-UCB pulls arm 1, which is non-competitive, at most 127,783 times on average, however long it runs.",
        "Theorem 2: C-UCB pulls arm 2, which is competitive, at most 394.0 × log T + 174,616 times on average.",
        "Theorem 3: so C-UCB's regret is at most 224.6 × log T + 180,034.",
        "Theorem 4: no good policy has less regret than 8.62 × log T in the long run, it says. With 3 arms that is not so",
        "the Graves–Lai constant is 4.79.",
        "Theorem 5: whatever the gaps, also if they shrink as T grows, C-UCB's regret is of the order √(T log T)",
    ):
        assert words in out
    out = " ".join(run("analyze", ROOT / "examples" / "paper" / "continuous-3.toml").out.split())
    for words in ("Theorem 1 is about non-competitive arms: there are none.", "the competitive arms, arm 1 at most", "listed."):
        assert words in out
    data = json.loads(run("analyze", ROOT / "examples" / "paper" / "continuous-3.toml", "--json").out)
    assert data["theorems"]["pulls"]["arm 1"]["theorem"] == 2 and data["theorems"]["worst_case"]["order"] == "sqrt(T log T)"
    assert "bounds" not in data


def test_analyze_says_that_a_bound_of_a_large_problem_is_left_out(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    arms = {"a": "x", "b": "1099 - x"}
    latent = {"kind": "discrete", "values": list(range(1100)), "probabilities": [1 / 1100] * 1100}
    path.write_text(json.dumps({"latent": latent, "arms": arms}), encoding="utf-8")
    assert "may take long: hw.bounds(problem) computes it" in " ".join(run("analyze", path).out.split())
    assert "bounds" not in json.loads(run("analyze", path, "--json").out)


def test_bounds_of_random_rewards(run: Run) -> None:
    out = " ".join(run("analyze", ROOT / "examples" / "coupons.toml").out.split())
    assert "under it bundle draws level with mailing" in out and "hardly any of the 2 others" in out


def test_bounded_regret_is_said_in_words(run: Run, ads: Path) -> None:
    out = run("analyze", ads).out
    assert "No exploration is needed in the long run" in out and "cheapest exploration" not in out


# latent, explain


@pytest.fixture
def state(ads: Path, tmp_path: Path) -> Path:
    """Two pulls of banner, which tells students from the rest, and nothing else."""
    policy = headwater.make_policy("joint-ucb", headwater.load_problem(ads))
    policy.update(["banner", "banner"], [1, 2])
    path = tmp_path / "state.json"
    path.write_text(json.dumps(policy.state()), encoding="utf-8")
    return path


def test_latent_shows_what_the_rewards_say(run: Run, ads: Path, state: Path) -> None:
    got = run("latent", ads, "--state", state)
    assert got.status == 0 and got.err == ""
    for words in (
        "by joint-ucb after 2 rewards",
        "student",
        "together: worker and retiree",
        "95 % confidence",
        "No arm's rewards",
    ):
        assert words in got.out
    data = json.loads(run("latent", ads, "--state", state, "--confidence", 0.9, "--json").out)
    assert data["confidence"] == 0.9 and data["rounds"] == 2 and data["policy"] == "joint-ucb" and data["doubted"] == []
    assert set(data["values"]) == {"student", "worker", "retiree"}
    assert data["alike"][0]["values"] == ["worker", "retiree"]
    assert data["values"]["student"]["likeliest"] == pytest.approx(0.5)
    assert data["holds"] == "each" and "each value by itself, at this moment" in " ".join(got.out.split())
    always = run("latent", ads, "--state", state, "--holds", "always")
    assert "all values at once, at all times" in " ".join(always.out.split())
    check_refusal(run("latent", ads, "--state", state, "--holds", "never"), 'error: holds: got "never"; expected "each"')


def test_latent_names_doubted_arms(run: Run, ads: Path, state: Path) -> None:
    stored = json.loads(state.read_text(encoding="utf-8"))
    state.write_text(json.dumps(stored | {"doubted": ["banner"]}), encoding="utf-8")
    assert "it is wrong about banner. What banner paid is left out here." in run("latent", ads, "--state", state).out
    assert json.loads(run("latent", ads, "--state", state, "--json").out)["doubted"] == ["banner"]
    assert "it is wrong about banner. What banner paid is left out here." in run("explain", ads, "--state", state).out


def test_explain_says_why(run: Run, ads: Path, state: Path) -> None:
    problem = headwater.load_problem(ads)
    policy = headwater.policies.from_state(json.loads(state.read_text(encoding="utf-8")), problem)
    got = run("explain", ads, "--state", state)
    assert got.status == 0 and got.err == "" and got.out.strip() == str(policy.explain())
    data = json.loads(run("explain", ads, "--state", state, "--json").out)
    assert data == json.loads(json.dumps(policy.explain().to_dict()))


@pytest.mark.parametrize("command", ["latent", "explain"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not JSON: "),
        ("[" * 100_000, "is not JSON: "),
        ("[]", 'error: state: expected a stored policy ("format": "headwater-policy")'),
        ("{}", "error: state: expected a stored policy"),
    ],
)
def test_states_that_are_none(command: str, text: str, expected: str, run: Run, ads: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    check_refusal(run(command, ads, "--state", path), expected)


@pytest.mark.parametrize("command", ["latent", "explain"])
def test_states_of_something_else(command: str, run: Run, ads: Path, state: Path, tmp_path: Path) -> None:
    check_refusal(run(command, ads), "Missing option '--state'", "(see --help)")
    check_refusal(run(command, ads, "--state", tmp_path / "absent.json"), "absent.json: No such file or directory")
    check_refusal(run(command, ads, "--state", tmp_path), "Is a directory")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    check_refusal(run(command, ads, "--state", tmp_path / "binary.json"), "error: --state: ", "is not JSON: ")
    other = ROOT / "examples" / "paper" / "discrete-2.toml"
    check_refusal(run(command, other, "--state", state), "error: state.")


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "/dev/zero"),
        ("simulate", "/dev/zero"),
        ("sweep", "/dev/zero", "--output", "out"),
        ("evaluate", "/dev/zero", "log.csv"),
        ("explain", "ads.toml", "--state", "/dev/zero"),
        ("latent", "ads.toml", "--state", "/dev/zero"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.skipif(os.name != "posix", reason="/dev/zero is POSIX's")
def test_what_has_no_end_is_read_up_to_a_limit(
    words: tuple[str, ...], run: Run, ads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ads.parent)
    monkeypatch.setattr(headwater.files, "MAX_BYTES", 100_000)
    check_refusal(run(*words), "error: /dev/zero: has more than 100,000 bytes; at most so many are read")
    assert sorted(path.name for path in ads.parent.iterdir()) == ["ads.toml"]


def test_latent_refuses(run: Run, ads: Path, state: Path, tmp_path: Path) -> None:
    check_refusal(
        run("latent", ads, "--state", state, "--confidence", 1), "error: confidence: got 1.0; expected a number between"
    )
    path = tmp_path / "curves.toml"
    path.write_text(STARTERS["continuous"], encoding="utf-8")
    state.write_text(json.dumps(headwater.make_policy("c-ucb", headwater.load_problem(path)).state()), encoding="utf-8")
    check_refusal(run("latent", path, "--state", state), "error: latent: got continuous X that is not listed")


def test_simulate_help_names_every_policy(run: Run) -> None:
    words = " ".join(run("simulate", "--help").out.split())
    assert all(name in words for name in (*headwater.policies.NAMES, "auto"))


# pseudo


def test_pseudo(run: Run, ads: Path) -> None:
    got = run("pseudo", ads, "--observed", "banner", "--reward", 2)
    assert got.status == 0 and got.err == "" and "When banner pays 2" in got.out and "1.5" in got.out
    assert json.loads(run("pseudo", ads, "--observed", "banner", "--reward", "2", "--json").out) == {"banner": 2, "video": 1.5}
    near = run("pseudo", ads, "--observed", "banner", "--reward", "1.9", "--tolerance", "0.2", "--json")
    assert json.loads(near.out) == {"banner": 2, "video": 1.5}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--observed", "banner", "--reward", "1.7"], "error: reward: got 1.7; arm banner can pay 1, or 2"),
        (["--observed", "banner", "--reward", "nan"], "error: reward: got nan; expected a finite number"),
        (["--observed", "banner", "--reward", "inf"], "error: reward: got inf; expected a finite number"),
        (["--observed", "banner", "--reward", "-1e400"], "error: reward: got -inf; expected a finite number"),
        (["--observed", "banner", "--reward", "abc"], "Invalid value for '--reward'"),
        (["--observed", "radio", "--reward", "1"], 'error: observed: got "radio"; expected one of banner, video'),
        (["--observed", "0", "--reward", "1"], 'error: observed: got "0"; expected one of banner, video'),
        (["--observed", "banner"], "--reward"),
        (["--reward", "1"], "--observed"),
        (
            ["--observed", "banner", "--reward", "1", "--tolerance", "nan"],
            "error: tolerance: got NaN; expected a number from 0",
        ),
        (
            ["--observed", "banner", "--reward", "1", "--tolerance", "-1"],
            "error: tolerance: got -1.0; expected a number from 0",
        ),
        (["--observed", "banner", "--reward", "1", "--tolerance", "1"], "error: tolerance: got 1.0; expected a number from 0"),
    ],
)
def test_pseudo_refuses(run: Run, ads: Path, arguments: list[str], expected: str) -> None:
    check_refusal(run("pseudo", ads, *arguments), expected)


def test_an_interrupt_ends_quietly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headwater.files.schema", interrupted)
    assert run("schema") == Outcome(130, "", "Stopped; nothing was kept.\n")


def test_nothing_to_do_shows_the_help(run: Run) -> None:
    got = run()
    assert got.status == 2
    assert "Usage: headwater" in got.err and "error:" not in got.err


# as a program


def program(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "120", "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, "-m", "headwater", *arguments], capture_output=True, text=True, env=environment, check=False, **more
    )


def test_piped_from_new_to_analyze() -> None:
    new = program("new", "discrete")
    got = program("analyze", "/dev/stdin", "--json", input=new.stdout)
    assert (new.returncode, new.stderr, got.returncode, got.stderr) == (0, "", 0, "")
    assert json.loads(got.stdout)["best"] == "banner"


def test_bad_input_to_the_program(tmp_path: Path) -> None:
    got = program("analyze", str(tmp_path / "absent.toml"))
    assert got.returncode == 2 and got.stdout == "" and got.stderr.startswith("error: ") and "Traceback" not in got.stderr


def shell(line: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A line for the shell, in which ``"$@"`` is headwater and its arguments."""
    words = ["bash", "-c", f"set -o pipefail; {line}", "bash", sys.executable, "-m", "headwater", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PYTHONWARNINGS": "error"}, check=False)


CLOSED = "error: standard output is closed; expected it to be open (> /dev/null throws away what is printed)\n"
FULL = "error: standard output cannot be written: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    ("line", "words", "status", "err"),
    [
        ('"$@" >&-', ["new", "discrete"], 2, CLOSED),
        ('"$@" >&-', ["simulate", "ADS", "--output", "run"], 2, CLOSED),
        ('"$@" >/dev/full', ["new", "discrete"], 2, FULL),
        ('"$@" >/dev/full', ["analyze", "ADS"], 2, FULL),
        ('"$@" >/dev/full', ["analyze", "ADS", "--json"], 2, FULL),
        ('"$@" >/dev/full', ["--help"], 2, FULL),
        ('"$@" 1</dev/null', ["--version"], 2, "error: standard output cannot be written: Bad file descriptor\n"),
        ('"$@" >/dev/full 2>&-', ["analyze", "ADS"], 2, ""),
        ('"$@" 2>/dev/full', ["nonsense"], 2, ""),
        ('"$@" 2>&-', ["analyze", "ADS", "--plot", "ads.svg"], 0, ""),
        ('"$@" 2>/dev/full', ["analyze", "ADS", "--plot", "ads.svg"], 0, ""),
        ('"$@" | true', ["schema"], 1, ""),
        ('"$@" | true', ["analyze", "ADS"], 1, ""),
        ('"$@" 2>&1 | true', ["nonsense"], 2, ""),
    ],
)
def test_output_that_cannot_be_written(
    line: str, words: list[str], status: int, err: str, ads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked for is printed, or the status is not 0. What nobody hears on standard error changes nothing."""
    monkeypatch.chdir(ads.parent)
    got = shell(line, *(str(ads) if word == "ADS" else word for word in words))
    if "|" in line and got.returncode == 0:
        status = 0  # all of it fitted into the pipe before its reader was gone
    assert (got.returncode, got.stderr) == (status, err)
    assert not (ads.parent / "run").exists(), "refused before any work"
    assert (ads.parent / "ads.svg").exists() == ("--plot" in words)


OTHER_SIGNS = """
name = "caf\u00e9 \u2026 \u4fa1\u683c"
[latent]
kind = "discrete"
values = ["\u03b1", "\u03b2"]
probabilities = [0.5, 0.5]
[arms]
"caf\u00e9" = [1, 2]
"\u4fa1" = [2, 1]
"\u5024" = [2, 0]
"""


@pytest.fixture
def signs(tmp_path: Path) -> Path:
    path = tmp_path / "signs.toml"
    path.write_text(OTHER_SIGNS, encoding="utf-8")
    return path


class Encoded(io.TextIOWrapper):
    """A standard output in an encoding of its own, and what was printed to it."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    @property
    def printed(self) -> bytes:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


def wide(text: str) -> list[int]:
    """How wide the lines of a table are."""
    return [len(line) for line in text.splitlines() if line.startswith(("|", "+"))]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_any_encoding_of_standard_output(
    encoding: str, run: Run, signs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command that prints tables or sentences, in encodings without our signs: readable, boxes of ASCII, valid JSON."""

    def printed(*words: object) -> bytes:
        with monkeypatch.context() as patch:
            stream = Encoded(encoding)
            patch.setattr(sys, "stdout", stream)
            got = run(*words)
            assert got.status == 0, got.err
        return stream.printed

    monkeypatch.chdir(tmp_path)
    rows = "ad,won,who\n" + "".join(f"{'é価'[i % 2]},{i * i % 3},{'xy'[i // 2 % 2]}\n" for i in range(60))
    (tmp_path / "log.csv").write_text(rows, encoding="utf-8")
    policy = headwater.make_policy("joint-ucb", headwater.load_problem(signs))
    policy.update(["café", "café"], [1, 2])
    (tmp_path / "state.json").write_text(json.dumps(policy.state()), encoding="utf-8")
    small = ("--horizon", 50, "--replications", 3)
    fitted = ("log.csv", "--arm", "ad", "--reward", "won", "--segment", "who", "--force")
    tables: list[tuple[object, ...]] = [
        ("analyze", signs), ("pseudo", signs, "--observed", "café", "--reward", 2), ("latent", signs, "--state", "state.json"),
        ("explain", signs, "--state", "state.json"), ("simulate", signs, *small), ("fit", *fitted),
    ]  # fmt: skip
    for words in tables:
        text = printed(*words).decode(encoding)
        assert text.isascii() or encoding != "ascii"
        assert ("─" in text) == (encoding == "utf-8" and words[0] not in ("explain",)), words
        assert len(set(wide(text))) <= 1, text
        assert "caf" in text or words[0] == "fit"
        found = json.loads(printed(*words, "--json"))  # from bytes, which for JSON are UTF-8
        assert "café" in str(found) or words[0] in ("latent", "fit")
    help_text = printed("simulate", "--help").decode(encoding)
    assert "Usage: headwater simulate" in help_text
    for kind in STARTERS:
        (tmp_path / "new.toml").write_bytes(printed("new", kind))
        assert headwater.load_problem(tmp_path / "new.toml") == headwater.files.parse_problem(STARTERS[kind])
    assert json.loads(printed("schema")) == headwater.files.schema()


def test_an_encoding_of_the_environment(signs: Path) -> None:
    for environment in ({"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        words = [sys.executable, "-m", "headwater", "analyze", str(signs)]
        got = subprocess.run(words, capture_output=True, env=os.environ | environment, check=False)
        assert got.returncode == 0 and got.stderr == b""
        assert b"cafe" in got.stdout.replace(b"\xe9", b"e") and b"\\u4fa1" in got.stdout and b"+--" in got.stdout
