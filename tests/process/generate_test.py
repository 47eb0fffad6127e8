"""`troupe generate` goes on with a text by saved weights: the same text for the
same seed on every instruction set, cut anywhere and given again; what cannot be
gone on with gets one line."""
# ctest: TIMEOUT 900

import collections
import itertools
import json
import os
import random
import re
import shutil
import subprocess

from cluster import TROUPE, Run, troupe
from own_folder import OwnFolder

WORDS = ["ring", "shard", "worker", "tree"]
JOB = ["--steps", "400", "--epochs", "0", "--global-batch", "32",
       "--virtual-ranks", "2", "--optimizer", "adamw", "--lr", "0.01",
       "--seed", "3", "--strategy", "one_device"]
MODELS = {
    "llama": "llama:L2-H4-K2-D32-T32",
    "gpt2": "gpt2:L1-H2-D32-T32",
    "transformer": "transformer:L1-H2-D32-T32",
}


def write_tokenizer(path, text):
    """Byte-pair encoding of a text of lower letters, blanks and lines, in which
    each word becomes a token."""
    seen = {" ": "\u0120", "\n": "\u010a"}  # as byte-level tokenizers do
    words = [tuple(seen.get(x, x) for x in word)
             for word in re.findall(r" ?[a-z]+|[^a-z]", text)]
    vocabulary = sorted({x for word in words for x in word})
    learnt = []
    while True:
        pairs = collections.Counter(
            pair for word in words for pair in itertools.pairwise(word))
        if not pairs:
            break
        (left, right), _ = max(pairs.items(), key=lambda x: (x[1], x[0]))
        learnt.append([left, right])
        vocabulary.append(left + right)
        words = [merged(word, left, right) for word in words]
    end = {"id": len(vocabulary), "content": "<|end|>", "normalized": False,
           "single_word": False, "lstrip": False, "rstrip": False,
           "special": True}
    with open(path, "w") as file:
        json.dump({"version": "1.0", "added_tokens": [end],
                   "normalizer": None,
                   "pre_tokenizer": {"type": "ByteLevel",
                                     "add_prefix_space": False},
                   "model": {"type": "BPE", "merges": learnt, "vocab": {
                       x: i for i, x in enumerate(vocabulary)}}}, file)
    return len(vocabulary) + 1


def merged(word, left, right):
    out = []
    for part in word:
        if out and out[-1] == left and part == right:
            out[-1] = left + right
        else:
            out.append(part)
    return tuple(out)


def write_text(path):
    """A line counts its words: what follows is known but for the first word."""
    draw = random.Random(3)
    with open(path, "w") as file:
        for _ in range(900):
            word = draw.choice(WORDS)
            file.write(f"{word} {word} {word}.\n")


