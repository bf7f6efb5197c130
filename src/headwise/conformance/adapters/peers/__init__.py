"""The attentions of the field, one file each: how it is called, and what its documentation says it means."""
