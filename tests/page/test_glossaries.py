"""Glossaries: a table to edit, files to import and export, and terms in a translation."""

from pathlib import Path

from playwright.sync_api import expect

from tests.page.conftest import Tab

VIEW = "#glossaries"
TERMS = 'term,"quoted, ""term"""\r\nhello,bonjour\r\n'


def fill(tab: Tab, name: str, terms: dict[str, str]) -> None:
    tab.find("new-glossary").click()
    tab.find("glossary-name").fill(name)
    tab.find("glossary-source").select_option("en")
    tab.find("glossary-target").select_option("fr")
    for number, (term, translation) in enumerate(terms.items()):
        if number:
            tab.find("add-entry").click()
        cells = tab.find("entries").locator("input")
        cells.nth(0).fill(term)
        cells.nth(1).fill(translation)


def save(tab: Tab) -> None:
    tab.page.get_by_role("button", name="Save").dblclick()
    expect(tab.find("glossary-state")).to_have_text("Saved.")


def test_a_glossary_is_made_changed_and_used(tab, stage):
    fill(tab, "Travel", {"city pass": "carte", "tram": "tramway"})
    tab.refuse("**/glossaries")
    save(tab)
    made = tab.find("glossary-list").locator("li", has_text="Travel")
    expect(made).to_have_text("TravelEnglish → French · 2")
    tab.find("entries").get_by_role("button").nth(1).click()
    tab.find("entries").locator("input").nth(1).fill("passe")
    save(tab)
    tab.page.reload()
    tab.find("glossary-list").get_by_role("button", name="Travel").first.click()
    expect(tab.find("entry-count")).to_have_text("1 of 1 entries")
    tab.page.get_by_role("link", name="Text").click()
    tab.find("source").select_option("en")
    tab.find("target").select_option("fr")
    tab.find("glossary").select_option("Travel")
    tab.type("I take the tram.", "fr:I take the passe.")
    tab.page.get_by_role("link", name="Glossaries").click()
    tab.find("entries").locator("input").nth(1).fill("train")
    save(tab)
    tab.page.get_by_role("link", name="Text").click()
    tab.wait_for_output("fr:I take the train.")
    # It has no terms for other languages.
    tab.find("target").select_option("de")
    tab.wait_for_output("de:I take the tram.")
    tab.find("target").select_option("fr")
    tab.find("glossary").select_option("Travel")
    tab.wait_for_output("fr:I take the train.")
    tab.find("swap-button").click()
    tab.wait_for_output("en:fr:I take the train.")
    tab.page.get_by_role("link", name="Documents").click()
    offered = tab.find("document-glossary").locator("option")
    expect(offered).to_have_count(1)  # none
    tab.find("document-target").select_option("fr")
    expect(offered).to_have_count(2)
    tab.page.get_by_role("link", name="Text").click()
    tab.page.get_by_role("link", name="Documents").click()
    expect(offered).to_have_count(2)  # a target that is chosen here stays
    tab.page.get_by_role("link", name="Text").click()
    tab.find("target").select_option("de")
    tab.page.get_by_role("link", name="Documents").click()
    expect(offered).to_have_count(1)


def test_a_list_that_comes_late_does_not_disturb_who_types(tab):
    fill(tab, "Late", {"tram": ""})
    cell = tab.find("entries").locator("input").nth(1)
    tab.page.get_by_role("link", name="Text").click()
    with tab.hold("**/glossaries"):
        tab.page.get_by_role("link", name="Glossaries").click()
        cell.focus()
    tab.page.keyboard.type("tramway")
    expect(cell).to_have_value("tramway")


def test_entries_that_come_late_are_not_those_of_another_glossary(tab):
    for name, term in (("First", "tram"), ("Second", "bus")):
        fill(tab, name, {term: term})
        save(tab)
    with tab.hold("**/entries?*"):
        tab.find("glossary-list").get_by_role("button", name="First").click()
        tab.find("glossary-list").get_by_role("button", name="Second").click()
        expect(tab.find("entry-count")).to_have_text("1 of 1 entries")
    expect(tab.find("entries").locator("input").first).to_have_value("bus")


def test_a_glossary_opens_only_with_its_entries_which_saving_replaces(tab):
    for name in ("Read", "Unread"):
        fill(tab, name, {name: name})
        save(tab)
    tab.refuse("**/entries?*")
    tab.find("glossary-list").get_by_role("button", name="Read", exact=True).click()
    expect(tab.find("notice")).to_be_visible()
    expect(tab.find("glossary-name")).to_have_value("Unread")
    expect(tab.find("entries").locator("input").first).to_have_value("Read")
    expect(tab.find("glossary-name")).to_have_value("Read")
    expect(tab.find("notice")).to_be_hidden()


def test_a_table_is_imported_exported_and_searched(tab, tmp_path):
    file = tmp_path / "terms.csv"
    file.write_bytes(TERMS.encode("utf-8-sig"))
    fill(tab, "Imported", {})
    tab.find("import").set_input_files(file)
    cells = tab.find("entries").locator("input")
    expect(cells.nth(1)).to_have_value('quoted, "term"')
    with tab.page.expect_download() as download:
        tab.find("export-csv").click()
    assert Path(download.value.path()).read_bytes() == TERMS.encode()
    with tab.page.expect_download() as download:
        tab.find("export-tsv").click()
    assert Path(download.value.path()).read_bytes() == (
        b'term\tquoted, "term"\nhello\tbonjour\n'
    )
    tsv = tmp_path / "terms.tsv"
    tsv.write_bytes(b"hello\tsalut\n")
    tab.find("import").set_input_files(tsv)
    expect(cells.nth(3)).to_have_value("salut")

    tsv.write_bytes("caf\xe9\tKaffee\n".encode("latin-1"))  # as from an old program
    tab.find("import").set_input_files(tsv)
    expect(tab.find("glossary-state")).to_contain_text("file is not supported.")

    file.write_text("".join(f"term {n},terme {n}\n" for n in range(1000)))
    fill(tab, "Long", {})
    tab.find("import").set_input_files(file)
    expect(tab.find("entry-count")).to_have_text("200 of 1,000 entries")
    tab.find("entry-search").fill("terme 777")
    expect(tab.find("entry-count")).to_have_text("1 of 1,000 entries")
    cell = tab.find("entries").locator("input").first
    expect(cell).to_have_value("term 777")


def test_a_wrong_entry_is_told_and_a_glossary_deleted_with_the_second_click(tab):
    fill(tab, "Short-lived", {"a term": ""})
    tab.page.get_by_role("button", name="Save").click()
    expect(tab.find("glossary-state")).to_contain_text("entries")
    tab.faults.clear()  # the browser logs the status
    tab.find("entries").locator("input").nth(1).fill("un terme")
    save(tab)
    tab.find("delete-glossary").click()
    expect(tab.find("delete-glossary")).to_have_text("Delete for good?")
    tab.find("delete-glossary").click()
    expect(tab.find("glossary-form")).to_be_hidden()
    expect(tab.find("glossary-list")).not_to_contain_text("Short-lived")
