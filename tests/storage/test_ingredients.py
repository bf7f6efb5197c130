"""Each ingredient of each cache: changed, it is a miss or a refusal; with nothing changed, a hit."""

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import headwise as hw
from headwise.analysis.ablation.work_units import Worker
from headwise.errors import ArgumentError, FingerprintError
from headwise.experiments.annotation_files import annotation_files
from headwise.experiments.card import Card
from headwise.experiments.result_cache import ResultCache, key_of_study
from headwise.experiments.study import Study
from headwise.experiments.trained import more_heads, repeats, two_patterns
from headwise.models.loading import conversion
from headwise.models.model import Model
from headwise.server.state import first_view_cache
from headwise.storage import environment, tensor_content
from headwise.storage.file_stamps import stamps
from headwise.storage.source_files import Origin
from tests.analysis.toys import decoder
from tests.experiments.sample_stories import stories
from tests.models.tiny import build, ids

Change = Callable[[SimpleNamespace, pytest.MonkeyPatch], None]


# ---- what any result of a model depends on ----


def last_weight(world, patch):
    with torch.no_grad():
        list(world.model.hf.parameters())[-1].view(-1)[-1] += 1e-3


def permuted_output_projection(world, patch):
    """The same first numbers, the same sum: what an earlier version took for the same weight."""
    weight = world.model.hf.model.layers[1].self_attn.o_proj.weight
    with torch.no_grad():
        before = float(weight.double().sum())
        weight[-2:] = weight[-2:].flip(0).clone()
        assert float(weight.double().sum()) == pytest.approx(before, abs=1e-12)


def buffer(world, patch):
    with torch.no_grad():
        world.model.hf.model.rotary_emb.inv_freq.view(-1)[-1] *= 1.5


def dtype(world, patch):
    world.model = Model(world.model.hf.to(torch.float64), world.model.tokenizer)


def attention_implementation(world, patch):
    world.model.hf.config._attn_implementation_internal = "eager"


def hook(world, patch):
    world.model.hf.model.layers[0].mlp.register_forward_hook(lambda module, args, result: result * 1.01)


def attribute(world, patch):
    world.model.hf.model.layers[0].self_attn.scaling *= 1.01


def edit_as_the_model_runs(world, patch):
    world.model = world.model.edit([hw.Ablate(1, 2)], mode="run", inputs=ids(batch=1, length=5))


OF_A_MODEL = {
    "a weight's last number": last_weight,
    "a permuted o_proj": permuted_output_projection,
    "a buffer": buffer,
    "dtype": dtype,
    "device": lambda world, patch: patch.setattr(tensor_content, "_device", lambda x: "cuda:0"),
    "attention implementation": attention_implementation,
    "a hook": hook,
    "an attribute of a module": attribute,
    "a setting of the configuration": lambda world, patch: setattr(world.model.hf.config, "rms_norm_eps", 0.1),
    "an edit as the model runs": edit_as_the_model_runs,
    "training mode": lambda world, patch: world.model.hf.train(),
}
OF_THE_PLACE = {
    "our code": lambda world, patch: patch.setattr(environment, "package_code", lambda: "other"),
    "a library": lambda world, patch: patch.setattr(environment, "library_versions", lambda: {"torch": "0"}),
    "python": lambda world, patch: patch.setattr(environment.sys, "version", "4.0"),
    "a setting": lambda world, patch: patch.setenv("HEADWISE_ANYTHING", "1"),
}
OF_ARITHMETIC = {
    "threads": lambda world, patch: patch.setattr(torch, "get_num_threads", lambda: 77),
    "instructions": lambda world, patch: patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "other"),
    "precision": lambda world, patch: patch.setattr(environment, "_precision", lambda: "high"),
}


def setting(name: str, value: object) -> Change:
    return lambda world, patch: world.settings.update({name: value})


# ---- hw.rank(state=...) ----


