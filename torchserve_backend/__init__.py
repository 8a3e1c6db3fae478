"""Deploys the map's models to TorchServe."""
