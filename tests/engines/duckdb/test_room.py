"""A full disk under the scratch files is said as that: it is no fault of a file, and nothing that is missing."""

import contextlib
import errno
import os
import shutil
import subprocess

import pytest

from halflife.engines import open_source
from halflife.engines.duckdb import scratch, source
from halflife.engines.duckdb.source import NoRoom, NotEnoughMemory
from halflife.errors import InvalidInput
from halflife.policy import channels
from publisher.town import make, write_readings


@pytest.fixture
def asked(tmp_path):
    """A file of readings and a question about it."""
    policy = make(tmp_path)
    return write_readings(tmp_path), channels(policy)[0].question(1, 5)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 2 MB, where that can be had."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("only root mounts a disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", place]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(place, left):
    """Write to a disk until it is full, then give back so many bytes."""
    with open(place / "fill", "wb", buffering=0) as file:
        with pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))
        file.truncate(max(0, file.tell() - left))


@pytest.mark.parametrize("left", [0, 4096, 65_536, 1 << 18])
def test_a_full_disk_is_no_unreadable_file(asked, small_disk, left):
    """Before: `readings.csv cannot be read to its end: a file may be damaged`, so that everybody counted as missing."""
    file, question = asked
    fill(small_disk, left)
    said = r"the disk of '.*small', where scratch files are kept, is full: make room"
    with pytest.raises(NoRoom, match=said), contextlib.closing(open_source([file], scratch=small_disk)) as engine:
        engine.aggregate(question)
    (small_disk / "fill").unlink()
    with contextlib.closing(open_source([file], scratch=small_disk)) as engine:
        engine.aggregate(question)
    assert not list(small_disk.iterdir())


def test_a_full_disk_is_no_bad_input():
    """Whoever leaves out what cannot be read, or counts people as missing, catches `InvalidInput`."""
    assert not issubclass(NoRoom, InvalidInput)


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("max_temp_directory_size = '1MB'", NoRoom),
        ("temp_directory = ''", NotEnoughMemory),
    ],  # the first: the disk's room
)
def test_memory_that_cannot_be_put_aside_is_a_full_disk(asked, tmp_path, monkeypatch, setting, refusal):
    monkeypatch.setattr(source, "MEMORY", "20MB")
    with contextlib.closing(open_source([asked[0]], scratch=tmp_path)) as engine:
        engine._duck.execute(f"SET {setting}")
        with pytest.raises(refusal):
            engine._run("SELECT count(*) FROM (SELECT DISTINCT i * 7 FROM range(5000000) t(i))")


def test_a_scratch_folder_that_cannot_be_made_on_a_full_disk(asked, tmp_path, monkeypatch):
    def full(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(scratch, "_make_lock", full)
    before = set(tmp_path.iterdir())
    with pytest.raises(NoRoom, match=r"readings\.csv cannot be read now"):
        open_source([asked[0]], scratch=tmp_path)
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("error", ["IOException", "InvalidInputException"])
def test_no_file_is_called_like_a_full_disk(asked, tmp_path, monkeypatch, error):
    """Else whoever writes files could hold up a publication: a disk that is full is waited for."""
    import duckdb

    class Full:
        said = ""

        def execute(self, sql):
            raise getattr(duckdb, error)(self.said)

        def close(self): ...

    engine = open_source([asked[0]], scratch=tmp_path)
    monkeypatch.setattr(engine, "_duck", Full())
    for said in ('Could not read file "a: No space left on device"', "No space left on device"):
        monkeypatch.setattr(Full, "said", said)
        with pytest.raises(InvalidInput):
            engine.aggregate(asked[1])
    monkeypatch.setattr(Full, "said", 'Could not write file "a": No space left on device')
    with pytest.raises(NoRoom if error == "IOException" else InvalidInput):
        engine.aggregate(asked[1])
