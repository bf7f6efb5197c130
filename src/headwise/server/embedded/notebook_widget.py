"""The page in a notebook: the same front end and the same responses, over the notebook's own channel instead of HTTP."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headwise.errors import MissingPackage, ModelError
from headwise.models.inputs.token_text import PADDING, PART, joined_text
from headwise.server.app import frontend_folder
from headwise.server.embedded.in_process import InProcessServer, Reply
from headwise.server.serve import new_token
from headwise.server.state.app_state import ServerSettings
from headwise.server.state.run_cache import CachedRun

if TYPE_CHECKING:
    from headwise.models.model import Model
    from headwise.models.run import Run


def model_widget(model: "Model", text: str | None = None) -> Any:
    """The page of a model; see `Model.show`."""
    widget = _widget([model], "model")
    if text is not None:
        _start_with(widget, model.run(text), text)
    return widget


def run_widget(run: "Run") -> Any:
    """The page of a run; see `Run.show`.

    Raises:
        ModelError: the run has no model.
    """
    if run.model is None:
        raise ModelError("This run was loaded without its model, which the page needs. Open the model and run the text again.")
    widget = _widget([run.model], "model")
    _start_with(widget, run, text_of(run))
    return widget


def five_moves_widget() -> Any:
    """The five moves in a notebook: every matrix live, with 1, 2 and 4 heads, and attacks to switch on.

    Raises:
        MissingPackage: anywidget is not installed.
    """
    return _widget([], "moves;h=2")


def text_of(run: "Run") -> str:
    """The text of a run, rebuilt from its tokens: joined as they are where they carry their spaces, else with a space between."""
    tokens = run.tokens[0]
    if any(token.startswith(" ") or PART.search(token) for token in tokens[1:]):
        return joined_text(tokens)
    return " ".join(token for token in tokens if token != PADDING)


def _start_with(widget: Any, run: "Run", text: str) -> None:
    """Let the page start with this run, and with this text first in its list."""
    from headwise.server.payloads.text_run import run_facts

    state = widget.server.state
    (model,) = state.models.by_id
    facts = {"id": "r-first", "model": model, **run_facts(run.model, run, text)}  # pyright: ignore[reportArgumentType]
    cached = CachedRun("r-first", model, text, run, facts, {widget.session})
    state.runs.runs[cached.id] = cached
    state.texts = {"first": {"title": text[:24] + ("…" if len(text) > 24 else ""), "text": text}, **state.texts}


def _widget(models: "Sequence[Model]", address: str) -> Any:
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise MissingPackage("The page in a notebook needs the package anywidget, which is not installed. Run `pip install 'headwise[notebook]'`.") from None

    class Page(anywidget.AnyWidget):
        """headwise in a notebook. Every request of the page arrives as a message, and is answered as by the server."""

        _esm = frontend_folder() / "bundle.js"
        _css = frontend_folder() / "bundle.css"
        address = traitlets.Unicode().tag(sync=True)
        session = traitlets.Unicode().tag(sync=True)

        def __init__(self, **traits: Any) -> None:
            super().__init__(**traits)
            self.server = InProcessServer(ServerSettings(models, new_token()), self._send_event)
            self.session = self.server.session()
            self.on_msg(self._on_request)

        def _on_request(self, _: Any, request: dict[str, Any], buffers: Any) -> None:
            self.server.request_later(request["method"], request["path"], request.get("body"), lambda reply: self._send_reply(request["id"], reply))

        def _send_reply(self, id: int, reply: Reply) -> None:
            self.send({"id": id, "status": reply.status, "type": reply.type}, buffers=[reply.body])

        def _send_event(self, name: str, data: Any) -> None:
            self.send({"event": name, "data": data})

        def close(self) -> None:
            """Remove the page, and free what its server held."""
            if self.server is not None:
                server, self.server = self.server, None
                server.close()
            super().close()

    return Page(address=address)
