#pragma once

#include "actors/certificates/certificate.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace troupe {

/// Whose certificates hold no longer: all that were issued to a member up to a
/// moment. Kept in a file where there is one. Thread-safe.
class Revocations {
public:
  /// Reads what the file has; `path` empty: none is kept.
  /// Errors: InputError naming a file that cannot be read as such.
  void keep_in(std::string path);
  /// What was issued to the member up to that moment holds no longer. Returns
  /// whether that is new. Errors: InputError where the file cannot be written;
  /// it holds all the same.
  bool revoke(const MemberName& name, int64_t until);
  /// Members, and the Unix times up to which they are revoked.
  std::map<MemberName, int64_t> all() const;
  bool is_revoked(const MemberName& name, const Period& period) const;

private:
  mutable std::mutex mutex_;
  std::string path_;
  std::map<MemberName, int64_t> until_; ///< Unix time of issue
};

} // namespace troupe
