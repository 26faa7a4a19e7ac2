"""The pages of campaigns: over HTTP, and in a real browser against a real service on SQLite."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from browser import PATIENT, chromium, expect, opened, watched
from headwater.service.answers import ServiceError
from headwater.service.keys import create_key, revoke_key
from headwater.service.reference import reference
from service_tools import ADS, Running, pays, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HTML = {"Accept": "text/html,application/xhtml+xml"}
SLOWEST = 240_000
"""Milliseconds that the first report may take on a busy machine."""
EVIL = "<script>alert(1)</script>"
REFUSED = ("Failed to load resource",)
"""What the browser notes in its console of answers of 400 and more."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(f"sqlite:///{tmp_path_factory.mktemp('pages') / 'pages.db'}") as running:
        yield running


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, str]]]:
    """A service with a key of each role."""
    running = Running(f"sqlite:///{tmp_path_factory.mktemp('locked') / 'locked.db'}")
    with running.store.write() as connection:
        keys = {role: create_key(connection, role, role)[0] for role in ("read", "decide", "admin")}
    with running:
        body = {"name": "ads", "problem": ADS, "policy": "c-ucb"}
        headers = {"Authorization": f"Bearer {keys['admin']}"}
        assert running.http.post("/v1/campaigns", json=body, headers=headers).status_code == 201
        yield running, keys


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


def person(running: Running) -> httpx2.Client:
    """Somebody with a browser: asks for pages, keeps cookies, follows nothing by itself."""
    return httpx2.Client(base_url=running.url, headers=HTML, follow_redirects=False)


# Over HTTP.


def test_a_page_without_a_key_leads_to_the_login(locked: tuple[Running, dict[str, str]]) -> None:
    running, _ = locked
    with person(running) as client:
        for path in ("/", "/campaigns/ads?tab=1", "/studio", "/docs"):
            answer = client.get(path)
            assert answer.status_code == 303
            target = urlsplit(answer.headers["location"])
            assert target.path == "/login" and parse_qs(target.query)["next"] == [path]
        api = client.get("/v1/campaigns")  # for programs, whatever they accept
        assert (api.status_code, api.json()["error"]["code"]) == (401, "unauthorized")
        assert client.get("/", headers={"Accept": "*/*"}).status_code == 401
        assert client.get("/static/style.css").status_code == 200


def test_signing_in_and_out(locked: tuple[Running, dict[str, str]]) -> None:
    running, keys = locked
    with person(running) as client:
        page = client.get("/login?next=/campaigns/ads")
        assert page.status_code == 200 and 'name="next" value="/campaigns/ads"' in page.text
        wrong = client.post("/login", data={"key": keys["admin"][:-1], "next": "/docs"})
        assert wrong.status_code == 401 and "not known here" in wrong.text and "set-cookie" not in wrong.headers
        assert client.post("/login", content="&a=1" * 2000).status_code == 401
        assert "Paste a key first" in client.post("/login", data={"key": " "}).text
        right = client.post("/login", data={"key": keys["admin"], "next": "/campaigns/ads"})
        assert (right.status_code, right.headers["location"]) == (303, "/campaigns/ads")
        cookie = right.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie and "secure" not in cookie
        shown = client.get("/campaigns/ads")
        assert shown.status_code == 200 and "Sign out" in shown.text
        other = client.post("/logout", headers={"Origin": "https://evil.example"})
        assert other.status_code == 403
        left = client.post("/logout")
        assert left.status_code == 303 and left.headers["location"] == "/login"
        assert client.get("/").status_code == 303
        over = client.post("/login", data={"key": keys["read"]}, headers={"X-Forwarded-Proto": "https"})
        assert "; secure" in over.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    "wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example", "\\/evil", "", "javascript:1"]
)
def test_no_open_redirect(locked: tuple[Running, dict[str, str]], wanted: str) -> None:
    running, keys = locked
    with person(running) as client:
        answer = client.post("/login", data={"key": keys["read"], "next": wanted})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        page = client.get("/login", params={"next": wanted})
        assert 'name="next" value="/"' in page.text


def test_a_login_form_of_another_site_is_refused(locked: tuple[Running, dict[str, str]]) -> None:
    running, keys = locked
    with person(running) as client:
        answer = client.post("/login", data={"key": keys["read"]}, headers={"Origin": "https://evil.example"})
        assert answer.status_code == 403 and "set-cookie" not in answer.headers
        large = client.post("/login", content=b"key=" + b"x" * 20_000)
        assert large.status_code == 413 and large.json()["error"]["message"].startswith("the body: got 20,004 bytes")


