"""Roles: questions that are what they say, verdicts that hold on heads made to play them, and none where there is none."""

import random

import pytest
import torch

import headwise as hw
from headwise.analysis.roles.baselines import offsets, uniform, visible
from headwise.analysis.roles.catalog import roles as known
from headwise.analysis.roles.corpus import AlignedPairs, Corpus
from headwise.analysis.roles.evidence import Asking, Evidence, gather
from headwise.analysis.roles.pronouns import Pronoun
from headwise.analysis.roles.role import Questions, Reading
from headwise.analysis.roles.role_verdict import judge
from headwise.analysis.roles.sentences import Sentence
from headwise.errors import ArgumentError, ArgumentTypeError
from tests.analysis.toys import decoder, encoder
from tests.models.tiny import build

MASS = 0.9


class GivenAttentionModel:
    """A model whose heads look where they are told: head 0 at the first token, head 1 at the previous, head 2 behind the last earlier self, else everywhere."""

    tokenizer = None
    hf = torch.nn.Module()

    def run(self, what, statistics=(), memory=0):
        return what


def maps(ids: torch.Tensor) -> torch.Tensor:
    """[2, 3, T, T]: the weights that these heads give; layer 1 is uniform."""
    length = ids.shape[1]
    everywhere = torch.ones(length, length).tril() / torch.arange(1, length + 1)[:, None]
    found = everywhere.expand(2, 3, length, length).clone()
    row = ids[0].tolist()
    for query in range(length):
        earlier = [j for j in range(query) if row[j] == row[query]]
        for head, key in enumerate((0, max(query - 1, 0), earlier[-1] + 1 if earlier else None)):
            if key is not None:
                found[0, head, query] *= 1 - MASS
                found[0, head, query, key] += MASS
    return found


def asked_of(name: str, model, corpus: Corpus) -> list[list[Questions]]:
    """What a role asks about each of its readings."""
    role = known()[name]
    ask = role.ask(model, corpus)
    return [list(ask(reading)) for reading in role.read(model, corpus)]


@pytest.fixture
def told(monkeypatch):
    """`gather` on a model of known maps."""

    class Run:
        def __init__(self, ids):
            self.ids = ids
            self.places = [type("Place", (), {"part": "self"})()] * 2

    monkeypatch.setattr(
        GivenAttentionModel, "run", lambda self, what, statistics=(), memory=0: Run(what if isinstance(what, torch.Tensor) else what["input_ids"])
    )
    monkeypatch.setattr("headwise.analysis.roles.evidence.layer_weights", lambda run, layer, part: maps(run.ids)[layer][None])
    return GivenAttentionModel()


def evidence(told, name: str, corpus: Corpus, **changes) -> dict[str, Evidence]:
    role = known()[name]
    model = type("M", (), {"tokenizer": None, "hf": build("llama")})()
    asking = Asking(name, role.ask(model, corpus), role.hit)
    return gather(told, role.read(model, corpus), [asking], "self", **changes)[name]


def test_every_role_says_what_it_is_and_where_from():
    assert set(known()) == {
        "alignment",
        "coreference",
        "duplicate_token",
        "first_token",
        "grammar",
        "induction",
        "long_range",
        "position",
        "retrieval",
        "same_meaning",
        "self",
        "separators",
    }
    for role in known().values():
        assert len(role.definition) > 20 and len(role.source) > 10 and len(role.baseline) > 10


@pytest.mark.usefixtures("plain")
def test_a_head_that_continues_repetitions_is_found_and_its_lead_is_right(told):
    (found,) = evidence(told, "induction", Corpus(limit=40)).values()
    verdict = judge(found)
    assert verdict.best == (0, 2)
    assert verdict.found
    assert float(verdict.held.mean) == pytest.approx(MASS, abs=0.02)
    assert float(verdict.held_baseline.mean) < 0.3
    assert float(verdict.held_gain.low) > 0.5


@pytest.mark.usefixtures("plain")
def test_a_fixed_offset_does_not_pass_for_induction(told):
    """With lengths that differ, no offset is right often; the head of the previous token is no induction head."""
    (found,) = evidence(told, "induction", Corpus(limit=40)).values()
    every = {name: float(x.sum() / found.counts.sum()) for name, x in found.guesses.items()}
    assert max(every.values()) < 0.2
    assert float(found.scores[:, 0, 1].sum() / found.counts.sum()) < 0.1


@pytest.mark.usefixtures("plain")
def test_where_no_head_does_it_none_is_the_answer(told):
    (found,) = evidence(told, "duplicate_token", Corpus(limit=40)).values()
    assert not judge(found).found


