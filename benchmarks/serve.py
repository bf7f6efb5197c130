"""The page's server under load, over a real socket: how long a user waits, and what the server takes."""

import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pairs import Report, machine

CAT = "The cat sat on the mat because it was tired."
WORDS = ["the", "keeper", "of", "a", "light", "wrote", "down", "wind", "and", "sea", "every", "night", "for", "ships", "that", "passed", "close", "by", "rocks"]
CLIENTS, EACH = 50, 40
SECONDS = 300

# A decoder of one layer, of random weights, with a tokenizer that splits at spaces.
LONG = """
import sys, torch
from pathlib import Path
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
folder, words = Path(sys.argv[1]), sys.argv[2].split()
torch.manual_seed(0)
sizes = dict(hidden_size=256, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=1, intermediate_size=256, max_position_embeddings=1 << 15)
LlamaForCausalLM(LlamaConfig(vocab_size=len(words) + 1, **sizes)).save_pretrained(folder)
tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate([*dict.fromkeys(words), "[UNK]"])}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
"""


class Client:
    """A tab: one connection, one session."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        self.session = ""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer: bytes, or what JSON says."""
        self.connection.request(method, path, None if body is None else json.dumps(body))
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:200]!r}")
        return json.loads(data) if answer.headers["content-type"].startswith("application/json") else data

    def begin(self) -> None:
        self.session = self.ask("POST", "/api/sessions")["session"]

    def ready(self, model: str) -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = next(one for one in self.ask("GET", "/api/state")["models"] if one["id"] == model)
            if found["state"] == "ready":
                return
            if found["state"] == "failed":
                raise RuntimeError(found["reason"])
            time.sleep(0.01)
        raise TimeoutError(model)

    def read(self, model: str, text: str) -> dict[str, Any]:
        return self.ask("POST", "/api/runs", {"session": self.session, "model": model, "text": text})

    def all_thumbnails(self, model: str, text: str) -> dict[str, Any]:
        """What the page asks for until every head is drawn."""
        told = self.read(model, text)
        self.ask("GET", f"/api/runs/{told['id']}/grid")
        self.ask("GET", f"/api/runs/{told['id']}/thumbnails")
        return told


@contextmanager
def served(*models: str, cache: str | None = None) -> Iterator[tuple[int, int, float]]:
    """`headwise serve`: its port, its process and when it was started.

    Args:
        cache: the folder in which it keeps things; the user's own when absent.
    """
    command = [sys.executable, "-m", "headwise", "serve", *models, "--port", "0", "--no-browser", "--json"]
    start = time.perf_counter()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **({} if cache is None else {"HEADWISE_CACHE": cache})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            told = ""
            while not told.endswith("}\n"):
                line = process.stdout.readline()
                if not line:
                    raise RuntimeError(f"headwise serve must tell its address, got an end with status {process.wait()}. Run it by hand: {' '.join(command)}")
                told += line
            yield int(json.loads(told)["address"].split(":")[2].split("/")[0]), process.pid, start
        finally:
            process.terminate()


def run(quick: bool) -> Report:
    """Goals: first view of MiniLM in 3 s; a new short text in 300 ms, 256 tokens of SmolLM2 in 2 s; a head in 100 ms, a tile in 50 ms.

    50 clients that read tiles at once: no error, p99 in 1 s. 4,096 tokens of SmolLM2 with less than 2.5 GB of server.
    """
    numbers: dict[str, float] = {}
    _first_view(numbers)
    _minilm(numbers)
    if not quick:
        _smollm2(numbers)
        _one_layer(numbers)
    return Report("serve", machine(), [], numbers)


def _first_view(numbers: dict[str, float]) -> None:
    """Two starts with a cache that was empty: what the second shows at once was kept by the first."""
    with tempfile.TemporaryDirectory() as cache:
        for name in ("never seen", "seen at an earlier start"):
            with served("demo:minilm", cache=cache) as (port, _, start):
                tab = Client(port)
                tab.ask("GET", "/")
                numbers[f"page itself after start, MiniLM {name}, s"] = time.perf_counter() - start
                tab.begin()
                tab.ready("minilm")
                first = tab.all_thumbnails("minilm", CAT)
                numbers[f"first view of MiniLM after start, {name}, s"] = time.perf_counter() - start
                tab.ask("GET", f"/api/runs/{first['id']}/proof")
                numbers[f"its proof after start, {name}, s"] = time.perf_counter() - start
                end = time.monotonic() + SECONDS
                while not list(Path(cache).glob("first-views/*.json")) and time.monotonic() < end:
                    time.sleep(0.05)


