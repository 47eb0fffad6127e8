#pragma once

#include "actors/stores/aws_access.hpp"
#include "actors/stores/http_client.hpp"
#include "actors/stores/s3_address.hpp"
#include "actors/stores/s3_listing.hpp"
#include "strategies/fetch_tries.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// An object as it was when it was first looked at.
struct ObjectState {
  uint64_t bytes = 0;
  std::string state; ///< HttpAnswer::state(); empty: none is known

  bool operator==(const ObjectState&) const = default;
};

/// Fetches parts of objects at http://, https:// and s3:// URLs: each try is
/// signed anew where that is needed, what failed for a while is tried again
/// until the deadline (strategies/fetch_tries), and what came before a
/// connection broke is kept. Any thread may ask; each waits for its own fetch.
class Fetcher {
public:
  Fetcher(const FetchTries::Options& tries, Environment environment);
  ~Fetcher();

  /// Looks at an object without fetching it. Errors: FileError "URL: why;
  /// what to do", whose code is ENOENT where it is not there, EACCES where it
  /// is refused.
  ObjectState state(const std::string& url);

  /// The bytes [offset, offset + count) of an object, all of which it has.
  /// Errors: as state(); also where it is not what `of` says any more.
  std::vector<std::byte> range(const std::string& url, const ObjectState& of,
                               uint64_t offset, uint64_t count);

  /// All objects of a bucket that begin with a prefix; `flat`: without those
  /// that have a slash behind it.
  /// Errors: as state().
  std::vector<ListedObject> list(const S3Place& prefix, bool flat);

  /// Ends what goes on, and refuses more: every thread returns soon.
  void end();

  uint64_t requests() const { return requests_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t tries_again() const { return tries_again_; }

private:
  /// What one fetch asks for.
  struct Errand {
    std::string url; ///< as it was given
    Query query;     ///< of a listing
    RangeWish wish;
    bool document = false; ///< all of an answer, however long
  };

  /// What a try was signed for, which its answer may say is wrong.
  struct Signed {
    std::string region;
    std::string id;    ///< of the keys
    std::string token; ///< of their session
  };

  HttpAnswer run(const Errand& errand, std::vector<std::byte>& body);
  HttpRequest prepared(const Errand& errand, uint64_t had, Signed& with);
  Judgement judged(const Errand& errand, const HttpTry& attempt, uint64_t had,
                   const std::vector<std::byte>& body) const;
  bool corrected(const Errand& errand, const HttpTry& attempt,
                 const Signed& with);
  bool has_other_keys(const Signed& with) const;
  bool rest(uint64_t ms);
  uint64_t draw();
  AwsAccess access();
  bool has_keys() const;
  std::string advice(const Errand& errand, FetchEnd end) const;
  [[noreturn]] void refuse(const Errand& errand, const Judgement& judgement,
                           const FetchTries& tries, uint64_t spent_ms) const;

  FetchTries::Options options_;
  Environment environment_;
  HttpClient client_;
  std::atomic<bool> ending_ = false;
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> tries_again_ = 0;
  std::atomic<uint64_t> draws_ = 0;
  uint64_t chance_key_;
  mutable std::mutex mutex_; ///< of what follows
  std::condition_variable ended_;
  std::optional<AwsAccess> access_;            ///< read when it is wanted
  std::map<std::string, std::string> regions_; ///< of buckets, as stores said
  std::set<std::string> answered_;             ///< hosts that have
};

} // namespace troupe
