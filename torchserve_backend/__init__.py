"""The way of models to TorchServe."""
