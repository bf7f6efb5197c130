"""Tokens are text, whatever they spell; what goes wrong is told where it went wrong; nothing is asked of another host."""

import json

import pytest

from tests.frontend.conftest import served
from tests.frontend.look import opened

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def unhappy(browser):
    """A page on which something is about to fail: chromium writes each refused request on the console."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()


def test_a_script_as_a_token_is_text(page, tiny):
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    text = f"the {SCRIPT} cat {SCRIPT} ."
    opened(page, tiny, "model/1/1;text=" + text.replace(" ", "+").replace("<", "%3C").replace(">", "%3E").replace("/", "%2F"))
    assert page.locator(".tokens .token", has_text=SCRIPT).count() == 2
    opened(page, tiny, "head/1/1;text=" + text.replace(" ", "+").replace("<", "%3C").replace(">", "%3E").replace("/", "%2F"))
    assert page.locator(".per-token .token", has_text=SCRIPT).count() == 2
    assert page.evaluate("[...document.querySelectorAll('script')].filter(one => one.textContent.includes('alert')).length") == 0
    page.locator(".stat .mark").first.hover()
    assert dialogs == []


def test_a_text_too_long_for_the_model_is_told_in_place(unhappy, tiny):
    opened(unhappy, tiny, "model")
    unhappy.get_by_role("button", name="Edit text").click()
    unhappy.locator("textarea").fill("cat " * 900)
    with unhappy.expect_response(lambda response: response.url.endswith("/api/runs") and response.status == 400):
        unhappy.get_by_role("button", name="Run").click()
    note = unhappy.locator(".note.fails")
    note.wait_for()
    assert "700" in note.inner_text()
    assert unhappy.locator(".gridview").count() == 1


def test_without_the_token_the_page_reads_and_says_how_to_edit(page, tiny):
    bare = tiny.split("?")[0]
    opened(page, bare, "head/1/1")
    assert page.locator("input[type=range]").is_disabled()
    assert "To edit, open the address that the terminal printed." in page.locator(".rail.red").inner_text()


def test_a_model_that_does_not_open_says_why_and_leaves_the_others(unhappy, tmp_path, checkpoints):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with served(str(broken), str(checkpoints["bert"])) as address:
        unhappy.goto(address)
        unhappy.wait_for_selector("[aria-label=model] option:has-text('failed')", state="attached", timeout=60_000)
        unhappy.locator("[aria-label=model]").select_option("broken")
        unhappy.wait_for_selector(".note.fails")
        assert "broken could not be opened" in unhappy.locator(".note.fails").inner_text().replace(str(tmp_path) + "/", "")
        unhappy.locator("[aria-label=model]").select_option("bert")
        unhappy.wait_for_selector(".blue [data-check='model']", timeout=60_000)


def test_a_model_that_opened_before_the_page_listened_is_not_missed(page, tiny):
    """Its event went to nobody: the page asks once more when it has begun to listen."""
    asked = []

    def late(route):
        answer = route.fetch()
        state = answer.json()
        if not asked:
            state["models"] = [{name: one[name] for name in ("id", "name")} | {"state": "loading", "reason": None} for one in state["models"]]
        asked.append(state)
        route.fulfill(response=answer, json=state)

    page.route("**/api/state", late)
    opened(page, tiny, "model/1/1")
    assert {one["state"] for one in asked[0]["models"]} == {"loading"} and len(asked) >= 2


def test_a_server_that_ended_is_told(unhappy, checkpoints):
    with served(str(checkpoints["bert"])) as address:
        opened(unhappy, address, "model")
    unhappy.get_by_role("button", name="Edit text").click()
    unhappy.locator("textarea").fill("the cat")
    unhappy.get_by_role("button", name="Run").click()
    unhappy.wait_for_selector(".note.fails")
    assert "The server does not answer" in unhappy.locator(".note.fails").first.inner_text()


def test_the_policy_forbids_what_is_inline(page, tiny):
    with page.expect_response(lambda response: response.url.split("#")[0].rstrip("/") == tiny.split("?")[0].rstrip("/") and response.status == 200) as told:
        page.goto(tiny)
    policy = told.value.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "style-src 'self'" in policy and "unsafe" not in policy
