"""A real model, opened: every attention that it computes, seen through transformers' own attention interface.

    model = open_model("demo:smollm2")         a directory, a hub id, "demo:minilm", "demo:smollm2", or a torch module
    run   = model.run("The cat sat.")          one pass; also [texts], token ids, or a dict of the model's own inputs
    run   = model.generate("The cat", max_new_tokens=9)      what the model goes on with: the steps with its cache, joined into one run

What a run offers:

    run.parts       dict of xarray.Dataset, in the order of the pass: "self"; or "encoder.self", "decoder.self",
                    "decoder.cross"; or "<tower>.self" where a model has several towers
    run.statistics  the Dataset of the only part
      dims          batch, layer, head, query          ("received" has key for query; "segment" has one dim more, segment)
      variables     one a statistic: entropy, max_weight, peak, participation, distance, first, previous, self, sink ...
      coords        layer_name (layer), key_heads (layer), token (batch, query), padding (batch, query): True where the query is padding
      missing       NaN (peak: -1) on padding queries and on heads that a layer lacks
    run.weights(layer, head, queries=slice, keys=slice, batch=0, part=None)                    Tensor [t, s]
    run.tile(layer, head, level, column, row, pool="max" | "mean", batch=0, part=None)         Tensor [up to 256, up to 256]
    run.writes      Dataset like `statistics`: norm, share, cosine; WritesRefused where heads cannot be separated
    run.writes_of(part), run.statistics_of(part)       the same for one part of several
    run.proof       Proof: .passed, .verdicts; a Verdict has .name, .sentence, .passed (None: could not be judged),
                    .residual, .allowed and .place
    run.tokens      the tokens of the input, one list of strings a batch row
    run.outputs     what the model returned: dict of tensors (logits or last_hidden_state, ...)
    run.notes       sentences that a reader of the numbers should know
    run.save(path), load_run(path)

How data flows: `loading` finds files and loads the model, `inputs` makes tensors of text; `hooks.shallow_clone` gives each pass a model of its own;
`capture.hf_attention` receives every attention call and `masks.mask_description` its mask; `capture.layout_discovery` finds W_O, and attention that
does not pass through the interface; `runs.activation_store` keeps what fits into memory; `run` answers; `verification` judges. `generation` records
every pass of a generation, and `generation.decode_merge` makes one call of each call's rows.
"""
