#include "tests/cuda_stand_in/runtime/block.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

// void cuda_stand_in_switch(void** from, void* to): keeps what a call keeps on
// the stack that it leaves, at *from, and goes on where `to` was kept.
asm(R"(
.text
.type cuda_stand_in_switch, @function
cuda_stand_in_switch:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_stand_in_switch, . - cuda_stand_in_switch
)");
extern "C" void cuda_stand_in_switch(void** from, void* to);

namespace cuda_stand_in {

constinit thread_local Runner::Lane* current_lane = nullptr;

namespace {

constexpr size_t guard_bytes = 4096;
constexpr size_t shared_gap = 16;

std::string text_of(uint3 at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", "
         + std::to_string(at.z) + ")";
}

std::string place_of(const char* file, int line) {
  const auto* name = std::strrchr(file, '/');
  return std::string(name == nullptr ? file : name + 1) + ":"
         + std::to_string(line);
}

} // namespace

Runner::Runner(Memory& memory) : memory_(memory) {}

uint64_t Runner::draw() { // splitmix64
  auto x = random_ += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

uint3 Runner::thread_index() const {
  return current_lane->thread;
}

unsigned Runner::lane_index() const {
  return current_lane->index % 32;
}

void Runner::run(const Kernel& kernel) {
  if (++launch_ == Memory::max_launches) {
    memory_.forget_accesses();
    launch_ = 1;
  }
  kernel_ = &kernel;
  arguments_ = reinterpret_cast<const char*>(kernel.arguments.data());
  shared_.clear();
  shared_used_ = (kernel.shared_bytes + shared_gap - 1) / shared_gap
                 * shared_gap;
  const auto count = kernel.block.x * kernel.block.y * kernel.block.z;
  lanes_.assign(count, {});
  for (uint32_t i = 0; i < count; ++i) {
    lanes_[i].runner = this;
    lanes_[i].index = i;
    lanes_[i].thread = {i % kernel.block.x, i / kernel.block.x % kernel.block.y,
                        i / kernel.block.x / kernel.block.y};
  }
  warps_.resize((count + 31) / 32);
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0u);
  for (auto i = count; i > 1; --i)
    std::swap(order_[i - 1], order_[draw() % i]);
  const auto blocks = uint64_t{kernel.grid.x} * kernel.grid.y * kernel.grid.z;
  // Every so-and-so-many-th block, from a drawn one on.
  const auto first = draw() % blocks;
  auto step = draw() % blocks + 1;
  while (std::gcd(step, blocks) != 1)
    ++step;
  for (uint64_t i = 0; i < blocks; ++i)
    run_block(static_cast<uint32_t>((first + i * step) % blocks));
}

void Runner::run_block(uint32_t number) {
  const auto count = static_cast<uint32_t>(lanes_.size());
  block_number_ = number;
  const auto& grid = kernel_->grid;
  block_ = {number % grid.x, number / grid.x % grid.y,
            number / grid.x / grid.y};
  memory_.clear_shared(0, shared_used_ + shared_gap);
  memory_.allow_shared(0, kernel_->shared_bytes);
  for (auto& declared : shared_)
    declared.allowed = false;
  for (auto& lane : lanes_)
    lane.state = State::runs;
  for (uint32_t w = 0; w < warps_.size(); ++w) {
    const auto size = std::min(32u, count - w * 32);
    warps_[w].members = size == 32 ? ~0u : (1u << size) - 1;
    warps_[w].gatherings.clear();
  }
  ready_.clear();
  idle_.clear();
  for (auto& fibre : fibres_)
    idle_.push_back(&fibre);
  started_ = 0;
  alive_ = count;
  at_barrier_ = 0;
  barriers_ = 0;
  block_access_ = access_by(launch_, block_number_, barriers_, 0);
  const auto drawn = draw();
  starts_first_ = (drawn & 1) != 0;
  if ((drawn & 2) != 0)
    std::reverse(order_.begin(), order_.end());
  failed_ = false;
  go_on(nullptr);
  current_lane = nullptr;
  if (failed_)
    throw Fault(fault_);
  if (alive_ > 0)
    throw Fault{cudaErrorLaunchFailure, "kernel " + kernel_->name + ", block "
                                          + text_of(block_) + ": " + waiting()};
}

std::string Runner::waiting() const {
  for (const auto& lane : lanes_)
    if (lane.state == State::in_warp)
      return "thread " + text_of(lane.thread) + " waits at "
             + place_of(lane.file, lane.line)
             + " for lanes of its warp that wait elsewhere or have left";
  for (const auto& lane : lanes_)
    if (lane.state == State::at_barrier)
      return "thread " + text_of(lane.thread) + " waits at the barrier of "
             + place_of(lane.file, lane.line) + " for threads that never come";
  return "threads wait for one another";
}

Runner::Fibre& Runner::take_fibre() {
  if (idle_.empty()) {
    auto* at = mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1,
                    0);
    if (at == MAP_FAILED) {
      std::perror("cuda_stand_in: no memory for a thread's stack");
      std::abort();
    }
    mprotect(at, guard_bytes, PROT_NONE);
    fibres_.push_back({static_cast<char*>(at) + guard_bytes, nullptr});
    idle_.push_back(&fibres_.back());
  }
  auto& fibre = *idle_.back();
  idle_.pop_back();
  // As if enter() had been called from nowhere: its return address lies at the
  // top, below it six registers.
  auto* top = reinterpret_cast<void**>(fibre.stack + stack_bytes - 64);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&Runner::enter);
  for (int i = 0; i < 6; ++i)
    *--top = nullptr;
  fibre.top = top;
  return fibre;
}