def test_repeats_differ_in_length_and_repeat():
    from headwise.analysis.roles.catalog._repeats import repeats

    model = type("M", (), {"tokenizer": None, "hf": build("llama")})()
    found = list(repeats(model, Corpus()))
    assert len({int(repeat.second[0] - repeat.first[0]) for repeat in found}) > 15
    for repeat in found:
        assert torch.equal(repeat.given[0, repeat.second], repeat.given[0, repeat.first])


def test_verdicts_choose_on_one_half_and_judge_on_the_other():
    """A head that is best on the chosen half alone falls back on the other: its held score is not the score it was chosen for."""
    generator = torch.Generator().manual_seed(0)
    scores = (torch.rand(60, 20, 10, generator=generator) < 0.5).double()
    found = Evidence("toss", scores, None, {"coin": torch.full((60,), 0.5)}, torch.ones(60))
    verdict = judge(found)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    chosen = scores[order[::2]].mean(0)
    assert float(chosen[verdict.best]) == float(chosen.max()) > 0.7
    assert float(verdict.held.mean) < 0.7
    assert not verdict.found


def test_a_rival_counts_as_a_baseline():
    scores = torch.full((20, 1, 2), 0.6)
    rival = torch.stack([torch.full((20,), 0.6), torch.full((20,), 0.1)], -1)[:, None]
    found = judge(Evidence("like", scores, rival, {"uniform": torch.full((20,), 0.2)}, torch.ones(20)))
    assert found.gain.mean[0].tolist() == pytest.approx([0.0, 0.4])


def test_guesses_are_what_such_heads_would_score():
    query = torch.tensor([1, 2, 3])
    right = torch.zeros(3, 4, dtype=torch.bool)
    right[0, 0] = right[1, 1] = right[2, 0] = right[2, 2] = True
    found = offsets(query, right, range(-3, 4))
    assert {name: x.tolist() for name, x in found.items()} == {"offset -3": [0, 0, 1], "offset -1": [1, 1, 1]}
    assert uniform(right, visible(query, 4, False)).tolist() == pytest.approx([1 / 2, 1 / 3, 2 / 4])
    assert uniform(right, visible(query, 4, True)).tolist() == pytest.approx([1 / 4, 1 / 4, 2 / 4])


SENTENCES = [
    Sentence(
        "the old cat saw the dog .",
        ((0, 3), (4, 7), (8, 11), (12, 15), (16, 19), (20, 23), (24, 25)),
        (2, 2, 3, -1, 5, 3, 3),
        ("det", "amod", "nsubj", "root", "det", "obj", "punct"),
    )
]


@pytest.mark.parametrize("ahead", [False, True])
def test_grammar_asks_in_both_directions_what_can_be_seen(ahead):
    model = encoder()
    (questions,) = asked_of("grammar", model, Corpus(sentences=SENTENCES, ahead=ahead))
    asked = {one.task: one for one in questions}
    assert ("det → head" in asked) == ahead  # the determiner stands before its noun
    assert asked["head → det"].query.tolist() == [2, 5]
    assert asked["head → det"].right.nonzero().tolist() == [[0, 0], [1, 4]]
    assert asked["obj → head"].right.nonzero().tolist() == [[0, 3]]
    assert not any("punct" in task or "root" in task for task in asked)
    assert asked["head → det"].guesses["offset -2"].tolist() == [1, 0]
    row = asked["head → det"].among[0].tolist()
    assert row == [True, True, False, *[ahead] * 4]  # not itself


def test_only_the_relation_that_was_asked_for():
    (questions,) = asked_of("grammar", encoder(), Corpus(sentences=SENTENCES, ahead=True, relations=("obj",)))
    assert [one.task for one in questions] == ["obj → head", "head → obj"]


def test_coreference_leaves_out_what_a_decoder_cannot_see():
    before = Pronoun("the cat saw the dog when it slept", (26, 28), (4, 7), (16, 19))
    behind = Pronoun("when it slept the cat saw the dog", (5, 7), (18, 21), (30, 33))
    assert len(asked_of("coreference", decoder(), Corpus(pronouns=[before, behind]))) == 1
    (first,), (second,) = asked_of("coreference", encoder(), Corpus(pronouns=[before, behind], ahead=True))
    assert first.guesses["nearest mention"].tolist() == [0.0]
    assert second.guesses["nearest mention"].tolist() == [1.0]
    assert first.right.tolist() == [[False, True, False]]


