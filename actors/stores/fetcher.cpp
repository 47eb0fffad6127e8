#include "actors/stores/fetcher.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/file_url.hpp"
#include "kernels/numbers/random.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <random>
#include <string_view>
#include <utility>

namespace troupe {

namespace {

constexpr uint64_t max_document = uint64_t{16} << 20;
constexpr size_t max_objects = 10'000'000;
constexpr size_t max_pages = 100'000; ///< of a listing, mostly of 1000 objects
constexpr size_t max_empty_pages = 1000; ///< one after another

uint64_t now_ms() {
  using namespace std::chrono;
  return static_cast<uint64_t>(
    duration_cast<milliseconds>(SteadyClock::now().time_since_epoch()).count());
}

int64_t time_s() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

bool is_s3(const std::string& url) {
  return url.starts_with("s3://");
}

/// What tries are counted by.
std::string host_of_url(std::string_view url) {
  const auto start = url.find("://") + 3;
  return std::string{url.substr(start, url.find_first_of("/?", start) - start)};
}

int code_of(FetchEnd end) {
  switch (end) {
    case FetchEnd::missing:
      return ENOENT;
    case FetchEnd::refused:
      return EACCES;
    default:
      return EIO;
  }
}

/// An S3 answer's own word for what is wrong beside the number.
std::string with_word(std::string why, const std::string& word) {
  if (!word.empty() && why.ends_with(')'))
    why.insert(why.size() - 1, " " + word);
  else if (!word.empty())
    why += " (" + word + ")";
  return why;
}

} // namespace

Fetcher::Fetcher(const FetchTries::Options& tries, Environment environment)
  : options_(tries),
    environment_(std::move(environment)),
    chance_key_(std::random_device{}()) {}

Fetcher::~Fetcher() {
  end();
}

void Fetcher::end() {
  ending_ = true;
  const std::lock_guard guard{mutex_};
  ended_.notify_all();
}

/// False: the process ends.
bool Fetcher::rest(uint64_t ms) {
  std::unique_lock lock{mutex_};
  return !ended_.wait_for(lock, std::chrono::milliseconds{ms},
                          [this] { return ending_.load(); });
}

uint64_t Fetcher::draw() {
  return kernels::random_bits(chance_key_, draws_++);
}

AwsAccess Fetcher::access() {
  const std::lock_guard guard{mutex_};
  if (!access_)
    access_ = read_aws_access(environment_);
  return *access_;
}

bool Fetcher::has_keys() const {
  const std::lock_guard guard{mutex_};
  return access_ && access_->has_keys();
}

ObjectState Fetcher::state(const std::string& url) {
  std::vector<std::byte> body;
  const auto answer = run({url, {}, {0, 0, {}, {}}, false}, body);
  ObjectState state;
  state.state = answer.state();
  if (answer.status == 206) {
    if (!answer.range->total)
      throw InputError(shown_place(url)
                       + ": its server does not say how long it is; take "
                         "another server, or copy the file to this machine");
    state.bytes = *answer.range->total;
  }
  return state;
}

std::vector<std::byte> Fetcher::range(const std::string& url,
                                      const ObjectState& of, uint64_t offset,
                                      uint64_t count) {
  std::vector<std::byte> body;
  if (count == 0)
    return body;
  body.reserve(count);
  run({url, {}, {offset, offset + count - 1, of.bytes, of.state}, false}, body);
  return body;
}

std::vector<ListedObject> Fetcher::list(const S3Place& prefix, bool flat) {
  std::vector<ListedObject> objects;
  std::string next;
  size_t pages = 0;
  size_t empty_pages = 0;
  do {
    Errand errand{
      prefix.url(),
      {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix.key}},
      {},
      true};
    if (flat)
      errand.query.emplace_back("delimiter", "/");
    if (!next.empty())
      errand.query.emplace_back("continuation-token", next);
    std::vector<std::byte> body;
    run(errand, body);
    auto page = parse_s3_listing(
      {reinterpret_cast<const char*>(body.data()), body.size()});
    // Pages may be empty, but not without end: a store that always has another
    // one would never be through.
    empty_pages = page && page->objects.empty() ? empty_pages + 1 : 0;
    if (!page || empty_pages > max_empty_pages
        || (!page->next.empty() && page->next == next) || ++pages > max_pages)
      throw FileError(prefix.url()
                        + ": the store's list of objects cannot be "
                          "read; is this an S3 store? Check the endpoint",
                      EIO);
    next = std::move(page->next);
    objects.insert(objects.end(),
                   std::make_move_iterator(page->objects.begin()),
                   std::make_move_iterator(page->objects.end()));
    if (objects.size() > max_objects)
      throw InputError(prefix.url() + ": names more than 10,000,000 objects; "
                       + "put samples into fewer");
  } while (!next.empty());
  return objects;
}

