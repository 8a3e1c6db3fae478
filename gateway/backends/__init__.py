"""The backends of models: TorchServe, a Ray cluster, or this process."""
