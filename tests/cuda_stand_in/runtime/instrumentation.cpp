#include "tests/cuda_stand_in/runtime/block.hpp"

// What a compiler calls for each access to memory under -fsanitize=thread: here
// it is not the thread sanitizer that listens. The host's accesses are none of
// its business: the memory of devices is closed to them.

namespace {

using cuda_stand_in::current_lane;

[[gnu::always_inline]] inline void note(const void* at, uint32_t bytes,
                                        bool writes) {
  if (current_lane != nullptr) [[unlikely]]
    current_lane->runner->access(at, bytes, writes);
}

/// Of a size that is none of a machine's words.
void note_range(const void* at, size_t bytes, bool writes) {
  if (current_lane == nullptr)
    return;
  const auto* byte = static_cast<const char*>(at);
  const bool words = reinterpret_cast<uintptr_t>(at) % 4 == 0;
  for (size_t i = 0; i < bytes;) {
    const uint32_t step = words && i + 4 <= bytes ? 4 : 1;
    note(byte + i, step, writes);
    i += step;
  }
}

} // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define CUDA_STAND_IN_SIZE(n) \
  void __tsan_read##n(void* at) { \
    note(at, n, false); \
  } \
  void __tsan_write##n(void* at) { \
    note(at, n, true); \
  } \
  void __tsan_unaligned_read##n(void* at) { \
    note_range(at, n, false); \
  } \
  void __tsan_unaligned_write##n(void* at) { \
    note_range(at, n, true); \
  }
CUDA_STAND_IN_SIZE(1)
CUDA_STAND_IN_SIZE(2)
CUDA_STAND_IN_SIZE(4)
CUDA_STAND_IN_SIZE(8)
CUDA_STAND_IN_SIZE(16)
#undef CUDA_STAND_IN_SIZE

void __tsan_read_range(void* at, size_t bytes) {
  note_range(at, bytes, false);
}
void __tsan_write_range(void* at, size_t bytes) {
  note_range(at, bytes, true);
}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

// clang's, in place of the library's.
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  note_range(from, bytes, false);
  note_range(to, bytes, true);
  return memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  note_range(from, bytes, false);
  note_range(to, bytes, true);
  return memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) {
  note_range(to, bytes, true);
  return memset(to, value, bytes);
}

// The host's atomics in files that hold kernels: counts of owners, and statics
// that are made once.
#define CUDA_STAND_IN_ATOMIC(bits, type) \
  type __tsan_atomic##bits##_load(const volatile type* at, int) { \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST); \
  } \
  void __tsan_atomic##bits##_store(volatile type* at, type x, int) { \
    __atomic_store_n(at, x, __ATOMIC_SEQ_CST); \
  } \
  type __tsan_atomic##bits##_exchange(volatile type* at, type x, int) { \
    return __atomic_exchange_n(at, x, __ATOMIC_SEQ_CST); \
  } \
  type __tsan_atomic##bits##_fetch_add(volatile type* at, type x, int) { \
    return __atomic_fetch_add(at, x, __ATOMIC_SEQ_CST); \
  } \
  type __tsan_atomic##bits##_fetch_sub(volatile type* at, type x, int) { \
    return __atomic_fetch_sub(at, x, __ATOMIC_SEQ_CST); \
  } \
  int __tsan_atomic##bits##_compare_exchange_strong( \
    volatile type* at, type* was, type x, int, int) { \
    return __atomic_compare_exchange_n(at, was, x, false, __ATOMIC_SEQ_CST, \
                                       __ATOMIC_SEQ_CST); \
  }
CUDA_STAND_IN_ATOMIC(8, unsigned char)
CUDA_STAND_IN_ATOMIC(32, unsigned)
CUDA_STAND_IN_ATOMIC(64, unsigned long)
#undef CUDA_STAND_IN_ATOMIC

} // extern "C"

// -- what kernels call --------------------------------------------------------

void __syncthreads(const char* file, int line) {
  current_lane->runner->barrier(file, line);
}