def difference(first: int, second: int) -> Callable:
    return lambda outputs: outputs["logits"][:, -1, first] - outputs["logits"][:, -1, second]


def of_a_lock(lock: object) -> Callable:
    return lambda outputs: outputs["logits"][:, -1, 3] if lock else None


def inputs(mask: bool = False, labels: bool = False) -> dict[str, torch.Tensor]:
    found = {"input_ids": ids(batch=1, length=7, seed=3), "attention_mask": torch.ones(1, 7, dtype=torch.long)}
    found["attention_mask"][0, 0] = 0 if mask else 1
    return found | ({"labels": ids(batch=1, length=7, seed=4)} if labels else {})


def texts(*given: object) -> Change:
    return lambda world, patch: setattr(world, "texts", list(given))


def ranking(folder: Path, world: SimpleNamespace) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        done, work = [], Worker.work
        patch.setattr(Worker, "work", lambda self, unit: (done.append(unit), work(self, unit))[1])
        hw.rank(world.model, world.texts, **world.settings, state=folder / "state")
    return not done


def of_ranking(**given: object) -> SimpleNamespace:
    return SimpleNamespace(model=hw.open_model(build("llama")), texts=[inputs()], settings=given)


def of_patching() -> SimpleNamespace:
    world = of_ranking(method="patch", metric=difference(3, 5))
    world.texts = [(ids(batch=1, length=5, seed=1), ids(batch=1, length=5, seed=2))]
    return world


RANKING = {
    **OF_A_MODEL,
    **OF_THE_PLACE,
    **OF_ARITHMETIC,
    "tokenizer": lambda world, patch: setattr(world, "model", Model(world.model.hf, decoder().tokenizer)),
    "method": setting("method", "gradient"),
    "loss": setting("loss", "kl"),
    "ablation": setting("ablation", "mean"),
    "seed": setting("seed", 1),
    "part": setting("part", "self"),
    "a token": texts(inputs() | {"input_ids": ids(batch=1, length=7, seed=5)}),
    "a mask": texts(inputs(mask=True)),
    "labels": texts(inputs(labels=True)),
    "another text": texts(inputs(), inputs()),
}
PATCHING = {
    "a metric's closure": setting("metric", difference(3, 6)),
    "a metric's code": setting("metric", lambda outputs: outputs["logits"][:, -1, 3]),
    "no metric": setting("metric", None),
    "a metric whose content cannot be determined": setting("metric", of_a_lock(threading.Lock())),
    "clean and corrupt changed": texts((ids(batch=1, length=5, seed=2), ids(batch=1, length=5, seed=1))),
}


# ---- cards of hw.investigate ----


def of_card() -> SimpleNamespace:
    return SimpleNamespace(model=decoder(), texts=stories(3), settings={"length": 12, "limit": 8, "seed": 0}, gap=None, conllu=None)


def card(folder: Path, world: SimpleNamespace) -> bool:
    annotations = annotation_files(world.conllu, world.gap)
    cache = ResultCache(key_of_study(Study(world.model, world.texts, annotations=annotations, **world.settings)))
    found = cache.read("sink")
    cache.write("sink", Card("kept", "It holds."), 1.0)
    return found is not None


def annotation(name: str, content: str) -> Change:
    def change(world, patch):
        path = world.folder / "annotations"
        path.write_text(content)
        setattr(world, name, path)

    return change


def end_of_a_text(world, patch):
    """Beyond the tokens that are read of each text, but seen by the claims about long texts."""
    world.texts = [f"{text} the cat saw the dog ." for text in world.texts]


CARDS = {
    **OF_A_MODEL,
    **OF_THE_PLACE,
    **OF_ARITHMETIC,
    "tokenizer": lambda world, patch: setattr(world.model.tokenizer, "padding_side", "left"),
    "texts": lambda world, patch: setattr(world, "texts", stories(4)),
    "the end of a text": end_of_a_text,
    "length": setting("length", 13),
    "limit": setting("limit", 9),
    "seed": setting("seed", 1),
    "annotations": annotation("gap", "he"),
    "what annotations are for": annotation("conllu", ""),
}


