"""Where the models run: TorchServe, a Ray cluster, or this process."""
