"""The way of working that Babelgate is measured against, as simple as it was: nginx, a
gateway that forwards a request to the model of its target language, TorchServe with one
model per language, and a handler that tokenises row by row, pads by hand and runs float32
Transformers. Only what keeps it from starting today is changed.
"""
