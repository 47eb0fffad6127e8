#include "actors/process/flight_recorder.hpp"

#include "actors/process/flight_seconds.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/shown_text.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> magic{'t', 'r', 'o', 'u', 'p', 'e', 'F', '4'};
constexpr auto suffix = ".flight";
constexpr int max_lives = 1000;
/// Spans: a quarter of those that are kept.
constexpr uint64_t booked_at_once = FlightRecorder::capacity / 4;

struct Head {
  std::array<char, 8> magic;
  uint64_t capacity;
  uint64_t process;
  int64_t to_unix_ns;
  std::array<char, 56> role; ///< ends with zeros
  std::array<char, 64> host; ///< the same
  EarlierTime earlier;       ///< of no length: there is none
  EarlierTime lives_before;  ///< the same; of Unix time
};
static_assert(sizeof(Head) == 248);

/// Of spans with numbers up to `booked`; a second is in its place by number.
struct Seconds {
  static constexpr uint64_t kept = 64;
  std::array<FlightSecond, kept> all{};
  uint64_t booked = 0;
};
static_assert(sizeof(FlightSecond) == 8 * (3 + activities));

using Slot = FlightRecorder::Slot;
constexpr size_t seconds_at = sizeof(Head);
constexpr size_t slots_at = (seconds_at + sizeof(Seconds) + 63) / 64 * 64;
constexpr size_t file_size = slots_at + FlightRecorder::capacity * sizeof(Slot);
static_assert(sizeof(Slot) == 40);

std::string name_of(const std::string& role) {
  auto name = role;
  std::ranges::replace(name, ':', '-');
  return name;
}

template <size_t N>
void put(const std::string& text, std::array<char, N>& out) {
  out.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), N - 1), out.begin());
}

template <size_t N>
std::string text_of(const std::array<char, N>& field) {
  return shown_text({field.data(), strnlen(field.data(), N)});
}

uint64_t nanoseconds(SteadyClock::time_point time) {
  return static_cast<uint64_t>(
    std::chrono::duration_cast<std::chrono::nanoseconds>(
      time.time_since_epoch())
      .count());
}

int64_t clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

constexpr uint64_t ns_of_a_second = 1'000'000'000;

/// Of one that lasts for longer than what is kept, the end.
void add(const Span& span, Seconds& seconds) {
  constexpr auto longest = Seconds::kept * ns_of_a_second;
  auto at = std::max(span.begin_ns,
                     span.end_ns - std::min(span.end_ns, longest));
  do {
    const auto number = at / ns_of_a_second + 1;
    const auto until = std::min(span.end_ns, number * ns_of_a_second);
    auto& second = seconds.all[number % Seconds::kept];
    if (second.number < number) {
      second = {};
      second.number = number;
    }
    if (second.number == number) {
      second.ns[static_cast<size_t>(span.activity)] += until - at;
      if (span.step > 0) {
        second.first_step = second.first_step == 0
                              ? span.step
                              : std::min(second.first_step, span.step);
        second.last_step = std::max(second.last_step, span.step);
      }
    }
    at = until;
  } while (at < span.end_ns);
}

/// All that a life did, of Unix time; nothing: it recorded nothing.
std::optional<EarlierTime> summed(const Flight& flight) {
  auto out = flight.earlier;
  if (out) {
    out->span.begin += flight.to_unix_ns;
    out->span.end += flight.to_unix_ns;
  }
  if (flight.spans.empty())
    return out;
  uint64_t end = 0;
  for (const auto& span : flight.spans)
    end = std::max(end, span.end_ns);
  const auto begin = static_cast<int64_t>(flight.spans.front().begin_ns)
                     + flight.to_unix_ns;
  if (!out)
    out = EarlierTime{{begin, begin}, {}};
  const TimeSpan rest{out->span.end,
                      std::max(out->span.end,
                               static_cast<int64_t>(end) + flight.to_unix_ns)};
  out->booked += life_of(flight.spans, flight.to_unix_ns).booked(rest);
  out->span.end = rest.end;
  return out;
}

