"""The models in the gateway's own process, without TorchServe."""
