#!/usr/bin/env python3
"""Holds what kernels/cuda/nccl.cuh says of NCCL against NVIDIA's own package.

    tests/peers/nccl_header.py [VERSION…]

Each version (the newest, and 2.28.9) of nvidia-nccl-cu13 comes from PyPI into a
folder that is removed: some 300 MB each. Its header is compiled together with
the project's (g++), sizes, places and values compared; the library is opened and
asked for each function and its version. No GPU is needed. Status 1 if anything
differs.
"""

import ctypes
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECK = """
#include <nccl.h>
#include <cstddef>
#include "kernels/cuda/nccl.cuh"
namespace own = troupe::kernels::nccl;
static_assert(sizeof(own::UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(own::Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(own::Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(own::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(own::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(own::Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(own::success == ncclSuccess);
static_assert(own::invalid_argument == ncclInvalidArgument);
static_assert(own::invalid_usage == ncclInvalidUsage);
static_assert(own::in_progress == ncclInProgress);
static_assert(own::float32 == ncclFloat32 && own::sum == ncclSum);
static_assert(sizeof(ncclResult_t) == sizeof(int));
static_assert(sizeof(ncclDataType_t) == sizeof(int));
static_assert(sizeof(ncclRedOp_t) == sizeof(int));
const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
int main() { return own::Config{}.magic == theirs.magic ? 0 : 1; }
"""


def has(version, folder):
    name = "nvidia-nccl-cu13" + (f"=={version}" if version else "")
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet",
                    "--no-deps", "--dest", folder, name], check=True)
    wheel = next(Path(folder).glob("*.whl"))
    with zipfile.ZipFile(wheel) as package:
        package.extractall(folder)
    wheel.unlink()
    nccl = Path(folder) / "nvidia" / "nccl"
    source = Path(folder) / "check.cpp"
    source.write_text(CHECK)
    program = Path(folder) / "check"
    built = subprocess.run(
        ["g++", "-std=c++20", "-I", str(nccl / "include"), "-I", str(ROOT),
         "-I", "/usr/local/cuda/include",
         "-isystem", str(ROOT / "tests/cuda_stand_in/include"),
         str(source), "-o", str(program)], check=False)
    if built.returncode != 0 or subprocess.run([program],
                                               check=False).returncode != 0:
        return False
    library = ctypes.CDLL(str(nccl / "lib" / "libnccl.so.2"))
    functions = re.findall(r'find\("(nccl\w+)"',
                           (ROOT / "kernels/cuda/nccl.cpp").read_text())
    missing = [one for one in functions if not hasattr(library, one)]
    number = ctypes.c_int()
    library.ncclGetVersion(ctypes.byref(number))
    print(f"NCCL {number.value}: {len(functions)} functions, missing: "
          f"{', '.join(missing) or 'none'}; sizes, places and values agree")
    return not missing


def main():
    right = True
    for version in sys.argv[1:] or ["", "2.28.9"]:
        with tempfile.TemporaryDirectory() as folder:
            right = has(version, folder) and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
