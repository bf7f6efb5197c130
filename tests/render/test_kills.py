"""The kill matrix that comes with the page is the one of the docs, and that one is made anew by a test of its own."""

from docs import generate
from headwise.conformance.kill_matrix import UNMUTATED, attack
from headwise.render.results.kill_matrix_table import as_data, data_of_page, page


def test_what_the_page_of_a_matrix_says_can_be_read_back():
    matrix = attack(["nan_replaced_by_zero", "tie_heads", "cache_offset_wrong"])
    right = as_data(matrix)
    for row in right["rows"]:
        assert row["caught"] and all(row["caught"].values())
        row["caught"] = dict.fromkeys(row["caught"], "")
    found = data_of_page(page(matrix))
    assert found["rows"] == [{name: list(value) if isinstance(value, tuple) else value for name, value in row.items()} for row in right["rows"]]
    assert found["invariants"] == right["invariants"] and found["complete"] == right["complete"]


def test_what_comes_with_the_page_is_current():
    assert generate.KILLS.read_text() == generate.kills_data(), "the page's kill matrix is old. Run make docs."
    told = data_of_page((generate.HERE / "kill-matrix.md").read_text())
    assert any(row["honest"] for row in told["rows"]) and {row["attack"] for row in told["rows"]} >= {UNMUTATED, "tie_heads"}
