"""`python -m catalog models`: lists, pulls and verifies the models that the map needs, and
bundles them for a machine without a network.
"""

import json
from pathlib import Path

import typer
from rich.filesize import decimal

import catalog
from catalog import CatalogError, bundle, inventory
from catalog.checkpoint import default_cache
from catalog.display import console, make_command, make_table
from catalog.inventory import Checkpoint
from handlers.engine.directories import Digests, ModelError

app = typer.Typer(no_args_is_help=True, add_completion=False)
models_app = typer.Typer(no_args_is_help=True, help=__doc__)
app.add_typer(models_app, name="models")
OPTIONS = Path(__file__).with_name("options.yaml")
command = make_command(models_app, OPTIONS, CatalogError, ModelError, OSError)


@command("list")
def list_models(
    *, map_path: Path = catalog.MAP, model: str | None = None, as_json: bool = False
) -> None:
    """List the models that the map needs, and the rest of the cache."""
    needed = _find(None, map_path, model)
    described = [each.describe() for each in needed]
    others = list(map(str, inventory.list_others(needed, default_cache())))
    if as_json:
        typer.echo(json.dumps({"needed": described, "others": others}, indent=2))
        return
    table = make_table(
        "model", "serves", "size", "licence", "digest", "languages", "converted"
    )
    for each in described:
        cells = [each["name"], " ".join(each["serves"])]
        if each["directory"]:
            cells += [
                decimal(each["size"]),
                each["license"] or "-",
                each["digest"][:12],
            ]
            cells += [str(len(each["languages"]) or "-"), " ".join(each["converted"])]
        table.add_row(*cells)
    console.print(table, soft_wrap=False)
    places = [(each["name"], each["directory"] or "not here") for each in described]
    for name, place in (*places, *(("not needed", path) for path in others)):
        console.print(f"{name}: {place}")


@command()
def show(name: str, *, map_path: Path = catalog.MAP) -> None:
    """Show a model's details and files."""
    (found,) = _find([name], map_path, None)
    typer.echo(json.dumps(found.describe(), indent=2))


@command()
def pull(
    names: list[str] | None = None,
    *,
    map_path: Path = catalog.MAP,
    model: str | None = None,
) -> None:
    """Download and convert models; continue broken downloads, replace damaged files."""
    _pull(_find(names, map_path, model))


@command()
def verify(
    names: list[str] | None = None,
    *,
    map_path: Path = catalog.MAP,
    model: str | None = None,
) -> None:
    """Compare every file with its recorded digest; exit 1 if one is damaged."""
    is_whole, digests = True, Digests()
    for each in _find(names, map_path, model):
        faults = list(each.list_damage(digests))
        is_whole = is_whole and not faults
        mend = f"python -m catalog models pull {each.name}"
        if each.source.get("bundled"):
            mend = "make up BUNDLE=…"
        end = "as recorded" if each.source else "there is no record of its own files"
        said = (*faults, f"`{mend}` repairs it" if faults else end)
        console.print(*(f"{each.name}: {line}" for line in said), sep="\n")
    raise typer.Exit(0 if is_whole else 1)


@command("bundle")
def write_bundle(
    file: Path, *, map_path: Path = catalog.MAP, model: str | None = None
) -> None:
    """Pull the map's models and pack them into a file for a machine without a network."""
    needed = _find(None, map_path, model)
    _pull(needed)
    bundle.pack(file.absolute(), map_path, model, needed)
    size = decimal(file.stat().st_size)
    console.print(f"{file}: {size}; start from it with make up BUNDLE={file}")


def _find(
    names: list[str] | None, map_path: Path, model: str | None
) -> list[Checkpoint]:
    """Return the named checkpoints; without names, the map's. Raises CatalogError."""
    cache = default_cache()
    models = catalog.load(map_path, gpus=None, model=model)
    needed = inventory.list_needed(models, cache)
    chosen = names or needed
    return [needed.get(n) or inventory.make_checkpoint(n, cache) for n in chosen]


def _pull(wanted: list[Checkpoint]) -> None:
    for each in wanted:
        each.pull()
        console.print(f"{each.name}: {each.directory}")
        if stated := each.source.get("license"):
            said = f"{each.name}: its model card states the licence {stated}"
            console.print(said, style="yellow" if "-nc" in stated else None)


if __name__ == "__main__":
    app()
