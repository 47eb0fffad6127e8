#!/usr/bin/env python3
"""Makes the seeds that are not text: seeds.py FOLDER writes FOLDER/TARGET/NAME.
They are small, valid where that is easy, and the same every time."""

import gzip
import io
import json
import os
import sqlite3
import struct
import sys
import tarfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "process"))

from checksum import crc32c  # noqa: E402

MESSAGE_TYPES = 120  # some more than there are
MESSAGE_KINDS = 16


def array(shape, kind, data, version=1):
    text = (f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, "
            "}").ljust(117 if version == 1 else 115) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


def zipped(data):
    return gzip.compress(data, mtime=0)


def frames():
    """mode 1: kind, six numbers, three, length of the payload, it."""
    def frame(kind, payload=b"", numbers=(1, 2, 3, 0, 0, 0), more=(0, 0, 0)):
        return bytes([kind]) + struct.pack("<6Q3IH", *numbers, *more,
                                           len(payload)) + payload

    for kind in range(MESSAGE_KINDS):
        for words in (0, 1, 4, 1024):
            yield (f"{kind}-{words}",
                   b"\1" + frame(kind, struct.pack(f"<{words}I",
                                                   *range(words))))
        lent = struct.pack("<QQII", 64, 1, 0, 3)
        yield f"{kind}-lent", b"\1" + frame(
            kind | 0x40, lent, (1, 2, 3, 4, 5, 6), (1, 2, 4096))
    yield "all", b"\1" + b"".join(frame(kind, bytes(16))
                                  for kind in range(MESSAGE_KINDS))
    yield "long", b"\1" + frame(2 | 0x80, b"abcd") + b"\xff\xff\xff\x03"
    yield "raw", b"\0TRLK\1\0" + bytes(200)


def greetings():
    def text(value):
        return struct.pack("<H", len(value)) + value

    yield "hello", b"\0" + struct.pack("<IIB", 0x6f6c6c68, 4, 1) \
        + text(b"0" * 32) + struct.pack("<4Q", 1, 2, 3, 4) + text(b"ps:0") \
        + text(b"worker:1") + struct.pack("<II3B", 1, 2, 0, 1, 0)
    yield "older", b"\0" + struct.pack("<II", 0x6f6c6c68, 1)
    yield "welcome", b"\1" + struct.pack("<IQ", 0x636c6577, 7) \
        + text(b"no room") + b"\1\0"
    yield "endpoint", b"\2" + b"127.0.0.1:41234;unix=troupe-0a;host=1b;id=2c;" \
        b"key=00112233445566778899aabbccddeeff"
    yield "brackets", b"\2" + b"[[]:1;unix=a;host=1b;id=2c;" \
        b"key=00112233445566778899aabbccddeeff"
    yield "frame", b"\3" + struct.pack("<IHH", 0x4b4c5254, 1, 64) + bytes(72)


def messages():
    """Zeros are a valid value of most types, ones have an item in each list."""
    for number in range(MESSAGE_TYPES):
        kind = struct.pack("<H", number)
        yield f"{number}-zeros", kind + bytes(160)
        yield f"{number}-ones", kind + b"\1" * 320


def journal_file():
    """As actors/journal/journal_file.cpp makes it, on small pages."""
    path = "seed.db"
    for count in (0, 3, 12):
        base = sqlite3.connect(path)
        base.executescript(
            "PRAGMA page_size=512; PRAGMA application_id=0x54524a31; "
            "PRAGMA user_version=2; CREATE TABLE events (id INTEGER PRIMARY "
            "KEY, unix_ms INTEGER NOT NULL, term INTEGER NOT NULL, kind TEXT "
            "NOT NULL, body TEXT NOT NULL, checksum INTEGER NOT NULL)")
        check = 0
        for number in range(1, count + 1):
            row = (number, 1000, 1, "restart",
                   '{"role":"ps:0","how":"signal 9"}')
            check = crc32c("|".join(map(str, row)).encode(), check)
            base.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
                         (*row, check))
        base.commit()
        base.close()
        with open(path, "rb") as file:
            data = file.read()
        os.remove(path)
        for way, name in enumerate(("read", "resume")):
            yield f"{name}-{count}", bytes([way]) + data