/// Earlier lives of a role beyond those that are kept.
struct OldLives {
  std::vector<fs::path> files; ///< to be removed
  EarlierTime known; ///< of these and of those before; of no length: nothing
};

OldLives old_lives_of(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> lives;
  for (const auto& entry : fs::directory_iterator{folder, ignored})
    if (const auto file = entry.path().filename().string();
        file.starts_with(name + '-') && file.ends_with(suffix)
        && file.find('-', name.size() + 1) == std::string::npos)
      lives.emplace_back(entry.last_write_time(ignored), entry.path());
  std::ranges::sort(lives);
  OldLives out;
  std::optional<EarlierTime> known;
  const auto read = [](const fs::path& path) -> std::optional<Flight> {
    try {
      return read_flight(path.string());
    } catch (const InputError&) {
      return {};
    }
  };
  if (lives.size() > FlightRecorder::earlier_lives)
    for (auto life = lives.rbegin(); life != lives.rend(); ++life)
      if (const auto newest = read(life->second)) {
        known = newest->lives_before;
        break; // one that died as it began has no head
      }
  for (size_t i = 0; i + FlightRecorder::earlier_lives < lives.size(); ++i) {
    const auto flight = read(lives[i].second);
    if (const auto life = flight ? summed(*flight) : std::nullopt) {
      if (known)
        known->follow(*life);
      else
        known = life;
    }
    out.files.push_back(lives[i].second);
  }
  out.known = known.value_or(EarlierTime{});
  return out;
}

} // namespace

const char* to_string(Activity activity) {
  constexpr const char* names[] = {
    "compute", "pull",    "push",     "reduce",
    "serve",   "forward", "backward", "backward weights",
    "update",  "data",    "read",     "receive"};
  static_assert(std::size(names) == activities);
  return names[static_cast<size_t>(activity)];
}

RoleLife life_of(const std::vector<Span>& spans, int64_t added_ns) {
  RoleLife out;
  for (const auto& span : spans) {
    const auto activity = span.activity;
    auto& its = activity == Activity::data ? out.data
                : activity == Activity::pull || activity == Activity::push
                    || activity == Activity::reduce
                    || activity == Activity::receive
                  ? out.exchange
                  : out.compute;
    its.push_back({static_cast<int64_t>(span.begin_ns) + added_ns,
                   static_cast<int64_t>(span.end_ns) + added_ns});
  }
  return out;
}

FlightRecorder::FlightRecorder(const std::string& folder,
                               const std::string& role) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  const auto old = old_lives_of(folder, name_of(role));
  const auto own = folder + '/' + name_of(role) + '-'
                   + std::to_string(::getpid());
  std::string path;
  for (int life = 1; file_ < 0; ++life) {
    path = own + (life > 1 ? '.' + std::to_string(life) : "") + suffix;
    // One with this number may be of another container, or of an earlier life.
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file_ < 0 && (errno != EEXIST || life == max_lives))
      throw InputError("flight recorder " + path + ": " + reason_of(errno));
  }
  Head head{};
  head.magic = magic;
  head.capacity = capacity;
  head.process = static_cast<uint64_t>(::getpid());
  head.to_unix_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
  put(role, head.role);
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, sizeof host - 1);
  put(host, head.host);
  head.lives_before = old.known;
  int code = ::posix_fallocate(file_, 0, static_cast<off_t>(file_size));
  if (code == 0
      && ::pwrite(file_, &head, sizeof head, 0)
           != static_cast<ssize_t>(sizeof head))
    code = errno;
  if (code != 0) {
    ::close(file_);
    fs::remove(path, failure);
    throw InputError("flight recorder " + path + ": " + reason_of(code));
  }
  for (const auto& file : old.files) // what they knew is written
    fs::remove(file, failure);
}

FlightRecorder::~FlightRecorder() {
  ::close(file_);
}

