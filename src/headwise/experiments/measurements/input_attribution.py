"""Which tokens a model's output rests on, and whether weights rank them so.

    hidden[i, j]   how far the output at token i moves when no head may look at token j: leave-one-out, exact
    slope[i, j]    |∂ output_i / ∂ x_j|, x the embedding of token j

How far: Σ p·log(p / p') of the distributions over tokens, where the model gives these; else 1 − cosine of the last hidden states. A token itself is
left out: it reaches its own output without attention.

References: Jain and Wallace 2019, section 4.1: the same of the inputs of one attention layer, by Kendall's τ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headwise.analysis.ablation.activation_cache import detach_parameters, repeat_batch
from headwise.analysis.writes import value_weighted
from headwise.attention.attend import compute
from headwise.attention.weights import weights
from headwise.axes import Float, Int, Output, Tensor
from headwise.errors import ModelError
from headwise.models.capture.attention_request import AttentionRequest, MaskIntersection, MaskSplitter, TensorMask
from headwise.models.capture.forward_pass import explain_errors, output_tensors, restored_rng, run_unmodified
from headwise.models.capture.hf_attention import IMPLEMENTATION, recording, register
from headwise.models.capture.recorder import AttentionRecord
from headwise.models.capture.torch_mha import instrument_mha
from headwise.models.hooks.shallow_clone import shallow_clone
from headwise.models.implementation import implementation_of
from headwise.models.layout import w_o_by_head

if TYPE_CHECKING:
    from headwise.analysis.ablation.eval_text import EvalText

GIVEN = ("logits", "last_hidden_state")  # what a model gives for each token
AT_ONCE = 8  # copies of a text in one batch
ROWS, FEWEST_KEYS = 8, 8  # tokens whose output is asked about, and others that each can rest on


@dataclass(frozen=True, eq=False)
class RankAgreement:
    """Kendall's τ of each head's weights with what the output rests on, mean over the tokens asked about, of one text.

    Attributes:
        by_length: the same of weights times the length of what they carry, |w_ij · v_j · W_O[h]|; None where something comes between z and W_O.
        mean_hidden: of the weights averaged over all heads.
        off: how far any row's weights, all keys together, are from 1.
    """

    hidden: Float[Tensor, "L H"]
    slope: Float[Tensor, "L H"]
    by_length: Float[Tensor, "L H"] | None
    mean_hidden: float
    off: float


def rank_agreement(passage: "EvalText") -> RankAgreement:
    """How well weights rank the tokens that the output of one text rests on.

    Raises:
        ModelError: the model gives no vector for each token that its heads look from; or the text is too short.
    """
    maps, carried, off = _maps(passage)
    ahead = bool((maps.triu(1) > 0).any())
    length = maps.shape[-1]
    rows = torch.linspace(0 if ahead else FEWEST_KEYS, length - 1, ROWS).round().long().unique()
    if length <= FEWEST_KEYS:
        raise ModelError(f"texts must have over {FEWEST_KEYS} tokens for their ranks to be compared, got {length}. Give longer texts.")
    hidden, slope = masking_effects(passage)[rows], gradient_norms(passage, rows)
    taus: dict[str, list[Tensor]] = {"hidden": [], "slope": [], "by_length": [], "mean": []}
    for row, used, steep in zip(rows.tolist(), hidden, slope, strict=True):
        keys = torch.tensor([key for key in range(length) if key != row and (ahead or key < row)])
        own = maps[..., row, keys]
        taus["hidden"].append(kendall(own, used[keys]))
        taus["slope"].append(kendall(own, steep[keys]))
        taus["mean"].append(kendall(own.nanmean((0, 1)), used[keys]))
        if carried is not None:
            taus["by_length"].append(kendall(carried[..., row, keys], used[keys]))
    mean = {name: torch.stack(found).mean(0) for name, found in taus.items() if found}
    return RankAgreement(mean["hidden"], mean["slope"], mean.get("by_length"), float(mean["mean"]), off)


def kendall(one: Float[Tensor, "*a n"], other: Float[Tensor, "*b n"]) -> Float[Tensor, "*c"]:
    """Kendall's τ-b; 0 where one of the two ranks nothing.

    Example:
        >>> kendall(torch.tensor([0.1, 0.2, 0.7]), torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, 1.0, 1.0]])).tolist()
        [1.0, -1.0, 0.0]
    """
    signs = [(x[..., :, None] - x[..., None, :]).sign().double() for x in (one, other)]
    same = (signs[0] * signs[1]).sum((-1, -2))
    pairs = [sign.abs().sum((-1, -2)) for sign in signs]
    return same / (pairs[0] * pairs[1]).sqrt().clamp(min=1.0)


def masking_effects(passage: "EvalText") -> Float[Tensor, "T S"]:
    """How far the output at each token moves when one token is hidden from every head of the part.

    Raises:
        ModelError: the model gives no vector for each of these tokens.
    """
    blind = _MaskedForward(passage)
    before = blind.run(None)
    own, foretells = _output(before, blind.length), GIVEN[0] in before
    found = [_apart(own, _output(blind.run(some), blind.length), foretells) for some in torch.arange(blind.length).split(AT_ONCE)]
    return torch.cat(found).t().cpu()


class _MaskedForward:
    """A pass over copies of a text, in each of which one token is hidden from every head of the part."""

    def __init__(self, passage: "EvalText") -> None:
        register()
        self.session, self.batch = passage.forward.session, passage.forward.batch
        self.twin: Any = shallow_clone(self.session.hf, IMPLEMENTATION)
        instrument_mha(self.twin)
        detach_parameters(self.twin)
        self.names = {id(module): name for name, module in self.twin.named_modules()}
        self.seeing = {place.module for place in passage.places}
        self.length = passage.places[0].keys
        self.model_kwargs, self.split_mask = frozenset(self.session.inputs), MaskSplitter()
        self.causal_masks_left_out, self.has_sdpa = False, False
        self.keys: Tensor | None = None

    @torch.no_grad()
    def run(self, keys: Int[Tensor, " n"] | None) -> Mapping[str, Tensor]:
        """The model's output, with token `keys[n]` hidden in copy n; with none hidden for None."""
        self.keys = keys
        given = repeat_batch(dict(self.session.inputs), self.batch, 1 if keys is None else len(keys))
        with restored_rng(self.session.rng_state), recording(self), torch.inference_mode(False):  # pyright: ignore[reportArgumentType]
            return output_tensors(explain_errors(self.session.hf, lambda: self.twin(**given), lambda: run_unmodified(self.session.hf, given)))

    # What the tap asks of a watch.
    def owns(self, module: nn.Module) -> bool:
        return id(module) in self.names

    def attend(self, module: nn.Module, asked: AttentionRequest) -> Output:
        call = asked.call
        if self.keys is not None and self.names[id(module)] in self.seeing:
            seen = torch.ones(len(self.keys), 1, 1, asked.key.shape[2], dtype=torch.bool, device=asked.key.device)
            seen[range(len(self.keys)), :, :, self.keys] = False
            hidden = TensorMask(seen)
            call = replace(call, mask=hidden if call.mask is None else MaskIntersection(hidden, call.mask))
        return compute(asked.query, asked.key, asked.value, call).output


