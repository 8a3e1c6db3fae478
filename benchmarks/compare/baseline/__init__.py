"""The system that Babelgate is measured against, as simple as it was: nginx, a gateway
that forwards a request to the model of its target language, one TorchServe model per
language, and a handler that tokenises row by row, pads by hand and runs float32
Transformers. It has only the changes that it needs to start today.
"""
