"""Which columns are said to be wrong, and the SQL that mends them."""

import pytest

from django_delayed_tasks.fields import EXACT_COLLATION
from django_delayed_tasks.store.sql.charsets import TextColumn, TextTable

EXACT = TextColumn("biz_num", "varchar(200)", False, "utf8mb4_bin", is_exact=True, is_json=False)
WORDS = TextColumn("last_error", "longtext", True, "utf8mb4_general_ci", is_exact=False, is_json=False)
DATA = TextColumn("biz_ext", "longtext", True, "utf8mb4_bin", is_exact=True, is_json=True)


@pytest.mark.parametrize("column", [EXACT, WORDS, DATA, EXACT._replace(collation="utf8mb4_0900_bin")])
def test_a_right_column(column: TextColumn) -> None:
    assert column.holds_everything
    assert not column.is_wrong


@pytest.mark.parametrize("column", [EXACT, DATA])
def test_a_column_that_takes_one_text_for_another(column: TextColumn) -> None:
    column = column._replace(collation="utf8mb4_unicode_ci")
    assert column.holds_everything
    assert column.is_wrong


@pytest.mark.parametrize("collation", ["latin1_swedish_ci", "utf8mb3_general_ci", "latin1_bin", "utf8mb3_bin"])
@pytest.mark.parametrize("column", [EXACT, WORDS, DATA])
def test_a_column_that_lacks_characters(column: TextColumn, collation: str) -> None:
    column = column._replace(collation=collation)
    assert not column.holds_everything
    assert column.is_wrong


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (EXACT, f"MODIFY `biz_num` varchar(200) CHARACTER SET utf8mb4 COLLATE {EXACT_COLLATION} NOT NULL"),
        (WORDS, "MODIFY `last_error` longtext CHARACTER SET utf8mb4 NULL"),
        (
            EXACT._replace(default=""),
            f"MODIFY `biz_num` varchar(200) CHARACTER SET utf8mb4 COLLATE {EXACT_COLLATION} NOT NULL DEFAULT ''",
        ),
        (DATA, "MODIFY `biz_ext` JSON NULL"),
        (DATA._replace(is_nullable=False), "MODIFY `biz_ext` JSON NOT NULL"),
    ],
)
def test_the_right_definition(column: TextColumn, expected: str) -> None:
    assert column.mended == expected


def test_a_table_whose_columns_are_right_needs_nothing() -> None:
    table = TextTable("tasks", "utf8mb4_general_ci", [EXACT, WORDS])
    assert table.wrong == []
    assert not table.is_wrong


def test_only_wrong_columns_are_mended() -> None:
    wrong = [EXACT._replace(collation="latin1_bin"), WORDS._replace(collation="latin1_swedish_ci")]
    table = TextTable("tasks", "utf8mb4_general_ci", [wrong[0], DATA, wrong[1]])
    assert table.wrong == wrong
    assert table.is_wrong
    assert table.mended == (f"ALTER TABLE `tasks` {wrong[0].mended}, {wrong[1].mended}, DEFAULT CHARACTER SET utf8mb4")


def test_a_table_may_be_wrong_for_columns_yet_to_come() -> None:
    table = TextTable("tasks", "latin1_swedish_ci", [EXACT, WORDS])
    assert table.is_wrong
    assert table.mended == "ALTER TABLE `tasks` DEFAULT CHARACTER SET utf8mb4"
