#include "actors/collectives/member.hpp"
#include "apps/settings/binding.hpp"

#include <algorithm>

namespace troupe {

namespace {

using namespace binding;

constexpr uint64_t largest_vector = uint64_t{1} << 30;
constexpr uint32_t max_workers = 1'000;
constexpr uint32_t max_stages = 64;
constexpr uint32_t max_decode_threads = 256;
constexpr uint64_t largest_table = uint64_t{1} << 37; // rows have 31 bits
constexpr uint64_t max_pairs = uint64_t{1} << 27;

Flag flag(uint64_t commands, const char* name, const char* value,
          const char* fallback, const char* help,
          std::function<void(Settings&, const std::string&)> set) {
  return {name,     value, FlagType::text, commands,       "Measuring",
          fallback, help,  std::move(set), /*get*/ nullptr};
}

std::vector<uint32_t> whole_list(const std::string& text, uint64_t highest) {
  std::vector<uint32_t> numbers;
  for (const auto& word : split_list(text))
    numbers.push_back(static_cast<uint32_t>(parse_whole(word, 1, highest)));
  return numbers;
}

/// Errors: UsageError for one that stages do not have.
std::vector<std::string> schedule_list(const std::string& text) {
  const auto names = split_list(text);
  for (const auto& name : names)
    require_choice(name, {"gpipe", "1f1b", "interleaved", "zero_bubble"});
  return names;
}

std::vector<uint64_t> size_list(const std::string& text,
                                uint64_t largest = largest_vector) {
  std::vector<uint64_t> sizes;
  for (const auto& word : split_list(text)) {
    sizes.push_back(parse_bytes(word, sizeof(float), largest));
    if (sizes.back() % sizeof(float) != 0)
      throw UsageError(word + ": expected whole float32 numbers, 4 bytes each");
  }
  return sizes;
}

} // namespace

std::vector<Flag> bench_flags() {
  std::vector<Flag> flags;
  flags.push_back(
    flag(on_reduce, "members", "N,N…", "2,4", "numbers of members",
         [](Settings& s, const std::string& value) {
           s.bench.members = whole_list(value, max_collective_members);
         }));
  flags.push_back(flag(
    on_reduce, "bytes", "SIZE,…", "1KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB",
    "sizes of each member's vector", [](Settings& s, const std::string& value) {
      s.bench.bytes = size_list(value);
    }));
  flags.push_back(flag(
    on_reduce, "link", "NAME", "all",
    "memory: threads of one process; shm, tcp: processes; all of these; or "
    "actors: as messages in one process",
    choice(FIELD(bench.link), {"memory", "shm", "tcp", "all", "actors"}).set));
  flags.push_back(
    flag(on_reduce, "reduction", "NAME", "both",
         "reproducible: bits of the fixed tree; fast: any order; both",
         choice(FIELD(bench.reduction), {"reproducible", "fast", "both"}).set));
  flags.push_back(
    flag(on_reduce | on_server, "rounds", "N", "9",
         "rounds of each size, in which both sides take their turn",
         whole(FIELD(bench.rounds), 1, 10'000).set));
  flags.push_back(flag(on_reduce | on_server, "peers", "DIR", "build/peers",
                       "the folder into which tests/peers/build built the "
                       "programs to compare with",
                       text(FIELD(bench.peers)).set));
  flags.push_back(flag(on_server, "bytes", "SIZE", "40000000",
                       "size of the parameters that are pushed and pulled",
                       [](Settings& s, const std::string& value) {
                         const auto sizes = size_list(value);
                         if (sizes.size() != 1)
                           throw UsageError("expected one size");
                         s.bench.exchanged_bytes = sizes.front();
                       }));
  flags.push_back(flag(on_server, "pairs", "N", "10000000",
                       "pairs of a key and a value that are pushed and pulled; "
                       "0: none",
                       whole(FIELD(bench.exchanged_pairs), 0, max_pairs).set));
  flags.push_back(flag(on_null, "workers", "N,N…", "1,10,100",
                       "numbers of workers",
                       [](Settings& s, const std::string& value) {
                         s.bench.workers = whole_list(value, max_workers);
                       }));
  flags.push_back(flag(on_null, "bytes", "SIZE,…", "4",
                       "sizes of the parameters that every worker pulls and "
                       "pushes",
                       [](Settings& s, const std::string& value) {
                         s.bench.null_bytes = size_list(value);
                       }));
  flags.push_back(flag(on_null, "filled", "SIZE,…", "none",
                       "sizes of sparse tables, all of whose rows are there, "
                       "of which every worker pulls and pushes 32 rows",
                       [](Settings& s, const std::string& value) {
                         s.bench.filled_bytes = size_list(value, largest_table);
                       }));
  flags.push_back(flag(on_null, "ps", "N", "1", "number of shards",
                       whole(FIELD(bench.shards), 1, max_workers).set));
  flags.push_back(flag(on_source, "threads", "N,N…", "1",
                       "numbers of threads that read and decode",
                       [](Settings& s, const std::string& value) {
                         s.bench.decode_threads =
                           whole_list(value, max_decode_threads);
                       }));
  flags.push_back(flag(on_source, "seconds", "S", "5",
                       "seconds that each number of threads is measured",
                       whole(FIELD(bench.data_seconds), 1, 3'600).set));
  flags.push_back(flag(on_pipeline, "stages", "N,N…", "2,4,8",
                       "numbers of stages",
                       [](Settings& s, const std::string& value) {
                         s.bench.stages = whole_list(value, max_stages);
                       }));
  flags.push_back(flag(on_pipeline, "micro-batches", "N,N…", "4,8,16,32",
                       "numbers of micro-batches of a step",
                       [](Settings& s, const std::string& value) {
                         s.bench.micro_batches = whole_list(value, max_workers);
                       }));
  flags.push_back(flag(on_pipeline, "schedule", "NAME,…",
                       "gpipe,1f1b,interleaved,zero_bubble",
                       "orders in which stages take micro-batches",
                       [](Settings& s, const std::string& value) {
                         s.bench.schedules = schedule_list(value);
                       }));
  flags.push_back(flag(on_pipeline, "chunks", "N", "2",
                       "parts of each stage of an interleaved schedule",
                       whole(FIELD(bench.chunks), 1, 16).set));
  flags.push_back(flag(on_pipeline, "pass-ms", "MS,…", "5",
                       "milliseconds that each stage waits forward, and in "
                       "each half of backward; stages take them in turn",
                       [](Settings& s, const std::string& value) {
                         s.bench.pass_ms = whole_list(value, 10'000);
                       }));
  flags.push_back(flag(on_pipeline, "recompute", "NAME,…", "none",
                       "stages keep all activations: none; or compute them "
                       "again: full; or those of some layers: wait_0, …, one "
                       "for each part",
                       text(FIELD(bench.recompute)).set));
  flags.push_back(flag(on_pipeline, "steps", "N", "9", "steps of each run",
                       whole(FIELD(bench.pipeline_steps), 3, 1'000).set));
  return flags;
}

} // namespace troupe
