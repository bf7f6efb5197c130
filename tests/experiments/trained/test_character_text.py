import torch

from headwise.experiments.bible_text import whole_text
from headwise.experiments.trained.character_text import character_text


def test_every_twentieth_chapter_is_held_out_and_rare_letters_are_left_out():
    text = "".join(f"chapter {'abcdefghij'[place % 10]}{'ß' if place == 3 else ''}\n" for place in range(400))
    found = character_text(text)
    said = ["".join(found.alphabet[number] for number in part.tolist()) for part in (found.train, found.held)]
    assert "ß" not in found.alphabet
    assert said[1] == "chapter j\n" * 20
    assert len(said[0].splitlines()) == 380 and said[0].startswith("chapter a\nchapter b\n")


def test_batches_are_of_the_training_text_and_windows_of_the_other():
    found = character_text(whole_text())
    assert 60 < len(found.alphabet) < 80 and 3_800_000 < len(found.train) < 4_050_000
    batch = found.batch(3, 40, torch.Generator().manual_seed(0))
    assert batch.shape == (3, 40) and torch.equal(batch, found.batch(3, 40, torch.Generator().manual_seed(0)))
    text = "".join(found.alphabet[number] for number in batch[0].tolist())
    assert text in whole_text()
    windows = found.windows(10, 50)
    assert windows.shape == (10, 50)
    assert torch.equal(windows[0], found.held[:50]) and not torch.equal(windows[0], windows[1])
