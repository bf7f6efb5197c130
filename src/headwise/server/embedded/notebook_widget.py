"""The page in a notebook: the same modules and the same answers, over the notebook's own channel instead of a server's address."""

from typing import TYPE_CHECKING, Any

from headwise.errors import MissingPackage, ModelError
from headwise.server.app import static
from headwise.server.embedded.in_process import Inside, Reply
from headwise.server.serve import new_token
from headwise.server.state.app_state import Settings
from headwise.server.state.run_cache import Held

if TYPE_CHECKING:
    from headwise.models.model import Model
    from headwise.models.run import Run


def model_widget(model: "Model", text: str | None = None) -> Any:
    """The page of a model; see `Model.show`."""
    widget = _widget([model], "model")
    if text is not None:
        _first(widget, model.run(text), text)
    return widget


def run_widget(run: "Run") -> Any:
    """The page of a run; see `Run.show`.

    Raises:
        ModelError: the run has no model.
    """
    if run.model is None:
        raise ModelError("a run must have its model to be shown, got one without. Make it with model.run(text).")
    widget = _widget([run.model], "model")
    _first(widget, run, words_of(run))
    return widget


def five_moves_widget() -> Any:
    """The five moves in a notebook: every matrix live, with 1, 2 and 4 heads, and attacks to switch on.

    Raises:
        MissingPackage: anywidget is not installed.
    """
    return _widget([], "moves;h=2")


def words_of(run: "Run") -> str:
    """The text of a run, from its tokens: as it was where they carry their spaces, else with a space between."""
    tokens = run.tokens[0]
    return "".join(tokens) if any(token.startswith(" ") for token in tokens[1:]) else " ".join(tokens)


def _first(widget: Any, run: "Run", text: str) -> None:
    """Let the page begin with this run, and this text at the head of its list."""
    from headwise.server.payloads.text_run import facts_of

    desk = widget.server.desk
    (model,) = desk.library.shelf
    held = Held("r-first", model, text, run, {"id": "r-first", "model": model, **facts_of(run.model, run, text)}, {widget.session})  # pyright: ignore[reportArgumentType]
    desk.keep.runs[held.id] = held
    desk.texts = {"first": {"title": text[:24] + ("…" if len(text) > 24 else ""), "text": text}, **desk.texts}


def _widget(models: list[Any], address: str) -> Any:
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise MissingPackage("the page in a notebook needs the package anywidget, which is not installed. Run `pip install 'headwise[notebook]'`.") from None

    class Page(anywidget.AnyWidget):
        """headwise in a notebook. Every question of the page comes as a message, and is answered as the server would."""

        _esm = static() / "bundle.js"
        _css = static() / "bundle.css"
        address = traitlets.Unicode().tag(sync=True)
        session = traitlets.Unicode().tag(sync=True)

        def __init__(self, **traits: Any) -> None:
            super().__init__(**traits)
            self.server = Inside(Settings(models, new_token()), self._tell)
            self.session = self.server.session()
            self.on_msg(self._heard)

        def _heard(self, _: Any, asked: dict[str, Any], buffers: Any) -> None:
            self.server.later(asked["method"], asked["path"], asked.get("body"), lambda reply: self._answer(asked["id"], reply))

        def _answer(self, id: int, reply: Reply) -> None:
            self.send({"id": id, "status": reply.status, "type": reply.type}, buffers=[reply.body])

        def _tell(self, name: str, data: Any) -> None:
            self.send({"event": name, "data": data})

        def close(self) -> None:
            """Take the page away, and free what it held."""
            if self.server is not None:
                server, self.server = self.server, None
                server.close()
            super().close()

    return Page(address=address)