void FlightRecorder::record(Activity activity, SteadyClock::time_point begin,
                            SteadyClock::time_point end, uint64_t step,
                            uint32_t detail) noexcept {
  const auto number = next_.fetch_add(1, std::memory_order_relaxed);
  const Slot slot{number + 1,
                  nanoseconds(begin),
                  nanoseconds(end),
                  step,
                  static_cast<uint32_t>(activity),
                  detail};
  const auto at = slots_at + number % capacity * sizeof slot;
  [[maybe_unused]] const auto wrote = ::pwrite(file_, &slot, sizeof slot,
                                               static_cast<off_t>(at));
  if ((number + 1) % booked_at_once == 0 && number + 1 >= 3 * booked_at_once)
    book(number + 1 - 3 * booked_at_once);
}

/// Spans that will be written over, though not yet.
void FlightRecorder::book(uint64_t first) try {
  const std::unique_lock guard{booking_, std::try_to_lock};
  if (!guard)
    return; // so many spans in so short a time: those are not booked
  std::vector<Slot> slots(booked_at_once);
  const auto size = slots.size() * sizeof(Slot);
  if (::pread(file_, slots.data(), size,
              static_cast<off_t>(slots_at + first % capacity * sizeof(Slot)))
      != static_cast<ssize_t>(size))
    return;
  std::vector<Span> spans;
  for (const auto& slot : slots)
    if (slot.number > first && slot.number <= first + booked_at_once)
      spans.push_back({slot.begin_ns, slot.end_ns, slot.step,
                       static_cast<Activity>(slot.activity), slot.detail});
  if (spans.empty())
    return;
  TimeSpan whole{std::numeric_limits<int64_t>::max(), 0};
  for (const auto& span : spans) {
    whole.begin = std::min(whole.begin, static_cast<int64_t>(span.begin_ns));
    whole.end = std::max(whole.end, static_cast<int64_t>(span.end_ns));
  }
  auto sum = earlier_.value_or(EarlierTime{{whole.begin, whole.begin}, {}});
  whole.begin = sum.span.end;
  whole.end = std::max(whole.end, whole.begin);
  const auto more = life_of(spans).booked(whole);
  sum.span.end = whole.end;
  sum.booked += more;
  earlier_ = sum;
  [[maybe_unused]] auto wrote = ::pwrite(file_, &sum, sizeof sum,
                                         offsetof(Head, earlier));
  Seconds seconds;
  if (::pread(file_, &seconds, sizeof seconds, seconds_at)
      != static_cast<ssize_t>(sizeof seconds))
    return;
  for (const auto& span : spans)
    add(span, seconds);
  seconds.booked = first + booked_at_once;
  wrote = ::pwrite(file_, &seconds, sizeof seconds, seconds_at);
} catch (const std::bad_alloc&) { // record() throws nothing
}

namespace {

[[noreturn]] void refuse_flight(const std::string& path,
                                const std::string& why) {
  throw InputError("flight recorder " + path + ": " + why);
}

constexpr auto no_flight = "is none, or of another version";
/// No clock is further: decades of running, and of dates.
constexpr int64_t furthest_ns = int64_t{1} << 60;

/// Of some length, and no longer than that; `latest`: of its clock.
bool is_sound(const EarlierTime& earlier, int64_t latest = furthest_ns) {
  const auto& [span, booked, recovery] = earlier;
  const auto lasted = [](int64_t ns) { return ns >= 0 && ns <= furthest_ns; };
  return span.begin >= 0 && span.begin < span.end && span.end <= latest
         && lasted(booked.data) && lasted(booked.compute)
         && lasted(booked.exchange) && lasted(recovery)
         && booked.data + booked.compute + booked.exchange + recovery
              <= span.end - span.begin;
}

/// A recorder's flight without its spans. Errors: InputError where it is none.
Flight flight_of(const char* bytes, const std::string& path) {
  Head head{};
  std::memcpy(&head, bytes, sizeof head);
  if (head.magic != magic || head.to_unix_ns < -furthest_ns
      || head.to_unix_ns / 4 > furthest_ns)
    refuse_flight(path, no_flight);
  Flight out{
    text_of(head.role), head.process, text_of(head.host), head.to_unix_ns, {}};
  if (is_sound(head.earlier))
    out.earlier = head.earlier;
  if (is_sound(head.lives_before, 4 * furthest_ns - 1))
    out.lives_before = head.lives_before;
  return out;
}

} // namespace