def test_retrieval_asks_for_the_next_piece_of_the_needle():
    model = decoder()
    readings = list(known()["retrieval"].read(model, Corpus(limit=6)))
    assert len(readings) == 6
    for reading, (questions,) in zip(readings, asked_of("retrieval", model, Corpus(limit=6)), strict=True):
        ids = reading.given[0]
        for query, right in zip(questions.query.tolist(), questions.right, strict=True):
            assert ids[int(right.nonzero())] == ids[query + 1]
    (masked,) = known()["retrieval"].read(encoder(), Corpus(limit=1, ahead=True))
    assert (masked.given[0, masked.query] == 4).all()


def test_same_meaning_asks_where_the_same_word_is_in_sight_too():
    model = encoder()
    table = model.hf.get_input_embeddings().weight
    ids = model.tokenizer.convert_tokens_to_ids(["cat", "dog", "house"])
    with torch.no_grad():
        table[ids[1]] = table[ids[0]] * 1.01
    corpus = Corpus(texts=["the cat saw the dog near the cat and house"], ahead=True)
    (reading,) = known()["same_meaning"].read(model, corpus)
    (questions,) = known()["same_meaning"].ask(model, corpus)(reading)
    names = [model.tokenizer.convert_ids_to_tokens(int(i)) for i in reading.ids]
    asked = {names[query]: [names[key] for key in right.nonzero()[:, 0]] for query, right in zip(questions.query, questions.right, strict=True)}
    assert asked["cat"] == ["dog"]
    rivals = questions.rival[[names[query] for query in questions.query].index("cat")]
    assert [names[key] for key in rivals.nonzero()[:, 0]] == ["cat"]


def test_long_range_leaves_the_first_token_out():
    ((near, *_),) = asked_of("long_range", decoder(), Corpus(texts=["the cat saw a dog . " * 15]))
    assert near.task == "beyond 32 tokens"
    assert not near.right[:, 0].any() and not near.among[:, 0].any()
    query, right = int(near.query[5]), near.right[5].nonzero()[:, 0].tolist()
    assert right == list(range(1, query - 32))


@pytest.mark.usefixtures("plain")
def test_a_random_model_plays_no_role():
    model = decoder()
    model = hw.open_model(type(model.hf)(model.hf.config), model.tokenizer)  # as it is initialised, before any training
    found = hw.roles(model, limit=12)
    assert not found.found.any()
    assert set(found.role.values.ravel()) == {"none"}
    assert "grammar" in found.attrs["left_out"]
    assert {"induction: the token behind the earlier one", "position: -1", "self: itself", "first_token: sink"} <= set(found.task.values)


def test_numbers_of_the_dataset_are_those_of_the_weights():
    model = decoder()
    text = ["the old cat saw the dog .", "A red bird was near the river ."] * 4
    found = hw.roles(model, ["first_token", "position"], texts=text)
    run = [model.run(one) for one in text]
    first = torch.cat([torch.from_numpy(one.statistics["first"].values[0])[..., 1:] for one in run], -1).mean(-1)
    torch.testing.assert_close(torch.from_numpy(found.score.sel(task="first_token: sink").values), first.double(), atol=1e-5, rtol=0)
    previous = torch.cat([torch.from_numpy(one.statistics["previous"].values[0])[..., 1:] for one in run], -1).mean(-1)
    torch.testing.assert_close(torch.from_numpy(found.score.sel(task="position: -1").values), previous.double(), atol=1e-5, rtol=0)
    uniform_first = [1 / (query + 1) for one in run for query in range(1, len(one.tokens[0]))]
    low, high = float(found.baseline_low.sel(task="first_token: sink")), float(found.baseline_high.sel(task="first_token: sink"))
    assert low <= sum(uniform_first) / len(uniform_first) <= high


