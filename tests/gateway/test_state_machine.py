"""Keys, glossaries, documents, restarts and time in any order. A model of a few lists predicts
the answers: characters are billed exactly once, nothing is lost, keys see only their own data.
"""

import sys
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from urllib3 import encode_multipart_formdata

from documents.jobs import Jobs
from gateway.access.keys import make_token, read_id
from tests.gateway.service import (
    KEPT_H,
    MOST_ATTEMPTS,
    Document,
    Glossary,
    Key,
    Killed,
    Owned,
    Service,
    translate,
    write_file,
    write_table,
)

STEPS = 20
#: Limits of one key, low enough to be reached.
MOST_GLOSSARIES, MOST_DOCUMENTS = 2, 2
#: The limit that DeepL's API reports for a key without one.
UNLIMITED = 10**12
LANGUAGES = {"src_lang": "en", "tgt_lang": "ko"}
SENTENCES = "Hello there", "One more 😀", "The work station is new", "See the red door"


def pick(name: str) -> st.SearchStrategy[Any]:
    """Return a strategy for the members of one of the machine's lists."""
    return st.runner().flatmap(lambda machine: st.sampled_from(getattr(machine, name)))


KEYS, GLOSSARIES = pick("all_keys"), pick("all_glossaries")
DOCUMENTS = pick("all_documents")
TEXTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5)
ENTRIES = st.dictionaries(
    st.sampled_from(["work station", "red door"]),
    st.sampled_from(["책상", "작업대"]),
    min_size=1,
)
LIMITS = st.sampled_from([None, 60, 120])
#: The events before a step of the documents worker.
EVENTS = st.sampled_from(["nothing", "kill", "stop", "delete", "restart"])


def expect(invariant: str, found: object, wanted: object) -> None:
    """Assert an invariant, and name it if it is broken."""
    assert found == wanted, f"broken: {invariant}: {found!r} instead of {wanted!r}"


