"""The attention operators of ONNX Runtime."""
