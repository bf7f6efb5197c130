"""`headwise serve`: it says where the page is, opens it, serves it, and ends when it is told to."""

import http.client
import json
import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from headwise.cli.app import main
from headwise.server.serve import listening_socket


def test_the_page_is_served_and_ends_with_ctrl_c(checkpoint, tmp_path):
    command = [sys.executable, "-m", "headwise", "serve", str(checkpoint), "--port", "0", "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}, cwd=tmp_path
    ) as process:
        try:
            assert process.stdout.readline().startswith("The page of ")
            address = urlsplit(process.stdout.readline().strip())
            assert process.stdout.readline() == "Ctrl+C ends it.\n"
            connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
            connection.request("GET", f"{address.path}?{address.query}")
            answer = connection.getresponse()
            answer.read()
            cookie = answer.headers["set-cookie"].partition(";")[0]
            assert answer.status == 303
            connection.request("GET", "/api/state", headers={"Cookie": cookie})
            told = json.loads(connection.getresponse().read())
            assert told["may_write"] and told["models"][0]["name"] == str(checkpoint)
            connection.request("GET", "/")
            page = connection.getresponse()
            assert page.status == 200 and b"bundle.js" in page.read()
            connection.close()
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("", "", 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--models", "/nowhere"], "models must be a folder, got '/nowhere'"),
        (["--port", "99999"], "Invalid value for '--port'"),
        (["--host", "203.0.113.7"], "Cannot listen at 203.0.113.7"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, words, message):
    assert main(["serve", *words, "--no-browser"]) == 2
    assert message in capsys.readouterr().err


def test_a_port_that_is_taken_is_refused(capsys):
    with listening_socket("127.0.0.1", 0) as taken:
        assert main(["serve", "--port", str(taken.getsockname()[1]), "--no-browser"]) == 2
    assert "Address already in use" in capsys.readouterr().err


def test_the_browser_is_opened_at_the_address_with_its_token(monkeypatch, capsys):
    import threading

    import headwise.server.serve as run

    opened, done = [], threading.Event()
    monkeypatch.setattr("webbrowser.open", lambda address: (opened.append(address), done.set()))
    given = []
    monkeypatch.setattr(run, "serve", lambda settings, listening, ready: (given.append(settings), ready(None)))
    assert main(["serve", "demo:minilm", "--compare", "a", "b", "--host", "0.0.0.0", "--port", "0", "--subject", "my.module:Attention"]) == 0
    assert done.wait(10) and opened[0].startswith("http://127.0.0.1:") and opened[0].endswith(f"/?token={given[0].token}")
    out = capsys.readouterr().out
    assert opened[0] in out.replace("\n", "") and "Others on the network can open it as well" in out
    assert (
        given[0].models == ["demo:minilm", "a", "b"]
        and given[0].compare == ("a", "b")
        and given[0].any_address
        and given[0].subjects == ["my.module:Attention"]
    )