/// Switches to a lane that may go on, to a new fibre, or, where there is
/// neither, back to run_block(). Null: from there.
void Runner::go_on(Fibre* from) {
  auto** kept = from == nullptr ? &main_ : &from->top;
  const bool fresh = started_ < lanes_.size()
                     && (starts_first_ || ready_.empty());
  if (fresh) {
    auto& fibre = take_fibre();
    starting_ = &fibre;
    current_lane = &lanes_[order_[started_]];
    cuda_stand_in_switch(kept, fibre.top);
  } else if (!ready_.empty()) {
    auto* lane = ready_.front();
    ready_.pop_front();
    lane->state = State::runs;
    current_lane = lane;
    if (lane->fibre != from)
      cuda_stand_in_switch(kept, lane->fibre->top);
  } else {
    cuda_stand_in_switch(kept, main_);
  }
}

void Runner::enter() {
  auto* runner = current_lane->runner;
  runner->run_lanes(*runner->starting_);
}

void Runner::run_lanes(Fibre& fibre) {
  const auto count = static_cast<uint32_t>(lanes_.size());
  while (started_ < count && (starts_first_ || ready_.empty())) {
    auto& lane = lanes_[order_[started_++]];
    lane.fibre = &fibre;
    lane.stack = fibre.stack;
    current_lane = &lane;
    kernel_->run(kernel_->arguments.data());
    leave();
  }
  idle_.push_back(&fibre);
  Fibre gone; // taken again, it begins anew
  go_on(&gone);
  std::abort();
}

void Runner::leave() {
  auto& lane = *current_lane;
  lane.state = State::left;
  lane.copies.clear();
  --alive_;
  warps_[lane.index / 32].members &= ~(1u << lane.index % 32);
  // A barrier waits for those that have not left.
  if (at_barrier_ > 0 && at_barrier_ == alive_)
    release_barrier();
}

void Runner::make_ready(Lane& lane) {
  ready_.push_back(&lane);
}

void Runner::release_barrier() {
  at_barrier_ = 0;
  ++barriers_;
  block_access_ = access_by(launch_, block_number_, barriers_, 0);
  const auto count = static_cast<uint32_t>(lanes_.size());
  const auto first = static_cast<uint32_t>(draw() % count);
  for (uint32_t i = 0; i < count; ++i) {
    auto& lane = lanes_[order_[(first + i) % count]];
    if (lane.state == State::at_barrier)
      make_ready(lane);
  }
}

void Runner::barrier(const char* file, int line) {
  auto& lane = *current_lane;
  if (at_barrier_ == 0) {
    barrier_file_ = file;
    barrier_line_ = line;
  } else if (line != barrier_line_ || std::strcmp(file, barrier_file_) != 0) {
    refuse(cudaErrorLaunchFailure, [&] {
      return "is at the barrier of " + place_of(file, line)
             + " while others of its block are at that of "
             + place_of(barrier_file_, barrier_line_);
    });
  }
  lane.state = State::at_barrier;
  lane.file = file;
  lane.line = line;
  if (++at_barrier_ == alive_)
    release_barrier();
  go_on(lane.fibre);
}

