"""Files that somebody sends: the right kind, no larger than allowed, no bombs."""

from __future__ import annotations

import asyncio
import gzip
import io
import zipfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epsilens.app import uploads
from epsilens.app.arrow_sizes import declared_bytes
from epsilens.errors import InputError

MEGABYTE = 2**20


def check(tmp_path: Path, content: bytes, wanted: str, largest: int = 64 * MEGABYTE) -> None:
    path = tmp_path / "file.table"
    path.write_bytes(content)
    uploads.check_content(path, wanted=wanted, largest=largest)


def arrow_bytes(table: pa.Table, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


TABLE = pa.table({"age": [31, 42], "smokes": ["yes", "no"]})


def test_the_four_kinds_are_taken(tmp_path: Path) -> None:
    text = b"age,smokes\n31,yes\n"
    check(tmp_path, text, "text")
    check(tmp_path, "age,smokes\n31,yes\n".encode("utf-16"), "text")
    check(tmp_path, gzip.compress(text), "gzip")
    check(tmp_path, gzip.compress(text) + gzip.compress(text), "gzip")
    check(tmp_path, parquet_bytes(TABLE), "parquet")
    check(tmp_path, arrow_bytes(TABLE), "arrow")


@pytest.mark.parametrize("wanted", ["text", "gzip", "parquet", "arrow"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\0\1\2", b"MZ\0\0", b"\x1f\x8b", b"\x1f\x8b\x08\0garbage", b"PAR1", b"ARROW1\0\0"],
)
def test_other_kinds_are_refused_in_one_line(tmp_path: Path, content: bytes, wanted: str) -> None:
    with pytest.raises(InputError, match=r"^[^\n]+\.$"):
        check(tmp_path, content, wanted)


def test_a_bomb_of_zeros_is_not_unpacked(tmp_path: Path) -> None:
    bomb = gzip.compress(b"0" * (64 * MEGABYTE))
    assert len(bomb) < MEGABYTE
    with pytest.raises(uploads.TooLargeError, match="unpacks to far more"):
        check(tmp_path, bomb, "gzip", largest=10**12)


def test_what_unpacks_to_too_much_is_refused_whatever_its_ratio(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes(3 * MEGABYTE)
    with pytest.raises(uploads.TooLargeError):
        check(tmp_path, gzip.compress(noise), "gzip", largest=MEGABYTE)
    check(tmp_path, gzip.compress(noise), "gzip", largest=4 * MEGABYTE)


def test_a_bomb_hidden_behind_an_honest_member_is_found(tmp_path: Path) -> None:
    bomb = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"0" * (64 * MEGABYTE))
    with pytest.raises(uploads.TooLargeError):
        check(tmp_path, bomb, "gzip", largest=10**12)


def test_a_parquet_file_of_countless_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = pa.table({"a": pa.array([0]).take(pa.array([0] * 2_000_000))})
    content = parquet_bytes(many)
    assert len(content) < MEGABYTE
    monkeypatch.setattr(uploads, "MOST_CELLS", 1_000_000)
    with pytest.raises(uploads.TooLargeError, match="million fields"):
        check(tmp_path, content, "parquet")


def test_a_long_text_that_stands_for_many_rows_is_refused(tmp_path: Path) -> None:
    long = pa.array(["x" * MEGABYTE]).dictionary_encode()
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 400, pa.int32()), long.dictionary)
    content = parquet_bytes(pa.table({"a": repeated}))
    assert len(content) < 2 * MEGABYTE
    with pytest.raises(uploads.TooLargeError, match="unpacks to far more"):
        check(tmp_path, content, "parquet", largest=20 * MEGABYTE)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.large_binary(), pa.binary(MEGABYTE)])
def test_one_long_value_of_any_type_that_stands_for_many_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    content = parquet_bytes(pa.table({"a": pa.array([b"x" * MEGABYTE] * 60, kind)}))
    assert len(content) < 2 * MEGABYTE
    # Found out without writing the values out.
    most = []
    measured = uploads._unpacked_bytes
    monkeypatch.setattr(
        uploads, "_unpacked_bytes", lambda batch: most.append(batch.nbytes) or measured(batch)
    )
    with pytest.raises(uploads.TooLargeError, match="unpacks to far more"):
        check(tmp_path, content, "parquet", largest=20 * MEGABYTE)
    assert max(most, default=0) < 2 * MEGABYTE


