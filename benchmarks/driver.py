"""The driver of all benchmarks. `questions.yaml` has the options of each command."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from subprocess import SubprocessError
from typing import Annotated, Any, TypeVar, get_type_hints

import psutil
import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console

from benchmarks import report
from benchmarks.report import Findings
from catalog.display import make_hint
from clients.errors import ClientError
from deploy.stack import ROOT, StackError

QUESTIONS = Path(__file__).with_name("questions.yaml")
console = Console(highlight=False)

Turn = TypeVar("Turn")
Number = TypeVar("Number", int, float)
#: Measures something. Its parameters are the command's options, but for `--out` and `--plot`.
Answer = Callable[..., Findings | Iterator[Findings] | None]

Plan = TypeVar("Plan", bound=BaseModel)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


class PlanEntry(BaseModel):
    """A part of a plan: each key is known and of its kind."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PlanError(ValueError):
    """A plan that cannot be followed; the message names the line and what was expected."""


def load_plan(path: Path, kind: type[Plan]) -> Plan:
    """A plan of this kind from a file. Raises PlanError."""
    lines: dict[tuple[str, ...], int] = {}
    try:
        text = path.read_text("utf-8")
        for place, line in _list_lines(yaml.compose(text, Loader=yaml.SafeLoader)):
            # YAML's own reader keeps the last one of a key that is there twice.
            if place in lines:
                raise PlanError(f"{path}:{line}: {place[-1]}: is there twice")
            lines[place] = line
        return check_plan(yaml.safe_load(text), kind, path, lines)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PlanError(f"{path}: {error}") from error


def _list_lines(
    node: yaml.Node | None, place: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], int]]:
    """The place and the line of each value below a node."""
    pairs: Iterable[tuple[Any, yaml.Node, yaml.Node]] = ()
    if isinstance(node, yaml.MappingNode):
        pairs = ((key.value, key, value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        pairs = ((n, value, value) for n, value in enumerate(node.value))
    for name, key, value in pairs:
        inner = (*place, str(name))
        yield inner, key.start_mark.line + 1
        yield from _list_lines(value, inner)


def check_plan(
    content: Any,
    kind: type[Plan],
    name: object,
    lines: Mapping[tuple[str, ...], int] | None = None,
) -> Plan:
    """A plan of this kind from decoded YAML; `lines` are those of its values. Raises PlanError
    with the line of each fault's value, or of its nearest parent that is there."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        faults, known = [], lines or {}
        for one in error.errors():
            place = tuple(map(str, one["loc"]))
            parents = (place[:n] for n in range(len(place), 0, -1))
            line = next((f":{known[p]}" for p in parents if p in known), "")
            said = one["msg"].removeprefix("Value error, ")
            faults.append(f"{name}{line}: {'.'.join(place)}: {said}")
        raise PlanError("\n".join(faults)) from error


def make_app() -> typer.Typer:
    """Return the command line with a command for each question."""
    app = typer.Typer(add_completion=False, no_args_is_help=True)
    listed = yaml.safe_load(QUESTIONS.read_text("utf-8"))
    for name, question in listed["questions"].items():
        answer, given = resolve_name(question["answer"]), question.get("defaults", {})
        register(app, name, answer, given, options=listed["options"])
    return app


def register(
    app: typer.Typer,
    name: str,
    answer: Answer,
    given: Mapping[str, Any],
    *,
    options: Mapping[str, Mapping[str, Any]],
) -> None:
    """Add one command to a command line. An option without a default is required; its
    explanation as `command.option` wins over that as `option`."""
    defaults = {"out": f"run/benchmark-{name}.json", **given}
    kinds = get_type_hints(answer)
    kinds.pop("return", None)
    kinds.setdefault("out", Path)
    if "plot" in given:
        kinds["plot"] = Path | None
    own = inspect.signature(answer).parameters
    parameters = []
    for key, kind in kinds.items():
        default = defaults.get(key, inspect.Parameter.empty)
        if key in given and kind is Path:
            default = ROOT / default
        is_option = key not in own or own[key].kind is own[key].KEYWORD_ONLY
        hint = make_hint(options, name, key, is_option=is_option)
        parameters.append(
            inspect.Parameter(
                key,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[kind, hint],
            )
        )

    def command(**options: Any) -> None:
        _ask_question(name, answer, options)

    command.__doc__ = answer.__doc__
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    app.command(name)(command)


def _ask_question(name: str, answer: Answer, options: dict[str, Any]) -> None:
    """Run a benchmark and publish its findings, or show without a traceback why it cannot."""
    own = inspect.signature(answer).parameters
    out = options["out"]
    asked = {key: value for key, value in options.items() if key in own}
    try:
        found = answer(**asked)
        for findings in [found] if isinstance(found, Findings) else found or ():
            _publish(name, out, asked, findings)
            if options.get("plot"):
                report.draw_charts(findings.charts, options["plot"])
            if findings.has_failed:
                raise typer.Exit(1)
    except (StackError, ClientError, ValueError, SubprocessError) as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from error


def _publish(name: str, out: Path, options: dict[str, Any], found: Findings) -> None:
    """Show the table and write it as Markdown next to the figures."""
    out = out.with_stem(f"{out.stem}-{found.part}") if found.part else out
    table = report.to_markdown(found.table)
    for text in (*found.remarks, table):
        console.print(text, markup=False, soft_wrap=True)
    report.save(out, name, options, found.results)
    out.with_suffix(".md").write_text(table, "utf-8")
    say(f"written: {out}")


def say(doing: str) -> None:
    """Show what is being done, and after how long."""
    elapsed_s = time.time() - psutil.Process().create_time()
    console.print(f"{elapsed_s:6.0f} s  {doing}", markup=False, soft_wrap=True)


def take_turns(
    ways: Mapping[str, Callable[[], Turn]], rounds: int
) -> dict[str, list[Turn]]:
    """Return what each way did in each round. In turns, what slows the machine for a while
    slows all ways."""
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
    turns = {"": take_turns(ways, rounds)}
    return report.compare_turns(turns, figures, is_added=is_added)


def read_numbers(text: str, kind: Callable[[str], Number] = int) -> list[Number]:
    """Read `1,64,128` as numbers above 0; an empty text is an empty list. Raises ValueError."""
    numbers = [kind(number) for number in read_words(text)]
    if not all(0 < number < math.inf for number in numbers):
        raise ValueError(f"{text!r}: expected numbers above 0, with commas between")
    return numbers


def read_words(text: str) -> list[str]:
    """Read `a,b` as a list; an empty text is an empty list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def read_range(text: str) -> tuple[int, int] | None:
    """Read `3-200` as two numbers; None if the text is empty. Raises ValueError."""
    if not text:
        return None
    least, dash, most = text.partition("-")
    if not (dash and least.isdecimal() and most.isdecimal()) or int(least) > int(most):
        raise ValueError(f"{text!r}: expected LEAST-MOST, two numbers of tokens")
    return int(least), int(most)


def read_settings(texts: Iterable[str] | None) -> dict[str, Any]:
    """Read `placement=device` and `max_batch_delay=5`, values in YAML. Raises ValueError."""
    settings = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r}: expected KEY=VALUE")
        settings[key] = yaml.safe_load(value)
    return settings