def test_alignment_is_asked_of_attention_across():
    hf = build("t5")
    model = hw.open_model(hf)
    drawn = random.Random(0)
    inputs = [
        AlignedPairs(
            {
                "input_ids": torch.tensor([[drawn.randrange(3, 97) for _ in range(9)]]),
                "decoder_input_ids": torch.tensor([[drawn.randrange(3, 97) for _ in range(7)]]),
            },
            9,
            [([i], [drawn.randrange(9)]) for i in range(7)],
        )
        for _ in range(8)
    ]
    found = hw.roles(model, "alignment", aligned=inputs)
    assert found.attrs["part"] == "decoder.cross"
    hits = 0
    for one in inputs:
        weights = model.run(one.what).weights(1, 2, part="decoder.cross")
        hits += sum(int(weights[query[0]].argmax()) == right[0] for query, right in one.pairs)
    assert float(found.score[0, 1, 2]) == pytest.approx(hits / 56)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"roles": "inducton"}, ArgumentError, "roles must be 'all' or among alignment, .*, got 'inducton'"),
        ({"roles": 3}, ArgumentTypeError, "roles must be 'all' or names, got 3"),
        ({"roles": "induction:nsubj"}, ArgumentError, "roles must name a relation for grammar only, got 'induction:nsubj'"),
        ({"roles": "grammar"}, ArgumentError, "There is too little to judge grammar by: grammar: no sentences were given"),
        ({"roles": "induction", "part": "cross"}, ArgumentError, "part must be one of self in this model, got 'cross'"),
        ({"roles": "induction", "limit": -1}, ArgumentError, "limit must be a whole number from 0, got -1"),
        ({"roles": "induction", "limit": 3}, ArgumentError, "There is too little to judge induction by: .* instances in 3 texts, of 40 in 8"),
    ],
)
def test_what_cannot_be_asked(given, error, said):
    with pytest.raises(error, match=said):
        hw.roles(decoder(), **given)


@pytest.mark.usefixtures("plain")
def test_a_relation_that_no_sentence_has(tmp_path):
    path = tmp_path / "a.conllu"
    words = [("1", "the", "2", "det"), ("2", "cat", "3", "nsubj"), ("3", "saw", "0", "root"), ("4", "it", "3", "obj")]
    one = "".join(f"{number}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n" for number, form, head, relation in words) + "\n"
    path.write_text(one * 45)
    found = hw.roles(decoder(), "grammar:det", conllu=path)
    assert list(found.task.values) == ["grammar: head → det"]
    with pytest.raises(ArgumentError, match="There is too little to judge grammar by: grammar: the texts hold no instance of it"):
        hw.roles(decoder(), "grammar:iobj", conllu=path)
    both = hw.roles(decoder(), ["grammar:iobj", "grammar:det"], conllu=path)
    assert both.task.values.tolist() == found.task.values.tolist() and both.attrs["left_out"]["grammar:iobj"] == "the sentences have no such relation"


@pytest.mark.usefixtures("plain")
def test_a_role_with_too_little_text_is_left_out_and_the_others_are_judged():
    texts = ["the old cat saw the dog .", "A red bird was near the river ."] * 5
    alone = hw.roles(decoder(), "self", texts=texts)
    found = hw.roles(decoder(), ["grammar", "self", "coreference"], texts=texts)
    assert found.task.values.tolist() == alone.task.values.tolist() and found.score.identical(alone.score)
    assert {name.partition(":")[0] for name in found.attrs["left_out"]} == {"grammar", "coreference"}
    assert "not corrected for the number of tasks" in found.attrs["correction"]
    with pytest.raises(ArgumentError, match="got none of them: grammar: no sentences were given; coreference"):
        hw.roles(decoder(), ["grammar", "coreference"], texts=texts)


@pytest.mark.usefixtures("plain")
def test_a_reading_without_questions_is_not_read():
    class Never:
        def run(self, *_, **__):
            raise AssertionError("read")

    none = Questions("x", torch.zeros(0, dtype=torch.int64), torch.zeros(0, 3, dtype=torch.bool), torch.zeros(0, 3, dtype=torch.bool), {})
    assert gather(Never(), [Reading("the cat")], [Asking("x", lambda reading: [none], True)], "self") == {"x": {}}


@pytest.mark.usefixtures("plain")
def test_roles_asked_together_find_what_each_finds_alone_and_read_each_text_once(monkeypatch):
    model = decoder()
    texts = ["the old cat saw the dog .", "A red bird was near the river ."] * 5
    alone = {name: hw.roles(model, name, texts=texts, limit=10) for name in ("first_token", "position", "self", "induction", "duplicate_token")}
    read, plain, told = [], type(model).run, []
    monkeypatch.setattr(type(model), "run", lambda self, what, **how: read.append(what) or plain(self, what, **how))
    together = hw.roles(model, list(alone), texts=texts, limit=10, progress=lambda *said: told.append(said))
    assert len(read) == 1 + 10 + 10  # a look at the model, the texts, the repetitions
    assert [done for _, done, _ in told] == list(range(21)) and {total for *_, total in told} == {20}
    assert {name for name, _, _ in told[1:]} == {"first_token, position, self", "induction, duplicate_token"}
    assert told[0] == (", ".join(alone), 0, 20), "what is to be read is said before it is read"
    for found in alone.values():
        for task in found.task.values:
            for name in ("score", "low", "gain", "held", "baseline", "found", "best_head", "rule", "texts"):
                assert together[name].sel(task=task).identical(found[name].sel(task=task)), (task, name)