def test_lists_and_structures_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_unpacked_bytes", None)
    for nested in ([[1, 2], [3]], [{"a": 1}, {"a": 2}]):
        with pytest.raises(InputError, match="lists or structures"):
            check(tmp_path, parquet_bytes(pa.table({"a": nested})), "parquet")


def test_an_arrow_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    zeros = pa.table({"a": pa.array([0] * 1_000_000, pa.int64())})
    content = arrow_bytes(zeros, compression="zstd")
    assert len(content) < MEGABYTE
    with pytest.raises(uploads.TooLargeError):
        check(tmp_path, content, "arrow", largest=MEGABYTE)
    check(tmp_path, content, "arrow")


def stream_bytes(table: pa.Table, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("written", [arrow_bytes, stream_bytes])
def test_an_arrow_bomb_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: Any
) -> None:
    # The file says that one small buffer unpacks to more bytes than there are.
    zeros = pa.table({"a": pa.array([7] * 100_000, pa.int64())})
    honest = written(zeros, compression="zstd")
    size = (800_000).to_bytes(8, "little")
    assert honest.count(size) == 1
    bomb = honest.replace(size, (2**50).to_bytes(8, "little"))

    def unpacked(source: object) -> Any:
        raise AssertionError("the file was unpacked")

    monkeypatch.setattr(uploads, "_batches", unpacked)
    with pytest.raises(uploads.TooLargeError, match="unpacks to far more"):
        check(tmp_path, bomb, "arrow")


@pytest.mark.parametrize("written", [arrow_bytes, stream_bytes])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_an_arrow_file_says_what_it_unpacks_to(
    tmp_path: Path, written: Any, compression: str | None
) -> None:
    table = pa.table(
        {"a": pa.array(range(10_000)), "b": pa.array(["yes", "no"] * 5_000).dictionary_encode()}
    )
    content = written(table, compression=compression)
    path = tmp_path / "file.arrow"
    path.write_bytes(content)
    # Whole numbers, places in the list of answers, the list; buffers are filled up to 64 bytes.
    assert sum(declared_bytes(path)) == pytest.approx(80_000 + 40_000 + 17, abs=256)
    # Wherever it is cut or overwritten it is refused, or read.
    rng = np.random.default_rng(0)
    for place in rng.integers(8, len(content), 150):
        for damaged in (
            content[:place],
            content[:place] + rng.bytes(4) + content[place + 4 :],
        ):
            with suppress(InputError):
                check(tmp_path, damaged, "arrow")


def test_one_text_to_which_many_point_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", minversion="16")
    long = pa.array(["x" * MEGABYTE], pa.string_view())
    one, text = long.buffers()[1], long.buffers()[2]
    many = pa.py_buffer(one.to_pybytes() * 400)
    column = pa.Array.from_buffers(pa.string_view(), 400, [None, many, text])
    content = arrow_bytes(pa.table({"a": column}))
    assert len(content) < 2 * MEGABYTE
    with pytest.raises(uploads.TooLargeError, match="unpacks to far more"):
        check(tmp_path, content, "arrow", largest=20 * MEGABYTE)


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "..\\..\\boot.ini", "survey", "survey.exe", "a.gz", ".", "x.csv.exe"],
)
def test_names_that_end_otherwise_are_refused(visitor: Any, name: str) -> None:
    answer = visitor.upload(b"age,smokes\n31,yes\n", name)
    assert answer.status_code == 422
    assert "ending in .csv" in answer.json()["error"]


