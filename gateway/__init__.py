"""HTTP in, HTTP out: validates requests, asks TorchServe, answers."""
