"""The same numbers from a cluster of two workers, one of which is killed on the way."""

import os
import signal
import sys

import psutil
import pytest
import torch

import headwise as hw
from headwise.errors import ArgumentError, MissingPackage
from tests.models.tiny import build, ids

ray = pytest.importorskip("ray", reason="ray is not installed")
TEXTS = [ids(batch=1, length=9, seed=seed) for seed in range(3)]


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20, _system_config={"prestart_worker_first_driver": False})
    yield "auto"
    ray.shutdown()


def workers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::Hand"):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_two_workers_give_the_same_and_a_killed_one_is_no_loss(cluster):
    model = hw.open_model(build("llama"))
    right, killed, seen = hw.rank(model, TEXTS), [], []

    def kill(done, total):
        seen.append((done, total))
        if done == 2 and not killed:
            killed.append(workers()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    found = hw.rank(model, TEXTS, ray=cluster, tell=kill)
    assert killed
    assert seen[-1] == (9, 9)
    torch.testing.assert_close(torch.from_numpy(found.effect.values), torch.from_numpy(right.effect.values), atol=1e-6, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_what_a_worker_refuses_is_told_as_it_is(cluster):
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[0], TEXTS[1][:, :5])]
    with pytest.raises(ArgumentError, match="clean and corrupt must have as many tokens, got 9 and 5"):
        hw.rank(hw.open_model(build("llama")), pairs, "patch", ray=cluster)


@pytest.mark.usefixtures("plain")
def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackage, match=r"ray must be installed to spread work, got none. Run `pip install 'headwise\[ray\]'`"):
        hw.rank(hw.open_model(build("llama")), TEXTS, ray="auto")