def safetensors():
    def file(header, data):
        return struct.pack("<Q", len(header)) + header + data

    yield "two", file(
        b'{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],'
        b'"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[],'
        b'"data_offsets":[8,12]}}', bytes(12))
    yield "none", file(b"{}", b"")
    yield "long", struct.pack("<Q", 1 << 40) + b"{}"


def manifest():
    text = (b'{"format":1,"crc32c":0,"checkpoint":{"step":7,"whole":true,'
            b'"written_at":"","version":"1","cause":"end","facts":{"m":"x"},'
            b'"settings":{},"period":{"async":false,"step":0,"updates":0},'
            b'"slices":[{"variable":"a","offset":0,"count":3,"updates":7,'
            b'"lease_floor":4,"leases_above":[6,9]}],"files":[{"name":"a",'
            b'"bytes":24,"header_bytes":8,"header_crc32c":0}],"tensors":['
            b'{"name":"a","dtype":"F32","shape":[2,2],"file":"a","offset":8,'
            b'"bytes":16,"crc32c":0}]}}')
    yield "whole", struct.pack("<H", len(text)) + text + bytes(24)
    yield "short", struct.pack("<H", len(text)) + text + bytes(9)


def beginning():
    """What to replace, which one, by what (targets/beginning.cpp)."""
    def edit(what, which, value):
        return struct.pack("<BHQ", what, which, value)

    yield "as-it-was", b""
    for which in range(0, 60, 3):
        yield f"number-{which}", edit(0, which, 1 << 62)
        yield f"smaller-{which}", edit(1, which, 1)
    for which in (40, 80, 400):
        yield f"file-{which}", edit(2, which, (1 << 63) + 5)


def data_npy():
    x = array("(4, 2)", "<f4", struct.pack("<8f", *range(8)))
    y = array("(4,)", "|u1", bytes([0, 1, 2, 1]))
    real = array("(4,)", "<f8", struct.pack("<4d", *range(4)))
    wide = array("(4, 2)", "<i8", struct.pack("<8q", *range(8)), 2)
    for name, way, features, labels in (
            ("plain", 0, x, y), ("numbers", 2, x, real), ("wide", 4, wide, y)):
        yield name, bytes([way]) + struct.pack("<H", len(features)) \
            + features + labels
        packed = zipped(features)
        yield name + "-gz", bytes([way | 1]) \
            + struct.pack("<H", len(packed)) + packed + zipped(labels)


def data_images():
    labels = struct.pack(">II", 2049, 4) + bytes([1, 2, 3, 4])
    images = struct.pack(">4I", 2051, 4, 28, 28) + bytes(4 * 784)
    yield "idx", bytes([0, len(labels)]) + labels + images
    packed = zipped(labels)
    yield "idx-gz", bytes([1, len(packed)]) + packed + zipped(images)
    yield "cifar10", b"\2" + bytes(3 * 3073)


def compressed(*texts):
    """Way 1: a .gz file of the default options."""
    for index, text in enumerate(texts):
        packed = zipped(text)
        yield f"{index}", b"\1" + packed
        yield f"{index}-cut", b"\1" + packed[:-6]
        yield f"{index}-twice", b"\1" + packed + packed
    raw = zlib.compress(texts[0])
    yield "zlib", b"\1" + raw


def criteo_lines():
    return b"".join(
        (b"1" if row % 2 else b"0")
        + b"".join(b"\t" + (b"" if i % 5 == row else b"%d" % (i * 37 - 5))
                   for i in range(13))
        + b"".join(b"\t" + (b"" if i % 7 == row else b"68fd1e64")
                   for i in range(26)) + b"\n" for row in range(4))