@pytest.mark.parametrize(
    "name",
    ["../../../etc/survey.csv", "/etc/survey.csv", "C:\\data\\survey.csv", "a/b\0/survey.csv"],
)
def test_a_name_is_never_a_path(visitor: Any, csv_bytes: bytes, name: str) -> None:
    answer = visitor.upload(csv_bytes, name)
    assert answer.status_code == 201
    assert answer.json()["name"] == "survey.csv"
    stored = visitor.service.store.table(answer.json()["id"]).path
    assert stored.parent == visitor.service.store.folder / "tables"
    assert stored.name == f"{answer.json()['id']}.table"
    assert stored.stat().st_mode & 0o777 == 0o600
    assert visitor.service.store.folder.stat().st_mode & 0o777 == 0o700


def test_too_large_a_file_leaves_nothing_behind(visitor: Any) -> None:
    before = sorted((visitor.service.store.folder / "tables").iterdir())
    large = b"a,b\n" + b"1,2\n" * (2 * MEGABYTE)
    assert visitor.upload(large).status_code == 413
    # Without a length it is cut off where the limit is.
    pieces = (large[start : start + MEGABYTE] for start in range(0, len(large), MEGABYTE))
    answer = visitor.ask("POST", "/api/tables", params={"name": "a.csv"}, content=pieces)
    assert answer.status_code == 413
    assert "--max-upload" in answer.json()["error"]
    assert sorted((visitor.service.store.folder / "tables").iterdir()) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"PK\x03\x04 a workbook"),
        ("a.parquet", b"age,smokes\n1,yes\n"),
        ("a.csv", b""),
        ("a.csv", b"\x00\x01\x02"),
        ("a.csv.gz", gzip.compress(b"0" * (64 * MEGABYTE))),
        ("a.parquet", b"PAR1 and then nothing"),
        ("a.csv", b"a,a\n1,2\n"),
    ],
)
def test_what_is_no_table_is_refused_and_not_kept(visitor: Any, name: str, content: bytes) -> None:
    before = sorted((visitor.service.store.folder / "tables").iterdir())
    answer = visitor.upload(content, name)
    assert answer.status_code in {413, 422}
    assert "\n" not in answer.json()["error"]
    assert ".table" not in answer.json()["error"]
    assert sorted((visitor.service.store.folder / "tables").iterdir()) == before


def test_other_formats_are_read(visitor: Any) -> None:
    frame = pd.DataFrame({"age": range(30), "smokes": ["yes", "no"] * 15})
    table = pa.Table.from_pandas(frame)
    for name, content in (
        ("a.parquet", parquet_bytes(table)),
        ("a.arrow", arrow_bytes(table)),
        ("a.csv.gz", gzip.compress(frame.to_csv(index=False).encode())),
        ("a.tsv", frame.to_csv(index=False, sep="\t").encode()),
    ):
        answer = visitor.upload(content, name)
        assert answer.status_code == 201, answer.text
        schema = visitor.json("POST", f"/api/tables/{answer.json()['id']}/schema", {})
        assert [c["name"] for c in schema["document"]["columns"]] == ["age", "smokes"]


def workbook_bytes(frame: pd.DataFrame) -> bytes:
    pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    sink = io.BytesIO()
    frame.to_excel(sink, index=False)
    return sink.getvalue()


def spss_bytes(frame: pd.DataFrame, folder: Path, **options: Any) -> bytes:
    pyreadstat = pytest.importorskip("pyreadstat")
    pyreadstat.write_sav(frame, folder / "a.sav", **options)
    return (folder / "a.sav").read_bytes()


