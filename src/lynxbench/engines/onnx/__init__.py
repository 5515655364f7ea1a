"""ONNX Runtime: any model file, with the provider and the kernels that ran disclosed."""
