"""Where the statements of a source begin."""

from cudasim.predicting.statements import Statements

SOURCE = """\
float sum = a[i] +
    b[i];
for (int k = 0;
     k < n; k++)
    sum +=
        c[k]; // not; here
#pragma unroll
if (sum > 0) {
    y = sum; z =
        1;
} else
    y = 0;
"""


def test_each_line_is_of_the_statement_that_it_begins_in():
    files = Statements({"a.cu": SOURCE})
    starts = [files.start("a.cu", line) for line in range(1, 13)]
    assert starts == [1, 1, 3, 3, 5, 5, 7, 8, 9, 9, 11, 12]


def test_a_statement_has_the_text_of_all_its_lines():
    assert Statements({"a.cu": SOURCE}).text_at("a.cu", 5).split() == [
        "sum",
        "+=",
        "c[k];",
        "//",
        "not;",
        "here",
    ]
