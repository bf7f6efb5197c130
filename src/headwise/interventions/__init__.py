"""Edits of attention heads: ablate, scale, change the temperature, tie, prune, mask keys; in the weights or at run time, verified and saved.

edits/          one file an edit: which parameters it changes, what it does at run time, why it may be impossible
head_parameters which attention calls a model has and which parameters belong to each head
edit_plan       where each edit of a list is made; the edited model built from it
edited          the edited model: a Model that also has its edits, a report and `save`
edit_report     verification: the edits did what they claim and nothing else changed
edit_effect     what the edits do to the model's predictions
save            a checkpoint that transformers loads
"""
