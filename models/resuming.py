"""A training that can be stopped: it continues from its last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from contract import durable

CHECKPOINT = "checkpoint.pt"


class Training:
    """A model, its optimiser, and how long they have trained, from the last checkpoint on."""

    def __init__(self, model: Any, folder: Path, *, clock: str, **options: Any) -> None:
        self.model = model
        self.checkpoint = folder / CHECKPOINT
        self.optimizer = torch.optim.AdamW(
            model.parameters(), betas=(0.9, 0.98), **options
        )
        self.step, self.spent_s = 0, 0.0
        #: The time in a checkpoint.
        self._clock = clock
        if self.checkpoint.exists():
            device = next(model.parameters()).device
            state = torch.load(self.checkpoint, map_location=device, weights_only=True)
            model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step, self.spent_s = state["step"], state[clock]

    def learn(self, loss: torch.Tensor, learning_rate: float) -> float:
        """One step; gives the loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return float(loss.detach())

    def save(self) -> None:
        """Replaces the checkpoint."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            self._clock: self.spent_s,
        }
        with durable.create(self.checkpoint) as file:
            torch.save(state, file)
