"""Bytes of a corpus: compression by content, trees, archives, long lines, damage."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.engine.seeds.files.streams import Line, Stream, open_streams, read_lines


def compressed(data: bytes) -> bytes:
    """Unix compress (LZW, 16 bits, block mode): codes in groups of eight, padded when the width grows."""
    out = bytearray(b"\x1f\x9d\x90")
    table = {bytes([value]): value for value in range(256)}
    width, group, codes = 9, [], []
    prefix = b""

    def flush(pad: bool) -> None:
        number = sum(code << (width * index) for index, code in enumerate(group))
        size = width if pad else (len(group) * width + 7) // 8
        out.extend(number.to_bytes(size if group else 0, "little"))
        group.clear()

    def emit(code: int) -> None:
        codes.append(code)
        group.append(code)
        if len(group) == 8:
            flush(pad=True)

    next_code = 257
    for value in data:
        candidate = prefix + bytes([value])
        if candidate in table:
            prefix = candidate
            continue
        emit(table[prefix])
        if next_code < 1 << 16:
            if next_code > (1 << width) - 1:
                flush(pad=True)
                width += 1
            table[candidate] = next_code
            next_code += 1
        prefix = bytes([value])
    if prefix:
        emit(table[prefix])
    flush(pad=False)
    return bytes(out)


def read(path: Path, cap: int = 1 << 20) -> list[Line]:
    return [line for stream in open_streams(path) for line in read_lines(stream, cap)]


def texts(path: Path) -> list[bytes | None]:
    return [line.content for line in read(path)]


@settings(max_examples=25, deadline=None)
@given(data=st.lists(st.sampled_from([b"alpha", b"beta\x85", b"\xe9", b"", b"gamma delta"]), min_size=1, max_size=400))
def test_a_compressed_file_reads_as_the_plain_one_whatever_its_name(
    data: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, content = tmp_path_factory.mktemp("z"), b"\n".join(data) + b"\n"
    for name, packed in [
        ("FR940104.0Z", compressed(content)),
        ("fr.Z", compressed(content)),
        ("x.gz", gzip.compress(content)),
    ]:
        (folder / name).write_bytes(packed)
        assert texts(folder / name) == data


def test_a_long_compress_file_survives_every_growth_of_its_codes(tmp_path: Path) -> None:
    data = b"".join(b"%d squared is %d\n" % (n, n * n) for n in range(20_000))
    (tmp_path / "long.Z").write_bytes(compressed(data))
    assert b"".join(raw + b"\n" for raw in texts(tmp_path / "long.Z") if raw is not None) == data


def test_a_compress_file_cut_short_or_broken_is_named(tmp_path: Path) -> None:
    data = compressed(b"".join(b"%d\n" % n for n in range(5_000)))
    (tmp_path / "bad.Z").write_bytes(data[:2_000] + b"\xff" * 400)
    with pytest.raises(UsageError, match=r"bad\.Z is damaged or cut short .*bring the file again"):
        read(tmp_path / "bad.Z")


def test_leaving_a_compress_file_early_ends_its_decoder(tmp_path: Path) -> None:
    (tmp_path / "long.Z").write_bytes(compressed(b"".join(b"%d\n" % n for n in range(100_000))))
    for stream in open_streams(tmp_path / "long.Z"):
        assert next(read_lines(stream, 100)).content == b"0"
        break


@pytest.mark.parametrize("keep", [12, 200])
def test_a_gzip_file_cut_short_is_named_with_the_last_good_line(tmp_path: Path, keep: int) -> None:
    data = gzip.compress(b"".join(b"%d\n" % n for n in range(5_000)))
    (tmp_path / "cut.gz").write_bytes(data[:keep])
    with pytest.raises(UsageError, match=r"cut\.gz is damaged or cut short \(after line \d+"):
        read(tmp_path / "cut.gz")


def test_a_tree_is_read_in_sorted_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ["b/2.txt", "a/1.txt", ".git/x", "b/.hidden"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert texts(tmp_path) == [b"a/1.txt", b"b/2.txt"]


def test_an_absent_path_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such file or folder: .*nowhere"):
        read(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="holds no file"):
        read(tmp_path)


def tarred(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        archive.addfile(tarfile.TarInfo("folder/"))
    return path


def test_members_of_an_archive_are_read_in_place_and_named(tmp_path: Path) -> None:
    path = tarred(tmp_path / "docs.tar.gz", {"../../etc/a.html": b"one\ntwo", "b.txt.gz": gzip.compress(b"three")})
    archive_lines = read(path)
    assert [(line.name.rpartition("/")[2], line.number, line.content) for line in archive_lines] == [
        ("a.html", 1, b"one"),
        ("a.html", 2, b"two"),
        ("docs.tar.gz!b.txt.gz", 1, b"three"),
    ]
    assert list(tmp_path.iterdir()) == [path]


def test_a_compress_file_in_an_archive_and_a_cut_archive_are_refused(tmp_path: Path) -> None:
    path = tarred(tmp_path / "docs.tgz", {"a.Z": compressed(b"a" * 100)})
    with pytest.raises(UsageError, match=r"a\.Z is a Unix compress file inside an archive; unpack"):
        read(path)
    path = tarred(tmp_path / "cut.tar.gz", {str(n): bytes(str(n), "ascii") * 300 for n in range(200)})
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(UsageError, match=r"cut\.tar\.gz.* is damaged or cut short"):
        read(path)


def test_only_the_newline_ends_a_line_and_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes("\ufeffa\u2028b\x85c\r\nd\x0be".encode())
    assert texts(tmp_path / "x") == ["a\u2028b\x85c".encode(), b"d\x0be"]


def test_a_line_over_the_cap_is_passed_over_in_small_pieces(tmp_path: Path) -> None:
    bomb = gzip.compress(b"ok\n" + b"x" * 50_000_000 + b"\nlast, of 12\n")
    assert len(bomb) < 60_000
    (tmp_path / "bomb.gz").write_bytes(bomb)
    assert [(line.number, line.content) for line in read(tmp_path / "bomb.gz", cap=12)] == [
        (1, b"ok"),
        (2, None),
        (3, b"last, of 12"),
    ]


@given(sizes=st.lists(st.integers(0, 9), max_size=8), cap=st.integers(1, 6))
def test_the_cap_counts_the_bytes_of_the_line_alone(sizes: list[int], cap: int) -> None:
    data = b"\n".join(b"x" * size for size in sizes)
    read_back = list(read_lines(Stream("x", "x", io.BytesIO(data)), cap))
    expected = [None if size > cap else b"x" * size for size in sizes]
    assert [line.content for line in read_back] == (expected[:-1] if sizes and sizes[-1] == 0 else expected)
