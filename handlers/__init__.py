"""The code that runs inside a TorchServe worker, one handler per task."""
