"""A fingerprint changes with anything that could change a result, and with nothing else."""

import functools
import io
import operator
import threading
import types
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import LlamaConfig

from headwise.errors import FingerprintError
from headwise.storage import callable_content, environment, tensor_content
from headwise.storage.fingerprint import BLOCK, differences, fingerprint, fingerprint_file, key_of
from tests.analysis.toys import tokenizer
from tests.models.tiny import build
from tests.storage import user_code

Colour = Enum("Colour", "RED BLUE")
SCALE = 3


@dataclass
class Options:
    rate: float = 0.5
    names: tuple[str, ...] = ("a",)


def tensor(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def adder(amount):
    return lambda x: x + amount


def multiplier(amount):
    return lambda x: x * amount


def with_default(x, by=1):
    return x * by


def of_another_default(x, by=2):
    return x * by


of_another_default.__qualname__ = "with_default"


def quantised(scale=0.1, zero=0, shift=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch will remove this kind of tensor one day
        return torch.quantize_per_tensor(torch.arange(6.0) + shift, scale, zero, torch.qint8)


class Scaled(torch.Tensor):
    """A tensor whose meaning stands in an attribute, as bitsandbytes has them."""


def packed(scale):
    found = torch.arange(4).as_subclass(Scaled)
    found.scale = torch.tensor(scale)
    return found


def hooked(amount, count=1):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    nn.init.ones_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    for number in range(count):
        model[0].register_forward_hook(lambda module, args, result, number=number: result * amount)
    return model


def changed(name, value):
    model = build("llama")
    vars(model.model.layers[1].self_attn)[name] = value
    return model


def config(**settings):
    return LlamaConfig(hidden_size=12, num_attention_heads=3, **settings)


def implementation(name):
    model = build("llama")
    model.config._attn_implementation_internal = name
    return model


x = tensor(3, 5)
DIFFERENT = {
    "a number's type": (1, 1.0),
    "a boolean and a number": (True, 1),
    "a sign of zero": (0.0, -0.0),
    "a list and a tuple": ([1], (1,)),
    "where strings end": (["ab", "c"], ["a", "bc"]),
    "where lists end": ([[1], 2], [[1, 2]]),
    "text and bytes": ("a", b"a"),
    "none and its name": (None, "None"),
    "a key of a dict": ({"a": 1}, {"b": 1}),
    "a value of a dict": ({"a": 1}, {"a": 2}),
    "a set": ({1, 2}, {1, 3}),
    "a range": (range(3), range(4)),
    "a path": (Path("a"), Path("b")),
    "an enum": (Colour.RED, Colour.BLUE),
    "an option": (Options(), Options(rate=0.25)),
    "one number": (x, torch.cat([x.flatten()[:-1], x.flatten()[-1:] + 1e-6]).view(3, 5)),
    "the order of numbers": (x, x.flatten().flip(0).view(3, 5)),
    "shape": (x, x.view(5, 3)),
    "dtype": (torch.zeros(4, dtype=torch.float16), torch.zeros(4, dtype=torch.bfloat16)),
    "a transposed tensor": (torch.arange(4).view(2, 2), torch.arange(4).view(2, 2).t()),
    "codes of a quantised tensor": (quantised(), quantised(shift=1)),
    "scale of a quantised tensor": (quantised(), quantised(scale=0.2)),
    "zero of a quantised tensor": (quantised(zero=0), quantised(zero=1)),
    "an attribute of a packed tensor": (packed(0.5), packed(0.25)),
    "a sparse tensor": (torch.eye(3).to_sparse(), (2 * torch.eye(3)).to_sparse()),
    "sparse and dense": (torch.eye(3).to_sparse(), torch.eye(3)),
    "an array": (np.arange(3), np.arange(3) + 1),
    "an array's dtype": (np.zeros(2, np.int32), np.zeros(2, np.float32)),
    "an array of objects": (np.array(["a", None], object), np.array(["b", None], object)),
    "what a function does": (adder(1), multiplier(1)),
    "a closure": (adder(1), adder(2)),
    "a tensor in a closure": (adder(x), adder(x + 1)),
    "a default": (with_default, of_another_default),
    "an argument of a partial": (functools.partial(adder, 1), functools.partial(adder, 2)),
    "the state of a callable object": (user_code.Metric(1), user_code.Metric(2)),
    "an item that is taken": (operator.itemgetter(1), operator.itemgetter(2)),
    "a library's function": (torch.sin, torch.cos),
    "a method of another object": (user_code.Metric(1).__call__, user_code.Metric(2).__call__),
    "the last weight of a model": (build("llama"), build("llama", 5)),
    "a hook": (hooked(1), hooked(1, count=0)),
    "what a hook closes over": (hooked(1), hooked(2)),
    "an attribute of a module": (changed("scaling", 1.0), changed("scaling", 2.0)),
    "attention implementation": (implementation("eager"), implementation("sdpa")),
    "training": (build("llama"), build("llama").train()),
    "a setting of the configuration": (config(rms_norm_eps=1e-5), config(rms_norm_eps=1e-6)),
    "model dtype": (build("llama"), build("llama").to(torch.bfloat16)),
    "a tokenizer": (tokenizer(False), tokenizer(True)),
    "a tokenizer's side of padding": (tokenizer(False), tokenizer(False)),
}
DIFFERENT["a tokenizer's side of padding"][1].padding_side = "left"


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_changes_a_fingerprint(case):
    one, other = DIFFERENT[case]
    assert fingerprint(one) == fingerprint(one)
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint({"a": [one]}) != fingerprint({"a": [other]})


SAME = {
    "the order of a dict": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "the order of a set": ({"a", "b", "c"}, {"c", "b", "a"}),
    "kinds of dict": ({"a": 1}, OrderedDict(a=1)),
    "keys that are no strings": ({1: "a", (2, 3): "b"}, {(2, 3): "b", 1: "a"}),
    "a not-a-number": (float("nan"), -float("nan")),
    "strides": (torch.arange(6).view(2, 3).t().contiguous(), torch.arange(6).view(2, 3).t()),
    "a slice of a larger tensor": (torch.arange(9)[2:5], torch.arange(2, 5)),
    "an expanded tensor": (torch.ones(1).expand(4), torch.ones(4)),
    "a conjugate that is not computed yet": (torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j])),
    "a shared tensor": ([x, x], [x, x.clone()]),
    "a parameter": (nn.Parameter(x), x),
    "requires_grad": (x.clone().requires_grad_(), x),
    "an array's strides": (np.arange(6).reshape(2, 3).T, np.ascontiguousarray(np.arange(6).reshape(2, 3).T)),
    "the same function made again": (adder(1), adder(1)),
    "the same class made again": (user_code.Metric(1), user_code.Metric(1)),
    "the same model built again": (build("llama"), build("llama")),
    "the same hooks, numbered differently": (hooked(1), hooked(1)),
    "where a configuration came from": (config(), LlamaConfig(hidden_size=12, num_attention_heads=3, name_or_path="elsewhere")),
    "the same tokenizer made again": (tokenizer(False), tokenizer(False)),
}


