#pragma once

#include "apps/settings/settings.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe {

/// Commands that know a flag, as a set of bits.
enum CommandBit : uint64_t {
  on_train = 1,
  on_plan = 2,
  on_evaluate = 4,
  on_predict = 8,
  on_role = 16,
  on_bench = 32,   ///< bench step
  on_kernels = 64, ///< bench kernels
  on_model = 128,  ///< model show
  on_reduce = 256, ///< bench all-reduce
  on_null = 512,   ///< bench null-step
  on_status = 1024,
  on_server = 2048,  ///< bench parameter-server
  on_ctl = 4096,     ///< ctl consistency
  on_reshape = 8192, ///< ctl shards, workers, rebalance
  on_chaos = 16384,
  on_move = 32768,    ///< ctl move-slices
  on_kept = 65536,    ///< checkpoint ls, verify
  on_export = 131072, ///< checkpoint export
  on_events = 262144,
  on_recovery = 524288, ///< bench recovery
  on_goodput = 1048576, ///< bench goodput
  on_voter = 2097152,
  on_certificates = 4194304, ///< certificates show
  on_sign = 8388608,         ///< certificates new
  on_token = 16777216,       ///< certificates token
  on_petition = 33554432,    ///< certificates renew, revoke
  on_info = 67108864,        ///< data info
  on_pipeline = 134217728,   ///< bench pipeline
  on_top = 268435456,
  on_doctor = 536870912,
  on_timeline = 1073741824,
  on_launch = 2147483648,
  on_source = 4294967296, ///< bench data
  on_generate = 8589934592,
  on_report = 17179869184,
  on_jobs = on_train | on_plan | on_role | on_bench,
  on_all = on_jobs | on_evaluate | on_predict,
};
/// The bit of a command; 0 for one without flags.
uint64_t bit_of(const std::string& command);

enum class FlagType { text, number, toggle };

/// One flag of the command line, which is a key of the configuration file too.
/// A name may stand for one flag on some commands and for another on others;
/// at most one of them is a key.
struct Flag {
  std::string name; ///< without dashes, "global-batch"
  /// What follows in the help, "N"; for a toggle what it may be given as,
  /// "[=fresh]".
  std::string value;
  FlagType type = FlagType::text;
  uint64_t commands = 0;
  std::string group;    ///< heading in the help
  std::string fallback; ///< default with unit, as the help shows it
  std::string help;
  /// Stores a value. Errors: UsageError "expected …", without the flag's name.
  std::function<void(Settings&, const std::string&)> set;
  /// Prints what holds as `set` reads it; empty: nothing to print. Not there
  /// for what a configuration file may not hold.
  std::function<std::string(const Settings&)> get;
};

/// Flags that say what is computed and where.
std::vector<Flag> job_flags();
/// Those of them that say how workers are kept together.
std::vector<Flag> consistency_flags();
/// Flags of checkpoints.
std::vector<Flag> checkpoint_flags();
/// Flags that only matter to this process: files, addresses, output.
std::vector<Flag> process_flags();
/// Flags of bench all-reduce, null-step, parameter-server and pipeline; no keys
/// of a file.
std::vector<Flag> bench_flags();
/// Flags of bench recovery and bench goodput; no keys of a file.
std::vector<Flag> recovery_flags();
/// Flags of chaos; no keys of a file.
std::vector<Flag> chaos_flags();
/// Flags of launch; no keys of a file.
std::vector<Flag> launch_flags();
/// Flags of events; no keys of a file.
std::vector<Flag> events_flags();
/// Flags of top; no keys of a file.
std::vector<Flag> top_flags();
/// Flags of generate; no keys of a file.
std::vector<Flag> generate_flags();
/// All, in the order in which the help shows them.
std::vector<Flag> all_flags();

/// A flag that is known but not built yet.
struct LaterFlag {
  const char* name;
  bool takes_value;
};
std::vector<LaterFlag> later_flags();
std::vector<std::string> commands();

/// Flags that exclude each other: pairs of names.
std::vector<std::pair<std::string, std::string>> exclusive_flags();

} // namespace troupe