HttpRequest Fetcher::prepared(const Errand& errand, uint64_t had,
                              Signed& with) {
  HttpRequest request;
  if (is_s3(errand.url)) {
    auto place = parse_s3_place(errand.url);
    const auto own = access();
    {
      const std::lock_guard guard{mutex_};
      if (const auto at = regions_.find(place.bucket); at != regions_.end())
        with.region = at->second;
    }
    if (errand.document)
      place.key.clear();
    const auto address = s3_address(place, own, with.region, errand.query);
    with = {address.region, own.keys.id, own.keys.token};
    request.url = address.url;
    for (const auto& [name, value] : address.request.headers)
      request.fields.push_back(name + ": " + value);
    if (own.has_keys())
      for (auto& field : signed_headers(address.request, own.keys,
                                        address.region, "s3", time_s()))
        request.fields.push_back(std::move(field));
  } else {
    request.url = errand.url;
    request.follow = true;
  }
  if (errand.document) {
    request.max_bytes = max_document;
    return request;
  }
  const auto& wish = errand.wish;
  const auto first = wish.first + had;
  request.max_bytes = wish.last + 1 - first;
  request.wants_part = first > 0 || wish.last + 1 != wish.total;
  request.fields.push_back("Range: bytes=" + std::to_string(first) + '-'
                           + std::to_string(wish.last));
  if (is_strong_tag(wish.state))
    request.fields.push_back("If-Match: " + wish.state);
  return request;
}

Judgement Fetcher::judged(const Errand& errand, const HttpTry& attempt,
                          uint64_t had,
                          const std::vector<std::byte>& body) const {
  const auto status = attempt.answer.status;
  if (attempt.end == FetchEnd::ended)
    return {attempt.end, attempt.why};
  if (status == 0 && attempt.end != FetchEnd::whole)
    return {attempt.end, attempt.why};
  auto wish = errand.wish;
  wish.first += had;
  auto result = errand.document && status == 200
                  ? Judgement{FetchEnd::whole, {}}
                  : judge(attempt.answer, wish);
  if (is_s3(errand.url) && result.end != FetchEnd::whole) {
    const auto word = parse_s3_error(attempt.error_body).code;
    result.why = with_word(std::move(result.why), word);
    if (word == "RequestTimeout" || word == "SlowDown")
      result.end = FetchEnd::busy;
  }
  if (result.end != FetchEnd::whole)
    return result;
  const bool empty = status == 416 || (status == 200 && !errand.wish.total);
  const auto wanted = errand.wish.last + 1 - errand.wish.first;
  if (!errand.document && !empty && body.size() == wanted)
    return result;
  if (attempt.end != FetchEnd::whole)
    return {attempt.end, attempt.why};
  if (!errand.document && !empty)
    return {FetchEnd::cut, "ended the connection too early"};
  return result;
}

/// `mutex_` is held.
bool Fetcher::has_other_keys(const Signed& with) const {
  return access_
         && (access_->keys.id != with.id || access_->keys.token != with.token);
}

/// Learns from an answer what was wrong with the request itself: the bucket
/// is in another region, or keys of a session have been replaced meanwhile,
/// which all fetches that were under way learn, one after the other.
bool Fetcher::corrected(const Errand& errand, const HttpTry& attempt,
                        const Signed& with) {
  const auto status = attempt.answer.status;
  if (!is_s3(errand.url)
      || (status != 301 && status != 307 && status != 400 && status != 403))
    return false;
  const auto error = parse_s3_error(attempt.error_body);
  auto other = attempt.answer.region;
  if (other.empty())
    other = error.region;
  const std::lock_guard guard{mutex_};
  if (!other.empty() && other != with.region) {
    regions_[parse_s3_place(errand.url).bucket] = other;
    return true;
  }
  if (error.code == "ExpiredToken" || error.code == "InvalidAccessKeyId") {
    if (!has_other_keys(with))
      access_ = read_aws_access(environment_);
    return has_other_keys(with);
  }
  return false;
}

