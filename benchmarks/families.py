"""Every model type of transformers, built tiny, opened, and compared with the model as loaded: `docs/families.md`.

Each type runs in a process of its own, forked from one that has imported everything, with a limit of time and memory. What
was found stands in `build/families.jsonl`, one line a type, and a sweep that was stopped goes on from there.
"""

import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.family import VERDICTS, judged
from benchmarks.pairs import Report, machine
from benchmarks.tiny import known

SECONDS = 120  # of a core; a busy machine may take TIMES as long
TIMES = 10
BYTES = 9 << 30
FOUND = Path("build/families.jsonl")
PAGE = Path("docs/families.md")
QUICK = ("bert", "gpt2", "llama", "t5", "whisper")


def run(quick: bool, only: str = "", again: bool = False, found: Path = FOUND) -> Report:
    """Counts by verdict; the page is written, with the types that no sweep has come to yet named as such.

    Args:
        only: names between commas; the whole list when empty.
        again: judge these types again, whatever an earlier sweep found.
    """
    torch.set_num_threads(1)
    names = only.split(",") if only else list(QUICK) if quick else list(known())
    unknown = sorted(set(names) - set(known()))
    if unknown:
        raise SystemExit(f"--only must name model types of transformers, got {', '.join(unknown)}.")
    earlier = {} if again or only else read(found)
    judged(QUICK[0])  # so that every child is forked with all modules imported
    for name in names:
        if name not in earlier:
            result = apart(name)
            _append(found, result)
            print(f"{name}: {result['verdict']}{': ' + result['reason'] if result['reason'] else ''}", flush=True)
    results = read(found)
    if not quick:
        PAGE.write_text(page([_unjudged(name) if name not in results or "missing" in known()[name] else results[name] for name in known()]), encoding="utf-8")
    counts = Counter(results[name]["verdict"] for name in names)
    return Report("families", machine(), [], {verdict: float(counts[verdict]) for verdict in VERDICTS if counts[verdict]})


def apart(name: str, seconds: float = SECONDS) -> dict[str, Any]:
    """`judged`, in a forked process with limits."""
    reader, writer = os.pipe()
    start, child = time.perf_counter(), os.fork()
    if child == 0:
        os.close(reader)
        _child(name, writer, seconds)
    os.close(writer)
    told = _read(reader, start + TIMES * seconds)
    if told is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not told:
        slow = told is None or status in (signal.SIGXCPU, signal.SIGKILL)
        reason = f"took longer than {seconds:.0f} seconds of a core" if slow else f"its process died with status {status}"
        return {"type": name, "verdict": "failed", "reason": reason}
    return json.loads(told)


def _child(name: str, writer: int, seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    spent = round(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (spent, spent))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stdout.fileno())
    os.dup2(silence, sys.stderr.fileno())
    try:
        result = judged(name)
    except BaseException as error:  # noqa: BLE001 - the parent must hear of everything
        result = {"type": name, "verdict": "failed", "reason": f"{type(error).__name__}: {error}"[:300]}
    with os.fdopen(writer, "w") as pipe:
        pipe.write(json.dumps(result))
    os._exit(0)


def _read(reader: int, until: float) -> bytes | None:
    """All that comes through a pipe; None when it takes too long."""
    from select import select

    told = b""
    while select([reader], [], [], max(0.0, until - time.perf_counter()))[0]:
        block = os.read(reader, 1 << 16)
        if not block:
            os.close(reader)
            return told
        told += block
    os.close(reader)
    return None


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The latest result of each type."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {result["type"]: result for result in map(json.loads, lines)}


def _unjudged(name: str) -> dict[str, Any]:
    missing = known()[name].get("missing", "")
    return {"type": name, "verdict": "not built" if missing else "not judged yet", "reason": missing}


def _append(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


def page(results: Iterable[dict[str, Any]]) -> str:
    """The table of `docs/families.md`."""
    rows = sorted(results, key=lambda result: result["type"].lower())
    counts = Counter(row["verdict"] for row in rows)
    import transformers

    lines = [
        "# Model families",
        "",
        f"Every model type of transformers {transformers.__version__}, built tiny with random weights, opened with `hw.open_model` and run once on text,",
        "an image or audio. *Right* means that the run's proof holds (rows, weights, what heads say, statistics and writes judged in float64; outputs those",
        "of the model as it was loaded) and that the weights are those that eager attention returns, where it returns weights.",
        "",
        "Generated by `make families`.",
        "",
        "| verdict | types | |",
        "| --- | --- | --- |",
        *(f"| {verdict} | {counts[verdict]} | {MEANS[verdict]} |" for verdict in VERDICTS if counts[verdict]),
        "",
        *_best_known(rows),
        "",
        "## All types",
        "",
        "| type | class | verdict | calls | reason |",
        "| --- | --- | --- | --- | --- |",
        *(_row(row) for row in rows),
    ]
    return "\n".join(lines) + "\n"


BEST_KNOWN = (
    *("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text", "phi", "phi3", "gpt2", "gpt_neox", "gptj", "gpt_neo"),
    *("opt", "bloom", "falcon", "mpt", "codegen", "olmo2", "deepseek_v3", "gpt_oss", "bert", "roberta", "distilbert", "albert", "electra", "deberta-v2"),
    *("xlm-roberta", "modernbert", "mpnet", "t5", "bart", "whisper", "vit", "clip"),
)


def _best_known(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What the proof of the best known types came to: each residual beside what rounding allows, and how far eager's weights are."""
    by_type = {row["type"]: row for row in rows}
    chosen = [by_type[name] for name in BEST_KNOWN if "proof" in by_type.get(name, {})]
    written = sum(row.get("written") == row["calls"] for row in rows if row["verdict"] == "right")
    lines = [
        "## The best known",
        "",
        "Residuals of the proof, each beside what rounding allows there. What heads write adds up to the output of the module that holds W_O, proved",
        f"for every attention of {written} types in all.",
        "",
        "| type | attentions | with writes | weights | writes | farthest from eager's weights |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in chosen:
        weights, writes = (_residual(row["proof"].get(name)) for name in ("weights", "writes"))
        eager = row.get("eager") or {}
        apart = f"{eager['apart']:.1e}" if eager.get("matched") else "eager gives none"
        lines.append(f"| {row['type']} | {row['calls']} | {row['written']} | {weights} | {writes} | {apart} |")
    return lines


def _residual(found: Sequence[float] | None) -> str:
    return "not judged" if found is None else f"{found[0]:.1e} of {found[1]:.1e}"


MEANS = {
    "right": "weights, statistics and writes",
    "right without writes": "weights and statistics; heads cannot be told apart between attention and W_O, or only in some parts",
    "refused": "opening it ends with this error",
    "not attention": "it computes no softmax attention over tokens",
    "wrong": "numbers differ",
    "failed": "headwise stumbles",
    "not judged yet": "the sweep has not come to it",
    "not built": "no tiny model of it could be made here, so nothing is known",
}


def _row(row: dict[str, Any]) -> str:
    said: Sequence[str] = [row["reason"], *(note for note in row.get("notes", ()) if _worth(note))]
    reason = "; ".join(word for word in said if word).replace("|", "\\|").replace("\n", " ")
    return f"| {row['type']} | {row.get('class', '')} | {row['verdict']} | {row.get('calls', '')} | {reason} |"


def _worth(note: str) -> bool:
    """Notes that say what is missing; not those that every text brings."""
    return "not seen" in note or "no weights" in note or "itself" in note


ENTRY = run
