"""Training that resumes from its last checkpoint, and the options that both recipes share."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from jinja2 import Environment, StrictUndefined

from contract import durable

CHECKPOINT = "checkpoint.pt"
#: The file of an exported model with the facts of its training.
FACTS_FILE = "training.json"
_CHECKPOINT_EVERY_S = 300
_LOG_EVERY = 50

Minutes = Annotated[float, typer.Option(help="Total minutes, including earlier runs.")]
Work = Annotated[Path, typer.Option(help="The folder of checkpoints.")]
Machine = Annotated[
    str, typer.Option(help="The machine used for training, for the card.")
]


class Training(ABC):
    """A model, its optimiser and the time they have trained, from the last checkpoint on."""

    #: Measures the seconds spent on training.
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, model: Any, folder: Path, **options: Any) -> None:
        self.model = model
        self.checkpoint = folder / CHECKPOINT
        self.optimizer = torch.optim.AdamW(
            model.parameters(), betas=(0.9, 0.98), **options
        )
        self.step, self.spent_s = 0, 0.0
        if self.checkpoint.exists():
            device = next(model.parameters()).device
            state = torch.load(self.checkpoint, map_location=device, weights_only=True)
            model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step, self.spent_s = state["step"], state["spent_s"]

    @property
    @abstractmethod
    def done(self) -> float:
        """The share of the training that is complete."""

    @abstractmethod
    def measure_loss(self) -> torch.Tensor:
        """Return the loss on the next batch."""

    @abstractmethod
    def find_rate(self) -> float:
        """Return the learning rate of this step."""

    def run(self, say: Callable[[str], None]) -> None:
        """Train from the last checkpoint to the end, with a checkpoint every five minutes."""
        saved_s = self.spent_s
        losses: list[float] = []
        self.model.train()
        while self.done < 1:
            started = self.clock()
            losses.append(self.learn())
            self.spent_s += self.clock() - started
            if self.step % _LOG_EVERY == 0:
                loss = sum(losses) / len(losses)
                losses.clear()
                minutes = self.spent_s / 60
                say(f"{self.done:.0%}, {minutes:.1f} min, step {self.step}, {loss:.4f}")
            if self.spent_s - saved_s > _CHECKPOINT_EVERY_S:
                self.save()
                saved_s = self.spent_s
        self.save()

    def learn(self) -> float:
        """Take one step and return the loss."""
        rate, loss = self.find_rate(), self.measure_loss()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return float(loss.detach())

    def save(self) -> None:
        """Replace the checkpoint."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "spent_s": self.spent_s,
        }
        with durable.create(self.checkpoint) as file:
            torch.save(state, file)


def write_facts(folder: Path, **facts: float) -> None:
    """Write the facts of an exported model's training, and print them."""
    (folder / FACTS_FILE).write_text(json.dumps(facts, indent=2) + "\n")
    typer.echo(f"{folder}: {facts}")


def write_card(template: Path, folder: Path, figures: Mapping[str, Any]) -> None:
    """Write the card of exported models: the template, filled with the figures by name."""
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    environment.filters["as"] = format
    card = environment.from_string(template.read_text("utf-8")).render(figures)
    (folder / "README.md").write_text(card, "utf-8")


def read_facts(folder: Path) -> dict[str, Any]:
    """Return the facts of an exported model's training, and the size of its files."""
    facts: dict[str, Any] = json.loads((folder / FACTS_FILE).read_text())
    size = sum(path.stat().st_size for path in folder.iterdir())
    return {**facts, "megabytes": size / 1e6}
