"""The driver of all benchmarks. `questions.yaml` has the defaults of each command's options."""

import inspect
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from subprocess import SubprocessError
from typing import Annotated, Any, TypeVar

import psutil
import typer
import yaml
from pydantic import Field, ValidationError
from requests import RequestException
from yaml.constructor import ConstructorError

from benchmarks import report
from benchmarks.report import Findings
from catalog.display import console, make_command
from catalog.sections import Shape
from clients.errors import ClientError
from deploy.stack import ROOT, StackError
from ray_backend.deployment import DashboardError

QUESTIONS = Path(__file__).with_name("questions.yaml")
OPTIONS = Path(__file__).with_name("options.yaml")
#: Errors for which a command shows only the message, without a traceback.
_REFUSALS = (
    StackError, ClientError, DashboardError, RequestException,
    ValueError, SubprocessError,
)  # fmt: skip

Turn = TypeVar("Turn")
Number = TypeVar("Number", int, float)
#: A command's function. Its parameters are the options other than `--out` and `--plot`.
Answer = Callable[..., Findings | None]

Plan = TypeVar("Plan", bound=Shape)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


class _PlanLoader(yaml.SafeLoader):
    """A YAML loader that refuses repeated keys; YAML's own keeps the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        known: list[Any] = []
        for key, _ in node.value:
            if key.value in known:
                problem = f"{key.value} appears twice"
                raise ConstructorError(problem=problem, problem_mark=key.start_mark)
            known.append(key.value)
        return super().construct_mapping(node, deep)


def load_plan(path: Path, kind: type[Plan]) -> Plan:
    """Load a plan of this kind from a file. Raises ValueError with the place of each fault."""
    try:
        return kind.model_validate(yaml.load(path.read_bytes(), _PlanLoader))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ValueError(f"{path}: {error}") from error


def make_app() -> typer.Typer:
    """Return the command line with a command for each question."""
    app = typer.Typer(add_completion=False, no_args_is_help=True)
    listed = yaml.safe_load(QUESTIONS.read_text("utf-8"))
    for name, question in listed["questions"].items():
        register(app, name, resolve_name(question["answer"]), question["defaults"])
    return app


def register(
    app: typer.Typer, name: str, answer: Answer, given: Mapping[str, Any]
) -> None:
    """Add one command to a command line. An option without a default is required."""
    defaults = {"out": f"run/benchmark-{name}.json", **given}
    own = inspect.signature(answer, eval_str=True).parameters
    option = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    files = {"out": option("out", annotation=Path)}
    if "plot" in given:
        files["plot"] = option("plot", annotation=Path | None)
    parameters = []
    for key, one in {**own, **files, **own}.items():  # the function's own `out` wins
        default = defaults.get(key, inspect.Parameter.empty)
        if key in given and one.annotation is Path:
            default = ROOT / default
        parameters.append(one.replace(default=default))

    def command(**options: Any) -> None:
        asked = {key: options[key] for key in own}
        if found := answer(**asked):
            _publish(name, options, asked, found)

    command.__name__, command.__doc__ = name, answer.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    make_command(app, OPTIONS, *_REFUSALS)(name)(command)


def _publish(
    name: str, options: Mapping[str, Any], asked: Mapping[str, Any], found: Findings
) -> None:
    """Show the table, write it as Markdown next to the JSON file, and draw the charts."""
    out = options["out"]
    table = report.to_markdown(found.table)
    for text in (*found.remarks, table):
        console.print(text)
    report.save(out, name, asked, found.results)
    out.with_suffix(".md").write_text(table, "utf-8")
    say(f"written: {out}")
    if options.get("plot"):
        report.draw_charts(found.charts, options["plot"])


def say(doing: str) -> None:
    """Print the current step, after the seconds since the program's start."""
    elapsed_s = time.time() - psutil.Process().create_time()
    console.print(f"{elapsed_s:6.0f} s  {doing}")


def take_turns(
    ways: Mapping[str, Callable[[], Turn]], rounds: int
) -> dict[str, list[Turn]]:
    """Run each way once per round, and return the results by way. Because the ways alternate, a
    temporary slowdown of the machine affects all of them."""
    done: dict[str, list[Turn]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, take_turn in ways.items():
            say(f"round {number + 1} of {rounds}: {name}")
            done[name].append(take_turn())
    return done


def compare(
    ways: Mapping[str, Callable[[], Any]],
    rounds: int,
    figures: Sequence[str] = (),
    *,
    is_added: bool = False,
) -> Findings:
    """Let the ways take turns, and compare the first one with the others."""
    turns = take_turns(ways, rounds)
    return report.compare_turns({"": turns}, figures, is_added=is_added)


def read_numbers(text: str, kind: Callable[[str], Number] = int) -> list[Number]:
    """Read `1,64,128` as numbers above 0; an empty text is an empty list. Raises ValueError."""
    numbers = [kind(number) for number in read_words(text)]
    if not all(0 < number < math.inf for number in numbers):
        raise ValueError(f"{text!r}: expected numbers above 0, separated by commas")
    return numbers


def read_words(text: str, known: Iterable[str] = ()) -> list[str]:
    """Read `a,b` as a list; an empty text is an empty list. Raises ValueError for a word that
    is not in `known`, unless that is empty."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if known and (unknown := ", ".join(set(words) - set(known))):
        raise ValueError(f"{unknown}: expected some of {', '.join(known)}")
    return words


def read_range(text: str) -> tuple[int, int] | None:
    """Read `3-200` as two numbers; None if the text is empty. Raises ValueError."""
    if not text:
        return None
    least, dash, most = text.partition("-")
    is_pair = dash and least.isdecimal() and most.isdecimal()
    if not (is_pair and 0 < int(least) <= int(most)):
        raise ValueError(f"{text!r}: expected LEAST-MOST, two numbers of tokens")
    return int(least), int(most)


def read_settings(texts: Iterable[str] | None) -> dict[str, Any]:
    """Read `placement=device` and `max_batch_delay=5`, values in YAML. Raises ValueError."""
    settings = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r}: expected KEY=VALUE")
        try:
            settings[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(f"{text!r}: {error}") from error
    return settings
