"""Names of files are bytes: one that is no UTF-8 is refused in a sentence, and keeps nobody else's readings from being read."""

import os
import sqlite3

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import halflife as hl
from halflife.engines import open_source
from halflife.errors import InvalidInput
from publisher.test_follow import FOLDER, HOUR, START, World, exact, hours, operator, values
from publisher.town import LOUD, make

BAD = os.fsdecode(b"caf\xe9")


def write(file):
    """A file of readings, by its ending."""
    plain = file.with_name(f"plain{file.suffix}")
    if file.suffix == ".csv":
        plain.write_text("home,time,kwh\nh1,2026-01-01T00:30,1\n")
    elif file.suffix == ".parquet":
        pq.write_table(pa.table({"home": ["h1"], "time": ["2026-01-01T00:30"], "kwh": [1.0]}), plain)
    else:
        connect = duckdb.connect if file.suffix == ".duckdb" else sqlite3.connect
        base = connect(plain)
        base.execute("CREATE TABLE readings (home TEXT, time TEXT, kwh DOUBLE)")
        base.commit()
        base.close()
    plain.rename(file)


@pytest.fixture(autouse=True)
def _any_name(tmp_path):
    try:
        (tmp_path / f"{BAD}.csv").touch()
    except OSError:
        pytest.skip("this disk takes no such name")
    (tmp_path / f"{BAD}.csv").unlink()


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".duckdb", ".sqlite"])
def test_a_name_that_is_no_text_is_refused_in_a_sentence(tmp_path, ending):
    """Before: `RuntimeError: std::bad_cast`, or a UnicodeEncodeError."""
    write(tmp_path / f"{BAD}{ending}")
    with pytest.raises(
        InvalidInput, match=r"caf\\udce9.* has a name that is not UTF-8, and cannot be opened: rename it"
    ):
        open_source([tmp_path / f"{BAD}{ending}"])
    with pytest.raises(InvalidInput, match="is not UTF-8"):
        open_source([str(tmp_path / f"*{ending}")])


def test_one_such_file_ends_no_publisher_that_stays(tmp_path):
    """Before: whoever may write to the folder ended it, and every one after it."""
    hours(tmp_path, 0, 1)
    write(tmp_path / "in" / f"{BAD}.csv")
    policy = make(tmp_path, epsilon=LOUD, stream=FOLDER)
    World(end=START + 2.5 * HOUR).follow(policy)
    assert values(tmp_path) == pytest.approx({1: exact(0), 2: exact(1)}, abs=1e-3)
    (told,) = operator(policy, "unreadable")
    assert "is not UTF-8" in told["problem"]
    assert hl.verify(policy).problems == ()