def in_two_files(folder, parts):
    """A folder of transformers' whose weights are in several files, and an
    index, as save_pretrained writes large ones."""
    shutil.copytree(folder, parts)
    whole = os.path.join(parts, "model.safetensors")
    with open(whole, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    os.remove(whole)
    metadata = header.pop("__metadata__")
    names = sorted(header)
    weight_map = {}
    for part, own in enumerate((names[::2], names[1::2]), 1):
        name = f"model-{part:05}-of-00002.safetensors"
        described, values = {"__metadata__": metadata}, b""
        for tensor in own:
            begin, end = header[tensor]["data_offsets"]
            at = len(values)
            values += data[begin:end]
            described[tensor] = {**header[tensor],
                                 "data_offsets": [at, len(values)]}
            weight_map[tensor] = name
        text = json.dumps(described).encode()
        with open(os.path.join(parts, name), "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + values)
    with open(os.path.join(parts, "model.safetensors.index.json"),
              "w") as file:
        json.dump({"metadata": {"total_size": len(data)},
                   "weight_map": weight_map}, file)


class Generate(OwnFolder):
    def train(self, name, model, data, *flags):
        weights = self.path(f"{name}.safetensors")
        with Run("--data", data, "--model", model, *JOB, "--save", weights,
                 *flags) as run:
            run.finish()
        return weights

    def generate(self, weights, *flags, text=None, status=0):
        done = subprocess.run(
            [TROUPE, "generate", "--checkpoint", weights, *flags],
            input=text, stdin=None if text is not None else subprocess.DEVNULL,
            capture_output=True, cwd=self.folder, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        if status == 0 and "--quiet" not in flags:
            self.assertRegex(done.stderr.decode(),
                             r"\A\d+ tokens in [\d.e-]+ s, [\d.]+ tokens/s, "
                             r"after a prompt of \d+\n\Z")
        return done.stdout if status == 0 else done.stderr.decode()

    def learned(self):
        if not hasattr(self, "text"):
            self.text = self.path("text.txt")
            write_text(self.text)
        return f"text:{self.text}"

    @staticmethod
    def other_isa():
        with open("/proc/cpuinfo") as file:
            return "avx2" if " fma " in file.read() else "auto"

    def test_what_was_learned_is_gone_on_with(self):
        for name, model in MODELS.items():
            with self.subTest(model=model):
                weights = self.train(name, model, self.learned())
                for word in WORDS:
                    found = self.generate(weights, "--prompt", f"\n{word} ",
                                          "--max-tokens",
                                          str(2 * len(word) + 2))
                    self.assertEqual(found.decode(), f"{word} {word}.")

    def test_a_text_is_the_same_again_and_goes_on_from_anywhere(self):
        weights = self.train("llama", MODELS["llama"], self.learned())
        drawn = ["--temperature", "1.2", "--top-k", "12", "--top-p", "0.95",
                 "--seed", "5"]
        for rule in ([], drawn):
            whole = self.generate(weights, *rule, "--prompt", "ring ",
                                  "--max-tokens", "80")
            self.assertEqual(len(whole), 80)
            self.assertEqual(whole, self.generate(
                weights, *rule, "--prompt", "ring ", "--max-tokens", "80",
                "--isa", self.other_isa()))
            # Beyond the window of 32, too.
            for cut in (1, 27, 28, 50):
                self.assertEqual(whole, whole[:cut] + self.generate(
                    weights, *rule, "--max-tokens", str(80 - cut), "--quiet",
                    text=b"ring " + whole[:cut]))
        other = self.generate(weights, *drawn[:-1], "6", "--prompt", "ring ",
                              "--max-tokens", "80")
        self.assertNotEqual(whole, other)

    def test_a_checkpoint_says_what_it_is_of(self):
        kept = self.path("kept")
        weights = self.train("llama", MODELS["llama"], self.learned(),
                             "--checkpoint-dir", kept)
        flags = ["--prompt", "tree", "--max-tokens", "40"]
        self.assertEqual(self.generate(weights, *flags),
                         self.generate(kept, *flags))
        self.assertEqual(self.generate(weights, *flags), self.generate(
            kept, *flags, "--model", MODELS["llama"]))

    def test_tokens_are_characters_bytes_or_numbers(self):
        by_bytes = self.train("bytes", MODELS["llama"],
                              self.learned() + "?level=byte")
        self.assertEqual(
            self.generate(by_bytes, "--prompt", "\nshard ", "--max-tokens",
                          "5"), b"shard")
        numbers = self.generate(by_bytes, "--ids", "--max-tokens", "3",
                                "--prompt",
                                " ".join(str(x) for x in b"\nshard "))
        self.assertEqual(numbers.decode().split(),
                         [str(x) for x in b"sha"])
        rule = self.train("rule", MODELS["llama"],
                          "synthetic:text?samples=4000")
        found = self.generate(rule, "--prompt", "1, 2 3", "--max-tokens", "9")
        self.assertRegex(found.decode(), r"\A(\d+ ){9}\n\Z")
        self.assertTrue(all(int(x) < 27 for x in found.split()))

    def test_tokens_are_those_of_a_tokenizer(self):
        data = self.learned()
        with open(self.text) as file:
            text = file.read()
        tokenizer = self.path("tokenizer.json")
        tokens = write_tokenizer(tokenizer, text)
        kept = self.path("kept")
        weights = self.train(
            "llama", MODELS["llama"], f"{data}?tokenizer={tokenizer}",
            "--checkpoint-dir", kept, "--eval-fraction", "0.1")
        there = self.path("there")
        troupe("checkpoint", "export", weights, "--layout", "hugging_face",
               "--out", there)
        with open(os.path.join(there, "config.json")) as file:
            self.assertEqual(json.load(file)["vocab_size"], tokens)
        exported = os.path.join(there, "tokenizer.json")
        with open(exported) as new, open(tokenizer) as old:
            self.assertEqual(json.load(new)["model"], json.load(old)["model"])
        plain = self.train("plain", MODELS["llama"], data)
        def written():
            return {name: os.stat(os.path.join(there, name)).st_mtime_ns
                    for name in os.listdir(there)}
        before = written()
        troupe("checkpoint", "export", plain, "--layout", "hugging_face",
               "--out", there, status=1)  # where a tokenizer is of others
        self.assertEqual(written(), before)
        theirs = [os.path.join(there, "model.safetensors"), "--model",
                  os.path.join(there, "config.json")]
        prompt = ["--prompt", "\nshard", "--max-tokens", "3"]
        numbers = self.generate(weights, "--ids", "--prompt", "0 1",
                                "--max-tokens", "2")
        os.remove(tokenizer)  # what is kept does
        parts = self.path("parts")
        in_two_files(there, parts)
        for flags in ([weights], [kept], theirs, [there], [parts],
                      [*theirs, "--tokenizer", exported],
                      [os.path.join(parts, "model.safetensors.index.json")]):
            with self.subTest(flags=flags):
                self.assertEqual(self.generate(*flags, *prompt),
                                 b" shard shard.")
        self.assertEqual(self.generate(*theirs, "--ids", "--prompt", "0 1",
                                       "--max-tokens", "2"), numbers)
        # Who reads the text by other tokens would train on others.
        begun = subprocess.run(
            [TROUPE, "train", "--data", data, "--model", theirs[-1], *JOB,
             "--initial-weights", there, "--checkpoint-dir",
             self.path("begun")], capture_output=True, text=True, timeout=60,
            check=False)
        self.assertEqual(begun.returncode, 1, begun.stderr)
        self.assertRegex(begun.stderr, r"\Atroupe: [^\n]*another tokenizer"
                         r"[^\n]*tokenizer=[^\n]*\n\Z")
        # A text becomes its tokens, or is refused.
        scores = [troupe("evaluate", "--data", spec, "--checkpoint", weights)
                  for spec in (data, f"{data}?tokenizer={exported}")]
        self.assertEqual(*map(self.loss_of, scores))
        for score in scores:
            self.assertIn("which training did not see", score)
        self.assertEqual(self.loss_of(troupe(
            "evaluate", "--data", data, "--checkpoint", parts)), self.loss_of(
                troupe("evaluate", "--data", f"{data}?tokenizer={exported}",
                       "--checkpoint", there)))
        with open(exported) as old, open(tokenizer, "w") as new:
            other = json.load(old)
            other["model"]["merges"].reverse()
            json.dump(other, new)
        for status, words, flags in (
                (1, "has no token for 1 of", [weights, "--prompt", "shard?"]),
                (2, "--tokenizer has no effect with --ids",
                 [weights, "--ids", "--tokenizer", exported, "--prompt", "1"]),
                (1, "is no tokenizer.json",
                 [*theirs, "--tokenizer", theirs[-1], "--prompt", "a"]),
                (1, "cannot|No such file",
                 [*theirs, "--tokenizer", "none.json", "--prompt", "a"])):
            with self.subTest(flags=flags):
                line = self.generate(*flags, status=status)
                self.assertRegex(line, rf"\Atroupe: [^\n]*({words})[^\n]*\n\Z")
        done = subprocess.run(
            [TROUPE, "train", "--data", f"{data}?tokenizer={tokenizer}",
             "--model", MODELS["llama"], *JOB, "--checkpoint-dir", kept,
             "--eval-fraction", "0.1", "--resume"],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertRegex(done.stderr, r"\Atroupe: [^\n]*another tokenizer")

    @staticmethod
    def loss_of(output):
        return re.search(r"loss (\S+)", output)[1]

    # Symptom: the last words and the line about them stood on one line.
    def test_text_and_the_line_after_it_may_go_to_one_file(self):
        weights = self.train("bytes", MODELS["llama"],
                             self.learned() + "?level=byte")
        for flags, text in (
                (["--prompt", "\nshard ", "--max-tokens", "5"], "shard\n"),
                (["--prompt", "\nshard shard ", "--max-tokens", "7"],
                 "shard.\n"),
                (["--ids", "--prompt", "10 115 104 97 114 100 32",
                  "--max-tokens", "3"], "115 104 97 \n")):
            with self.subTest(flags=flags):
                out = self.path("out.txt")
                for stream in (open(out, "w"), subprocess.PIPE):
                    done = subprocess.run(
                        [TROUPE, "generate", "--checkpoint", weights, *flags],
                        stdin=subprocess.DEVNULL, stdout=stream,
                        stderr=subprocess.STDOUT, timeout=120, check=True)
                    if stream is subprocess.PIPE:
                        found = done.stdout.decode()
                    else:
                        stream.close()
                        with open(out) as file:
                            found = file.read()
                    self.assertRegex(found, rf"\A{text}\d+ tokens in [^\n]+\n\Z")

    def test_what_cannot_be_gone_on_with_gets_a_line(self):
        weights = self.train("llama", MODELS["llama"], self.learned())
        digits = self.path("digits.safetensors")
        with Run("--data", "synthetic:digits?samples=256", "--model",
                 "mlp:784-10", "--save", digits) as run:
            run.finish()
        for status, words, flags, text in (
                (2, "--prompt : expected a value", ["--prompt", ""], None),
                (1, "standard input: is empty", [], b""),
                (1, r"the character '\?' \(U\+003F\) does not occur",
                 ["--prompt", "ring?"], None),
                (1, "standard input: byte 1 is not UTF-8", [], b"r\xff"),
                (1, r'"99" is no token; give numbers below \d+',
                 ["--ids", "--prompt", "1 99"], None),
                (1, r'"-1" is no token', ["--ids", "--prompt", "-1"], None),
                (2, "--top-k has no effect without --temperature",
                 ["--prompt", "a", "--top-k", "3"], None),
                (2, "--seed has no effect without", ["--seed", "3"], None),
                (2, "--top-p 0: expected", ["--top-p", "0"], None),
                (2, "--max-tokens 0: expected", ["--max-tokens", "0"], None),
                (2, "--temperature -1: expected", ["--temperature", "-1"],
                 None),
                (1, "tensor .* is .* but the model needs",
                 ["--prompt", "a", "--model", "llama:L2-H4-K4-D32-T32"],
                 None),
                (1, "mlp:784-10 takes features, and the data is text",
                 ["--prompt", "a", "--model", "mlp:784-10"], None)):
            with self.subTest(flags=flags, text=text):
                line = self.generate(weights, *flags, text=text, status=status)
                self.assertRegex(line, rf"\Atroupe: [^\n]*{words}[^\n]*\n\Z")
        line = self.generate(digits, "--prompt", "a", status=1)
        self.assertRegex(line, r"\Atroupe: [^\n]*no table of tokens[^\n]*\n\Z")
        line = self.generate(self.path("none.safetensors"), status=1)
        self.assertEqual(line.count("\n"), 1, line)

    def test_the_layout_of_transformers_holds_the_same_model(self):
        for name in ("llama", "gpt2"):
            weights = self.train(name, MODELS[name], self.learned())
            there = self.path(f"{name}-there")
            done = subprocess.run(
                [TROUPE, "checkpoint", "export", weights, "--layout",
                 "hugging_face", "--out", there], capture_output=True,
                text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(os.path.join(there, "config.json")) as file:
                config = json.load(file)
            self.assertEqual(config["model_type"], name)
            moved = os.path.join(there, "model.safetensors")
            flags = ["--ids", "--prompt", "3 1 2", "--max-tokens", "40"]
            own = self.generate(weights, *flags)
            self.assertEqual(own, self.generate(
                moved, *flags, "--model", os.path.join(there, "config.json")))
            self.assertEqual(own, self.generate(moved, *flags, "--model",
                                                MODELS[name]))
            scores = []
            for slices in ("1", "2"):
                done = subprocess.run(
                    [TROUPE, "evaluate", "--data", self.learned(), "--model",
                     os.path.join(there, "config.json"), "--checkpoint", moved,
                     "--virtual-slices", slices, "--summary",
                     self.path("scores.json")],
                    capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(self.path("scores.json")) as file:
                    scores.append(json.load(file)["eval"]["loss"])
            self.assertAlmostEqual(*scores, places=4)
            line = self.generate(moved, *flags, "--model",
                                 MODELS["transformer"], status=1)
            self.assertRegex(line, r"\Atroupe: .*names of Hugging Face's GPT-2 "
                             r"or Llama.*\n\Z")
            # And it is trained on from there.
            tuned = self.path(f"{name}-tuned.safetensors")
            with Run("--data", self.learned(), "--model",
                     os.path.join(there, "config.json"), "--initial-weights",
                     moved, "--checkpoint-dir", self.path(f"{name}-kept"),
                     "--steps", "20", "--epochs", "0", "--global-batch", "32",
                     "--strategy", "one_device", "--optimizer", "adamw",
                     "--lr", "0.001", "--save", tuned) as run:
                run.finish()
            self.assertEqual(self.generate(tuned, "--prompt", "\nring ",
                                           "--max-tokens", "10"),
                             b"ring ring.")
        line = subprocess.run(
            [TROUPE, "checkpoint", "export", self.train(
                "transformer", MODELS["transformer"], self.learned()),
             "--layout", "hugging_face", "--out", self.path("not")],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(line.returncode, 1)
        self.assertRegex(line.stderr, r"\Atroupe: .*is no GPT-2 and no Llama.*"
                         r"\n\Z")

    def test_who_stops_reading_stops_it(self):
        weights = self.train("llama", MODELS["llama"], self.learned())
        run = subprocess.Popen(
            [TROUPE, "generate", "--checkpoint", weights, "--prompt", "ring ",
             "--max-tokens", "1000000000"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.assertTrue(re.match(rb"ring", run.stdout.read(4)))
        run.stdout.close()
        self.assertIn(run.wait(60), (0, 1, -13))
        run.stderr.close()

    def test_a_text_that_cannot_be_written_is_an_error(self):
        weights = self.train("llama", MODELS["llama"], self.learned())
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [TROUPE, "generate", "--checkpoint", weights, "--prompt",
                 "ring "], stdout=full, stderr=subprocess.PIPE, timeout=60,
                check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output: cannot be written", done.stderr)


if __name__ == "__main__":
    import unittest
    unittest.main()