def tokenizer():
    """A tokenizer.json with its length, and a text (targets/tokenizer.cpp)."""
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3,
                                      "\u0120a": 4, "\u2581": 5, "<unk>": 6},
             "merges": ["a b", "\u0120 a"], "unk_token": "<unk>"}
    by_bytes = {"type": "ByteLevel", "add_prefix_space": True}
    split = {"type": "Split", "pattern": {"Regex": "\\p{L}+|\\s"},
             "behavior": "Removed", "invert": True}
    added = [{"id": 7, "content": "<a>", "normalized": False},
             {"id": 8, "content": "\u00e9", "normalized": True}]
    blanks = {"type": "Sequence", "normalizers": [
        {"type": "NFKC"}, {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    for name, file in (
            ("bytes", {"pre_tokenizer": by_bytes, "added_tokens": added}),
            ("split", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                split, {**by_bytes, "add_prefix_space": False}]}}),
            ("characters", {"normalizer": blanks, "added_tokens": added}),
            ("metaspace", {"pre_tokenizer": {
                "type": "Metaspace", "replacement": "\u2581",
                "prepend_scheme": "first", "split": True}})):
        made = json.dumps({**file, "model": model},
                          ensure_ascii=False).encode()
        yield name, struct.pack("<H", len(made)) + made \
            + "ab <a>e\u0301 a\u2581b\n".encode()


def data_criteo():
    for way in (0, 2, 4):
        yield f"way-{way}", bytes([way]) + criteo_lines()
    yield from compressed(criteo_lines())


def data_csv():
    text = b'a,"b",c\n1,2,0\n-3.5,4e1,2\n"5",6,1\n7,8,0\n'
    for way in range(0, 10, 2):
        yield f"way-{way}", bytes([way]) + text
    table = (b'a,b,c\n1,x,n\n-,"y, ""z""\nw",p\n3,NA,n\n4,x,p\nNA,v,n\n'
             b'2e3,x,"p"\n')
    for way in (10, 12):
        yield f"way-{way}", bytes([way]) + table
    yield "star", b"\x0c" + b"b,c,a\nx,1,2\ny,2,2\n,3,2\nx,-1,3\n"
    yield "dates", (b"\x0e2024-02-29T13:45:07.5+01:00,u,1\n,v,2\n"
                    b"1999/12/31,u,1\n2000-01-01 00:00Z,w,2\n")
    yield "seconds", (b"\x10a,b,y\n946684800,x,k\n-5.5,y,l\n0,x,k\n"
                      b"1e3,z,l\n")
    yield "semicolons", b"\x08y;x\n1;2\n0;3\n1;4\n0;5\n"
    yield from compressed(text)


def data_libsvm():
    text = b"1 1:0.5 3:2 9:1e-3\n0 2:1\n1 4:1 # x\n0 1:1\n1 2:3 4:5\n0 9:1\n"
    for way in range(0, 6, 2):
        yield f"way-{way}", bytes([way]) + text
    yield from compressed(text)


