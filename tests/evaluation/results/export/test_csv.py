"""CSV export of an evaluation."""

from palaver.evaluation.results.export import formats
from tests.evaluation.results.export.report_factory import BAD, PLAIN, report, result_detail, score
from tests.evaluation.results.result_factory import row

HEADER = (
    "row,variant,repeat,status,evaluator,score_status,passed,score,label,reason,error,latency_seconds,cost,"
    "input_tokens,output_tokens,trace_id,input,output"
)
LAST_COLUMNS = f"0.5,0.01,3,4,{'ab' * 16},What?,That."
WITHOUT_QUESTION = LAST_COLUMNS.replace("What?", "")


def test_there_is_a_line_for_each_cell_and_evaluator() -> None:
    assert b"".join(formats.write_csv(PLAIN)).decode().split("\r\n") == [
        HEADER,
        f"{row(1)},base,0,done,exact,scored,true,1.0,,,,{LAST_COLUMNS}",
        f"{row(1)},base,0,done,similar,scored,,0.9,,,,{LAST_COLUMNS}",
        f"{row(1)},new,0,done,exact,scored,false,0.0,,'That.' is not 'This.',,{LAST_COLUMNS}",
        f"{row(1)},new,0,done,similar,scored,,0.5,,,,{LAST_COLUMNS}",
        f"{row(2)},base,0,done,exact,scored,true,1.0,,,,{WITHOUT_QUESTION}",
        f"{row(2)},base,0,done,similar,error,,,,needs_text: it is an object,,{WITHOUT_QUESTION}",
        f"{row(2)},new,0,failed,,,,,,,timeout: It took longer than 60 s.,{WITHOUT_QUESTION}",
        "",
    ]


def test_spreadsheet_formulas_are_quoted() -> None:
    cells = [
        result_detail(0, 0, [score("exact", False, "=cmd|' /C calc'!A0")], cell=0, answer="@SUM(1)", question="-1+1")
    ]
    actual = (
        b"".join(formats.write_csv(report(cells, {"exact": [[[False]]]}, variants=("+v",)))).decode().split("\r\n")[1]
    )

    assert actual == (
        f'{row(1)},"""+v""",0,done,exact,scored,false,0.0,,"""=cmd|\' /C calc\'!A0""",,'
        f'0.5,0.01,3,4,{"ab" * 16},"""-1+1""","""@SUM(1)"""'
    )


def test_a_cell_with_line_breaks_stays_on_one_line() -> None:
    (_, line, remaining) = b"".join(formats.write_csv(BAD)).decode().split("\r\n")

    assert remaining == ""
    assert "\n" not in line
