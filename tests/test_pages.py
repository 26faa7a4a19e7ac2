"""The studio in a real browser: it works by mouse and by keyboard, wide and narrow, in the light and in the dark, offline."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from fastapi import FastAPI

from browser import CHROMIUM, MISSING, PATIENT, chromium, expect, watched
from headwater.service import answers, pages, studio

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

if CHROMIUM is None:
    pytest.skip(MISSING, allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="no browser tests: playwright is not installed")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server on a free port of this machine."""
    app = FastAPI()
    answers.install(app)
    app.include_router(pages.router)
    app.include_router(studio.router)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@contextmanager
def opened(browser: Browser, address: str, path: str = "/studio", *, quiet: bool = True, **options: Any) -> Iterator[Page]:
    """The studio, ready; afterwards, that nothing went wrong in it and that it asked nobody else for anything."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(PATIENT)
    trouble = watched(page, address)
    page.goto(address + path)
    page.wait_for_selector("body[data-ready]")
    page.wait_for_selector("#reasons li, #wrong li")
    yield page
    context.close()
    assert not quiet or trouble == []


def pull(page: Page, j: int, percent: float) -> None:
    """Move a slider of the mix, as a hand would: the value, then the event."""
    page.locator(f"[data-share='{j}']").evaluate(
        "(slider, value) => { slider.focus(); slider.value = value; slider.dispatchEvent(new Event('input')); }",
        percent,
    )


def test_a_slider_changes_the_verdict(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        expect(page.locator("#headline")).to_have_text("banner is best, with 1.7 a round")
        expect(page.locator("#reasons .badge")).to_have_text("non-competitive")
        expect(page.locator("#reasons p")).to_contain_text("So banner’s rewards alone rule video out.")
        expect(page.locator("#limit-number")).to_have_text("0")
        pull(page, 0, 55)
        expect(page.locator("#reasons .badge")).to_have_text("competitive")
        expect(page.locator("#reasons p")).to_contain_text("cannot rule video out: only trying it can")
        expect(page.locator("#limit-number")).to_contain_text("log T")
        assert page.locator("[data-out]").all_inner_texts() == ["55 %", "25.7 %", "19.3 %"]
        page.locator("[data-share='0']").press("ArrowRight")  # by keyboard
        expect(page.locator("[data-out='0']")).to_have_text("55.5 %")


def test_the_suggestion_keeps_its_promise(browser: Browser, address: str) -> None:
    with opened(browser, address, reduced_motion="reduce") as page:
        expect(page.locator("#hint")).to_contain_text("then video can no longer be ruled out")
        page.click("#hint button")
        expect(page.locator("#reasons .badge")).to_have_text("competitive")


def test_cells_points_and_names(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.fill("[data-cell='1-1']", "9")
        expect(page.locator("#headline")).to_contain_text("video is best")
        page.fill("[data-cell='1-1']", "")
        expect(page.locator("#wrong")).to_have_text("video for worker: expected a number.")
        page.fill("[data-cell='1-1']", "0")
        expect(page.locator("#headline")).to_contain_text("banner is best")

        point = page.locator("[data-point='1-1']")  # a point of the picture, by keyboard ...
        point.focus()
        page.keyboard.press("PageUp")
        page.keyboard.press("ArrowUp")
        expect(page.locator("[data-point='1-1']")).to_be_focused()
        moved = float(page.input_value("[data-cell='1-1']"))
        assert moved > 0.5 and page.get_attribute("[data-point='1-1']", "aria-valuenow") == f"{moved:g}"

        page.keyboard.press("ArrowRight")
        expect(page.locator("[data-point='1-2']")).to_be_focused()

        place = page.locator("[data-point='0-0'] .dot").bounding_box()  # ... and by mouse
        assert place is not None
        page.mouse.move(place["x"] + 6, place["y"] + 6)
        page.mouse.down()
        page.mouse.move(place["x"] + 6, place["y"] - 60, steps=4)
        page.mouse.up()
        assert float(page.input_value("[data-cell='0-0']")) > 1.2

        page.get_by_label("Name of arm 2").fill("<script>alert(1)</script>")
        expect(page.locator("#reasons b")).to_have_text("<script>alert(1)</script>")
        assert page.locator("main script").count() == 0
        page.get_by_label("Name of arm 2").fill("banner")
        expect(page.locator("#wrong")).to_contain_text("Two arms are called banner")


def test_arms_and_values_come_and_go(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.click("#add-arm")
        page.click("#add-value")
        expect(page.locator("#reasons li")).to_have_count(2)
        assert page.locator("[data-out]").all_inner_texts()[3] == "25 %"
        page.click("[aria-label='Remove kind 4']")
        page.click("[aria-label='Remove arm 3']")
        expect(page.locator("#reasons li")).to_have_count(1)
        expect(page.locator("#headline")).to_have_text("banner is best, with 1.7 a round")


def test_a_race(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.select_option("[name=horizon]", "1000")
        page.select_option("[name=replications]", "20")
        page.click("[data-race=go]")
        expect(page.locator("[data-race=status]")).to_contain_text("Done in")
        assert page.locator("[data-race=chart] path.line").count() == 3
        assert page.locator("[data-race=chart] path.band").count() == 3
        assert page.locator("[data-race=table] tbody tr").count() == 3
        page.locator("[data-race=chart] svg").focus()
        page.keyboard.press("Home")
        expect(page.locator("[data-race=chart] .readout")).to_contain_text("round 1,000ucb1")
        pull(page, 0, 40)
        expect(page.locator("[data-race=status]")).to_have_text("The problem has changed since this race.")


def test_a_race_that_is_refused_says_why(browser: Browser, address: str) -> None:
    with opened(browser, address, quiet=False) as page:
        page.locator("[name=seed]").fill("1")
        page.locator("input[value=ucb1], input[value=c-ucb]").evaluate_all(
            "boxes => boxes.forEach((box) => box.checked = false)"
        )
        page.locator("input[value=latent-ts]").check()
        page.select_option("[name=horizon]", "100000")
        page.select_option("[name=replications]", "500")
        page.click("[data-race=go]")
        expect(page.locator("[data-race=status].error")).to_contain_text("the studio gives 10 s")


def test_files_examples_and_links(browser: Browser, address: str) -> None:
    with opened(browser, address, quiet=False) as page:
        with page.expect_download() as download:
            page.click("#save")
        text = download.value.path().read_text()
        assert download.value.suggested_filename == "two-ads.toml" and "banner = [1, 2, 2]" in text

        page.click("#tab-file")
        expect(page.locator("#text")).to_have_value(re.compile("video"))
        page.fill("#text", text.replace("[1, 2, 2]", '[1, "two", 2]'))
        expect(page.locator("#errors li")).to_have_text('arms.banner[1]: got "two"; expected a finite number')
        page.fill("#text", text.replace("banner", "poster"))
        expect(page.locator("#headline")).to_contain_text("poster is best")

        page.set_input_files(
            "#file", {"name": "mine.toml", "mimeType": "", "buffer": text.replace("banner", "leaflet").encode()}
        )
        expect(page.locator("#headline")).to_contain_text("leaflet is best")
        page.click("#share")
        expect(page.locator("#says")).to_contain_text("link to this problem")
        with opened(browser, address, "/studio" + page.url[page.url.index("#") :]) as other:
            expect(other.locator("#headline")).to_contain_text("leaflet is best")

        page.select_option("#example", "paper-discrete-2")
        expect(page.locator("#headline")).to_contain_text("arm 3 is best")
        expect(page.locator("#limit-number")).to_have_text("4.79 · log T")
        page.select_option("#example", "continuous")
        expect(page.locator("#headline")).to_contain_text("bump is best")
        expect(page.locator("#panel-file")).to_be_visible()

        page.click("#launch")  # no campaigns on this little server
        expect(page.locator("#says.error")).to_contain_text("This server runs no campaigns")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone(browser: Browser, address: str, scheme: str) -> None:
    with opened(browser, address, viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True) as page:
        for example in ("discrete", "paper-discrete-3"):
            page.select_option("#example", example)
            expect(page.locator("#headline")).to_contain_text("is best")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
        red, green, blue = map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3])
        assert (red + green + blue < 200) == (scheme == "dark")


def test_long_names_and_many_arms_stay_inside(browser: Browser, address: str) -> None:
    name = "an arm whose name is very long indeed, " * 2
    arms = {f"{name}{k} <b>": [(k * j) % 5 for j in range(9)] for k in range(9)}
    problem = {"latent": {"kind": "discrete", "values": [f"<i>value {j}</i>" for j in range(9)]}, "arms": arms}
    link = base64.urlsafe_b64encode(json.dumps(problem).encode()).decode().rstrip("=")
    with opened(browser, address, f"/studio#p={link}", viewport={"width": 390, "height": 844}) as page:
        expect(page.locator("#reasons li")).to_have_count(8)
        page.locator("#reasons summary").first.click()
        pull(page, 1, 20)
        expect(page.locator("#reasons details[open]")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("main i:not(.key), main b b").count() == 0


def test_every_chart_draws(browser: Browser, address: str) -> None:
    """The charts that other pages use, in a page of their own."""
    with opened(browser, address) as page:
        drawn = page.evaluate(
            """async () => {
                const charts = await import("/static/charts.js");
                const names = ["new-share", "new-line", "new-interval", "new-legend"];
                document.querySelector("main").append(...names.map((id) => Object.assign(document.createElement("div"), {id})));
                const [share, line, interval, legend] = names.map((id) => document.getElementById(id));
                const x = [1, 10, 100, 1000], two = [{name: "a", y: [1, 2, 3, 4]}, {name: "<b>", y: [4, 3, 2, 1]}];
                const series = two.map((one, k) => ({...one, colour: charts.colourOf(k)}));
                charts.shareChart(share, {title: "shares", x, series, xLabel: "round"});
                const line1 = {...series[0], x, low: [0.5, 1, 2, null], high: [2, 3, 4, null]};
                charts.lineChart(line, {title: "log", series: [line1, {...series[1], x}], xScale: "log", yScale: "log"});
                const rows = [{name: "a", value: 1, low: 0.5, high: 2, colour: charts.colourOf(0)}];
                charts.intervalChart(interval, {title: "means", rows});
                charts.legend(legend, series);
                return names.map((id) => document.getElementById(id).querySelectorAll("path, circle, line").length > 1);
            }"""
        )
        assert drawn == [True] * 4
        page.locator("#new-share svg[tabindex]").focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#new-share .readout")).to_contain_text("<b> 20 %")


def test_by_keyboard_alone(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        assert page.locator(".skip").evaluate("link => link.getBoundingClientRect().top") >= 0
        page.keyboard.press("Enter")
        for _ in range(120):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.dataset.race") == "go":
                break
        expect(page.locator("[data-race=go]")).to_be_focused()
        assert page.locator("[data-race=go]").evaluate("button => getComputedStyle(button).outlineStyle") == "solid"
        page.locator("[name=horizon]").select_option("1000")
        page.keyboard.press("Enter")
        expect(page.locator("[data-race=status]")).to_contain_text("Done in")
