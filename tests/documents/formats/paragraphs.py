"""Runs and other parts of paragraphs of Office Open XML."""


def run(text: str, properties: str = "") -> str:
    properties = properties and f"<w:rPr>{properties}</w:rPr>"
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def shape(text: str, properties: str = "") -> str:
    return f"<a:r>{properties}<a:t>{text}</a:t></a:r>"


def field(instruction: str, result: str) -> str:
    kinds = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in FIELD]
    code = f"<w:r><w:instrText> {instruction} </w:instrText></w:r>"
    return kinds[0] + code + kinds[1] + result + kinds[2]


FIELD = ("begin", "separate", "end")
BOLD = "<w:b/>"
BOX = f"<w:txbxContent><w:p>{run('In a box')}</w:p></w:txbxContent>"
TWICE = (
    f"<w:r><mc:AlternateContent><mc:Choice>{BOX}</mc:Choice><mc:Fallback>"
    f"<w:pict>{BOX}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
)
LINK = f'<w:hyperlink r:id="r1">{run("the page", "<w:u/>")}</w:hyperlink>'
CONTROL = f"<w:sdt><w:sdtPr/><w:sdtContent>{run('a choice')}</w:sdtContent></w:sdt>"
RUBY = (
    f"<w:r><w:ruby><w:rt>{run('kan')}</w:rt><w:rubyBase>{run('漢')}</w:rubyBase>"
    "</w:ruby></w:r>"
)
SHAPE_LINK = '<a:rPr lang="en-US"><a:hlinkClick r:id="r1"/></a:rPr>'
