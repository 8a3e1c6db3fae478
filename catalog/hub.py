"""Downloads a model from the Hugging Face hub. Interrupted downloads resume, and the directory
appears only when it is complete, with a record of its files and its licence.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from huggingface_hub import HfApi, constants, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError  # type: ignore[attr-defined]
from huggingface_hub.file_download import http_get
from huggingface_hub.hf_api import ModelInfo, RepoSibling
from huggingface_hub.utils import WeakFileLock, build_hf_headers, validate_repo_id  # type: ignore[attr-defined]

from contract import durable
from handlers.engine.directories import (
    PREPROCESSOR_FILE,
    SETTINGS_FILE,
    SOURCE_FILE,
    TOKENIZER_FILES,
    Digests,
    ModelError,
    describe_files,
    list_weights,
    missing_files,
)

_TIMEOUT_S = 10
#: The files other than the weights.
SMALL_FILES = (
    "config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
    *TOKENIZER_FILES,
    SETTINGS_FILE,
    PREPROCESSOR_FILE,
    "processor_config.json",
    "merges.txt",
    "spiece.model",
    "added_tokens.json",
)
_HIDDEN = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


def download(name: str, folder: Path, task: str) -> Path:
    """Download a model to `folder/<name>`, unless that exists, and return the directory.

    `huggingface_hub.snapshot_download` restarts a file if its process has ended, which loses
    too much with two gigabytes of weights.

    Raises ModelError if the hub is unreachable, or has no model of that name for the task.
    """
    _check_name(name)
    directory = folder / name
    kept = "The partial download is kept: rerun the command to resume."
    with _explain(name, kept):
        directory.parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(folder / f"{name}.lock"):
            if not directory.exists():
                _download(name, directory, task)
    return directory


def take_back(directory: Path, commit: str, damaged: Iterable[str]) -> None:
    """Turn a download back into an incomplete one, without its damaged files: the next download
    gets only those. Raises OSError."""
    for name in damaged:
        (directory / name).unlink(missing_ok=True)
    durable.rename(directory, _find_part(directory, commit))


def _find_part(directory: Path, commit: str) -> Path:
    return directory.with_name(f"{directory.name}-{commit}.part")


def _download(name: str, directory: Path, task: str) -> None:
    elsewhere = "Give a directory's path instead, or set HF_ENDPOINT to a mirror."
    with _explain(name, elsewhere):
        info = HfApi().model_info(name, files_metadata=True, timeout=_TIMEOUT_S)
    files = _choose_files(info, task)
    commit = info.sha or constants.DEFAULT_REVISION
    part = _find_part(directory, commit)
    _remove_others(part, directory)
    part.mkdir(exist_ok=True)
    digests = Digests()
    paths = {file.rfilename: part / file.rfilename for file in files}
    for file in files:
        if not paths[file.rfilename].exists():
            url = hf_hub_url(name, file.rfilename, revision=commit)
            _fetch(file, part, digests, url)
    stated = info.card_data.get("license") if info.card_data else None
    source = {
        "name": name,
        "commit": commit,
        "license": ", ".join(stated) if isinstance(stated, list) else stated,
        "files": describe_files(paths, digests),
    }
    durable.write(part / SOURCE_FILE, json.dumps(source, indent=2) + "\n", mode=0o666)
    durable.rename(part, directory)


def _remove_others(part: Path, directory: Path) -> None:
    """Remove incomplete downloads of other commits, which will not be resumed."""
    mark = re.compile(rf"{re.escape(directory.name)}-[0-9a-f]{{40}}\.part")
    for other in directory.parent.iterdir():
        if other != part and mark.fullmatch(other.name):
            shutil.rmtree(other, ignore_errors=True)


def _choose_files(info: ModelInfo, task: str) -> list[RepoSibling]:
    """Return the small files that exist, then the weights in the best format."""
    files = {file.rfilename: file for file in info.siblings or ()}
    missing = missing_files(files, task)
    if missing:
        raise ModelError(
            f"{info.id} on {constants.ENDPOINT} is not a model for {task}: it lacks "
            f"{', '.join(missing)}"
        )
    return [files[n] for n in (*SMALL_FILES, *list_weights(files)) if n in files]


def _fetch(file: RepoSibling, folder: Path, digests: Digests, url: str) -> None:
    part = folder / f"{file.rfilename}.part"
    with part.open("ab") as target:
        if target.tell() > (file.size or 0):  # such as a network's login page
            target.seek(target.truncate(0))
        http_get(
            url,
            target,
            resume_size=target.tell(),
            headers=build_hf_headers(),
            expected_size=file.size,
            displayed_filename=file.rfilename,
        )
    if _is_damaged(part, file, digests):
        part.unlink()
        raise OSError(f"{file.rfilename} arrived damaged and was deleted")
    durable.sync(part)
    durable.rename(part, folder / file.rfilename)


def _is_damaged(path: Path, file: RepoSibling, digests: Digests) -> bool:
    """Whether a file differs from the hub's record, which has Git's SHA-1 of a small one."""
    if file.lfs:
        return digests.read(path) != file.lfs.sha256
    content = path.read_bytes()
    found = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return file.blob_id not in (None, found)


def _check_name(name: str) -> None:
    try:
        validate_repo_id(name)
        is_name = name.count("/") == 1
    except HFValidationError:
        is_name = False
    if not is_name:
        raise ModelError(
            f"{name}: neither a directory nor a hub name (expected a path or a name such as "
            "facebook/m2m100_418M)"
        )


@contextmanager
def _explain(name: str, advice: str) -> Iterator[None]:
    """Turn errors of the hub and the disk into a ModelError."""
    hub = constants.ENDPOINT
    try:
        yield
    except ModelError:
        raise
    except HfHubHTTPError as error:
        status = error.response.status_code
        raise ModelError(
            f"{name}: neither a directory nor a model visible on {hub}; one that is "
            "private or gated needs HF_TOKEN"
            if status in _HIDDEN
            else f"{name}: {hub} answered {status}. {advice}"
        ) from error
    except HTTPError as error:
        reason = str(error) or type(error).__name__
        raise ModelError(
            f"{name}: {hub} cannot be reached ({reason}). {advice}"
        ) from error
    except (ValueError, LookupError, TypeError) as error:
        raise ModelError(f"{name}: {hub} is not a hub: {error}. {advice}") from error
    except OSError as error:
        raise ModelError(f"{name}: {error}. {advice}") from error
