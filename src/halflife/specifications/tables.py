"""Specifications from Arrow tables: columns are checked by name and type, and rows by number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput, unknown
from halflife.specifications.checks import MOST_FAULTS, NUMBERS, Columns, Fault, check_name, column, faults_of

COLUMNS = ("household", *NUMBERS)
OPTIONAL = ("what",)


def read_columns(table: object) -> tuple[list[str], Any, Columns]:
    """Return the households' names, each row's index into them, and the columns of numbers; the first fault is refused."""
    names, codes, columns, _, faults = check_columns(table)
    for fault in faults:
        raise InvalidInput(fault.text(None if fault.field == "household" else names[codes[fault.row]]))
    return names, codes, columns


def check_columns(table: Any) -> tuple[list[str], Any, Columns, NDArray[np.bool_], list[Fault]]:
    """Return names, indices and columns of numbers, which rows are no secrets, and the first of them.

    Only names that a row has are there.
    """
    _check_columns(table)
    names, codes, bad, faults = _households(table["household"])
    columns = {}
    for name in NUMBERS:
        empty, none = _empty(table[name], name)
        columns[name], wrong, found = column(name, table[name].fill_null(1).to_numpy())
        bad |= empty | wrong
        faults += none + found
    broken, found = faults_of(columns)
    faults += [fault for fault in found if not bad[fault.row]]
    return names, codes, columns, bad | broken, sorted(faults, key=lambda fault: fault.row)


def _check_columns(table: object) -> None:
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        raise InvalidInput(f"specifications are read from an Arrow table, not from {type(table).__name__}")
    for name in table.column_names:
        if name not in (*COLUMNS, *OPTIONAL):
            raise unknown("column of specifications", name, (*COLUMNS, *OPTIONAL))
    for name in COLUMNS:
        if table.column_names.count(name) != 1:
            raise InvalidInput(f"specifications need one column {name!r}: they have {', '.join(table.column_names)}")
    for name in NUMBERS:
        kind = table[name].type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise InvalidInput(f"the column {name!r} must hold whole numbers or doubles, not {kind}")


def _households(text: Any) -> tuple[list[str], Any, NDArray[np.bool_], list[Fault]]:
    """The names that rows have, each once, and each row's index; a dictionary may hold doubles, nothing, or names unused."""
    import pyarrow as pa

    kind = text.type.value_type if pa.types.is_dictionary(text.type) else text.type
    if not (pa.types.is_integer(kind) or str(kind) in ("string", "large_string", "string_view")):
        raise InvalidInput(f"the column 'household' must hold texts or whole numbers, not {kind}")
    plain = text.cast(kind).cast(pa.large_string()).combine_chunks()
    bad, faults = _empty(plain, "household")
    coded = plain.fill_null("?").dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
    names, codes = coded.dictionary.to_pylist(), np.asarray(coded.indices, dtype=np.int64)
    for code, name in enumerate(names):
        try:
            check_name(name)
        except InvalidInput as error:
            bad |= codes == code
            rows = np.flatnonzero(codes == code)[:MOST_FAULTS].tolist()
            faults += [Fault(row, "household", f"is no name: {error}") for row in rows]
    return names, codes, bad, faults


def _empty(values: Any, name: str) -> tuple[NDArray[np.bool_], list[Fault]]:
    """Return where a column is null or empty."""
    if not values.null_count:
        return np.zeros(len(values), dtype=bool), []
    empty = np.array(values.is_null().to_numpy(zero_copy_only=False))
    rows = np.flatnonzero(empty)[:MOST_FAULTS].tolist()
    return empty, [Fault(row, name, "is empty: a secret must be complete") for row in rows]
