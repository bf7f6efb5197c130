"""A server on tiny models, asked in this process."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.server import models

TOKEN = "the-token-of-the-tests"


@dataclass
class Page:
    """What a tab can do: ask, with or without the token."""

    client: TestClient
    state: Any
    session: str = ""

    def get(self, path: str) -> Any:
        return self.client.get(path)

    def post(self, path: str, token: bool = True, **body: Any) -> Any:
        return self.client.post(path, json=body, headers={"X-Headwise-Token": TOKEN} if token else {})

    def delete(self, path: str, token: bool = True) -> Any:
        return self.client.delete(path, headers={"X-Headwise-Token": TOKEN} if token else {})

    def read(self, model: str = "llama", text: str = models.TEXT) -> dict[str, Any]:
        """A run."""
        answer = self.post("/api/runs", session=self.session, model=model, text=text)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def arrays(self, path: str) -> dict[str, Any]:
        from headwise.server.payloads.tensor_payload import from_safetensors

        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return from_safetensors(answer.content)

    def finished(self, job: str, seconds: float = 60) -> dict[str, Any]:
        """A job's end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.get(f"/api/jobs/{job}").json()
            if found["state"] != "running":
                return found
            time.sleep(0.02)
        raise AssertionError(f"job still running after {seconds} s: {found}")


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: models.write(folder / kind, kind) for kind in models.KINDS}


@pytest.fixture(scope="session")
def opened(checkpoints) -> dict[str, Any]:
    """The models, opened once for all tests."""
    from headwise.models.loading.open_model import open_model

    found = {}
    for kind, folder in checkpoints.items():
        found[kind] = open_model(folder)
        found[kind].name = kind
    return found


@pytest.fixture
def page(opened, tmp_path) -> Iterator[Page]:
    """A server of the three models, and a session."""
    with serving(models=list(opened.values()), save=tmp_path / "saved") as found:
        yield found


class serving:
    """A page on a server with these settings."""

    def __init__(self, **settings: Any) -> None:
        from headwise.server.app import application
        from headwise.server.state.app_state import ServerSettings

        guard, state = application(ServerSettings(token=TOKEN, **settings))
        port = settings.get("port")
        self.client = TestClient(guard, base_url=f"http://127.0.0.1:{port}" if port else "http://127.0.0.1", raise_server_exceptions=False)
        self.page = Page(self.client, state)

    def __enter__(self) -> Page:
        self.client.__enter__()
        self.page.session = self.client.post("/api/sessions").json()["session"]
        return self.page

    def __exit__(self, *error: Any) -> None:
        self.client.__exit__(*error)
