"""One way to call functions, modules and the attentions of other libraries."""
