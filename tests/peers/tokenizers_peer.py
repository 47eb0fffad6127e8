#!/usr/bin/env python3
"""Tokens beside those of Hugging Face's tokenizers: of each kind of
tokenizer.json that is read, over texts that are drawn; and bytes a second.

    tokenizers_peer.py [--texts N] [--json FILE]

Run by a Python that has `tokenizers`, from PyPI; status 77 where it has not.
TOKENS is the program that is held against it, else build/release/tests/tokens.
The tokenizers are trained here, on the repository's documents, with the steps
that GPT-2, Llama 2 and 3 and Qwen have, and others.

Bar: every token of every text the same. Status 1 where one is not. Both sides
take one thread for speeds, which are printed and not judged.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
try:
    import tokenizers
    from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                            normalizers, pre_tokenizers, trainers)
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
TOKENS = os.environ.get("TOKENS", str(ROOT / "build/release/tests/tokens"))
DOCUMENTS = [path.read_text(encoding="utf-8") for path in
             sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"])]
END = "<|endoftext|>"
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# Texts are made of these.
PIECES = ["abcdefgh ", "  \t\n\r", "0123456789", "\u00e4\u00f6\u00fc\u00df\u00e9",
          "\u4e2d\u6587\u5b57\u65e5\u672c", "\U0001f600\U0001f44d\U0001f3fd\u200d",
          "\u0301\u0327\u0308ae", "\u0130\u0131\u017fK", "\u00a0\u2003\u3000",
          "'s't're've'm'll'd'S", "\u2581_\u2581", "\ufb01\u2460\u00b2\u00bd\u2163",
          " .,;:!?-()[]{}", "\x00\x07\x1b\ufeff"]


def trained(tokenizer, size, special=(), alphabet=True):
    letters = ({"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
               if alphabet else {"limit_alphabet": 60})
    tokenizer.train_from_iterator(DOCUMENTS, trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), show_progress=False,
        **letters))
    return tokenizer


def of_bytes(size, *steps, prefix=False, regex=True, normalizer=None,
             special=(END,), **model):
    made = Tokenizer(models.BPE(**model))
    made.pre_tokenizer = pre_tokenizers.Sequence([
        *steps, pre_tokenizers.ByteLevel(add_prefix_space=prefix,
                                         use_regex=regex)])
    made.decoder = decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    return trained(made, size, special)


def with_added(tokenizer, *added):
    tokenizer.add_tokens(list(added))
    return tokenizer


def of_characters(words=None, fuse=True, fallback=True):
    """As Llama 2 has it; `words`: another pre_tokenizer."""
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse,
                                byte_fallback=fallback))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    by_bytes = [f"<0x{byte:02X}>" for byte in range(256)] if fallback else []
    trained(made, 2500, ["<unk>", "<s>", "</s>", *by_bytes, END], False)
    file = json.loads(made.to_str())
    file["added_tokens"] = [x for x in file["added_tokens"]
                            if x["content"] not in by_bytes]
    if words is None:
        file["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "},
             "content": "\u2581"}]}
    file["pre_tokenizer"] = words
    return Tokenizer.from_str(json.dumps(file))


def blanks(scheme, split):
    return {"type": "Metaspace", "replacement": "\u2581",
            "prepend_scheme": scheme, "split": split}


def split(expression, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(expression), behavior, invert=invert)


KINDS = {
    "gpt2": lambda: of_bytes(2000),
    "prefix": lambda: with_added(of_bytes(1500, prefix=True),
                                 AddedToken("docs", normalized=True)),
    "llama3": lambda: of_bytes(3000, split(WORDS), regex=False,
                               ignore_merges=True, special=(END, "<|end|>")),
    "qwen": lambda: with_added(
        of_bytes(2500, split(WORDS.replace("{1,3}", ""), "removed", True),
                 regex=False, normalizer=normalizers.NFC()),
        AddedToken("\u00e9\u0301", normalized=True),
        AddedToken("<tool>", normalized=False)),
    "nfkd": lambda: of_bytes(2000, normalizer=normalizers.Sequence(
        [normalizers.NFKD(), normalizers.Replace("a", "bb")])),
    "digits": lambda: of_bytes(
        2000, pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Split("-", "isolated")),
    "llama2": of_characters,
    "unknown": lambda: of_characters(fallback=False),
    "unknown apart": lambda: of_characters(fuse=False, fallback=False),
    "metaspace": lambda: of_characters(blanks("first", True)),
    "metaspace whole": lambda: of_characters(blanks("always", False)),
}


def drawn(draw):
    out = []
    for _ in range(draw.choice([1, 3, 40, 400])):
        pieces = draw.choice([*PIECES, None])
        out.append(END if pieces is None else
                   "".join(draw.choice(pieces) for _ in range(draw.randint(1, 6))))
    return "".join(out)


def ours(tokenizer, paths):
    """Lists of tokens, and bytes a second."""
    done = subprocess.run([TOKENS, tokenizer, *paths], capture_output=True,
                          check=True, text=True)
    size, seconds = re.search(r"(\d+) bytes in (\S+) s", done.stderr).groups()
    return ([[int(x) for x in line.split()]
             for line in done.stdout.splitlines()],
            int(size) / float(seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--texts", type=int, default=50)
    parser.add_argument("--json")
    options = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "tokenizer.json")
    draw = random.Random(1)
    rows, wrong = [], 0
    long_text = "\n".join(DOCUMENTS) * 4
    print(f"tokenizers {tokenizers.__version__}")
    for kind, make in KINDS.items():
        theirs = make()
        theirs.save(path)
        texts = [*DOCUMENTS, *(drawn(draw) for _ in range(options.texts))]
        paths = []
        for i, text in enumerate(texts):
            paths.append(os.path.join(folder.name, str(i)))
            with open(paths[-1], "w", encoding="utf-8", newline="") as file:
                file.write(text)
        found, _ = ours(path, paths)
        different = sum(a != theirs.encode(text, add_special_tokens=False).ids
                        for a, text in zip(found, texts, strict=True))
        wrong += different
        with open(paths[0], "w", encoding="utf-8", newline="") as file:
            file.write(long_text)
        _, rate = ours(path, paths[:1])
        start = time.monotonic()
        theirs.encode(long_text, add_special_tokens=False)
        their_rate = (len(long_text.encode())
                      / (time.monotonic() - start))
        rows.append({"kind": kind, "texts": len(texts), "different": different,
                     "mb_per_s": rate / 1e6, "their_mb_per_s": their_rate / 1e6})
        print(f"{kind:<16} {different} of {len(texts)} texts differ; "
              f"{rate / 1e6:.1f} MB/s, theirs {their_rate / 1e6:.1f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