class ServiceMachine(RuleBasedStateMachine):
    """The service, compared with its model."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self.service = service
        self.all_keys: list[Key] = []
        self.all_glossaries: list[Glossary] = []
        self.all_documents: list[Document] = []

    @initialize(limit=LIMITS, entries=ENTRIES, texts=TEXTS)
    def begin(self, limit, entries, texts) -> None:
        """Add two keys, each with a glossary and a document that could be lost."""
        for name, most in (("anna", None), ("ben", limit)):
            self.renew_key(name, most)
            self.add_glossary(key := self.all_keys[-1], entries)
            own = self.all_glossaries[-1]
            self.upload(key, "txt", [*texts, "One more"], glossary=own)

    @rule(name=st.sampled_from(["anna", "ben"]), limit=LIMITS)
    def renew_key(self, name: str, limit: int | None) -> None:
        """Add a key, and revoke any earlier one of the same name."""
        for key in self.all_keys:
            if key.name == name and not key.is_revoked:
                self.service.revoke_key(name)
                key.is_revoked = True
        self.all_keys.append(Key(name, self.service.add_key(name, limit), limit))

    @rule(
        key=KEYS | st.just(Key("a stranger", make_token()[0], None, is_revoked=True)),
        texts=TEXTS,
        glossary=st.none() | GLOSSARIES,
    )
    def translate(self, key: Key, texts: list[str], glossary: Glossary | None) -> None:
        body: dict[str, Any] = {**LANGUAGES, "src_text": texts}
        if glossary:
            body["glossary"] = glossary.id
        answer = self.ask(key.token, "/translate", "POST", json=body)
        problem = self.judge(key, texts, glossary)
        if not self.is_refused("a translation", answer, problem):
            wanted = translate(texts, glossary)
            expect("texts are translated", answer.json["translated"], wanted)

    def judge(self, key: Key, texts: list[str], glossary) -> str | None:
        """Return the reason why texts are refused, or bill their characters."""
        characters = sum(map(len, texts))
        if key.is_revoked:
            return "invalid-key"
        if glossary and not glossary.is_seen_by(key):
            return "unknown-glossary"
        if key.limit is not None and key.used + characters > key.limit:
            return "quota-exceeded"
        key.used += characters
        return None

    @rule(key=KEYS, entries=ENTRIES)
    def add_glossary(self, key: Key, entries: Mapping[str, str]) -> None:
        owned = sum(each.is_seen_by(key) for each in self.all_glossaries)
        is_full = "too-many-glossaries" if owned >= MOST_GLOSSARIES else None
        body = {"name": "terms", "entries": entries, **LANGUAGES}
        answer = self.ask(key.token, "/glossaries", "POST", json=body)
        problem = "invalid-key" if key.is_revoked else is_full
        if not self.is_refused("a new glossary", answer, problem):
            self.all_glossaries.append(Glossary(answer.json["id"], key, entries))

    @rule(key=KEYS, glossary=GLOSSARIES, entries=ENTRIES)
    def replace_entries(self, key, glossary, entries) -> None:
        table = {"entries": write_table(entries), "entries_format": "tsv"}
        languages = {"source_lang": "EN", "target_lang": "KO"}
        path = f"/v3/glossaries/{glossary.id}/dictionaries"
        answer = self.ask(key.token, path, "PUT", json={**languages, **table})
        problem = self.find_problem(key, glossary)
        found, statuses = answer.status_code, {None: 200, "invalid-key": 403}
        expect("a change of a glossary", found, statuses.get(problem, 404))
        if not problem:
            glossary.entries = entries

    @rule(
        key=KEYS,
        ending=st.sampled_from(["txt", "txt", "html", "po", "exe"]),
        texts=TEXTS,
        glossary=st.none() | GLOSSARIES,
    )
    def upload(self, key, ending, texts, glossary) -> None:
        fields: dict[str, Any] = dict(LANGUAGES)
        if glossary:
            fields["glossary"] = glossary.id
        fields["file"] = (f"a.{ending}", write_file(ending, texts))
        body, kind = encode_multipart_formdata(fields)
        headers = {"Content-Type": kind}
        answer = self.ask(key.token, "/documents", "POST", data=body, headers=headers)
        problem = self.find_upload_problem(key, ending, glossary)
        if not self.is_refused("an upload", answer, problem):
            made = Document(answer.json["id"], key, ending, texts, glossary)
            self.all_documents.append(made)

    def find_upload_problem(self, key: Key, ending: str, glossary) -> str | None:
        waiting = [d for d in self.all_documents if d.is_waiting and d.owner is key]
        if key.is_revoked:
            return "invalid-key"
        if len(waiting) >= MOST_DOCUMENTS:
            return "too-many-documents"
        if glossary and not glossary.is_seen_by(key):
            return "unknown-glossary"
        return "unknown-format" if ending == "exe" else None

    @rule(document=DOCUMENTS, at=st.integers(0, 4), event=EVENTS)
    def work(self, document: Document, at: int, event: str) -> None:
        """Start a worker, which translates a document, and let an event happen meanwhile."""
        if event == "delete" and document.owner.is_revoked:
            event = "nothing"
        if document.is_waiting:
            self.run(document, at, event)

    def run(self, document: Document, at: int = 0, event: str = "nothing") -> None:
        steps = count()

        def meddle(jobs: Jobs) -> None:
            if next(steps) != at:
                return
            if event == "kill":
                raise Killed
            if event == "stop":
                jobs.stop()
            if event == "delete":
                self.ask(document.owner.token, f"/documents/{document.id}", "DELETE")
            if event == "restart":
                self.service.restart("stop")

        self.foresee(document, at, event)
        self.service.work(document.id, meddle)
        self.look_at(document.owner, document)

    def foresee(self, document: Document, at: int, event: str) -> None:
        """Predict the worker's result for a document."""
        document.status = "translating"
        document.attempts += 1
        problem = "damaged-document" if document.ending == "po" else None
        if document.attempts > MOST_ATTEMPTS:
            return self.end(document, "damaged-document")
        for number, texts in enumerate(document.list_steps()):
            now = event if number == at else "nothing"
            is_over = now in ("stop", "delete")
            document.attempts *= not texts
            if now == "kill":
                return None
            if texts:
                problem = self.judge(document.owner, texts, document.glossary)
                if not problem:
                    document.translated += translate(texts, document.glossary)
            if problem and (texts or not is_over):
                self.end(document, problem)
            elif now == "stop":
                document.attempts = max(0, document.attempts - 1)
            document.is_deleted = now == "delete"
            if problem or is_over:
                return None
        return self.end(document)

    def end(self, document: Document, problem: str | None = None) -> None:
        document.status = "failed" if problem else "done"
        document.problem = problem
        document.kept_h = self.service.hours + KEPT_H

    @rule(key=KEYS, each=GLOSSARIES | DOCUMENTS)
    def delete(self, key: Key, each: Glossary | Document) -> None:
        folder = "glossaries" if isinstance(each, Glossary) else "documents"
        answer = self.ask(key.token, f"/{folder}/{each.id}", "DELETE")
        problem = self.find_problem(key, each)
        each.is_deleted |= not self.is_refused("a deletion", answer, problem)

    @rule(event=st.sampled_from(["stop", "reload", "boot", "10 h", "30 h", "month"]))
    def go_on(self, event: str) -> None:
        if event == "month":
            self.service.months += 1
            for key in self.all_keys:
                key.used = 0
        elif event.endswith("h"):
            self.wait(int(event.split()[0]))
        else:
            self.service.restart(event)

    def wait(self, hours: int) -> None:
        """Let time pass: only documents that ended long enough ago are deleted."""
        self.service.hours += hours
        now = self.service.hours
        kept = [each for each in self.all_documents if not each.is_deleted]
        wanted = {each.id for each in kept if each.kept_h < now}
        for document in kept:
            document.is_deleted = document.kept_h < now
        found = set(self.service.walk())
        expect("a document is deleted when its time has come", found, wanted)

    @rule(key=KEYS)
    def look(self, key: Key) -> None:
        """Check that a key sees all of its own things and no others."""
        for document in self.all_documents:
            self.look_at(key, document)
        answers = [self.ask(key.token, path) for path in ("/documents", "/glossaries")]
        problem = "invalid-key" if key.is_revoked else None
        for answer in answers:
            self.is_refused("a list", answer, problem)
        if key.is_revoked:
            return
        owned: tuple[Sequence[Owned], ...] = self.all_documents, self.all_glossaries
        for answer, each in zip(answers, owned, strict=True):
            (listed,) = [v for v in answer.json.values() if isinstance(v, list)]
            wanted = {one.id for one in each if one.is_seen_by(key)}
            expect("a key sees its own only", {one["id"] for one in listed}, wanted)
        for glossary in self.all_glossaries:
            if glossary.is_seen_by(key):
                found = self.ask(key.token, f"/glossaries/{glossary.id}/entries").text
                expect("a glossary is kept", found, write_table(glossary.entries))
        limit = UNLIMITED if key.limit is None else key.limit
        usage = {"character_count": key.used, "character_limit": limit}
        found = self.ask(key.token, "/v2/usage").json
        expect("characters are billed exactly once", found, usage)

    def look_at(self, key: Key, document: Document) -> None:
        path, problem = f"/documents/{document.id}", self.find_problem(key, document)
        answer = self.ask(key.token, path)
        if not self.is_refused("a status", answer, problem):
            error = answer.json["error"]
            found = answer.json["status"], error and error["type"]
            slug = document.problem and f"urn:babelgate:{document.problem}"
            expect("a document is where it should be", found, (document.status, slug))
            problem = None if document.status == "done" else "not-done"
        answer = self.ask(key.token, f"{path}/result")
        if not self.is_refused("a result", answer, problem):
            wanted = write_file(document.ending, document.translated)
            expect("a result has all translations", answer.data, wanted)

    def find_problem(self, key: Key, wanted: Glossary | Document) -> str | None:
        """Return the reason why a key is refused a thing that it names, if it is."""
        if key.is_revoked:
            return "invalid-key"
        is_glossary = isinstance(wanted, Glossary)
        missing = "unknown-glossary" if is_glossary else "no-document"
        return None if wanted.is_seen_by(key) else missing

    def ask(self, token, path: str, method: str = "GET", **given: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        given["headers"] = headers | given.pop("headers", {})
        return self.service.client.open(path, method=method, buffered=True, **given)

    def is_refused(self, what: str, answer: Any, problem: str | None) -> bool:
        """Whether an answer is a refusal, which it must be exactly if there is a problem."""
        wanted = f"urn:babelgate:{problem}" if problem else None
        found = answer.json["type"] if answer.status_code >= 400 else None
        said = answer.text[:200] if found else ""
        expect(f"{what} is refused for {problem} only ({said})", found, wanted)
        return problem is not None

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.finish()
        finally:
            self.service.close()

    def finish(self) -> None:
        """Check that every accepted document ends, and that nothing is lost at a reboot."""
        for document in self.all_documents:
            if document.is_waiting:
                self.run(document, at=2, event="kill")
            while document.is_waiting:
                self.run(document)
        self.service.restart("boot")
        for key in self.all_keys:
            self.look(key)
        saved = self.service.list_usage()
        wanted = {read_id(key.token): key.used for key in self.all_keys}
        expect("characters are saved exactly once", saved, wanted)
        self.wait(30)
        expect("nothing is left", self.service.documents.list_jobs(), [])


@pytest.mark.hypothesis
def test_nothing_is_lost_or_billed_twice_and_nobody_sees_anothers(
    tmp_path, torchserve, map_path
) -> None:
    folders = map(tmp_path.joinpath, map(str, count()))
    urls = dict.fromkeys(("inference_url", "management_url"), torchserve.url)

    def make() -> ServiceMachine:
        limits = {"max_glossaries": MOST_GLOSSARIES, "documents_of_one": MOST_DOCUMENTS}
        given = {"key_file": torchserve.key_file, **urls, **limits}
        return ServiceMachine(Service(next(folders), map_path, **given))

    few = settings().max_examples // 4  # each is long
    chosen = settings(max_examples=few, stateful_step_count=STEPS)
    machine = cast(type[RuleBasedStateMachine], make)
    run_state_machine_as_test(machine, settings=chosen)