void add_to_unix_times(std::string& bytes, int64_t added_ns,
                       const std::string& path) {
  if (bytes.size() != file_size || added_ns < -furthest_ns
      || added_ns > furthest_ns)
    refuse_flight(path, no_flight);
  auto known = flight_of(bytes.data(), path).lives_before;
  Head head{};
  std::memcpy(&head, bytes.data(), sizeof head);
  head.to_unix_ns += added_ns;
  if (known) {
    known->span.begin += added_ns;
    known->span.end += added_ns;
  }
  head.lives_before = known.value_or(EarlierTime{});
  std::memcpy(bytes.data(), &head, sizeof head);
}

namespace {

/// Takes the span of slot `index`, if it is one that a recorder writes there.
void take_span(const char* at, uint64_t index, std::vector<Span>& spans) {
  uint64_t words[4];
  uint32_t halves[2];
  std::memcpy(words, at, sizeof words);
  std::memcpy(halves, at + sizeof words, sizeof halves);
  if (words[0] == 0 || (words[0] - 1) % FlightRecorder::capacity != index
      || words[2] < words[1] || words[2] > uint64_t{furthest_ns}
      || halves[0] >= activities)
    return;
  spans.push_back({words[1], words[2], words[3],
                   static_cast<Activity>(halves[0]), halves[1]});
}

/// A file that is open for reading.
class ReadFile {
public:
  explicit ReadFile(const std::string& path)
    : path_(path),
      handle_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (handle_ < 0)
      refuse_flight(path, reason_of(errno));
  }
  ~ReadFile() { ::close(handle_); }
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  void read(void* into, size_t size, size_t at) const {
    if (::pread(handle_, into, size, static_cast<off_t>(at))
        != static_cast<ssize_t>(size))
      refuse_flight(path_, no_flight);
  }
  /// That of the span in a slot; 0: none is.
  uint64_t number(uint64_t slot) const {
    uint64_t out = 0;
    read(&out, sizeof out, slots_at + slot * sizeof(Slot));
    return out;
  }

private:
  const std::string& path_;
  int handle_;
};

} // namespace

Flight read_newest_spans(const std::string& path, size_t count) {
  const ReadFile file{path};
  std::array<char, sizeof(Head)> head{};
  file.read(head.data(), head.size(), 0);
  auto out = flight_of(head.data(), path);
  // Slots are written in turn: those of this round come first, each numbered
  // one higher than the slot before.
  const auto first = file.number(0);
  if (first == 0)
    return out;
  uint64_t newest = 0; // slot
  for (uint64_t above = FlightRecorder::capacity; above - newest > 1;) {
    const auto middle = newest + (above - newest) / 2;
    (file.number(middle) == first + middle ? newest : above) = middle;
  }
  const auto last = first + newest; // number
  const auto kept = std::min({uint64_t{count}, last, FlightRecorder::capacity});
  for (uint64_t i = 0; i < kept; ++i) { // a file may say any number
    const auto slot = (last - i - 1) % FlightRecorder::capacity;
    std::array<char, sizeof(Slot)> bytes{};
    file.read(bytes.data(), bytes.size(), slots_at + slot * bytes.size());
    take_span(bytes.data(), slot, out.spans);
  }
  std::ranges::sort(out.spans, {}, &Span::begin_ns);
  return out;
}

namespace {

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file)
    refuse_flight(path, reason_of(errno));
  std::vector<char> bytes(file_size + 1);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.gcount() != static_cast<std::streamsize>(file_size))
    refuse_flight(path, no_flight);
  return bytes;
}

} // namespace

