"""The page's tables as files, without a browser."""

import json

from deploy.programs import NODE
from deploy.stack import ROOT
from tests.programs import find_or_skip, run

ROWS = [
    ["=1+1", "+1"],
    ["-5", "@sum"],
    ["'quoted'", "it's"],
    ["'=1", "''-1"],
    ["a-b", 'a "b", c'],
]
CODE = """
import { readTable, writeCsv } from "%s";
const csv = writeCsv(%s);
console.log(JSON.stringify([csv, readTable(csv)]));
"""


def test_a_cell_that_a_spreadsheet_would_run_is_written_as_text_and_read_as_it_was():
    tables = ROOT / "gateway/page/tables.js"
    code = CODE % (tables, json.dumps([*ROWS, ["\t=1", "\r=1"]]))
    csv, read = json.loads(run(find_or_skip(NODE), "--input-type=module", "-e", code))
    assert csv.splitlines()[:4] == [
        "'=1+1,'+1",
        "'-5,'@sum",
        "'quoted',it's",
        "''=1,'''-1",
    ]
    assert read[: len(ROWS)] == ROWS
    assert "'\t=1" in csv
    assert '"\'\r=1"' in csv