def test_workbooks_and_files_of_statistics_are_read(visitor: Any, tmp_path: Path) -> None:
    codes = pd.DataFrame({"age": range(30), "smokes": [1.0, 2.0] * 15})
    words = codes.assign(smokes=["yes", "no"] * 15)
    labels = {"smokes": {1: "yes", 2: "no"}}
    assert {".xlsx", ".sav", ".dta", ".sas7bdat"} <= set(
        visitor.json("GET", "/api/session")["suffixes"]
    )
    for name, content in (
        ("a.xlsx", workbook_bytes(words)),
        ("a.sav", spss_bytes(codes, tmp_path, variable_value_labels=labels)),
    ):
        answer = visitor.upload(content, name)
        assert answer.status_code == 201, answer.text
        assert answer.json()["format"] == ("excel" if name == "a.xlsx" else "spss")
        schema = visitor.json("POST", f"/api/tables/{answer.json()['id']}/schema", {})
        assert schema["document"]["columns"][1]["categories"] == ["no", "yes"]
        for half in (content[: len(content) // 2], content[:20]):
            answer = visitor.upload(half, name)
            assert answer.status_code == 422
            assert "damaged" in answer.json()["error"]
            if name == "a.sav":
                assert answer.json()["error"].startswith("'a.sav' must be a complete SPSS file")


@pytest.mark.parametrize("lies", [False, True])
def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path: Path, lies: bool) -> None:
    size = 64 * MEGABYTE
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", bytes(size))
    content = sink.getvalue()
    if lies:  # about what a part unpacks to
        content = content.replace(size.to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with pytest.raises(uploads.TooLargeError, match="unpacks to far more"):
        check(tmp_path, content, "excel", largest=10**12)
    with pytest.raises(uploads.TooLargeError, match="unpacks to far more"):
        check(tmp_path, workbook_bytes(pd.DataFrame({"a": [1]})), "excel", largest=1000)


def test_a_file_of_statistics_with_countless_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = spss_bytes(pd.DataFrame({"a": np.zeros(100_000)}), tmp_path, compress=True)
    assert content.startswith(b"$FL3")
    assert len(content) < 10_000
    check(tmp_path, content, "spss", largest=MEGABYTE)
    with pytest.raises(uploads.TooLargeError, match="unpacks to far more"):
        check(tmp_path, content, "spss", largest=700_000)
    monkeypatch.setattr(uploads, "MOST_CELLS", 99_999)
    with pytest.raises(uploads.TooLargeError, match="million fields"):
        check(tmp_path, content, "spss", largest=MEGABYTE)
    # Where it does not say how many there are.
    place = content.index((100_000).to_bytes(4, "little"))
    silent = content[:place] + b"\xff" * 4 + content[place + 4 :]
    with pytest.raises(uploads.TooLargeError):
        check(tmp_path, silent, "spss", largest=MEGABYTE)


def test_all_uploads_together_and_the_disk_have_their_limits(
    visitor: Any, csv_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = visitor.service.store.folder / "tables"
    before = sorted(tables.iterdir())
    assert before
    monkeypatch.setattr(uploads, "MOST_TOGETHER", 0.001)
    answer = visitor.upload(csv_bytes)
    assert answer.status_code == 413
    assert "all uploaded tables together" in answer.json()["error"]
    monkeypatch.undo()
    monkeypatch.setattr(uploads, "SPARE", 2**60)
    answer = visitor.upload(csv_bytes)
    assert answer.status_code == 413
    assert "the disk must keep" in answer.json()["error"]
    assert sorted(tables.iterdir()) == before


def test_a_file_that_ceases_to_arrive_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "LONGEST_PAUSE", 0.01)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"age,smokes\n"
        await asyncio.sleep(3600)

    def receive() -> None:
        asyncio.run(uploads.receive(pieces(), name="a.csv", folder=tmp_path, max_upload=MEGABYTE))

    # In a thread of its own: a browser that another test left open keeps a loop in this one.
    with (
        ThreadPoolExecutor(1) as alone,
        pytest.raises(uploads.StalledError, match="ceased to arrive"),
    ):
        alone.submit(receive).result()
    assert not any(tmp_path.iterdir())


def test_a_sender_that_leaves_is_no_fault(
    visitor: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is kept and nothing is printed when somebody leaves the page during an upload."""
    tables = visitor.service.store.folder / "tables"
    before = sorted(tables.iterdir())
    messages = [
        {"type": "http.request", "body": b"age,smokes\n", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent = []
    request = visitor.client.build_request("POST", "/api/tables?name=a.csv")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/tables",
        "raw_path": b"/api/tables",
        "root_path": "",
        "query_string": request.url.query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    with ThreadPoolExecutor(1) as alone:
        alone.submit(lambda: asyncio.run(visitor.client.app(scope, receive, send))).result()
    assert sent[0]["status"] == 400
    assert b"its sender left" in sent[1]["body"]
    assert sorted(tables.iterdir()) == before
    assert capfd.readouterr().err == ""