HttpAnswer Fetcher::run(const Errand& errand, std::vector<std::byte>& body) {
  const auto begun = now_ms();
  std::string host;
  std::optional<FetchTries> tries;
  bool may_correct = true;
  while (true) {
    Signed with;
    auto request = prepared(errand, body.size(), with);
    if (!tries) {
      host = host_of_url(request.url);
      const std::lock_guard guard{mutex_};
      tries.emplace(options_, answered_.contains(host), begun);
    }
    request.patience = std::chrono::milliseconds{
      std::max<uint64_t>(1, tries->left_ms(now_ms()))};
    const auto had = body.size();
    ++requests_;
    auto attempt = client_.get(request, body, ending_);
    bytes_ += body.size() - had;
    if (attempt.answer.status != 0) {
      const std::lock_guard guard{mutex_};
      answered_.insert(host);
    }
    const auto judgement = judged(errand, attempt, had, body);
    if (judgement.end == FetchEnd::whole)
      return attempt.answer;
    // What came of a part is kept; anything else is not the object.
    const bool part = attempt.answer.status == 206 && !errand.document
                      && (judgement.end == FetchEnd::cut
                          || judgement.end == FetchEnd::stalled);
    if (!part
        || judge(attempt.answer, {errand.wish.first + had, errand.wish.last,
                                  errand.wish.total, errand.wish.state})
               .end
             != FetchEnd::whole)
      body.resize(had);
    if (may_correct && corrected(errand, attempt, with)) {
      may_correct = false;
      continue;
    }
    constexpr uint64_t longest_later_s = 3600;
    const auto later =
      1000 * std::min(attempt.answer.retry_after_s, longest_later_s);
    const auto verdict = tries->ended(judgement.end, now_ms(), later, draw());
    if (!verdict.again)
      refuse(errand, judgement, *tries, now_ms() - begun);
    ++tries_again_;
    if (!rest(verdict.rest_ms))
      refuse(errand, {FetchEnd::ended, "was given up, as the process ends"},
             *tries, now_ms() - begun);
  }
}

std::string Fetcher::advice(const Errand& errand, FetchEnd end) const {
  const bool s3 = is_s3(errand.url);
  switch (end) {
    case FetchEnd::unresolved:
      return "check the host's name, and the network";
    case FetchEnd::unreachable:
      return "check the address, and that the server runs";
    case FetchEnd::untrusted:
      return "mend the server's certificate, or name a file of authorities "
             "with CURL_CA_BUNDLE";
    case FetchEnd::cut:
    case FetchEnd::stalled:
    case FetchEnd::busy:
    case FetchEnd::failed:
      return "look at the server, or give it longer with --data-timeout";
    case FetchEnd::refused:
      if (!s3)
        return "the server lets nobody have it without a name: write a signed "
               "URL into a file and name that, as @FILE";
      return has_keys()
               ? "check what the keys may do, that they are of this store, and "
                 "this machine's clock"
               : "no keys were found: set AWS_ACCESS_KEY_ID and "
                 "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";
    case FetchEnd::missing:
      return s3 ? "check bucket and key, and the endpoint" : "check the URL";
    case FetchEnd::changed:
      return "let its writer finish, then start again";
    case FetchEnd::no_ranges:
      return "take a server that answers range requests, or copy the file to "
             "this machine";
    case FetchEnd::ended:
      return "start again";
    case FetchEnd::whole:
    case FetchEnd::odd:
      break;
  }
  return s3 ? "check the endpoint, and the URL" : "check the URL";
}

void Fetcher::refuse(const Errand& errand, const Judgement& judgement,
                     const FetchTries& tries, uint64_t spent_ms) const {
  auto line = shown_place(errand.url) + ": " + judgement.why;
  if (tries.tries() > 1)
    line += ", after " + std::to_string(tries.tries()) + " tries in "
            + std::to_string((spent_ms + 999) / 1000) + " s";
  throw FileError(line + "; " + advice(errand, judgement.end),
                  code_of(judgement.end));
}

} // namespace troupe