@pytest.mark.parametrize("case", SAME)
def test_what_does_not_change_a_fingerprint(case):
    one, other = SAME[case]
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.bool, torch.int8, torch.complex64, torch.float8_e4m3fn])
def test_every_dtype_counts_every_number(dtype):
    numbers = torch.zeros(5000).to(dtype)
    other = numbers.clone()
    other.view(torch.uint8)[-1] = 1
    assert fingerprint(numbers) == fingerprint(numbers.clone()) != fingerprint(other)


def test_the_device_counts(monkeypatch):
    before = fingerprint(x)
    monkeypatch.setattr(tensor_content, "_device", lambda tensor: "cuda:0")
    assert fingerprint(x) != before


def test_how_a_tokenizer_padded_last_plays_no_part():
    one = tokenizer(False)
    before = fingerprint(one)
    one(["the cat", "the"], padding=True, truncation=True, max_length=2)
    assert fingerprint(one) == before


def test_a_global_that_a_function_reads_counts(monkeypatch):
    before = fingerprint(user_code.scaled), fingerprint(lambda x: user_code.scaled(x)), fingerprint(lambda x: x * SCALE)
    monkeypatch.setattr(user_code, "FACTOR", 3.0)
    monkeypatch.setitem(globals(), "SCALE", 4)
    after = fingerprint(user_code.scaled), fingerprint(lambda x: user_code.scaled(x)), fingerprint(lambda x: x * SCALE)
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_a_function_that_imports_as_it_runs(monkeypatch):
    def metric(x):
        import torch

        from tests.storage.user_code import FACTOR

        return torch.as_tensor(x) * FACTOR

    before = fingerprint(metric)
    monkeypatch.setattr(user_code, "FACTOR", 3.0)
    assert fingerprint(metric) != before


def test_the_same_source_in_another_place_is_the_same_function():
    source = "def metric(x):\n    return [y * 2 for y in x]\n"
    one, other = {}, {}
    exec(compile(source, "one.py", "exec"), one)
    exec(compile("\n\n\n" + source, "other.py", "exec"), other)
    assert fingerprint(one["metric"]) == fingerprint(other["metric"])
    exec(compile(source.replace("2", "3"), "one.py", "exec"), other)
    assert fingerprint(one["metric"]) != fingerprint(other["metric"])


def test_functions_that_call_each_other():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert fingerprint(even) == fingerprint(even) != fingerprint(odd)