# ---- the first view of a model ----


def of_view() -> SimpleNamespace:
    return SimpleNamespace()


def view(folder: Path, world: SimpleNamespace) -> bool:
    place = folder / "checkpoint"
    if not place.exists():
        place.mkdir()
        (place / "model.safetensors").write_bytes(b"weights")
        (place / "config.json").write_text("{}")
    if hasattr(world, "change"):
        world.change(place)
    found = first_view_cache.load(str(place))
    view = first_view_cache.FirstView({}, "a text", {}, "self", {}, b"maps")
    first_view_cache.store(str(place), Origin(place, stamps(place)), view)
    return found is not None


def file(change: Callable[[Path], object]) -> Change:
    return lambda world, patch: setattr(world, "change", change)


def same_size_and_date(place: Path) -> None:
    path = place / "model.safetensors"
    state = path.stat()
    path.write_bytes(b"weightZ")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


VIEWS = {
    **OF_THE_PLACE,
    "weights of the same size and date": file(same_size_and_date),
    "another file": file(lambda place: (place / "adapter.json").write_text("{}")),
    "a file that is gone": file(lambda place: (place / "config.json").unlink()),
    "threads": lambda world, patch: patch.setenv("OMP_NUM_THREADS", "77"),
}


# ---- converted models ----


def of_conversion() -> SimpleNamespace:
    return SimpleNamespace(content=b"gguf", tokenizer="{}", name="tiny-float32", module="headwise.models.loading.gguf")


def converting(folder: Path, world: SimpleNamespace) -> bool:
    (folder / "tiny.gguf").write_bytes(world.content)
    (folder / "tokenizer.json").write_text(world.tokenizer)
    os.utime(folder / "tiny.gguf", (1, 1))
    made = []
    source = {"": folder / "tiny.gguf", "tokenizer.json": folder / "tokenizer.json"}
    place = conversion.converted(world.name, source, world.module, lambda part: (made.append(1), (part / "model").write_bytes(world.content)))
    assert (place / "model").read_bytes() == world.content
    return not made


def code(change: Callable[[dict[str, str]], dict[str, str]]) -> Change:
    right = conversion.source_closure
    return lambda world, patch: patch.setattr(conversion, "source_closure", lambda module, within: change(right(module, within)))


CONVERSIONS = {
    "a byte of the file": lambda world, patch: setattr(world, "content", b"ggug"),
    "the tokenizer beside it": lambda world, patch: setattr(world, "tokenizer", "[]"),
    "code of the conversion": code(lambda found: found | {"headwise.models.loading.gguf": found["headwise.models.loading.gguf"] + "\n"}),
    "a library": code(lambda found: found | {"transformers": "0"}),
    "another converter": lambda world, patch: setattr(world, "module", "headwise.models.loading.ctranslate2"),
}


# ---- trainings ----


def sweep(module: object, train: str, small: object) -> tuple[Callable[[], SimpleNamespace], Callable[[Path, SimpleNamespace], bool]]:
    def world() -> SimpleNamespace:
        return SimpleNamespace(settings={}, text="")

    def run(folder: Path, world: SimpleNamespace) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            trained = []

            class Stop(Exception):
                pass

            def one(*_, **__):
                trained.append(1)
                return {"trained": 1}

            for name in {train, "found"} & set(dir(module)):
                patch.setattr(module, name, one)
            if module is more_heads:
                patch.setattr(module, "cost", lambda *_: {})
                module.sweep(folder / "state", replace(small, **world.settings), "abba abba\n" * 40 + world.text)
            else:
                module.sweep(folder / "state", replace(small, **world.settings))
        return not trained

    return world, run