Flight read_flight(const std::string& path) {
  const auto bytes = bytes_of(path);
  auto out = flight_of(bytes.data(), path);
  for (uint64_t i = 0; i < FlightRecorder::capacity; ++i)
    take_span(bytes.data() + slots_at + i * sizeof(Slot), i, out.spans);
  std::ranges::sort(out.spans, {}, &Span::begin_ns);
  return out;
}

namespace {

/// Those of a table that a recorder may have written, in their places.
Seconds sound_seconds(const char* bytes) {
  Seconds out;
  std::memcpy(&out, bytes, sizeof out);
  const auto too_long = [](uint64_t ns) { return ns > uint64_t{furthest_ns}; };
  for (uint64_t i = 0; i < Seconds::kept; ++i)
    if (auto& second = out.all[i];
        second.number % Seconds::kept != i
        || second.number > uint64_t{furthest_ns} / ns_of_a_second
        || std::ranges::any_of(second.ns, too_long))
      second = {};
  return out;
}

} // namespace

uint64_t FlightSeconds::unix_ms(const FlightSecond& second) const {
  const auto begin = static_cast<int64_t>((second.number - 1) * ns_of_a_second)
                     + flight.to_unix_ns;
  return static_cast<uint64_t>(std::max(int64_t{0}, begin)) / 1'000'000;
}

FlightSeconds read_flight_seconds(const std::string& path) {
  const auto bytes = bytes_of(path);
  FlightSeconds out{flight_of(bytes.data(), path)};
  auto seconds = sound_seconds(bytes.data() + seconds_at);
  for (uint64_t i = 0; i < FlightRecorder::capacity; ++i) {
    const auto* at = bytes.data() + slots_at + i * sizeof(Slot);
    uint64_t number = 0;
    std::memcpy(&number, at, sizeof number);
    if (number > seconds.booked)
      take_span(at, i, out.flight.spans);
  }
  for (const auto& span : out.flight.spans)
    add(span, seconds);
  out.flight.spans.clear();
  std::ranges::sort(seconds.all, {}, &FlightSecond::number);
  const auto newest = seconds.all.back().number;
  for (const auto& second : seconds.all)
    if (second.number > 0 && second.number + FlightSeconds::shown > newest)
      out.seconds.push_back(second);
  return out;
}

namespace {

/// Of all files of recorders in a folder; read(path) reads one. Returns how
/// many are none.
template <class Read>
size_t read_files(const std::string& folder, Read read) {
  std::error_code failure;
  size_t found = 0, passed_over = 0;
  for (const auto& entry : fs::directory_iterator{folder, failure}) {
    if (entry.path().extension() != suffix)
      continue;
    try {
      if (!entry.is_regular_file())
        throw InputError("is no file");
      read(entry.path().string());
      ++found;
    } catch (const InputError&) {
      ++passed_over;
    }
  }
  if (found == 0)
    throw InputError(folder + ": no flight recorder's files (*.flight) here"
                     + (passed_over > 0 ? ", and " + std::to_string(passed_over)
                                            + " that are none"
                                        : "")
                     + (failure ? " (" + failure.message() + ')' : ""));
  return passed_over;
}

std::pair<std::string, uint64_t> order_of(const Flight& flight) {
  return {flight.role, flight.process};
}

} // namespace

Flights read_flights(const std::string& folder) {
  Flights out;
  out.passed_over = read_files(folder, [&](const std::string& path) {
    out.all.push_back(read_flight(path));
  });
  std::ranges::sort(out.all, {}, order_of);
  return out;
}

AllFlightSeconds read_all_flight_seconds(const std::string& folder) {
  AllFlightSeconds out;
  out.passed_over = read_files(folder, [&](const std::string& path) {
    out.all.push_back(read_flight_seconds(path));
  });
  std::ranges::sort(out.all, {},
                    [](const FlightSeconds& x) { return order_of(x.flight); });
  return out;
}

} // namespace troupe
