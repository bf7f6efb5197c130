"""Scale, cap, bias, softmax and sink."""