FEW = {"seeds": (0,), "steps": 1}
SWEEPS = {
    "repeats": sweep(repeats, "train", repeats.RepeatsSettings(**FEW)),
    "two_patterns": sweep(two_patterns, "train", two_patterns.TwoPatternsSettings(**FEW)),
    "more_heads": sweep(more_heads, "one", more_heads.MoreHeadsSettings(heads=(1,), **FEW)),
}
TRAININGS = {**OF_THE_PLACE, **OF_ARITHMETIC, "rate": setting("rate", 1e-4), "seeds": setting("seeds", (0, 1)), "steps": setting("steps", 2)}


@dataclass(frozen=True, eq=False)
class Kind:
    """A cache, or something that is resumed.

    Attributes:
        world: what it depends on, as it is at first.
        use: whether what is there is used; what is made instead is stored.
        changes: by ingredient.
    """

    world: Callable[[], SimpleNamespace]
    use: Callable[[Path, SimpleNamespace], bool]
    changes: dict[str, Change]


CACHES = {
    "ranking": Kind(of_ranking, ranking, RANKING),
    "patching": Kind(of_patching, ranking, PATCHING),
    "card": Kind(of_card, card, CARDS),
    "first view": Kind(of_view, view, VIEWS),
    "converted model": Kind(of_conversion, converting, CONVERSIONS),
    **{f"training {name}": Kind(*made, TRAININGS) for name, made in SWEEPS.items()},
}
CASES = [(name, change) for name, kind in CACHES.items() for change in kind.changes]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Each cache after its first use: made when first asked for."""
    known: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in known:
            known[name] = tmp_path_factory.mktemp("filled") / "cache"
            known[name].mkdir()
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("HEADWISE_CACHE", str(known[name]))
                assert not CACHES[name].use(known[name], CACHES[name].world()), "there was nothing yet"
        return known[name]

    return of


@pytest.fixture
def place(filled, tmp_path, monkeypatch):
    """A copy of a filled cache; that of first views is used where it is, as it depends on where files are."""

    def of(name: str) -> Path:
        found = filled(name)
        if name != "first view":
            found = shutil.copytree(found, tmp_path / "cache")
        else:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("HEADWISE_CACHE", str(found))
                shutil.rmtree(found / "checkpoint")
                CACHES[name].use(found, CACHES[name].world())
        monkeypatch.setenv("HEADWISE_CACHE", str(found))
        return found

    return of


@pytest.mark.parametrize("name", CACHES)
def test_with_nothing_changed_what_is_there_is_used(name, place):
    folder, kind = place(name), CACHES[name]
    assert kind.use(folder, kind.world())


@pytest.mark.parametrize(("name", "ingredient"), CASES)
def test_with_one_ingredient_changed_what_is_there_is_not_used(name, ingredient, place, monkeypatch):
    folder, kind = place(name), CACHES[name]
    world = kind.world()
    world.folder = folder
    kind.changes[ingredient](world, monkeypatch)
    try:
        assert not kind.use(folder, world)
    except ArgumentError as error:  # a state file of other work is refused
        assert "belongs to another" in str(error)
    except FingerprintError as error:
        assert "cannot be determined" in str(error)


def test_the_text_of_a_training_counts_and_a_refusal_says_what_differs(place):
    folder, kind = place("training more_heads"), CACHES["training more_heads"]
    world = kind.world()
    world.text = "baab\n"
    with pytest.raises(ArgumentError, match="belongs to another training: text changed"):
        kind.use(folder, world)


@pytest.mark.parametrize(("ingredient", "said"), [("a metric's closure", "metric"), ("clean and corrupt changed", "texts")])
def test_a_ranking_that_is_refused_says_what_differs(ingredient, said, place, monkeypatch):
    folder, kind = place("patching"), CACHES["patching"]
    world = kind.world()
    kind.changes[ingredient](world, monkeypatch)
    with pytest.raises(ArgumentError, match=f"belongs to another ranking: {said} changed since it was written. Choose another file"):
        kind.use(folder, world)