def test_a_library_counts_by_its_version(monkeypatch):
    before = fingerprint(torch.nn.functional.relu), fingerprint(nn.ReLU()), fingerprint(lambda x: np.sin(x))
    monkeypatch.setattr(callable_content, "library", lambda name: f"{name} 999")
    after = fingerprint(torch.nn.functional.relu), fingerprint(nn.ReLU()), fingerprint(lambda x: np.sin(x))
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_our_own_functions_count_by_all_our_code(monkeypatch):
    from headwise.analysis.ablation.exact_ablation import zero_ablation

    before = fingerprint(zero_ablation)
    monkeypatch.setattr(callable_content, "library", lambda name: "another version" if name.startswith("headwise") else None)
    assert fingerprint(zero_ablation) != before


class Stubborn:
    def __reduce__(self):
        raise TypeError("it is stubborn")


def module_of_nobody():
    found = types.ModuleType("module_of_nobody")
    found.f = lambda x: x
    return found


REFUSED = {
    "an open file": (io.BufferedReader(io.FileIO("/dev/null")), r"a _io.BufferedReader has no content that can be read: .* Pass plain data or a function."),
    "a lock": (adder(threading.Lock()), r"a _thread.lock has no content that can be read"),
    "a generator": ((n for n in ()), r"a builtins.generator has no content that can be read"),
    "an object that refuses": (Stubborn(), r"a tests.storage.test_fingerprint.Stubborn has no content that can be read: it is stubborn"),
    "a tensor without numbers": (torch.zeros(2, device="meta"), r"a tensor on the meta device has no data to fingerprint; got one of shape \[2\]"),
    "a module of unknown version": (module_of_nobody(), r"the module 'module_of_nobody' belongs to no installed package, so its version is unknown"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_content_is_refused(case):
    value, message = REFUSED[case]
    with pytest.raises(FingerprintError, match=message):
        fingerprint([value])


def test_containers_that_contain_themselves_or_are_too_deep_are_refused():
    knot = []
    knot.append(knot)
    with pytest.raises(FingerprintError, match="a list contains itself and cannot be fingerprinted"):
        fingerprint(knot)
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(FingerprintError, match="a list is nested too deeply to be fingerprinted"):
        fingerprint(deep)


def test_a_key_names_what_differs_and_what_cannot_be_told():
    one = key_of(texts=["a"], seed=0)
    assert differences(one, key_of(seed=0, texts=["a"])) == []
    assert differences(one, key_of(texts=["b"], seed=0, limit=1)) == ["limit", "texts"]
    with pytest.raises(FingerprintError, match="the content of metric cannot be determined: a _thread.lock has no content that can be read"):
        key_of(metric=threading.Lock())


def test_a_file_counts_by_every_byte(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(2 * BLOCK + 7))
    before = fingerprint_file(path)
    with path.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    assert fingerprint_file(path) != before


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3) | st.tuples(inner),
    max_leaves=6,
)


def exact(value):
    """Equal exactly where two values are the same to the last bit and type."""
    if isinstance(value, list | tuple):
        return type(value), tuple(map(exact, value))
    if isinstance(value, dict):
        return dict, tuple(sorted((name, exact(x)) for name, x in value.items()))
    return type(value), repr(value)


@settings(max_examples=200, deadline=None)
@given(values, values)
def test_two_values_have_one_fingerprint_only_if_they_are_the_same(one, other):
    assert (fingerprint(one) == fingerprint(other)) == (str(exact(one)) == str(exact(other)))


def test_the_environment(monkeypatch):
    found = environment.environment()
    assert len(found["code"]) == 32 and f"torch {torch.__version__}" in found["libraries"]
    monkeypatch.setenv("HEADWISE_CACHE", "elsewhere")
    assert environment.environment() == found
    monkeypatch.setenv("HEADWISE_ISA", "scalar")
    assert differences(environment.environment(), found) == ["variables"]
    threads = environment.arithmetic()
    torch.set_num_threads(torch.get_num_threads() + 1)
    assert differences(environment.arithmetic(), threads) == ["threads"]
    torch.set_num_threads(torch.get_num_threads() - 1)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    assert differences(environment.arithmetic(), threads) == ["arithmetic"]
    torch.set_float32_matmul_precision(precision)
    likely = environment.likely_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    assert environment.likely_threads() != likely


def test_the_code_of_the_package_counts_by_its_content(tmp_path, monkeypatch):
    home = tmp_path / "headwise"
    (home / "storage").mkdir(parents=True)
    (home / "storage" / "environment.py").write_text("a = 1\n")
    (home / "kernel.so").write_bytes(b"1")
    monkeypatch.setattr(environment, "__file__", str(home / "storage" / "environment.py"))
    found = [environment.package_code.__wrapped__()]
    for name, text in (("storage/environment.py", "a = 2\n"), ("kernel.so", "2"), ("new.py", ""), ("names.json", "{}")):
        (home / name).write_text(text)
        found.append(environment.package_code.__wrapped__())
    assert len(set(found)) == 5
    (home / "frontend").mkdir()
    (home / "frontend" / "build.py").write_text("")
    assert environment.package_code.__wrapped__() == found[-1]