def _minilm(numbers: dict[str, float]) -> None:
    with served("demo:minilm") as (port, *_):
        tab = Client(port)
        tab.begin()
        tab.ready("minilm")
        first = tab.all_thumbnails("minilm", CAT)
        tab.ask("GET", f"/api/runs/{first['id']}/proof")  # the model is open
        texts = [" ".join(random.Random(n).choices(WORDS, k=10)) for n in range(9)]
        numbers["a new short text of MiniLM to all thumbnails, ms"] = _median(lambda text: tab.all_thumbnails("minilm", text), texts)
        heads = [(layer, head) for layer in range(6) for head in range(12)]
        ask = "/api/runs/{}/{}/{}/{}"
        numbers["another head of MiniLM, ms"] = _median(
            lambda place: [tab.ask("GET", ask.format(first["id"], what, *place)) for what in ("heads", "weights")], heads
        )
        long = tab.read("minilm", " ".join(random.Random(0).choices(WORDS, k=450)))
        tiles = [f"/api/runs/{long['id']}/tiles/{layer}/{head}/9/{column}/{row}" for layer, head in heads for column in (0, 1) for row in (0, 1)]
        numbers["a tile of 452 tokens, ms"] = _median(lambda path: tab.ask("GET", path), tiles)
        _crowd(numbers, port, tiles)


def _crowd(numbers: dict[str, float], port: int, tiles: list[str]) -> None:
    """50 clients read tiles at once, each in an order of its own; then again where no tile is kept ready: a level that nobody has seen."""
    for name, paths in (
        ("seen before", tiles),
        ("new to the server", [path.replace("/9/0/0", "/8/0/0") + "?pool=mean" for path in tiles if path.endswith("/9/0/0")]),
    ):
        took, errors = [], []

        def work(seed: int, paths: list[str] = paths, took: list[float] = took, errors: list[str] = errors) -> None:
            client, order = Client(port), random.Random(seed)
            for path in order.choices(paths, k=EACH):
                start = time.perf_counter()
                try:
                    client.ask("GET", path)
                except (RuntimeError, OSError) as error:
                    errors.append(str(error))
                took.append(time.perf_counter() - start)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took.sort()
        numbers[f"{CLIENTS} clients, tiles {name}: errors"] = len(errors)
        numbers[f"{CLIENTS} clients, tiles {name}: median, ms"] = median(took) * 1000
        numbers[f"{CLIENTS} clients, tiles {name}: p99, ms"] = took[int(len(took) * 0.99)] * 1000


def _smollm2(numbers: dict[str, float]) -> None:
    with served("demo:smollm2") as (port, process, _):
        tab = Client(port)
        tab.begin()
        tab.ready("smollm2")
        tab.all_thumbnails("smollm2", CAT)
        texts = [" ".join(random.Random(n).choices(WORDS, k=255)) for n in range(3)]
        numbers["256 tokens of SmolLM2 to all thumbnails, s"] = _median(lambda text: tab.all_thumbnails("smollm2", text), texts) / 1000
        start = time.perf_counter()
        long = tab.read("smollm2", " ".join(random.Random(9).choices(WORDS, k=4050)))
        tokens = long["parts"][0]["queries"]
        numbers[f"{tokens} tokens of SmolLM2 to every statistic, s"] = time.perf_counter() - start
        tiles = [f"/api/runs/{long['id']}/tiles/{layer}/{layer % 9}/12/{layer % 8}/{8 + layer % 7}" for layer in range(30)]
        numbers[f"a leaf of {tokens} tokens, ms"] = _median(lambda path: tab.ask("GET", path), tiles)
        numbers[f"the overview of a head of {tokens} tokens, ms"] = _median(
            lambda layer: tab.ask("GET", f"/api/runs/{long['id']}/tiles/{layer}/0/8/0/0"), list(range(0, 30, 6))
        )
        numbers[f"thumbnails of one layer of {tokens} tokens, ms"] = _median(
            lambda layer: tab.ask("GET", f"/api/runs/{long['id']}/thumbnails?first={layer}&count=1"), list(range(0, 30, 6))
        )
        numbers[f"peak memory of the server with {tokens} tokens of SmolLM2, GB"] = _peak(process)


def _one_layer(numbers: dict[str, float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", LONG, folder, " ".join(WORDS)], check=True, capture_output=True)
        with served(folder) as (port, process, _):
            tab = Client(port)
            tab.begin()
            name = Path(folder).name
            tab.ready(name)
            start = time.perf_counter()
            long = tab.read(name, " ".join(random.Random(1).choices(WORDS, k=32_768)))
            numbers["32,768 tokens of one layer to every statistic, s"] = time.perf_counter() - start
            leaves = [f"/api/runs/{long['id']}/tiles/0/{n % 4}/15/{3 * n}/{100 + n}" for n in range(20)]
            numbers["a leaf of 32,768 tokens, ms"] = _median(lambda path: tab.ask("GET", path), leaves)
            numbers["the overview of 32,768 tokens, s"] = _median(lambda head: tab.ask("GET", f"/api/runs/{long['id']}/tiles/0/{head}/8/0/0"), [0]) / 1000
            numbers["peak memory of the server with 32,768 tokens of one layer, GB"] = _peak(process)


def _median(ask: Any, given: list[Any]) -> float:
    """Milliseconds."""
    took = []
    for one in given:
        start = time.perf_counter()
        ask(one)
        took.append((time.perf_counter() - start) * 1000)
    return median(took)


def _peak(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1e6


ENTRY = run
