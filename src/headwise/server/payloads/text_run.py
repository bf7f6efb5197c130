"""Run a text through a model, and describe the run for the page."""

import time
from inspect import signature
from typing import TYPE_CHECKING, Any

from headwise.errors import ArgumentError, WritesRefused
from headwise.models.inputs.encoding import encode
from headwise.models.inputs.token_text import token_texts
from headwise.render.head_view import key_tokens, query_tokens
from headwise.render.measure import head_table, measures
from headwise.server.payloads.model_output import ModelOutput, final_output, output_facts, output_kind
from headwise.server.payloads.weight_maps import top_level
from headwise.server.state.sample_texts import MAX_CHARACTERS

if TYPE_CHECKING:
    import numpy as np

    from headwise.models.model import Model
    from headwise.models.run import Run


LONG = 1024  # tokens; for longer texts only the last token's logits are computed
CHARACTERS_OF_LONG = 1024  # no shorter text has so many tokens
SHORT = 8
MEMORY = "1GiB"  # for a run


def read_text(model: "Model", text: str) -> "tuple[Run, dict[str, Any]]":
    """Run a text through a model: the run, and the facts that describe it.

    Raises:
        ArgumentError: the text is empty or too long.
        ModelError: the model cannot run it.
    """
    start = time.perf_counter()
    run = model.run(_model_input(model, text), memory=MEMORY)
    facts = run_facts(model, run, text)
    facts["milliseconds"] = (time.perf_counter() - start) * 1000
    return run, facts


def run_facts(model: "Model", run: "Run", text: str) -> dict[str, Any]:
    """The description of a run for the page: its parts, tokens, measures and output."""
    output = ModelOutput(output_kind(model.hf), final_output(model.hf, run.outputs, run.forward_pass.inputs)[:1])
    return {
        "text": text,
        "milliseconds": 0.0,
        "notes": list(run.notes),
        "parts": [_part(run, part) for part in run.parts],
        "measures": _measures(run),
        "output": output_facts(run, output, lambda id: token_text(model, id)),
    }


def token_text(model: "Model", id: int) -> str:
    """The text of a token, or the label of a class."""
    if output_kind(model.hf) == "classes":
        return str(model.hf.config.id2label.get(id, id))  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    return token_texts(model.tokenizer, [id])[0]


def grid(run: "Run", part: str) -> "dict[str, np.ndarray]":
    """The mean of every statistic over the tokens, for each head [layers, heads]."""
    return {name: _values(run, part, name) for name, measure in measures().items() if measure.writes is None and name in run.statistics_of(part)}


def writes(run: "Run", part: str) -> "dict[str, np.ndarray]":
    """The mean norm, share and cosine of what each head writes [layers, heads]."""
    return {name: _values(run, part, name) for name, measure in measures().items() if measure.writes is not None}


def per_token(run: "Run", part: str, layer: int, head: int) -> "dict[str, np.ndarray]":
    """Every statistic and write of one head, for each token [queries]."""
    import numpy as np

    found = run.statistics_of(part).sel(layer=layer, head=head).isel(batch=0)
    numbers = {str(name): x.values for name, x in found.data_vars.items() if x.dims == ("query",)}
    try:
        written = run.writes_of(part).sel(layer=layer, head=head).isel(batch=0)
        numbers |= {f"write_{name}": x.values for name, x in written.data_vars.items()}
    except WritesRefused:
        pass  # the facts of the run say that they are refused, and why
    return {name: x.astype(np.int32 if x.dtype.kind == "i" else np.float32) for name, x in numbers.items()}


def _model_input(model: "Model", text: str) -> Any:
    """The text; a long one as tensors with `logits_to_keep=1`, where the model has that option."""
    check_text(text)
    if output_kind(model.hf) != "next_token" or "logits_to_keep" not in signature(model.hf.forward).parameters:
        return text
    if model.tokenizer is None or len(text) < CHARACTERS_OF_LONG:
        return text
    given = encode(model.hf, model.tokenizer, text).kwargs
    if given["input_ids"].shape[1] <= LONG:
        return text
    short = {name: x[:, :SHORT] for name, x in given.items()}
    model.run({**short, "logits_to_keep": 1}, statistics=())  # discover the model's layout for this kind of input on few tokens
    return {**given, "logits_to_keep": 1}


def _part(run: "Run", part: str) -> dict[str, Any]:
    places = [place for place in run.places if place.part == part]
    first = places[0]
    keys = key_tokens(run, part)
    sites = run.forward_pass.layout.sites
    refusals = [
        f"Writes of {place.module} cannot be attributed to heads: {sites[place.index].refusal}." for place in places if sites[place.index].output is None
    ]
    return {
        "name": part,
        "cross": first.cross,
        "layers": len(places),
        "heads": max(place.heads for place in places),
        "heads_of": [place.heads for place in places],
        "key_heads_of": [place.key_heads for place in places],
        "layer_names": [place.module for place in places],
        "queries": first.queries,
        "keys": first.keys,
        "query_tokens": list(query_tokens(run, part)),
        "key_tokens": list(keys) if len(keys) == first.keys else [str(place) for place in range(first.keys)],
        "top_level": top_level(first),
        "writes_refused": refusals[0] if refusals else None,
    }


def _measures(run: "Run") -> list[dict[str, str]]:
    from headwise.attention.statistics import statistics

    formulas = {name: entry.formula for name, entry in statistics().items()}
    return [
        {
            "name": name,
            "statement": measure.statement,
            "formula": formulas.get(name, ""),
            "unit": measure.unit,
            "of": "statistics" if measure.writes is None else "writes",
        }
        for name, measure in measures().items()
    ]


def _values(run: "Run", part: str, name: str) -> "np.ndarray":
    import numpy as np

    return np.array(head_table(run, part, name).values, np.float32)


def check_text(text: str) -> None:
    """Check that a text is short enough.

    Raises:
        ArgumentError: it is too long.
    """
    if len(text) > MAX_CHARACTERS:
        raise ArgumentError(f"text must have at most {MAX_CHARACTERS} characters, got {len(text)}. Shorten it.")
