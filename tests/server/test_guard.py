"""Who may ask, and what browsers may do with the answers."""

import pytest

from tests.server.conftest import TOKEN, serving
from tests.server.models import TEXT

ADDRESS = {"port": 8017, "hosts": ("127.0.0.1", "localhost", "[::1]")}


@pytest.fixture
def guarded(opened):
    """A server that knows its address."""
    with serving(models=[opened["llama"]], **ADDRESS) as found:
        yield found


@pytest.mark.parametrize("host", ["127.0.0.1:8017", "localhost:8017", "[::1]:8017"])
def test_its_own_names_are_welcome(guarded, host):
    assert guarded.client.get("/api/state", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8017", "127.0.0.1:80", "127.0.0.1", "127.0.0.1.evil.example:8017", "10.0.0.1:8017", ""])
def test_foreign_hosts_are_refused(guarded, host):
    answer = guarded.client.get("/api/state", headers={"Host": host})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "Host") and "Host must be this server's" in answer.text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8017", "http://127.0.0.1:9999", "http://localhost:8017"])
def test_foreign_origins_are_refused(guarded, origin):
    for ask in (guarded.client.get, guarded.client.post):
        answer = ask("/api/sessions", headers={"Host": "127.0.0.1:8017", "Origin": origin})
        assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "Origin") and "Origin must be this server's" in answer.text
    own = {"Host": "127.0.0.1:8017", "Origin": "http://127.0.0.1:8017"}
    assert guarded.client.post("/api/sessions", headers=own).status_code == 201


def test_another_site_s_page_may_not_load_pictures_either(guarded):
    own, foreign = {"Host": "127.0.0.1:8017"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    answer = guarded.client.get("/api/state", headers=own | foreign)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "Origin") and "another site's" in answer.text
    assert guarded.client.get("/api/state", headers=own | foreign | {"Sec-Fetch-Mode": "navigate"}).status_code == 200


def test_on_every_address_a_number_is_welcome_and_a_name_is_not(opened):
    with serving(models=[], any_address=True, **ADDRESS) as page:
        assert page.client.get("/api/state", headers={"Host": "192.168.1.5:8017"}).status_code == 200
        assert page.client.get("/api/state", headers={"Host": "evil.example:8017"}).status_code == 403


def test_what_writes_needs_the_token(page):
    read = page.read()["id"]
    page.client.headers["Content-Type"] = "application/json"
    asks = [
        ("POST", "/api/edits/llama", {"session": page.session, "part": "self", "layer": 0, "head": 0, "scale": 0}),
        ("DELETE", f"/api/edits/llama?session={page.session}", None),
        ("POST", "/api/edits/llama/undo", {"session": page.session}),
        ("POST", "/api/edits/llama/redo", {"session": page.session}),
        ("POST", "/api/edits/llama/save", {"session": page.session, "name": "new"}),
        ("POST", "/api/jobs", {"session": page.session, "kind": "kill_matrix"}),
        ("DELETE", "/api/jobs/j-1", None),
    ]
    for method, path, body in asks:
        for headers in ({}, {"X-Headwise-Token": "wrong"}, {"X-Headwise-Token": "é"}, {"Cookie": f"headwise-0={TOKEN}x"}):
            answer = page.client.request(method, path, json=body, headers={name: word.encode() for name, word in headers.items()})
            assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "Token"), path
            assert "Open the address that the terminal printed" in answer.text
    assert page.get(f"/api/edits/llama?session={page.session}").json()["edits"] == [] and page.state.jobs.jobs == {} and read


def test_the_address_leaves_the_token_as_a_cookie_and_forgets_it(page):
    assert page.get("/api/state").json()["may_write"] is False
    answer = page.client.get(f"/?token={TOKEN}", follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == "/" and TOKEN not in answer.headers["location"]
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "headwise-0=" in cookie
    assert page.get("/api/state").json()["may_write"] is True


@pytest.mark.parametrize("query", ["?token=wrong", "?token=", "?other=1", "?token=%F0%9F"])
def test_a_wrong_token_leaves_nothing(page, query):
    answer = page.client.get(f"/{query}", follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == "/" and "set-cookie" not in answer.headers


def test_every_answer_forbids_inline_code(page):
    for path in ("/api/state", "/api/nothing", "/static/nothing.js", "/?token=wrong"):
        policy = page.client.get(path, follow_redirects=False).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy and "unsafe" not in policy
    headers = page.get("/api/state").headers
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_bodies_have_a_limit(page):
    large = b'{"text": "' + b"x" * (2 << 20) + b'"}'
    answer = page.client.post("/api/runs", content=large)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "TooLarge") and "at most 2097152 bytes, got 2097164" in answer.text
    answer = page.client.post("/api/runs", content=(large[start : start + 65536] for start in range(0, len(large), 65536)))
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "TooLarge") and "at most 2097152 bytes, got more" in answer.text


@pytest.mark.parametrize(
    "path",
    ["../server/app.py", "%2e%2e/server/app.py", "..%2fserver%2fapp.py", "/etc/passwd", "%2fetc%2fpasswd", "package.json/../../server/app.py", "build.mjs", ""],
)
def test_no_file_but_the_page_s(page, path):
    answer = page.get(f"/static/{path}")
    assert answer.status_code == 404 and answer.json()["error"]["kind"] == "NotFound"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"nonsense", "The body must be JSON. Send an object."),
        (b"[" * 100_000, "The body must be JSON. Send an object."),
        (b"[1]", "The body must be a JSON object, got list"),
        (b'{"session": "s"}', "The body must have 'model', got session"),
        (b'{"session": 1, "model": "llama", "text": "the"}', "session must be a string, got int"),
        (b'{"session": "s", "model": "llama", "text": "the", "path": "/etc"}', "The body must have no fields but session, model, text, got 'path'"),
    ],
)
def test_bodies_that_make_no_sense(page, body, message):
    answer = page.client.post("/api/runs", content=body)
    assert answer.status_code == 400 and answer.json()["error"]["message"].startswith(message)


def test_models_are_those_given_and_no_path_leaves_them(page):
    for name in ("../llama", "/etc", "llama/../llama", "demo:minilm", "gpt2"):
        answer = page.post("/api/runs", session=page.session, model=name, text=TEXT)
        assert answer.status_code == 404 and answer.json()["error"]["message"].startswith("model must be one of llama, bert, t5")