namespace cuda_stand_in {

uint3 thread_index() {
  return current_lane->thread;
}
uint3 block_index() {
  return current_lane->runner->block_index();
}
dim3 block_size() {
  return current_lane->runner->kernel().block;
}
dim3 grid_size() {
  return current_lane->runner->kernel().grid;
}

void* shared_memory(const void* declaration, size_t bytes, size_t alignment) {
  return current_lane->runner->shared_memory(declaration, bytes, alignment);
}
void* dynamic_shared_memory() {
  return current_lane->runner->dynamic_shared_memory();
}
size_t shared_offset(const void* at) {
  const auto* begin = current_lane->runner->dynamic_shared_memory();
  const auto offset = static_cast<size_t>(static_cast<const char*>(at) - begin);
  if (offset >= Memory::shared_bytes)
    current_lane->runner->refuse(cudaErrorIllegalAddress, [] {
      return std::string("takes an address for one of shared memory");
    });
  return offset;
}

unsigned lane_index() {
  return current_lane->runner->lane_index();
}

namespace {

const Payload* exchange(WarpStep step, unsigned mask, const Payload& own,
                        const char* file, int line) {
  return current_lane->runner->exchange(step, mask, own, file, line);
}

} // namespace

uint64_t shuffle_bits(unsigned mask, uint64_t own, unsigned from,
                      const char* file, int line) {
  Payload payload{};
  memcpy(payload.word, &own, sizeof own);
  const auto* all = exchange(WarpStep::shuffle, mask, payload, file, line);
  if (from > 31 || (mask >> from & 1) == 0)
    current_lane->runner->refuse(cudaErrorLaunchFailure, [&] {
      return "takes the value of lane " + std::to_string(from)
             + ", which is not in the mask, at line " + std::to_string(line);
    });
  uint64_t taken = 0;
  memcpy(&taken, all[from].word, sizeof taken);
  return taken;
}

unsigned vote(unsigned mask, bool yes, const char* file, int line) {
  const auto* all = exchange(WarpStep::vote, mask, {{yes}}, file, line);
  unsigned votes = 0;
  for (unsigned i = 0; i < 32; ++i)
    if ((mask >> i & 1) != 0 && all[i].word[0] != 0)
      votes |= 1u << i;
  return votes;
}

// Lane 8 m + r names row r of matrix m, eight values of 16 bits; lane t gets of
// each matrix row t / 4, values 2 (t % 4) and the next. Transposed: of rows
// 2 (t % 4) and the next the value t / 4.
void load_matrices(unsigned (&to)[4], unsigned row, bool transposed,
                   const char* file, int line) {
  auto* runner = current_lane->runner;
  const auto* at = runner->dynamic_shared_memory() + row;
  runner->access(at, 16, false);
  Payload own{};
  memcpy(own.word, at, 16);
  const auto* all = exchange(WarpStep::load_matrix, ~0u, own, file, line);
  const auto lane = lane_index();
  auto value = [&](unsigned matrix, unsigned r, unsigned c) {
    return all[8 * matrix + r].word[c / 2] >> c % 2 * 16 & 0xffff;
  };
  for (unsigned m = 0; m < 4; ++m) {
    const auto outer = lane / 4;
    const auto inner = lane % 4 * 2;
    to[m] = transposed
              ? value(m, inner, outer) | value(m, inner + 1, outer) << 16
              : value(m, outer, inner) | value(m, outer, inner + 1) << 16;
  }
}

void copy_async(unsigned to, const void* from, unsigned bytes, unsigned given) {
  auto& lane = *current_lane;
  auto* at = lane.runner->dynamic_shared_memory() + to;
  lane.runner->access(at, bytes, true);
  memset(at, 0xff, bytes);
  lane.copies.push_back({at, from, bytes, given});
}

void wait_for_copies() {
  auto& lane = *current_lane;
  for (const auto& copy : lane.copies) {
    lane.runner->access(copy.to, copy.bytes, true);
    memset(copy.to, 0, copy.bytes);
    if (copy.given > 0) {
      lane.runner->access(copy.from, copy.given, false);
      memcpy(copy.to, copy.from, copy.given);
    }
  }
  lane.copies.clear();
}

// c [16, 8] += a [16, 16] b [16, 8]. With g = lane / 4 and t = lane % 4 a lane
// holds of a: rows g, g + 8, g, g + 8 and of each two columns from 2 t, 2 t,
// 2 t + 8, 2 t + 8 on; of b: column g and of it two rows from 2 t, 2 t + 8 on;
// of c: rows g, g, g + 8, g + 8 and columns 2 t, 2 t + 1, 2 t, 2 t + 1.
void multiply_add(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                  const char* file, int line) {
  const Payload own{{a[0], a[1], a[2], a[3], b[0], b[1]}};
  const auto* all = exchange(WarpStep::multiply, ~0u, own, file, line);
  auto number = [](uint32_t pair, unsigned half) {
    const uint32_t bits = pair >> half * 16 << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
  };
  const auto lane = lane_index();
  for (unsigned k = 0; k < 8; ++k) { // pairs of the sums' sixteen
    const auto* rows = all[lane / 4 * 4 + k % 4].word + k / 4 * 2;
    const auto* columns = all + lane % 4 * 8 + k % 4;
    const auto left = columns[0].word[4 + k / 4];
    const auto right = columns[4].word[4 + k / 4];
    for (unsigned half = 0; half < 2; ++half) {
      const auto upper = number(rows[0], half);
      const auto lower = number(rows[1], half);
      c[0] += upper * number(left, half);
      c[1] += upper * number(right, half);
      c[2] += lower * number(left, half);
      c[3] += lower * number(right, half);
    }
  }
}

} // namespace cuda_stand_in
