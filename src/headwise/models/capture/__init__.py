"""Every attention call of a forward pass, captured through transformers' attention interface or where the model computes it."""