def test_a_revoked_key_is_out(locked: tuple[Running, dict[str, str]]) -> None:
    running, _ = locked
    with running.store.write() as connection:
        text, key = create_key(connection, "leaver", "read")
    with person(running) as client:
        until(lambda: client.post("/login", data={"key": text}).status_code == 303)
        assert client.get("/").status_code == 200
        with running.store.write() as connection:
            revoke_key(connection, key.id)
        until(lambda: client.get("/").status_code == 303)


def test_without_keys_there_is_nothing_to_sign_in_to(service: Running) -> None:
    with person(service) as client:
        answer = client.get("/login?next=//evil.example")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "Sign out" not in client.get("/").text


def test_errors_are_pages_for_people(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with person(service) as client:
        for path, text in (
            ("/nowhere", "nothing at this address"),
            ("/campaigns/none", "There is no campaign &#34;none&#34;."),
        ):
            answer = client.get(path)
            assert answer.status_code == 404 and answer.headers["content-type"].startswith("text/html") and text in answer.text
            assert client.get(path, headers={"Accept": "application/json"}).json()["error"]["code"] == "not_found"
        assert client.get("/v1/campaigns/none").json()["error"]["code"] == "not_found"
        assert EVIL not in client.get(f"/campaigns/{EVIL}").text
        for error, status, text in (
            (RuntimeError("secret"), 500, "log says what"),
            (ServiceError(503, "the database sleeps", headers={"Retry-After": "1"}), 503, "The database sleeps."),
        ):

            def fails(_: Any, error: Exception = error) -> None:
                raise error

            with monkeypatch.context() as patch:
                patch.setattr("headwater.service.dashboard.leader", fails)
                service.campaign(id=f"fails-{status}")
                answer = client.get("/")
            assert answer.status_code == status and text in answer.text and "secret" not in answer.text
        assert answer.headers["retry-after"] == "1"


def test_pages_have_a_strict_policy(service: Running) -> None:
    with person(service) as client:
        for path in ("/", "/campaigns/new", "/docs", "/nowhere"):
            answer = client.get(path)
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["cache-control"] == "no-store"
            assert not re.search(r"<script(?![^>]*(src=|application/json))|<style|\sstyle=|\son\w+=", answer.text)


def test_docs_have_every_operation(service: Running) -> None:
    with person(service) as client:
        text = client.get("/docs").text
    document = service.get("/v1/openapi.json")
    operations = [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]
    assert len(operations) > 25
    for method, path in operations:
        assert f'data-operation="{method} {path}"' in text
    anchors = re.findall(r'<article class="card operation" id="([^"]+)"', text)
    assert len(set(anchors)) == len(operations)
    assert set(anchors) <= set(re.findall(r'href="#([^"]+)"', text))
    made = {(one.method, one.path): one for group in reference(service.app) for one in group.operations}
    roles = {key: one.role for key, one in made.items()}
    assert roles["POST", "/v1/campaigns"] == roles["POST", "/v1/campaigns/{id}/pause"] == "admin"
    assert roles["POST", "/v1/campaigns/{id}/decisions"] == "decide" and roles["GET", "/v1/campaigns"] == "read"
    assert roles["GET", "/healthz"] is None
    reward = made["POST", "/v1/decisions/{id}/reward"]
    assert reward.curl == "/v1/decisions/two-ads.7/reward -X POST -H 'Content-Type: application/json' -d '{\"value\": 2}'"


def test_the_log_backwards(service: Running) -> None:
    campaign = service.campaign()
    service.decide(campaign, {"count": 7})
    page = service.get(f"/v1/campaigns/{campaign}/decisions?before=1000&limit=5")
    assert [one["id"] for one in page["decisions"]] == [f"{campaign}.{n}" for n in (7, 6, 5, 4, 3)]
    page = service.get(f"/v1/campaigns/{campaign}/decisions?before={page['next']}&limit=5")
    assert [one["id"] for one in page["decisions"]] == [f"{campaign}.{n}" for n in (2, 1)]
    assert page["next"] is None
    assert service.get(f"/v1/campaigns/{campaign}/decisions?before=1")["decisions"] == []


# In a browser.


def played(page: Page, rounds: int, x: int = 1) -> None:
    """Decisions and rewards by the buttons; the visitor is always of the x-th kind."""
    for _ in range(rounds):
        page.click("#decide")
        arm = page.locator("#decision .shows b")
        expect(arm).to_be_visible()
        page.locator("#decision .pay").get_by_text(f"{pays(arm.inner_text(), x):g}", exact=True).click()
        expect(page.locator("#try-says.good")).to_contain_text("Counted")


def fits(page: Page, width: int) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_from_an_empty_list_to_a_campaign_that_learns(browser: Browser, tmp_path: Path) -> None:
    text = (
        'name = "ads"\n[latent]\nkind = "discrete"\nvalues = ["student", "worker", "retiree"]\n'
        "[arms]\nbanner = [1, 2, 2]\nvideo = [1.5, 0, 1.5]\nposter = [0, 1, 3]\n"
    )
    with Running(f"sqlite:///{tmp_path / 'new.db'}") as running, opened(browser, running.url, "/", allowed=REFUSED) as page:
        expect(page.locator("#empty-title")).to_have_text("No campaign yet")
        page.get_by_role("link", name="New campaign").first.click()
        page.wait_for_selector("body[data-ready]")
        expect(page.locator("#create")).to_be_disabled()
        page.fill("#text", text.replace("[1, 2, 2]", '[1, "two", 2]'))
        expect(page.locator("#errors li")).to_have_text('arms.banner[1]: got "two"; expected a finite number')
        page.select_option("#example", "discrete")
        expect(page.locator("#read")).to_have_text("2 arms: banner and video.")
        page.set_input_files("#file", {"name": "ads.toml", "mimeType": "", "buffer": text.encode()})
        expect(page.locator("#read")).to_have_text("3 arms: banner, video and poster.")
        page.fill("[name=name]", EVIL)
        page.select_option("[name=policy]", "c-ucb")
        page.get_by_text("Traffic, deadline and mode").click()
        page.fill("[name=default_reward]", "7")
        page.click("#create")
        expect(page.locator("#refused")).to_contain_text("default_reward: got no reward_deadline")
        page.fill("[name=default_reward]", "")
        page.click("#create")

        page.wait_for_url("**/campaigns/script-alert-1-script", timeout=SLOWEST)
        page.wait_for_selector("body[data-ready]")
        flights: Counter[str] = Counter()
        most: Counter[str] = Counter()

        def begins(request: Any) -> None:
            if request.method == "GET":
                flights[request.url] += 1
                most[request.url] = max(most[request.url], flights[request.url])

        page.on("request", begins)
        page.on("requestfinished", lambda request: flights.subtract([request.url]) if request.method == "GET" else None)
        expect(page.locator("h1")).to_contain_text(EVIL)
        assert page.locator("main script").count() == 0
        expect(page.locator("#best")).to_have_text("Nothing is known yet: any arm may be the best.", timeout=SLOWEST)
        played(page, 8)
        expect(page.locator("[data-count=decisions]")).to_have_text("8")
        expect(page.locator("[data-count=rewards]")).to_have_text("8")
        expect(page.locator("#log tbody tr")).to_have_count(8)
        assert page.locator("#traffic path.area").count() == 3
        video = page.locator("[data-arm=video]")
        expect(video.locator(".badge")).to_have_text(["excluded"])
        expect(video.locator(".sentence-of")).to_contain_text("it could not have averaged more than 1.5")
        expect(page.locator("#best")).to_contain_text("banner is")
        expect(page.locator("#latent circle")).to_have_count(3)
        expect(page.locator("#latent-note")).to_contain_text("95 % confidence, each value by itself, at this moment")
        assert max(most.values()) == 1  # requests never pile up


def test_arms_and_status(browser: Browser, service: Running) -> None:
    campaign = service.campaign(id="switch")
    with opened(browser, service.url, f"/campaigns/{campaign}", allowed=REFUSED) as page:
        banner = page.locator("[data-arm=banner]")
        banner.get_by_role("switch").click()
        expect(page.locator("#says")).to_have_text("banner is off.")
        expect(banner.locator(".badge")).to_have_text(["off"])
        assert service.get(f"/v1/campaigns/{campaign}")["arms"]["banner"] is False
        page.locator("[data-arm=video]").get_by_role("switch").press("Space")  # by keyboard
        expect(page.locator("#says")).to_have_text("video is off.")
        page.locator("[data-arm=poster]").get_by_role("switch").click()
        expect(page.locator("#says.error")).to_have_text("arms: got none enabled; expected at least one")
        expect(page.locator("[data-arm=poster]").get_by_role("switch")).to_be_checked()
        banner.get_by_role("switch").click()
        expect(banner.locator(".badge").first).to_have_text("competitive")

        page.locator("#pause").press("Enter")
        expect(page.locator("[data-status]")).to_have_text("paused")
        expect(page.locator("#resume")).to_be_focused()
        page.click("#decide")
        expect(page.locator("#try-says.error")).to_have_text("switch: the campaign is paused; resume it first")
        page.click("#resume")
        expect(page.locator("[data-status]")).to_have_text("running")
        service.post(f"/v1/campaigns/{campaign}/pause")  # somebody else
        expect(page.locator("[data-status]")).to_have_text("paused")

        page.click("#archive")
        expect(page.locator("#sure")).to_be_visible()
        page.keyboard.press("Escape")
        assert service.get(f"/v1/campaigns/{campaign}")["status"] == "paused"
        page.click("#archive")
        page.click("#archive-yes")
        expect(page.locator("[data-status]")).to_have_text("archived")
        expect(page.locator("#events li").first).to_contain_text("Archived.")
        expect(page.locator("#archive")).to_be_hidden()
        page.goto(f"{service.url}/")
        page.get_by_text("Archived (").click()
        expect(page.get_by_role("region", name="Archived campaigns")).to_contain_text("ads")


def test_settings_shadow_and_refusals(browser: Browser, service: Running) -> None:
    campaign = service.campaign(id="settings")
    with opened(browser, service.url, f"/campaigns/{campaign}", allowed=REFUSED) as page:
        page.fill("[name=floor]", "60")
        page.click("#settings [type=submit]")
        expect(page.locator("#settings-wrong")).to_contain_text("floor × 3 arms + control + holdout: got 1.8")
        page.fill("[name=floor]", "5")
        page.fill("[name=holdout]", "2.5")
        page.select_option("[name=control_arm]", "video")
        page.fill("[name=control_share]", "10")
        page.fill("[name=deadline]", "2")
        page.select_option("[name=mode]", "shadow")
        page.click("#settings [type=submit]")
        expect(page.locator("#settings-says")).to_contain_text("Saved")
        view = service.get(f"/v1/campaigns/{campaign}")
        assert (view["floor"], view["holdout"], view["reward_deadline"], view["mode"]) == (0.05, 0.025, 7200, "shadow")
        assert view["control"] == {"arm": "video", "share": 0.1}
        page.select_option("#shown", "poster")
        page.click("#decide")
        expect(page.locator("#decision .shows")).to_have_text("Show poster")
        page.locator("#decision .pay").last.click()
        expect(page.locator("#log tbody tr")).to_contain_text("Shown by you")
        service.reward(f"{campaign}.1", 0, 409)
        expect(page.locator("[data-count=refused]")).to_have_text("1")
        expect(page.locator("#refusals")).to_contain_text("was counted already")


def test_rewards_that_are_no_short_list(browser: Browser, service: Running) -> None:
    problem = {"latent": {"kind": "continuous", "support": [0, 1]}, "arms": {"up": "x", "down": "1 - x**2"}}
    campaign = service.campaign(id="smooth", problem=problem)
    with opened(browser, service.url, f"/campaigns/{campaign}", allowed=REFUSED) as page:
        page.click("#decide")
        field = page.locator("#decision input")
        expect(field).to_be_focused()
        expect(field).to_have_attribute("placeholder", "0 to 1")
        field.fill("7")
        page.keyboard.press("Enter")
        expect(page.locator("#try-says.error")).to_contain_text("can pay 0 to 1")
        field.fill("0.25")
        page.keyboard.press("Enter")
        expect(page.locator("#try-says.good")).to_have_text("Counted: up paid 0.25.")
        expect(page.locator("#latent-words")).to_contain_text("The mix of X is not shown", timeout=SLOWEST)


def test_many_decisions_and_the_older_ones(browser: Browser, service: Running) -> None:
    campaign = service.campaign(id="many")
    service.decide(campaign, {"count": 50})
    service.reward("many.1", 77, 422)
    with opened(browser, service.url, f"/campaigns/{campaign}") as page:
        expect(page.locator("#log tbody tr")).to_have_count(20)
        service.decide(campaign)
        expect(page.locator("#log tbody th").first).to_have_text("many.51")
        expect(page.locator("#log tbody tr")).to_have_count(20)
        alarm = page.locator("#alarms li.notice")
        expect(alarm).to_contain_text("1 reward was refused: not what the arm can pay.", timeout=SLOWEST)
        page.click("#more")
        expect(page.locator("#log tbody tr")).to_have_count(40)
        page.click("#more")
        expect(page.locator("#log tbody tr")).to_have_count(51)
        expect(page.locator("#more")).to_be_hidden()
        with page.expect_download() as download:
            page.get_by_role("link", name="CSV").click()
        assert len(download.value.path().read_text().splitlines()) == 52


def test_offline_and_back(browser: Browser, service: Running) -> None:
    campaign = service.campaign(id="offline")
    with opened(browser, service.url, f"/campaigns/{campaign}", allowed=REFUSED) as page:
        page.context.set_offline(True)
        expect(page.locator("#link")).to_have_text("Offline, trying again …")
        service.decide(campaign)
        page.context.set_offline(False)
        expect(page.locator("#link")).to_have_text("")
        expect(page.locator("[data-count=decisions]")).to_have_text("1")


def test_a_key_in_the_browser(browser: Browser, locked: tuple[Running, dict[str, str]]) -> None:
    running, keys = locked
    with opened(browser, running.url, "/campaigns/ads", ready="#key", allowed=REFUSED) as page:
        page.fill("#key", "hw_no_key")
        page.keyboard.press("Enter")
        expect(page.locator("#wrong")).to_have_text("This key is not known here, or is no longer in use.")
        page.fill("#key", keys["read"])
        page.click("#login [type=submit]")
        page.wait_for_url("**/campaigns/ads")
        page.wait_for_selector("body[data-ready]")
        page.click("#decide")
        expect(page.locator("#try-says.error")).to_have_text(
            "this needs a key with the role decide; got one with the role read"
        )
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/login")
        page.goto("about:blank")
        page.goto(f"{running.url}/login#key={keys['admin']}")  # what the server prints for the demo
        page.wait_for_url(f"{running.url}/")
        assert page.evaluate("document.cookie") == ""
        page.go_back()
        assert "hw_" not in page.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone(browser: Browser, service: Running, scheme: Any) -> None:
    name = f"a name that is very long indeed {scheme} " * 4
    arms = {f"{name}{k} {EVIL}": [(k * j) % 5 for j in range(4)] for k in range(14)}
    problem = {"latent": {"kind": "discrete", "values": [f"{name}{j}" for j in range(4)]}, "arms": arms}
    campaign = service.campaign(id=f"long-{scheme}", name=(name * 2)[:200].strip(), problem=problem)
    service.decide(campaign, {"count": 40})
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True)
    page = context.new_page()
    page.set_default_timeout(PATIENT)
    trouble = watched(page, service.url, allowed=REFUSED)
    ready = {
        f"/campaigns/{campaign}": "#log tbody tr",
        "/": "table",
        "/campaigns/new": "#text",
        "/docs": "article",
        "/none": "h1",
    }
    for path, sign in ready.items():
        page.goto(service.url + path)
        page.wait_for_selector(sign)
        if path.startswith("/campaigns/long"):
            page.wait_for_selector("#avoided-words:not(:empty)", timeout=SLOWEST)
            expect(page.locator("#arms > li")).to_have_count(12)
            page.get_by_role("button", name="Show all 14 arms").click()
            expect(page.locator("#arms > li")).to_have_count(14)
        fits(page, 390)
        assert page.locator("main script").count() == 0
    red, green, blue = map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3])
    assert (red + green + blue < 200) == (scheme == "dark")
    context.close()
    assert trouble == []


def test_the_reference_is_found_by_words(browser: Browser, service: Running) -> None:
    with opened(browser, service.url, "/docs", ready="#find") as page:
        page.fill("#find", "pause")
        shown = page.locator("[data-find]:visible")
        expect(shown).to_have_count(1)
        shown.locator("a").click()
        expect(page.locator("#post-v1-campaigns-id-pause")).to_be_in_viewport()
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator("#post-v1-campaigns-id-pause [data-copy]").click()
        expect(page.locator("#post-v1-campaigns-id-pause [data-copy]")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == f"curl {service.url}/v1/campaigns/two-ads/pause -X POST"
