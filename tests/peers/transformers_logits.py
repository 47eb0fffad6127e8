#!/usr/bin/env python3
"""GPT-2 and Llama beside Hugging Face's transformers: the same logits, both ways,
the same greedy text, and tokens a second.

    transformers_logits.py [--tokens N] [--json FILE]

Run by a Python that has torch, numpy, safetensors and transformers, all from
PyPI; status 77 where it has not. TROUPE is the program, else the one of
build/release. Their model with weights that were drawn is read here by its
config.json, and judged on bytes; ours, trained for some steps, is exported and
loaded there.

Bar: logits within 1e-4, and the same greedy text. Status 1 where one is missed.
Both sides take one thread; speeds are printed, not judged.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import numpy as np
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TROUPE = os.environ.get("TROUPE", str(
    Path(__file__).resolve().parents[2] / "build/release/apps/troupe"))
BAR = 1e-4
WINDOW = 96
BYTES = 256
TINY = {"vocab_size": BYTES, "bos_token_id": None, "eos_token_id": None}
THEIRS = {
    "gpt2": transformers.GPT2Config(
        n_embd=96, n_layer=3, n_head=4, n_positions=WINDOW,
        initializer_range=0.2, **TINY),
    "llama": transformers.LlamaConfig(
        hidden_size=96, intermediate_size=160, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=2,
        max_position_embeddings=WINDOW, initializer_range=0.2, **TINY),
    "llama, tied": transformers.LlamaConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, head_dim=32,
        max_position_embeddings=WINDOW, initializer_range=0.2,
        tie_word_embeddings=True, **TINY),
}
OURS = {
    "gpt2": "gpt2:L2-H4-D64-T96",
    "llama": "llama:L2-H4-K2-D64-T96",
    # Some ten million parameters, for speed.
    "llama, larger": "llama:L6-H6-D384-T256",
}


def troupe(*arguments):
    done = subprocess.run([TROUPE, *arguments], capture_output=True,
                          text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(f"troupe {' '.join(arguments)}: {done.stderr}")
    return done.stdout, done.stderr


class Comparison:
    def __init__(self, folder, tokens):
        self.folder = folder
        self.tokens = tokens
        self.text = os.path.join(folder, "text.txt")
        draw = np.random.default_rng(3)
        words = [bytes(draw.integers(97, 123, 4)).decode() for _ in range(40)]
        with open(self.text, "w") as file:
            file.write(" ".join(draw.choice(words, 4000)))
        with open(self.text, "rb") as file:
            self.ids = np.frombuffer(file.read(), np.uint8).astype(np.int64)
        self.data = f"text:{self.text}?level=byte"
        self.rows = []
        self.missed = False

    def logits_here(self, model, weights, window):
        out = os.path.join(self.folder, "logits.npy")
        troupe("predict", "--data", self.data, "--eval-data", self.data,
               "--model", model, "--checkpoint", weights, "--output", "logits",
               "--out", out)
        found = np.load(out)
        return found.reshape(-1, window, found.shape[-1])

    def logits_there(self, model, window):
        count = (len(self.ids) - 1) // window
        windows = torch.from_numpy(
            self.ids[:count * window].reshape(count, window))
        with torch.no_grad():
            return model(windows).logits.numpy()

    def compare(self, name, model_here, weights, model_there, window):
        here = self.logits_here(model_here, weights, window)
        there = self.logits_there(model_there, window)
        gap = float(np.abs(here - there[:len(here)]).max())
        prompt = bytes(self.ids[:8].astype(np.uint8)).decode()
        count = min(self.tokens, window - 9)
        text, speed = troupe("generate", "--model", model_here, "--checkpoint",
                             weights, "--ids", "--max-tokens", str(count),
                             "--prompt",
                             " ".join(str(x) for x in prompt.encode()))
        ours = [int(x) for x in text.split()]
        start = time.monotonic()
        with torch.no_grad():
            theirs = model_there.generate(
                torch.from_numpy(self.ids[None, :8]), do_sample=False,
                max_new_tokens=count, min_new_tokens=count, use_cache=True,
                attention_mask=torch.ones(1, 8, dtype=torch.long),
                pad_token_id=0)[0, 8:].tolist()
        seconds = time.monotonic() - start
        rate = float(re.search(r"([\d.]+) tokens/s", speed).group(1))
        same = ours == theirs
        self.missed |= gap > BAR or not same
        self.rows.append({"model": name, "gap": gap, "same_text": same,
                          "largest_logit": float(np.abs(there).max()),
                          "tokens_s": rate, "their_tokens_s": count / seconds})
        print(f"{name}: logits within {gap:.2e} of {np.abs(there).max():.1f}, "
              f"text {'the same' if same else 'DIFFERS'}, {count} tokens: "
              f"{rate:.0f} tokens/s, transformers {count / seconds:.0f}")

    def from_there(self, name, config):
        torch.manual_seed(5)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        there = os.path.join(self.folder, "there")
        model.save_pretrained(there)
        self.compare(f"{name}, drawn there", f"{there}/config.json",
                     f"{there}/model.safetensors", model, WINDOW)

    def from_here(self, name, model):
        weights = os.path.join(self.folder, "here.safetensors")
        out = os.path.join(self.folder, "here")
        troupe("train", "--data", self.data, "--model", model, "--steps", "20",
               "--epochs", "0", "--global-batch", "8", "--virtual-ranks", "2",
               "--optimizer", "adamw", "--lr", "0.003", "--strategy",
               "one_device", "--save", weights, "--quiet")
        troupe("checkpoint", "export", weights, "--layout", "hugging_face",
               "--out", out)
        there = transformers.AutoModelForCausalLM.from_pretrained(
            out, torch_dtype=torch.float32).eval()
        window = int(re.search(r"-T(\d+)", model).group(1))
        self.compare(f"{name}, trained here", model, weights, there, window)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        compare = Comparison(folder, given.tokens)
        for name, config in THEIRS.items():
            compare.from_there(name, config)
        for name, model in OURS.items():
            compare.from_here(name, model)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(compare.rows, file, indent=2)
    return 1 if compare.missed else 0


if __name__ == "__main__":
    sys.exit(main())
