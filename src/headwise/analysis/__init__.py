"""What heads do, which of them matter, which say the same, and what happens without them.

    hw.roles(model, ...)       which head plays which role, against what a simpler rule would score
    hw.rank(model, texts)      how much the model's loss rests on each head: exact ablation, gradient, or share of the write
    hw.similar(model, texts)   which heads look alike and write alike
    hw.resilience(model, texts)  who carries on when a head is silenced, and how many can go

A role is one file in `roles/`: it asks questions ("where should this token look?"), `evidence` lets every head answer them, and
`casting` chooses a head on one half of the texts and judges it on the other. Importance rests on `forward`: a pass written down
once and run again from a layer's W_O on, for many heads in one batch.
"""