def gradient_norms(passage: "EvalText", rows: Int[Tensor, " n"]) -> Float[Tensor, "n S"]:
    """How steeply the output at some tokens depends on the embedding of each token.

    Of a distribution over tokens: the log-probability of the likeliest; of a hidden state: its length along itself.

    Raises:
        ModelError: the model gives no vector for each of these tokens, or reads them otherwise than through an embedding.
    """
    session = passage.forward.session
    model: Any = shallow_clone(session.hf, implementation_of(session.hf))
    detach_parameters(model)
    embedded: list[Tensor] = []

    def leaf(module: nn.Module, args: Any, result: Tensor) -> Tensor:
        embedded.append(result.detach().requires_grad_())
        return embedded[-1]

    model.get_input_embeddings().register_forward_hook(leaf)
    given = repeat_batch(dict(session.inputs), passage.forward.batch, len(rows))
    with restored_rng(session.rng_state), torch.inference_mode(False), torch.enable_grad():
        outputs = explain_errors(session.hf, lambda: model(**given), lambda: run_unmodified(session.hf, given))
        found = _output({name: x for name, x in outputs.items() if isinstance(x, Tensor)}, passage.places[0].keys)
        chosen = found[range(len(rows)), rows].float()
        score = chosen.log_softmax(-1).amax(-1) if GIVEN[0] in outputs else (chosen * nn.functional.normalize(chosen.detach(), dim=-1)).sum(-1)
        (gradient,) = torch.autograd.grad(score.sum(), embedded[:1])
    return torch.linalg.vector_norm(gradient.float(), dim=-1).cpu()


def _output(outputs: Mapping[str, Tensor], length: int) -> Float[Tensor, "N T x"]:
    """Logits, or else the last hidden state."""
    found = next((outputs[name] for name in GIVEN if name in outputs), None)
    if found is None or found.dim() != 3 or found.shape[1] != length:
        got = "none" if found is None else list(found.shape)
        raise ModelError(f"output must have a vector for each of the {length} tokens that heads look from, got {got}. Choose another part or model.")
    return found


def _apart(own: Float[Tensor, "1 T x"], moved: Float[Tensor, "n T x"], foretells: bool) -> Float[Tensor, "n T"]:
    """How far each token's output is from what it was."""
    if not foretells:
        return (1 - nn.functional.cosine_similarity(moved.double(), own.double(), dim=-1)).clamp(min=0)
    before, after = own.float().log_softmax(-1), moved.float().log_softmax(-1)
    return (before.exp() * (before - after)).sum(-1).clamp(min=0)


def _maps(passage: "EvalText") -> tuple[Float[Tensor, "L H T S"], Float[Tensor, "L H T S"] | None, float]:
    """Every head's weights, the same times the length of what they carry, and how far rows are from adding up to 1; the first batch row."""
    places = {place.index: place for place in passage.places}
    session = passage.forward.session
    maps, carried, off = [], [], 0.0

    def listen_to(heard: AttentionRecord) -> None:
        nonlocal off
        asked, place = heard.request, places[heard.index]
        whole = slice(0, asked.query.shape[2]), slice(0, asked.key.shape[2])
        maps.append(weights(asked.query, asked.key, heard.attended.lse, asked.call, *whole)[0].float().cpu())
        if asked.call.sink is None:
            off = max(off, float((maps[-1].double().sum(-1) - 1).abs().max()))
        output = session.layout.sites[heard.index].output
        if output is not None and output.exact:
            carried.append(value_weighted(heard, w_o_by_head(session.module(output.module), place.heads))[0].float().cpu())

    session.rerun(listen_to, list(places))
    return _stacked(maps), _stacked(carried) if len(carried) == len(maps) else None, off


def _stacked(layers: list[Float[Tensor, "h T S"]]) -> Float[Tensor, "L H T S"]:
    """NaN where a layer lacks heads."""
    most = max(len(layer) for layer in layers)
    return torch.stack([torch.cat([layer, layer.new_full((most - len(layer), *layer.shape[1:]), torch.nan)]) for layer in layers])
