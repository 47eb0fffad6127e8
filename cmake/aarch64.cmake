# Toolchain file: for AArch64, on another machine, with Debian's packages
# g++-aarch64-linux-gnu, qemu-user and the libraries of architecture arm64
# (tests/aarch64 has all of it in a root of its own).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
find_program(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