def data_text():
    text = "Some wörds, ∑ more.\n".encode() * 20
    for way in (0, 2):
        yield f"way-{way}", bytes([way]) + text
    yield from compressed(text)


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(**features):
    """A serialised tf.train.Example; bytes, lists of floats or of integers."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            value = message(1, message(1, value))
        elif isinstance(value[0], float):
            value = message(2, message(1, struct.pack(f"<{len(value)}f",
                                                      *value)))
        else:
            value = message(3, message(1, b"".join(
                varint(x & (1 << 64) - 1) for x in value)))
        entries += message(1, message(1, name.encode()) + message(2, value))
    return message(1, entries)


def tfrecord(*records):
    def masked(data):
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8)
                           & 0xffffffff)

    out = b""
    for record in records:
        length = struct.pack("<Q", len(record))
        out += length + masked(length) + record + masked(record)
    return out


def png(width, height, pixels, kind=2):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(
            ">I", zlib.crc32(name + data))

    stride = len(pixels) // height
    rows = b"".join(b"\0" + pixels[i * stride:(i + 1) * stride]
                    for i in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(
        b"IHDR", struct.pack(">2I5B", width, height, 8, kind, 0, 0, 0)) \
        + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def tar_archive(kind, *members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


# 32 x 16 pixels, from black to red from left to right.
JPEG = bytes.fromhex(
    "ffd8ffdb004300281c1e231e19282321232d2b28303c64413c37373c7b585d496491"
    "8099968f808c8aa0b4e6c3a0aadaad8a8cc8ffcbdaeef5ffffff9bc1fffffffaffe6"
    "fdfff8ffdb0043012b2d2d3c353c76414176f8a58ca5f8f8f8f8f8f8f8f8f8f8f8f8"
    "f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8"
    "f8f8f8f8ffc00011080010002003012200021101031101ffc4001500010100000000"
    "000000000000000000000304ffc40017100003010000000000000000000000000000"
    "020361ffc400160101010100000000000000000000000000030204ffc40017110003"
    "010000000000000000000000000000010302ffda000c03010002110311003f008162"
    "22c4ad63822c70b740715245888b12b58e08b1c0dd0d98a9ffd9")


def data_records():
    def way(choice, data):
        yield f"{choice}", bytes([choice * 4]) + data
        yield f"{choice}-files", bytes([choice * 4 + 2]) + data
        yield f"{choice}-gz", bytes([choice * 4 + 1]) + zipped(data)

    image = png(3, 2, bytes(range(18)))
    grey = png(5, 4, bytes(range(20)), 0)
    yield from way(0, tfrecord(*(example(label=[i % 3], x=[1.0, float(i)])
                                 for i in range(4))))
    yield from way(1, tfrecord(*(example(x=[1, -2], y=[i * 0.5], z=[1.5])
                                 for i in range(4))))
    yield from way(2, tfrecord(*(example(image=image, label=[i])
                                 for i in range(3))))
    members = [(f"a/{i}.{end}", data) for i in range(3)
               for end, data in (("png", image), ("cls", b"%d" % i))]
    yield from way(3, tar_archive(tarfile.USTAR_FORMAT, *members))
    yield from way(4, tar_archive(tarfile.PAX_FORMAT, *members,
                                  ("\u2211" * 70 + ".png", grey),
                                  ("\u2211" * 70 + ".cls", b"1")))
    yield from way(5, tar_archive(tarfile.GNU_FORMAT, *(
        ("n" * 150 + f"{i}.{end}", data) for i in range(3)
        for end, data in (("bin", b"1234"), ("json", b"1"), ("txt", b"-")))))
    yield from way(6, b'{"x":[1,2,[3]],"y":true,"label":1}\n\n'
                   b'{"label":0,"x":[4,5,6],"y":0.5}\n')
    yield from way(7, b'{"a":1,"b":[2],"c":-1e3}\n{"a":3,"b":[2],"c":2}\n')
    for choice in (8, 9):
        yield from way(choice, image)
        yield f"{choice}-grey", bytes([choice * 4]) + grey
        yield f"{choice}-jpeg", bytes([choice * 4]) + JPEG
        yield f"{choice}-huge", bytes([choice * 4]) + png(60000, 60000, b"")


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    for target in (frames, greetings, messages, journal_file, safetensors,
                   manifest, beginning, data_npy, data_images, data_criteo, data_csv,
                   data_libsvm, data_text, data_records, tokenizer):
        name = target.__name__
        os.makedirs(name, exist_ok=True)
        for seed, data in target():
            with open(os.path.join(name, seed), "wb") as file:
                file.write(data)
    with open("made", "w") as file:
        file.write("")


if __name__ == "__main__":
    main()
