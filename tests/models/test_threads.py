"""Runs in several threads, on one model and on two, give what each gives alone; a model may be used and trained meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import torch

import headwise as hw
from tests.models.tiny import FAMILIES, build, given


def test_two_models_in_two_threads_at_once():
    names = ("gemma2", "bert", "gemma2", "mistral")
    models = {name: hw.open_model(build(name)) for name in names}
    alone = [models[name].run(given(FAMILIES[name], seed=i)) for i, name in enumerate(names)]
    start = Barrier(len(names))

    def together(i: int):
        start.wait(30)
        return [models[names[i]].run(given(FAMILIES[names[i]], seed=i)) for _ in range(3)]

    with ThreadPoolExecutor(len(names)) as pool:
        found = list(pool.map(together, range(len(names))))
    for runs, right in zip(found, alone, strict=True):
        for run in runs:
            for name, x in right.outputs.items():
                assert torch.equal(run.outputs[name], x)
            assert run.statistics.identical(right.statistics)


def test_the_model_computes_and_trains_in_another_thread_meanwhile():
    """While a pass stands still in the middle, the user's own call goes by the user's own implementation and is not recorded."""
    hf, given_ids = build("llama"), given(FAMILIES["llama"])
    with torch.no_grad():
        right = hf(**given_ids).logits
    reached, go_on = Event(), Event()

    def wait(module, args, output):
        if module not in set(hf.modules()) and not reached.is_set():  # the twin's
            reached.set()
            go_on.wait(30)

    hf.model.layers[1].register_forward_hook(wait)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(hw.open_model(hf).run, given_ids)
        assert reached.wait(60)
        with torch.no_grad():
            assert torch.equal(hf(**given_ids).logits, right)
        loss = hf.train()(**given_ids, labels=given_ids["input_ids"]).loss
        loss.backward()
        hf.eval()
        go_on.set()
        run = running.result(60)
    assert run.statistics.sizes["layer"] == 3
    assert hf.lm_head.weight.grad is not None