const Payload* Runner::exchange(WarpStep step, unsigned mask,
                                const Payload& own, const char* file,
                                int line) {
  auto& lane = *current_lane;
  auto& warp = warps_[lane.index / 32];
  const auto bit = 1u << lane.index % 32;
  if ((mask & bit) == 0)
    refuse(cudaErrorLaunchFailure, [&] {
      return "is no lane of its own mask at " + place_of(file, line);
    });
  if ((mask & ~warp.members) != 0)
    refuse(cudaErrorLaunchFailure, [&] {
      return "waits at " + place_of(file, line) + " for lanes that have left";
    });
  auto at = std::find_if(warp.gatherings.begin(), warp.gatherings.end(),
                         [&](const auto& x) { return x.mask == mask; });
  if (at == warp.gatherings.end()) {
    warp.gatherings.emplace_back().mask = mask;
    at = std::prev(warp.gatherings.end());
  }
  auto& gathering = *at;
  if (gathering.arrived == 0) {
    gathering.step = step;
    gathering.file = file;
    gathering.line = line;
  } else if (gathering.step != step || gathering.line != line) {
    refuse(cudaErrorLaunchFailure, [&] {
      return "is at " + place_of(file, line)
             + " while lanes of its warp are at "
             + place_of(gathering.file, gathering.line);
    });
  }
  const auto side = gathering.side;
  gathering.payloads[side][lane.index % 32] = own;
  gathering.arrived |= bit;
  if (gathering.arrived == mask) {
    gathering.arrived = 0;
    gathering.side ^= 1;
    const auto begin = lane.index / 32 * 32;
    for (uint32_t i = 0; i < 32; ++i)
      if ((mask & ~bit) >> i & 1)
        make_ready(lanes_[begin + i]);
  } else {
    lane.state = State::in_warp;
    lane.file = file;
    lane.line = line;
    go_on(lane.fibre);
  }
  return gathering.payloads[side].data();
}

void* Runner::shared_memory(const void* declaration, size_t bytes,
                            size_t alignment) {
  auto at = std::find_if(shared_.begin(), shared_.end(), [&](const auto& x) {
    return x.declaration == declaration;
  });
  if (at == shared_.end()) {
    const auto offset = (shared_used_ + shared_gap + alignment - 1) / alignment
                        * alignment;
    shared_used_ = offset + bytes;
    if (shared_used_ + shared_gap > Memory::shared_bytes)
      refuse(cudaErrorInvalidConfiguration,
             [] { return std::string("has too much shared memory"); });
    at = shared_.insert(at, {declaration, offset, false});
    memory_.clear_shared(offset, bytes + shared_gap);
  }
  if (!at->allowed)
    memory_.allow_shared(at->offset, bytes);
  at->allowed = true;
  return memory_.shared() + at->offset;
}

void Runner::wrong(const char* how, const void* at, uint32_t bytes) {
  auto& lane = *current_lane;
  auto says = [how](const char* word) {
    return std::strstr(how, word) != nullptr;
  };
  auto what = [&] {
    return std::string(how) + ": " + std::to_string(bytes) + " bytes at "
           + memory_.describe(at);
  };
  if (!keeps_going_)
    refuse(says("multiple") ? cudaErrorMisalignedAddress
           : says("unordered") || says("nothing has written")
             ? cudaErrorLaunchFailure
             : cudaErrorIllegalAddress,
           what);
  current_lane = nullptr;
  if (said_.insert(kernel_->name + how).second)
    std::fprintf(stderr, "cuda_stand_in: %s\n", story(lane, what()).c_str());
  current_lane = &lane;
}

/// What a thread does, with its kernel, block and index before it.
std::string Runner::story(const Lane& lane, const std::string& what) const {
  return "kernel " + kernel_->name + ", block " + text_of(block_) + ", thread "
         + text_of(lane.thread) + " " + what;
}

/// What the fibres held is left where it is: kernels own nothing.
void Runner::give_up(Fault fault) {
  failed_ = true;
  fault_ = std::move(fault);
  void* gone = nullptr;
  cuda_stand_in_switch(&gone, main_);
  std::abort();
}

} // namespace cuda_stand_in
